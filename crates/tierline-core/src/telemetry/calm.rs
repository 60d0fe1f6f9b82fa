// SPDX-License-Identifier: Apache-2.0
//! Whether placement is settled: the alarm that makes trackers look closely.
//!
//! Watching closely costs the program, so it is kept for when it pays: at the start, while pages are
//! being moved, and when the slow tiers suddenly get many more hits than they used to. The last is a
//! comparison of the slow tiers' hits per watched second with their own moving average; the constants
//! are ours.

use crate::port::Attention;
use crate::unit::Nanos;

/// Quiet time after the last sign of change before trackers may look away.
const SETTLE: Nanos = Nanos::from_secs(2);
/// Reports of hits before that: as many as trackers remember, so that the evidence is complete.
const LOOKS: u32 = 16;
/// Reports that are enough once pages were moved: the evidence was good enough to act on.
const LOOKS_AFTER_MOVES: u32 = 8;
/// A rise of the slow tiers' hit rate by this factor is a change, not noise: a sample of a few hundred
/// pages of which one in twenty is touched varies by a third.
const RISE: f64 = 2.5;
/// Weight of the newest report in the average.
const WEIGHT: f64 = 0.125;
/// Reports that an average needs before anything is compared with it.
const FEW: u32 = 4;

/// A report of hits on slow tiers per second of watching.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowHits {
    /// Hits per second of watching on all pages there.
    pub per_sec: f64,
    /// Projected from a sample of pages; compared with reports of its own kind only.
    pub projected: bool,
}

/// Watches the slow tiers' hit rate.
#[derive(Clone, Debug, Default)]
pub struct Calm {
    averages: [(f64, u32); 2],
    alert_until: Option<Nanos>,
    looks: u32,
    moved: bool,
}

impl Calm {
    /// Takes in one tick: the report of the slow tiers' hits, where anything was watched, and whether
    /// the plan moved more than a trickle.
    pub fn update(&mut self, now: Nanos, slow: Option<SlowHits>, busy: bool) -> Attention {
        let rose = slow.is_some_and(|report| self.rose(report));
        let first = self.alert_until.is_none();
        if first || rose || busy {
            self.alert_until = Some(now + SETTLE);
        }
        if first || rose {
            (self.looks, self.moved) = (0, false);
        }
        self.looks += u32::from(slow.is_some());
        self.moved |= busy;
        let enough = self.looks >= if self.moved { LOOKS_AFTER_MOVES } else { LOOKS };
        let settled = enough && self.alert_until.is_some_and(|until| now >= until);
        if settled { Attention::Calm } else { Attention::Alert }
    }

    /// Compares with the average and averages in. What a rate rose to is the new normal: one alarm a
    /// rise.
    fn rose(&mut self, report: SlowHits) -> bool {
        let (average, reports) = &mut self.averages[usize::from(report.projected)];
        let rose = *reports >= FEW && report.per_sec > RISE * *average;
        let weight = if rose { 1.0 } else { WEIGHT.max(1.0 / f64::from(*reports + 1)) };
        *average += weight * (report.per_sec - *average);
        *reports = reports.saturating_add(1);
        rose
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    fn hits(per_sec: f64) -> Option<SlowHits> {
        Some(SlowHits { per_sec, projected: false })
    }

    /// Settled at a rate of 100 hits a second, at 3.8 s.
    fn settled() -> Calm {
        let mut calm = Calm::default();
        for ms in 0..=19 {
            assert_eq!(calm.update(at(100 * ms), hits(100.0), true), Attention::Alert);
        }
        assert_eq!(calm.update(at(3_800), hits(100.0), false), Attention::Alert);
        assert_eq!(calm.update(at(3_900), hits(100.0), false), Attention::Calm);
        calm
    }

    #[test]
    fn it_settles_after_a_while_and_enough_looks() {
        settled();
        let mut calm = Calm::default();
        assert_eq!(calm.update(at(0), hits(100.0), false), Attention::Alert);
        assert_eq!(calm.update(at(60_000), hits(100.0), false), Attention::Alert, "one look");
    }

    #[test]
    fn a_jump_of_the_slow_hit_rate_wakes_it_and_noise_does_not() {
        let mut calm = settled();
        assert_eq!(calm.update(at(5_000), hits(120.0), false), Attention::Calm);
        assert_eq!(calm.update(at(6_000), None, false), Attention::Calm);
        assert_eq!(calm.update(at(7_000), hits(400.0), false), Attention::Alert);
    }

    #[test]
    fn a_projection_is_compared_with_projections_only() {
        let mut calm = settled();
        let projected = |per_sec| Some(SlowHits { per_sec, projected: true });
        for s in 5..9 {
            assert_eq!(calm.update(at(1_000 * s), projected(500.0), false), Attention::Calm);
        }
        assert_eq!(calm.update(at(9_000), projected(1_300.0), false), Attention::Alert);
    }
}
