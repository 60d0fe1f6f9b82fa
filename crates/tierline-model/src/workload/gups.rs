// SPDX-License-Identifier: Apache-2.0
//! gups: random updates to a hot set and, more rarely, to everything.
//!
//! What it does: each thread picks a random object, from the hot set with probability 0.9 and from the whole
//! set with 0.1, reads and updates it. The hot set may jump once.
//! Where it comes from: HeMem (SOSP'21) and Colloid (SOSP'24, 2.1): 72 GB, of which a random 24 GB is hot; 64
//! bytes read and updated; 15 threads. With 4 KiB objects, prefetchers are effective (5.1). At the jump, "a
//! different set of random pages" becomes hot (5.2), here of equal size and disjoint.

use tierline_core::port::PageKind;
use tierline_core::unit::{Bytes, Nanos};

use super::knob::{
    MAX_OBJECT, MAX_SET, MAX_THREADS, MAX_TIME, MIN_SET, MIN_TIME, gib, program_knobs,
};
use super::kv::lines;
use super::program::{Layout, Memory, Phase, Placement, Program, Reach};

program_knobs! {
    /// Its knobs.
    pub struct Gups {
        /// All memory.
        set: Bytes = gib(72), MIN_SET, MAX_SET;
        /// The hot part.
        hot: Bytes = gib(24), MIN_SET, MAX_SET;
        /// Share of accesses to the hot set only; the rest goes to the whole set.
        hot_share: f64 = 0.9, 0.0, 1.0;
        /// Size of an object.
        object: Bytes = Bytes(64), Bytes(1), MAX_OBJECT;
        /// Threads.
        threads: f64 = 15.0, 0.0, MAX_THREADS;
        /// Lines updated per line read.
        updates: f64 = 1.0, 0.0, 1.0;
        /// Granularity: the hot set consists of chunks of this size.
        chunk: Bytes = Bytes::from_mib(2), MIN_SET, MAX_SET;
        /// Time of the jump, after the start.
        jump: Option<Nanos> = None, Some(MIN_TIME), Some(MAX_TIME);
    }
}

impl Gups {
    /// The program.
    pub fn program(self) -> Result<Program, String> {
        if self.hot > self.set {
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
