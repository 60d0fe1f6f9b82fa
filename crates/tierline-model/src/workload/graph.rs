// SPDX-License-Identifier: Apache-2.0
//! graph: loads a graph, then iterates over it with a few hot vertices.
//!
//! What it does: a build phase writes the edge list sequentially. Then iterations stream edges and gather the
//! ranks of their ends, whose popularity follows the skewed degrees. The hot set of loading differs from that
//! of the iterations.
//! Where it comes from: GAPBS PageRank on Twitter in Colloid (SOSP'24, 5.3: 38 GB, a third of it fast) and
//! NeoMem (table 6: generate, build, trials). Shares of the phases are ours.

use serde::Deserialize;
use tierline_core::port::PageKind;
use tierline_core::unit::{Bytes, Nanos};

use super::program::{Change, Layout, Memory, Phase, Placement, Program, Reach};
use crate::text;

/// Its knobs.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Graph {
    /// All memory: edges and vertices.
    #[serde(deserialize_with = "text::quantity")]
    pub set: Bytes,
    /// The popular vertices.
    #[serde(deserialize_with = "text::quantity")]
    pub hubs: Bytes,
    /// All vertices.
    #[serde(deserialize_with = "text::quantity")]
    pub vertices: Bytes,
    /// Threads.
    pub threads: f64,
    /// Duration of loading.
    #[serde(deserialize_with = "text::quantity")]
    pub build: Nanos,
}

impl Default for Graph {
    fn default() -> Self {
        Self {
            set: Bytes::from_mib(38 << 10),
            hubs: Bytes::from_mib(2 << 10),
            vertices: Bytes::from_mib(8 << 10),
            threads: 15.0,
            build: Nanos::from_secs(20),
        }
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
