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
/// A rise of the slow tiers' hit rate by this factor is a change, not noise.
const RISE: f64 = 1.5;
/// Weight of the newest report in the average.
const WEIGHT: f64 = 0.25;

/// Watches the slow tiers' hit rate.
#[derive(Clone, Debug, Default)]
pub struct Calm {
    average: Option<f64>,
    alert_until: Option<Nanos>,
}

impl Calm {
    /// Takes in one tick: the hits on slow tiers per second of watching (`None` where nothing was
    /// watched), and whether the plan moved more than a trickle.
    pub fn update(&mut self, now: Nanos, slow_hits_per_sec: Option<f64>, busy: bool) -> Attention {
        let rose = match (slow_hits_per_sec, self.average) {
            (Some(rate), Some(average)) => rate > RISE * average,
            _ => false,
        };
        if let Some(rate) = slow_hits_per_sec {
            // What it rose to is the new normal: one alarm a rise.
            let weight = if rose { 1.0 } else { WEIGHT };
            let average = self.average.unwrap_or(rate);
            self.average = Some(average + weight * (rate - average));
        }
        let alert_until = self.alert_until.get_or_insert(now + SETTLE);
        if rose || busy {
            *alert_until = now + SETTLE;
        }
        if now < *alert_until { Attention::Alert } else { Attention::Calm }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    #[test]
    fn it_starts_alert_and_settles() {
        let mut calm = Calm::default();
        assert_eq!(calm.update(at(0), Some(100.0), false), Attention::Alert);
        assert_eq!(calm.update(at(1_900), Some(100.0), true), Attention::Alert);
        assert_eq!(calm.update(at(3_800), Some(100.0), false), Attention::Alert);
        assert_eq!(calm.update(at(4_000), Some(100.0), false), Attention::Calm);
    }

    #[test]
    fn a_jump_of_the_slow_hit_rate_wakes_it_and_noise_does_not() {
        let mut calm = Calm::default();
        calm.update(at(0), Some(100.0), false);
        assert_eq!(calm.update(at(5_000), Some(120.0), false), Attention::Calm);
        assert_eq!(calm.update(at(6_000), None, false), Attention::Calm);
        assert_eq!(calm.update(at(7_000), Some(400.0), false), Attention::Alert);
        assert_eq!(calm.update(at(8_900), Some(400.0), false), Attention::Alert);
        assert_eq!(calm.update(at(9_100), Some(400.0), false), Attention::Calm);
    }
}
