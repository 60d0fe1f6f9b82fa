// SPDX-License-Identifier: Apache-2.0
//! Two modes: history normally, recency for a while after slow memory got busier.
//!
//! After a program's working set changed, more of its accesses go to slow memory. So a rise in the use of slow
//! memory's bandwidth starts recency mode, in which decisions are more frequent, sampling is denser, and recent
//! observations count for more. It ends after a fixed time, or as soon as the use is stable again and has
//! fallen more than half way back: at the top of a rise a saturated tier is stable, too. A new rise restarts
//! the time.
//!
//! Source: ARMS (sections 4.2 and 5: the two periods and intervals). Ours: the duration, the test for
//! stability, and the way back, as the paper says "a fixed period or until bandwidth has stabilized".

use std::collections::VecDeque;

use crate::knobs;
use crate::telemetry::page_hinkley::PageHinkley;
use crate::unit::Nanos;

knobs! {
    /// The knobs of the modes.
    pub struct RecencyKnobs {
        /// Time between decisions.
        quantum: Nanos = Nanos::from_millis(500), Nanos::from_millis(50), Nanos::from_secs(5);
        /// The same in recency mode.
        recent_quantum: Nanos = Nanos::from_millis(100), Nanos::from_millis(20), Nanos::from_secs(5);
        /// Accesses per sample.
        period: u32 = 10_000, 199, 200_003;
        /// The same in recency mode.
        recent_period: u32 = 5_000, 199, 200_003;
        /// Weight of the short average in the score; the rest is the long one's.
        short_weight: f64 = 0.2, 0.0, 1.0;
        /// The same in recency mode.
        recent_short_weight: f64 = 0.8, 0.0, 1.0;
        /// Whether there is a recency mode.
        change_detection: bool = true, false, true;
        /// Duration of recency mode.
        recency: Nanos = Nanos::from_secs(5), Nanos::from_millis(500), Nanos::from_secs(60);
        /// Decisions over which bandwidth must be stable to end recency mode.
        stable_over: u32 = 10, 2, 100;
        /// Standard deviation over mean below which bandwidth is stable.
        stable_within: f64 = 0.05, 0.0, 0.5;
    }
}

/// The present mode.
#[derive(Clone, Debug, Default)]
pub struct Recency {
    /// The knobs.
    pub knobs: RecencyKnobs,
    /// The test that detects a rise.
    pub test: PageHinkley,
    until: Option<Nanos>,
    /// Half way back from the rise that started recency mode.
    half_way: f64,
    latest: VecDeque<f64>,
}

impl Recency {
    /// Takes in the used share of slow memory's bandwidth, 0 to 1, once per decision.
    pub fn update(&mut self, now: Nanos, used: f64) {
        if !self.knobs.change_detection {
            return;
        }
        if let Some(before) = self.test.add(used) {
            self.until = Some(now + self.knobs.recency);
            self.half_way = (before + used) / 2.0;
            self.latest.clear();
        } else if self.until.is_some_and(|until| now >= until) || self.is_back(used) {
            self.until = None;
        }
    }

    /// Whether recency mode is on.
    pub fn is_on(&self) -> bool {
        self.until.is_some()
    }

    /// Time between decisions.
    pub fn quantum(&self) -> Nanos {
        if self.is_on() { self.knobs.recent_quantum } else { self.knobs.quantum }
    }

    /// Accesses per sample.
    pub fn period(&self) -> u64 {
        let period = if self.is_on() { self.knobs.recent_period } else { self.knobs.period };
        period.into()
    }

    /// Weight of the short average in the score.
    pub fn short_weight(&self) -> f64 {
        if self.is_on() { self.knobs.recent_short_weight } else { self.knobs.short_weight }
    }

    /// Whether the last values are stable and low.
    fn is_back(&mut self, used: f64) -> bool {
        self.latest.push_back(used);
        if self.latest.len() > self.knobs.stable_over as usize {
            self.latest.pop_front();
        }
        let count = f64::from(self.knobs.stable_over);
        let mean = self.latest.iter().sum::<f64>() / count;
        let square = |x: f64| x * x;
        let variance = self.latest.iter().map(|&x| square(x - mean)).sum::<f64>() / count;
        self.latest.len() >= self.knobs.stable_over as usize
            && mean <= self.half_way
            && variance <= square(self.knobs.stable_within * mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds values at the mode's own decision times; the start and the end of each recency period, in ms.
    fn episodes(knobs: RecencyKnobs, used: impl Fn(u64) -> f64) -> Vec<(u64, u64)> {
        let mut mode = Recency { knobs, ..Recency::default() };
        let (mut ms, mut began, mut all) = (0, None, Vec::new());
        while ms < 60_000 {
            mode.update(Nanos::from_millis(ms), used(ms));
            match (mode.is_on(), began) {
                (true, None) => began = Some(ms),
                (false, Some(at)) => {
                    all.push((at, ms));
                    began = None;
                }
                _ => {}
            }
            ms += mode.quantum().0 / 1_000_000;
        }
        all
    }

    #[test]
    fn a_rise_begins_recency_and_the_timer_ends_it() {
        let step = |ms| if ms < 20_000 { 0.1 } else { 0.6 };
        assert_eq!(episodes(RecencyKnobs::default(), step), [(20_000, 25_000)], "stable, but high");
    }

    #[test]
    fn it_ends_early_once_bandwidth_is_low_and_stable() {
        let back = |ms| if (20_000..22_000).contains(&ms) { 0.6 } else { 0.1 };
        assert_eq!(episodes(RecencyKnobs::default(), back), [(20_000, 22_900)], "ten values");
    }

    #[test]
    fn it_can_be_switched_off() {
        let knobs = RecencyKnobs { change_detection: false, ..RecencyKnobs::default() };
        assert_eq!(episodes(knobs, |ms| if ms < 20_000 { 0.1 } else { 0.6 }), []);
    }

    #[test]
    fn the_modes_are_as_published() {
        let mut mode = Recency::default();
        assert_eq!((mode.quantum(), mode.period()), (Nanos::from_millis(500), 10_000));
        mode.until = Some(Nanos::ZERO);
        assert_eq!((mode.quantum(), mode.period()), (Nanos::from_millis(100), 5_000));
    }
}
