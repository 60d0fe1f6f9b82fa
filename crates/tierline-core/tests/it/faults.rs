// SPDX-License-Identifier: Apache-2.0
//! Fault injection: a decorator of the toy world that makes moves fail and drops samples.

use tierline_core::engine::Engine;
use tierline_core::policy::POLICIES;
use tierline_core::port::{
    Move, Observations, Order, Outcome, Question, Reason, SpaceEvent, Telemetry, TenantId, Vpn,
    World,
};
use tierline_core::qos::Limits;
use tierline_core::rng::Rng;
use tierline_core::tier::TierId;
use tierline_core::unit::{Bytes, Nanos};

use crate::contract::{RATE, TICK, skewed};
use crate::toy::{SPACE, Toy, machine, pass_on_to_toy};

/// The faults, and their frequency (in percent).
struct Faulty {
    toy: Toy,
    rng: Rng,
    busy: u64,
    refused: u64,
    /// Pages that another process maps, until a time.
    shared: Option<(u64, Nanos)>,
    lost_samples: u64,
    /// Moves after which the process exits.
    exits_after: Option<usize>,
    /// Another program takes all free fast memory in the middle of a batch.
    fills_up: bool,
    /// No page finds room in fast memory, though it counts as free.
    is_full: bool,
    counters: Counters,
}

/// The state of occupancy and rate counters.
#[derive(Clone, Copy, PartialEq)]
enum Counters {
    Fine,
    /// They stop: no reads, and none in flight.
    Stalled,
    /// They cannot be read.
    Gone,
}

impl Faulty {
    fn new(seed: u64) -> Self {
        let toy = Toy::new(machine(&[600, 8_000]), skewed(4_000, 100.0, 1.0, seed), seed);
        let rng = Rng::new(seed ^ 0xfau64);
        Self {
            toy,
            rng,
            busy: 0,
            refused: 0,
            shared: None,
            lost_samples: 0,
            exits_after: None,
            fills_up: false,
            is_full: false,
            counters: Counters::Fine,
        }
    }
}

impl Faulty {
    fn try_move(&mut self, now: Nanos, m: &Move) -> Outcome {
        if let Some(left) = &mut self.exits_after {
            *left = left.saturating_sub(1);
        }
        let fault = match self.rng.below(100) {
            _ if self.exits_after == Some(0) => Outcome::SpaceGone,
            _ if self
                .shared
                .is_some_and(|(every, until)| m.vpn.0.is_multiple_of(every) && now < until) =>
            {
                Outcome::Shared
            }
            _ if self.is_full && m.to == TierId::FAST => Outcome::NoRoom,
            n if n < self.busy => Outcome::Busy,
            n if n < self.busy + self.refused => Outcome::Refused,
            _ => return self.toy.try_move(m),
        };
        self.toy.asked.push((*m, fault));
        fault
    }
}

impl World for Faulty {
    pass_on_to_toy!();

    fn observe(&mut self, now: Nanos, out: &mut Observations) {
        if self.exits_after == Some(0) {
            self.toy.place.fill(None);
            out.space_events.push(SpaceEvent::Gone(SPACE));
            return;
        }
        self.toy.observe(now, out);
        let before = out.samples.len();
        out.samples.retain(|_| self.rng.below(100) >= self.lost_samples);
        out.lost = (before - out.samples.len()) as u64;
    }

    fn measure(&mut self, now: Nanos) -> Telemetry {
        let mut telemetry = self.toy.measure(now);
        let value = match self.counters {
            Counters::Fine => return telemetry,
            Counters::Stalled => Some(0.0),
            Counters::Gone => None,
        };
        for tier in &mut telemetry.tiers {
            (tier.occupancy, tier.reads_per_sec) = (value, value);
        }
        telemetry
    }

    fn act(&mut self, now: Nanos, orders: &[Order], out: &mut Vec<Outcome>) -> Nanos {
        let mut spent = Nanos::ZERO;
        for (i, order) in orders.iter().enumerate() {
            if self.fills_up && i == orders.len() / 2 {
                self.toy.others[0] += self.toy.free(TierId::FAST);
            }
            match order {
                Order::Move(m) | Order::MoveShared(m) => out.push(self.try_move(now, m)),
                _ => spent += self.toy.act(now, std::slice::from_ref(order), out),
            }
        }
        spent + Nanos(2_000) * orders.len() as u64
    }

    fn check_accessed(&mut self, now: Nanos, questions: &[Question], out: &mut Vec<bool>) {
        self.toy.check_accessed(now, questions, out);
    }
}

fn engine(world: &mut Faulty, policy: usize) -> Engine {
    let policy = (POLICIES[policy].make)();
    world.toy.watch = policy.wants().tracking;
    Engine::new(world.toy.tiers.clone(), Limits::default(), policy, RATE)
}

fn run(world: &mut Faulty, policy: usize, ticks: u64) -> Engine {
    let mut engine = engine(world, policy);
    continue_run(&mut engine, world, 0..ticks);
    engine
}

fn continue_run(engine: &mut Engine, world: &mut Faulty, ticks: std::ops::Range<u64>) {
    for i in ticks {
        engine.tick(TICK * i, world);
        if i % 8 != 0 {
            continue;
        }
        engine.pages().check();
        for (vpn, &really) in (0..).zip(&world.toy.place) {
            let page = engine.pages().find(SPACE, Vpn(vpn));
            let known = page.and_then(|page| engine.pages().state(page).tier());
            if let (Some(known), Some(really)) = (known, really) {
                assert_eq!(known, really, "page {vpn}: the page table has another tier");
            }
        }
    }
}

#[test]
fn busy_pages_are_retried_and_promoted() {
    let mut world = Faulty::new(1);
    world.busy = 50;
    let engine = run(&mut world, 0, 100);
    assert!(world.toy.fast_share() > 0.85, "{}", world.toy.fast_share());
    assert!(engine.migrator().counts.failed["busy"] > 0);
}

/// Promotions find no room, then there is some, and no page is hit any more.
#[test]
fn pages_that_found_no_room_need_no_other_hit() {
    let mut world = Faulty::new(8);
    world.is_full = true;
    let mut engine = run(&mut world, 0, 50);
    let before = world.toy.fast_share();
    (world.is_full, world.lost_samples) = (false, 100);
    continue_run(&mut engine, &mut world, 50..60);
    assert!(world.toy.fast_share() > before + 0.5, "{before} to {}", world.toy.fast_share());
}

/// Busy pages are tried again, beside other pages that the next plans took for them.
#[test]
fn retries_demote_no_page_beyond_what_a_limit_needs() {
    let mut world = Faulty::new(7);
    let mut engine = run(&mut world, 0, 100);
    let fast =
        |world: &Faulty| world.toy.place.iter().filter(|&&tier| tier == Some(TierId::FAST)).count();
    let (before, limit) = (fast(&world), 200);
    assert!(before > 2 * limit, "{before}");
    engine.assign_tenant(SPACE, TenantId(1));
    engine.limits.set(TenantId(1), TierId::FAST, Some(Bytes::from_base_pages(limit as u64)));
    world.busy = 50;
    let asked = world.toy.asked.len();
    continue_run(&mut engine, &mut world, 100..200);
    let for_limit = |(m, outcome): &&(Move, Outcome)| {
        matches!(m.reason, Reason::Limit { .. }) && *outcome == Outcome::Done
    };
    let demoted = world.toy.asked[asked..].iter().filter(for_limit).count();
    assert!(fast(&world) <= limit, "{} above a limit of {limit}", fast(&world));
    assert!(
        demoted <= before - limit,
        "{demoted} pages demoted for {} above the limit",
        before - limit
    );
}

#[test]
fn a_refused_page_is_not_ordered_again() {
    for (policy, entry) in POLICIES.iter().enumerate() {
        let mut world = Faulty::new(2);
        world.refused = 30;
        run(&mut world, policy, 60);
        let mut refused = std::collections::BTreeSet::new();
        for (m, outcome) in &world.toy.asked {
            assert!(!refused.contains(&m.vpn), "{}: {:?} was refused before", entry.name, m.vpn);
            if *outcome == Outcome::Refused {
                refused.insert(m.vpn);
            }
        }
        assert!(!refused.is_empty() || world.toy.asked.is_empty(), "{}", entry.name);
    }
}

/// A child of a fork shares every third page for a second, or for 15; or another process does for good.
#[test]
fn shared_pages_are_promoted_once_nobody_shares_them_and_are_not_tried_for_ever() {
    for (seconds, ticks) in [(1, 100), (15, 600)] {
        let mut world = Faulty::new(3);
        world.shared = Some((3, Nanos::from_secs(seconds)));
        run(&mut world, 0, ticks);
        assert!(world.toy.fast_share() > 0.85, "{seconds} s: {}", world.toy.fast_share());
    }
    let mut world = Faulty::new(3);
    world.shared = Some((3, Nanos(u64::MAX)));
    run(&mut world, 0, 200);
    let mut tries = std::collections::BTreeMap::<_, u32>::new();
    let shared = world.toy.asked.iter().filter(|(_, outcome)| *outcome == Outcome::Shared);
    shared.for_each(|(m, _)| *tries.entry(m.vpn).or_default() += 1);
    // Refused for 0.1, 0.2, … 12.8 of 20 s.
    assert!(tries.values().all(|tries| (1..=8).contains(tries)), "{tries:?}");
}

/// `continue_run` checks the page table throughout, the toy checks capacity.
#[test]
fn every_policy_recovers_from_faults() {
    for (policy, entry) in POLICIES.iter().enumerate() {
        let mut world = Faulty::new(6);
        (world.busy, world.refused, world.lost_samples) = (30, 5, 30);
        world.toy.others[0] = 100;
        let mut engine = run(&mut world, policy, 40);
        world.fills_up = true;
        continue_run(&mut engine, &mut world, 40..50);
        (world.fills_up, world.counters) = (false, Counters::Stalled);
        continue_run(&mut engine, &mut world, 50..60);
        world.counters = Counters::Gone;
        continue_run(&mut engine, &mut world, 60..80);
        let before = world.toy.asked.len();
        world.counters = Counters::Fine;
        world.toy.others[0] = 0; // room for policies that never demote
        world.toy.rates = skewed(4_000, 100.0, 1.0, 77);
        continue_run(&mut engine, &mut world, 80..200);
        let moved = before > 0;
        let again = world.toy.asked.len() > before;
        assert!(moved == again, "{}: moves again after the faults", entry.name);
    }
}

#[test]
fn a_process_that_exits_during_moves_is_removed() {
    for policy in 0..POLICIES.len() {
        let mut world = Faulty::new(3);
        world.exits_after = Some(100);
        let engine = run(&mut world, policy, 30);
        if !world.toy.asked.is_empty() {
            assert_eq!(engine.pages().base_pages(), 0);
            assert_eq!(engine.pages().spaces().count(), 0);
        }
    }
}

#[test]
fn headroom_returns_after_another_program_filled_fast_memory() {
    let mut world = Faulty::new(4);
    world.fills_up = true;
    let mut engine = run(&mut world, 0, 3);
    assert!(engine.migrator().counts.failed.contains_key("no_room"));
    world.fills_up = false;
    continue_run(&mut engine, &mut world, 3..20);
    assert!(engine.migrator().counts.demoted_pages > 0, "headroom is restored by demotion");
    assert!(world.toy.free(TierId::FAST) >= 10, "2 % are 12 pages, less with time");
}

#[test]
fn lost_samples_delay_promotions_but_do_not_mislead() {
    let mut world = Faulty::new(5);
    world.lost_samples = 60;
    run(&mut world, 0, 150);
    assert!(world.toy.fast_share() > 0.85, "{}", world.toy.fast_share());
}
