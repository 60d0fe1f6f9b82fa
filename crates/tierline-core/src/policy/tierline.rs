// SPDX-License-Identifier: Apache-2.0
//! tierline: the default policy.
//!
//! What it does: places each access in the tier with the least latency for it under the present load. While
//! fast memory is faster, the pages with the highest access rates are promoted: those observed at least twice, or once
//! where another observation is likely, whose accesses (a lower bound of the rate) repay the move within a payback
//! horizon. Where accesses are sampled, some pages of each program that would be promoted are followed for two seconds, and what lasts
//! of their heat is a factor on all rates of the program. Without room, the coldest page found is demoted first, and only if the new page is clearly hotter. If queueing in fast memory
//! costs more than slow memory's extra latency, hot pages are demoted, until neither direction gains. While
//! programs allocate, headroom is kept free in every tier except the slowest, so that new pages start in fast
//! memory; not in a tier whose accesses are being shifted down, nor while new pages prove too cold to repay the
//! demotions that make room for them. A sudden rise of the share of accesses that slow memory serves is a phase
//! change, which discards earlier samples. Programs with few cache misses are sampled more densely. While fast memory is full, huge
//! pages whose accesses go to few of their base pages are split. Where accesses are sampled, those of each of several programs
//! are weighted by how long they stall it, as counters and the effect of earlier moves show: a program that waits for
//! each access comes before one with many in flight.
//!
//! When it helps: programs whose accesses concentrate on fewer pages than fast memory holds, also if the hot
//! set moves; machines whose fast memory is loaded, by these programs or others. Warm pages stay in place.
//!
//! When it hurts: the pages of a sequential scan look hot while it passes, and only where accesses are sampled is it learned that they do not
//! stay so. With a tracker that cannot see fast
//! memory, each page there must be checked before it is demoted (`second_chance`), which is slower. If the load
//! of the tiers is not measured, it packs whatever the load.
//!
//! Knobs: payback (20 s), headroom_permille (20), margin (1.25), min_hits (2), quantum (50 ms), splits_per_tick
//! (4), stall_costs (1; 0: all accesses count the same), and those of its goal, colloid. None has to be set.
//!
//! Where it comes from: rates instead of counts, and benefit against cost, follow ARMS (sections 4.1 and 4.3);
//! headroom by early demotion follows TPP (section 5.1), and so does the second access (5.3), which a single
//! fault with a time to fault replaces. The floor that doubles for pages that moved back follows NeoMem's
//! damping of ping-pong (Algorithm 1); the sampling period by the cost of records, and splitting, follow
//! MEMTIS; the goal follows Colloid (3.1, 3.2). Ours are the lower bounds, by a page's own hits and by those of all
//! pages, the payback horizon, what lasts of a program's heat, the sampled search for the coldest page, the detection of phase changes, the detection of
//! hot spots in huge pages, trial splits, headroom by allocation rate, and that the goal, and with it the price of a move,
//! includes the cost of an access to other accesses, not only its own latency.

use super::goal::balance::Balance;
use super::goal::shift_progress::ShiftProgress;
use super::goal::{Aim, Goal};
use super::interface::{Policy, Wants};
use super::parts::arrivals::Arrivals;
use super::parts::candidates::{Candidate, Candidates, PromotionTest};
use super::parts::hand::ExaminedPage;
use super::parts::headroom::Headroom;
use super::parts::ledger::{self, Ledger, Shortage};
use super::parts::make_room::{Hands, Newcomer};
use super::parts::persistence::Persistence;
use super::parts::quantum::Quantum;
use super::parts::sampling::Sampling;
use super::parts::splitting::Splitting;
use super::parts::stall_cost::{StallCosts, Weights};
use crate::knob::Knob;
use crate::knobs;
use crate::migrator::costs::size_index;
use crate::page::{PREFETCH_BATCH, PageIdx};
use crate::policy::plan::Plan;
use crate::policy::view::View;
use crate::port::{PageSize, Reason};
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

/// Candidates that do not fit a shift before the search for that shift ends.
const MISFITS: usize = 1024;
/// Threads that copy a page together, if the world supports it (HeMem).
const COPY_THREADS: u32 = 4;
/// Time between two rounds of promotion, so that new hot pages wait only briefly (ours; as in HeMem).
const TICK: Nanos = Nanos::from_millis(10);

knobs! {
    /// The knobs, without those of the goal; the defaults need no tuning.
    pub struct TierlineKnobs {
        /// A move must repay its cost within this time. Ours: long for a move, short for a program's phases.
        payback: Nanos = Nanos::from_secs(20), Nanos::from_millis(500), Nanos::from_secs(600);
        /// Free memory kept at most per tier (not the slowest) while programs allocate, in thousandths (TPP: 2 %).
        headroom_permille: u32 = 20, 0, 200;
        /// A page must be hotter by this factor than the page it displaces. Ours.
        margin: f64 = 1.25, 1.0, 4.0;
        /// Observations before a promotion (TPP: second access); one with a time to fault, or where another is likely.
        min_hits: f64 = 2.0, 1.0, 16.0;
        /// Time between two decisions of the goal, and between two demotions for headroom. Ours.
        quantum: Nanos = Nanos::from_millis(50), Nanos::from_millis(10), Nanos::from_secs(1);
        /// Huge pages split per tick, at most: at a third of a millisecond each, a tenth of a core on Linux. Ours.
        splits_per_tick: u32 = 4, 0, 64;
        /// Accesses are weighted by what they cost their program.
        stall_costs: bool = true, false, true;
    }
}

/// The default policy.
#[derive(Debug)]
pub struct Tierline {
    knobs: TierlineKnobs,
    goal: Box<dyn Goal>,
    quantum: Quantum,
    /// What remains of the goal's last shifts; `None`: pack.
    shifts: Option<Vec<ShiftProgress>>,
    headroom: Headroom,
    arrivals: Arrivals,
    sampling: Sampling,
    candidates: Candidates,
    hands: Hands,
    splitting: Splitting,
    costs: StallCosts,
    persistence: Persistence,
    /// What an access of each program counts.
    weights: Weights,
    /// Headroom in the fastest tier was short at the last decision, so later new pages take it.
    is_short: bool,
}

impl Default for Tierline {
    fn default() -> Self {
        Self {
            knobs: TierlineKnobs::default(),
            goal: Box::new(Balance::of_marginals()),
            quantum: Quantum::default(),
            shifts: None,
            headroom: Headroom::default(),
            arrivals: Arrivals::default(),
            sampling: Sampling::default(),
            candidates: Candidates::default(),
            hands: Hands::default(),
            splitting: Splitting::default(),
            costs: StallCosts::default(),
            persistence: Persistence::default(),
            weights: Weights::EQUAL,
            is_short: false,
        }
    }
}

impl Tierline {
    /// Lists pages that were hit as residents or candidates.
    fn list_hit_pages(&mut self, view: &mut View<'_>) {
        self.hands.begin(view, &self.weights);
        let floors = promotion_test(&self.knobs, self.goal.as_ref(), &self.weights).lowest(view);
        for pages in view.evidence.touched.chunks(PREFETCH_BATCH) {
            view.memory.pages.prefetch(pages.iter().copied());
            pages.iter().for_each(|&page| self.list_page(view, page, &floors));
        }
        let turned_away = view.evidence.turned_away;
        turned_away.iter().for_each(|&page| self.list_page(view, page, &floors));
        self.candidates.count_hits(view.evidence.touched.len() + turned_away.len());
        for part in self.splitting.take_parts(view) {
            self.list_page(view, part, &floors);
        }
        self.arrivals.end_report(view);
    }

    /// Lists pages that found no room in fast memory, if there is room now: their next hit may be long in coming.
    fn list_remembered_pages(&mut self, view: &mut View<'_>, room: Bytes) {
        let capacity = view.machine.tiers[TierId::FAST].capacity;
        let remembered = self.candidates.take_remembered(room, capacity);
        if remembered.is_empty() {
            return;
        }
        let test = promotion_test(&self.knobs, self.goal.as_ref(), &self.weights);
        let floors = test.lowest(view);
        for page in remembered {
            self.candidates.queue_if_worth(view, &test, &floors, page);
        }
    }

    fn list_page(&mut self, view: &mut View<'_>, page: PageIdx, floors: &[f32]) {
        let state = view.memory.pages.state(page);
        let is_new = state.tier() == Some(TierId::FAST) && !state.is_listed();
        if is_new && self.is_short {
            self.arrivals.add(view, page, self.knobs.payback);
        }
        self.hands.add(view, page);
        let test = promotion_test(&self.knobs, self.goal.as_ref(), &self.weights);
        if self.persistence.can_follow(view, page)
            && let Some(rate_per_sec) = test.passing_rate(view, floors, page)
        {
            self.persistence.follow(view, page, rate_per_sec);
        }
        self.candidates.queue_if_worth(view, &test, floors, page);
    }

    /// A ledger that reserves the headroom of every tier except the slowest, and those that are to serve less: new pages,
    /// which tend to be hot, are not wanted there.
    fn open_ledger(&mut self, view: &View<'_>) -> Ledger {
        let tiers = view.machine.tiers;
        let permille = u64::from(self.knobs.headroom_permille);
        let serves_less = |tier: TierId| {
            let mut shifts = self.shifts.iter().flatten();
            shifts.any(|progress| progress.shift.tier == tier && !progress.shift.up)
        };
        let most = |tier: TierId| match tier == tiers.slowest() {
            true => Bytes::ZERO,
            false => Bytes(tiers[tier].capacity.0 / 1000 * permille),
        };
        let largest = tiers.iter().map(|(tier, _)| most(tier)).max().unwrap_or_default();
        self.headroom.observe(view, largest);
        // Where accesses to fast memory are not observed, nothing is known of new pages.
        let test = promotion_test(&self.knobs, self.goal.as_ref(), &self.weights);
        let repays =
            view.evidence.fast_untracked || self.arrivals.repay(view, &test, self.knobs.payback);
        let kept = |tier| match serves_less(tier) || tier == TierId::FAST && !repays {
            true => Bytes::ZERO,
            false => self.headroom.within(most(tier)),
        };
        self.is_short = ledger::free(view, TierId::FAST) <= kept(TierId::FAST);
        Ledger::new(view, view.machine.budget, kept)
    }

    /// Continues the goal's shifts, or packs.
    fn shift_or_pack(&mut self, view: &mut View<'_>, ledger: &mut Ledger, plan: &mut Plan) {
        let up = |shifts: &Vec<ShiftProgress>| shifts.iter().any(|progress| progress.shift.up);
        if self.shifts.as_ref().is_none_or(up) {
            self.candidates
                .rank(view, &promotion_test(&self.knobs, self.goal.as_ref(), &self.weights));
        }
        let Some(mut shifts) = self.shifts.take() else {
            return self.promote(view, ledger, None, plan);
        };
        for progress in &mut shifts {
            match progress.shift.up {
                true => self.promote(view, ledger, Some(progress), plan),
                false => self.shift_down(view, ledger, progress, plan),
            }
        }
        self.shifts = Some(shifts);
    }

    /// Promotes candidates, hottest first, until they do not pay or the budget is used up; for a shift, only
    /// into its tier and within its quota.
    fn promote(
        &mut self,
        view: &mut View<'_>,
        ledger: &mut Ledger,
        mut progress: Option<&mut ShiftProgress>,
        plan: &mut Plan,
    ) {
        let mut waiting = Vec::new();
        self.hands.set_waiting(self.candidates.len());
        while let Some(candidate) = self.candidates.pop(view) {
            let next = progress.as_ref().map(|progress| TierId(progress.shift.tier.0 + 1));
            match self.place(view, ledger, candidate, progress.as_deref_mut(), plan) {
                PlaceOutcome::Later => {
                    waiting.push(candidate);
                    break;
                }
                PlaceOutcome::Unfit => {
                    waiting.push(candidate);
                    if waiting.len() > MISFITS {
                        break;
                    }
                }
                // The tier below may still have room for it.
                PlaceOutcome::Stays | PlaceOutcome::NoRoom
                    if view.memory.pages.state(candidate.page).tier() > next && next.is_some() =>
                {
                    waiting.push(candidate);
                }
                // A page that does not pay or was not hot enough returns with its next hit; colder ones may
                // still fit a slower tier.
                outcome => {
                    view.memory.pages.set_queued(candidate.page, false);
                    if matches!(outcome, PlaceOutcome::NoRoom) {
                        self.candidates.remember(candidate.page);
                    }
                }
            }
        }
        self.candidates.put_back(waiting);
    }

    /// Finds a place for a candidate: in the shift's tier, otherwise in the fastest tier with room.
    fn place(
        &mut self,
        view: &mut View<'_>,
        ledger: &mut Ledger,
        candidate: Candidate,
        progress: Option<&mut ShiftProgress>,
        plan: &mut Plan,
    ) -> PlaceOutcome {
        let Candidate { page, rate_per_sec, .. } = candidate;
        let Some(from) = view.memory.pages.state(page).tier() else { return PlaceOutcome::Stays };
        let to = progress
            .as_ref()
            .map_or(0..from.0, |progress| progress.shift.tier.0..progress.shift.tier.0 + 1);
        let nearest = TierId(to.start);
        if from <= nearest {
            return PlaceOutcome::Unfit;
        }
        let test = promotion_test(&self.knobs, self.goal.as_ref(), &self.weights);
        let Some(at) = test.location_if_worth(view, candidate, nearest) else {
            return PlaceOutcome::Stays;
        };
        let share = progress.as_ref().map_or(0.0, |progress| progress.share(view, page));
        match &progress {
            Some(progress) if progress.quota.is_spent() => return PlaceOutcome::Later,
            Some(progress) if !progress.quota.admits(share, at.size.bytes()) => {
                return PlaceOutcome::Unfit;
            }
            _ if ledger.budget() < at.size.bytes() => return PlaceOutcome::Later,
            _ => {}
        }
        let planned = plan.len();
        for to in to.map(TierId) {
            let newcomer = Newcomer { page, rate_per_sec, size: at.size, to };
            match self.promote_to(view, ledger, &newcomer, plan) {
                Ok(_) => {
                    if let Some(progress) = progress {
                        progress.charge(share, &plan[planned..]);
                    }
                    return PlaceOutcome::Planned;
                }
                Err(Shortage::Budget) => return PlaceOutcome::Later,
                // The enforcer may exchange it for a colder page of its tenant.
                Err(Shortage::Limit) => return PlaceOutcome::Stays,
                Err(Shortage::Room | Shortage::Page) => {}
            }
        }
        let looking = self.hands.of(nearest).is_some_and(|hand| hand.may_find_colder());
        if looking { PlaceOutcome::Later } else { PlaceOutcome::NoRoom }
    }

    /// Plans a promotion to one tier, with the demotions that make room for it.
    fn promote_to(
        &mut self,
        view: &mut View<'_>,
        ledger: &mut Ledger,
        newcomer: &Newcomer,
        plan: &mut Plan,
    ) -> Result<Bytes, Shortage> {
        let &Newcomer { page, rate_per_sec, size, to } = newcomer;
        if ledger.room(to) < size.bytes() && ledger.admits(view.memory.pages, page, to) {
            self.hands.make_room(view, ledger, newcomer, self.knobs.margin, plan);
        }
        let planned =
            ledger.plan(view.memory.pages, page, to, Reason::Hot { rate_per_sec }, plan)?;
        if let Some(hand) = self.hands.of(to) {
            hand.add_arriving(view, page);
        }
        Ok(planned)
    }

    /// Shifts a part of a tier's accesses down to the tiers below.
    fn shift_down(
        &mut self,
        view: &mut View<'_>,
        ledger: &mut Ledger,
        progress: &mut ShiftProgress,
        plan: &mut Plan,
    ) {
        let tier = progress.shift.tier;
        let Some(hand) = self.hands.of(tier) else { return };
        let test = promotion_test(&self.knobs, self.goal.as_ref(), &self.weights);
        let below = TierId(tier.0 + 1);
        let floor = |size| f64::from(test.floor_down(view, size, tier, below));
        let floors = [PageSize::Base, PageSize::Huge].map(floor);
        // The hottest pages carry the most accesses per byte.
        while !progress.quota.is_spent()
            && let Some(hottest) = hand.hottest(view, tier)
        {
            let before = plan.len();
            for ExaminedPage { page, rate_per_sec, .. } in hottest {
                let Some(at) = view.memory.pages.locate(page) else { continue };
                let share = progress.share(view, page);
                let pays = share * progress.shift.reads_per_sec >= floors[size_index(at.size)];
                if !pays || !progress.quota.admits(share, at.size.bytes()) {
                    continue;
                }
                let planned = plan.len();
                let reason = Reason::Balance { rate_per_sec };
                if ledger.demote(view.memory.pages, page, reason, plan).is_err() {
                    return;
                }
                progress.charge(share, &plan[planned..]);
            }
            if plan.len() == before {
                return; // the next residents have their turn in the next tick
            }
        }
    }
}

enum PlaceOutcome {
    Planned,
    /// The page stays where it is.
    Stays,
    /// The same, as there is no room for it, and no colder page to make room.
    NoRoom,
    /// The page does not fit the present shift.
    Unfit,
    /// No more can be moved in this tick.
    Later,
}

/// The conditions of a promotion.
fn promotion_test<'a>(
    knobs: &TierlineKnobs,
    goal: &'a dyn Goal,
    weights: &'a Weights,
) -> PromotionTest<'a> {
    #[expect(clippy::cast_possible_truncation, reason = "hits are f32")]
    let min_hits = knobs.min_hits as f32;
    PromotionTest { goal, payback: knobs.payback, weights, min_hits }
}

impl Policy for Tierline {
    fn name(&self) -> &'static str {
        "tierline"
    }

    fn plan(&mut self, view: &mut View<'_>, plan: &mut Plan) {
        self.goal.update(view);
        self.sampling.update(view);
        if self.knobs.stall_costs {
            self.costs.update(view, self.goal.as_ref());
        }
        self.persistence.update(view);
        self.weights = self.persistence.weights(self.costs.weights());
        self.list_hit_pages(view);
        let mut ledger = self.open_ledger(view);
        self.list_remembered_pages(view, ledger.room(TierId::FAST));
        let fast_is_full = ledger.room(TierId::FAST) < PageSize::Huge.bytes();
        self.splitting.request(view, fast_is_full, self.knobs.splits_per_tick as usize);
        // Averages show the effect of a shift with a delay, and many demotions at once cost programs less than
        // a few at a time.
        if let Some(passed) = self.quantum.due(view.now, self.knobs.quantum) {
            self.hands.keep_headroom(view, &mut ledger, plan);
            self.shifts = match self.goal.aim(view, passed) {
                Aim::Pack => None,
                Aim::Shift(shifts) => Some(shifts.into_iter().map(ShiftProgress::of).collect()),
            };
        }
        self.shift_or_pack(view, &mut ledger, plan);
        self.hands.follow(view, plan);
    }

    fn wants(&self) -> Wants {
        Wants {
            quantum: Some(TICK),
            tracking: self.sampling.tracking(),
            copy_threads: Some(COPY_THREADS),
            huge_page_hits: true,
            panel_hits: true,
            ..Wants::default()
        }
    }

    fn knobs(&self) -> Vec<Knob> {
        [TierlineKnobs::table(), self.goal.knobs()].concat()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        self.knobs.set(knob, value) || self.goal.set(knob, value)
    }
}
