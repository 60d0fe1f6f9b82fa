// SPDX-License-Identifier: Apache-2.0
//! scan: sweeps through its memory, repeatedly.
//!
//! What it does: streams through all of its memory at the machine's speed; at any moment only a window is
//! accessed. No placement helps a sweep over more memory than fast memory holds, and a policy that treats it as
//! a hot set gains nothing for its moves.
//! Where it comes from: the scans of DLRM tables and of analytical queries in TPP (ASPLOS'23, 3) and Mercury;
//! the pattern that evicts the working set of recency-based policies.

use serde::Deserialize;
use tierline_core::port::PageKind;
use tierline_core::unit::Bytes;

use super::program::{Change, Layout, Memory, Phase, Placement, Program, Reach};
use crate::text;

/// Its knobs.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scan {
    /// All memory.
    #[serde(deserialize_with = "text::quantity")]
    pub set: Bytes,
    /// Size of the window.
    #[serde(deserialize_with = "text::quantity")]
    pub window: Bytes,
    /// Threads.
    pub threads: f64,
    /// Lines written per line read.
    pub writes: f64,
}

impl Default for Scan {
    fn default() -> Self {
        Self {
            set: Bytes::from_mib(64 << 10),
            window: Bytes::from_mib(256),
            threads: 4.0,
            writes: 0.0,
        }
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
