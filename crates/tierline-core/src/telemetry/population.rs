// SPDX-License-Identifier: Apache-2.0
//! How often one scan finds the pages of slow memory: what is known of all of them tells more of one page than its few
//! hits do.
//!
//! Two shares describe them: the share of all pages that a scan finds accessed, and the share of these that the scan before
//! had found, too. The first is the mean chance of a page, the second its mean among found pages, `E[p²] / E[p]`. They fix
//! a beta distribution, the conjugate prior of hits in scans (method of moments). If most accesses go to few pages, a page
//! that is found is found again, and few hits tell that it is hot. If all pages are alike, no number of hits by chance does.
//! Its use for pages is ours.

/// Found pages from which the shares can be told. Ours.
const ENOUGH_FOUND: u64 = 256;
/// How many times as often as any page one that was found must be found again, for a single hit to be evidence. Ours.
const STANDS_OUT: f32 = 2.0;
/// The chance of a second hit from which the first is enough. Ours: to wait for it would delay most moves, and prevent few.
const LIKELY: f32 = 0.5;
/// Standard deviations from the expected chance to its lower bound: that pages look hot by chance is part of the
/// expectation, so less is needed than for a page by itself. Ours.
const SURELY: f32 = 1.0;

/// A beta distribution of the chance that a scan finds a page, as hits in earlier scans.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Population {
    hits: f32,
    scans: f32,
}

impl Population {
    /// Of so many pages, `found` were found by a scan, and `again` of these by the one before, too. `None` if they are too
    /// few, or if found pages are not found more often than others.
    #[expect(clippy::cast_precision_loss, reason = "ratios")]
    pub fn of(pages: u64, found: u64, again: u64) -> Option<Self> {
        if found < ENOUGH_FOUND {
            return None;
        }
        // Less than one, as a chance of one would need no other scan.
        let (mean, again) = (found as f32 / pages as f32, again as f32 / (found as f32 + 1.0));
        // E[p] = hits / scans, and E[p²] / E[p] = (hits + 1) / (scans + 1).
        let scans = (1.0 - again) / (again - mean);
        (again > mean && scans.is_finite()).then_some(Self { hits: mean * scans, scans })
    }

    /// Whether pages that one scan found are found by the next far more often than others.
    pub fn stands_out(self) -> bool {
        self.again() > STANDS_OUT * self.hits / self.scans
    }

    /// Whether a page that one scan found is found by the next more likely than not, so that one hit is enough.
    pub fn one_hit_tells(self) -> bool {
        self.again() > LIKELY
    }

    /// The chance that the next scan finds a page that one scan found.
    fn again(self) -> f32 {
        (self.hits + 1.0) / (self.scans + 1.0)
    }

    /// A lower bound of the chance that the next scan finds a page which these scans found so often.
    pub fn at_least(self, hits: f32, scans: f32) -> f32 {
        let scans = self.scans + scans;
        let expected = ((self.hits + hits) / scans).min(1.0);
        let deviation = (expected * (1.0 - expected) / (scans + 1.0)).sqrt();
        (expected - SURELY * deviation).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn it_has_both_shares() {
        // By hand: scans = 0.6 / 0.3 = 2, hits = 0.1 · 2.
        let population = Population::of(10_000, 1_000, 400).expect("enough pages");
        assert!((population.scans - 2.0).abs() < 0.01 && (population.hits - 0.2).abs() < 0.001);
        // 2.2 hits in 4 scans: 0.55, and a standard deviation of √(0.55 · 0.45 / 5).
        assert!((population.at_least(2.0, 2.0) - 0.3275).abs() < 1e-3);
        assert_eq!(population.at_least(0.0, 4.0), 0.0);
        assert!(population.stands_out() && !population.one_hit_tells(), "0.4 are found again");
        // All are found again: 1 hit of 1 is nearly certain.
        let certain = Population::of(10_000, 1_000, 1_000).expect("enough pages");
        assert!(certain.one_hit_tells() && certain.at_least(1.0, 1.0) > 0.95, "{certain:?}");
    }

    #[test]
    fn pages_that_are_alike_or_few_tell_nothing() {
        assert_eq!(Population::of(10_000, 1_000, 100), None, "found again by chance");
        assert_eq!(Population::of(10_000, 1_000, 60), None);
        assert_eq!(Population::of(10_000, 255, 200), None, "too few");
        assert_eq!(Population::of(1_000, 1_000, 1_000), None, "always all");
    }

    /// Four scans of 1,000 pages that a scan finds with the first chance, and 6,000 with the other: of each, those found in two
    /// of the scans or more, and those with a lower bound above this chance.
    fn hot(chances: [f64; 2], limit: f32) -> [[usize; 2]; 2] {
        let mut rng = Rng::new(7);
        let pages: Vec<(usize, [bool; 4])> = (0..7_000)
            .map(|page| usize::from(page >= 1_000))
            .map(|kind| (kind, std::array::from_fn(|_| rng.unit() < chances[kind])))
            .collect();
        let count = |test: &dyn Fn(&[bool; 4]) -> bool| -> [usize; 2] {
            [0, 1]
                .map(|kind| pages.iter().filter(|(own, found)| *own == kind && test(found)).count())
        };
        let sum = |counts: [usize; 2]| (counts[0] + counts[1]) as u64;
        let (last, both) =
            (sum(count(&|found| found[3])), sum(count(&|found| found[3] && found[2])));
        let population = Population::of(7_000, last, both);
        let hits = |found: &[bool; 4]| found.iter().filter(|found| **found).count();
        [
            count(&|found| hits(found) >= 2),
            count(&|found| {
                population.is_some_and(|it| it.at_least(hits(found) as f32, 4.0) > limit)
            }),
        ]
    }

    /// A hot page is found by two of five scans, others by one in a hundred. Two hits of four are enough.
    #[test]
    fn few_hits_tell_a_hot_page_where_others_are_rarely_found() {
        let [twice, sure] = hot([0.4, 0.01], 0.16);
        assert_eq!(sure, twice);
        assert!(sure[0] > 480 && sure[1] < 12, "{sure:?}"); // expected: 525 and 4
    }

    /// The same hits by pages that are all alike.
    #[test]
    fn many_pages_with_two_hits_by_chance_are_not_hot() {
        let [twice, sure] = hot([0.2, 0.2], 0.2);
        assert!(twice[1] > 900, "{twice:?}");
        assert!(sure[1] < 20, "{sure:?}");
    }
}
