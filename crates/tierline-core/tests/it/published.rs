// SPDX-License-Identifier: Apache-2.0
//! The particular behaviour of each published system.

use tierline_core::engine::Engine;
use tierline_core::policy::parts::watermarks::Watermarks;
use tierline_core::policy::{POLICIES, entry::PolicyEntry};
use tierline_core::port::{PageKind, Tracking};
use tierline_core::qos::Limits;
use tierline_core::tier::TierId;
use tierline_core::unit::{Bytes, Nanos};

use crate::contract::{RATE, skewed};
use crate::toy::{Toy, machine, run};

fn engine(policy: &str, toy: &mut Toy, knobs: &[(&str, f64)]) -> Engine {
    let mut policy = (PolicyEntry::find(policy).unwrap().make)();
    knobs.iter().for_each(|(knob, value)| assert!(policy.set(knob, *value), "no {knob}"));
    toy.watch = policy.wants().tracking;
    Engine::new(toy.tiers.clone(), Limits::default(), policy, RATE)
}

#[test]
fn hemem_needs_eight_samples_and_keeps_no_headroom() {
    let mut toy = Toy::new(machine(&[300, 8_000]), skewed(4_000, 40.0, 0.0, 1), 2);
    let mut hemem = engine("hemem", &mut toy, &[]);
    run(&mut hemem, &mut toy, 0..2);
    assert_eq!(toy.asked.len(), 0, "less than one sample per tick and page");
    run(&mut hemem, &mut toy, 2..40);
    assert_eq!(toy.used(TierId::FAST), 300);
}

#[test]
fn hemem_promotes_a_new_hot_set_as_the_old_one_cools() {
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
fn memtis_fits_its_threshold_to_the_tier_at_low_rates() {
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
        // A quarter of the pages is armed per tick, and faults before the next.
        run(&mut tpp, &mut toy, 0..4 * (faults - 1) + 1);
        assert_eq!(toy.asked.len(), 0, "{faults} faults");
        run(&mut tpp, &mut toy, 4 * (faults - 1) + 1..4 * faults + 1);
        assert_eq!(toy.asked.len(), 400, "{faults} faults");
    }
}

#[test]
fn tpp_keeps_its_headroom_by_demoting_unused_pages() {
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
fn linux_promotes_pages_that_fault_within_a_second() {
    let rates: Vec<f64> = (0..2_000).map(|i| [20.0, 0.05][i % 2]).collect();
    let mut toy = Toy::new(machine(&[1_200, 8_000]), rates, 10);
    let mut linux = engine("linux", &mut toy, &[]);
    run(&mut linux, &mut toy, 0..40);
    assert!(toy.fast_share() > 0.95, "{}", toy.fast_share());
    let warm = toy.rates.iter().zip(&toy.place).skip(1).step_by(2);
    let warm = warm.filter(|(_, place)| **place == Some(TierId::FAST)).count();
    assert!(warm < 150, "{warm} warm pages were promoted");
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

#[test]
fn autonuma_migrates_at_the_second_fault_and_before_5_18_at_the_first() {
    for (knob, faults) in [(0.0, 1), (1.0, 2)] {
        let mut toy = Toy::new(machine(&[4_000, 8_000]), vec![1e4; 400], 6);
        let mut autonuma = engine("autonuma", &mut toy, &[("two_faults", knob)]);
        // A quarter of the pages is armed per tick, and faults before the next.
        run(&mut autonuma, &mut toy, 0..4 * (faults - 1) + 1);
        assert_eq!(toy.asked.len(), 0, "{faults} faults");
        run(&mut autonuma, &mut toy, 4 * (faults - 1) + 1..4 * faults + 1);
        assert_eq!(toy.asked.len(), 400, "{faults} faults");
    }
}

/// It stops at the high watermark, demotes nothing, and doubles the scan period after each scan.
#[test]
fn autonuma_stops_when_fast_memory_is_full() {
    let mut toy = Toy::new(machine(&[1_000, 8_000]), vec![10.0; 4_000], 7);
    let mut autonuma = engine("autonuma", &mut toy, &[]);
    run(&mut autonuma, &mut toy, 0..100);
    let full = toy.asked.len();
    let high = toy.free(TierId::FAST);
    assert!(
        (50..100).contains(&high),
        "{high} of 1000 pages are free: 50 by the minimum for huge pages"
    );
    run(&mut autonuma, &mut toy, 100..2_000);
    assert_eq!(toy.asked.len(), full, "no further moves");
    assert!(toy.asked.iter().all(|(m, _)| m.to == TierId::FAST), "nothing is ever demoted");
    let Some(Tracking::HintFaults { pass, .. }) = autonuma.policy().wants().tracking else {
        panic!("no hint faults requested")
    };
    assert_eq!(pass, Nanos::from_secs(60));
    assert_eq!(toy.watch, autonuma.policy().wants().tracking, "the world got the request");
}

/// Of 1000 pages, 300 are accessed all the time, half of them in slow memory; the others once in ten scans. The
/// first are promoted and stay.
#[test]
fn autotiering_demotes_the_least_accessed_page_for_one_that_faults() {
    let rates: Vec<f64> = (0..1_000).map(|page| if page % 10 < 3 { 50.0 } else { 0.1 }).collect();
    for background in [0.0, 1.0] {
        let mut toy = Toy::new(machine(&[400, 8_000]), rates.clone(), 8);
        (0..350).for_each(|page| toy.place[page] = Some(TierId::FAST));
        let knobs =
            [("background_demotion", background), ("scan_period_max", 1.0), ("reserve", 65_536.0)];
        let mut autotiering = engine("autotiering", &mut toy, &knobs);
        run(&mut autotiering, &mut toy, 0..400);
        let share = toy.fast_share();
        assert!(share > 0.97, "background {background}: {share}");
        assert!(toy.asked.iter().any(|(m, _)| m.to > TierId::FAST));
    }
}

/// Fast memory is full and no slow page faults: files are paged out up to the high watermark as without
/// tiering, private pages are not, and in background mode only as many pages are demoted as the reserve needs.
#[test]
fn autotiering_demotes_for_promotions_and_pages_out_files_for_allocations() {
    for kind in [PageKind::File, PageKind::Anonymous] {
        let mut toy = Toy::new(machine(&[2_000, 8_000]), vec![0.0; 1_990], 12);
        toy.kind = kind;
        toy.place = vec![Some(TierId::FAST); 1_990];
        let knobs = [("background_demotion", 1.0), ("reserve", 65_536.0)];
        let mut autotiering = engine("autotiering", &mut toy, &knobs);
        run(&mut autotiering, &mut toy, 0..200);
        let marks = Watermarks::of(Bytes::from_base_pages(2_000));
        let free = toy.free(TierId::FAST);
        assert_eq!(kind == PageKind::File, !toy.paged_out.is_empty(), "{kind:?}");
        match kind {
            PageKind::File => assert!(free >= marks.high.base_pages(), "{free}"),
            _ => assert_eq!(free, marks.low.base_pages() + 16),
        }
    }
}

/// CPM alone never demotes; OPM refuses a page that is no hotter than the coldest fast page.
#[test]
fn autotiering_refuses_pages_no_hotter_than_the_least_accessed() {
    for opm in [0.0, 1.0] {
        let mut toy = Toy::new(machine(&[400, 8_000]), vec![1e3; 1_000], 9);
        let knobs = [("opm", opm), ("scan_period_max", 1.0)];
        let mut autotiering = engine("autotiering", &mut toy, &knobs);
        run(&mut autotiering, &mut toy, 0..200);
        assert!(toy.asked.iter().all(|(m, _)| m.to == TierId::FAST), "opm {opm}");
        assert!(toy.used(TierId::FAST) > 300);
    }
}

/// Hot regions are promoted until 99.7 % is used, cold ones are demoted while less than 0.5 % is free, and a
/// page of a hot region without accesses of its own stays in place.
#[test]
fn damon_fills_fast_memory_to_its_goals_with_accessed_pages() {
    let hot = |page: usize| page % 160 < 64 && !page.is_multiple_of(16);
    let rates =
        |shift: usize| (0..4_000).map(|page| if hot(page + shift) { 80.0 } else { 0.0 }).collect();
    let mut toy = Toy::new(machine(&[2_000, 8_000]), rates(0), 10);
    let mut damon = engine("damon", &mut toy, &[]);
    run(&mut damon, &mut toy, 0..200);
    assert!(toy.fast_share() > 0.97, "{}", toy.fast_share());
    assert!(toy.asked.iter().all(|(m, _)| hot(usize::try_from(m.vpn.0).unwrap())));
    toy.rates = rates(80);
    run(&mut damon, &mut toy, 200..600);
    assert!(toy.fast_share() > 0.9, "{}", toy.fast_share());
    let demoted = toy.asked.iter().filter(|(m, _)| m.to > TierId::FAST);
    assert!(demoted.count() > 500);
}

/// The quota is in bytes per interval: 1 MiB is 256 pages.
#[test]
fn damon_tries_no_more_than_its_quota() {
    let mut toy = Toy::new(machine(&[4_000, 8_000]), vec![100.0; 4_000], 11);
    let mut damon = engine("damon", &mut toy, &[("quota", 1_048_576.0), ("tuner", 0.0)]);
    for second in 1..10 {
        run(&mut damon, &mut toy, second * 10..second * 10 + 10);
        let asked = u64::try_from(toy.asked.len()).unwrap();
        assert!(asked <= 256 * second, "{asked} after {second} s");
    }
    assert!(toy.asked.len() > 1_500);
}

#[test]
fn arms_packs_the_hottest_pages_and_leaves_pages_that_differ_by_noise() {
    let mut toy = Toy::new(machine(&[700, 8_000]), skewed(4_000, 100.0, 5.0, 7), 8);
    let mut arms = engine("arms", &mut toy, &[]);
    run(&mut arms, &mut toy, 0..400);
    let hot = toy.rates.iter().zip(&toy.place).filter(|(rate, _)| **rate > 50.0);
    let slow = hot.filter(|(_, place)| **place != Some(TierId::FAST)).count();
    assert_eq!(slow, 0, "hot pages in slow memory");
    let before = toy.asked.len();
    run(&mut arms, &mut toy, 400..600);
    let late = toy.asked.len() - before;
    assert!(late < 200, "{late} moves among 3500 pages that are alike");
}

/// With two rounds, no page is a candidate after one interval.
#[test]
fn arms_promotes_after_two_rounds() {
    for (rounds, first) in [(1.0, 1), (2.0, 2), (6.0, 6)] {
        let mut toy = Toy::new(machine(&[700, 8_000]), vec![1e4; 400], 9);
        let knobs = [("rounds", rounds), ("slack", 10.0), ("quantum", 0.5)];
        let mut arms = engine("arms", &mut toy, &knobs);
        // The first tick ends an interval, too; the next ends five ticks later.
        run(&mut arms, &mut toy, 0..5 * (first - 1));
        assert_eq!(toy.asked.len(), 0, "{rounds} rounds");
        run(&mut arms, &mut toy, 5 * (first - 1)..5 * first + 10);
        assert_eq!(toy.used(TierId::FAST), 400, "{rounds} rounds");
    }
}

#[test]
fn arms_detects_a_new_hot_set_and_samples_more_densely_for_a_while() {
    let hot = |from: usize| {
        let is_hot = |page| (from..from + 300).contains(&page);
        (0..2_000).map(|page| if is_hot(page) { 60.0 } else { 1.0 }).collect::<Vec<f64>>()
    };
    let follows = |detection: f64| {
        let mut toy = Toy::new(machine(&[300, 8_000]), hot(0), 2);
        let mut arms = engine("arms", &mut toy, &[("change_detection", detection)]);
        run(&mut arms, &mut toy, 0..300);
        assert!(toy.fast_share() > 0.85, "{}", toy.fast_share());
        assert_eq!(arms.policy().wants().quantum, Some(Nanos::from_millis(500)));
        toy.rates = hot(1_000);
        run(&mut arms, &mut toy, 300..307);
        let close = arms.policy().wants();
        run(&mut arms, &mut toy, 307..360);
        (close, toy.fast_share())
    };
    let (close, with) = follows(1.0);
    assert_eq!(close.quantum, Some(Nanos::from_millis(100)));
    assert!(matches!(close.tracking, Some(Tracking::Samples { loads: 5_000, .. })), "{close:?}");
    let (far, without) = follows(0.0);
    assert_eq!(far.quantum, Some(Nanos::from_millis(500)));
    assert!(with > 0.8 && with > without + 0.1, "{with} after 6 s, without it {without}");
}
