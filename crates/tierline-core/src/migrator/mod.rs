// SPDX-License-Identifier: Apache-2.0
//! The migrator carries out orders: it limits them to the budget, demotes before it promotes, checks room
//! again, retries busy pages, and records outcomes. It adds no orders.

pub mod budget;
pub mod costs;
pub mod due;
pub mod history;
pub mod retries;
pub mod shared;

use std::collections::{BTreeMap, BTreeSet};

use crate::counters::Counters;
use crate::event::Event;
use crate::intake::ManagedMemory;
use crate::migrator::budget::TokenBucket;
use crate::migrator::costs::Costs;
use crate::migrator::due::Due;
use crate::migrator::history::History;
use crate::migrator::retries::{Attempt, Retries};
use crate::migrator::shared::{Mappers, SharedPages};
use crate::page::{PageIdx, PageTable};
use crate::policy::interface::Policy;
use crate::port::{
    Capability, Move, Order, Outcome, PageAddress, PageSize, Reason, SpaceEvent, SpaceId,
    Telemetry, TenantId, Vpn, World,
};
use crate::qos::allowance::Allowance;
use crate::tier::TierId;
use crate::unit::{Bytes, BytesPerSec, Nanos};

/// Time after which a page that found no room may be ordered again. Ours: if what the world counts as free is not, orders that
/// fail must not take much time.
const CONSIDERED_AGAIN: Nanos = Nanos::from_millis(100);

/// Counts of the outcomes of orders.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct OrderCounts {
    /// Base pages promoted.
    pub promoted_pages: u64,
    /// Base pages demoted.
    pub demoted_pages: u64,
    /// Ping-pong moves, in base pages.
    pub ping_pong_pages: u64,
    /// Failed moves, by outcome.
    pub failed: BTreeMap<&'static str, u64>,
    /// Moves given up after the last try on a busy page.
    pub given_up: u64,
    /// Time spent moving.
    pub busy: Nanos,
    /// Time spent paging out.
    pub paging: Nanos,
    /// Huge pages that were split.
    pub split: u64,
    /// Huge pages that were not split.
    pub split_failed: u64,
    /// Time spent splitting.
    pub splitting: Nanos,
    /// What tiering did, by kind of page and by cause.
    pub tiering: Counters,
}

/// What orders act on, and where their events go.
pub struct OrderContext<'a> {
    /// The time.
    pub now: Nanos,
    /// The managed memory.
    pub memory: &'a mut ManagedMemory,
    /// The policy whose orders they are.
    pub policy: &'a dyn Policy,
    /// The world that carries orders out.
    pub world: &'a mut dyn World,
    /// The events.
    pub events: &'a mut Vec<Event>,
}

/// What a policy requested besides moves.
#[derive(Debug, Default)]
pub struct Requests {
    /// Pages to page out.
    pub page_out: Vec<PageIdx>,
    /// Huge pages to split.
    pub split: Vec<PageIdx>,
}

/// Carries out orders.
#[derive(Debug)]
pub struct Migrator {
    budget: TokenBucket,
    history: History,
    retries: Retries,
    shared: SharedPages,
    /// Pages whose promotion found no room, until a policy considers them again.
    waiting: Due<(SpaceId, Vpn)>,
    /// Measured costs of orders.
    pub costs: Costs,
    /// Totals so far.
    pub counts: OrderCounts,
}

impl Migrator {
    /// A migrator that moves at most `rate`.
    pub fn new(rate: BytesPerSec) -> Self {
        Self {
            budget: TokenBucket::new(rate),
            history: History::default(),
            retries: Retries::default(),
            shared: SharedPages::default(),
            waiting: Due::default(),
            costs: Costs::default(),
            counts: OrderCounts::default(),
        }
    }

    /// Begins a tick: finds the pages that were turned away a moment ago. Returns the bytes that can be moved.
    pub fn begin(
        &mut self,
        now: Nanos,
        pages: &PageTable,
        turned_away: &mut Vec<PageIdx>,
    ) -> Bytes {
        turned_away.clear();
        let due = self.waiting.take(now);
        turned_away.extend(due.filter_map(|(space, vpn)| pages.find(space, vpn)));
        self.budget(now)
    }

    /// Bytes that can be moved in one tick now.
    fn budget(&mut self, now: Nanos) -> Bytes {
        self.budget.refill(now).min(self.costs.bytes_per_tick())
    }

    /// Carries out the page-outs and then the splits that were requested.
    pub fn carry_out_requests(&mut self, requests: &mut Requests, on: &mut OrderContext<'_>) {
        self.page_out(requests.page_out.drain(..), on);
        self.split(requests.split.drain(..), on);
        debug_assert!(requests.page_out.is_empty() && requests.split.is_empty());
    }

    /// Carries out retries that are due, then the plan. A move that would take a tenant over its limit is
    /// dropped, whatever its origin. `allowance` is what remained of the limits before the plan.
    pub fn carry_out(
        &mut self,
        plan: &[Move],
        telemetry: &Telemetry,
        allowance: &Allowance,
        on: &mut OrderContext<'_>,
    ) {
        for (space, vpn) in self.shared.take_due(on.now) {
            let page = on.memory.pages.find(space, vpn);
            page.into_iter().for_each(|page| on.memory.pages.set_refused(page, false));
        }
        let mut wanted = self.retries.take_due(on.now, &on.memory.pages);
        wanted.extend(plan.iter().map(|&m| (m, 0)));
        if wanted.is_empty() {
            return;
        }
        let budget = self.budget(on.now);
        let mut left = budget;
        let fit = wanted.iter().take_while(|(m, _)| left.deduct(m.size.bytes())).count();
        wanted.truncate(fit);
        let bytes: Bytes = wanted.iter().map(|(m, _)| m.size.bytes()).sum();
        debug_assert!(bytes <= budget, "moves exceed the budget: {bytes}");
        // Promotions may need the room that demotions make; only room really made counts.
        let (down, up): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|(m, _)| m.to > m.from);
        let room = telemetry.tiers.iter().map(|tier| tier.free).collect();
        let mut made = Made { room, allowance: allowance.clone() };
        let down = made.needed_for_limits(&on.memory.pages, down);
        // A tenant at its limit is below it between the two halves of an exchange, so they follow each other closely.
        let at_once = smallest_limit(allowance, &on.memory.pages, &up).map(exchanged_at_once);
        self.alternate(down, up, at_once, &mut made, on);
    }

    /// Carries out demotions and promotions in turn: about `at_once` bytes down, then as many up as there is room for, and at the end
    /// what is left. `None`: all down first.
    fn alternate(
        &mut self,
        down: Vec<Attempt>,
        up: Vec<Attempt>,
        at_once: Option<Bytes>,
        made: &mut Made,
        on: &mut OrderContext<'_>,
    ) {
        let (mut down, mut up) = (down.into_iter().peekable(), up.into_iter().peekable());
        while down.peek().is_some() {
            let mut bytes = Bytes::ZERO;
            let part = std::iter::from_fn(|| {
                let next = down.next_if(|_| at_once.is_none_or(|most| bytes < most))?;
                bytes += next.0.size.bytes();
                Some(next)
            });
            let part = part.filter(|(m, _)| made.reserve_room(&on.memory.pages, m)).collect();
            self.carry_out_part(part, made, on);
            if down.peek().is_some() {
                let mut fits = |(m, _): &Attempt| made.reserve_room(&on.memory.pages, m);
                let part = std::iter::from_fn(|| up.next_if(&mut fits)).collect();
                self.carry_out_part(part, made, on);
            }
        }
        let rest = up.filter(|(m, _)| made.reserve_room(&on.memory.pages, m)).collect();
        self.carry_out_part(rest, made, on);
    }

    /// Carries out moves for which there is room.
    fn carry_out_part(
        &mut self,
        mut batch: Vec<Attempt>,
        made: &mut Made,
        on: &mut OrderContext<'_>,
    ) {
        // Grouped by space: the kernel moves pages of one process per call. Hottest first within each.
        batch.sort_by_key(|(m, _)| m.space);
        let for_all = |(m, _): &Attempt| shared::is_represented(m, &on.memory.pages);
        let (for_all, own): (Vec<_>, Vec<_>) = batch.into_iter().partition(for_all);
        self.carry_out_batch(&own, Order::Move, made, on);
        self.carry_out_batch(&for_all, Order::MoveShared, made, on);
    }

    /// Pages out the requested pages, as many as fit into a tick.
    fn page_out(&mut self, asked: impl Iterator<Item = PageIdx>, on: &mut OrderContext<'_>) {
        if !on.world.capabilities().has(Capability::PageOut) {
            return;
        }
        let mut left = Bytes::from_base_pages(self.costs.page_outs_per_tick());
        let there = asked.filter_map(|page| on.memory.pages.locate(page).map(|at| (page, at)));
        let within = there.take_while(|(_, at)| left.deduct(at.size.bytes()));
        let (pages, places): (Vec<PageIdx>, Vec<_>) = within.unzip();
        let orders: Vec<Order> = places.iter().map(|&at| Order::PageOut(at.into())).collect();
        let outcomes = self.act(&orders, on);
        for (((page, at), order), outcome) in
            pages.into_iter().zip(places).zip(orders).zip(outcomes)
        {
            on.events.push(Event::of(on.now, order, outcome));
            if outcome == Outcome::Done {
                self.counts.tiering.count_page_out(at.kind, at.size.base_pages());
            }
            if matches!(outcome, Outcome::Done | Outcome::PageGone) {
                on.memory.pages.clear_tier(page);
            }
        }
    }

    /// Splits the requested huge pages, as many as fit into a tick.
    fn split(&mut self, asked: impl Iterator<Item = PageIdx>, on: &mut OrderContext<'_>) {
        let there = asked.filter_map(|page| on.memory.pages.locate(page).map(|at| (page, at)));
        let huge = there.filter(|(_, at)| at.size == PageSize::Huge);
        let (pages, orders): (Vec<PageIdx>, Vec<Order>) = huge
            .take(self.costs.splits_per_tick())
            .map(|(page, at)| (page, Order::Split(PageAddress::from(at))))
            .unzip();
        debug_assert!(orders.iter().all(|order| order.page().size == PageSize::Huge));
        if !on.world.capabilities().has(Capability::Split) {
            self.counts.split_failed += pages.len() as u64;
            return;
        }
        let outcomes = self.act(&orders, on);
        for ((page, order), outcome) in pages.into_iter().zip(orders).zip(outcomes) {
            on.events.push(Event::of(on.now, order, outcome));
            let done = outcome == Outcome::Done && on.memory.pages.split(page);
            *if done { &mut self.counts.split } else { &mut self.counts.split_failed } += 1;
        }
    }

    fn carry_out_batch(
        &mut self,
        batch: &[Attempt],
        order: fn(Move) -> Order,
        made: &mut Made,
        on: &mut OrderContext<'_>,
    ) {
        let orders: Vec<Order> = batch.iter().map(|&(m, _)| order(m)).collect();
        let mut outcomes = self.act(&orders, on);
        self.move_shared(&orders, &mut outcomes, on);
        for ((&tried, order), outcome) in batch.iter().zip(orders).zip(outcomes) {
            on.events.push(Event::of(on.now, order, outcome));
            self.record_outcome(tried, outcome, on);
            let (m, _) = tried;
            if outcome == Outcome::Done {
                self.budget.spend(m.size.bytes());
                made.free_room(&on.memory.pages, &m, m.from);
            } else {
                made.free_room(&on.memory.pages, &m, m.to);
            }
        }
    }

    /// Moves pages that were found shared, if all processes known to map them agree.
    fn move_shared(
        &mut self,
        orders: &[Order],
        outcomes: &mut [Outcome],
        on: &mut OrderContext<'_>,
    ) {
        let mut mappers = Mappers::new(on.memory.pages.spaces().count());
        let mut found = Vec::new();
        for (order, outcome) in orders.iter().zip(outcomes) {
            if let (&Order::Move(m), Outcome::Shared) = (order, &outcome)
                && mappers.agree(&m, on.now, &self.history, on.memory, on.policy)
            {
                found.push((m, outcome));
            }
        }
        let again: Vec<Order> = found.iter().map(|(m, _)| Order::MoveShared(*m)).collect();
        for ((m, outcome), moved) in found.into_iter().zip(self.act(&again, on)) {
            *outcome = moved;
            if moved == Outcome::Done {
                shared::follow(&m, &mut on.memory.pages);
            }
        }
    }

    /// Has the world carry out orders of one kind, and learns their cost.
    fn act(&mut self, orders: &[Order], on: &mut OrderContext<'_>) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(orders.len());
        let Some(kind) = orders.first() else { return outcomes };
        let is_same = |order| std::mem::discriminant(order) == std::mem::discriminant(kind);
        debug_assert!(orders.iter().all(is_same), "a batch has orders of one kind");
        let spent = on.world.act(on.now, orders, &mut outcomes);
        assert_eq!(outcomes.len(), orders.len(), "a world reports one outcome per order");
        *match kind {
            Order::Move(_) | Order::MoveShared(_) => &mut self.counts.busy,
            Order::PageOut(_) => &mut self.counts.paging,
            Order::Split(_) => &mut self.counts.splitting,
        } += spent;
        self.costs.learn(orders, &outcomes, spent);
        outcomes
    }

    fn record_outcome(&mut self, (m, tries): Attempt, outcome: Outcome, on: &mut OrderContext<'_>) {
        let page = on.memory.pages.find(m.space, m.vpn);
        let at = page.and_then(|page| on.memory.pages.locate(page));
        let kind = at.map(|at| at.kind).unwrap_or_default();
        self.counts.tiering.count_move(&m, kind, outcome);
        match outcome {
            Outcome::Done => self.record_move(m, on),
            Outcome::Elsewhere(tier) => {
                if let Some(page) = page {
                    on.memory.pages.set_tier(page, tier);
                }
            }
            Outcome::Busy | Outcome::Dirtied => {
                let again = self.retries.keep(on.now, (m, tries));
                self.counts.given_up += u64::from(!again);
            }
            Outcome::Shared => {
                self.shared.refuse(on.now, (m.space, m.vpn));
                page.into_iter().for_each(|page| on.memory.pages.set_refused(page, true));
            }
            // In a dry run a page is refused after its first order, so that each appears once.
            Outcome::Refused | Outcome::Skipped => {
                if let Some(page) = page {
                    on.memory.pages.set_refused(page, true);
                }
            }
            Outcome::SpaceGone => on.memory.pages.apply(SpaceEvent::Gone(m.space)),
            // A page that was freed looks coldest, and would be ordered again and again. If it returns, it is found again.
            Outcome::PageGone => {
                if let Some(page) = page {
                    on.memory.pages.clear_tier(page);
                }
            }
            // The world knows now how much room there is, but the page may be hit again late.
            Outcome::NoRoom => {
                if m.to < m.from {
                    self.waiting.add(on.now + CONSIDERED_AGAIN, (m.space, m.vpn));
                }
            }
        }
        if !matches!(outcome, Outcome::Done | Outcome::Skipped) {
            *self.counts.failed.entry(outcome.name()).or_default() += 1;
        }
    }

    fn record_move(&mut self, m: Move, on: &mut OrderContext<'_>) {
        let up = m.to < m.from;
        let counter =
            if up { &mut self.counts.promoted_pages } else { &mut self.counts.demoted_pages };
        *counter += m.size.base_pages();
        self.shared.forget((m.space, m.vpn));
        let Some(page) = on.memory.pages.find(m.space, m.vpn) else { return };
        on.memory.pages.set_tier(page, m.to);
        on.memory.pages.set_refused(page, false);
        debug_assert_eq!(
            on.memory.pages.state(page).tier(),
            Some(m.to),
            "the page table follows the move"
        );
        let returns = on.memory.pages.state(page).ping_pongs();
        if self.history.record(on.now, m.space, m.vpn, up) {
            self.counts.ping_pong_pages += m.size.base_pages();
            on.memory.pages.set_ping_pongs(page, returns + 1);
            on.events.push(Event::PingPong { at: on.now, moved: m });
        } else {
            on.memory.pages.set_ping_pongs(page, returns / 2);
        }
    }
}

/// The smallest limit of the tenants whose pages these moves bring up.
fn smallest_limit(allowance: &Allowance, pages: &PageTable, up: &[Attempt]) -> Option<Bytes> {
    if allowance.is_unlimited() {
        return None;
    }
    let places: BTreeSet<_> = up.iter().map(|(m, _)| (m.space, m.to)).collect();
    let limit = |(space, tier)| allowance.limit(pages.tenant_of(space), tier);
    places.into_iter().filter_map(limit).min()
}

/// Bytes that go down in an exchange before others go up, where the smallest limit is this: a hundredth of it, or a little more. At
/// least so many that a call moves several. Ours.
fn exchanged_at_once(limit: Bytes) -> Bytes {
    Bytes(limit.0 / 100).max(Bytes::from_base_pages(64))
}

/// Free room and the tenants' remaining limits; only what demotions really freed counts.
struct Made {
    room: Vec<Bytes>,
    allowance: Allowance,
}

impl Made {
    /// Reserves room for a move if there is room and its tenant's limit allows it.
    fn reserve_room(&mut self, pages: &PageTable, m: &Move) -> bool {
        let bytes = m.size.bytes();
        let tenant = self.tenant(pages, m);
        let admitted = self.allowance.admits(tenant, m.to, bytes);
        let room = self.room.get_mut(m.to.index()).filter(|left| admitted && **left >= bytes);
        let Some(room) = room else { return false };
        *room -= bytes;
        self.allowance.take(tenant, m.to, bytes);
        true
    }

    /// The demotions without those for a limit that its tenant no longer exceeds once the ones before them are done:
    /// retries come beside a plan that replaced them.
    fn needed_for_limits(&self, pages: &PageTable, mut down: Vec<Attempt>) -> Vec<Attempt> {
        let mut after = self.allowance.clone();
        down.retain(|(m, _)| {
            let tenant = self.tenant(pages, m);
            let is_needed =
                !matches!(m.reason, Reason::Limit { .. }) || after.is_exceeded(tenant, m.from);
            if is_needed {
                after.give(tenant, m.from, m.size.bytes());
            }
            is_needed
        });
        down
    }

    /// A move freed its bytes in a tier.
    fn free_room(&mut self, pages: &PageTable, m: &Move, tier: TierId) {
        debug_assert!(tier.index() < self.room.len(), "{tier} is no tier of this machine");
        self.room[tier.index()] += m.size.bytes();
        self.allowance.give(self.tenant(pages, m), tier, m.size.bytes());
    }

    fn tenant(&self, pages: &PageTable, m: &Move) -> TenantId {
        if self.allowance.is_unlimited() { TenantId::NOBODY } else { pages.tenant_of(m.space) }
    }
}
