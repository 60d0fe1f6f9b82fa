// SPDX-License-Identifier: Apache-2.0
//! Whether room for new pages repays the demotions that make it.
//!
//! Headroom costs a demotion for each new page. Without it new pages start in slow memory, and those worth it are
//! promoted, each with a demotion. So for a hot page, headroom saves a promotion and the slow accesses until then; for
//! any other page, it costs a demotion. A sample of the pages that took headroom is judged by their first second in fast
//! memory. (Ours.)

use std::collections::VecDeque;

use super::candidates::PromotionTest;
use crate::page::PageIdx;
use crate::policy::view::View;
use crate::tier::TierId;
use crate::unit::Nanos;

/// Age at which a new page is judged: about the time in which a hot page in slow memory is found. Ours.
const JUDGED_AT: Nanos = Nanos::from_secs(1);
/// Pages that wait to be judged, at most.
const WAITING: usize = 1024;
/// Time between two reports after which a page may be old when it becomes known. Ours.
const LATE: Nanos = Nanos::from_secs(2);
/// Pages judged before a verdict; those before them count as this many. Ours.
const SAMPLE: f64 = 64.0;
/// Other scans of pages that were hit that count as much as the presumption that all pages are alike. Ours.
const ALIKE: f64 = 8.0;

/// New pages in the fastest tier, and what was learned from earlier ones.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    waiting: VecDeque<(Nanos, PageIdx)>,
    /// One new page of two to this power is judged.
    thinned: u32,
    judged: Judged,
    /// The last report of accesses, and the last page that was taken in.
    reported: Nanos,
    added: Nanos,
    /// No headroom is kept until then.
    pause: Nanos,
}

impl Arrivals {
    /// Takes in a page that was found in the fastest tier while headroom was short. Of many, each has the same chance to
    /// be judged: those that come first are the oldest. Of pages that become known by a sample, only hot ones would be. Where
    /// reports are rare, pages that were hot may be cold when they become known: they are taken in only if there were no
    /// others for `retry`.
    pub fn add(&mut self, view: &View<'_>, page: PageIdx, retry: Nanos) {
        let estimate = view.estimate(page);
        let was_sampled = estimate.scans().is_none() && estimate.hits > 0.0;
        let is_late = view.now.saturating_sub(self.reported) > LATE;
        let since_others = view.now.saturating_sub(self.added);
        if is_late && since_others > Nanos::ZERO && since_others < retry {
            return;
        }
        self.added = view.now;
        if self.waiting.is_empty() {
            self.thinned = 0;
        }
        if page.is_drawn(self.thinned) && !was_sampled {
            self.waiting.push_back((view.now, page));
        }
        if self.waiting.len() > WAITING {
            self.thinned += 1;
            self.waiting.retain(|&(_, page)| page.is_drawn(self.thinned));
        }
    }

    /// Ends a tick in which pages were added: those of the next report came after this one.
    pub fn end_report(&mut self, view: &View<'_>) {
        if view.evidence.watched > Nanos::ZERO {
            self.reported = view.now;
        }
    }

    /// Judges the pages that are old enough; returns whether headroom repays. If it does not, it is tried again after
    /// `retry`.
    pub fn repay(&mut self, view: &View<'_>, test: &PromotionTest<'_>, retry: Nanos) -> bool {
        // Many come at once, by address: they count together.
        self.judged.limit(SAMPLE);
        while let Some(&(since, page)) = self.waiting.front()
            && view.now.saturating_sub(since) >= JUDGED_AT
        {
            self.waiting.pop_front();
            self.judged.add(view, test, page);
        }
        if self.judged.pages >= SAMPLE && self.judged.benefit() < 0.0 {
            let (reported, added) = (self.reported, self.added);
            *self = Self { pause: view.now + retry, reported, added, ..Self::default() };
        }
        view.now >= self.pause
    }
}

/// Sums over the new pages that were judged.
#[derive(Clone, Copy, Debug, Default)]
struct Judged {
    pages: f64,
    /// Accesses per second, and the least of a hot page.
    rate: f64,
    floor: f64,
    /// What their accesses of [`JUDGED_AT`] cost in slow memory, and what moving them costs, in seconds.
    found_late: f64,
    moves: f64,
    /// Hot ones, where every access counts.
    hot: f64,
    /// Where scans tell: hits and scans; and for each hit, the page's other scans and those of them that hit it.
    hits: f64,
    scans: f64,
    others: f64,
    again: f64,
}

impl Judged {
    /// Judges a page, unless it is gone or not scanned yet. Every page has a first access. Samples count it, so there a
    /// lower bound decides whether the page is hot. Scans leave it out, and those of a second are too few for a bound.
    fn add(&mut self, view: &View<'_>, test: &PromotionTest<'_>, page: PageIdx) {
        let Some(at) = view.memory.pages.locate(page) else { return };
        let (slow, estimate) = (TierId(TierId::FAST.0 + 1), view.estimate(page));
        let weight = test.weights.of(&view.memory, page);
        let rate = f64::from(estimate.rate_per_sec() * weight);
        let floor = test.floor(view, at.size, slow, TierId::FAST);
        match estimate.scans() {
            None => self.hot += f64::from(u8::from(estimate.at_least_per_sec() * weight >= floor)),
            Some(scans) if scans < 0.5 => return,
            Some(scans) => {
                let (hits, scans) = (f64::from(estimate.hits), f64::from(scans));
                self.hits += hits;
                self.scans += scans;
                self.others += hits * (scans - 1.0).max(0.0);
                self.again += hits * (hits - 1.0).max(0.0);
            }
        }
        self.pages += 1.0;
        self.rate += rate;
        self.floor += f64::from(floor);
        let gain = test.gain_secs(view, slow, TierId::FAST);
        self.found_late += rate * gain * JUDGED_AT.as_secs_f64();
        self.moves += test.move_secs(view, at.size, slow);
    }

    /// Makes the pages count as `most` at most.
    fn limit(&mut self, most: f64) {
        let scale = (most / self.pages).min(1.0);
        let Self { pages, rate, floor, found_late, moves, hot, hits, scans, others, again } = self;
        [pages, rate, floor, found_late, moves, hot, hits, scans, others, again]
            .into_iter()
            .for_each(|sum| *sum *= scale);
    }

    /// The share of hot pages. A scan does not hit each hot page: if the pages that it hits are hot and all alike, another
    /// scan hits the same share of them. Until there are other scans, all pages are taken for alike.
    fn hot_share(&self) -> f64 {
        if self.scans == 0.0 {
            return self.hot / self.pages;
        }
        let hit = self.hits / self.scans;
        let hot_is_hit = (self.again + ALIKE * hit) / (self.others + ALIKE);
        let share = if hit > 0.0 { (hit / hot_is_hit).min(1.0) } else { 0.0 };
        if self.rate >= self.floor * share { share } else { 0.0 }
    }

    /// The benefit of starting in fast memory, in seconds.
    fn benefit(&self) -> f64 {
        self.found_late + self.moves * (2.0 * self.hot_share() - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::goal::pack::Pack;
    use crate::policy::parts::stage::Stage;
    use crate::policy::parts::stall_cost::Weights;
    use crate::port::PageSize;

    const RETRY: Nanos = Nanos::from_secs(20);

    /// Whether headroom repays after these new pages, which `learn` tells of meanwhile; asked when they are judged, and `after`.
    fn verdicts(mut stage: Stage, learn: impl FnOnce(&mut Stage), after: Nanos) -> [bool; 2] {
        let pages = stage.all.clone();
        let mut arrivals = Arrivals::default();
        let view = stage.view();
        let judged_at = view.now + JUDGED_AT;
        pages.iter().for_each(|&page| arrivals.add(&view, page, RETRY));
        learn(&mut stage);
        let (goal, weights) = (Pack, &Weights::EQUAL);
        let test = PromotionTest { goal: &goal, payback: RETRY, weights, min_hits: 2.0 };
        let mut view = stage.view();
        [judged_at, judged_at + after].map(|now| {
            view.now = now;
            arrivals.repay(&view, &test, RETRY)
        })
    }

    /// Whether headroom repays after 64 new pages of which `hot` have a high rate.
    fn repays(hot: usize, after: Nanos) -> bool {
        let rates: Vec<f32> = (0..64).map(|page| if page < hot { 1e4 } else { 0.0 }).collect();
        let stage = Stage::of_base_pages(64, TierId::FAST);
        verdicts(stage, |stage| stage.set_rates(&rates), after)[1]
    }

    /// Whether headroom repays after scans that hit page `i` of `new` so many times: `hits(i)`.
    fn repays_scanned(new: u64, scans: u64, hits: impl Fn(usize) -> u64) -> bool {
        let mut stage = Stage::of_base_pages(new, TierId::FAST);
        let window = Nanos::from_millis(100);
        stage.hotness.set_windows(window, window, window);
        let unseen = stage.hotness.new_page();
        let learn = |stage: &mut Stage| {
            stage.hotness.advance(window * scans);
            let update = stage.hotness.hit_update(PageSize::Base);
            for (i, &page) in stage.all.iter().enumerate() {
                let heat =
                    (0..hits(i)).fold(unseen, |heat, _| update.apply(heat, 1.0, None, false));
                stage.pages.set_heat(page, heat);
            }
        };
        verdicts(stage, learn, Nanos::ZERO)[0]
    }

    #[test]
    fn scans_show_whether_new_pages_are_hot_and_without_one_nothing_is_known() {
        assert!(repays_scanned(64, 0, |_| 0), "not scanned yet");
        assert!(repays_scanned(64, 1, |page| u64::from(page < 48)));
        assert!(!repays_scanned(64, 1, |_| 0));
    }

    /// A scan that hits one hot page in four: where all are hot, another one hits a quarter of those that it hit; where a
    /// quarter is hot, it hits the same ones.
    #[test]
    fn hot_pages_that_a_short_window_misses_are_not_taken_for_cold_ones() {
        let all_are_hot = |page| u64::from(page % 4 == 0) + u64::from(page / 4 % 4 == 0);
        assert!(repays_scanned(256, 2, all_are_hot));
        assert!(!repays_scanned(256, 2, |page| if page % 4 == 0 { 2 } else { 0 }));
    }

    /// Of 2,048 new pages, the first half, which are the oldest, are cold by now; or all but the last sixteenth.
    #[test]
    fn of_many_new_pages_each_has_the_same_chance_to_be_judged() {
        assert!(repays_scanned(2048, 1, |page| u64::from(page >= 1024)));
        assert!(!repays_scanned(2048, 2, |page| if page >= 1920 { 2 } else { 0 }));
    }

    /// Reports at 1 s, at 4 s, which is late, 20 s after the first, and a second later.
    #[test]
    fn pages_that_may_be_old_are_judged_only_if_there_are_no_others() {
        let mut stage = Stage::of_base_pages(2, TierId::FAST);
        let pages = stage.all.clone();
        let (mut view, mut arrivals) = (stage.view(), Arrivals::default());
        view.evidence.watched = Nanos::from_millis(10);
        let taken_in = [1, 4, 21, 22].map(|secs| {
            view.now = Nanos::from_secs(secs);
            arrivals.waiting.clear();
            pages.iter().for_each(|&page| arrivals.add(&view, page, RETRY));
            arrivals.end_report(&view);
            arrivals.waiting.len()
        });
        assert_eq!(taken_in, [2, 0, 2, 2]);
    }

    #[test]
    fn headroom_pauses_while_new_pages_are_cold() {
        assert!(repays(64, Nanos::ZERO) && repays(32, Nanos::ZERO));
        assert!(!repays(0, Nanos::ZERO), "each costs a demotion for nothing");
        assert!(repays(0, RETRY), "it is tried again");
    }
}
