// SPDX-License-Identifier: Apache-2.0
//! A hand that goes round the pages of a tier and finds the coldest, or the hottest, of some.
//!
//! To know the coldest of all would take a list in order, and work at every hit. The coldest of a sample is among
//! the coldest of all, and nothing needs to be done for pages until the hand comes by. (Ours.) Where the tracker does not
//! see the tier, their heat says nothing, and the coldest are found by asking after them ([`super::second_chance`]).

use std::collections::VecDeque;

use super::second_chance::SecondChance;
use crate::page::PageIdx;
use crate::policy::view::View;
use crate::telemetry::hotness::Estimate;
use crate::tier::TierId;

/// Residents looked at for every page found.
const OVERSAMPLE: usize = 8;
/// Coldest pages found at a time.
const VICTIMS: usize = 64;
/// Residents looked at together for the hottest.
const TOGETHER: usize = 4096;

/// A page that the hand came by.
#[derive(Clone, Copy, Debug)]
pub struct Met {
    /// Accesses per second that it gets: of the coldest at most, as a page that was hardly watched is not
    /// cold; of the hottest most likely.
    pub rate_per_sec: f32,
    /// The page.
    pub page: PageIdx,
}

/// The hand and the pages of one tier.
#[derive(Debug, Default)]
pub struct Hand {
    /// Pages that left their tier drop out when the hand meets them.
    residents: VecDeque<PageIdx>,
    /// Coldest last.
    coldest: Vec<Met>,
    /// Residents looked at in this tick.
    looked: usize,
    /// How many more may be looked at in vain.
    in_vain: usize,
    /// The tracker does not see this tier.
    unseen: bool,
    second_chance: SecondChance,
}

impl Hand {
    /// Takes a page in.
    pub fn list(&mut self, view: &mut View<'_>, page: PageIdx) {
        view.pages.set_listed(page, true);
        self.residents.push_back(page);
    }

    /// Takes in a page that is to come, where nobody will see it there.
    pub fn expect(&mut self, view: &mut View<'_>, page: PageIdx) {
        if self.unseen && !view.pages.state(page).is_listed() {
            self.list(view, page);
        }
    }

    /// Begins a tick, in which the hand goes round once at most.
    pub fn begin(&mut self, view: &mut View<'_>, tier: TierId) {
        self.coldest.clear();
        self.looked = 0;
        self.unseen = view.fast_unseen && tier == TierId::FAST;
        if self.unseen
            && let Some(count) = self.second_chance.listen(view, tier)
        {
            let next = self.go_on(view, tier, count, |_| 0.0);
            self.second_chance.watch(view, next.into_iter().map(|met| met.page).collect());
        }
    }

    /// So many pages want a place: as neighbours are often alike, the hand may go past as many residents who are
    /// hotter. No further: who looks at enough of them finds one that only seems cold.
    pub fn search_for(&mut self, pages: usize) {
        self.in_vain = pages;
    }

    /// The coldest found is not cold enough: the hand goes on past those that it was among; false, and it is
    /// given back, where that would take it too far.
    pub fn pass(&mut self, met: Met) -> bool {
        let left = self.in_vain.checked_sub(VICTIMS * OVERSAMPLE);
        let Some(left) = left.filter(|_| !self.unseen) else {
            self.give_back(met);
            return false;
        };
        self.in_vain = left;
        self.coldest.clear();
        true
    }

    /// The coldest found that was not taken in this tick.
    pub fn coldest(&mut self, view: &mut View<'_>, tier: TierId) -> Option<Met> {
        if self.unseen {
            return self.second_chance.coldest(view.now);
        }
        if self.coldest.is_empty() {
            let mut met = self.go_on(view, tier, VICTIMS * OVERSAMPLE, Estimate::at_most_per_sec);
            met.sort_unstable_by(|a, b| {
                b.rate_per_sec.total_cmp(&a.rate_per_sec).then_with(|| b.page.cmp(&a.page))
            });
            self.coldest = met.split_off(met.len() - met.len().div_ceil(OVERSAMPLE));
        }
        self.coldest.pop()
    }

    /// The coldest found; where nobody sees this tier and there is none left, the next resident, about whom nothing is
    /// known.
    pub fn coldest_or_next(&mut self, view: &mut View<'_>, tier: TierId) -> Option<Met> {
        let coldest = self.coldest(view, tier);
        if coldest.is_some() || !(self.unseen && self.second_chance.is_exhausted()) {
            return coldest;
        }
        let Met { page, .. } = self.go_on(view, tier, 1, |_| 0.0).pop()?;
        let mean = view.mean_rate(tier, view.pages.locate(page)?.size);
        Some(Met { rate_per_sec: if mean.is_finite() { mean } else { 0.0 }, page })
    }

    /// Takes back what was not used.
    pub fn give_back(&mut self, met: Met) {
        match self.unseen {
            true => self.second_chance.give_back(met),
            false => self.coldest.push(met),
        }
    }

    /// Whether colder ones may be found in the next ticks.
    pub fn is_looking(&self) -> bool {
        self.unseen && self.second_chance.is_looking()
    }

    /// The hottest of the next residents, hottest first; none once the hand has been round.
    pub fn hottest(&mut self, view: &mut View<'_>, tier: TierId) -> Option<Vec<Met>> {
        let looked = self.looked;
        let mut met = self.go_on(view, tier, TOGETHER, Estimate::rate_per_sec);
        met.sort_unstable_by(|a, b| {
            b.rate_per_sec.total_cmp(&a.rate_per_sec).then_with(|| a.page.cmp(&b.page))
        });
        met.truncate(met.len().div_ceil(OVERSAMPLE));
        (self.looked > looked).then_some(met)
    }

    fn go_on(
        &mut self,
        view: &mut View<'_>,
        tier: TierId,
        count: usize,
        rate: impl Fn(&Estimate) -> f32,
    ) -> Vec<Met> {
        let count = count.min(self.residents.len().saturating_sub(self.looked));
        self.looked += count;
        let mut met = Vec::with_capacity(count);
        for _ in 0..count {
            let Some(page) = self.residents.pop_front() else { break };
            let state = view.pages.state(page);
            if state.tier() != Some(tier) || !state.is_listed() || state.is_refused() {
                view.pages.set_listed(page, false);
                continue;
            }
            self.residents.push_back(page);
            let rate_per_sec = rate(&view.estimate(page));
            met.push(Met { rate_per_sec, page });
        }
        met
    }
}
