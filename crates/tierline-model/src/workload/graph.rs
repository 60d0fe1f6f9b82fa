// SPDX-License-Identifier: Apache-2.0
//! graph: loads a graph, then iterates over it with a few hot vertices.
//!
//! What it does: a build phase writes the edge list sequentially. Then iterations stream edges and gather the
//! ranks of their ends, whose popularity follows the skewed degrees. The hot set of loading differs from that
//! of the iterations.
//! Where it comes from: GAPBS PageRank on Twitter in Colloid (SOSP'24, 5.3: 38 GB, a third of it fast) and
//! NeoMem (table 6: generate, build, trials). Shares of the phases are ours.

use tierline_core::port::PageKind;
use tierline_core::unit::{Bytes, Nanos};

use super::knob::{MAX_SET, MAX_THREADS, MAX_TIME, MIN_SET, MIN_TIME, gib, program_knobs};
use super::program::{Change, Layout, Memory, Phase, Placement, Program, Reach};

program_knobs! {
    /// Its knobs.
    pub struct Graph {
        /// All memory: edges and vertices.
        set: Bytes = gib(38), MIN_SET, MAX_SET;
        /// The popular vertices.
        hubs: Bytes = gib(2), MIN_SET, MAX_SET;
        /// All vertices.
        vertices: Bytes = gib(8), MIN_SET, MAX_SET;
        /// Threads.
        threads: f64 = 15.0, 0.0, MAX_THREADS;
        /// Duration of loading.
        build: Nanos = Nanos::from_secs(20), MIN_TIME, MAX_TIME;
    }
}

impl Graph {
    /// The program.
    pub fn program(self) -> Result<Program, String> {
        if !(self.hubs <= self.vertices && self.vertices <= self.set) {
            return Err("expected hubs <= vertices <= set".into());
        }
        let window = Bytes::from_mib(512).min(self.set);
        let build = Phase {
            lasts: Some(self.build),
            change: Change::Sweep,
            ..Phase::forever(vec![(window, 1.0), (self.set, 0.05)], Layout::Back)
        };
        // Half of all lines are streamed edges; the other half are vertices, most of them hubs.
        let iterate = Phase::forever(
            vec![(self.hubs, 0.35), (self.vertices, 0.15), (self.set, 0.5)],
            Layout::Scattered(Bytes::from_mib(2)),
        );
        Ok(Program {
            name: "graph".into(),
            bytes: self.set,
            kind: PageKind::Anonymous,
            threads: self.threads,
            reach: Reach::Objects(4.0),
            writes_per_read: 0.1,
            reads_per_op: 1.0,
            unit: "lines",
            phases: vec![build, iterate],
            placement: Placement::FirstTouch,
            managed: true,
            memory: Memory::default(),
        })
    }
}
