// SPDX-License-Identifier: Apache-2.0
//! liblinear: training whose working set changes from phase to phase.
//!
//! What it does: alternates between sweeps over all examples and work on the weights of active features, in
//! another part of memory each time. A policy has the length of a phase to find the working set.
//! Where it comes from: Liblinear in ARMS (7), which reports the gain of adaptive batches; lengths and shares
//! are ours.

use tierline_core::port::PageKind;
use tierline_core::unit::{Bytes, Nanos};

use super::knob::{MAX_SET, MAX_THREADS, MAX_TIME, MIN_SET, MIN_TIME, gib, program_knobs};
use super::program::{Layout, Memory, Phase, Placement, Program, Reach};

program_knobs! {
    /// Its knobs.
    pub struct Liblinear {
        /// All memory.
        set: Bytes = gib(48), MIN_SET, MAX_SET;
        /// The working set of a phase.
        active: Bytes = gib(8), MIN_SET, MAX_SET;
        /// Threads.
        threads: f64 = 12.0, 0.0, MAX_THREADS;
        /// Length of a phase.
        phase: Nanos = Nanos::from_secs(20), MIN_TIME, MAX_TIME;
    }
}

/// Number of phases in a cycle.
const PHASES: u64 = 4;

impl Liblinear {
    /// The program.
    pub fn program(self) -> Result<Program, String> {
        let phase = |at: u64| Phase {
            lasts: Some(self.phase),
            jump: Bytes(self.active.0 * at),
            ..Phase::forever(
                vec![(self.active, 0.85), (self.set, 0.15)],
                Layout::Scattered(Bytes::from_mib(8)),
            )
        };
        Ok(Program {
            name: "liblinear".into(),
            bytes: self.set,
            kind: PageKind::Anonymous,
            threads: self.threads,
            reach: Reach::Objects(8.0),
            writes_per_read: 0.2,
            reads_per_op: 1.0,
            unit: "lines",
            phases: (0..PHASES).map(phase).collect(),
            placement: Placement::FirstTouch,
            managed: true,
            memory: Memory::default(),
        })
    }
}
