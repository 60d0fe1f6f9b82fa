// SPDX-License-Identifier: Apache-2.0
//! scan: sweeps through its memory, repeatedly.
//!
//! What it does: streams through all of its memory at the machine's speed; at any moment only a window is
//! accessed. No placement helps a sweep over more memory than fast memory holds, and a policy that treats it as
//! a hot set gains nothing for its moves.
//! Where it comes from: the scans of DLRM tables and of analytical queries in TPP (ASPLOS'23, 3) and Mercury;
//! the pattern that evicts the working set of recency-based policies.

use tierline_core::port::PageKind;
use tierline_core::unit::Bytes;

use super::knob::{MAX_SET, MAX_THREADS, MIN_SET, gib, program_knobs};
use super::program::{Change, Layout, Memory, Phase, Placement, Program, Reach};

program_knobs! {
    /// Its knobs.
    pub struct Scan {
        /// All memory.
        set: Bytes = gib(64), MIN_SET, MAX_SET;
        /// Size of the window.
        window: Bytes = Bytes::from_mib(256), MIN_SET, MAX_SET;
        /// Threads.
        threads: f64 = 4.0, 0.0, MAX_THREADS;
        /// Lines written per line read.
        writes: f64 = 0.0, 0.0, 1.0;
    }
}

impl Scan {
    /// The program.
    pub fn program(self) -> Result<Program, String> {
        let bands = vec![(self.window.min(self.set), 1.0), (self.set, 0.0)];
        let mut phase = Phase::forever(bands, Layout::Back);
        phase.change = Change::Sweep;
        Ok(Program {
            name: "scan".into(),
            bytes: self.set,
            kind: PageKind::Anonymous,
            threads: self.threads,
            reach: Reach::Stream,
            writes_per_read: self.writes,
            reads_per_op: 1.0,
            unit: "lines",
            phases: vec![phase],
            placement: Placement::FirstTouch,
            managed: true,
            memory: Memory::default(),
        })
    }
}
