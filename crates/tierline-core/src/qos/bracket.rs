// SPDX-License-Identifier: Apache-2.0
//! Where a target is just met, between a placement that missed it and one that met it with room to spare.
//!
//! A need computed from the present latencies of tiers is wrong where these change with the placement: a tier near
//! its capacity slows down as soon as more traffic moves there. Then the need would fall too far, rise too far, and
//! so on. Two measurements tell more than one: the need never leaves the interval between them, and the straight
//! line through their errors gives the next one (regula falsi). Ours.

use crate::unit::Nanos;

/// A miss this soon after the need fell was caused by it.
const BLAMED: Nanos = Nanos::from_secs(10);
/// A miss this long ago says nothing about the present load.
const FORGOTTEN: Nanos = Nanos::from_secs(300);

/// A placement, as the fast memory that it takes, and the relative error of the target there.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    at: Nanos,
    fast: f64,
    error: f64,
}

/// The last placement that missed, and the last that met with room to spare.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bracket {
    missed: Option<Point>,
    met: Option<Point>,
}

impl Bracket {
    /// The next need after `fast` missed by `error`, where the computed one is `found`, above it.
    pub fn rise(&mut self, at: Nanos, fast: f64, error: f64, found: f64) -> f64 {
        let missed = Point { at, fast, error };
        self.missed = Some(missed);
        let recent = |met: &Point| at.saturating_sub(met.at) < BLAMED && met.fast > fast;
        self.met.filter(recent).map_or(found, |met| found.min(crossing(missed, met)))
    }

    /// The next need after `fast` met with this error, below 0, where the computed one is `found`, below it.
    pub fn fall(&mut self, at: Nanos, fast: f64, error: f64, found: f64) -> f64 {
        let met = Point { at, fast, error };
        self.met = Some(met);
        let recent =
            |missed: &Point| at.saturating_sub(missed.at) < FORGOTTEN && missed.fast < fast;
        self.missed.filter(recent).map_or(found, |missed| found.max(crossing(missed, met)))
    }
}

/// Where the line through two points has no error; the better one if it has none.
fn crossing(missed: Point, met: Point) -> f64 {
    let between = missed.error - met.error;
    match between > 0.0 {
        true => missed.fast + (met.fast - missed.fast) * (missed.error / between).clamp(0.0, 1.0),
        false => met.fast,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    #[test]
    fn the_first_need_is_the_computed_one() {
        let mut bracket = Bracket::default();
        assert_eq!(bracket.fall(at(1), 20.0, -0.3, 4.0), 4.0);
        assert_eq!(Bracket::default().rise(at(1), 4.0, 0.2, 13.0), 13.0);
    }

    /// 4 missed by 20 %, 12 met by 20 %: 8 is tried next.
    #[test]
    fn a_need_stays_between_a_miss_and_what_met() {
        let mut bracket = Bracket::default();
        assert_eq!(bracket.rise(at(1), 4.0, 0.2, 12.0), 12.0);
        assert!((bracket.fall(at(4), 12.0, -0.2, 3.0) - 8.0).abs() < 1e-9);
        assert!((bracket.rise(at(6), 8.0, 0.1, 20.0) - (8.0 + 4.0 / 3.0)).abs() < 1e-9);
    }

    #[test]
    fn what_was_long_ago_does_not_count() {
        let mut bracket = Bracket::default();
        bracket.rise(at(1), 4.0, 0.2, 12.0);
        assert_eq!(bracket.fall(at(302), 12.0, -0.2, 3.0), 3.0);
        assert_eq!(bracket.rise(at(320), 3.0, 0.2, 12.0), 12.0);
    }
}
