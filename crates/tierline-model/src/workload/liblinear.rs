// SPDX-License-Identifier: Apache-2.0
//! liblinear: training whose working set changes from phase to phase.
//!
//! What it does: alternates between sweeps over all examples and work on the weights of active features, in
//! another part of memory each time. A policy has the length of a phase to find the working set.
//! Where it comes from: Liblinear in ARMS (7), which reports the gain of adaptive batches; lengths and shares
//! are ours.

use serde::Deserialize;
use tierline_core::port::PageKind;
use tierline_core::unit::{Bytes, Nanos};

use super::program::{Layout, Memory, Phase, Placement, Program, Reach};
use crate::text;

/// Its knobs.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Liblinear {
    /// All memory.
    #[serde(deserialize_with = "text::quantity")]
    pub set: Bytes,
    /// The working set of a phase.
    #[serde(deserialize_with = "text::quantity")]
    pub active: Bytes,
    /// Threads.
    pub threads: f64,
    /// Length of a phase.
    #[serde(deserialize_with = "text::quantity")]
    pub phase: Nanos,
}

impl Default for Liblinear {
    fn default() -> Self {
        Self {
            set: Bytes::from_mib(48 << 10),
            active: Bytes::from_mib(8 << 10),
            threads: 12.0,
            phase: Nanos::from_secs(20),
        }
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
