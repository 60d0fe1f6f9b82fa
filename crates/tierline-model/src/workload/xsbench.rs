// SPDX-License-Identifier: Apache-2.0
//! xsbench: a small hot index; all other memory is equally popular.
//!
//! What it does: each look-up searches the unionised energy grid, whose upper levels are hot, then reads cross
//! sections anywhere. The hot part easily fits into fast memory. The rest is uniform, so moving it is wasted
//! effort.
//! Where it comes from: XSBench in NeoMem (MICRO'24) and ARMS (7: 65 GB; there HeMem makes wasteful moves). The
//! shares are ours.

use tierline_core::port::PageKind;
use tierline_core::unit::Bytes;

use super::knob::{MAX_SET, MAX_THREADS, MIN_SET, gib, program_knobs};
use super::program::{Layout, Memory, Phase, Placement, Program, Reach};

program_knobs! {
    /// Its knobs.
    pub struct XsBench {
        /// All memory.
        set: Bytes = gib(65), MIN_SET, MAX_SET;
        /// The index.
        index: Bytes = gib(4), MIN_SET, MAX_SET;
        /// Share of reads that go to the index.
        index_share: f64 = 0.6, 0.0, 1.0;
        /// Threads.
        threads: f64 = 12.0, 0.0, MAX_THREADS;
    }
}

impl XsBench {
    /// The program.
    pub fn program(self) -> Result<Program, String> {
        let bands = vec![(self.index, self.index_share), (self.set, 1.0 - self.index_share)];
        Ok(Program {
            name: "xsbench".into(),
            bytes: self.set,
            kind: PageKind::Anonymous,
            threads: self.threads,
            // A binary search waits for each line before it knows the next.
            reach: Reach::Fixed(2.0, 20.0),
            writes_per_read: 0.0,
            reads_per_op: 30.0,
            unit: "lookups",
            phases: vec![Phase::forever(bands, Layout::Front)],
            placement: Placement::FirstTouch,
            managed: true,
            memory: Memory::default(),
        })
    }
}
