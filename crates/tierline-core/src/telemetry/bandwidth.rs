// SPDX-License-Identifier: Apache-2.0
//! How much memory bandwidth programs use, without our own moves.
//!
//! Tiers below the fastest count as one. Two values are estimated if not measured: without a counter on slow
//! memory, its bandwidth is its sampled accesses per second of watched time, a cache line each; without a peak,
//! the peak is the greatest use so far. Spare bandwidth is never estimated.
//!
//! Source: ARMS (sections 4.2 and 4.4), which reads hardware counters; the estimates are ours.

use super::Hit;
use crate::port::Telemetry;
use crate::tier::{TierId, Tiers};
use crate::unit::{Bytes, Nanos};

/// Bytes per sampled access.
const LINE_BYTES: f64 = 64.0;

/// The meter: totals since it was last read.
#[derive(Clone, Debug, Default)]
pub struct BandwidthMeter {
    last: Option<Nanos>,
    /// Bytes of fast and of slow memory, by all programs; `None` without a counter.
    bytes: [Option<f64>; 2],
    seconds: f64,
    /// Bytes of each by our moves, which read one and write the other.
    ours: f64,
    /// Base pages moved before the last tick.
    ours_before: u64,
    slow_hits: f64,
    /// The greatest use of slow memory so far, in bytes per second, by samples or by the counter.
    greatest: f64,
}

/// Shares of bandwidth in use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Utilisation {
    /// Share of the slow tiers' peak, or of the greatest use so far; `None` before any measurement.
    pub slow: Option<f64>,
    /// Share of all tiers' peaks together; `None` if not measured.
    pub all: Option<f64>,
}

impl BandwidthMeter {
    /// Adds the measurements of the last tick. `moved` is the total of base pages that we moved so far.
    #[expect(clippy::cast_precision_loss, reason = "bytes moved in one tick")]
    pub fn add(&mut self, now: Nanos, moved: u64, telemetry: &Telemetry, hits: &[Hit]) {
        let ours = Bytes::from_base_pages(moved - self.ours_before.min(moved));
        self.ours_before = moved;
        let seconds = now.saturating_sub(self.last.unwrap_or(now)).as_secs_f64();
        self.last = Some(now);
        self.seconds += seconds;
        self.ours += ours.0 as f64;
        for (tier, measured) in (0..).map(TierId).zip(&telemetry.tiers) {
            let bytes = measured.bandwidth.map(|bandwidth| bandwidth.0 as f64 * seconds);
            let sum = &mut self.bytes[usize::from(tier > TierId::FAST)];
            *sum = bytes.map(|bytes| sum.unwrap_or(0.0) + bytes).or(*sum);
        }
        let slow = |hit: &&Hit| hit.tier > Some(TierId::FAST);
        self.slow_hits += hits.iter().filter(slow).map(|hit| f64::from(hit.hits)).sum::<f64>();
    }

    /// The use since the last reading; `watched` is the trackers' watched time in it.
    #[expect(clippy::cast_precision_loss, reason = "a bandwidth is far below 2^52")]
    pub fn read(&mut self, tiers: &Tiers, watched: Nanos) -> Utilisation {
        let seconds = self.seconds.max(1e-9);
        let used = |bytes: f64| (bytes - self.ours).max(0.0) / seconds;
        let [fast, slow] = self.bytes.map(|bytes| bytes.map(used));
        let peak = |slow: bool| {
            let tiers = tiers.iter().filter(|(tier, _)| (*tier > TierId::FAST) == slow);
            let peaks: Option<u64> = tiers.map(|(_, tier)| Some(tier.bandwidth?.0)).sum();
            peaks.map(|peak| peak as f64).filter(|&peak| peak > 0.0)
        };
        let by_samples =
            || (watched > Nanos::ZERO).then(|| self.slow_hits * LINE_BYTES / watched.as_secs_f64());
        let now = slow.or_else(by_samples);
        self.greatest = self.greatest.max(now.unwrap_or(0.0));
        let known_peak = peak(true).filter(|_| slow.is_some());
        let all = || Some((fast? + slow?) / (peak(false)? + peak(true)?));
        let read = Utilisation {
            slow: now.map(|now| now / known_peak.unwrap_or(self.greatest).max(1.0)),
            all: all(),
        };
        *self = Self {
            last: self.last,
            ours_before: self.ours_before,
            greatest: self.greatest,
            ..Self::default()
        };
        read
    }
}
