// SPDX-License-Identifier: Apache-2.0
//! Hot spots: huge pages whose accesses go to few of their base pages.
//!
//! Each base page that was hit is one bit. If accesses are spread evenly over `n` base pages, a number of hits
//! finds `n·(1 - exp(-hits/n))` different ones: 64 hits find 60 of all 512, 32 of 40, 16 of 16. A page is
//! judged after that many hits and then dropped, so it costs 72 bytes while hits are collected, and nothing
//! afterwards. (Ours; MEMTIS keeps a count for every base page, [`super::subpages`], and compares all huge
//! pages with one another.)

use rustc_hash::FxHashMap;

use crate::page::PageIdx;
use crate::port::PartBits;

/// Hits after which a huge page is judged.
const EVIDENCE: u32 = 64;
/// Different base pages that they may have found, at most: about 40 of 512 get all accesses.
const FEW: u16 = 32;
/// Huge pages whose hits are collected; above this all are dropped.
const MOST: usize = 1 << 16;

/// Base pages that were hit, one bit each, by address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotSpot(PartBits);

impl HotSpot {
    /// These base pages.
    pub fn of(bits: PartBits) -> Self {
        Self(bits)
    }

    fn add(&mut self, within: u16) {
        self.0[usize::from(within / 64)] |= 1 << (within % 64);
    }

    /// Whether this base page was hit.
    pub fn holds(&self, within: usize) -> bool {
        self.0.get(within / 64).is_some_and(|bits| bits >> (within % 64) & 1 == 1)
    }

    /// Number of base pages that were hit.
    #[expect(clippy::cast_possible_truncation, reason = "at most 64 of each word")]
    pub fn base_pages(&self) -> u16 {
        self.0.iter().map(|bits| bits.count_ones()).fold(0, |sum, ones| sum + ones as u16)
    }
}

/// The hits of huge pages that are not judged yet.
#[derive(Debug, Default)]
pub struct HotSpots {
    collected: FxHashMap<PageIdx, (u32, HotSpot)>,
}

impl HotSpots {
    /// Takes in a hit of a base page of a huge page. Returns the hot spot once one is found.
    pub fn hit(&mut self, page: PageIdx, within: u16) -> Option<HotSpot> {
        if self.collected.len() >= MOST {
            self.collected.clear();
        }
        let (hits, spot) = self.collected.entry(page).or_default();
        *hits += 1;
        spot.add(within);
        if *hits < EVIDENCE {
            return None;
        }
        let (_, spot) = self.collected.remove(&page)?;
        (spot.base_pages() <= FEW).then_some(spot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const PAGE: PageIdx = PageIdx::from_index(7);

    /// The number of pages, of a thousand, judged to have a hot spot, with accesses spread evenly over
    /// `base_pages`.
    fn judged(base_pages: u64) -> usize {
        let (mut spots, mut rng) = (HotSpots::default(), Rng::new(1));
        let mut found = |_: &u32| {
            let mut hits = (0..EVIDENCE).map(|_| {
                spots.hit(PAGE, u16::try_from(rng.below(base_pages) * 512 / base_pages).unwrap())
            });
            hits.any(|spot| spot.is_some())
        };
        (0..1_000).filter(|page| found(page)).count()
    }

    #[test]
    fn one_hot_base_page_is_a_spot_and_even_accesses_are_none() {
        assert_eq!([1, 16].map(judged), [1_000, 1_000]);
        assert_eq!([128, 256, 512].map(judged), [0, 0, 0]);
    }

    #[test]
    fn it_reports_the_base_pages_that_were_hit_and_restarts() {
        let mut spots = HotSpots::default();
        let mut hit = |i: u32| spots.hit(PAGE, if i.is_multiple_of(2) { 3 } else { 511 });
        assert!((1..EVIDENCE).all(|i| hit(i).is_none()));
        let spot = hit(EVIDENCE).unwrap();
        assert_eq!(spot.base_pages(), 2);
        assert!(spot.holds(3) && spot.holds(511) && !spot.holds(4) && !spot.holds(512));
        assert!(hit(0).is_none());
    }
}
