// SPDX-License-Identifier: Apache-2.0
//! A job class in a closed loop: so many misses are kept in flight, and a new one starts when one ends.
//!
//! `X = K / (Z + Σ_t wait_t·L_t)` reads per ns, with `K` = cores × misses in flight a core, `Z` = think
//! time a miss slot (Colloid, 2.2, with `Z = 0`: a core's throughput is `N·64/L`). Each read may bring
//! writes with it: write-backs to the same tier, or, when pages are copied, stores to another one.

use tierline_core::tier::TierId;

/// Bytes of a cache line, which is what a miss fetches.
pub const LINE_BYTES: f64 = 64.0;

/// A figure a tier; tiers beyond those of the machine are zero.
pub type PerTier = [f64; TierId::MAX];

/// Programs, or copying threads, that behave alike.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Class {
    /// `K`: misses in flight, of all cores together.
    pub in_flight: f64,
    /// `Z`: time between the end of a miss and the start of the next in its slot, ns.
    pub think_ns: f64,
    /// Reads that go to each tier, per read: the shares, which add up to 1.
    pub reads: PerTier,
    /// Lines written to each tier, per read.
    pub writes: PerTier,
    /// How often the loop waits for each tier, per read. A tier that gets traffic is waited for, or
    /// nothing would bound that traffic.
    pub waits: PerTier,
}

impl Class {
    /// A program: it waits for what it reads, and what it dirtied is written back where it was read.
    pub fn program(in_flight: f64, think_ns: f64, shares: PerTier, writes_per_read: f64) -> Self {
        let writes = shares.map(|share| share * writes_per_read);
        Self { in_flight, think_ns, reads: shares, writes, waits: shares }
    }

    /// A copy from one tier to another: each line is read there and stored here, and both are waited for.
    pub fn copy(in_flight: f64, from: usize, to: usize) -> Self {
        let mut class = Self { in_flight, ..Self::default() };
        class.reads[from] = 1.0;
        class.writes[to] = 1.0;
        class.waits[from] += 1.0;
        class.waits[to] += 1.0;
        class
    }

    /// The same program with all that it accesses in the fastest tier.
    pub fn all_in_fastest(&self) -> Self {
        let moved = |lines: &PerTier| {
            let mut fast = PerTier::default();
            fast[TierId::FAST.index()] = lines.iter().sum();
            fast
        };
        let (reads, writes) = (moved(&self.reads), moved(&self.writes));
        Self { reads, writes, waits: moved(&self.waits), ..*self }
    }

    /// Whether nothing is negative or unbounded.
    pub fn is_sound(&self) -> bool {
        let fine = |x: f64| x.is_finite() && x >= 0.0;
        let all = self.reads.iter().chain(&self.writes).chain(&self.waits);
        let bounded =
            (0..TierId::MAX).all(|t| self.reads[t] + self.writes[t] == 0.0 || self.waits[t] > 0.0);
        fine(self.in_flight) && fine(self.think_ns) && all.copied().all(fine) && bounded
    }

    /// Time of one trip round the loop.
    pub(super) fn round_ns(&self, latency_ns: &PerTier, extra_ns: f64) -> f64 {
        let waits = self.waits.iter().zip(latency_ns);
        waits.fold(self.think_ns, |sum, (wait, latency)| sum + wait * (latency + extra_ns))
    }
}
