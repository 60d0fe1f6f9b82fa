// SPDX-License-Identifier: Apache-2.0
//! latest: memory grows, and the newest memory is accessed most.
//!
//! What it does: rows are appended and read soon afterwards; older rows are read less and less. Fast memory
//! fills with pages that are no longer hot, and only a policy that demotes early has room for new ones.
//! Where it comes from: TPC-C on Silo in ARMS (7: 75.7 GB, "growing") and YCSB's "latest" distribution; the
//! target of TPP's headroom (ASPLOS'23, 5.2). The shares are ours.

use serde::Deserialize;
use tierline_core::port::PageKind;
use tierline_core::unit::{Bytes, BytesPerSec};

use super::kv::lines;
use super::program::{Change, Layout, Memory, Phase, Placement, Program, Reach};
use crate::text;

/// Its knobs.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Latest {
    /// Memory at the end.
    #[serde(deserialize_with = "text::quantity")]
    pub set: Bytes,
    /// Memory at the start.
    #[serde(deserialize_with = "text::quantity")]
    pub start_set: Bytes,
    /// Growth rate.
    #[serde(deserialize_with = "text::quantity")]
    pub growth: BytesPerSec,
    /// Size of the newest part, which gets half of all accesses; twice that age gets a quarter, and so on.
    #[serde(deserialize_with = "text::quantity")]
    pub fresh: Bytes,
    /// Size of a row.
    #[serde(deserialize_with = "text::quantity")]
    pub object: Bytes,
    /// Threads.
    pub threads: f64,
}

impl Default for Latest {
    fn default() -> Self {
        Self {
            set: Bytes::from_mib(75 << 10),
            start_set: Bytes::from_mib(20 << 10),
            growth: BytesPerSec(512 << 20),
            fresh: Bytes::from_mib(4 << 10),
            object: Bytes(256),
            threads: 12.0,
        }
    }
}

impl Latest {
    /// The program.
    pub fn program(self) -> Result<Program, String> {
        if self.start_set > self.set || self.fresh > self.start_set {
            return Err("expected fresh <= start_set <= set".into());
        }
        let mut bands = vec![(self.fresh, 0.5)];
        let mut share = 0.5;
        while let Some(&(until, _)) =
            bands.last().filter(|(until, _)| until.0 * 2 < self.start_set.0)
        {
            share *= 0.5;
            bands.push((until * 2, share));
        }
        bands.push((self.set, share));
        let mut phase = Phase::forever(bands, Layout::Back);
        phase.change = Change::Growth(self.start_set, self.growth);
        let lines = lines(self.object);
        Ok(Program {
            name: "latest".into(),
            bytes: self.set,
            kind: PageKind::Anonymous,
            threads: self.threads,
            reach: Reach::Objects(lines),
            writes_per_read: 0.3,
            reads_per_op: lines,
            unit: "rows",
            phases: vec![phase],
            placement: Placement::FirstTouch,
            managed: true,
            memory: Memory::default(),
        })
    }
}
