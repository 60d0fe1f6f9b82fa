// SPDX-License-Identifier: Apache-2.0
//! tierline: the default policy.
//!
//! What it does: gives every access the tier that is fastest for it under the present load. While fast memory is the
//! faster, the pages with the highest access rates are promoted: those seen at least twice whose accesses
//! (a lower bound of the rate) repay the move within a payback horizon. Where there is no room, the coldest page
//! found goes down first, and only if the page that wants its place is clearly hotter. Where fast memory's
//! queues cost more than slow memory's distance, hot pages go down, until neither way would gain. While programs
//! allocate, a headroom is kept free in every tier but the slowest, so that new pages land in fast memory. When the
//! share of accesses that slow memory serves jumps up, what samples told before is void. Programs that miss little
//! are sampled more closely. Where fast memory is full, huge pages are split whose accesses sit in few of their base
//! pages.
//!
//! When it helps: programs whose accesses concentrate on fewer pages than fast memory holds, also when
//! the hot set moves; machines whose fast memory is loaded, by these programs or others; pages that are merely
//! warm stay where they are.
//!
//! When it hurts: a scan's pages look hot while it passes; with a tracker that cannot see fast memory cold pages there
//! must be asked for one by one (`second_chance`), which is slower; where nothing measures the tiers' load it packs
//! whatever that is.
//!
//! Knobs: those of its goal, `colloid`. None must be set.
//!
//! Where it comes from: rates instead of counts and benefit against cost follow ARMS (sections 4.1 and 4.3),
//! headroom by early demotion TPP (section 5.1), the second touch TPP (5.3), for which one fault stands that tells
//! how long the page waited, doubling the bar for pages that came back NeoMem's ping-pong damping (Algorithm 1), a
//! sampling period by what records cost and the splitting of huge pages MEMTIS, the goal Colloid (3.1, 3.2). Ours
//! are the lower bound, the payback horizon, the sampled search for the coldest, the alarm and when it is believed,
//! how hot spots in huge pages are found, that headroom follows the allocation rate, and that the goal, and with it
//! the price of a move, counts what an access costs the program's other accesses, not only its own latency.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::goal::balance::Balance;
use super::goal::{Aim, Goal, Quota, Shift};
use super::parts::hand::{Hand, Met};
use super::parts::headroom::Headroom;
use super::parts::ledger::{Ledger, Short};
use super::parts::quantum::Quantum;
use super::parts::sampling::Sampling;
use super::{Policy, Wants};
use crate::knob::Knob;
use crate::page::{FETCHED, Location, PageIdx};
use crate::policy::view::View;
use crate::port::{Move, PageSize, Reason, SpaceId, Vpn};
use crate::telemetry::spots::{Spot, Spots};
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

/// Candidates kept; a page that finds the queue full comes back with its next hit.
const MAX_CANDIDATES: usize = 1 << 20;
/// Share of the highest visible rate that is taken for hot whatever a move costs: the lower bound of a
/// page that was touched in both of two looks, in three of four, or in half of many. Ours.
const SURE: f32 = 0.2;
/// Candidates that do not fit a shift, after which it is as good as spent.
const MISFITS: usize = 1024;
/// Huge pages split in a tick, at most: some tenth of a core at the third of a millisecond that one takes on Linux. Ours.
const SPLITS: usize = 4;
/// Threads that copy a page together, where the world can (HeMem).
const COPY_THREADS: u32 = 4;
/// Time between two rounds of promotion: what becomes hot is not left waiting (ours; as HeMem's).
const TICK: Nanos = Nanos::from_millis(10);
/// Base pages of a huge page.
const HUGE: u32 = 512;
/// Lines of a base page, each an access when it is copied.
const LINES_PER_BASE: f64 = 64.0;
/// Candidates are ranked anew when one in so many was hit. Ours: what a rank costs, hits pay for.
const HIT_TO_RANK: usize = 64;
/// Seen twice, with a tenth off for what faded between the two.
const FADED: f32 = 0.9;

/// The knobs; all have defaults that need no change.
#[derive(Clone, Copy, Debug)]
pub struct Knobs {
    /// A move must repay its cost within this time. Ours: long against a move, short against the
    /// phases of programs.
    pub payback: Nanos,
    /// Free memory kept in every tier but the slowest while programs allocate, in thousandths of its capacity at
    /// most (TPP: 2 %).
    pub headroom_permille: u64,
    /// A page must be hotter by this factor than the one it displaces. Ours.
    pub margin: f32,
    /// Observations before a promotion (TPP: the second touch). One is enough where it tells how long the page waited for
    /// it (the kernel's tiering goes by the time to fault, too).
    pub min_hits: f32,
    /// Time between two aims, and between two rounds of demotion for headroom. Ours: what a shift did shows in the
    /// averages a while later, and many pages together cost programs less than a few at a time.
    pub quantum: Nanos,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            payback: Nanos::from_secs(20),
            headroom_permille: 20,
            margin: 1.25,
            min_hits: 2.0,
            quantum: Nanos::from_millis(50),
        }
    }
}

/// The default policy.
#[derive(Debug)]
pub struct Tierline {
    knobs: Knobs,
    goal: Box<dyn Goal>,
    quantum: Quantum,
    /// What is left of the shifts that were asked for last; `None`: to pack.
    lanes: Option<Vec<Lane>>,
    headroom: Headroom,
    sampling: Sampling,
    /// Slow pages worth promoting, by the rates that they surely had when they were last ranked.
    candidates: BinaryHeap<Candidate>,
    /// Pages hit since then.
    hit: usize,
    /// The pages of every tier but the slowest.
    hands: Vec<Hand>,
    spots: Spots,
    /// Huge pages that were to be split in the last tick.
    splitting: Vec<Splitting>,
}

#[derive(Clone, Copy, Debug)]
struct Splitting {
    space: SpaceId,
    vpn: Vpn,
    spot: Spot,
    rate_per_sec: f32,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    rate_per_sec: f32,
    page: PageIdx,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rate_per_sec.total_cmp(&other.rate_per_sec).then_with(|| self.page.cmp(&other.page))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Candidate {}

impl Default for Tierline {
    fn default() -> Self {
        Self::new(Box::new(Balance::of_marginals()))
    }
}

impl Tierline {
    /// The policy with a goal.
    pub fn new(goal: Box<dyn Goal>) -> Self {
        Self {
            knobs: Knobs::default(),
            goal,
            quantum: Quantum::default(),
            lanes: None,
            headroom: Headroom::default(),
            sampling: Sampling::default(),
            candidates: BinaryHeap::new(),
            hit: 0,
            hands: Vec::new(),
            spots: Spots::default(),
            splitting: Vec::new(),
        }
    }

    /// The policy with other knobs.
    pub fn with(knobs: Knobs) -> Self {
        Self { knobs, ..Self::default() }
    }

    /// The access rate above which moving a page from one tier to a faster one repays itself.
    fn floor(&self, view: &View<'_>, size: PageSize, from: TierId, to: TierId) -> f32 {
        // Where slow memory is busy, an access spared is worth more; and a move is accesses too, those
        // that read the page there and write another one in its place.
        let queue = self.goal.queueing(view, from);
        let lines = LINES_PER_BASE * f64::from(size.base_pages_f32());
        let gain = view.tiers.latency_gain(from, to).as_secs_f64() + queue;
        let cost = view.move_cost(size).as_secs_f64() + 2.0 * lines * queue;
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
        self.hands.resize_with(slowest.index(), Hand::default);
        for (tier, hand) in (0..).map(TierId).zip(&mut self.hands) {
            hand.begin(view, tier);
        }
        let floors = self.lowest_floors(view);
        for pages in view.touched.chunks(FETCHED) {
            view.pages.fetch(pages.iter().copied());
            for &page in pages {
                self.sort_in_page(view, page, &floors);
            }
        }
        self.hit += view.touched.len();
    }

    fn sort_in_page(&mut self, view: &mut View<'_>, page: PageIdx, floors: &[f32]) {
        let state = view.pages.state(page);
        let Some(tier) = state.tier() else { return };
        if tier < view.tiers.slowest() && !state.is_listed() {
            self.hands[tier.index()].list(view, page);
        }
        if tier == TierId::FAST || state.is_queued() || state.is_refused() {
            return;
        }
        let rate_per_sec = self.surely(view, page);
        if rate_per_sec >= floors[tier.index()] && self.candidates.len() < MAX_CANDIDATES {
            view.pages.set_queued(page, true);
            self.candidates.push(Candidate { rate_per_sec, page });
        }
    }

    /// The rate that a page surely has; none where it must be seen again.
    fn surely(&self, view: &View<'_>, page: PageIdx) -> f32 {
        let believed = view.estimate(page);
        let seen = view.hotness.is_timed() || believed.hits >= self.knobs.min_hits * FADED;
        if seen { believed.at_least_per_sec() } else { 0.0 }
    }

    /// Ranks the candidates anew once so many pages were hit that it is worth it, and lets those go that are
    /// not worth a move; they come back with their next hit.
    fn rank(&mut self, view: &mut View<'_>) {
        if self.hit * HIT_TO_RANK < self.candidates.len() {
            return;
        }
        self.hit = 0;
        let floors = self.lowest_floors(view);
        let mut candidates = std::mem::take(&mut self.candidates).into_vec();
        candidates.retain_mut(|candidate| {
            let state = view.pages.state(candidate.page);
            if !state.is_queued() {
                return false; // unmapped, its index perhaps in other use
            }
            candidate.rate_per_sec = self.surely(view, candidate.page);
            let floor = state.tier().map_or(f32::INFINITY, |tier| floors[tier.index()]);
            let worth = candidate.rate_per_sec >= floor;
            view.pages.set_queued(candidate.page, worth);
            worth
        });
        self.candidates = candidates.into();
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
            while ledger.is_short(tier)
                && let Some(hand) = self.hands.get_mut(tier.index())
                && let Some(Met { page, rate_per_sec }) = hand.coldest_or_next(view, tier)
            {
                let reason = Reason::Headroom { rate_per_sec };
                if demote(view, ledger, page, reason, plan).is_err() {
                    break;
                }
            }
        }
    }

    /// Has huge pages split whose accesses sit in few of their base pages, where fast memory is full: their other
    /// base pages take room there, or would.
    fn split(&mut self, view: &mut View<'_>, ledger: &Ledger) {
        let full = ledger.room(TierId::FAST) < PageSize::Huge.bytes();
        for hit in view.hits {
            let spot = hit.within.and_then(|within| self.spots.hit(hit.page, within));
            let (Some(spot), Some(at)) = (spot, view.pages.locate(hit.page)) else { continue };
            let refused = view.pages.state(hit.page).is_refused();
            if full && !refused && view.split.len() < SPLITS && !view.split.contains(&hit.page) {
                let rate_per_sec = view.estimate(hit.page).rate_per_sec();
                view.split.push(hit.page);
                self.splitting.push(Splitting { space: at.space, vpn: at.vpn, spot, rate_per_sec });
            }
        }
    }

    /// Takes in the base pages of huge pages that were split: of what was known of the whole, each of the spot has its
    /// part, and the others were not hit.
    fn take_parts(&mut self, view: &mut View<'_>) {
        if self.splitting.is_empty() {
            return;
        }
        let floors = self.lowest_floors(view);
        for Splitting { space, vpn, spot, rate_per_sec } in std::mem::take(&mut self.splitting) {
            let is_split =
                view.pages.find(space, vpn).is_some_and(|page| !view.pages.is_huge(page));
            if !is_split {
                continue;
            }
            let heat = view.hotness.known(rate_per_sec / f32::from(spot.base_pages()));
            let mut parts = Vec::new();
            view.pages.for_each(space, vpn, HUGE, |part| parts.push(part));
            for (within, part) in parts.into_iter().enumerate() {
                if spot.holds(within) {
                    view.pages.set_heat(part, heat);
                }
                self.sort_in_page(view, part, &floors);
            }
        }
    }

    fn coldest(&mut self, view: &mut View<'_>, tier: TierId) -> Option<Met> {
        self.hands.get_mut(tier.index())?.coldest(view, tier)
    }

    /// Promotes candidates, hottest first, until they are not worth it, or the budget is used up; with a
    /// lane, only into its tier, and no more than it asks for.
    fn promote(
        &mut self,
        view: &mut View<'_>,
        ledger: &mut Ledger,
        mut lane: Option<&mut Lane>,
        plan: &mut Vec<Move>,
    ) {
        let mut waiting = Vec::new();
        self.hands.iter_mut().for_each(|hand| hand.search_for(self.candidates.len()));
        while let Some(candidate) = self.candidates.pop() {
            if !view.pages.state(candidate.page).is_queued() {
                continue;
            }
            let next = lane.as_ref().map(|lane| TierId(lane.shift.tier.0 + 1));
            match self.place(view, ledger, candidate, lane.as_deref_mut(), plan) {
                Placed::Later => {
                    waiting.push(candidate);
                    break;
                }
                Placed::Unfit => {
                    waiting.push(candidate);
                    if waiting.len() > MISFITS {
                        break;
                    }
                }
                // The tier below may still have a place for it.
                Placed::No if view.pages.state(candidate.page).tier() > next && next.is_some() => {
                    waiting.push(candidate);
                }
                // Who is not worth it or outbid comes back with the next hit; colder ones may still
                // fit a slower tier.
                Placed::Planned | Placed::No => view.pages.set_queued(candidate.page, false),
            }
        }
        self.candidates.extend(waiting);
    }

    fn place(
        &mut self,
        view: &mut View<'_>,
        ledger: &mut Ledger,
        candidate: Candidate,
        lane: Option<&mut Lane>,
        plan: &mut Vec<Move>,
    ) -> Placed {
        let Some(from) = view.pages.state(candidate.page).tier() else { return Placed::No };
        let to = lane.as_ref().map_or(0..from.0, |lane| lane.shift.tier.0..lane.shift.tier.0 + 1);
        let nearest = TierId(to.start);
        if from <= nearest {
            return Placed::Unfit;
        }
        let Some(at) = self.worth(view, candidate, nearest) else { return Placed::No };
        let rate = candidate.rate_per_sec;
        let bytes = at.size.bytes();
        let share = lane.as_ref().map_or(0.0, |lane| lane.share(view, candidate.page));
        if let Some(lane) = &lane {
            if lane.quota.is_spent() {
                return Placed::Later;
            }
            if !lane.quota.admits(share, bytes) {
                return Placed::Unfit;
            }
        }
        if ledger.budget() < bytes {
            return Placed::Later;
        }
        let planned = plan.len();
        for to in to.map(TierId) {
            if ledger.room(to) < bytes {
                self.make_room(view, ledger, rate, at.size, to, plan);
            }
            let reason = Reason::Hot { rate_per_sec: rate };
            match ledger.plan(view.pages, candidate.page, to, reason, plan) {
                Ok(_) => {
                    self.hands[to.index()].expect(view, candidate.page);
                    if let Some(lane) = lane {
                        lane.charge(share, &plan[planned..]);
                    }
                    return Placed::Planned;
                }
                Err(Short::Budget) => return Placed::Later,
                Err(Short::Room | Short::Page) => {}
            }
        }
        if self.hands[nearest.index()].is_looking() { Placed::Later } else { Placed::No }
    }

    /// Gives so much of a tier's accesses to those below it.
    fn give(
        &mut self,
        view: &mut View<'_>,
        ledger: &mut Ledger,
        lane: &mut Lane,
        plan: &mut Vec<Move>,
    ) {
        let tier = lane.shift.tier;
        let Some(hand) = self.hands.get_mut(tier.index()) else { return };
        // The hottest carry the most accesses for their bytes.
        while !lane.quota.is_spent()
            && let Some(hottest) = hand.hottest(view, tier)
        {
            for Met { page, rate_per_sec } in hottest {
                let Some(at) = view.pages.locate(page) else { continue };
                let share = lane.share(view, page);
                if !lane.quota.admits(share, at.size.bytes()) {
                    continue;
                }
                let planned = plan.len();
                if demote(view, ledger, page, Reason::Balance { rate_per_sec }, plan).is_err() {
                    return;
                }
                lane.charge(share, &plan[planned..]);
            }
        }
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
        let (planned, before) = (plan.len(), ledger.clone());
        while ledger.room(tier) < size.bytes() {
            let Some(victim) = self.coldest(view, tier) else { break };
            // A huge page's rate is spread over its base pages before the two are compared.
            let victim_size = view.pages.locate(victim.page).map_or(PageSize::Base, |at| at.size);
            let density =
                |rate: f32, size: PageSize| f64::from(rate) / f64::from(size.base_pages_f32());
            let colder = density(victim.rate_per_sec, victim_size) * f64::from(self.knobs.margin)
                < density(rate, size);
            let reason = Reason::MakeRoom { rate_per_sec: victim.rate_per_sec };
            if !colder {
                if self.hands[tier.index()].pass(victim) {
                    continue;
                }
                break;
            }
            if demote(view, ledger, victim.page, reason, plan).is_err() {
                self.hands[tier.index()].give_back(victim);
                break;
            }
        }
        if ledger.room(tier) < size.bytes() {
            plan.truncate(planned);
            *ledger = before;
        }
    }
}

/// Plans a move to the nearest slower tier with room.
fn demote(
    view: &View<'_>,
    ledger: &mut Ledger,
    page: PageIdx,
    reason: Reason,
    plan: &mut Vec<Move>,
) -> Result<(), Short> {
    let size = view.pages.locate(page).ok_or(Short::Page)?.size;
    let from = view.pages.state(page).tier().ok_or(Short::Page)?;
    let to = ledger.below(from, size).ok_or(Short::Room)?;
    ledger.plan(view.pages, page, to, reason, plan).map(|_| ())
}

enum Placed {
    Planned,
    /// It stays where it is.
    No,
    /// It is more than is asked for just now.
    Unfit,
    /// Nothing more can be moved just now.
    Later,
}

/// A shift of accesses into a tier or from it, and what is left of it.
#[derive(Debug)]
struct Lane {
    shift: Shift,
    quota: Quota,
}

impl Lane {
    /// Up, no byte is too many: while the upper tier is the faster, the migrator's budget is limit enough.
    fn of(shift: Shift) -> Self {
        let bytes = if shift.up { Bytes(u64::MAX) } else { shift.bytes };
        Self { quota: Quota::new(shift.share, bytes), shift }
    }

    /// The share of all accesses that the page is believed to get.
    fn share(&self, view: &View<'_>, page: PageIdx) -> f64 {
        let believed = view.estimate(page);
        let place = view.pages.state(page).tier().zip(view.pages.locate(page));
        let rate = match place.filter(|_| view.hotness.is_timed()) {
            Some((tier, at)) => believed.expected_per_sec(view.mean_rate(tier, at.size)),
            None => believed.rate_per_sec(),
        };
        f64::from(rate) / self.shift.reads_per_sec
    }

    /// Takes off a page that moves, and what else moves for it.
    fn charge(&mut self, share: f64, moves: &[Move]) {
        self.quota.charge(share, moves.iter().map(|m| m.size.bytes()).sum());
    }
}

impl Policy for Tierline {
    fn name(&self) -> &'static str {
        "tierline"
    }

    fn plan(&mut self, view: &mut View<'_>, plan: &mut Vec<Move>) {
        self.goal.listen(view);
        self.sampling.listen(view);
        self.sort_in(view);
        self.take_parts(view);
        let (slowest, permille) = (view.tiers.slowest(), self.knobs.headroom_permille);
        let most = |tier: TierId| match tier == slowest {
            true => Bytes::ZERO,
            false => Bytes(view.tiers[tier].capacity.0 / 1000 * permille),
        };
        let largest = view.tiers.iter().map(|(tier, _)| most(tier)).max().unwrap_or_default();
        self.headroom.listen(view, largest);
        let headroom = |tier| self.headroom.within(most(tier));
        let mut ledger = Ledger::new(view, view.budget, headroom);
        self.split(view, &ledger);
        if let Some(passed) = self.quantum.due(view.now, self.knobs.quantum) {
            self.keep_headroom(view, &mut ledger, plan);
            self.lanes = match self.goal.aim(view, passed) {
                Aim::Pack => None,
                Aim::Shift(shifts) => Some(shifts.into_iter().map(Lane::of).collect()),
            };
        }
        let Some(mut lanes) = self.lanes.take() else {
            self.rank(view);
            return self.promote(view, &mut ledger, None, plan);
        };
        if lanes.iter().any(|lane| lane.shift.up) {
            self.rank(view);
        }
        for lane in &mut lanes {
            match lane.shift.up {
                true => self.promote(view, &mut ledger, Some(lane), plan),
                false => self.give(view, &mut ledger, lane, plan),
            }
        }
        self.lanes = Some(lanes);
    }

    fn wants(&self) -> Wants {
        Wants {
            quantum: Some(TICK),
            watch: self.sampling.watch(),
            copy_threads: Some(COPY_THREADS),
            within: true,
            ..Wants::default()
        }
    }

    fn knobs(&self) -> Vec<Knob> {
        self.goal.knobs()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        self.goal.set(knob, value)
    }
}
