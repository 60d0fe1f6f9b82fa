// SPDX-License-Identifier: Apache-2.0
//! A job class in a closed loop: a fixed number of misses is in flight; when one ends, the next one starts.
//!
//! `X = K / (Z + Σ_t wait_t·L_t)` reads per ns, with `K` = cores × misses in flight per core, `Z` = think time
//! per miss slot (Colloid, 2.2, with `Z = 0`: a core's throughput is `N·64/L`). Each read may cause writes:
//! write-backs to the same tier, or, if pages are copied, stores to another.

use tierline_core::tier::TierId;

/// Bytes of a cache line, the unit of a miss.
pub const LINE_BYTES: f64 = 64.0;

/// One figure per tier; zero for tiers that the machine does not have.
pub type PerTier = [f64; TierId::MAX];

/// Programs or copying threads with the same behaviour.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Class {
    /// `K`: misses in flight, summed over all cores.
    pub in_flight: f64,
    /// `Z`: time between the end of a miss and the start of the next in its slot, ns.
    pub think_ns: f64,
    /// Reads from each tier, per read: the shares, which add up to 1.
    pub reads: PerTier,
    /// Lines written to each tier, per read.
    pub writes: PerTier,
    /// Waits for each tier, per read. A tier with traffic must be waited for; otherwise its traffic would be
    /// unbounded.
    pub waits: PerTier,
}

impl Class {
    /// A program: it waits for its reads; dirty lines are written back to the tier from which they were read.
    pub fn program(in_flight: f64, think_ns: f64, shares: PerTier, writes_per_read: f64) -> Self {
        let writes = shares.map(|share| share * writes_per_read);
        Self { in_flight, think_ns, reads: shares, writes, waits: shares }
    }

    /// A copy from one tier to another: each line is read from one and stored to the other; both are waited
    /// for.
    pub fn copy(in_flight: f64, from: usize, to: usize) -> Self {
        let mut class = Self { in_flight, ..Self::default() };
        class.reads[from] = 1.0;
        class.writes[to] = 1.0;
        class.waits[from] += 1.0;
        class.waits[to] += 1.0;
        class
    }

    /// The same program with all its memory in the fastest tier.
    pub fn all_in_fastest(&self) -> Self {
        let moved = |lines: &PerTier| {
            let mut fast = PerTier::default();
            fast[TierId::FAST.index()] = lines.iter().sum();
            fast
        };
        let (reads, writes) = (moved(&self.reads), moved(&self.writes));
        Self { reads, writes, waits: moved(&self.waits), ..*self }
    }

    /// Whether no figure is negative or infinite.
    pub fn is_sound(&self) -> bool {
        let fine = |x: f64| x.is_finite() && x >= 0.0;
        let all = self.reads.iter().chain(&self.writes).chain(&self.waits);
        let bounded =
            (0..TierId::MAX).all(|t| self.reads[t] + self.writes[t] == 0.0 || self.waits[t] > 0.0);
        let takes_time = self.think_ns > 0.0 || self.waits.iter().any(|&wait| wait > 0.0);
        let turns = self.in_flight == 0.0 || takes_time;
        fine(self.in_flight) && fine(self.think_ns) && all.copied().all(fine) && bounded && turns
    }

    /// Time of one iteration of the loop.
    pub(super) fn round_ns(&self, latency_ns: &PerTier, extra_ns: f64) -> f64 {
        let waits = self.waits.iter().zip(latency_ns);
        waits.fold(self.think_ns, |sum, (wait, latency)| sum + wait * (latency + extra_ns))
    }
}
