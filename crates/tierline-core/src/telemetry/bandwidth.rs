// SPDX-License-Identifier: Apache-2.0
//! How much of its memory's bandwidth a machine uses, our own moves taken off.
//!
//! Tiers below the fastest count as one. What cannot be measured is estimated: with no counter on slow memory, its sampled
//! accesses per second of watching, a cache line each, stand for its bandwidth; with no peak given, the
//! greatest yet seen stands for it. How much is spare is not guessed at.
//!
//! Source: ARMS (sections 4.2 and 4.4), which reads hardware counters; what stands for them is ours.

use super::Hit;
use crate::port::Telemetry;
use crate::tier::{TierId, Tiers};
use crate::unit::{Bytes, Nanos};

/// What a sampled access moves.
const LINE_BYTES: f64 = 64.0;

/// The meter: bytes since it was last read.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    last: Option<Nanos>,
    /// Of fast and of slow memory, by anybody; `None` without a counter.
    bytes: [Option<f64>; 2],
    seconds: f64,
    /// Of them by our moves, which read one and write the other.
    ours: f64,
    /// Base pages moved before the last tick.
    ours_before: u64,
    slow_hits: f64,
    /// The greatest use of slow memory yet, bytes per second, by samples or by the counter.
    greatest: f64,
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Use {
    /// Of the slow tiers' peak, or of the greatest yet seen; `None` before anything was.
    pub slow: Option<f64>,
    /// Of all tiers' peaks together; `None` where it is not measured.
    pub all: Option<f64>,
}

impl Meter {
    /// Adds what was measured of the last tick. `moved` counts the base pages that we moved so far.
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

    /// What was used since the last reading; `watched` is the trackers' time of watching in it.
    #[expect(clippy::cast_precision_loss, reason = "a bandwidth is far below 2^52")]
    pub fn read(&mut self, tiers: &Tiers, watched: Nanos) -> Use {
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
        let read = Use {
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
