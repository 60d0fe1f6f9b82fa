// SPDX-License-Identifier: Apache-2.0
//! latest: memory grows, and the newest memory is accessed most.
//!
//! What it does: rows are appended and read soon afterwards; older rows are read less and less. Fast memory
//! fills with pages that are no longer hot, and only a policy that demotes early has room for new ones.
//! Where it comes from: TPC-C on Silo in ARMS (7: 75.7 GB, "growing") and YCSB's "latest" distribution; the
//! target of TPP's headroom (ASPLOS'23, 5.2). The shares are ours.

use tierline_core::port::PageKind;
use tierline_core::unit::{Bytes, BytesPerSec};

use super::knob::{MAX_OBJECT, MAX_RATE, MAX_SET, MAX_THREADS, MIN_SET, gib, program_knobs};
use super::kv::lines;
use super::program::{Change, Layout, Memory, Phase, Placement, Program, Reach};

program_knobs! {
    /// Its knobs.
    pub struct Latest {
        /// Memory at the end.
        set: Bytes = gib(75), MIN_SET, MAX_SET;
        /// Memory at the start.
        start_set: Bytes = gib(20), MIN_SET, MAX_SET;
        /// Growth rate.
        growth: BytesPerSec = BytesPerSec(512 << 20), BytesPerSec(0), MAX_RATE;
        /// Size of the newest part, which gets half of all accesses; twice that age gets a quarter, and so on.
        fresh: Bytes = gib(4), MIN_SET, MAX_SET;
        /// Size of a row.
        object: Bytes = Bytes(256), Bytes(1), MAX_OBJECT;
        /// Threads.
        threads: f64 = 12.0, 0.0, MAX_THREADS;
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
