// SPDX-License-Identifier: Apache-2.0
//! The migrator carries out plans: it cuts them to the budget, demotes before it promotes, checks room
//! once more, tries again what was busy, and writes down what really happened. It never invents a move.

pub mod budget;
pub mod history;

use std::collections::BTreeMap;

use crate::counters::Counters;
use crate::event::Event;
use crate::migrator::budget::TokenBucket;
use crate::migrator::history::History;
use crate::page::{Location, PageIdx, PageTable};
use crate::port::{Move, Outcome, PageAt, PageSize, SpaceEvent, Telemetry, World};
use crate::tier::TierId;
use crate::unit::{Bytes, BytesPerSec, Nanos};

/// A busy page is tried again after this, doubled every time.
const FIRST_RETRY: Nanos = Nanos::from_millis(100);
/// After so many tries a busy page is given up until a policy names it again.
const MAX_TRIES: u32 = 5;
/// Moving in one tick takes no longer than this, as measured: the trackers' windows go on in between.
const MAX_BUSY: Nanos = Nanos::from_millis(200);
/// What moving one base page is taken to cost until it was measured: several times what current
/// machines take, so that only clearly hot pages move before that.
const ASSUMED_COST: Nanos = Nanos(10_000);
/// The first batch is small: it shows what moving costs here.
const FIRST_BATCH: Bytes = PageSize::Huge.bytes();
/// Weight of the newest batch in the measured cost.
const COST_WEIGHT: f64 = 0.25;
/// Likewise where the two directions are told apart: each is measured half as often (ours).
const LATENCY_WEIGHT: f64 = 0.1;
/// Smaller batches say more about the call than about the page.
const COST_MIN_PAGES: u64 = 32;

/// Counts of what became of moves.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Base pages promoted.
    pub promoted_pages: u64,
    /// Base pages demoted.
    pub demoted_pages: u64,
    /// Moves of pages that came back soon after a move the other way, in base pages.
    pub ping_pong_pages: u64,
    /// Moves that did not end as wanted, by outcome, in moves.
    pub failed: BTreeMap<&'static str, u64>,
    /// Busy pages given up after their last try, in moves.
    pub given_up: u64,
    /// Time spent moving.
    pub busy: Nanos,
    /// Time spent paging out.
    pub paging: Nanos,
    /// Huge pages that were split.
    pub split: u64,
    /// Huge pages that the world could not split, or not now.
    pub split_failed: u64,
    /// Time spent splitting.
    pub splitting: Nanos,
    /// What tiering did, by kind of page and by cause.
    pub tiering: Counters,
}

/// What moving one page took, as measured, in batches of pages of one size; base pages first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// To faster memory.
    pub up: [Option<Nanos>; 2],
    /// To slower memory.
    pub down: [Option<Nanos>; 2],
}

/// Carries out plans.
#[derive(Debug)]
pub struct Migrator {
    budget: TokenBucket,
    history: History,
    retries: BTreeMap<(Nanos, u64), (Move, u32)>,
    next_retry: u64,
    /// What moving one base page costs, as measured, in pages of either size.
    cost: [Option<Nanos>; 2],
    /// The same in each direction, up first.
    latency: Latencies,
    /// The same in batches of late, whatever was in them.
    pace: Option<Nanos>,
    /// What paging out one base page costs, as measured.
    page_out_cost: Option<Nanos>,
    /// What splitting one huge page costs, as measured.
    split_cost: Option<Nanos>,
    /// What happened so far.
    pub counts: Counts,
}

impl Migrator {
    /// A migrator that moves at most `rate`.
    pub fn new(rate: BytesPerSec) -> Self {
        Self {
            budget: TokenBucket::new(rate),
            history: History::default(),
            retries: BTreeMap::new(),
            next_retry: 0,
            cost: [None; 2],
            latency: Latencies::default(),
            pace: None,
            page_out_cost: None,
            split_cost: None,
            counts: Counts::default(),
        }
    }

    /// Bytes that can be moved in one tick now.
    pub fn budget(&mut self, now: Nanos) -> Bytes {
        let in_time = match self.pace {
            Some(cost) => Bytes::from_base_pages(MAX_BUSY.0 / cost.0.max(1)),
            None => FIRST_BATCH,
        };
        self.budget.refill(now).min(in_time.max(PageSize::Huge.bytes()))
    }

    /// What moving one base page costs, as measured, in pages of either size.
    pub fn cost(&self) -> [Nanos; 2] {
        self.cost.map(|cost| cost.unwrap_or(ASSUMED_COST))
    }

    /// What moving a page took of late.
    pub fn latency(&self) -> Latencies {
        self.latency
    }

    /// Carries out `plan`, after what is due for another try.
    pub fn carry_out(
        &mut self,
        now: Nanos,
        plan: &[Move],
        pages: &mut PageTable,
        telemetry: &Telemetry,
        world: &mut dyn World,
        events: &mut Vec<Event>,
    ) {
        let mut wanted = self.take_due(now, pages);
        wanted.extend(plan.iter().map(|&m| (m, 0)));
        let mut left = self.budget(now);
        wanted.retain(|(m, _)| {
            let fits = m.size.bytes() <= left;
            left = left.saturating_sub(if fits { m.size.bytes() } else { left });
            fits
        });
        // Promotions may need the room that demotions make, and only made room counts.
        let (down, up): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|(m, _)| m.to > m.from);
        let mut room: Vec<Bytes> = telemetry.tiers.iter().map(|tier| tier.free).collect();
        for mut batch in [down, up] {
            batch.retain(|(m, _)| take(&mut room, m.to, m.size.bytes()));
            // By process, as the kernel is asked a process at a time; hottest first within it.
            batch.sort_by_key(|(m, _)| m.space);
            self.run(now, &batch, pages, &mut room, world, events);
        }
    }

    /// Pages out what was asked for, as far as it takes no longer than moving may.
    pub fn page_out(
        &mut self,
        now: Nanos,
        asked: impl Iterator<Item = PageIdx>,
        pages: &mut PageTable,
        world: &mut dyn World,
        events: &mut Vec<Event>,
    ) {
        let most =
            self.page_out_cost.map_or(FIRST_BATCH.base_pages(), |cost| MAX_BUSY.0 / cost.0.max(1));
        let mut left = most.max(PageSize::Huge.base_pages());
        let there = asked.filter_map(|page| pages.locate(page).map(|at| (page, at)));
        let within = there.take_while(|(_, at)| {
            let fits = at.size.base_pages() <= left;
            left = left.saturating_sub(at.size.base_pages());
            fits
        });
        let batch: Vec<(PageIdx, Location)> = within.collect();
        if batch.is_empty() {
            return;
        }
        let named: Vec<PageAt> = batch.iter().map(|&(_, at)| at.into()).collect();
        let mut outcomes = Vec::with_capacity(named.len());
        let spent = world.page_out(now, &named, &mut outcomes);
        if outcomes.is_empty() {
            return; // this world cannot
        }
        assert_eq!(outcomes.len(), named.len(), "a world answers for every page or for none");
        self.counts.paging += spent;
        let base_pages: u64 = named.iter().map(|page| page.size.base_pages()).sum();
        average_in(&mut self.page_out_cost, Nanos(spent.0 / base_pages), COST_WEIGHT);
        for ((&(page, at), &named), &out) in batch.iter().zip(&named).zip(&outcomes) {
            events.push(Event::PageOut { at: now, page: named, out });
            if out {
                self.counts.tiering.paged_out(at.kind, at.size.base_pages());
                pages.clear_tier(page, at.size);
            }
        }
    }

    /// Splits the huge pages that were asked for, as far as it takes no longer than moving may.
    pub fn split(
        &mut self,
        now: Nanos,
        asked: impl Iterator<Item = PageIdx>,
        pages: &mut PageTable,
        world: &mut dyn World,
        events: &mut Vec<Event>,
    ) {
        let most = self.split_cost.map_or(1, |cost| MAX_BUSY.0 / cost.0.max(1)).max(1);
        let there = asked.filter_map(|page| pages.locate(page).map(|at| (page, at)));
        let huge = there.filter(|(_, at)| at.size == PageSize::Huge);
        let batch: Vec<(PageIdx, PageAt)> = huge
            .take(usize::try_from(most).unwrap_or(usize::MAX))
            .map(|(page, at)| (page, at.into()))
            .collect();
        if batch.is_empty() {
            return;
        }
        let named: Vec<PageAt> = batch.iter().map(|&(_, at)| at).collect();
        let mut outcomes = Vec::with_capacity(named.len());
        let spent = world.split(now, &named, &mut outcomes);
        if outcomes.is_empty() {
            self.counts.split_failed += named.len() as u64; // this world cannot
            return;
        }
        assert_eq!(outcomes.len(), named.len(), "a world answers for every page or for none");
        self.counts.splitting += spent;
        average_in(&mut self.split_cost, Nanos(spent.0 / named.len() as u64), COST_WEIGHT);
        for (&(page, named), &done) in batch.iter().zip(&outcomes) {
            let done = done && pages.split(page);
            events.push(Event::Split { at: now, page: named, done });
            *if done { &mut self.counts.split } else { &mut self.counts.split_failed } += 1;
        }
    }

    fn take_due(&mut self, now: Nanos, pages: &PageTable) -> Vec<(Move, u32)> {
        let later = self.retries.split_off(&(now + Nanos(1), 0));
        let due = std::mem::replace(&mut self.retries, later);
        let stays = |m: &Move| {
            let page = pages.find(m.space, m.vpn);
            let in_tier = page.filter(|&page| pages.state(page).tier() == Some(m.from));
            // It may have been split, or made whole, since.
            in_tier.and_then(|page| pages.locate(page)).is_some_and(|at| at.size == m.size)
        };
        due.into_values().filter(|(m, _)| stays(m)).collect()
    }

    fn run(
        &mut self,
        now: Nanos,
        batch: &[(Move, u32)],
        pages: &mut PageTable,
        room: &mut [Bytes],
        world: &mut dyn World,
        events: &mut Vec<Event>,
    ) {
        if batch.is_empty() {
            return;
        }
        let moves: Vec<Move> = batch.iter().map(|&(m, _)| m).collect();
        let mut outcomes = Vec::with_capacity(moves.len());
        let spent = world.migrate(now, &moves, &mut outcomes);
        assert_eq!(outcomes.len(), moves.len(), "a world answers every move");
        self.learn_cost(&moves, spent);
        for (&(m, tries), &outcome) in batch.iter().zip(&outcomes) {
            events.push(Event::Move { at: now, moved: m, outcome });
            self.settle(now, m, tries, outcome, pages, events);
            if outcome == Outcome::Moved {
                self.budget.spend(m.size.bytes());
                room[m.from.index()] += m.size.bytes();
            } else {
                room[m.to.index()] += m.size.bytes();
            }
        }
    }

    fn learn_cost(&mut self, moves: &[Move], spent: Nanos) {
        self.counts.busy += spent;
        let size = moves[0].size;
        let base_pages: u64 = moves.iter().map(|m| m.size.base_pages()).sum();
        if base_pages < COST_MIN_PAGES {
            return;
        }
        let new = Nanos(spent.0 / base_pages);
        average_in(&mut self.pace, new, COST_WEIGHT);
        if moves.iter().all(|m| m.size == size) {
            average_in(&mut self.cost[size_index(size)], new, COST_WEIGHT);
            let up = moves[0].to < moves[0].from;
            let whole = Nanos(spent.0 / moves.len() as u64);
            let latency = if up { &mut self.latency.up } else { &mut self.latency.down };
            average_in(&mut latency[size_index(size)], whole, LATENCY_WEIGHT);
        }
    }

    fn settle(
        &mut self,
        now: Nanos,
        m: Move,
        tries: u32,
        outcome: Outcome,
        pages: &mut PageTable,
        events: &mut Vec<Event>,
    ) {
        let page = pages.find(m.space, m.vpn);
        let kind = page.and_then(|page| pages.locate(page)).map(|at| at.kind).unwrap_or_default();
        self.counts.tiering.settled(&m, kind, outcome);
        match outcome {
            Outcome::Moved => self.settle_moved(now, m, pages, events),
            Outcome::Elsewhere(tier) => {
                if let Some(page) = page {
                    pages.set_tier(page, m.size, tier);
                }
            }
            Outcome::Busy | Outcome::Dirtied if tries + 1 < MAX_TRIES => {
                let due = now + FIRST_RETRY * (1 << tries);
                self.next_retry += 1;
                self.retries.insert((due, self.next_retry), (m, tries + 1));
            }
            Outcome::Busy | Outcome::Dirtied => self.counts.given_up += 1,
            // A page is named once in a dry run.
            Outcome::Refused | Outcome::Skipped => {
                if let Some(page) = page {
                    pages.set_refused(page);
                }
            }
            Outcome::SpaceGone => pages.apply(SpaceEvent::Gone(m.space)),
            Outcome::NoRoom | Outcome::PageGone => {}
        }
        if !matches!(outcome, Outcome::Moved | Outcome::Skipped) {
            *self.counts.failed.entry(outcome_name(outcome)).or_default() += 1;
        }
    }

    fn settle_moved(
        &mut self,
        now: Nanos,
        m: Move,
        pages: &mut PageTable,
        events: &mut Vec<Event>,
    ) {
        let up = m.to < m.from;
        let counter =
            if up { &mut self.counts.promoted_pages } else { &mut self.counts.demoted_pages };
        *counter += m.size.base_pages();
        let Some(page) = pages.find(m.space, m.vpn) else { return };
        pages.set_tier(page, m.size, m.to);
        let returns = pages.state(page).returns();
        if self.history.note(now, m.space, m.vpn, up) {
            self.counts.ping_pong_pages += m.size.base_pages();
            pages.set_returns(page, returns + 1);
            events.push(Event::PingPong { at: now, moved: m });
        } else {
            pages.set_returns(page, returns / 2);
        }
    }
}

/// Takes `bytes` of a tier's room if they are there.
fn take(room: &mut [Bytes], tier: TierId, bytes: Bytes) -> bool {
    match room.get_mut(tier.index()) {
        Some(left) if *left >= bytes => {
            *left -= bytes;
            true
        }
        _ => false,
    }
}

/// Averages a new reading in; the first is taken as it is.
fn average_in(average: &mut Option<Nanos>, new: Nanos, weight: f64) {
    let mixed = |old: Nanos| {
        let (old, new) = (old.as_secs_f64(), new.as_secs_f64());
        Nanos::from_secs_f64(old + weight * (new - old))
    };
    *average = Some(average.map_or(new, mixed));
}

/// The place of a page size in a table of two.
pub(crate) fn size_index(size: PageSize) -> usize {
    match size {
        PageSize::Base => 0,
        PageSize::Huge => 1,
    }
}

/// The name of an outcome in counters and metrics.
pub fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Moved => "moved",
        Outcome::Elsewhere(_) => "elsewhere",
        Outcome::Busy => "busy",
        Outcome::Dirtied => "dirtied",
        Outcome::NoRoom => "no_room",
        Outcome::PageGone => "page_gone",
        Outcome::SpaceGone => "space_gone",
        Outcome::Refused => "refused",
        Outcome::Skipped => "skipped",
    }
}
