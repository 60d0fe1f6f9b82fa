// SPDX-License-Identifier: Apache-2.0
//! Promises of the default policy.

use tierline_core::engine::Engine;
use tierline_core::policy::tierline::Tierline;
use tierline_core::port::{Attention, Tracking};
use tierline_core::qos::Limits;
use tierline_core::tier::TierId;
use tierline_core::unit::{Bytes, Nanos};

use crate::contract::{RATE, TICK, skewed};
use crate::toy::{Toy, machine, run};

fn engine(toy: &Toy) -> Engine {
    Engine::new(toy.tiers.clone(), Limits::default(), Box::<Tierline>::default(), RATE)
}

#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn hot_share(toy: &Toy, hot: f64) -> f64 {
    let hot: Vec<_> = toy.rates.iter().zip(&toy.place).filter(|(r, _)| **r >= hot).collect();
    let fast = hot.iter().filter(|(_, p)| **p == Some(TierId::FAST)).count();
    fast as f64 / hot.len() as f64
}

#[test]
fn the_hot_set_is_fast_within_a_second_with_few_other_moves() {
    let mut toy = Toy::new(machine(&[4_000, 20_000]), skewed(16_000, 100.0, 3.0, 1), 2);
    // A warm page would repay such a move in 150 s, a hot one in less than 5.
    toy.move_cost = Nanos(60_000);
    let needed = toy.rates.iter().filter(|&&r| r > 50.0).count();
    let mut engine = engine(&toy);
    run(&mut engine, &mut toy, 0..10);
    assert!(hot_share(&toy, 50.0) > 0.9, "{}", hot_share(&toy, 50.0));
    run(&mut engine, &mut toy, 10..600);
    assert!(hot_share(&toy, 50.0) > 0.99);
    let moved = toy.asked.len();
    assert!(moved * 10 <= needed * 12, "{moved} moves for {needed} hot pages");
}

#[test]
fn a_new_hot_set_is_promoted_although_fast_memory_is_full() {
    let mut toy = Toy::new(machine(&[2_300, 20_000]), skewed(16_000, 100.0, 1.0, 3), 4);
    let mut engine = engine(&toy);
    run(&mut engine, &mut toy, 0..100);
    assert!(hot_share(&toy, 50.0) > 0.97);
    toy.rates = skewed(16_000, 100.0, 1.0, 5);
    run(&mut engine, &mut toy, 100..170);
    assert!(hot_share(&toy, 50.0) > 0.95, "{}", hot_share(&toy, 50.0));
}

/// Fast memory is full: first of hot pages that stay hot, then of cold ones.
#[test]
fn room_is_made_although_the_first_residents_examined_are_all_hot() {
    const STAY: usize = 8_000;
    let mut rates = vec![1.0; 24_000];
    rates[..STAY].fill(100.0);
    rates[16_000..20_000].fill(100.0);
    let mut toy = Toy::new(machine(&[16_000, 40_000]), rates, 9);
    toy.place[..16_000].fill(Some(TierId::FAST));
    let mut engine = engine(&toy);
    run(&mut engine, &mut toy, 0..60);
    assert!(hot_share(&toy, 50.0) > 0.95, "{}", hot_share(&toy, 50.0));
}

/// A program in slow memory alone, until the one that has all fast memory ends; from then on no page is hit.
#[test]
fn memory_that_becomes_free_is_used_before_the_next_hit() {
    let mut toy = Toy::new(machine(&[4_000, 20_000]), vec![100.0; 2_000], 7);
    toy.others[0] = 4_000;
    let mut engine = engine(&toy);
    run(&mut engine, &mut toy, 0..20);
    assert_eq!(toy.used(TierId::FAST), 4_000, "by the other");
    (toy.others[0], toy.rates) = (0, vec![0.0; 2_000]);
    run(&mut engine, &mut toy, 20..30);
    assert!(toy.used(TierId::FAST) > 1_900, "{}", toy.used(TierId::FAST));
}

/// Hint faults in slow memory only: cold pages in fast memory are found by questions.
#[test]
fn a_new_hot_set_is_promoted_although_fast_memory_is_unseen() {
    let mut toy = Toy::new(machine(&[2_300, 20_000]), skewed(16_000, 100.0, 1.0, 3), 4);
    let mut engine = engine(&toy);
    let all = Bytes::from_base_pages(16_000);
    let (pass, floor) = (Nanos::from_secs(1), Nanos::from_millis(10));
    toy.watch = Some(Tracking::HintFaults { pass, bytes: all, floor, fast_too: false });
    run(&mut engine, &mut toy, 0..200);
    assert!(hot_share(&toy, 50.0) > 0.9, "{}", hot_share(&toy, 50.0));
    toy.rates = skewed(16_000, 100.0, 1.0, 5);
    run(&mut engine, &mut toy, 200..600);
    assert!(hot_share(&toy, 50.0) > 0.9, "{}", hot_share(&toy, 50.0));
}

#[test]
fn it_settles_although_other_pages_are_warm() {
    let mut toy = Toy::new(machine(&[1_000, 8_000]), skewed(4_000, 100.0, 1.0, 4), 5);
    let mut engine = engine(&toy);
    run(&mut engine, &mut toy, 0..6_000);
    let before = toy.asked.len();
    run(&mut engine, &mut toy, 6_000..6_100);
    let late = toy.asked.len() - before;
    assert!(late * 50 <= before, "{late} of {before} moves came late");
}

#[test]
fn one_touch_is_not_enough() {
    let mut toy = Toy::new(machine(&[4_000, 20_000]), vec![1e6; 1_000], 6);
    let mut engine = engine(&toy);
    engine.tick(Nanos::ZERO, &mut toy);
    assert_eq!(toy.used(TierId::FAST), 0);
    run(&mut engine, &mut toy, 1..4);
    assert!(toy.used(TierId::FAST) > 0);
}

/// A quarter of the pages is armed in every tick, so each faults at most once in four ticks.
#[test]
fn one_touch_is_enough_with_a_time_to_fault() {
    let mut toy = Toy::new(machine(&[4_000, 20_000]), skewed(16_000, 100.0, 1.0, 3), 4);
    let mut engine = engine(&toy);
    let (pass, bytes) = (TICK, Bytes::from_base_pages(16_000));
    toy.watch = Some(Tracking::HintFaults { pass, bytes, floor: TICK, fast_too: false });
    for i in 0..=4 {
        engine.tick(TICK * i, &mut toy);
    }
    assert!(hot_share(&toy, 50.0) > 0.9, "{}", hot_share(&toy, 50.0));
}

#[test]
fn headroom_is_kept_free_only_while_memory_is_allocated() {
    let mut toy = Toy::new(machine(&[1_000, 20_000]), vec![100.0; 8_000], 7);
    let mut engine = engine(&toy);
    let mut free_after = |toy: &mut Toy, ticks: std::ops::Range<u64>, allocated: u64| {
        for i in ticks {
            toy.others[0] += allocated;
            engine.tick(TICK * i, toy);
        }
        toy.free(TierId::FAST)
    };
    let quiet = free_after(&mut toy, 0..600, 0);
    assert!(quiet < 2, "{quiet}: all of fast memory is used");
    free_after(&mut toy, 600..660, 10);
    assert_eq!(free_after(&mut toy, 660..661, 0), 20, "2 % of 1000 pages");
    let quiet = free_after(&mut toy, 661..1_261, 0);
    assert!(quiet < 2, "{quiet}: all of fast memory is used again");
}

/// Hot pages in fast memory, of 900, after another program has taken what is free there, page by page.
fn left_beside_others(tells_others: bool) -> usize {
    let rates: Vec<f64> = (0..8_000).map(|page| if page < 900 { 100.0 } else { 0.0 }).collect();
    let mut toy = Toy::new(machine(&[1_000, 20_000]), rates, 7);
    toy.tells_others = tells_others;
    let mut engine = engine(&toy);
    for i in 0..2_000 {
        toy.others[0] += if i < 1_200 { 0 } else { toy.free(TierId::FAST).min(10) };
        engine.tick(TICK * i, &mut toy);
    }
    toy.place[..900].iter().filter(|&&place| place == Some(TierId::FAST)).count()
}

#[test]
fn what_other_programs_allocate_displaces_no_hot_page() {
    assert_eq!(left_beside_others(false), 0, "if others are not told apart");
    assert_eq!(left_beside_others(true), 900);
}

#[test]
fn attention_is_calm_when_settled_and_alert_after_a_new_hot_set() {
    let mut toy = Toy::new(machine(&[4_000, 20_000]), skewed(16_000, 100.0, 3.0, 8), 9);
    let mut engine = engine(&toy);
    run(&mut engine, &mut toy, 0..100);
    assert_eq!(toy.attention, Attention::Calm);
    toy.rates = skewed(16_000, 100.0, 3.0, 10);
    run(&mut engine, &mut toy, 100..121);
    assert_eq!(toy.attention, Attention::Alert);
}

#[test]
fn three_tiers_fill_from_the_top_by_heat() {
    let rates: Vec<f64> = (0..3_000).map(|i| [40.0, 4.0, 0.01][i % 3]).collect();
    let mut toy = Toy::new(machine(&[1_100, 1_200, 8_000]), rates, 11);
    let mut engine = engine(&toy);
    run(&mut engine, &mut toy, 0..1500);
    let share = |rate: f64, tier: u8| {
        let of: Vec<_> = toy.rates.iter().zip(&toy.place).filter(|(r, _)| **r == rate).collect();
        of.iter().filter(|(_, p)| **p == Some(TierId(tier))).count() as f64 / of.len() as f64
    };
    assert!(share(40.0, 0) > 0.9, "{}", share(40.0, 0));
    let warm = share(4.0, 0) + share(4.0, 1);
    assert!(warm > 0.8 && share(4.0, 1) > 0.7, "{warm}, {} of it next", share(4.0, 1));
    assert!(share(0.01, 2) > 0.95, "{}", share(0.01, 2));
}

#[test]
fn a_hot_set_larger_than_the_budget_of_a_tick_is_promoted_over_many_ticks() {
    let mut toy = Toy::new(machine(&[20_000, 40_000]), vec![100.0; 12_000], 12);
    toy.move_cost = Nanos(60_000);
    let mut engine = engine(&toy);
    run(&mut engine, &mut toy, 0..40);
    assert!(hot_share(&toy, 50.0) > 0.95, "{}", hot_share(&toy, 50.0));
}

/// Regions of sixteen pages are as hot as their pages, and every eighth is hot.
#[test]
fn regions_suffice_if_neighbouring_pages_are_alike() {
    let mut toy = Toy::new(machine(&[2_300, 20_000]), vec![0.0; 16_000], 4);
    let hot_from = |from: usize| {
        (0..16_000).map(|page| if page / 16 % 8 == from { 100.0 } else { 1.0 }).collect()
    };
    let (sampling, aggregation) = (Nanos::from_millis(5), TICK);
    toy.watch = Some(Tracking::Regions { sampling, aggregation, count: [10, 1_000] });
    toy.rates = hot_from(0);
    let mut engine = engine(&toy);
    run(&mut engine, &mut toy, 0..100);
    assert!(hot_share(&toy, 50.0) > 0.97, "{}", hot_share(&toy, 50.0));
    toy.rates = hot_from(3);
    run(&mut engine, &mut toy, 100..200);
    assert!(hot_share(&toy, 50.0) > 0.95, "{}", hot_share(&toy, 50.0));
}

/// Scans find nothing, then three pages of a program that wakes up for a moment, then a hot set.
#[test]
fn attention_is_calm_while_programs_do_nothing() {
    let mut toy = Toy::new(machine(&[2_000, 20_000]), vec![0.0; 16_000], 4);
    let mut engine = engine(&toy);
    run(&mut engine, &mut toy, 0..40);
    assert_eq!(engine.attention(), Attention::Calm);
    toy.rates[..3].fill(100.0);
    run(&mut engine, &mut toy, 40..80);
    assert_eq!(engine.attention(), Attention::Calm);
    toy.rates = skewed(16_000, 100.0, 1.0, 5);
    run(&mut engine, &mut toy, 80..101);
    assert_eq!(engine.attention(), Attention::Alert);
}
