// SPDX-License-Identifier: Apache-2.0
//! Tests of [`super::AttentionControl`].

use super::*;

fn at(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// A report in which all hits weigh one.
fn report(slow: f64, fast: f64) -> Option<SlowHits> {
    let counts = [slow, fast];
    Some(SlowHits { per_sec: slow, counts, slow_variance: slow, ..SlowHits::default() })
}

fn counted(per_sec: f64) -> Option<SlowHits> {
    report(per_sec, 0.0)
}

fn projected(per_sec: f64) -> Option<SlowHits> {
    Some(SlowHits { per_sec, projected: true, ..SlowHits::default() })
}

/// Calm at a rate of 100 hits a second, at 2.9 s.
fn settled() -> AttentionControl {
    let mut calm = AttentionControl::default();
    for ms in 0..=19 {
        assert_eq!(calm.update(at(100 * ms), counted(100.0), 100, 1_000), Attention::Alert);
    }
    assert_eq!(calm.update(at(2_800), counted(100.0), 0, 1_000), Attention::Alert);
    assert_eq!(calm.update(at(2_900), counted(100.0), 0, 1_000), Attention::Calm);
    calm
}

#[test]
fn it_settles_after_a_while_and_enough_reports() {
    settled();
    let mut calm = AttentionControl::default();
    assert_eq!(calm.update(at(0), counted(100.0), 0, 1_000), Attention::Alert);
    assert_eq!(calm.update(at(60_000), counted(100.0), 0, 1_000), Attention::Alert, "one report");
}

#[test]
fn a_jump_of_the_slow_hit_rate_raises_the_alarm_and_noise_does_not() {
    let mut calm = settled();
    assert_eq!(calm.update(at(5_000), counted(120.0), 0, 1_000), Attention::Calm);
    assert_eq!(calm.update(at(6_000), None, 0, 1_000), Attention::Calm);
    assert_eq!(calm.update(at(7_000), counted(400.0), 0, 1_000), Attention::Alert);
}

/// By hand: the ratio rises from 1/9 to 1. If it stays, 4 900 slow hits of 13 000 since are no improvement
/// by 2.5; if it falls back at once, 1 300 are.
#[test]
fn after_a_change_without_improvement_further_ones_are_ignored_for_a_while() {
    let report = |slow: f64| report(slow, 1_000.0 - slow);
    let again = |between: f64, seconds: u64| {
        let mut calm = AttentionControl::default();
        let mut changed = |ms, slow| {
            calm.update(at(ms), report(slow), 0, 1_000);
            calm.is_phase_change()
        };
        assert!((0..8).all(|i| !changed(100 * i, 100.0)));
        assert!(changed(800, 500.0));
        assert!((9..18).all(|i| !changed(100 * i, between)));
        assert!((18..22).all(|i| !changed(100 * i, 100.0)));
        changed(800 + 1_000 * seconds, 500.0)
    };
    assert!(again(100.0, 2), "placement improved");
    assert!(!again(500.0, 2), "no improvement");
    assert!(again(500.0, 10), "long ago");
}

/// Only a full report can be a phase change, so a false alarm by a sample does not make the next one ignored.
#[test]
fn a_false_alarm_of_a_projection_leaves_the_next_change_to_be_followed() {
    let mut calm = AttentionControl::default();
    for ms in 0..=30 {
        calm.update(at(100 * ms), report(100.0, 900.0), 0, 1_000);
    }
    for _ in 0..4 {
        calm.update(at(4_000), projected(100.0), 0, 1_000);
    }
    let suspected = calm.update(at(5_000), projected(300.0), 0, 1_000);
    assert_eq!(suspected, Attention::Suspicious);
    assert!(!calm.is_phase_change(), "a suspicion");
    calm.update(at(5_100), report(100.0, 900.0), 0, 1_000);
    assert!(!calm.is_phase_change(), "dropped");
    calm.update(at(6_000), projected(600.0), 0, 1_000);
    calm.update(at(6_100), report(600.0, 400.0), 0, 1_000);
    assert!(calm.is_phase_change(), "the hot set has moved");
}

/// A program that waits for slow memory makes fewer accesses, slow ones too.
#[test]
fn a_shift_of_hits_to_slow_memory_raises_the_alarm_at_an_equal_total() {
    let mut calm = AttentionControl::default();
    for ms in 0..=30 {
        calm.update(at(100 * ms), report(300.0, 700.0), 0, 1_000);
    }
    assert_eq!(calm.update(at(4_000), report(400.0, 800.0), 0, 1_000), Attention::Calm);
    assert_eq!(calm.update(at(5_000), report(330.0, 20.0), 0, 1_000), Attention::Alert);
    assert!(calm.is_phase_change());
}

/// Slow accesses rise from 200 to 600, with 800 fast ones. Three hits of weight 200 may be one by chance.
#[test]
fn few_heavy_hits_are_weaker_evidence_than_many_light_ones() {
    let is_change = |weight: f64| {
        let mut calm = AttentionControl::default();
        let mut report = |ms, slow: f64| {
            let (counts, slow_variance) = ([slow * weight, 800.0], slow * weight * weight);
            let per_sec = slow * weight;
            let report = SlowHits { per_sec, counts, slow_variance, ..SlowHits::default() };
            calm.update(at(ms), Some(report), 0, 1_000);
            calm.is_phase_change()
        };
        assert!((0..8).all(|i| !report(100 * i, 200.0 / weight)));
        report(900, 600.0 / weight)
    };
    assert!(is_change(1.0) && !is_change(200.0));
}

/// All hot pages are slow at first, then fast, then slow again.
#[test]
fn many_slow_hits_at_the_start_do_not_hide_a_later_rise() {
    let mut calm = AttentionControl::default();
    for ms in 0..8 {
        calm.update(at(100 * ms), report(30_000.0, 1.0), 100, 1_000);
    }
    for ms in 8..30 {
        calm.update(at(100 * ms), report(300.0, 30_000.0), 0, 1_000);
    }
    assert_eq!(calm.update(at(5_000), report(300.0, 30_000.0), 0, 1_000), Attention::Calm);
    assert_eq!(calm.update(at(9_000), report(15_000.0, 3_000.0), 0, 1_000), Attention::Alert);
}

/// While memory is filled, it is all slow. Then the hot pages are placed, and three reports later they are others.
#[test]
fn a_jump_soon_after_the_first_placement_raises_the_alarm_though_it_is_not_yet_calm() {
    let (mut calm, mut of_pages) = (AttentionControl::default(), 1_000);
    let mut tell = |ms, slow: f64, fast: f64, of_pages| {
        let planned =
            PlannedMoves { moves: 0, of_pages, backlog: false, behind: false, fits: false };
        calm.next_attention(at(ms), report(slow, fast), planned)
    };
    for ms in 0..18 {
        of_pages += of_pages / 10;
        tell(100 * ms, 8_000.0, 2.0, of_pages);
    }
    for (ms, slow) in (18..).zip([31.0, 25.0, 23.0, 11.0, 8.0, 8.0, 8.0]) {
        assert_eq!(tell(100 * ms, slow * 1e3, (33.0 - slow) * 1e3, of_pages), None);
    }
    assert_eq!(tell(9_000, 30_000.0, 3_000.0, of_pages), Some(Attention::Alert), "told again");
    assert!(calm.is_phase_change());
}

#[test]
fn memory_that_fits_needs_no_close_observation() {
    for (fits, expected) in [(false, Attention::Alert), (true, Attention::Calm)] {
        let mut control = AttentionControl::default();
        let planned =
            PlannedMoves { moves: 0, of_pages: 1_000, backlog: false, behind: false, fits };
        control.next_attention(at(0), report(0.0, 1_000.0), planned);
        assert_eq!(control.attention(), expected);
    }
}

#[test]
fn a_projection_raises_the_alarm_once_counts_are_known() {
    let mut calm = settled();
    assert_eq!(calm.update(at(5_000), projected(40.0), 0, 1_000), Attention::Calm);
    assert_eq!(calm.update(at(6_000), counted(110.0), 0, 1_000), Attention::Calm, "as usual");
    assert_eq!(calm.update(at(7_000), projected(300.0), 0, 1_000), Attention::Suspicious);
}

/// Samples show 12,000 hits a second before pages are placed, scans 10,000 before and 1,000 after.
#[test]
fn samples_from_before_pages_were_placed_do_not_hide_a_rise() {
    let mut calm = AttentionControl::default();
    let mut tell = |ms, report| calm.update(at(ms), report, 0, 1_000);
    (0..8).for_each(|ms| _ = tell(100 * ms, counted(10_000.0)));
    tell(850, projected(12_000.0));
    (9..40).for_each(|ms| _ = tell(100 * ms, counted(1_000.0)));
    assert_eq!(tell(4_500, projected(1_300.0)), Attention::Calm);
    assert_eq!(tell(5_000, projected(8_000.0)), Attention::Suspicious);
}

/// By hand: with a usual rate of 100, 40 hits of which 20 are expected are 4.5 standard deviations, and 10 of which 5
/// are expected 2.2; 4 of which 2 are expected are 1.4, and 140 of which 100 are expected are 4, but a rise by 1.4 only.
#[test]
fn a_small_rise_is_a_suspicion_if_many_hits_show_it() {
    let report = |per_sec, hits, dispersion| {
        let mut calm = AttentionControl { dispersion, ..settled() };
        let sampled = Some(SampledHits { hits, variance: hits });
        let report = SlowHits { per_sec, projected: true, sampled, ..SlowHits::default() };
        calm.update(at(5_000), Some(report), 0, 1_000)
    };
    assert_eq!(report(200.0, 40.0, 1.0), Attention::Suspicious);
    assert_eq!(report(200.0, 10.0, 1.0), Attention::Suspicious);
    assert_eq!(report(200.0, 4.0, 1.0), Attention::Calm);
    assert_eq!(report(140.0, 140.0, 1.0), Attention::Calm);
    assert_eq!(report(200.0, 40.0, 16.0), Attention::Calm, "neighbours are accessed together");
}

/// Memory grows by a tenth between two reports, for three seconds; then sixteen reports count.
#[test]
fn while_a_program_fills_its_memory_no_report_counts() {
    let mut calm = AttentionControl::default();
    let mut pages = 1_000;
    for ms in 0..30 {
        pages += pages / 10;
        assert_eq!(calm.update(at(100 * ms), counted(100.0), 0, pages), Attention::Alert);
    }
    let calm_after =
        (30..99).find(|ms| calm.update(at(100 * ms), counted(100.0), 0, pages) == Attention::Calm);
    assert_eq!(
        calm_after,
        Some(30 + u64::from(REPORTS) - 2),
        "the last growing one is the first of them"
    );
}

/// After a report in which the program stood still, twice the rate of before, with the same ratio of slow to fast hits or another.
#[test]
fn a_rise_of_the_rate_alone_is_worth_one_report() {
    let reports = |fast_hits: f64| {
        let mut calm = AttentionControl::default();
        let before = |ms: u64| at(100 * ms);
        (0..40).for_each(|ms| _ = calm.update(before(ms), report(100.0, 900.0), 0, 1_000));
        assert_eq!(calm.update(at(4_000), report(10.0, 90.0), 0, 1_000), Attention::Calm);
        let later = (1..99).find(|ms| {
            let now = at(4_000 + 100 * ms);
            calm.update(now, report(300.0, fast_hits), 0, 1_000) == Attention::Calm
        });
        later.expect("it settles")
    };
    assert_eq!(reports(2_700.0), 2, "the next one decides");
    assert!(reports(900.0) > u64::from(REPORTS_AFTER_ALARM), "the ratio tripled, too");
}

#[test]
fn one_count_confirms_or_drops_the_alarm_of_a_projection() {
    let projected = projected(300.0);
    let mut calm = settled();
    let suspected = Attention::Suspicious;
    assert_eq!(calm.update(at(7_000), projected, 0, 1_000), suspected);
    assert_eq!(calm.update(at(7_100), None, 0, 1_000), suspected, "nothing was watched");
    let mut other = calm.clone();
    assert_eq!(calm.update(at(7_200), counted(110.0), 0, 1_000), Attention::Calm);
    assert_eq!(other.update(at(7_200), counted(400.0), 0, 1_000), Attention::Alert);
    assert_eq!(other.update(at(8_300), counted(400.0), 0, 1_000), Attention::Alert);
}

#[test]
fn a_tail_of_moves_does_not_keep_it_alert() {
    let mut calm = settled();
    assert_eq!(calm.update(at(7_000), counted(400.0), 0, 100_000), Attention::Alert);
    for ms in 71..=91 {
        calm.update(at(100 * ms), counted(400.0), 90, 100_000);
    }
    assert_eq!(calm.update(at(9_200), counted(400.0), 90, 100_000), Attention::Calm);
}
