// SPDX-License-Identifier: Apache-2.0
//! The Page-Hinkley test: detects that the mean of a series has risen.
//!
//! With the mean `μ` of all values so far, `m += x - μ - δ` falls while nothing changes and climbs when values
//! exceed the mean by more than the tolerance δ. The alarm is raised when it has climbed by more than λ above
//! its lowest point; then the test restarts. For noise of deviation σ the climb without a change is about
//! exponential with mean σ²/(2δ), which determines how large λ must be.
//!
//! Source: E. S. Page, Continuous inspection schemes, Biometrika 41 (1954), which ARMS uses (section 4.2). ARMS
//! gives neither δ nor λ: the values are ours, for a series between 0 and 1.

use crate::knobs;

knobs! {
    /// The knobs of the test.
    pub struct PageHinkleyKnobs {
        /// Tolerance δ: how much values may exceed their mean.
        pht_delta: f64 = 0.01, 0.001, 0.1;
        /// Threshold λ of the climb that raises the alarm.
        pht_lambda: f64 = 0.3, 0.05, 5.0;
        /// Values before the first alarm, and after each.
        pht_warm_up: u32 = 20, 1, 1000;
    }
}

/// The test.
#[derive(Clone, Debug, Default)]
pub struct PageHinkley {
    /// The knobs.
    pub knobs: PageHinkleyKnobs,
    count: u32,
    mean: f64,
    climb: f64,
    lowest: f64,
}

impl PageHinkley {
    /// Takes in the next value; returns the mean before it if this raises the alarm.
    pub fn add(&mut self, value: f64) -> Option<f64> {
        self.count += 1;
        let before = self.mean;
        self.mean += (value - self.mean) / f64::from(self.count);
        self.climb += value - self.mean - self.knobs.pht_delta;
        self.lowest = self.lowest.min(self.climb);
        let alarm = self.count >= self.knobs.pht_warm_up
            && self.climb - self.lowest > self.knobs.pht_lambda;
        if alarm {
            *self = Self { knobs: self.knobs, ..Self::default() };
        }
        alarm.then_some(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use proptest::prelude::*;

    /// Noise of deviation `sigma`: the sum of twelve numbers between 0 and 1 has deviation 1.
    fn noisy(rng: &mut Rng, mean: f64, sigma: f64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "below a million")]
        let mut one = || rng.below(1_000_000) as f64 * 1e-6;
        let twelve: f64 = (0..12).map(|_| one()).sum();
        mean + sigma * (twelve - 6.0)
    }

    proptest! {
        /// At σ = 0.01 the mean climb is 0.005, a sixtieth of λ: an alarm is a chance of e^-60.
        #[test]
        fn noise_raises_no_alarm(seed in any::<u64>(), mean in 0.05f64..0.9) {
            let (mut test, mut rng) = (PageHinkley::default(), Rng::new(seed));
            for at in 0..5_000 {
                prop_assert!(test.add(noisy(&mut rng, mean, 0.01)).is_none(), "at {}", at);
            }
        }

        /// A step of 0.1 exceeds λ within four values, a greater one within fewer; a step down never does.
        #[test]
        fn a_step_up_is_detected_within_few_values(
            seed in any::<u64>(), mean in 0.1f64..0.5, step in 0.1f64..0.5,
        ) {
            let (mut test, mut rng) = (PageHinkley::default(), Rng::new(seed));
            for _ in 0..100 {
                test.add(noisy(&mut rng, mean, 0.005));
            }
            let mut down = test.clone();
            let noticed = (1..20).find(|_| test.add(noisy(&mut rng, mean + step, 0.005)).is_some());
            let most = if step > 0.35 { 1 } else { 5 };
            prop_assert!(noticed.is_some_and(|values| values <= most), "after {noticed:?}");
            for _ in 0..20 {
                let value = noisy(&mut rng, mean - step.min(mean), 0.005);
                prop_assert!(down.add(value).is_none());
            }
        }
    }

    #[test]
    fn no_alarm_comes_before_the_warm_up_and_the_test_restarts_after_each() {
        let mut test = PageHinkley::default();
        let alarms: Vec<u32> =
            (0..100).filter(|at| test.add(f64::from(at / 40)).is_some()).collect();
        assert_eq!(alarms, [40, 80], "at the two steps only");
        let mut test = PageHinkley::default();
        let early: Vec<u32> =
            (0..40).filter(|&at| test.add(f64::from(u8::from(at > 5))).is_some()).collect();
        assert!(early.first().is_some_and(|&at| at == 19), "the twentieth value: {early:?}");
    }
}
