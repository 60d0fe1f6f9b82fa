// SPDX-License-Identifier: Apache-2.0
//! The contract of every policy in the list.

use std::collections::BTreeMap;

use tierline_core::engine::Engine;
use tierline_core::event::Event;
use tierline_core::policy::{POLICIES, entry::PolicyEntry};
use tierline_core::port::{Outcome, PageKind, TenantId, World};
use tierline_core::qos::Limits;
use tierline_core::rng::Rng;
use tierline_core::tier::TierId;
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};

use crate::toy::{Toy, machine};
use crate::toy_policy::SWAP;

pub const TICK: Nanos = Nanos::from_millis(100);
pub const RATE: BytesPerSec = BytesPerSec(64 << 20);

/// Every policy of the core, and a toy one.
pub fn policies() -> impl Iterator<Item = &'static PolicyEntry> {
    POLICIES.iter().chain(&[
        SWAP, //
    ])
}

/// Rates of pages of which every eighth is hot, in random order.
pub fn skewed(pages: usize, hot: f64, warm: f64, seed: u64) -> Vec<f64> {
    let mut rng = Rng::new(seed);
    (0..pages).map(|_| if rng.below(8) == 0 { hot } else { warm }).collect()
}

/// The policy in a toy that is tracked as the policy requests.
fn engine(entry: &PolicyEntry, toy: &mut Toy) -> Engine {
    let policy = (entry.make)();
    toy.watch = policy.wants().tracking;
    Engine::new(toy.tiers.clone(), Limits::default(), policy, RATE)
}

pub fn run(engine: &mut Engine, toy: &mut dyn World, from: u64, ticks: u64) -> Vec<Event> {
    let mut events = Vec::new();
    for i in from..from + ticks {
        events.extend_from_slice(engine.tick(TICK * i, toy));
        if i % 16 == 0 {
            engine.pages().check();
        }
    }
    events
}

#[test]
fn capacity_and_budget_hold_for_every_policy() {
    for entry in policies() {
        for capacities in [&[600, 8_000][..], &[200, 500, 8_000][..]] {
            let mut toy = Toy::new(machine(capacities), skewed(4_000, 100.0, 3.0, 1), 2);
            let mut engine = engine(entry, &mut toy);
            let mut moved = Bytes::ZERO;
            for i in 0..100 {
                let events = engine.tick(TICK * i, &mut toy).to_vec();
                for event in events {
                    if let Event::Move { moved: m, outcome, .. } = event {
                        assert_ne!(
                            outcome,
                            Outcome::NoRoom,
                            "{}: planned a move without room",
                            entry.name
                        );
                        moved += m.size.bytes();
                    }
                }
                let allowed = RATE.0 / 10 * i + RATE.0 / 4;
                assert!(moved.0 <= allowed, "{}: {moved} by tick {i}", entry.name);
                for (tier, t) in toy.tiers.iter() {
                    assert!(toy.used(tier) <= t.capacity.base_pages(), "{}", entry.name);
                }
            }
        }
    }
}

#[test]
fn pages_freed_while_listed_or_moving_leave_every_policy_consistent() {
    for entry in policies() {
        let mut toy = Toy::new(machine(&[600, 8_000]), skewed(2_000, 100.0, 3.0, 10), 11);
        let mut engine = engine(entry, &mut toy);
        let mut rng = Rng::new(12);
        for i in 0..100 {
            for _ in 0..50 {
                toy.renew(usize::try_from(rng.below(2_000)).unwrap());
            }
            engine.tick(TICK * i, &mut toy);
            engine.pages().check();
            let believed: Bytes = toy.tiers.iter().map(|(t, _)| engine.pages().bytes_in(t)).sum();
            assert_eq!(believed.base_pages(), 2_000, "{}", entry.name);
        }
    }
}

/// Programs free pages of full fast memory, as `madvise` does, and others take it. The world tells nothing of it before an
/// order fails.
#[test]
fn a_page_that_is_gone_is_ordered_once() {
    let mut all_gone = 0;
    for entry in policies() {
        let mut toy = Toy::new(machine(&[600, 8_000]), skewed(2_000, 100.0, 3.0, 15), 16);
        let mut engine = engine(entry, &mut toy);
        run(&mut engine, &mut toy, 0, 100);
        for page in 0..toy.place.len() {
            if toy.rates[page] < 50.0 && toy.place[page] == Some(TierId::FAST) {
                (toy.place[page], toy.rates[page]) = (None, 0.0);
                toy.others[0] += 1;
            }
        }
        let before = toy.asked.len();
        run(&mut engine, &mut toy, 100, 200);
        let mut gone = BTreeMap::new();
        for (m, _) in toy.asked[before..].iter().filter(|(_, it)| *it == Outcome::PageGone) {
            *gone.entry(m.vpn).or_insert(0) += 1;
        }
        assert!(gone.values().all(|&times| times == 1), "{}: {gone:?}", entry.name);
        all_gone += gone.len();
    }
    assert!(all_gone > 0, "no policy ordered a page that is gone");
}

/// Other programs hold nearly all memory: only file pages may be paged out.
#[test]
fn without_room_in_any_tier_only_files_are_paged_out() {
    for entry in policies() {
        for kind in [PageKind::Anonymous, PageKind::File, PageKind::Shared] {
            // Hot enough that a check of a hot page never misses; other policies would get too many samples.
            let hot = if entry.name == "paging" { 10_000.0 } else { 100.0 };
            let mut toy = Toy::new(machine(&[600, 4_000]), skewed(3_000, hot, 0.0, 13), 14);
            toy.kind = kind;
            toy.others = vec![590, 1_000];
            let mut engine = engine(entry, &mut toy);
            run(&mut engine, &mut toy, 0, 100);
            for (tier, t) in toy.tiers.iter() {
                assert!(toy.used(tier) <= t.capacity.base_pages(), "{}: {tier}", entry.name);
            }
            let out = toy.paged_out.len() as u64;
            assert!(kind == PageKind::File || out == 0, "{} pages out {kind:?}", entry.name);
            assert_eq!(engine.migrator().counts.tiering.page_out_file, out, "{}", entry.name);
            if entry.name == "paging" && kind == PageKind::File {
                assert!(out > 0, "paging out makes room");
                let cold = |page: &&usize| toy.rates[**page] == 0.0;
                assert_eq!(
                    toy.paged_out.iter().filter(cold).count() as u64,
                    out,
                    "only cold pages are paged out"
                );
            }
        }
    }
}

#[test]
fn no_policy_moves_pages_without_accesses() {
    for entry in policies() {
        let mut toy = Toy::new(machine(&[600, 8_000]), vec![0.0; 4_000], 3);
        let mut engine = engine(entry, &mut toy);
        run(&mut engine, &mut toy, 0, 50);
        assert!(toy.asked.is_empty(), "{} moved {}", entry.name, toy.asked.len());
    }
}

#[test]
fn every_policy_settles_when_nothing_changes() {
    for entry in policies() {
        // Some policies take every page with a few accesses for hot, so only the hot set has any.
        let mut toy = Toy::new(machine(&[1_000, 8_000]), skewed(4_000, 100.0, 0.0, 4), 5);
        let mut engine = engine(entry, &mut toy);
        run(&mut engine, &mut toy, 0, 300);
        let before = toy.asked.len();
        run(&mut engine, &mut toy, 300, 100);
        let late = toy.asked.len() - before;
        assert!(late * 50 <= before.max(50), "{}: {late} of {before} moves came late", entry.name);
    }
}

#[test]
fn same_seed_same_fingerprint_for_every_policy() {
    for entry in policies() {
        let fingerprint = |seed| {
            let mut toy = Toy::new(machine(&[300, 900, 8_000]), skewed(4_000, 80.0, 2.0, 6), seed);
            let mut engine = engine(entry, &mut toy);
            run(&mut engine, &mut toy, 0, 60);
            engine.fingerprint()
        };
        assert_eq!(fingerprint(7), fingerprint(7), "{}", entry.name);
    }
}

/// With a limit a policy places at least half of the limit, or half of what it places without one: some fill
/// slowly, by their own rates and rounds.
#[test]
fn every_policy_follows_a_limit() {
    const LIMIT: u64 = 100;
    for entry in policies() {
        let fast = |limits: Limits| {
            let mut toy = Toy::new(machine(&[2_000, 8_000]), skewed(4_000, 100.0, 1.0, 8), 9);
            let policy = (entry.make)();
            toy.watch = policy.wants().tracking;
            let mut engine = Engine::new(toy.tiers.clone(), limits, policy, RATE);
            run(&mut engine, &mut toy, 0, 200);
            toy.used(TierId::FAST)
        };
        let limit = Bytes::from_base_pages(LIMIT);
        let limited = fast(Limits::of(TenantId::NOBODY, TierId::FAST, limit));
        let least = fast(Limits::default()).min(LIMIT) / 2;
        assert!((least..=LIMIT).contains(&limited), "{}: {least} to 100, {limited}", entry.name);
    }
}

#[test]
fn every_policy_explains_itself_under_the_five_headings() {
    for entry in policies() {
        let text = entry.explain();
        let made = (entry.make)();
        assert_eq!(made.name(), entry.name);
        assert!(text.starts_with(entry.name), "{text}");
        for heading in
            ["What it does:", "When it helps:", "When it hurts:", "Knobs:", "Where it comes from:"]
        {
            assert!(text.contains(heading), "{} lacks {heading:?}", entry.name);
        }
    }
}
