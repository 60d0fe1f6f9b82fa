// SPDX-License-Identifier: Apache-2.0
//! Sampling as dense as a small part of a core allows.
//!
//! With a fixed sampling period, a program with few cache misses is hardly observed, although denser sampling
//! would cost almost nothing. Once a second the period becomes the shortest of a list with which records would
//! have taken at most one percent of a core in the last second; if none does, it is the world's own. It has no
//! effect on trackers that do not sample.
//!
//! Source: MEMTIS (SOSP 2023; its kernel's `ksamplingd`), which moves step by step through such a list, for
//! three percent. Ours: going straight to the right period, and never sampling more rarely than the world's own
//! period.

use super::quantum::Quantum;
use crate::policy::view::View;
use crate::port::{PageSize, Tracking};
use crate::unit::Nanos;

/// Loads per record: primes, each about twice the one before (ours).
const PERIODS: [u64; 6] = [199, 401, 797, 1601, 3203, 6007];
/// One percent of a core at 300 ns a record (both ours; MEMTIS reads records at about that cost).
const RECORDS_PER_SEC: f64 = 33_000.0;
/// Time between two settings.
const ROUND: Nanos = Nanos::from_secs(1);

/// The period and the evidence for it.
#[derive(Clone, Debug, Default)]
pub struct Sampling {
    /// The world's own period, measured in the first round.
    own: Option<u64>,
    period: Option<u64>,
    last: Nanos,
    /// Since the last round: hits, watched time, and elapsed time.
    hits: f64,
    watched: Nanos,
    passed: Nanos,
    round: Quantum,
}

impl Sampling {
    /// Takes in one tick.
    pub fn update(&mut self, view: &View<'_>) {
        let since = view.now.saturating_sub(std::mem::replace(&mut self.last, view.now));
        // Scans, which see a page at most once per window, do not sample.
        if view.evidence.watched > Nanos::ZERO
            && view.memory.hotness.ceiling_per_sec(PageSize::Base).is_infinite()
        {
            self.hits += view.evidence.hits_in.iter().sum::<f64>();
            self.watched += view.evidence.watched;
            self.passed += since;
        }
        if self.watched > Nanos::ZERO && self.round.due(view.now, ROUND).is_some() {
            self.set();
        }
    }

    /// Sets the period from the last round, and begins another.
    fn set(&mut self) {
        let accesses_per_sec = self.hits / self.watched.as_secs_f64();
        // Sampling one access in P equals watching all accesses for 1/P of the time.
        let own = *self.own.get_or_insert(self.passed.0 / self.watched.0);
        let fits = |period: &u64| accesses_per_sec <= as_f64(*period) * RECORDS_PER_SEC;
        let closer = PERIODS.into_iter().filter(|&period| period < own).find(fits);
        if closer.is_some() || self.period.is_some() {
            self.period = Some(closer.unwrap_or(own));
        }
        (self.hits, self.watched, self.passed) = (0.0, Nanos::ZERO, Nanos::ZERO);
    }

    /// The tracking to request; `None` leaves it to the world.
    pub fn tracking(&self) -> Option<Tracking> {
        self.period.map(|loads| Tracking::Samples { loads, stores: None, cpu_permille: None })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a sampling period")]
fn as_f64(period: u64) -> f64 {
    period as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One second with `million` million accesses, sampled at the requested period, or at 10,007; returns the
    /// request.
    fn second(sampling: &mut Sampling, million: f64) -> Option<u64> {
        let period = sampling.period.unwrap_or(10_007);
        sampling.hits = million * 1e6 / as_f64(period);
        (sampling.passed, sampling.watched) = (Nanos::from_secs(1), Nanos(1_000_000_000 / period));
        sampling.set();
        sampling.period
    }

    /// By hand: 33,000 records a second are 6.6 M accesses at 199, 26 M at 797 and 198 M at 6007.
    #[test]
    fn records_take_at_most_one_percent_of_a_core() {
        let mut sampling = Sampling::default();
        assert_eq!(second(&mut sampling, 600.0), None, "the world's own period");
        assert_eq!(second(&mut sampling, 5.0), Some(199));
        assert_eq!(second(&mut sampling, 26.0), Some(797));
        assert_eq!(second(&mut sampling, 190.0), Some(6007));
        let own = second(&mut sampling, 600.0);
        assert!(own.is_some_and(|own| own.abs_diff(10_007) < 10), "{own:?}");
    }

    #[test]
    fn a_tracker_that_watches_all_the_time_gets_no_period() {
        let mut sampling = Sampling { hits: 100.0, ..Sampling::default() };
        (sampling.passed, sampling.watched) = (Nanos::from_secs(1), Nanos::from_secs(1));
        sampling.set();
        assert_eq!(sampling.tracking(), None);
    }
}
