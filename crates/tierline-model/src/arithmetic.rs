// SPDX-License-Identifier: Apache-2.0
//! Logarithm, exponential and power from basic arithmetic. Platform libraries differ in the last bits, which
//! would change fingerprints.

use tierline_core::rng::Rng;

const LN_2: f64 = std::f64::consts::LN_2;

/// Natural logarithm of a positive, normal number: its exponent, and `2·atanh((m−1)/(m+1))` of its mantissa.
pub fn ln(x: f64) -> f64 {
    debug_assert!(x.is_normal() && x > 0.0, "ln of {x}");
    let bits = x.to_bits();
    let exponent = i32::try_from((bits >> 52) & 0x7ff).unwrap_or(0) - 1023;
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | (1023 << 52));
    // Within a factor of √2 of 1, where the series is short.
    let (mantissa, exponent) =
        if mantissa > 1.5 { (mantissa * 0.5, exponent + 1) } else { (mantissa, exponent) };
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let square = z * z;
    let (mut term, mut sum) = (z, 0.0);
    for odd in 0..16 {
        sum += term / f64::from(2 * odd + 1);
        term *= square;
    }
    f64::from(exponent) * LN_2 + 2.0 * sum
}

/// Exponential function: a short series after halving the argument ten times.
pub fn exp(x: f64) -> f64 {
    if x < -700.0 {
        return 0.0;
    }
    let small = x * (1.0 / 1024.0);
    let mut sum = 1.0;
    for k in (1..=9).rev() {
        sum = 1.0 + sum * small / f64::from(k);
    }
    (0..10).fold(sum, |power, _| power * power)
}

/// `x` to the power of `y`, for positive `x`.
pub fn pow(x: f64, y: f64) -> f64 {
    exp(y * ln(x))
}

/// Arithmetic mean; 0 for an empty slice.
pub fn mean(of: &[f64]) -> f64 {
    let count: f64 = of.iter().map(|_| 1.0).sum();
    if count > 0.0 { of.iter().sum::<f64>() / count } else { 0.0 }
}

/// Geometric mean; 1 for an empty slice, 0 if an element is not positive.
pub fn geometric_mean(of: &[f64]) -> f64 {
    if of.iter().any(|&x| x.is_nan() || x <= 0.0) {
        return 0.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "a count")]
    let count = of.len().max(1) as f64;
    exp(of.iter().map(|&x| ln(x)).sum::<f64>() / count)
}

/// An exponentially distributed number with mean 1.
pub fn exponential(rng: &mut Rng) -> f64 {
    -ln(1.0 - rng.unit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tierline_core::rng::Rng;

    #[test]
    fn means() {
        assert_eq!((mean(&[2.0, 8.0]), mean(&[])), (5.0, 0.0));
        assert!((geometric_mean(&[2.0, 8.0]) - 4.0).abs() < 1e-9);
        assert_eq!((geometric_mean(&[]), geometric_mean(&[2.0, 0.0])), (1.0, 0.0));
    }

    proptest! {
        #[test]
        fn functions_agree_with_the_platform(x in 1e-12f64..1e12, y in -2.0f64..2.0) {
            prop_assert!((ln(x) - x.ln()).abs() <= 1e-13 * x.ln().abs().max(1.0));
            prop_assert!((exp(20.0 * y) / (20.0 * y).exp() - 1.0).abs() < 1e-11);
            prop_assert!((pow(x, y) / x.powf(y) - 1.0).abs() < 1e-10);
        }
    }

    #[test]
    fn exponential_draws_have_mean_one() {
        let mut rng = Rng::new(3);
        let sum: f64 = (0..100_000).map(|_| exponential(&mut rng)).sum();
        assert!((sum / 1e5 - 1.0).abs() < 0.02, "{sum}");
    }
}
