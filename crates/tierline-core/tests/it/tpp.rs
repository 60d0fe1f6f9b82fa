// SPDX-License-Identifier: Apache-2.0
//! TPP part by part (ASPLOS'23, 5): two touches, headroom, counters, and the effect of its switches.

use tierline_core::counters::Counters;
use tierline_core::engine::Engine;
use tierline_core::policy::Policy;
use tierline_core::policy::entry::PolicyEntry;
use tierline_core::port::{Allocation, PageKind, Tracking};
use tierline_core::qos::Limits;
use tierline_core::tier::TierId;
use tierline_core::unit::Nanos;

use crate::contract::{RATE, TICK, skewed};
use crate::toy::{Toy, machine};

fn tpp(switches: &[(&str, f64)]) -> Box<dyn Policy> {
    let mut policy = (PolicyEntry::find("tpp").unwrap().make)();
    for (switch, value) in switches {
        assert!(policy.set(switch, *value), "{switch}");
    }
    policy
}

fn run(policy: Box<dyn Policy>, toy: &mut Toy, ticks: u64) -> Counters {
    run_every(TICK, policy, toy, ticks)
}

fn run_every(tick: Nanos, policy: Box<dyn Policy>, toy: &mut Toy, ticks: u64) -> Counters {
    toy.watch = policy.wants().tracking;
    let mut engine = Engine::new(toy.tiers.clone(), Limits::default(), policy, RATE);
    for i in 0..ticks {
        engine.tick(tick * i, toy);
        engine.pages().check();
    }
    engine.migrator().counts.tiering
}

/// Pages that are accessed all the time, with room for all of them: the number of faults before promotion.
#[test]
fn a_page_is_promoted_at_the_fault_that_the_switches_define() {
    for (switches, faults) in
        [(&[][..], 2), (&[("active_lru", 0.0)][..], 1), (&[("three_faults", 1.0)][..], 3)]
    {
        let mut toy = Toy::new(machine(&[1_000, 8_000]), vec![100.0; 400], 1);
        let counted = run(tpp(switches), &mut toy, 60);
        assert_eq!(toy.used(TierId::FAST), 400, "{switches:?}");
        assert_eq!(counted.promote_sampled, 400 * faults, "{switches:?}");
        assert_eq!(counted.promote_candidate, 400, "{switches:?}");
        assert_eq!((counted.promote_tried, counted.promote_anon), (400, 400), "{switches:?}");
    }
}

#[test]
fn only_pages_below_the_fastest_tier_are_armed() {
    let armed = |name: &str| (PolicyEntry::find(name).unwrap().make)().wants().tracking;
    assert!(matches!(armed("tpp"), Some(Tracking::HintFaults { fast_too: false, .. })));
}

#[test]
fn allocation_follows_the_switches() {
    let allocation = |switches: &[(&str, f64)]| tpp(switches).wants().allocation;
    let kernel = |coupled, by_type| Some(Allocation::Kernel { coupled, by_type });
    assert_eq!(allocation(&[]), kernel(false, false));
    assert_eq!(allocation(&[("decoupled", 0.0)]), kernel(true, false));
    assert_eq!(allocation(&[("by_type", 1.0)]), kernel(false, true));
}

/// 20 % of 2,000 pages.
#[test]
fn cold_pages_of_every_kind_are_demoted_until_the_demotion_watermark_is_free() {
    for kind in [PageKind::Anonymous, PageKind::File, PageKind::Shared] {
        let mut toy = Toy::new(machine(&[2_000, 8_000]), vec![0.0; 2_000], 2);
        toy.kind = kind;
        toy.place = vec![Some(TierId::FAST); 2_000];
        let counted = run(tpp(&[("demote_scale", 0.2)]), &mut toy, 300);
        let free = toy.free(TierId::FAST);
        assert!((400..500).contains(&free), "{kind:?}: {free}");
        let by_kind = match kind {
            PageKind::Anonymous => [counted.demote_anon, counted.demote_file],
            PageKind::File | PageKind::Shared => [counted.demote_file, counted.demote_anon],
        };
        assert_eq!(by_kind, [free, 0], "{kind:?}");
        assert!(toy.paged_out.is_empty(), "there is room below");
    }
}

/// On a slow machine, a tick with many moves takes a second. A page is checked twice before it is demoted.
#[test]
fn the_reclaimer_scans_as_much_in_a_long_tick_as_in_several_short_ones() {
    let mut toy = Toy::new(machine(&[2_000, 8_000]), vec![0.0; 2_000], 2);
    toy.place = vec![Some(TierId::FAST); 2_000];
    run_every(Nanos::from_secs(1), tpp(&[("demote_scale", 0.2)]), &mut toy, 6);
    assert!(toy.free(TierId::FAST) >= 400, "{}", toy.free(TierId::FAST));
}

#[test]
fn without_room_below_only_file_pages_are_paged_out() {
    for (kind, pages_out) in [(PageKind::File, true), (PageKind::Shared, false)] {
        let mut toy = Toy::new(machine(&[2_000, 1_000]), vec![0.0; 2_000], 3);
        toy.kind = kind;
        toy.place = vec![Some(TierId::FAST); 2_000];
        toy.others = vec![0, 1_000];
        run(tpp(&[("demote_scale", 0.2)]), &mut toy, 300);
        assert_eq!(!toy.paged_out.is_empty(), pages_out, "{kind:?}");
    }
}

/// Twice as many pages are hot as fit: not all can be promoted, and every failure has a cause.
#[test]
fn every_attempt_is_a_success_or_has_a_cause() {
    let mut toy = Toy::new(machine(&[600, 8_000]), skewed(8_000, 100.0, 1.0, 4), 5);
    let c = run(tpp(&[]), &mut toy, 300);
    let failed = c.promote_fail_low_memory
        + c.promote_fail_system_low
        + c.promote_fail_references
        + c.promote_fail_gone;
    assert!(c.promote_fail_low_memory > 0, "{c:?}");
    assert!(
        c.promoted() + failed <= c.promote_tried && c.promote_tried <= c.promote_candidate,
        "{c:?}"
    );
    assert!(c.promote_candidate_demoted > 0, "some pages are demoted and promoted again: {c:?}");
}
