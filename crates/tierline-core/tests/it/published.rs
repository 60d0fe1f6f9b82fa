// SPDX-License-Identifier: Apache-2.0
//! What is particular to each published system, seen from outside.

use tierline_core::engine::Engine;
use tierline_core::policy::{Entry, POLICIES};
use tierline_core::qos::Limits;
use tierline_core::tier::TierId;
use tierline_core::unit::Nanos;

use crate::contract::{RATE, TICK, skewed};
use crate::toy::{Toy, machine};

fn engine(policy: &str, toy: &mut Toy, knobs: &[(&str, f64)]) -> Engine {
    let mut policy = (Entry::find(policy).unwrap().make)();
    knobs.iter().for_each(|(knob, value)| assert!(policy.set(knob, *value), "no {knob}"));
    toy.watch = policy.wants().watch;
    Engine::new(toy.tiers.clone(), Limits::default(), policy, RATE)
}

fn run(engine: &mut Engine, toy: &mut Toy, ticks: std::ops::Range<u64>) {
    ticks.for_each(|i| {
        engine.tick(TICK * i, toy);
    });
}

#[test]
fn hemem_needs_eight_samples_and_keeps_no_headroom() {
    let mut toy = Toy::new(machine(&[300, 8_000]), skewed(4_000, 40.0, 0.0, 1), 2);
    let mut hemem = engine("hemem", &mut toy, &[]);
    run(&mut hemem, &mut toy, 0..2);
    assert_eq!(toy.asked.len(), 0, "less than one sample a tick and page");
    run(&mut hemem, &mut toy, 2..40);
    assert_eq!(toy.used(TierId::FAST), 300);
}

#[test]
fn hemem_follows_a_new_hot_set_by_cooling_the_old() {
    let hot = |from: usize| {
        let is_hot = |page| (from..from + 300).contains(&page);
        (0..2_000).map(|page| if is_hot(page) { 60.0 } else { 0.0 }).collect::<Vec<f64>>()
    };
    let mut toy = Toy::new(machine(&[300, 8_000]), hot(0), 2);
    let mut hemem = engine("hemem", &mut toy, &[]);
    run(&mut hemem, &mut toy, 0..100);
    assert!(toy.fast_share() > 0.99, "{}", toy.fast_share());
    toy.rates = hot(1_000);
    run(&mut hemem, &mut toy, 100..200);
    assert!(toy.fast_share() > 0.95, "{}", toy.fast_share());
}

#[test]
fn memtis_fits_its_threshold_to_the_tier_however_cool_its_pages() {
    let mut toy = Toy::new(machine(&[1_000, 8_000]), skewed(4_000, 20.0, 4.0, 4), 5);
    let knobs = [("adaptation_period", 2_000.0), ("cooling_period", 20_000.0)];
    let mut memtis = engine("memtis", &mut toy, &knobs);
    run(&mut memtis, &mut toy, 0..1_000);
    let hot = |toy: &Toy| {
        let pages = toy.rates.iter().zip(&toy.place).filter(|(rate, _)| **rate > 10.0);
        let (fast, all) = pages.fold((0, 0), |(fast, all), (_, place)| {
            (fast + u64::from(*place == Some(TierId::FAST)), all + 1)
        });
        fast * 100 / all
    };
    assert!(hot(&toy) > 85, "{} % of the hot pages", hot(&toy));
    assert!(toy.free(TierId::FAST) > 0, "a watermark is kept free");
}

#[test]
fn tpp_promotes_at_the_second_fault_and_as_patched_at_the_third() {
    for (knob, faults) in [(0.0, 2), (1.0, 3)] {
        let mut toy = Toy::new(machine(&[4_000, 8_000]), vec![1e4; 400], 6);
        let mut tpp = engine("tpp", &mut toy, &[("three_faults", knob)]);
        // A quarter of the pages is armed in a tick, and faults before the next.
        run(&mut tpp, &mut toy, 0..4 * (faults - 1) + 1);
        assert_eq!(toy.asked.len(), 0, "{faults} faults");
        run(&mut tpp, &mut toy, 4 * (faults - 1) + 1..4 * faults + 1);
        assert_eq!(toy.asked.len(), 400, "{faults} faults");
    }
}

#[test]
fn tpp_keeps_its_headroom_by_demoting_what_is_not_used() {
    let mut toy = Toy::new(machine(&[1_000, 8_000]), skewed(4_000, 100.0, 0.0, 7), 8);
    toy.others[0] = 400;
    let mut tpp = engine("tpp", &mut toy, &[]);
    run(&mut tpp, &mut toy, 0..100);
    toy.rates = skewed(4_000, 100.0, 0.0, 9);
    run(&mut tpp, &mut toy, 100..300);
    assert!(toy.free(TierId::FAST) >= 40, "{}", toy.free(TierId::FAST));
    assert!(toy.fast_share() > 0.8, "{}", toy.fast_share());
}

#[test]
fn linux_promotes_what_faults_within_a_second() {
    let rates: Vec<f64> = (0..2_000).map(|i| [20.0, 0.05][i % 2]).collect();
    let mut toy = Toy::new(machine(&[1_200, 8_000]), rates, 10);
    let mut linux = engine("linux", &mut toy, &[]);
    run(&mut linux, &mut toy, 0..40);
    assert!(toy.fast_share() > 0.95, "{}", toy.fast_share());
    let warm = toy.rates.iter().zip(&toy.place).skip(1).step_by(2);
    let warm = warm.filter(|(_, place)| **place == Some(TierId::FAST)).count();
    assert!(warm < 150, "{warm} pages faulted soon by chance");
}

#[test]
fn every_knob_is_named_once_within_its_range_and_can_be_set() {
    for entry in POLICIES {
        let mut policy = (entry.make)();
        let knobs = policy.knobs();
        for (at, knob) in knobs.iter().enumerate() {
            let [least, most] = knob.range;
            assert!((least..=most).contains(&knob.default), "{} {knob:?}", entry.name);
            assert!(knobs[..at].iter().all(|other| other.name != knob.name), "{}", knob.name);
            assert!(policy.set(knob.name, knob.default) && !knob.about.is_empty());
        }
        assert!(!policy.set("no such knob", 1.0));
        if entry.name.ends_with("+colloid") {
            assert!(policy.set("closed_form", 1.0) && policy.set("epsilon", 0.02));
        }
        let quantum = policy.wants().quantum;
        assert!(quantum.is_none_or(|quantum| quantum > Nanos::ZERO));
    }
}
