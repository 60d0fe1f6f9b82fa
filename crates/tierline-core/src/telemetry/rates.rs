// SPDX-License-Identifier: Apache-2.0
//! Access rates of recently sampled pages, as a short and a long average.
//!
//! A page's rate in an interval is its hits over the watched time. Unlike counts, rates do not change with the
//! sampling period or with the length of intervals. Each interval updates both averages of every sampled page.
//! A page takes 20 bytes from its first hit until its averages have decayed to a hundredth of what one hit
//! adds; its word in the page table holds the index. A page without an entry has rate 0, so that nothing jumps
//! when entries come and go. A page's first rate can also initialise both averages.
//!
//! Source: ARMS (sections 4.1 and 5: access counter, two averages and hot age, "about 20 bytes"). It averages
//! counts and keeps all pages; rates, and dropping decayed pages, are ours.

use super::Hit;
use super::ewma::WeightForm;
use crate::knobs;
use crate::page::{PageIdx, PageTable, page_word};
use crate::port::PageSize;
use crate::unit::Nanos;

page_word! {
    /// The index of a page in the list of sampled pages, plus one.
    SlotWord
}

knobs! {
    /// The knobs of the averages.
    pub struct RatesKnobs {
        /// Horizon of the short average.
        short: Nanos = Nanos::from_secs(1), Nanos::from_millis(100), Nanos::from_secs(10);
        /// Horizon of the long average.
        long: Nanos = Nanos::from_secs(10), Nanos::from_secs(1), Nanos::from_secs(100);
        /// Weights from horizons: 0 span, 1 time constant, 2 span of the steady interval.
        alpha_form: u32 = 0, 0, 2;
        /// Whether a page's first rate initialises both averages; otherwise they start at 0.
        first_rate_whole: bool = false, false, true;
    }
}

/// Share of what one hit adds to a score below which a page is dropped.
const FADED: f64 = 0.01;

/// A sampled page.
#[derive(Clone, Copy, Debug)]
pub struct SampledPage {
    /// The page.
    pub page: PageIdx,
    /// Hits since the last interval ended.
    hits: f32,
    /// Accesses per second, short average.
    pub short: f32,
    /// Accesses per second, long average.
    pub long: f32,
    /// How long it has been hot, in ms; saturates.
    pub hot_ms: u16,
    /// Intervals in a row in which it was hot without a falling score; saturates.
    pub risen_rounds: u8,
    /// Its size.
    pub size: PageSize,
}

impl SampledPage {
    /// Updates the hot time and the rounds after an interval.
    pub fn update(&mut self, hot: bool, falls: bool, interval: Nanos) {
        let ms = u16::try_from(interval.0 / 1_000_000).unwrap_or(u16::MAX);
        let (rounds, hot_ms) =
            (self.risen_rounds.saturating_add(1), self.hot_ms.saturating_add(ms));
        self.risen_rounds = if hot && !falls { rounds } else { 0 };
        self.hot_ms = if hot { hot_ms } else { 0 };
    }

    /// How long it has been hot.
    pub fn hot_for(&self) -> Nanos {
        Nanos::from_millis(self.hot_ms.into())
    }
}

/// A page's score after an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageScore {
    /// Its index among the sampled pages, until the next interval ends.
    pub at: usize,
    /// Its weighted averages, in accesses per second.
    pub score: f32,
    /// The change of the score; negative if it fell.
    pub change: f32,
}

/// An interval and its weights.
#[derive(Clone, Copy, Debug)]
pub struct RateInterval {
    /// Its length.
    pub length: Nanos,
    /// Watched time in it.
    pub watched: Nanos,
    /// The steady interval, for weights that do not depend on the length.
    pub steady: Nanos,
    /// Weight of the short average in the score, 0 to 1; the rest is the long one's.
    pub short_weight: f64,
}

/// All sampled pages.
#[derive(Debug, Default)]
pub struct Rates {
    /// The knobs.
    pub knobs: RatesKnobs,
    sampled: Vec<SampledPage>,
}

impl Rates {
    /// Number of sampled pages.
    pub fn len(&self) -> usize {
        self.sampled.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.sampled.is_empty()
    }

    /// The page at an index from [`Rates::end_interval`].
    pub fn at(&mut self, at: usize) -> &mut SampledPage {
        &mut self.sampled[at]
    }

    /// Whether a page has an entry.
    pub fn has_entry(&self, pages: &PageTable, page: PageIdx) -> bool {
        self.place(pages, page).is_some()
    }

    /// The greater of the page's two averages, in accesses per second; zero without an entry.
    pub fn rate_of(&self, pages: &PageTable, page: PageIdx) -> f32 {
        let known = self.place(pages, page).map(|at| &self.sampled[at]);
        known.map_or(0.0, |known| known.short.max(known.long))
    }

    /// The index of the page; the word may be left from an earlier page with this index.
    fn place(&self, pages: &PageTable, page: PageIdx) -> Option<usize> {
        let at = usize::try_from(pages.heat::<SlotWord>(page).0).ok()?.checked_sub(1)?;
        self.sampled.get(at).is_some_and(|known| known.page == page).then_some(at)
    }

    /// Counts one hit. If the tracker knows the exposure of this single page, the hit is scaled to the whole
    /// watched time `watched`.
    pub fn count(&mut self, pages: &mut PageTable, hit: &Hit, watched: Nanos) {
        let at = self.place(pages, hit.page).or_else(|| {
            let size = pages.locate(hit.page)?.size;
            let new = SampledPage {
                page: hit.page,
                hits: 0.0,
                short: 0.0,
                long: 0.0,
                hot_ms: 0,
                risen_rounds: 0,
                size,
            };
            self.sampled.push(new);
            pages.set_heat(hit.page, SlotWord(self.sampled.len() as u64));
            Some(self.sampled.len() - 1)
        });
        let Some(at) = at else { return };
        #[expect(clippy::cast_possible_truncation, reason = "a ratio of two times")]
        let weight = hit.exposure.map_or(1.0, |exposure| {
            (watched.as_secs_f64() / exposure.as_secs_f64().max(1e-6)) as f32
        });
        self.sampled[at].hits += hit.hits * weight;
    }

    /// Ends an interval: appends the score of every page that is kept, and calls `faded` for each page dropped.
    #[expect(clippy::cast_possible_truncation, reason = "rates are f32")]
    pub fn end_interval(
        &mut self,
        pages: &mut PageTable,
        interval: &RateInterval,
        out: &mut Vec<PageScore>,
        mut faded: impl FnMut(&mut PageTable, PageIdx),
    ) {
        let form = self.form(interval.steady);
        let weight = |horizon| form.alpha(horizon, interval.length) as f32;
        let (short, long) = (weight(self.knobs.short), weight(self.knobs.long));
        let of_short = interval.short_weight as f32;
        let score = |p: &SampledPage| of_short * p.short + (1.0 - of_short) * p.long;
        let per_hit = 1.0 / interval.watched.as_secs_f64().max(1e-9) as f32;
        let least = self.score_per_hit(interval) * FADED as f32;
        let mut at = 0;
        while let Some(known) = self.sampled.get_mut(at) {
            let before = score(known);
            let rate = std::mem::take(&mut known.hits) * per_hit;
            if before == 0.0 && self.knobs.first_rate_whole {
                (known.short, known.long) = (rate, rate);
            } else {
                known.short += short * (rate - known.short);
                known.long += long * (rate - known.long);
            }
            let (page, now) = (known.page, score(known));
            let is_its = pages.heat::<SlotWord>(page).0 == at as u64 + 1;
            if is_its && now > least {
                out.push(PageScore { at, score: now, change: now - before });
                at += 1;
                continue;
            }
            self.sampled.swap_remove(at);
            if let Some(moved) = self.sampled.get(at)
                && pages.heat::<SlotWord>(moved.page).0 == self.sampled.len() as u64 + 1
            {
                pages.set_heat(moved.page, SlotWord(at as u64 + 1));
            }
            if is_its {
                pages.set_heat(page, SlotWord(0));
                faded(pages, page);
            }
        }
    }

    /// What one more hit in this interval adds to a score.
    #[expect(clippy::cast_possible_truncation, reason = "rates are f32")]
    pub fn score_per_hit(&self, interval: &RateInterval) -> f32 {
        let form = self.form(interval.steady);
        let short = interval.short_weight * form.alpha(self.knobs.short, interval.length);
        let long = (1.0 - interval.short_weight) * form.alpha(self.knobs.long, interval.length);
        ((short + long) / interval.watched.as_secs_f64().max(1e-9)) as f32
    }

    /// The random error of scores: the variance of a page's score is the page's rate times this. A score weighs
    /// the hits of `k` intervals ago by `w(k) = Σ wᵢ·αᵢ·(1 - αᵢ)^k`; this is the sum of all `w(k)²` over the
    /// watched time of an interval.
    pub fn noise(&self, interval: &RateInterval) -> f64 {
        let form = self.form(interval.steady);
        let short = (interval.short_weight, form.alpha(self.knobs.short, interval.length));
        let long = (1.0 - interval.short_weight, form.alpha(self.knobs.long, interval.length));
        let product = |(v, a): (f64, f64), (w, b): (f64, f64)| v * w * a * b / (a + b - a * b);
        let squares = product(short, short) + 2.0 * product(short, long) + product(long, long);
        squares / interval.watched.as_secs_f64().max(1e-9)
    }

    fn form(&self, steady: Nanos) -> WeightForm {
        match self.knobs.alpha_form {
            0 => WeightForm::Span,
            1 => WeightForm::TimeConstant,
            _ => WeightForm::Fixed(steady),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::all_fast;
    use crate::port::{PageKind, Region, SpaceEvent, SpaceId, Vpn};
    use proptest::prelude::*;

    const STEADY: Nanos = Nanos::from_millis(500);

    fn hit(page: PageIdx) -> Hit {
        Hit { page, tier: None, hits: 1.0, exposure: None, write: None, base_page: None }
    }

    /// One access in `period` is sampled.
    fn interval(ms: u64, period: u64) -> RateInterval {
        let length = Nanos::from_millis(ms);
        let watched = Nanos(length.0 / period);
        RateInterval { length, watched, steady: STEADY, short_weight: 0.2 }
    }

    #[test]
    fn a_sampled_page_costs_twenty_bytes() {
        assert_eq!(size_of::<SampledPage>(), 20);
    }

    fn end(rates: &mut Rates, pages: &mut PageTable, interval: &RateInterval) -> Vec<PageScore> {
        let mut out = Vec::new();
        rates.end_interval(pages, interval, &mut out, |_, _| {});
        out
    }

    /// With counts this would fail: in recency mode a steady page has two fifths of the hits of history mode.
    #[test]
    fn a_steady_page_keeps_its_score_whatever_period_and_interval() {
        let (mut pages, all) = all_fast(4);
        let mut rates = Rates::default();
        let mut round = |ms, period, hits: u32| {
            (0..hits).for_each(|_| rates.count(&mut pages, &hit(all[0]), Nanos::ZERO));
            end(&mut rates, &mut pages, &interval(ms, period))[0].score
        };
        for _ in 0..200 {
            round(500, 10_000, 10);
        }
        for _ in 0..200 {
            let score = round(100, 5_000, 4);
            assert!((score / 200_000.0 - 1.0).abs() < 1e-3, "{score}");
        }
    }

    #[test]
    fn known_exposures_are_rates_too() {
        let (mut pages, all) = all_fast(1);
        let mut rates = Rates::default();
        rates.knobs.first_rate_whole = true;
        let quick = Hit { exposure: Some(Nanos::from_millis(10)), ..hit(all[0]) };
        let watched = Nanos::from_millis(100);
        rates.count(&mut pages, &quick, watched);
        let interval = RateInterval { watched, ..interval(100, 1) };
        assert!((end(&mut rates, &mut pages, &interval)[0].score - 100.0).abs() < 0.1);
    }

    #[test]
    fn a_page_without_further_hits_is_dropped() {
        let (mut pages, all) = all_fast(3);
        let mut rates = Rates::default();
        all.iter().for_each(|&page| rates.count(&mut pages, &hit(page), Nanos::ZERO));
        (0..9).for_each(|_| rates.count(&mut pages, &hit(all[2]), Nanos::ZERO));
        let mut order = Vec::new();
        for at in 0..200 {
            rates.end_interval(&mut pages, &interval(500, 10_000), &mut Vec::new(), |_, page| {
                order.push((page, at));
            });
        }
        assert!(rates.is_empty() && all.iter().all(|&page| pages.heat::<SlotWord>(page).0 == 0));
        assert_eq!(order.iter().map(|(page, _)| *page).max(), Some(all[2]));
        assert!(
            order[0].1 == order[1].1 && order[1].1 < order[2].1,
            "the page with most hits last: {order:?}"
        );
    }

    proptest! {
        /// Whatever is hit, unmapped and mapped again, every page has one entry with its own averages.
        #[test]
        fn words_and_entries_agree(
            steps in prop::collection::vec((0usize..40, 0u8..8), 1..400),
        ) {
            let (mut pages, all) = all_fast(40);
            let mut rates = Rates::default();
            let mut hits = [0u32; 40];
            for (page, what) in steps {
                match what {
                    0 => {
                        let (space, start) = (SpaceId(1), Vpn(page as u64));
                        pages.apply(SpaceEvent::Unmapped(space, start, 1));
                        let (size, kind) = (PageSize::Base, PageKind::Anonymous);
                        let region = Region { space, start, base_pages: 1, size, kind };
                        pages.apply(SpaceEvent::Mapped(region));
                        prop_assert_eq!(pages.find(space, start), Some(all[page]));
                        hits[page] = 0;
                    }
                    1 => {
                        let scored = end(&mut rates, &mut pages, &interval(500, 1_000));
                        for s in scored {
                            let known = *rates.at(s.at);
                            prop_assert_eq!(pages.heat::<SlotWord>(known.page).0, s.at as u64 + 1);
                            prop_assert!(hits[known.page.index()] > 0 && s.score > 0.0);
                        }
                        let known = |&page: &PageIdx| rates.has_entry(&pages, page);
                        prop_assert_eq!(all.iter().filter(|page| known(page)).count(), rates.len());
                    }
                    _ => {
                        rates.count(&mut pages, &hit(all[page]), Nanos::ZERO);
                        hits[page] += 1;
                    }
                }
            }
        }
    }
}
