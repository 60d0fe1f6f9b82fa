// SPDX-License-Identifier: Apache-2.0
//! kv: a key-value store with Zipf-distributed keys, whose popularity may drift.
//!
//! What it does: looks up keys and updates some. The probability of a key's page falls with its rank to the
//! power of the skew. Slabs of values are scattered over memory. With drift, popularity moves through the
//! ranks: hot keys slowly become less hot, and new keys become the hottest.
//! Where it comes from: YCSB's distribution with skew 0.99; sizes as Silo in Colloid (SOSP'24, 5.3: 400 million
//! keys of 64 + 100 bytes, about 60 GB). The distribution is represented by bands, each spanning a factor of
//! 1.25 in rank.

use tierline_core::port::PageKind;
use tierline_core::unit::{Bytes, BytesPerSec};

use super::knob::{MAX_OBJECT, MAX_RATE, MAX_SET, MAX_THREADS, MIN_SET, gib, program_knobs};
use super::program::{Change, Layout, Memory, Phase, Placement, Program, Reach};
use crate::arithmetic::pow;

/// Ratio of the widths of neighbouring bands.
const RATIO: f64 = 1.25;

program_knobs! {
    /// Its knobs.
    pub struct Kv {
        /// All memory.
        set: Bytes = gib(60), MIN_SET, MAX_SET;
        /// The exponent of Zipf's law.
        skew: f64 = 0.99, 0.0, 3.0;
        /// Size of a key and its value.
        object: Bytes = Bytes(164), Bytes(1), MAX_OBJECT;
        /// Threads.
        threads: f64 = 15.0, 0.0, MAX_THREADS;
        /// Share of look-ups that update.
        updates: f64 = 0.05, 0.0, 1.0;
        /// Granularity: contiguous memory of equal popularity.
        chunk: Bytes = Bytes::from_mib(2), MIN_SET, MAX_SET;
        /// Rate of drift.
        drift: Option<BytesPerSec> = None, Some(BytesPerSec(1)), Some(MAX_RATE);
    }
}

impl Kv {
    /// The program.
    pub fn program(self) -> Result<Program, String> {
        let lines = lines(self.object);
        let bands = zipf(self.set, self.chunk, self.skew);
        let mut phase = Phase::forever(bands, Layout::Scattered(self.chunk));
        phase.change = self.drift.map_or(Change::None, Change::Drift);
        Ok(Program {
            name: "kv".into(),
            bytes: self.set,
            kind: PageKind::Anonymous,
            threads: self.threads,
            reach: Reach::Objects(lines),
            writes_per_read: self.updates,
            reads_per_op: lines,
            unit: "lookups",
            phases: vec![phase],
            placement: Placement::FirstTouch,
            managed: true,
            memory: Memory::default(),
        })
    }
}

/// Whole cache lines per object.
#[expect(clippy::cast_precision_loss, reason = "an object is small")]
pub(super) fn lines(object: Bytes) -> f64 {
    object.0.div_ceil(64).max(1) as f64
}

/// Bands of Zipf's law over `set`, ranked by chunk. The weight of a band is the integral of rank to the power
/// of minus the skew, by Simpson's rule.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ranks of one machine's memory"
)]
pub(super) fn zipf(set: Bytes, chunk: Bytes, skew: f64) -> Vec<(Bytes, f64)> {
    let last = (set.0 as f64 / chunk.0.max(1) as f64).max(1.0);
    let density = |rank: f64| pow(rank, -skew);
    let (mut bands, mut from) = (Vec::new(), 0.0);
    while from < last {
        let next: f64 = from * RATIO + 1.0;
        let to = (next as u64 as f64).min(last);
        let (a, b) = (from + 0.5, to + 0.5);
        let area = density(a) + 4.0 * density(0.5 * (a + b)) + density(b);
        bands.push((Bytes((to * chunk.0 as f64) as u64), area * (b - a) / 6.0));
        from = to;
    }
    bands
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 10,000 ranks with skew 1, the first 100 get ln(100)/ln(10000), about half.
    #[test]
    fn bands_follow_zipfs_law() {
        let bands = zipf(Bytes(10_000), Bytes(1), 1.0);
        let all: f64 = bands.iter().map(|(_, share)| share).sum();
        let first: f64 = bands.iter().filter(|(end, _)| end.0 <= 100).map(|(_, share)| share).sum();
        assert!((0.48..0.56).contains(&(first / all)), "{}", first / all);
        assert!(bands.len() < 60 && bands.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
