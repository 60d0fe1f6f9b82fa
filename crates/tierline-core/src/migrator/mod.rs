// SPDX-License-Identifier: Apache-2.0
//! The migrator carries out plans: it cuts them to the budget, demotes before it promotes, checks room
//! once more, tries again what was busy, and writes down what really happened. It never invents a move.

pub mod budget;
pub mod history;

use std::collections::BTreeMap;

use crate::event::Event;
use crate::migrator::budget::TokenBucket;
use crate::migrator::history::History;
use crate::page::PageTable;
use crate::port::{Move, Outcome, PageSize, SpaceEvent, Telemetry, World};
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
    /// The same in batches of late, whatever was in them.
    pace: Option<Nanos>,
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
            pace: None,
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

    fn take_due(&mut self, now: Nanos, pages: &PageTable) -> Vec<(Move, u32)> {
        let later = self.retries.split_off(&(now + Nanos(1), 0));
        let due = std::mem::replace(&mut self.retries, later);
        let stays = |m: &Move| {
            let page = pages.find(m.space, m.vpn);
            page.is_some_and(|page| pages.state(page).tier() == Some(m.from))
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
        average_in(&mut self.pace, new);
        if moves.iter().all(|m| m.size == size) {
            average_in(&mut self.cost[size_index(size)], new);
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
fn average_in(average: &mut Option<Nanos>, new: Nanos) {
    let mixed = |old: Nanos| {
        let (old, new) = (old.as_secs_f64(), new.as_secs_f64());
        Nanos::from_secs_f64(old + COST_WEIGHT * (new - old))
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
