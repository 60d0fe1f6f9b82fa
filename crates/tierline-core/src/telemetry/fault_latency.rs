// SPDX-License-Identifier: Apache-2.0
//! Time to fault: the sooner a page faults after it was armed, the hotter it is.
//!
//! A page is hot if it faults within a threshold. The threshold follows the number of candidates: once a minute
//! it falls by an eighth of its reference if there were more than the rate limit admits, and rises if there
//! were fewer, between an eighth and twice the reference. An access that comes after Δt in a stream of r
//! accesses a second has the probability 1/(Δt·r).
//!
//! Source: Linux 6.3, kernel/sched/fair.c (`should_numa_migrate_memory`, `numa_promotion_adjust_threshold`,
//! `numa_promotion_rate_limit`); Colloid section 4.3 for the probability, whose text states the threshold the
//! other way round. With a tracker without times to fault, the time since the page's last hit is used (ours).

use super::Hit;
use crate::knobs;
use crate::unit::{Bytes, BytesPerSec, Nanos, in_time};

knobs! {
    /// The knobs of the threshold.
    pub struct FaultLatencyKnobs {
        /// The reference of the threshold.
        hot_threshold: Nanos = Nanos::from_secs(1), Nanos::from_millis(1), Nanos::from_secs(60);
        /// Rate of promotion candidates, at most.
        rate_limit: BytesPerSec = BytesPerSec(65_536 << 20), BytesPerSec(1 << 20), BytesPerSec(1 << 37);
        /// Time between two adjustments of the threshold.
        adjust_period: Nanos = Nanos::from_secs(60), Nanos::from_secs(1), Nanos::from_secs(600);
    }
}

/// Steps from zero to twice the reference.
const STEPS: u64 = 16;
/// Candidates are counted against the rate limit in windows of this length.
const WINDOW: Nanos = Nanos::from_secs(1);
const STAMP: u64 = 0xffff_ffff;

/// The threshold and its inputs.
#[derive(Clone, Debug)]
pub struct FaultLatency {
    /// The knobs.
    pub knobs: FaultLatencyKnobs,
    /// `None`: the reference.
    threshold: Option<Nanos>,
    candidates: Bytes,
    window: (Nanos, Bytes),
    adjusted: Option<(Nanos, Bytes)>,
}

impl FaultLatency {
    /// Starts at the reference threshold.
    pub fn new(knobs: FaultLatencyKnobs) -> Self {
        Self {
            knobs,
            threshold: None,
            candidates: Bytes::ZERO,
            window: (Nanos::ZERO, Bytes::ZERO),
            adjusted: None,
        }
    }

    /// The present threshold.
    pub fn threshold(&self) -> Nanos {
        self.threshold.unwrap_or(self.knobs.hot_threshold)
    }

    /// Resets the threshold: while there is much room, everything is promoted.
    pub fn reset(&mut self) {
        self.threshold = None;
    }

    /// Whether a page of that size that faulted after `latency` is promoted.
    pub fn accepts(&mut self, now: Nanos, latency: Nanos, bytes: Bytes) -> bool {
        self.adjust(now);
        latency < self.threshold() && !self.is_limited(now, bytes)
    }

    /// Counts a candidate; true if the window has too many.
    fn is_limited(&mut self, now: Nanos, bytes: Bytes) -> bool {
        self.candidates += bytes;
        if now.saturating_sub(self.window.0) > WINDOW {
            self.window = (now, self.candidates);
        }
        (self.candidates - self.window.1).0 >= in_time(self.knobs.rate_limit, WINDOW).0
    }

    fn adjust(&mut self, now: Nanos) {
        let (since, before) = *self.adjusted.get_or_insert((now, self.candidates));
        if now.saturating_sub(since) <= self.knobs.adjust_period {
            return;
        }
        self.adjusted = Some((now, self.candidates));
        let reference = in_time(self.knobs.rate_limit, self.knobs.adjust_period).0;
        let found = (self.candidates - before).0;
        let most = self.knobs.hot_threshold * 2;
        let unit = Nanos(most.0 / STEPS);
        let threshold = self.threshold();
        self.threshold = Some(if found > reference / 10 * 11 {
            threshold.saturating_sub(unit).max(unit)
        } else if found < reference / 10 * 9 {
            (threshold + unit).min(most)
        } else {
            threshold
        });
    }
}

/// The page's time to fault, and its word with the time of this access in its lower half.
#[expect(clippy::cast_possible_truncation, reason = "milliseconds that wrap after 49 days")]
pub fn latency(word: u64, hit: &Hit, now: Nanos) -> (Option<Nanos>, u64) {
    // Zero is reserved for pages without a hit.
    let stamp = ((now.0 / 1_000_000) as u32).max(1);
    let last = (word & STAMP) as u32;
    let since = (last != 0).then(|| Nanos::from_millis(stamp.wrapping_sub(last).into()));
    (hit.exposure.or(since), word & !STAMP | u64::from(stamp))
}

/// The probability that one of `reads_per_sec` accesses is to a page that was accessed after `latency`.
pub fn share(latency: Nanos, reads_per_sec: f64) -> f64 {
    let accesses = latency.as_secs_f64() * reads_per_sec;
    if accesses > 1.0 { 1.0 / accesses } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: Bytes = Bytes::from_mib(1);

    fn at(s: u64) -> Nanos {
        Nanos::from_secs(s)
    }

    #[test]
    fn a_page_is_hot_below_the_threshold() {
        let mut latency = FaultLatency::new(FaultLatencyKnobs::default());
        assert!(latency.accepts(at(1), Nanos::from_millis(999), MIB));
        assert!(!latency.accepts(at(1), Nanos::from_millis(1000), MIB));
    }

    /// Up by 125 ms a minute to twice the reference while there are few candidates, down to 125 ms while
    /// there are many.
    #[test]
    fn the_threshold_follows_the_candidates() {
        let knobs =
            FaultLatencyKnobs { rate_limit: BytesPerSec(1 << 20), ..FaultLatencyKnobs::default() };
        let mut latency = FaultLatency::new(knobs);
        let thresholds: Vec<u64> = (0..12)
            .map(|minute| {
                latency.accepts(at(61 * minute), Nanos::ZERO, Bytes(1));
                latency.threshold().0 / 1_000_000
            })
            .collect();
        assert_eq!(thresholds[..4], [1000, 1125, 1250, 1375]);
        assert_eq!(thresholds[9..], [2000, 2000, 2000]);
        for minute in 12..40 {
            latency.accepts(at(61 * minute), Nanos::ZERO, MIB * 100);
        }
        assert_eq!(latency.threshold(), Nanos::from_millis(125));
        latency.reset();
        assert_eq!(latency.threshold(), at(1));
    }

    #[test]
    fn candidates_above_the_rate_limit_are_refused() {
        let knobs =
            FaultLatencyKnobs { rate_limit: BytesPerSec(10 << 20), ..FaultLatencyKnobs::default() };
        let mut latency = FaultLatency::new(knobs);
        let accepted = (0..100).filter(|_| latency.accepts(at(10), Nanos::ZERO, MIB)).count();
        assert_eq!(accepted, 10, "the first candidate opens the window");
        assert!(latency.accepts(at(12), Nanos::ZERO, MIB), "a new window");
    }

    #[test]
    fn the_probability_is_one_over_the_accesses_in_between() {
        assert!((share(Nanos(1_000_000), 1e8) - 1e-5).abs() < 1e-12);
        assert_eq!(share(Nanos(1), 1e8), 1.0);
    }

    #[test]
    fn without_a_time_to_fault_it_is_the_time_since_the_last_hit() {
        let page = crate::page::PageIdx::from_index(0);
        let hit = Hit { page, tier: None, hits: 1.0, exposure: None, write: None, base_page: None };
        let (first, word) = latency(1 << 40, &hit, at(5));
        assert_eq!(first, None);
        let (second, word) = latency(word, &hit, at(7));
        assert_eq!(second, Some(at(2)));
        assert_eq!(word >> 32, 1 << 8, "the upper half belongs to others");
        let faulted = Hit { exposure: Some(Nanos(9)), ..hit };
        assert_eq!(latency(word, &faulted, at(9)).0, Some(Nanos(9)));
    }
}
