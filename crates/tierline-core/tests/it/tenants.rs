// SPDX-License-Identifier: Apache-2.0
//! Tenants under every policy: limits hold at all times, no tenant loses pages because of another tenant's
//! limit, and a tenant at its limit still gets its own hottest pages.

use tierline_core::engine::Engine;
use tierline_core::event::Event;
use tierline_core::policy::{POLICIES, entry::PolicyEntry};
use tierline_core::port::{
    Observations, Order, Outcome, Question, Region, SpaceEvent, SpaceId, Telemetry, TenantId, Vpn,
    World,
};
use tierline_core::qos::Limits;
use tierline_core::tier::TierId;
use tierline_core::unit::{Bytes, Nanos};

use crate::contract::{RATE, TICK, policies, skewed};
use crate::toy::{Toy, machine, pass_on_to_toy};

/// The toy's pages, divided among tenants: tenant k has the pages from `starts[k]` on, in its own space.
struct Shared {
    toy: Toy,
    starts: Vec<u64>,
    /// Each tenant's limit in fast memory, as set by the test.
    limits: Vec<Option<u64>>,
    /// Orders that took a tenant over its limit.
    crossed: Vec<Order>,
    /// The least that the first tenant had in fast memory after any order.
    least: u64,
}

impl Shared {
    /// Tenants whose pages have these rates, all in slow memory.
    fn new(capacities: &[u64], rates: Vec<Vec<f64>>, seed: u64) -> Self {
        let mut starts = vec![0];
        for rates in &rates {
            starts.push(starts[starts.len() - 1] + rates.len() as u64);
        }
        let tenants = rates.len();
        let toy = Toy::new(machine(capacities), rates.concat(), seed);
        Self { toy, starts, limits: vec![None; tenants], crossed: Vec::new(), least: 0 }
    }

    fn tenants(&self) -> usize {
        self.limits.len()
    }

    fn pages(&self, tenant: usize) -> std::ops::Range<usize> {
        let at = |i: usize| usize::try_from(self.starts[i]).unwrap();
        at(tenant)..at(tenant + 1)
    }

    fn fast(&self, tenant: usize) -> u64 {
        let place = &self.toy.place[self.pages(tenant)];
        place.iter().filter(|&&tier| tier == Some(TierId::FAST)).count() as u64
    }

    /// The share of a tenant's accesses that fast memory serves.
    fn fast_share(&self, tenant: usize) -> f64 {
        let pages = self.pages(tenant);
        let (rates, place) = (&self.toy.rates[pages.clone()], &self.toy.place[pages]);
        let fast: f64 = rates
            .iter()
            .zip(place)
            .filter(|(_, tier)| **tier == Some(TierId::FAST))
            .map(|(rate, _)| rate)
            .sum();
        fast / rates.iter().sum::<f64>()
    }

    fn inwards(&self, space: SpaceId, vpn: Vpn) -> Vpn {
        Vpn(self.starts[space.0 as usize - 1] + vpn.0)
    }

    fn outwards(&self, vpn: Vpn) -> (SpaceId, Vpn) {
        let tenant = self.starts.partition_point(|&start| start <= vpn.0) - 1;
        (SpaceId(u32::try_from(tenant).unwrap() + 1), Vpn(vpn.0 - self.starts[tenant]))
    }

    /// Divides the toy's only region into one region per tenant.
    fn share_out(&self, region: Region) -> Vec<SpaceEvent> {
        let of_tenant = |tenant: usize| {
            let space = SpaceId(u32::try_from(tenant).unwrap() + 1);
            let owner = TenantId(u16::try_from(tenant).unwrap() + 1);
            let base_pages = self.pages(tenant).len() as u64;
            let own = Region { space, start: Vpn(0), base_pages, ..region };
            [SpaceEvent::Owned(space, owner), SpaceEvent::Mapped(own)]
        };
        (0..self.tenants()).flat_map(of_tenant).collect()
    }
}

impl World for Shared {
    pass_on_to_toy!();

    fn observe(&mut self, now: Nanos, out: &mut Observations) {
        self.toy.observe(now, out);
        let events = std::mem::take(&mut out.space_events);
        out.space_events.extend(events.into_iter().flat_map(|event| match event {
            SpaceEvent::Mapped(region) => self.share_out(region),
            other => unreachable!("the toy maps once: {other:?}"),
        }));
        for at in &mut out.residence {
            (at.space, at.vpn) = self.outwards(at.vpn);
        }
        for sample in &mut out.samples {
            (sample.space, sample.vpn) = self.outwards(sample.vpn);
        }
        for rate in &mut out.true_rates {
            (rate.space, rate.vpn) = self.outwards(rate.vpn);
        }
        for observed in &mut out.observed_regions {
            (observed.space, observed.vpn) = self.outwards(observed.vpn);
        }
    }

    fn measure(&mut self, now: Nanos) -> Telemetry {
        self.toy.measure(now)
    }

    fn act(&mut self, now: Nanos, orders: &[Order], out: &mut Vec<Outcome>) -> Nanos {
        let mut spent = Nanos::ZERO;
        for order in orders {
            let mut inner = *order;
            match &mut inner {
                Order::Move(m) | Order::MoveShared(m) => {
                    (m.vpn, m.space) = (self.inwards(m.space, m.vpn), crate::toy::SPACE);
                }
                Order::PageOut(at) | Order::Split(at) => {
                    (at.vpn, at.space) = (self.inwards(at.space, at.vpn), crate::toy::SPACE);
                }
            }
            spent += self.toy.act(now, &[inner], out);
            let tenant = order.page().space.0 as usize - 1;
            let up = order.as_move().is_some_and(|m| m.to == TierId::FAST);
            if up && self.limits[tenant].is_some_and(|limit| self.fast(tenant) > limit) {
                self.crossed.push(*order);
            }
            self.least = self.least.min(self.fast(0));
        }
        spent
    }

    fn check_accessed(&mut self, now: Nanos, questions: &[Question], out: &mut Vec<bool>) {
        let inner: Vec<Question> = questions
            .iter()
            .map(|q| Question { space: crate::toy::SPACE, vpn: self.inwards(q.space, q.vpn), ..*q })
            .collect();
        self.toy.check_accessed(now, &inner, out);
    }
}

fn engine(entry: &PolicyEntry, world: &mut Shared) -> Engine {
    let policy = (entry.make)();
    world.toy.watch = policy.wants().tracking;
    Engine::new(world.toy.tiers.clone(), Limits::default(), policy, RATE)
}

fn limit(engine: &mut Engine, world: &mut Shared, tenant: usize, pages: u64) {
    world.limits[tenant] = Some(pages);
    let id = TenantId(u16::try_from(tenant).unwrap() + 1);
    engine.limits.set(id, TierId::FAST, Some(Bytes::from_base_pages(pages)));
}

fn run(engine: &mut Engine, world: &mut Shared, ticks: std::ops::Range<u64>) -> Vec<Event> {
    let mut events = Vec::new();
    for i in ticks {
        events.extend_from_slice(engine.tick(TICK * i, world));
        if i % 16 == 0 {
            engine.pages().check();
        }
    }
    events
}

fn default_policy() -> &'static PolicyEntry {
    &POLICIES[0]
}

/// Two tenants, one with a limit far below what it would get: no order ever exceeds the limit, and the limit is
/// used. The reference is what the policy places without any limit.
#[test]
fn no_order_exceeds_a_limit_and_the_limit_is_used() {
    const LIMIT: u64 = 150;
    let rates = || vec![skewed(2_000, 100.0, 1.0, 3), skewed(2_000, 100.0, 1.0, 4)];
    for entry in policies() {
        let mut free = Shared::new(&[1_000, 8_000], rates(), 5);
        let mut unlimited = engine(entry, &mut free);
        run(&mut unlimited, &mut free, 0..200);
        let mut world = Shared::new(&[1_000, 8_000], rates(), 5);
        let mut engine = engine(entry, &mut world);
        limit(&mut engine, &mut world, 0, LIMIT);
        run(&mut engine, &mut world, 0..200);
        assert!(world.crossed.is_empty(), "{}: {:?}", entry.name, world.crossed);
        let least = free.fast(0).min(LIMIT) * 8 / 10;
        let used = world.fast(0);
        assert!((least..=LIMIT).contains(&used), "{}: {least} to {LIMIT}: {used}", entry.name);
        // The neighbour loses nothing by it.
        let neighbour = free.fast(1) * 8 / 10;
        assert!(world.fast(1) >= neighbour, "{}: {} of {neighbour}", entry.name, world.fast(1));
    }
}

/// A tenant at its limit gets a new hot set: its hottest pages displace its own coldest ones, and the neighbour
/// loses nothing.
#[test]
fn a_tenant_at_its_limit_gets_its_own_hottest_pages() {
    let rates = || vec![skewed(2_000, 100.0, 1.0, 3), skewed(500, 100.0, 1.0, 4)];
    let mut world = Shared::new(&[1_000, 8_000], rates(), 5);
    let mut engine = engine(default_policy(), &mut world);
    limit(&mut engine, &mut world, 0, 300);
    run(&mut engine, &mut world, 0..150);
    let settled = world.fast_share(0);
    let neighbour = world.fast(1);
    // Its hot set changes.
    let pages = world.pages(0);
    world.toy.rates[pages].copy_from_slice(&skewed(2_000, 100.0, 1.0, 77));
    assert!(world.fast_share(0) < 0.5 * settled, "{} after {settled}", world.fast_share(0));
    run(&mut engine, &mut world, 150..500);
    assert!(world.crossed.is_empty(), "{:?}", world.crossed);
    assert!(world.fast_share(0) > 0.9 * settled, "{} after {settled}", world.fast_share(0));
    assert!(world.fast(1) * 10 >= neighbour * 9, "{} after {neighbour}", world.fast(1));
}

fn promotions(events: &[Event]) -> usize {
    let up =
        |event: &&Event| matches!(event, Event::Move { moved, .. } if moved.to == TierId::FAST);
    events.iter().filter(up).count()
}

/// Between the demotions and the promotions of an exchange, a tenant is little below its limit.
#[test]
fn a_tenant_that_exchanges_pages_stays_near_its_limit() {
    let rates = || vec![skewed(2_000, 100.0, 1.0, 3), skewed(500, 100.0, 1.0, 4)];
    let mut world = Shared::new(&[1_000, 8_000], rates(), 5);
    let mut engine = engine(default_policy(), &mut world);
    limit(&mut engine, &mut world, 0, 300);
    run(&mut engine, &mut world, 0..150);
    let used = world.fast(0);
    assert!((295..=300).contains(&used), "{used}");
    world.least = used;
    let pages = world.pages(0);
    world.toy.rates[pages].copy_from_slice(&skewed(2_000, 100.0, 1.0, 77));
    let events = run(&mut engine, &mut world, 150..300);
    let moved = promotions(&events);
    assert!(moved > 200, "{moved}");
    assert!(world.least + 64 >= used, "{} of {used}", world.least);
}

/// Promotions while a window of hot pages passes over a tenant's memory, with 300 pages of fast memory for it: by a limit, or
/// because the tier ends there.
fn promoted_while_hot_pages_pass(by_limit: bool) -> usize {
    const PAGES: usize = 2_000;
    const HOT: usize = 400;
    let fast = if by_limit { 2_000 } else { 300 };
    let mut world = Shared::new(&[fast, 8_000], vec![vec![0.0; PAGES]], 5);
    let mut engine = engine(default_policy(), &mut world);
    if by_limit {
        limit(&mut engine, &mut world, 0, 300);
    }
    let promoted = (0..800_usize).map(|tick| {
        let first = tick / 10 * 100 % PAGES;
        for (at, rate) in world.toy.rates.iter_mut().enumerate() {
            *rate = if (at + PAGES - first) % PAGES < HOT { 200.0 } else { 0.0 };
        }
        let tick = tick as u64;
        promotions(&run(&mut engine, &mut world, tick..tick + 1))
    });
    promoted.sum()
}

/// At its limit a tenant exchanges such pages ever more rarely, as each must be twice as hot as the last time.
#[test]
fn a_page_that_came_back_must_be_hotter_for_another_exchange() {
    let (limited, full) =
        (promoted_while_hot_pages_pass(true), promoted_while_hot_pages_pass(false));
    assert!(limited * 4 <= full * 3, "{limited} promotions, {full} without a limit");
}

/// The pages above a lowered limit are demoted within a second at 64 MiB/s, coldest first by the policy's own
/// heat.
#[test]
fn a_lowered_limit_is_enforced_within_a_second_coldest_first() {
    let rates = || vec![skewed(1_000, 100.0, 1.0, 3), skewed(500, 100.0, 1.0, 4)];
    for entry in policies() {
        let mut world = Shared::new(&[2_000, 8_000], rates(), 5);
        let mut engine = engine(entry, &mut world);
        run(&mut engine, &mut world, 0..100);
        let before = world.fast(0);
        if before < 400 {
            continue; // it does not place enough pages
        }
        let (neighbour, share) = (world.fast(1), world.fast_share(0));
        let by_heat = share > before as f64 / 1_000.0 * 0.99;
        limit(&mut engine, &mut world, 0, 200);
        let second = 1_000_000_000 / TICK.0;
        run(&mut engine, &mut world, 100..100 + second);
        assert!(world.fast(0) <= 200, "{}: {}", entry.name, world.fast(0));
        assert!(world.fast(0) >= 160, "{}: {}", entry.name, world.fast(0));
        assert!(world.fast(1) * 10 >= neighbour * 9, "{}: {}", entry.name, world.fast(1));
        let share = world.fast_share(0);
        let even = 200.0 / 1_000.0;
        assert!(
            share >= even || !by_heat,
            "{}: {share} of its accesses, {even} of its pages",
            entry.name
        );
    }
}

/// The owner of a space changes: its bytes count for the new owner, and the new owner's limit applies.
#[test]
fn a_space_that_changes_its_owner_counts_for_the_new_one() {
    let mut world = Shared::new(&[2_000, 8_000], vec![vec![50.0; 300], vec![50.0; 300]], 5);
    let mut engine = engine(default_policy(), &mut world);
    run(&mut engine, &mut world, 0..60);
    let (a, b) = (TenantId(1), TenantId(2));
    let fast = |engine: &Engine, tenant| engine.pages().bytes_of(tenant, TierId::FAST);
    let sum = fast(&engine, a) + fast(&engine, b);
    assert!(fast(&engine, a) > Bytes::ZERO && fast(&engine, b) > Bytes::ZERO);
    world.toy.changes.clear();
    engine.assign_tenant(SpaceId(2), a);
    assert_eq!((fast(&engine, a), fast(&engine, b)), (sum, Bytes::ZERO));
    world.limits[0] = None;
    engine.limits.set(a, TierId::FAST, Some(Bytes::from_base_pages(100)));
    run(&mut engine, &mut world, 60..200);
    assert!(world.fast(0) + world.fast(1) <= 100, "{} and {}", world.fast(0), world.fast(1));
}

/// Four tenants under a goal that balances, each with a limit: once settled, pages move no more than under the
/// policy without limits.
#[test]
fn four_tenants_under_a_balancing_goal_do_not_oscillate() {
    let names = ["tierline", "hemem+colloid"];
    for entry in POLICIES.iter().filter(|entry| names.contains(&entry.name)) {
        let late = |limits: Option<[u64; 4]>| {
            let rates = (0..4).map(|seed| skewed(800, 100.0, 1.0, 30 + seed)).collect();
            let mut world = Shared::new(&[300, 8_000], rates, 5);
            let mut engine = engine(entry, &mut world);
            for (tenant, pages) in limits.into_iter().flatten().enumerate() {
                limit(&mut engine, &mut world, tenant, pages);
            }
            run(&mut engine, &mut world, 0..300);
            let moves = world.toy.asked.len();
            run(&mut engine, &mut world, 300..500);
            let placed: u64 = (0..4).map(|tenant| world.fast(tenant)).sum();
            assert!(placed > 270, "{}: {placed}", entry.name);
            assert!(world.crossed.is_empty(), "{}", entry.name);
            (world.toy.asked.len() - moves, moves)
        };
        let (free, limited) = (late(None), late(Some([60, 70, 80, 90])));
        let most = (limited.1 / 10).max(free.0);
        assert!(limited.0 <= most, "{}: late of all {limited:?}, free {free:?}", entry.name);
    }
}
