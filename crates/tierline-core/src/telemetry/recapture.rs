// SPDX-License-Identifier: Apache-2.0
//! Capture and recapture: whether the accesses of a huge page go to few of its base pages, from several windows.
//!
//! If accesses are even, a window that finds `a` of 512 base pages and one that finds `b` find `a·b/512` in common, whatever
//! their lengths. If they go to few, these are found by both. (Lincoln and Petersen's estimate of a population; its use for
//! huge pages is ours.)

use crate::port::{PartBits, Spread};
use crate::telemetry::estimate::minus_ln_of_rest;
use crate::telemetry::hot_spots::HotSpot;
use crate::unit::BASE_PER_HUGE;

/// Base pages found again, in times of the number for even accesses: half of the base pages get them all. Ours: a
/// split also costs the program longer walks of page tables.
const MOST_EVEN: f32 = 2.0;
/// So many more must be found again: four of even accesses are rarely found again where none is expected.
const BY_CHANCE: f32 = 3.0;

/// The few base pages that get the accesses, and the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Few {
    /// Those found again.
    pub spot: HotSpot,
    /// Accesses per second of one of them.
    pub part_per_sec: f32,
    /// Those that no window found.
    pub rest: HotSpot,
    /// Accesses per second of one of them, at most: those found once count.
    pub rest_per_sec: f32,
}

/// The base pages that get the accesses, if they are few.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "counts up to 512"
)]
pub fn few(Spread { accessed, window, .. }: &Spread) -> Option<Few> {
    let (mut once, mut again) = (PartBits::default(), PartBits::default());
    let (mut found, mut pairs) = (0.0, 0.0);
    for (at, bits) in accessed.iter().enumerate() {
        found += count(*bits);
        for earlier in &accessed[..at] {
            pairs += count(both(*bits, *earlier));
        }
        again = either(again, both(once, *bits));
        once = either(once, *bits);
    }
    let windows = accessed.len() as f32;
    let by_chance = found * found * (windows - 1.0) / (2.0 * windows * BASE_PER_HUGE as f32);
    if pairs <= MOST_EVEN * by_chance + BY_CHANCE {
        return None;
    }
    let [parts, others] = [count(again), BASE_PER_HUGE as f32 - count(again)];
    let found_once = count(once) - parts;
    let per_sec = |chance: f32| minus_ln_of_rest(chance.min(1.0)) / window.as_secs_f64() as f32;
    Some(Few {
        spot: HotSpot::of(again),
        part_per_sec: per_sec((found - found_once) / (windows * parts)),
        rest: HotSpot::of(once.map(|bits| !bits)),
        rest_per_sec: per_sec(found_once / (windows * others.max(1.0))),
    })
}

fn count(bits: PartBits) -> f32 {
    f32::from(HotSpot::of(bits).base_pages())
}

fn both(a: PartBits, b: PartBits) -> PartBits {
    std::array::from_fn(|word| a[word] & b[word])
}

fn either(a: PartBits, b: PartBits) -> PartBits {
    std::array::from_fn(|word| a[word] | b[word])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{SpaceId, Vpn};
    use crate::rng::Rng;
    use crate::unit::Nanos;

    /// Windows in which each base page is found with this chance.
    fn spread(rng: &mut Rng, windows: usize, chance: impl Fn(usize) -> f64) -> Spread {
        let accessed = (0..windows).map(|_| {
            let mut bits = PartBits::default();
            for part in 0..512 {
                bits[part / 64] |= u64::from(rng.unit() < chance(part)) << (part % 64);
            }
            bits
        });
        let (accessed, window) = (accessed.collect(), Nanos::from_millis(1));
        Spread { space: SpaceId(1), vpn: Vpn(0), accessed, window }
    }

    /// Of a thousand, how many are judged to go to few base pages.
    fn judged(windows: usize, chance: impl Fn(usize) -> f64) -> usize {
        let mut rng = Rng::new(3);
        (0..1_000).filter(|_| few(&spread(&mut rng, windows, &chance)).is_some()).count()
    }

    #[test]
    fn even_accesses_are_not_few_whatever_the_window() {
        for chance in [0.0, 0.01, 0.05, 0.2, 0.5, 0.9, 1.0] {
            for windows in [2, 4] {
                let judged = judged(windows, |_| chance);
                assert!(judged <= 10, "{chance}, {windows} windows: {judged}");
            }
        }
    }

    #[test]
    fn accesses_to_a_sixth_of_the_base_pages_are_few() {
        for (windows, hot) in [(2, 0.45), (2, 0.6), (2, 0.95), (4, 0.3), (4, 0.6)] {
            let chance = |part: usize| if part.is_multiple_of(6) { hot } else { hot / 40.0 };
            let judged = judged(windows, chance);
            assert!(judged > 980, "{hot}, {windows} windows: {judged}");
        }
        assert_eq!(judged(2, |part| f64::from(u8::from(part < 4))), 1_000, "four of 512");
    }

    #[test]
    fn it_tells_the_few_from_the_others() {
        let chance = |part| if part < 80 { 0.6 } else { 0.02 };
        let few = few(&spread(&mut Rng::new(7), 4, chance)).expect("a sixth of the base pages");
        // By hand: 66 of 80 are found at least twice, in 2.8 of 4 windows; one of 432 others; 398 of these never.
        let [hot, cold] = [&few.spot, &few.rest].map(HotSpot::base_pages);
        assert!((55..75).contains(&hot) && (380..420).contains(&cold), "{hot}, {cold}");
        // -ln(1 - 0.7) accesses in a millisecond; 50 of 446 pages were found once in four windows.
        assert!((few.part_per_sec - 1_200.0).abs() < 300.0, "{}", few.part_per_sec);
        assert!((few.rest_per_sec - 28.0).abs() < 10.0, "{}", few.rest_per_sec);
        assert!((0..512).all(|part| !(few.spot.holds(part) && few.rest.holds(part))));
    }
}
