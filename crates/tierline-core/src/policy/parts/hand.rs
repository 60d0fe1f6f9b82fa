// SPDX-License-Identifier: Apache-2.0
//! A clock hand over the pages of a tier, which finds the coldest or the hottest of a sample.
//!
//! The coldest of all pages would need a sorted list, and work at every hit. The coldest of a sample is among
//! the coldest of all, and pages cost nothing until the hand reaches them. (Ours.) If the tracker does not see
//! the tier, heat is unknown there, and cold pages are found by checking their accessed bits
//! ([`super::second_chance`]).

use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};

use super::second_chance::SecondChance;
use super::stall_cost::Weights;
use crate::page::PageIdx;
use crate::policy::view::View;
use crate::port::PageSize;
use crate::telemetry::estimate::Estimate;
use crate::tier::TierId;
use crate::unit::Nanos;

/// Residents examined per page found.
const OVERSAMPLE: usize = 8;
/// Coldest pages found per search.
const VICTIMS: usize = 64;
/// Residents examined together for the hottest.
const TOGETHER: usize = 4096;

/// Weight of the newest report in a tier's mean rate. Ours.
const NEWEST: f64 = 1.0 / 16.0;

/// A page that the hand examined.
#[derive(Clone, Copy, Debug)]
pub struct ExaminedPage {
    /// Accesses per second: an upper bound in a search for the coldest, as a page that was hardly watched is
    /// not known to be cold; the most likely value in a search for the hottest. Weighted by what an access costs
    /// its program: in a search for the hottest inversely, as programs that hardly wait lose least.
    pub rate_per_sec: f32,
    /// The page.
    pub page: PageIdx,
    /// Its size.
    pub size: PageSize,
}

impl ExaminedPage {
    fn density(&self) -> f32 {
        self.size.density(self.rate_per_sec)
    }
}

/// The hand and the pages of one tier.
#[derive(Debug, Default)]
pub struct ClockHand {
    /// A page that left the tier is dropped when the hand reaches it.
    residents: VecDeque<PageIdx>,
    /// Of these, those that are listed by another hand now.
    left: BTreeSet<PageIdx>,
    /// Pages dropped that are in a tier with another hand.
    astray: Vec<PageIdx>,
    /// Coldest last.
    coldest: Vec<ExaminedPage>,
    /// Residents examined in this tick.
    examined: usize,
    /// How many more may be examined without finding a cold enough page.
    may_skip: usize,
    /// The tracker does not see this tier.
    untracked: bool,
    weights: Weights,
    mean_rate: MeanRate,
    second_chance: SecondChance,
}

/// The mean rate of a tier's base pages.
#[derive(Clone, Copy, Debug, Default)]
struct MeanRate {
    /// Hits of a base page, and the watched time of these hits in seconds, both decayed.
    hits: f64,
    seconds: f64,
}

impl MeanRate {
    /// Adds the hits of all pages of a tier.
    #[expect(clippy::cast_precision_loss, reason = "a mean rate")]
    fn add(&mut self, hits: f64, base_pages: u64, watched: Nanos) {
        if watched > Nanos::ZERO && base_pages > 0 {
            self.hits += hits / base_pages as f64 - self.hits * NEWEST;
            self.seconds += watched.as_secs_f64() - self.seconds * NEWEST;
        }
    }

    /// Accesses per second of a page, if anything was watched.
    #[expect(clippy::cast_possible_truncation, reason = "a mean rate")]
    fn of(&self, size: PageSize) -> Option<f32> {
        let mean = (self.hits / self.seconds) as f32 * size.base_pages_f32();
        (self.seconds > 0.0).then_some(mean)
    }
}

impl ClockHand {
    /// Adds a page.
    pub fn add(&mut self, view: &mut View<'_>, page: PageIdx) {
        view.memory.pages.set_listed(page, true);
        if !self.left.remove(&page) {
            self.residents.push_back(page);
        }
    }

    /// Leaves a page to another hand.
    pub fn leave(&mut self, page: PageIdx) {
        self.left.insert(page);
    }

    /// Takes the pages that were found in a tier with another hand.
    pub fn take_astray(&mut self) -> Vec<PageIdx> {
        std::mem::take(&mut self.astray)
    }

    /// Adds a page that is about to arrive, if the tracker will not see it here.
    pub fn add_arriving(&mut self, view: &mut View<'_>, page: PageIdx) {
        if self.untracked && !view.memory.pages.state(page).is_listed() {
            self.add(view, page);
        }
    }

    /// Begins a tick, in which the hand goes round at most once.
    pub fn begin(&mut self, view: &mut View<'_>, tier: TierId, weights: &Weights) {
        self.weights.clone_from(weights);
        self.coldest.clear();
        self.examined = 0;
        self.untracked = view.evidence.fast_untracked && tier == TierId::FAST;
        let hits = view.evidence.hits_in.get(tier.index()).copied().unwrap_or_default();
        let base_pages = view.memory.pages.bytes_in(tier).base_pages();
        self.mean_rate.add(hits, base_pages, view.evidence.watched);
        if self.untracked
            && let Some(count) = self.second_chance.update(view, tier)
        {
            let next = self.advance(view, tier, count, |_, _| 0.0);
            self.second_chance
                .watch(view, next.into_iter().map(|examined_page| examined_page.page).collect());
        }
    }

    /// Sets how many candidates wait: as neighbours are often alike, the hand may skip that many hotter
    /// residents. No more: among enough residents, one looks cold by chance.
    pub fn set_waiting(&mut self, pages: usize) {
        self.may_skip = pages;
    }

    /// The coldest found is not cold enough: discards this sample, so that the hand continues behind it. False,
    /// and `examined_page` is kept, if that would exceed the limit of [`ClockHand::set_waiting`].
    pub fn skip_sample(&mut self, examined_page: ExaminedPage) -> bool {
        let left = self.may_skip.checked_sub(VICTIMS * OVERSAMPLE);
        let Some(left) = left.filter(|_| !self.untracked) else {
            self.give_back(examined_page);
            return false;
        };
        self.may_skip = left;
        self.coldest.clear();
        true
    }

    /// The coldest page found that was not taken yet in this tick.
    pub fn coldest(&mut self, view: &mut View<'_>, tier: TierId) -> Option<ExaminedPage> {
        if self.untracked {
            return self.second_chance.coldest(view.now);
        }
        if self.coldest.is_empty() {
            let examined = self.advance(view, tier, VICTIMS * OVERSAMPLE, |estimate, weight| {
                estimate.at_most_per_sec() * weight
            });
            self.coldest = best(examined, |a, b| {
                a.density().total_cmp(&b.density()).then_with(|| a.page.cmp(&b.page))
            });
            self.coldest.reverse();
        }
        self.coldest.pop()
    }

    /// The upper bound of a page's rate, given the mean of its tier. `None` if that is unknown.
    pub fn at_most_by_mean(&self, view: &View<'_>, page: PageIdx, size: PageSize) -> Option<f32> {
        let mean = self.mean_rate.of(size).filter(|_| !self.untracked)?;
        Some(view.estimate(page).at_most_among(mean) * self.weights.of(&view.memory, page))
    }

    /// The most likely rate of a page.
    pub fn most_likely(&self, view: &View<'_>, page: PageIdx) -> f32 {
        view.estimate(page).rate_per_sec() * self.weights.of(&view.memory, page)
    }

    /// The coldest page found; in an unseen tier without any left, the next resident, at the tier's mean rate.
    pub fn coldest_or_next(&mut self, view: &mut View<'_>, tier: TierId) -> Option<ExaminedPage> {
        let coldest = self.coldest(view, tier);
        if coldest.is_some() || !(self.untracked && self.second_chance.is_exhausted()) {
            return coldest;
        }
        let next = self.advance(view, tier, 1, |_, _| 0.0).pop()?;
        let mean = view.mean_rate(tier, next.size);
        Some(ExaminedPage { rate_per_sec: if mean.is_finite() { mean } else { 0.0 }, ..next })
    }

    /// Takes back a page that was not used.
    pub fn give_back(&mut self, examined_page: ExaminedPage) {
        match self.untracked {
            true => self.second_chance.give_back(examined_page),
            false => self.coldest.push(examined_page),
        }
    }

    /// Whether colder pages may be found in the next ticks.
    pub fn may_find_colder(&self) -> bool {
        self.untracked && self.second_chance.may_find_colder()
    }

    /// The hottest of the next residents, hottest first; `None` once the hand has gone round.
    pub fn hottest(&mut self, view: &mut View<'_>, tier: TierId) -> Option<Vec<ExaminedPage>> {
        let before = self.examined;
        let examined =
            self.advance(view, tier, TOGETHER, |estimate, weight| estimate.rate_per_sec() / weight);
        let hottest = best(examined, |a, b| {
            b.density().total_cmp(&a.density()).then_with(|| a.page.cmp(&b.page))
        });
        (self.examined > before).then_some(hottest)
    }

    fn advance(
        &mut self,
        view: &mut View<'_>,
        tier: TierId,
        count: usize,
        rate: impl Fn(&Estimate, f32) -> f32,
    ) -> Vec<ExaminedPage> {
        let count = count.min(self.residents.len().saturating_sub(self.examined));
        self.examined += count;
        let mut examined_page = Vec::with_capacity(count);
        for _ in 0..count {
            let Some(page) = self.residents.pop_front() else { break };
            if self.left.remove(&page) {
                continue;
            }
            let state = view.memory.pages.state(page);
            if state.tier() != Some(tier) || !state.is_listed() || state.is_refused() {
                view.memory.pages.set_listed(page, false);
                if state.tier().is_some_and(|at| at != tier && at < view.machine.tiers.slowest()) {
                    self.astray.push(page);
                }
                continue;
            }
            self.residents.push_back(page);
            let weight = self.weights.of(&view.memory, page);
            let rate_per_sec = rate(&view.estimate(page), weight);
            let size = view.memory.pages.size_of(page);
            examined_page.push(ExaminedPage { rate_per_sec, page, size });
        }
        examined_page
    }
}

/// One page in `OVERSAMPLE`: those that come first in an order, sorted by it.
fn best(
    mut pages: Vec<ExaminedPage>,
    order: impl Fn(&ExaminedPage, &ExaminedPage) -> Ordering,
) -> Vec<ExaminedPage> {
    let kept = pages.len().div_ceil(OVERSAMPLE);
    if kept < pages.len() {
        pages.select_nth_unstable_by(kept, &order);
        pages.truncate(kept);
    }
    pages.sort_unstable_by(order);
    pages
}
