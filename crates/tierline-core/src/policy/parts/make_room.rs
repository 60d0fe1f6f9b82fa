// SPDX-License-Identifier: Apache-2.0
//! Demotions of the coldest pages found, for headroom and for hotter pages.
//!
//! Every tier except the slowest has a hand, which finds the coldest pages of a sample.

use super::hand::{ClockHand, ExaminedPage};
use super::ledger::Ledger;
use super::stall_cost::Weights;
use crate::page::PageIdx;
use crate::policy::plan::Plan;
use crate::policy::view::View;
use crate::port::{PageSize, Reason};
use crate::tier::TierId;

/// The hands, fastest tier first.
#[derive(Debug, Default)]
pub struct Hands(Vec<ClockHand>);

impl Hands {
    /// Begins a tick.
    pub fn begin(&mut self, view: &mut View<'_>, weights: &Weights) {
        self.0.resize_with(view.machine.tiers.slowest().index(), ClockHand::default);
        for (tier, hand) in (0..).map(TierId).zip(&mut self.0) {
            hand.begin(view, tier, weights);
        }
    }

    /// Adds a page to the hand of its tier.
    pub fn add(&mut self, view: &mut View<'_>, page: PageIdx) {
        let state = view.memory.pages.state(page);
        if let Some(hand) = state.tier().and_then(|tier| self.0.get_mut(tier.index()))
            && !state.is_listed()
        {
            hand.add(view, page);
        }
    }

    /// The hand of a tier; `None` for the slowest.
    pub fn of(&mut self, tier: TierId) -> Option<&mut ClockHand> {
        self.0.get_mut(tier.index())
    }

    /// Sets how many candidates wait; see [`ClockHand::set_waiting`].
    pub fn set_waiting(&mut self, pages: usize) {
        self.0.iter_mut().for_each(|hand| hand.set_waiting(pages));
    }

    /// Demotes until every tier has its headroom again, slower tiers first so that they make room.
    pub fn keep_headroom(&mut self, view: &mut View<'_>, ledger: &mut Ledger, plan: &mut Plan) {
        for tier in (0..view.machine.tiers.slowest().0).rev().map(TierId) {
            let Some(hand) = self.of(tier) else { continue };
            while ledger.is_short(tier)
                && let Some(ExaminedPage { page, rate_per_sec }) = hand.coldest_or_next(view, tier)
            {
                let reason = Reason::Headroom { rate_per_sec };
                if ledger.demote(view.memory.pages, page, reason, plan).is_err() {
                    break;
                }
            }
        }
    }

    /// Demotes pages that are colder than `page` by the factor `margin`: all that it needs, or none.
    pub fn make_room(
        &mut self,
        view: &mut View<'_>,
        ledger: &mut Ledger,
        page: &Newcomer,
        margin: f64,
        plan: &mut Plan,
    ) {
        let (planned, before) = (plan.len(), ledger.clone());
        let Some(hand) = self.0.get_mut(page.to.index()) else { return };
        while ledger.room(page.to) < page.size.bytes() {
            let Some(victim) = hand.coldest(view, page.to) else { break };
            let size = view.memory.pages.locate(victim.page).map_or(PageSize::Base, |at| at.size);
            if density(victim.rate_per_sec, size) * margin >= density(page.rate_per_sec, page.size)
            {
                if hand.skip_sample(victim) {
                    continue;
                }
                break;
            }
            let reason = Reason::MakeRoom { rate_per_sec: victim.rate_per_sec };
            if ledger.demote(view.memory.pages, victim.page, reason, plan).is_err() {
                hand.give_back(victim);
                break;
            }
        }
        if ledger.room(page.to) < page.size.bytes() {
            plan.truncate(planned);
            *ledger = before;
        }
    }
}

/// A page that needs room.
#[derive(Clone, Copy, Debug)]
pub struct Newcomer {
    /// The page.
    pub page: PageIdx,
    /// A lower bound of its access rate.
    pub rate_per_sec: f32,
    /// Its size.
    pub size: PageSize,
    /// The tier that it is to be moved to.
    pub to: TierId,
}

/// The rate per base page, to compare pages of different sizes.
fn density(rate_per_sec: f32, size: PageSize) -> f64 {
    f64::from(rate_per_sec) / f64::from(size.base_pages_f32())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::parts::stage::Stage;
    use crate::unit::Bytes;

    /// Four pages with these rates in a full fast tier; the number of planned demotions.
    fn demoted(rates: [f32; 4], newcomer: f32, reserve: Bytes) -> usize {
        let mut stage = Stage::of_base_pages(4, TierId::FAST);
        stage.set_rates(&rates);
        stage.telemetry.tiers[0].free = Bytes::ZERO;
        let pages = stage.all.clone();
        let (mut hands, mut plan) = (Hands::default(), Plan::default());
        let mut view = stage.view();
        let kept = |tier| if tier == TierId::FAST { reserve } else { Bytes::ZERO };
        let mut ledger = Ledger::new(&view, view.machine.budget, kept);
        hands.begin(&mut view, &Weights::EQUAL);
        pages.iter().for_each(|&page| hands.add(&mut view, page));
        hands.keep_headroom(&mut view, &mut ledger, &mut plan);
        if newcomer > 0.0 {
            let to = TierId::FAST;
            let page =
                Newcomer { page: pages[0], rate_per_sec: newcomer, size: PageSize::Base, to };
            hands.make_room(&mut view, &mut ledger, &page, 1.25, &mut plan);
        }
        assert!(plan.iter().all(|m| m.from == TierId::FAST && m.to == TierId(1)));
        plan.len()
    }

    #[test]
    fn a_page_gives_way_only_to_one_that_is_hotter_by_the_margin() {
        assert_eq!(demoted([100.0; 4], 200.0, Bytes::ZERO), 1);
        assert_eq!(demoted([100.0; 4], 110.0, Bytes::ZERO), 0);
        assert_eq!(demoted([100.0; 4], 0.0, Bytes::ZERO), 0);
    }

    #[test]
    fn headroom_demotes_as_many_pages_as_are_missing() {
        assert_eq!(demoted([100.0; 4], 0.0, Bytes::from_base_pages(1)), 1);
    }
}
