// SPDX-License-Identifier: Apache-2.0
//! Demotions of the coldest pages found, for headroom and for hotter pages.
//!
//! Every tier except the slowest has a hand, which finds the coldest pages of a sample.

use super::hand::{ClockHand, ExaminedPage};
use super::ledger::{Ledger, Shortage};
use super::stall_cost::Weights;
use crate::page::PageIdx;
use crate::policy::plan::Plan;
use crate::policy::view::View;
use crate::port::{Move, PageSize, Reason};
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
        let astray: Vec<PageIdx> = self.0.iter_mut().flat_map(ClockHand::take_astray).collect();
        astray.into_iter().for_each(|page| self.add(view, page));
    }

    /// Takes in what is to be moved: a page that goes from one hand's tier to another's is listed there. A hand would find
    /// it only when it comes round, and only if pages of its own tier are looked for.
    pub fn follow(&mut self, view: &mut View<'_>, moves: &[Move]) {
        if self.0.len() < 2 {
            return;
        }
        for m in moves {
            let hands = self.0.get_disjoint_mut([m.from.index(), m.to.index()]);
            if let Ok([from, to]) = hands
                && let Some(page) = view.memory.pages.find(m.space, m.vpn)
                && view.memory.pages.state(page).is_listed()
            {
                from.leave(page);
                to.add(view, page);
            }
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
                && let Some(ExaminedPage { page, rate_per_sec, .. }) =
                    hand.coldest_or_next(view, tier)
            {
                let reason = Reason::Headroom { rate_per_sec };
                if ledger.demote(view.memory.pages, page, reason, plan).is_err() {
                    break;
                }
            }
        }
    }

    /// Demotes pages that are colder than `page` by the factor `margin`: all that it needs, or none. What the world lacks
    /// comes first, and where the budget does not suffice for it, as many as that permits.
    pub fn make_room(
        &mut self,
        view: &mut View<'_>,
        ledger: &mut Ledger,
        page: &Newcomer,
        margin: f64,
        plan: &mut Plan,
    ) {
        let planned = plan.len();
        let Some(hand) = self.0.get_mut(page.to.index()) else { return };
        while ledger.room(page.to) < page.size.bytes() {
            let Some(victim) = hand.coldest(view, page.to) else { break };
            if !gives_way(view, hand, victim, page, margin) {
                if hand.skip_sample(victim) {
                    continue;
                }
                break;
            }
            let reason = Reason::MakeRoom { rate_per_sec: victim.rate_per_sec };
            if let Err(short) = ledger.demote(view.memory.pages, victim.page, reason, plan) {
                hand.give_back(victim);
                if short == Shortage::Budget && ledger.is_lacking(page.to) {
                    return; // more is lacking than one tick may move: the next one goes on
                }
                break;
            }
        }
        if ledger.room(page.to) < page.size.bytes() {
            plan.drain(planned..).for_each(|m| ledger.cancel(view.memory.pages, &m));
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

/// Whether a page is colder than a newcomer by the factor `margin`. One that was hardly watched is, too, if it is cold
/// given the mean of its tier, and would have been hit if it were as hot as the newcomer most likely is.
fn gives_way(
    view: &View<'_>,
    hand: &ClockHand,
    victim: ExaminedPage,
    newcomer: &Newcomer,
    margin: f64,
) -> bool {
    let size = victim.size;
    let is_colder = |victim, other| {
        f64::from(size.density(victim)) * margin < f64::from(newcomer.size.density(other))
    };
    let at_most = victim.rate_per_sec;
    is_colder(at_most, newcomer.rate_per_sec)
        || is_colder(at_most, hand.most_likely(view, newcomer.page))
            && hand
                .at_most_by_mean(view, victim.page, size)
                .is_some_and(|at_most| is_colder(at_most, newcomer.rate_per_sec))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::parts::stage::Stage;
    use crate::port::TierTelemetry;
    use crate::unit::{Bytes, Nanos};

    /// Four pages with these rates in a full fast tier; the number of planned demotions.
    fn demoted(rates: [f32; 4], newcomer: f32, reserve: Bytes) -> usize {
        demoted_lacking(0, &rates, newcomer, reserve)
    }

    /// The same where so many base pages are missing from the world's own reserves.
    fn demoted_lacking(lacking: u64, rates: &[f32], newcomer: f32, reserve: Bytes) -> usize {
        demoted_within(1 << 20, lacking, rates, newcomer, reserve)
    }

    /// The same with a budget of so many base pages.
    fn demoted_within(
        budget: u64,
        lacking: u64,
        rates: &[f32],
        newcomer: f32,
        reserve: Bytes,
    ) -> usize {
        let mut stage = Stage::of_base_pages(rates.len() as u64, TierId::FAST);
        stage.set_rates(rates);
        let (free, lacking) = (Bytes::ZERO, Bytes::from_base_pages(lacking));
        stage.telemetry.tiers[0] = TierTelemetry { free, lacking, ..stage.telemetry.tiers[0] };
        let pages = stage.all.clone();
        let (mut hands, mut plan) = (Hands::default(), Plan::default());
        let mut view = stage.view();
        let kept = |tier| if tier == TierId::FAST { reserve } else { Bytes::ZERO };
        let mut ledger = Ledger::new(&view, Bytes::from_base_pages(budget), kept);
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

    /// A page that moves between two tiers that each have a hand is found in the one where it is, and once; also after it
    /// came back, and after a move that failed.
    #[test]
    fn a_page_is_found_in_the_tier_that_it_was_moved_to() {
        let mut stage = Stage::of_base_pages(16, TierId(1));
        stage.add_tier();
        // The coldest, so that it is found if it is there.
        stage.set_rates(&std::array::from_fn::<_, 16, _>(|i| if i == 2 { 1.0 } else { 100.0 }));
        let pages = stage.all.clone();
        let mut hands = Hands::default();
        hands.begin(&mut stage.view(), &Weights::EQUAL);
        pages.iter().for_each(|&page| hands.add(&mut stage.view(), page));
        let mut moved = |stage: &mut Stage, from: u8, to: u8, is_done: bool| {
            let at = stage.pages.locate(pages[2]).expect("mapped by the stage");
            let (from, to) = (TierId(from), TierId(to));
            let reason = Reason::Hot { rate_per_sec: 1.0 };
            let m = Move { space: at.space, vpn: at.vpn, size: at.size, from, to, reason };
            hands.follow(&mut stage.view(), &[m]);
            stage.pages.set_tier(pages[2], if is_done { to } else { from });
            let mut found = |stage: &mut Stage, tier: u8| {
                hands.begin(&mut stage.view(), &Weights::EQUAL);
                let (mut view, tier) = (stage.view(), TierId(tier));
                let hand = hands.of(tier).expect("not the slowest");
                std::iter::from_fn(|| hand.coldest(&mut view, tier))
                    .filter(|it| it.page == pages[2])
                    .count()
            };
            if !is_done {
                found(stage, to.0); // its hand finds out
            }
            [0, 1].map(|tier| found(stage, tier))
        };
        assert_eq!(moved(&mut stage, 1, 0, true), [1, 0]);
        assert_eq!(moved(&mut stage, 0, 1, true), [0, 1]);
        assert_eq!(moved(&mut stage, 1, 0, true), [1, 0]);
        assert_eq!(moved(&mut stage, 0, 1, false), [1, 0], "it stayed");
    }

    /// 16 pages of full fast memory, of which two were hit, watched for a tenth of a second; the demotions for a newcomer
    /// with this lower bound and this most likely rate.
    fn demoted_unwatched(at_least: f32, likely: f32) -> usize {
        let mut stage = Stage::of_base_pages(17, TierId::FAST);
        let pages = stage.all.clone();
        stage.telemetry.tiers[0].free = Bytes::ZERO;
        stage.hotness.advance(Nanos::from_millis(100));
        stage.pages.set_heat(pages[16], stage.hotness.heat_of_rate(likely, PageSize::Base));
        let mut view = stage.view();
        (view.evidence.hits_in, view.evidence.watched) =
            (&[2.0; TierId::MAX], Nanos::from_millis(100));
        let (mut hands, mut plan) = (Hands::default(), Plan::default());
        let mut ledger = Ledger::new(&view, view.machine.budget, |_| Bytes::ZERO);
        hands.begin(&mut view, &Weights::EQUAL);
        pages[..16].iter().for_each(|&page| hands.add(&mut view, page));
        let newcomer = Newcomer {
            page: pages[16],
            rate_per_sec: at_least,
            size: PageSize::Base,
            to: TierId::FAST,
        };
        hands.make_room(&mut view, &mut ledger, &newcomer, 1.25, &mut plan);
        plan.len()
    }

    /// A page without a hit in a tenth of a second has at most 16 accesses a second, by itself; among pages with 1.25 in the
    /// mean, 2.5.
    #[test]
    fn a_page_hardly_watched_gives_way_if_most_of_its_tier_are_cold() {
        assert_eq!(demoted_unwatched(25.0, 30.0), 1, "colder for sure");
        assert_eq!(demoted_unwatched(4.0, 30.0), 1, "colder than most of the tier are");
        assert_eq!(demoted_unwatched(2.0, 30.0), 0);
        assert_eq!(
            demoted_unwatched(4.0, 10.0),
            0,
            "it might be as hot, and was not seen by chance"
        );
    }

    /// 1,000 accesses a second are two for each base page of the huge page.
    #[test]
    fn a_huge_page_is_colder_than_a_base_page_with_fewer_accesses() {
        let mut stage = Stage::of_both_sizes(TierId::FAST);
        stage.set_rates(&[1_000.0, 100.0]);
        stage.telemetry.tiers[0].free = Bytes::ZERO;
        let pages = stage.all.clone();
        let (mut hands, mut plan) = (Hands::default(), Plan::default());
        let mut view = stage.view();
        let kept =
            |tier| if tier == TierId::FAST { Bytes::from_base_pages(1) } else { Bytes::ZERO };
        let mut ledger = Ledger::new(&view, view.machine.budget, kept);
        hands.begin(&mut view, &Weights::EQUAL);
        pages.iter().for_each(|&page| hands.add(&mut view, page));
        hands.keep_headroom(&mut view, &mut ledger, &mut plan);
        assert_eq!(plan.iter().map(|m| m.size).collect::<Vec<_>>(), [PageSize::Huge]);
    }

    #[test]
    fn headroom_demotes_as_many_pages_as_are_missing() {
        assert_eq!(demoted([100.0; 4], 0.0, Bytes::from_base_pages(1)), 1);
    }

    #[test]
    fn what_the_world_lacks_is_made_up_for_by_the_first_newcomer_alone() {
        let demoted = |lacking, newcomer, reserve| {
            demoted_lacking(lacking, &[100.0; 64], newcomer, Bytes::from_base_pages(reserve))
        };
        assert_eq!(demoted(2, 200.0, 0), 3);
        assert_eq!(demoted(2, 0.0, 0), 0);
        assert_eq!(demoted(2, 0.0, 1), 1, "headroom is kept without");
        assert_eq!(demoted(64, 200.0, 0), 0, "all or nothing");
    }

    #[test]
    fn what_the_world_lacks_may_take_several_ticks() {
        let demoted =
            |budget, lacking| demoted_within(budget, lacking, &[100.0; 64], 200.0, Bytes::ZERO);
        assert_eq!(demoted(4, 5), 4, "as much as the budget permits");
        assert_eq!(demoted(6, 5), 6);
        assert_eq!(demoted(0, 0), 0);
    }
}
