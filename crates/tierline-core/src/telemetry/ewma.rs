// SPDX-License-Identifier: Apache-2.0
//! Exponentially weighted averages whose horizon is a time, whatever the interval between values.
//!
//! For an average `a` over the horizon τ and a new value `x` after the interval T: `a += α·(x - a)`, with α
//! from τ/T. ARMS gives horizons and no α, which allows three readings: the *span* of N = τ/T values, α =
//! 2/(N + 1), the convention for "N-period" averages; the *time constant*, α = 1 - exp(-T/τ), about half as fast;
//! and the span of a *fixed* interval, where the horizon shrinks with the interval.
//!
//! Source: ARMS (section 4.1: 1 s and 10 s, after Klinker 2011); the choice of the span is ours.

use crate::unit::Nanos;

/// How a horizon becomes a weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightForm {
    /// 2/(τ/T + 1).
    #[default]
    Span,
    /// 1 - exp(-T/τ).
    TimeConstant,
    /// The span's weight for this interval, whatever the real one.
    Fixed(Nanos),
}

impl WeightForm {
    /// The weight of a new value, 0 to 1.
    pub fn alpha(self, horizon: Nanos, interval: Nanos) -> f64 {
        let values = |interval: Nanos| horizon.as_secs_f64() / interval.as_secs_f64().max(1e-9);
        match self {
            Self::Span => (2.0 / (values(interval) + 1.0)).min(1.0),
            Self::TimeConstant => 1.0 - exp_minus(1.0 / values(interval).max(1e-9)),
            Self::Fixed(steady) => (2.0 / (values(steady) + 1.0)).min(1.0),
        }
    }
}

/// e^-x for x ≥ 0: a quotient of polynomials (Padé) of `x/64`, squared six times.
fn exp_minus(x: f64) -> f64 {
    let x = x / 64.0;
    let small = (1.0 - x / 2.0 + x * x / 12.0) / (1.0 + x / 2.0 + x * x / 12.0);
    (0..6).fold(small, |power, _| power * power)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Nanos = Nanos::from_secs(1);
    const TEN: Nanos = Nanos::from_secs(10);

    fn near(got: f64, expected: f64) {
        assert!((got - expected).abs() < 5e-5, "{got} is not {expected}");
    }

    /// The horizons of ARMS at its two intervals, worked by hand.
    #[test]
    fn weights_of_the_published_horizons() {
        let [steady, quick] = [500, 100].map(Nanos::from_millis);
        for (form, horizon, interval, alpha) in [
            (WeightForm::Span, SECOND, steady, 0.6667),
            (WeightForm::Span, SECOND, quick, 0.1818),
            (WeightForm::Span, TEN, steady, 0.0952),
            (WeightForm::Span, TEN, quick, 0.0198),
            (WeightForm::TimeConstant, SECOND, steady, 0.3935),
            (WeightForm::TimeConstant, SECOND, quick, 0.0952),
            (WeightForm::TimeConstant, TEN, steady, 0.0488),
            (WeightForm::TimeConstant, TEN, quick, 0.0100),
            (WeightForm::Fixed(steady), SECOND, quick, 0.6667),
            (WeightForm::Fixed(steady), TEN, quick, 0.0952),
        ] {
            near(form.alpha(horizon, interval), alpha);
        }
    }

    /// Halves after the horizon times ln 2, in many steps as in one.
    #[test]
    fn a_time_constant_is_the_same_in_steps_of_any_length() {
        for ms in [1, 10, 100, 693] {
            let alpha = WeightForm::TimeConstant.alpha(SECOND, Nanos::from_millis(ms));
            let steps = i32::try_from(693 / ms).unwrap();
            near((1.0 - alpha).powi(steps), (-1e-3 * f64::from(steps) * ms as f64).exp());
        }
    }

    proptest! {
        #[test]
        fn a_weight_is_a_share(horizon in 1u64..1 << 40, interval in 1u64..1 << 40) {
            for form in [WeightForm::Span, WeightForm::TimeConstant, WeightForm::Fixed(Nanos(interval / 2 + 1))] {
                let alpha = form.alpha(Nanos(horizon), Nanos(interval));
                prop_assert!((0.0..=1.0).contains(&alpha), "{form:?}: {alpha}");
            }
        }
    }
}
