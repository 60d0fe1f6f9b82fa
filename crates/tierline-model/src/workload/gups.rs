// SPDX-License-Identifier: Apache-2.0
//! gups: random updates to a hot set and, more rarely, to everything.
//!
//! What it does: each thread picks a random object, from the hot set with probability 0.9 and from the whole
//! set with 0.1, reads and updates it. The hot set may jump once.
//! Where it comes from: HeMem (SOSP'21) and Colloid (SOSP'24, 2.1): 72 GB, of which a random 24 GB is hot; 64
//! bytes read and updated; 15 threads. With 4 KiB objects, prefetchers are effective (5.1). At the jump, "a
//! different set of random pages" becomes hot (5.2), here of equal size and disjoint.

use serde::Deserialize;
use tierline_core::port::PageKind;
use tierline_core::unit::{Bytes, Nanos};

use super::kv::lines;
use super::program::{Layout, Memory, Phase, Placement, Program, Reach};
use crate::text;

/// Its knobs.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gups {
    /// All memory.
    #[serde(deserialize_with = "text::quantity")]
    pub set: Bytes,
    /// The hot part.
    #[serde(deserialize_with = "text::quantity")]
    pub hot: Bytes,
    /// Share of accesses to the hot set only; the rest goes to the whole set.
    pub hot_share: f64,
    /// Size of an object.
    #[serde(deserialize_with = "text::quantity")]
    pub object: Bytes,
    /// Threads.
    pub threads: f64,
    /// Lines updated per line read.
    pub updates: f64,
    /// Granularity: the hot set consists of chunks of this size.
    #[serde(deserialize_with = "text::quantity")]
    pub chunk: Bytes,
    /// Time of the jump, after the start.
    #[serde(deserialize_with = "text::maybe")]
    pub jump: Option<Nanos>,
}

impl Default for Gups {
    fn default() -> Self {
        Self {
            set: Bytes::from_mib(72 << 10),
            hot: Bytes::from_mib(24 << 10),
            hot_share: 0.9,
            object: Bytes(64),
            threads: 15.0,
            updates: 1.0,
            chunk: Bytes::from_mib(2),
            jump: None,
        }
    }
}

impl Gups {
    /// The program.
    pub fn program(self) -> Result<Program, String> {
        if self.hot > self.set || self.hot == Bytes::ZERO {
            return Err(format!("hot is {} of a set of {}", self.hot, self.set));
        }
        #[expect(clippy::cast_precision_loss, reason = "bytes of one machine")]
        let part = self.hot.0 as f64 / self.set.0 as f64;
        let lines = lines(self.object);
        let of_hot = self.hot_share + (1.0 - self.hot_share) * part;
        let bands = vec![(self.hot, of_hot), (self.set, 1.0 - of_hot)];
        let before =
            Phase { lasts: self.jump, ..Phase::forever(bands, Layout::Scattered(self.chunk)) };
        let after = Phase { lasts: None, jump: self.hot, ..before.clone() };
        let phases = if self.jump.is_some() { vec![before, after] } else { vec![before] };
        Ok(Program {
            name: "gups".into(),
            bytes: self.set,
            kind: PageKind::Anonymous,
            threads: self.threads,
            reach: Reach::Objects(lines),
            writes_per_read: self.updates,
            reads_per_op: lines,
            unit: "updates",
            phases,
            placement: Placement::FirstTouch,
            managed: true,
            memory: Memory::default(),
        })
    }
}
