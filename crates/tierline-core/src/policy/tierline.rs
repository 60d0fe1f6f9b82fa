// SPDX-License-Identifier: Apache-2.0
//! tierline: the default policy.
//!
//! What it does: keeps the pages with the highest access rates in the fastest tier that has room. A page
//! is promoted when it was seen at least twice and the accesses it surely gets (a lower bound of its
//! rate) repay the move within a payback horizon. Where there is no room, the coldest page found goes
//! down first, and only if the page that wants its place is clearly hotter. A headroom is kept free in
//! every tier but the slowest, so that new allocations land in fast memory.
//!
//! When it helps: programs whose accesses concentrate on fewer pages than fast memory holds, also when
//! the hot set moves; pages that are merely warm stay where they are.
//!
//! When it hurts: when fast memory is the bottleneck (it packs the hottest there whatever its load), and
//! with a tracker that cannot see fast memory, where all pages look cold in the end.
//!
//! Knobs: payback (20 s), headroom (2 % of a tier), margin (25 %), min_hits (2). None must be set.
//!
//! Where it comes from: rates instead of counts and benefit against cost follow ARMS (sections 4.1 and
//! 4.3), headroom by early demotion TPP (section 5.1), the second touch TPP (5.3), doubling the bar for
//! pages that came back NeoMem's ping-pong damping (Algorithm 1). The lower bound, the payback horizon
//! and the sampled search for the coldest are ours.

use std::collections::VecDeque;

use super::{Policy, Reason, View};
use crate::page::{FETCHED, Location, PageIdx};
use crate::port::{Move, PageSize};
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

/// Candidates kept; a page that finds the queue full comes back with its next hit.
const MAX_CANDIDATES: usize = 1 << 20;
/// Residents looked at for every victim: the coldest of so many is among the coldest of all.
const OVERSAMPLE: usize = 8;
/// Victims found at a time.
const VICTIMS: usize = 64;
/// Share of the highest visible rate that is taken for hot whatever a move costs: the lower bound of a
/// page that was touched in both of two looks, in three of four, or in half of many. Ours.
const SURE: f32 = 0.2;
/// Seen twice, with a tenth off for what faded between the two.
const FADED: f32 = 0.9;

/// The knobs; all have defaults that need no change.
#[derive(Clone, Copy, Debug)]
pub struct Knobs {
    /// A move must repay its cost within this time. Ours: long against a move, short against the
    /// phases of programs.
    pub payback: Nanos,
    /// Free memory kept in every tier but the slowest, in thousandths of its capacity (TPP: 2 %).
    pub headroom_permille: u64,
    /// A page must be hotter by this factor than the one it displaces. Ours.
    pub margin: f32,
    /// Observations before a promotion (TPP: the second touch).
    pub min_hits: f32,
}

impl Default for Knobs {
    fn default() -> Self {
        Self { payback: Nanos::from_secs(20), headroom_permille: 20, margin: 1.25, min_hits: 2.0 }
    }
}

/// The default policy.
#[derive(Debug, Default)]
pub struct Tierline {
    knobs: Knobs,
    /// Slow pages worth promoting, as of their last hit.
    candidates: Vec<Candidate>,
    /// Pages of every tier but the slowest, in a ring that a hand goes round. Pages that left their
    /// tier drop out when the hand meets them.
    residents: Vec<VecDeque<PageIdx>>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    rate_per_sec: f32,
    page: PageIdx,
}

#[derive(Clone, Copy, Debug)]
struct Victim {
    /// An upper bound: a page that was hardly watched is not taken for cold.
    rate_per_sec: f32,
    page: PageIdx,
}

/// What the plan has used up so far.
struct Ledger {
    budget: Bytes,
    room: Vec<Bytes>,
    /// Pages of each tier that may go down, coldest last.
    victims: Vec<Vec<Victim>>,
    /// Residents of each tier looked at for them.
    looked: Vec<usize>,
}

impl Tierline {
    /// The policy with other knobs.
    pub fn with(knobs: Knobs) -> Self {
        Self { knobs, ..Self::default() }
    }

    /// The access rate above which moving a page from one tier to a faster one repays itself.
    fn floor(&self, view: &View<'_>, size: PageSize, from: TierId, to: TierId) -> f32 {
        let gain = view.tiers.latency_gain(from, to).as_secs_f64();
        let cost = view.move_cost(size).as_secs_f64();
        #[expect(clippy::cast_possible_truncation, reason = "rates are f32")]
        let floor = (cost / (gain * self.knobs.payback.as_secs_f64())) as f32;
        // What is touched in every look may be far hotter than looks can show.
        floor.min(view.hotness.ceiling_per_sec() * SURE)
    }

    /// The floors of all tiers towards the fastest, the lower of the two page sizes: most pages that
    /// were hit fail this without being looked up.
    fn lowest_floors(&self, view: &View<'_>) -> Vec<f32> {
        let floor = |from, size| self.floor(view, size, from, TierId::FAST);
        let both = |from| floor(from, PageSize::Base).min(floor(from, PageSize::Huge));
        view.tiers.iter().map(|(from, _)| both(from)).collect()
    }

    /// Sorts the pages that were hit into residents and candidates.
    fn sort_in(&mut self, view: &mut View<'_>) {
        let slowest = view.tiers.slowest();
        self.residents.resize_with(slowest.index(), VecDeque::new);
        for pages in view.touched.chunks(FETCHED) {
            view.pages.fetch(pages);
            for &page in pages {
                self.sort_in_page(view, page);
            }
        }
        if !view.touched.is_empty() {
            self.rank(view);
        }
    }

    fn sort_in_page(&mut self, view: &mut View<'_>, page: PageIdx) {
        let state = view.pages.state(page);
        let Some(tier) = state.tier() else { return };
        if tier < view.tiers.slowest() && !state.is_listed() {
            view.pages.set_listed(page, true);
            self.residents[tier.index()].push_back(page);
        }
        if tier == TierId::FAST || state.is_queued() || state.is_refused() {
            return;
        }
        let believed = view.hotness.estimate(view.pages.heat(page));
        let seen = believed.hits >= self.knobs.min_hits * FADED;
        if seen && self.candidates.len() < MAX_CANDIDATES {
            view.pages.set_queued(page, true);
            self.candidates.push(Candidate { rate_per_sec: 0.0, page });
        }
    }

    /// Sorts the candidates by the rate that they surely have, hottest last, and lets those go that are
    /// not worth a move; they come back with their next hit.
    fn rank(&mut self, view: &mut View<'_>) {
        let floors = self.lowest_floors(view);
        self.candidates.retain_mut(|candidate| {
            let state = view.pages.state(candidate.page);
            if !state.is_queued() {
                return false; // unmapped, its index perhaps in other use
            }
            let believed = view.hotness.estimate(view.pages.heat(candidate.page));
            candidate.rate_per_sec = believed.at_least_per_sec();
            let floor = state.tier().map_or(f32::INFINITY, |tier| floors[tier.index()]);
            let worth = candidate.rate_per_sec >= floor;
            view.pages.set_queued(candidate.page, worth);
            worth
        });
        self.candidates.sort_unstable_by(|a, b| {
            a.rate_per_sec.total_cmp(&b.rate_per_sec).then_with(|| a.page.cmp(&b.page))
        });
        self.candidates.dedup_by_key(|candidate| candidate.page);
    }

    /// Where a candidate is, if its rate is worth a place in `to`.
    fn worth(&self, view: &View<'_>, candidate: Candidate, to: TierId) -> Option<Location> {
        let Candidate { page, rate_per_sec } = candidate;
        let state = view.pages.state(page);
        let from = state.tier()?;
        if from <= to || state.is_refused() {
            return None;
        }
        let at = view.pages.locate(page)?;
        // The bar doubles for every time the page came back soon after a move.
        let back = f32::from(1u8 << state.returns());
        (rate_per_sec >= self.floor(view, at.size, from, to) * back).then_some(at)
    }

    /// Demotes until every tier has its headroom again, slower tiers first so that they make room.
    fn keep_headroom(&mut self, view: &mut View<'_>, ledger: &mut Ledger, plan: &mut Vec<Move>) {
        for tier in (0..view.tiers.slowest().0).rev().map(TierId) {
            let free = view.telemetry.tiers[tier.index()].free;
            let mut missing = self.headroom(view, tier).saturating_sub(free);
            while missing > Bytes::ZERO {
                let Some(victim) = self.coldest(view, ledger, tier) else { break };
                let reason = Reason::Headroom { rate_per_sec: victim.rate_per_sec };
                let Some(freed) = self.demote(view, ledger, victim, tier, reason, plan) else {
                    break;
                };
                missing = missing.saturating_sub(freed);
                ledger.room[tier.index()] = ledger.room[tier.index()].saturating_sub(freed);
            }
        }
    }

    fn headroom(&self, view: &View<'_>, tier: TierId) -> Bytes {
        Bytes(view.tiers[tier].capacity.0 / 1000 * self.knobs.headroom_permille)
    }

    /// Bytes that may come into each tier: what is free above the headroom, within the limits.
    fn room(&self, view: &View<'_>) -> Vec<Bytes> {
        let tiers = view.tiers.iter().zip(&view.telemetry.tiers);
        tiers
            .map(|((id, _), measured)| {
                let headroom =
                    if id == view.tiers.slowest() { Bytes::ZERO } else { self.headroom(view, id) };
                let free = measured.free.saturating_sub(headroom);
                let limit = view.limits.room(id, view.pages.bytes_in(id));
                limit.map_or(free, |limit| limit.min(free))
            })
            .collect()
    }

    /// The coldest found among residents of `tier` not yet planned in this tick.
    fn coldest(
        &mut self,
        view: &mut View<'_>,
        ledger: &mut Ledger,
        tier: TierId,
    ) -> Option<Victim> {
        let at = tier.index();
        if ledger.victims[at].is_empty() {
            // Once round the ring is enough for one tick.
            let left = self.residents[at].len().saturating_sub(ledger.looked[at]);
            let count = left.min(VICTIMS * OVERSAMPLE);
            ledger.looked[at] += count;
            ledger.victims[at] = self.find_coldest(view, tier, count);
        }
        ledger.victims[at].pop()
    }

    /// Lets the hand go on over `count` residents and returns the coldest of them, coldest last.
    fn find_coldest(&mut self, view: &mut View<'_>, tier: TierId, count: usize) -> Vec<Victim> {
        let ring = &mut self.residents[tier.index()];
        let mut found = Vec::with_capacity(count);
        for _ in 0..count {
            let Some(page) = ring.pop_front() else { break };
            let state = view.pages.state(page);
            if state.tier() != Some(tier) || !state.is_listed() || state.is_refused() {
                view.pages.set_listed(page, false);
                continue;
            }
            ring.push_back(page);
            let rate_per_sec = view.hotness.estimate(view.pages.heat(page)).at_most_per_sec();
            found.push(Victim { rate_per_sec, page });
        }
        found.sort_unstable_by(|a, b| {
            b.rate_per_sec.total_cmp(&a.rate_per_sec).then_with(|| b.page.cmp(&a.page))
        });
        found.split_off(found.len() - found.len().div_ceil(OVERSAMPLE))
    }

    /// Plans one demotion to the nearest slower tier with room; returns the bytes it frees.
    fn demote(
        &self,
        view: &View<'_>,
        ledger: &mut Ledger,
        victim: Victim,
        from: TierId,
        reason: Reason,
        plan: &mut Vec<Move>,
    ) -> Option<Bytes> {
        let at = view.pages.locate(victim.page)?;
        let bytes = at.size.bytes();
        let to = (from.0 + 1..=view.tiers.slowest().0)
            .map(TierId)
            .find(|to| ledger.room[to.index()] >= bytes)?;
        if ledger.budget < bytes {
            return None;
        }
        ledger.budget -= bytes;
        ledger.room[to.index()] -= bytes;
        ledger.room[from.index()] += bytes;
        plan.push(Move { space: at.space, vpn: at.vpn, size: at.size, from, to, reason });
        Some(bytes)
    }

    /// Promotes candidates, hottest first, until they are not worth it, or the budget is used up.
    fn promote(&mut self, view: &mut View<'_>, ledger: &mut Ledger, plan: &mut Vec<Move>) {
        while let Some(candidate) = self.candidates.pop() {
            if !view.pages.state(candidate.page).is_queued() {
                continue;
            }
            if let Placed::NoBudget = self.place(view, ledger, candidate, plan) {
                self.candidates.push(candidate);
                break;
            }
            // Who is not worth it or outbid comes back with the next hit; colder ones may still fit a
            // slower tier.
            view.pages.set_queued(candidate.page, false);
        }
    }

    fn place(
        &mut self,
        view: &mut View<'_>,
        ledger: &mut Ledger,
        candidate: Candidate,
        plan: &mut Vec<Move>,
    ) -> Placed {
        let Some(at) = self.worth(view, candidate, TierId::FAST) else {
            return Placed::No;
        };
        let rate = candidate.rate_per_sec;
        let Some(from) = view.pages.state(candidate.page).tier() else { return Placed::No };
        let bytes = at.size.bytes();
        for to in (0..from.0).map(TierId) {
            if ledger.budget < bytes {
                return Placed::NoBudget;
            }
            if ledger.room[to.index()] < bytes {
                self.make_room(view, ledger, rate, at.size, to, plan);
            }
            if ledger.room[to.index()] >= bytes && ledger.budget >= bytes {
                ledger.budget -= bytes;
                ledger.room[to.index()] -= bytes;
                let reason = Reason::Hot { rate_per_sec: rate };
                plan.push(Move { space: at.space, vpn: at.vpn, size: at.size, from, to, reason });
                return Placed::Planned;
            }
        }
        Placed::No
    }

    /// Demotes pages that are clearly colder than `rate`, all that one page of `size` needs or none.
    fn make_room(
        &mut self,
        view: &mut View<'_>,
        ledger: &mut Ledger,
        rate: f32,
        size: PageSize,
        tier: TierId,
        plan: &mut Vec<Move>,
    ) {
        let planned = plan.len();
        let (room, budget) = (ledger.room.clone(), ledger.budget);
        while ledger.room[tier.index()] < size.bytes() {
            let Some(victim) = self.coldest(view, ledger, tier) else { break };
            // A huge page's rate is spread over its base pages before the two are compared.
            let victim_size = view.pages.locate(victim.page).map_or(PageSize::Base, |at| at.size);
            let density = |rate: f32, size: PageSize| f64::from(rate) / spread(size);
            let colder = density(victim.rate_per_sec, victim_size) * f64::from(self.knobs.margin)
                < density(rate, size);
            let reason = Reason::MakeRoom { rate_per_sec: victim.rate_per_sec };
            if !colder || self.demote(view, ledger, victim, tier, reason, plan).is_none() {
                ledger.victims[tier.index()].push(victim);
                break;
            }
        }
        if ledger.room[tier.index()] < size.bytes() {
            plan.truncate(planned);
            (ledger.room, ledger.budget) = (room, budget);
        }
    }
}

/// Base pages of a page as a number to divide by.
fn spread(size: PageSize) -> f64 {
    match size {
        PageSize::Base => 1.0,
        PageSize::Huge => 512.0,
    }
}

enum Placed {
    Planned,
    No,
    NoBudget,
}

impl Policy for Tierline {
    fn name(&self) -> &'static str {
        "tierline"
    }

    fn plan(&mut self, view: &mut View<'_>, plan: &mut Vec<Move>) {
        self.sort_in(view);
        let tiers = view.tiers.len();
        let mut ledger = Ledger {
            budget: view.budget,
            room: self.room(view),
            victims: vec![Vec::new(); tiers],
            looked: vec![0; tiers],
        };
        self.keep_headroom(view, &mut ledger, plan);
        self.promote(view, &mut ledger, plan);
    }
}
