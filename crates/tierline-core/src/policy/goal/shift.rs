// SPDX-License-Identifier: Apache-2.0
//! ComputeShift: how many accesses to shift between two tiers so that their loaded latencies become equal.
//!
//! A binary search over p, the share of accesses that the upper tier serves. Two watermarks close in on the
//! point of equal latency: `p_lo`, the last p with the upper tier faster, and `p_hi`, the last p with it
//! slower. If they meet while the latencies still differ, that point has moved, and the watermark on its side
//! is reset. The step is |(p_lo + p_hi)/2 − p|.
//!
//! Source: Colloid (SOSP 2024), Algorithm 2. [`closed_form`] is what its public HeMem code computes
//! instead.

/// The watermarks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchBounds {
    /// Here the upper tier was faster.
    pub lo: f64,
    /// Here it was slower.
    pub hi: f64,
}

impl Default for SearchBounds {
    fn default() -> Self {
        Self { lo: 0.0, hi: 1.0 }
    }
}

impl SearchBounds {
    /// The share to be shifted: up if `upper` < `lower` (loaded latencies), else down. Zero if they differ by
    /// less than `delta`.
    pub fn shift(&mut self, p: f64, upper: f64, lower: f64, epsilon: f64, delta: f64) -> f64 {
        if (upper - lower).abs() < delta * upper {
            return 0.0;
        }
        let up = upper < lower;
        *(if up { &mut self.lo } else { &mut self.hi }) = p;
        if self.hi < self.lo + epsilon {
            if up {
                self.hi = 1.0;
            } else {
                self.lo = 0.0;
            }
        }
        (f64::midpoint(self.lo, self.hi) - p).abs()
    }
}

/// p·|L_D − L_A| / (L_D + (R_D/R_A)·L_A), the step of the public HeMem code, without dead band and state. With
/// p the upper tier's share of reads, R_D/R_A is p/(1 − p).
pub fn closed_form(p: f64, upper: f64, lower: f64) -> f64 {
    if p >= 1.0 {
        return 0.0; // the limit as R_D/R_A grows without bound
    }
    p * (upper - lower).abs() / (upper + p / (1.0 - p) * lower)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EPSILON: f64 = 0.01;
    const DELTA: f64 = 0.05;

    /// L_D and L_A of two tiers of which the upper is loaded.
    fn latencies(p: f64, load: f64) -> (f64, f64) {
        (70.0 + 120.0 * p * p * p * load, 135.0 + 60.0 * (1.0 - p) * (1.0 - p))
    }

    fn step(marks: &mut SearchBounds, p: f64, load: f64) -> (f64, f64) {
        let (upper, lower) = latencies(p, load);
        let step = marks.shift(p, upper, lower, EPSILON, DELTA);
        let p = if upper < lower { p + step } else { p - step };
        (p.clamp(0.0, 1.0), step)
    }

    /// Worked out by hand from Algorithm 2.
    #[test]
    fn the_published_steps() {
        let mut marks = SearchBounds::default();
        let mut p = 0.2;
        let mut run = |load: f64, expected: &[f64]| {
            for &wanted in expected {
                let (next, got) = step(&mut marks, p, load);
                assert!((got - wanted).abs() < 1e-9, "at p = {p}: {got}, not {wanted}");
                p = next;
            }
        };
        run(1.0, &[0.4, 0.2, 0.0]);
        run(2.0, &[0.1, 0.05, 0.0]);
        assert!((p - 0.65).abs() < 1e-9);
    }

    /// In the terms of the public code (O_D, O_A, R_D, R_A).
    #[test]
    fn the_closed_form_agrees_with_the_public_code() {
        for (occupancy, rates, wanted) in [
            ((10.0, 5.0), (1000.0, 300.0), 0.078_227),
            ((4.0, 8.0), (500.0, 500.0), 0.166_667),
            ((20.0, 3.0), (900.0, 100.0), 0.023_954),
        ] {
            let ((od, oa), (rd, ra)) = (occupancy, rates);
            let got = closed_form(rd / (rd + ra), od / rd, oa / ra);
            assert!((got - wanted).abs() < 1e-6, "{got}, not {wanted}");
        }
        assert_eq!(closed_form(1.0, 90.0, 135.0), 0.0);
    }

    #[test]
    fn an_upper_tier_that_stays_faster_gets_all_accesses() {
        let mut marks = SearchBounds::default();
        let mut p = 0.1;
        for _ in 0..40 {
            let step = marks.shift(p, 90.0, 135.0, EPSILON, DELTA);
            p += step;
        }
        assert!(p > 0.999_999, "{p}");
    }

    proptest! {
        /// From either side, with any crossing curves, the search ends within the dead band; and again after
        /// the crossing moves.
        #[test]
        fn it_finds_the_crossing_from_both_sides_and_follows_it(
            start in 0.0f64..1.0,
            crossings in prop::collection::vec(0.05f64..0.95, 1..5),
            slope in 40.0f64..400.0,
        ) {
            let mut marks = SearchBounds::default();
            let mut p = start;
            for crossing in crossings {
                let pair = |p: f64| (100.0 + slope * (p - crossing), 100.0 + 50.0 * (crossing - p));
                let balanced = |p: f64| {
                    let (upper, lower) = pair(p);
                    (upper - lower).abs() < DELTA * upper
                };
                for _ in 0..60 {
                    let (upper, lower) = pair(p);
                    let (upper, lower) = (upper.max(1.0), lower.max(1.0));
                    let step = marks.shift(p, upper, lower, EPSILON, DELTA);
                    p = (if upper < lower { p + step } else { p - step }).clamp(0.0, 1.0);
                    prop_assert!((0.0..=1.0).contains(&step));
                }
                prop_assert!(balanced(p), "p = {} and not {}", p, crossing);
            }
        }
    }
}
