// SPDX-License-Identifier: Apache-2.0
//! The distribution of accesses: bands of ranks, uniform within a band.
//!
//! A hot set is two bands; Zipf's law is a few dozen, each spanning a constant ratio of ranks. So a tier's
//! share of accesses is a sum over bands, of the number of the band's pages in the tier, and moving a page
//! changes one count ([`Census`]). No quantum visits all pages.

use std::ops::Range;

use tierline_core::rng::Rng;
use tierline_core::tier::TierId;

use super::order::Order;
use super::places::{NOWHERE, Places};

/// Pages of equal popularity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// The first rank after it.
    pub end: u32,
    /// Share of all accesses to its pages.
    pub share: f64,
}

/// Consecutive pages of equal popularity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// The pages.
    pub pages: Range<u32>,
    /// Their band.
    pub band: usize,
}

/// A distribution of accesses over pages.
#[derive(Clone, Debug)]
pub struct Pattern {
    order: Order,
    bands: Vec<Band>,
    /// Cumulative shares in units of 2^-64, for drawing.
    until: Vec<u64>,
}

impl Pattern {
    /// Bands over an order. Shares are normalised to add up to 1; empty bands are dropped.
    pub fn new(order: Order, bands: impl IntoIterator<Item = Band>) -> Self {
        let mut kept: Vec<Band> = Vec::new();
        for band in bands {
            let start = kept.last().map_or(0, |last| last.end);
            let end = band.end.min(order.pages());
            if end > start {
                kept.push(Band { end, share: band.share });
            }
        }
        match kept.last_mut() {
            Some(last) => last.end = order.pages(),
            None => kept.push(Band { end: order.pages(), share: 1.0 }),
        }
        let sum: f64 = kept.iter().map(|band| band.share).sum();
        kept.iter_mut().for_each(|band| band.share /= sum);
        Self { until: running_sums(&kept), order, bands: kept }
    }

    /// The bands, usually most popular first.
    pub fn bands(&self) -> &[Band] {
        &self.bands
    }

    /// The mapping of ranks to pages.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// The first rank of a band.
    pub fn start(&self, band: usize) -> u32 {
        band.checked_sub(1).map_or(0, |before| self.bands[before].end)
    }

    /// The band of a rank.
    pub fn band_of_rank(&self, rank: u32) -> usize {
        self.bands.partition_point(|band| band.end <= rank)
    }

    /// The band of a page.
    pub fn band(&self, page: u32) -> usize {
        self.band_of_rank(self.order.rank(page))
    }

    /// Share of all accesses to one page of a band.
    pub fn density(&self, band: usize) -> f64 {
        self.bands[band].share / f64::from(self.bands[band].end - self.start(band))
    }

    /// The page of a random access.
    pub fn draw(&self, rng: &mut Rng) -> u32 {
        let at = rng.next_u64();
        let band = self.until.partition_point(|&until| until <= at).min(self.bands.len() - 1);
        let start = self.start(band);
        let within = rng.below(u64::from(self.bands[band].end - start));
        self.order.page(start + u32::try_from(within).unwrap_or(0))
    }

    /// All pages in order of addresses, in runs of one band.
    pub fn runs(&self) -> impl Iterator<Item = PageRun> + '_ {
        let mut page = 0;
        std::iter::from_fn(move || {
            let start = page;
            let rank = (start < self.order.pages()).then(|| self.order.rank(start))?;
            let band = self.band_of_rank(rank);
            let ahead = match self.order.is_reversed() {
                true => rank - self.start(band) + 1,
                false => self.bands[band].end - rank,
            };
            page = (start + ahead).min(self.order.end_of_chunk(start));
            Some(PageRun { pages: start..page, band })
        })
    }

    /// Advances popularity by this many ranks and updates the census. The cost grows with the pages that change
    /// bands.
    pub fn advance(&mut self, ranks: u32, places: &Places, census: &mut Census) {
        let mut left = ranks % self.order.pages().max(1);
        while left > 0 {
            let step = left.min(self.narrowest());
            for band in 0..self.bands.len() {
                self.overflow(band, (band + 1) % self.bands.len(), step, places, census);
            }
            self.order.advance(step);
            left -= step;
        }
    }

    /// Adds pages at the end of memory, which a reversed order ranks first. Their tiers are already set.
    pub fn grow(&mut self, pages: u32, places: &Places, census: &mut Census) {
        let mut left = pages;
        while left > 0 {
            let step = left.min(self.narrowest());
            for band in 0..self.bands.len() - 1 {
                self.overflow(band, band + 1, step, places, census);
            }
            for page in self.order.pages()..self.order.pages() + step {
                census.add(0, places.parts(page));
            }
            self.order.grow(step);
            if let Some(last) = self.bands.last_mut() {
                last.end += step;
            }
            left -= step;
        }
    }

    /// Counts the last pages of a band in another band.
    fn overflow(&self, band: usize, next: usize, ranks: u32, places: &Places, census: &mut Census) {
        for rank in self.bands[band].end - ranks..self.bands[band].end {
            for (tier, base_pages) in places.parts(self.order.page(rank)) {
                census.0[band][usize::from(tier)] -= base_pages;
                census.0[next][usize::from(tier)] += base_pages;
            }
        }
    }

    /// Pages of the narrowest band: with steps of at most this length, no page skips a band.
    fn narrowest(&self) -> u32 {
        let widths = (0..self.bands.len()).map(|b| self.bands[b].end - self.start(b));
        widths.min().unwrap_or(1).max(1)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "shares are between 0 and 1, and the cast saturates"
)]
fn running_sums(bands: &[Band]) -> Vec<u64> {
    let mut sum = 0.0;
    let scale = 18_446_744_073_709_551_616.0; // 2^64
    bands.iter().map(|band| (sum += band.share, (sum * scale) as u64).1).collect()
}

/// Base pages by band and tier; integers, so that no error accumulates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census(Vec<[u64; TierId::MAX + 1]>);

impl Census {
    /// Counts all pages: at a program's start, and after a complete change of its pattern.
    pub fn take(pattern: &Pattern, places: &Places) -> Self {
        let mut census = Self(vec![[0; TierId::MAX + 1]; pattern.bands.len()]);
        for run in pattern.runs() {
            run.pages.for_each(|page| census.add(run.band, places.parts(page)));
        }
        census
    }

    /// A census with all `base_pages` base pages unplaced.
    pub fn nowhere(pattern: &Pattern, base_pages: u64) -> Self {
        let mut counts = vec![[0; TierId::MAX + 1]; pattern.bands.len()];
        for (band, counts) in counts.iter_mut().enumerate() {
            let pages = pattern.bands[band].end - pattern.start(band);
            counts[usize::from(NOWHERE)] = u64::from(pages) * base_pages;
        }
        Self(counts)
    }

    fn add(&mut self, band: usize, parts: impl Iterator<Item = (u8, u64)>) {
        parts.for_each(|(tier, base_pages)| self.0[band][usize::from(tier)] += base_pages);
    }

    /// Records that base pages of a band moved from one tier to another.
    pub fn moved(&mut self, band: usize, from: u8, to: u8, base_pages: u64) {
        self.0[band][usize::from(from)] -= base_pages;
        self.0[band][usize::from(to)] += base_pages;
    }

    /// Base pages of a band in a tier.
    pub fn base_pages(&self, band: usize, tier: u8) -> u64 {
        self.0[band][usize::from(tier)]
    }

    /// Share of accesses served by each tier. Unplaced pages are not accessed.
    pub fn shares(&self, pattern: &Pattern) -> [f64; TierId::MAX] {
        let mut shares = [0.0; TierId::MAX];
        for (band, counts) in self.0.iter().enumerate() {
            let density = pattern.density(band);
            for (share, &count) in shares.iter_mut().zip(counts) {
                #[expect(clippy::cast_precision_loss, reason = "the base pages of one machine")]
                let count = count as f64;
                *share += density * count;
            }
        }
        let sum: f64 = shares.iter().sum();
        if sum > 0.0 {
            shares.iter_mut().for_each(|share| *share /= sum);
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tierline_core::port::PageSize;
    use tierline_core::rng::Rng;

    fn hot_and_cold(pages: u32, hot: u32) -> Pattern {
        let bands = [Band { end: hot, share: 0.9 }, Band { end: pages, share: 0.1 }];
        Pattern::new(Order::scattered(pages, 8, 5), bands)
    }

    #[test]
    fn draws_follow_the_shares() {
        let pattern = hot_and_cold(10_000, 1_000);
        let mut rng = Rng::new(2);
        let hot = (0..100_000).filter(|_| pattern.band(pattern.draw(&mut rng)) == 0).count();
        assert!((89_500..90_500).contains(&hot), "{hot}");
    }

    #[test]
    fn a_tiers_share_is_that_of_its_pages() {
        let pattern = hot_and_cold(1_000, 100);
        let tiers: Vec<u8> = (0..1_000).map(|page| u8::from(pattern.band(page) == 1)).collect();
        let places = Places::new(tiers, PageSize::Base);
        let shares = Census::take(&pattern, &places).shares(&pattern);
        assert!((shares[0] - 0.9).abs() < 1e-12 && (shares[1] - 0.1).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn runs_cover_all_pages_in_order(
            pages in 1u32..700, chunk in 1u32..90, moved in 0u32..700, hot in 1u32..300, back: bool,
        ) {
            let mut order =
                if back { Order::reversed(pages) } else { Order::scattered(pages, chunk, 3) };
            order.advance(moved % pages);
            let bands = [Band { end: hot, share: 0.9 }, Band { end: pages, share: 0.1 }];
            let pattern = Pattern::new(order, bands);
            let mut next = 0;
            for run in pattern.runs() {
                prop_assert_eq!(run.pages.start, next);
                next = run.pages.end;
                for page in run.pages {
                    prop_assert_eq!(pattern.band(page), run.band);
                }
            }
            prop_assert_eq!(next, pages);
        }

        /// Whether updated incrementally or counted again, the census is equal, also with split pages.
        #[test]
        fn the_census_follows_moves_and_drift(
            steps in prop::collection::vec((0u32..500, 0u8..3, 0u32..700, 0u64..1024), 1..40),
            bands in prop::collection::vec((1u32..500, 0.01f64..1.0), 1..6),
        ) {
            let mut end = 0;
            let bands = bands.into_iter().map(|(width, share)| (end += width, Band { end, share }).1);
            let mut pattern = Pattern::new(Order::scattered(500, 7, 9), bands.collect::<Vec<_>>());
            let mut places = Places::new(vec![1; 500], PageSize::Huge);
            let mut census = Census::take(&pattern, &places);
            for (page, to, drift, within) in steps {
                let band = pattern.band(page);
                if within < 512 {
                    places.split(page);
                }
                match places.put_within(page, within, to) {
                    Some(from) => census.moved(band, from, to, 1),
                    None => census.moved(band, places.put(page, to), to, 512),
                }
                pattern.advance(drift, &places, &mut census);
                prop_assert_eq!(&census, &Census::take(&pattern, &places));
            }
            let sum: f64 = census.shares(&pattern).iter().sum();
            prop_assert!((sum - 1.0).abs() < 1e-9);
        }

        #[test]
        fn the_census_follows_growth(grown in prop::collection::vec(1u32..90, 1..10), a in 1u32..40) {
            let bands = [Band { end: a, share: 0.7 }, Band { end: 60, share: 0.3 }];
            let mut pattern = Pattern::new(Order::reversed(60), bands);
            let tiers = (0..1_000).map(|page| u8::from(page % 3 == 0)).collect();
            let places = Places::new(tiers, PageSize::Base);
            let mut census = Census::take(&pattern, &places);
            for pages in grown {
                pattern.grow(pages, &places, &mut census);
                prop_assert_eq!(&census, &Census::take(&pattern, &places));
                prop_assert_eq!(pattern.order().rank(pattern.order().pages() - 1), 0);
            }
        }
    }
}
