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
/// Pages judged before a verdict; later ones count with one over this number. Ours.
const SAMPLE: f64 = 64.0;

/// New pages in the fastest tier, and what was learned from earlier ones.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    waiting: VecDeque<(Nanos, PageIdx)>,
    judged: f64,
    /// Mean benefit of a new page that starts in fast memory, in seconds of accesses.
    benefit: f64,
    /// No headroom is kept until then.
    pause: Nanos,
}

impl Arrivals {
    /// Takes in a page that was found in the fastest tier while headroom was short.
    pub fn add(&mut self, now: Nanos, page: PageIdx) {
        if self.waiting.len() < WAITING {
            self.waiting.push_back((now, page));
        }
    }

    /// Judges the pages that are old enough; returns whether headroom repays. If it does not, it is tried again after
    /// `retry`.
    pub fn repay(&mut self, view: &View<'_>, test: &PromotionTest<'_>, retry: Nanos) -> bool {
        while let Some(&(since, page)) = self.waiting.front()
            && view.now.saturating_sub(since) >= JUDGED_AT
        {
            self.waiting.pop_front();
            if let Some(benefit) = benefit(view, test, page) {
                self.judged = (self.judged + 1.0).min(SAMPLE);
                self.benefit += (benefit - self.benefit) / self.judged;
            }
        }
        if self.judged >= SAMPLE && self.benefit < 0.0 {
            *self = Self { pause: view.now + retry, ..Self::default() };
        }
        view.now >= self.pause
    }
}

/// The benefit of a new page; `None` if it is gone, or not scanned yet. Every page has a first access. Samples count it, so
/// there a lower bound decides whether the page is hot. Scans leave it out, and those of a second are too few for a bound.
fn benefit(view: &View<'_>, test: &PromotionTest<'_>, page: PageIdx) -> Option<f64> {
    let size = view.memory.pages.locate(page)?.size;
    let (slow, estimate) = (TierId(TierId::FAST.0 + 1), view.estimate(page));
    let weight = test.weights.of(&view.memory, page);
    let found_late = f64::from(estimate.rate_per_sec() * weight)
        * test.gain_secs(view, slow, TierId::FAST)
        * JUDGED_AT.as_secs_f64();
    let moved = test.move_secs(view, size, slow);
    let rate_per_sec = match estimate.scans() {
        None => estimate.at_least_per_sec(),
        Some(scans) if scans < 0.5 => return None,
        Some(_) => estimate.rate_per_sec(),
    };
    let is_hot = rate_per_sec * weight >= test.floor(view, size, slow, TierId::FAST);
    Some(found_late + if is_hot { moved } else { -moved })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::goal::pack::Pack;
    use crate::policy::parts::stage::Stage;
    use crate::policy::parts::stall_cost::Weights;
    use crate::port::PageSize;

    const RETRY: Nanos = Nanos::from_secs(20);

    /// Whether headroom repays after 64 new pages of which `hot` have a high rate.
    fn repays(hot: usize, at: Nanos) -> bool {
        let mut stage = Stage::of_base_pages(64, TierId::FAST);
        let rates: Vec<f32> = (0..64).map(|page| if page < hot { 1e4 } else { 0.0 }).collect();
        stage.set_rates(&rates);
        let pages = stage.all.clone();
        let mut view = stage.view();
        let mut arrivals = Arrivals::default();
        pages.iter().for_each(|&page| arrivals.add(Nanos::ZERO, page));
        let goal = Pack;
        let weights = &Weights::EQUAL;
        let test = PromotionTest { goal: &goal, payback: RETRY, weights, min_hits: 2.0 };
        view.now = JUDGED_AT;
        arrivals.repay(&view, &test, RETRY);
        view.now = at;
        arrivals.repay(&view, &test, RETRY)
    }

    /// Whether one scan decides that headroom repays for 64 new pages, of which it found `hit`. It takes two to decide by a
    /// lower bound.
    #[test]
    fn one_scan_shows_whether_new_pages_are_hot_and_without_one_nothing_is_known() {
        let repays = |scans: u64, hit: usize| {
            let mut stage = Stage::of_base_pages(64, TierId::FAST);
            let window = Nanos::from_millis(10);
            stage.hotness.set_windows(window, window, window);
            let new = stage.hotness.new_page();
            stage.hotness.advance(window * scans);
            for (i, &page) in stage.all.iter().enumerate() {
                let heat = if i < hit {
                    stage.hotness.hit_update(PageSize::Base).apply(new, 1.0, None, false)
                } else {
                    new
                };
                stage.pages.set_heat(page, heat);
            }
            let pages = stage.all.clone();
            let mut arrivals = Arrivals::default();
            pages.iter().for_each(|&page| arrivals.add(Nanos::ZERO, page));
            let (goal, weights) = (Pack, &Weights::EQUAL);
            let test = PromotionTest { goal: &goal, payback: RETRY, weights, min_hits: 2.0 };
            let mut view = stage.view();
            view.now = JUDGED_AT;
            arrivals.repay(&view, &test, RETRY)
        };
        assert!(repays(1, 48));
        assert!(!repays(1, 16), "most are cold");
        assert!(repays(0, 0), "not scanned yet");
    }

    #[test]
    fn headroom_pauses_while_new_pages_are_cold() {
        assert!(repays(64, JUDGED_AT) && repays(32, JUDGED_AT));
        assert!(!repays(0, JUDGED_AT), "each costs a demotion for nothing");
        assert!(repays(0, JUDGED_AT + RETRY), "it is tried again");
    }
}
