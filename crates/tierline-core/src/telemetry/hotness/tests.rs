// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::page::PageTable;
use crate::port::{PageKind, PageSize, Region, SpaceEvent, SpaceId, Vpn};
use crate::rng::Rng;
use crate::telemetry::estimate::{MOST_ACCESSES, expected_rate};
use proptest::prelude::*;

const BASE: PageSize = PageSize::Base;

/// By hand: among pages with 10 accesses a second on average, one idle for 0.9 s is expected to get 1 / (0.1 +
/// 0.9), one hit after 0.1 s 2 / (0.1 + 0.1).
#[test]
fn the_expected_rate_starts_at_the_mean_and_falls_with_idle_time() {
    let near = |a: f32, b: f32| assert!((a - b).abs() < 1e-4, "{a} is not {b}");
    near(expected_rate(10.0, 0.0, 0.0), 10.0);
    near(expected_rate(10.0, 0.0, 0.9), 1.0);
    near(expected_rate(10.0, 1.0, 0.1), 10.0);
    near(expected_rate(f32::INFINITY, 0.0, 0.5), 2.0);
    assert!(expected_rate(f32::INFINITY, 0.0, 0.0).is_infinite(), "no prior and no evidence");
}

/// The heat after storage in a page table.
fn packed(heat: Heat) -> Heat {
    let (mut table, space) = (PageTable::default(), SpaceId(1));
    let (size, kind) = (PageSize::Base, PageKind::Anonymous);
    let region = Region { space, start: Vpn(0), base_pages: 1, size, kind };
    table.apply(SpaceEvent::Mapped(region));
    let page = table.find(space, Vpn(0)).expect("mapped");
    table.set_heat(page, heat);
    table.heat(page)
}

#[test]
fn the_rate_is_hits_over_exposure() {
    let hotness = Hotness::default();
    let mut heat = hotness.new_page();
    for _ in 0..4 {
        heat = hotness.hit(heat, 1.0, Some(Nanos::from_millis(10)));
    }
    let got = hotness.estimate(heat, BASE);
    assert!((got.rate_per_sec() - 100.0).abs() < 1.0, "{got:?}");
    assert!((got.at_least_per_sec() - 38.2).abs() < 0.1, "(4 + 2 - 2·√5) / 40 ms");
}

/// Three scans of 20 ms and the prior one: Wilson's lower bound of 3 in 4 at two deviations is (3 + 2 -
/// 2·√(3/4 + 1)) / 8.
#[test]
fn a_page_seen_in_every_scan_gets_a_bounded_rate() {
    let mut hotness = Hotness::default();
    hotness.set_windows(Nanos::from_millis(20), Nanos::from_millis(20), Nanos::from_millis(20));
    let (mut always, never) = (hotness.new_page(), hotness.new_page());
    for _ in 0..3 {
        hotness.advance(Nanos::from_millis(20));
        always = hotness.hit(always, 1.0, None);
    }
    let (always, never) = (hotness.estimate(always, BASE), hotness.estimate(never, BASE));
    let of_share = |p: f32| -(1.0 - p).ln() / 0.02;
    assert!((always.at_least_per_sec() / of_share(0.2943) - 1.0).abs() < 0.02, "{always:?}");
    assert!(never.at_least_per_sec() == 0.0 && never.at_most_per_sec() > 5.0, "{never:?}");
}

#[test]
fn a_page_with_new_accesses_is_hot_within_a_few_scans() {
    let mut hotness = Hotness::default();
    let look = Nanos::from_millis(20);
    hotness.set_windows(look, look, look);
    hotness.set_remembered_time(look * 16);
    hotness.set_urgent(true);
    let mut heat = hotness.new_page();
    hotness.advance(look * 16);
    for _ in 0..4 {
        hotness.advance(look);
        heat = hotness.hit(heat, 1.0, None);
    }
    assert!(
        hotness.estimate(heat, BASE).at_least_per_sec() > 15.0,
        "{:?}",
        hotness.estimate(heat, BASE)
    );
}

/// Hits in a row until a page that was idle has a fifth of the highest rate, as one that both of two scans find.
#[test]
fn where_most_pages_are_found_again_two_scans_tell_that_an_idle_page_became_hot() {
    let hits_needed = |(share, size, again): (Option<f64>, PageSize, u64)| {
        let mut hotness = Hotness::default();
        let look = Nanos::from_millis(20);
        hotness.set_windows(look, look, look);
        hotness.set_remembered_time(look * 16);
        hotness.set_urgent(true);
        hotness.set_found_again(share);
        hotness.set_population(Population::of(10_000, 1_000, again));
        let mut heat = hotness.new_page();
        hotness.advance(look * 16);
        let is_hot = |_: &usize| {
            hotness.advance(look);
            heat = hotness.hit_update(size).apply(heat, 1.0, None, false);
            hotness.estimate(heat, size).at_least_per_sec() > 0.2 * hotness.ceiling_per_sec(size)
        };
        (1..20).find(is_hot).expect("accessed in each scan")
    };
    let cases = [(Some(0.8), BASE, 0), (Some(0.6), BASE, 0), (None, BASE, 400), (None, BASE, 120)];
    assert_eq!(cases.map(hits_needed), [2, 3, 2, 3]);
    assert_eq!(hits_needed((None, PageSize::Huge, 0)), 2);
}

/// A page idle for eight scans is hit, and again in a second look: as hot as one that was watched for these two windows only.
/// One that was hit before keeps its evidence.
#[test]
fn a_page_that_a_second_look_finds_again_starts_anew() {
    let mut hotness = Hotness::default();
    let look = Nanos::from_millis(20);
    hotness.set_windows(look, look, look);
    hotness.set_remembered_time(look * 16);
    let (idle, mut warm) = (hotness.new_page(), hotness.new_page());
    hotness.advance(look * 4);
    warm = hotness.hit(warm, 1.0, None);
    hotness.advance(look * 4);
    let found = |heat| {
        let hit = hotness.hit(heat, 1.0, None);
        let both = hotness.hit(hit, 1.0, Some(look));
        hotness.estimate(both, BASE)
    };
    let (idle, warm) = (found(idle), found(warm));
    assert_eq!((idle.hits, idle.scans()), (2.0, Some(2.0)), "{idle:?}");
    assert_eq!((warm.hits, warm.scans().map(f32::round)), (3.0, Some(9.0)), "{warm:?}");
    assert!(idle.at_least_per_sec() > warm.at_least_per_sec(), "{idle:?} {warm:?}");
}

/// A page that one of eight scans found becomes hot; a scan of settled placement finds it and shows that placement is off. The
/// scans until the page has a fifth of the highest rate, that one included.
#[test]
fn the_scan_that_shows_a_change_is_the_first_that_tells_of_it() {
    let scans_needed = |share: Option<f64>, size: PageSize| {
        let mut hotness = Hotness::default();
        let look = Nanos::from_millis(20);
        hotness.set_remembered_time(look * 16);
        hotness.set_found_again(share);
        let mut heat = hotness.new_page();
        let mut scan = |finds: bool, urgent: bool| {
            hotness.set_windows(look, look, look);
            hotness.advance(look);
            if finds {
                heat = hotness.hit_update(size).apply(heat, 1.0, None, false);
            }
            hotness.set_urgent(urgent);
            hotness.estimate(heat, size).at_least_per_sec() > 0.2 * hotness.ceiling_per_sec(size)
        };
        for at in 0..32 {
            scan(at % 8 == 7, false);
        }
        (1..20).find(|_| scan(true, true)).expect("accessed in each scan")
    };
    assert_eq!(scans_needed(Some(0.8), BASE), 2);
    assert!(scans_needed(Some(0.6), BASE) > 2);
    assert_eq!(scans_needed(Some(0.6), PageSize::Huge), 2, "there are few of them");
}

/// Reports of twenty scans, each of which sees the page sixteen times: four without an access are no idle time.
#[test]
fn scans_batched_in_one_report_are_not_counted_as_idle_time() {
    let mut hotness = Hotness::default();
    let look = Nanos::from_millis(10);
    hotness.set_windows(look, look, look * 20);
    hotness.set_remembered_time(look * 100);
    hotness.set_urgent(true);
    let mut heat = hotness.new_page();
    let mut bounds = Vec::new();
    for silent in [200, 0, 0] {
        hotness.advance(look * (silent + 20));
        heat = hotness.hit(heat, 16.0, None);
        bounds.push(hotness.estimate(heat, BASE).at_least_per_sec());
    }
    let of_share = |p: f32| -(1.0 - p).ln() / 0.01;
    assert!(bounds.iter().all(|&bound| bound > of_share(0.4)), "{bounds:?}");
    assert!(bounds.iter().all(|&bound| bound < of_share(0.8)), "{bounds:?}");
}

/// Pages seen in every tenth scan, for 256 scans: the number that ever looks like a page of a fifth of the
/// highest rate.
#[test]
fn false_positives_do_not_add_up_while_placement_is_off() {
    let look = Nanos::from_millis(20);
    let lucky = |hurry_anew_every: u32| {
        let (mut rng, mut hotness) = (Rng::new(11), Hotness::default());
        hotness.set_windows(look, look, look);
        hotness.set_remembered_time(look * 16);
        let mut heats = vec![hotness.new_page(); 1_000];
        let mut ever = vec![false; heats.len()];
        for i in 0..256 {
            hotness.set_urgent(i % hurry_anew_every != 0);
            hotness.set_windows(look, look, look);
            hotness.advance(look);
            for (heat, ever) in heats.iter_mut().zip(&mut ever) {
                if rng.below(10) == 0 {
                    *heat = hotness.hit(*heat, 1.0, None);
                    let bound = hotness.estimate(*heat, BASE).at_least_per_sec();
                    *ever |= bound > 0.2 * hotness.ceiling_per_sec(BASE);
                }
            }
        }
        ever.iter().filter(|&&ever| ever).count()
    };
    let (many, one) = (lucky(8), lucky(1_000));
    assert!(
        many > 4 * one && one < 50,
        "{many} by chance with a new alert every eight scans, {one} with one alert"
    );
}

#[test]
fn a_known_rate_replaces_the_estimate() {
    let hotness = Hotness::default();
    for rate in [0.0, 3.0, 1e6] {
        let got = hotness.estimate(hotness.heat_of_rate(rate, BASE), BASE).rate_per_sec();
        assert!((got - rate).abs() <= 1e-3 * rate + 1e-30, "{rate}: {got}");
    }
}

/// By hand: 100 hits in 2 s are 50 accesses a second, and are stored as 15 in 0.3 s. A page that is not reported again for
/// 4 s was not reported for 2 s longer than it had to be: 15 hits in 2.3 s, decayed to 2 s.
#[test]
fn a_page_that_cannot_be_reported_again_yet_stays_hot() {
    let (mut hotness, interval) = (Hotness::default(), Nanos::from_secs(2));
    hotness.set_remembered_time(interval);
    hotness.set_report_interval(interval);
    let heat = hotness.new_page();
    hotness.advance(interval);
    let heat = packed(hotness.hit(heat, 100.0, None));
    hotness.advance(Nanos::from_millis(1_990));
    let rate = hotness.estimate(heat, BASE).rate_per_sec();
    assert!((rate / 50.0 - 1.0).abs() < 0.02, "{rate}");
    hotness.advance(Nanos::from_millis(2_010));
    let rate = hotness.estimate(heat, BASE).rate_per_sec();
    assert!((rate / 6.45 - 1.0).abs() < 0.05, "{rate}");
}

#[test]
fn time_without_watching_does_not_cool_a_page() {
    let mut hotness = Hotness::default();
    let heat = hotness.hit(hotness.new_page(), 2.0, Some(Nanos::from_millis(20)));
    let before = hotness.estimate(heat, BASE);
    assert_eq!(hotness.estimate(heat, BASE), before);
    hotness.advance(Nanos::from_millis(20));
    assert!(hotness.estimate(heat, BASE).rate_per_sec() < 0.6 * before.rate_per_sec());
}

/// A page of 100 hits a second falls idle, another one gets hot, and a phase change is reported: half a second
/// separates them. Without the report the first is taken for hot longer.
#[test]
fn a_phase_change_discards_earlier_samples() {
    let tenth = Nanos::from_millis(100);
    let bounds_after = |change: bool| {
        let mut hotness = Hotness::default();
        let (mut old, mut new) = (hotness.new_page(), hotness.new_page());
        for _ in 0..100 {
            hotness.advance(tenth);
            old = hotness.hit(old, 10.0, None);
        }
        hotness.advance(tenth);
        if change {
            hotness.discard_samples();
        }
        for _ in 0..5 {
            hotness.advance(tenth);
            new = hotness.hit(new, 2.0, None);
        }
        (
            hotness.estimate(old, BASE).at_most_per_sec(),
            hotness.estimate(new, BASE).at_least_per_sec(),
        )
    };
    let (old, new) = bounds_after(true);
    assert!(old < new, "{old} {new}");
    let (old, new) = bounds_after(false);
    assert!(old > new, "{old} {new}");
}

#[test]
fn a_page_that_turned_cold_is_forgotten_within_its_memory() {
    let mut hotness = Hotness::default();
    hotness.set_remembered_time(Nanos::from_secs(1));
    let heat = hotness.hit(hotness.new_page(), 15.0, Some(Nanos::from_millis(100)));
    hotness.advance(Nanos::from_secs(20));
    assert!(hotness.estimate(heat, BASE).rate_per_sec() < 1.0);
}

/// Page A is accessed 100 times a second, page B 3 times: windows of 20 ms separate them.
#[test]
fn windows_separate_hot_from_warm_whatever_the_pauses() {
    let mut rng = Rng::new(7);
    let mut hotness = Hotness::default();
    hotness.set_remembered_time(Nanos::from_millis(320));
    let mut heats = [hotness.new_page(); 2];
    for _ in 0..64 {
        hotness.advance(Nanos::from_millis(20));
        for (heat, rate) in heats.iter_mut().zip([100.0, 3.0]) {
            if rng.exponential(rate) < 0.020 {
                *heat = hotness.hit(*heat, 1.0, None);
            }
        }
    }
    let [hot, warm] = heats.map(|heat| hotness.estimate(heat, BASE));
    assert!(hot.at_least_per_sec() > 20.0 && warm.at_least_per_sec() < 5.0, "{hot:?} {warm:?}");
}

/// Scans with windows of 20 ms for base pages and 0.1 ms for huge ones. A page seen in every second scan has
/// ln 2 accesses per window of its size, and one seen in every scan is at the limit of its size.
#[test]
fn the_rate_of_a_huge_page_is_that_of_its_own_window() {
    let windows = [Nanos::from_millis(20), Nanos(100_000)];
    let mut hotness = Hotness::default();
    hotness.set_remembered_time(windows[0] * 64);
    let mut heats = [hotness.new_page(); 2];
    for i in 0..64 {
        hotness.set_windows(windows[0], windows[1], windows[0]);
        hotness.advance(windows[0]);
        heats[0] = hotness.hit(heats[0], 1.0, None);
        if i % 2 == 0 {
            heats[1] = hotness.hit(heats[1], 1.0, None);
        }
    }
    for (size, window) in [PageSize::Base, PageSize::Huge].into_iter().zip(windows) {
        let [always, half] = heats.map(|heat| hotness.estimate(heat, size));
        let expected = std::f32::consts::LN_2 / seconds(window);
        assert!((half.rate_per_sec() / expected - 1.0).abs() < 0.1, "{size:?}: {half:?}");
        assert!(
            always.rate_per_sec() > 2.0 * hotness.ceiling_per_sec(size),
            "{size:?}: {always:?}"
        );
        let known = hotness.heat_of_rate(expected, size);
        let known = hotness.estimate(known, size).rate_per_sec();
        assert!((known / expected - 1.0).abs() < 0.02, "{size:?}: {known} is not {expected}");
    }
    assert!((hotness.base_hits_per_huge_hit() - 200.0).abs() < 0.1 && hotness.separates_sizes());
}

/// One page is seen in every scan, another in every second one: however windows change, the first is the hotter
/// one, and its rate is that of the mean window.
#[test]
fn longer_windows_do_not_make_the_hottest_page_look_cold() {
    for (first, then) in
        [(1, 20), (20, 1)].map(|(a, b)| (Nanos::from_millis(a), Nanos::from_millis(b)))
    {
        let mut hotness = Hotness::default();
        let mut heats = [hotness.new_page(); 2];
        let mut rates = Vec::new();
        for i in 0..240 {
            let window = if i < 120 { first } else { then };
            hotness.set_remembered_time(window * 16);
            hotness.set_windows(window, window, window);
            hotness.advance(window);
            heats[0] = hotness.hit(heats[0], 1.0, None);
            if i % 2 == 0 {
                heats[1] = hotness.hit(heats[1], 1.0, None);
            }
            let [busy, half] = heats.map(|heat| hotness.estimate(heat, BASE).rate_per_sec());
            assert!(i < 4 || busy > 1.3 * half && half > 0.0, "{i}: {busy} {half}");
            rates.push((busy, half));
        }
        let half = std::f32::consts::LN_2;
        for (window, got) in [(first, rates[119].1), (then, rates[239].1)] {
            let expected = half / seconds(window);
            assert!((got / expected - 1.0).abs() < 0.25, "{got} is not about {expected}");
        }
    }
}

/// The evidence clock is the watch clock while windows do not change.
#[test]
fn constant_windows_cost_no_precision() {
    let mut hotness = Hotness::default();
    for _ in 0..100 {
        hotness.set_windows(Nanos(20_000_001), Nanos(20_000_001), Nanos(20_000_001));
        hotness.advance(Nanos(20_000_001));
        assert_eq!(hotness.clock, hotness.watched);
        assert_eq!(hotness.ceiling_per_sec(BASE), 1.0 / seconds(Nanos(20_000_001)));
    }
}

/// One report of a tracker: its window, the number of its scans, and in how many of them each page was seen.
/// Some trackers report more hits than scans.
#[derive(Clone, Copy, Debug)]
struct Report {
    window: Nanos,
    looks: u64,
    hits: [f32; 2],
    urgent: bool,
    found_again: f64,
    memory: u64,
}

fn reports() -> impl Strategy<Value = Vec<Report>> {
    let hits = prop_oneof![Just(0.0f32), 0.0f32..3.0, 0.0f32..20_000.0];
    let window = prop_oneof![0u64..1_000, 1_000_000u64..1_000_000_000, Just(20_000_000)];
    let report = (window, 1u64..40, hits, 0.0f32..=1.0, any::<bool>(), 0.5f64..1.0, 0u64..200);
    let report =
        report.prop_map(|(window, looks, hits, part, urgent, found_again, memory)| Report {
            window: Nanos(window),
            looks,
            hits: [hits, hits * part],
            urgent,
            found_again,
            memory,
        });
    prop::collection::vec(report, 1..60)
}

proptest! {
    #[test]
    fn rates_are_sound_whatever_the_windows(reports in reports()) {
        let mut hotness = Hotness::default();
        let mut heats = [hotness.new_page(); 2];
        for Report { window, looks, hits, urgent, found_again, memory } in reports {
            hotness.set_urgent(urgent);
            hotness.set_found_again(Some(found_again));
            hotness.set_population(Population::of(10_000, 1_000, memory * 5));
            hotness.set_remembered_time(window * memory);
            hotness.set_windows(window, window, window * looks);
            hotness.advance(window * looks);
            for (heat, hits) in heats.iter_mut().zip(hits) {
                // Only when both pages were seen, so that both are idle for equally long.
                if hits > 0.0 {
                    *heat = hotness.hit(*heat, hits, None);
                }
                *heat = packed(*heat);
            }
            // Bounds of very few hits are small differences of large numbers.
            let near = |rate: f32| rate * 1.0001 + 1e-6 * hotness.ceiling_per_sec(BASE);
            let [more, less] = heats.map(|heat| hotness.estimate(heat, BASE));
            for e in [more, less] {
                prop_assert!((0.0..=1.0).contains(&(e.hits / e.looks)), "{e:?}");
                let [least, rate, most] =
                    [e.at_least_per_sec(), e.rate_per_sec(), e.at_most_per_sec()];
                prop_assert!(least >= 0.0 && least <= near(rate), "{e:?}");
                prop_assert!(rate <= near(most) && most.is_finite(), "{e:?}");
                let ceiling = MOST_ACCESSES * hotness.ceiling_per_sec(BASE);
                prop_assert!(most <= near(ceiling), "{e:?}");
                prop_assert!(e.expected_per_sec(1.0).is_finite());
            }
            prop_assert!(less.rate_per_sec() <= near(more.rate_per_sec()), "{more:?} {less:?}");
            let lower = [more, less].map(|e| e.at_least_per_sec());
            prop_assert!(lower[1] <= near(lower[0]), "{more:?} {less:?}");
            let upper = [more, less].map(|e| e.at_most_per_sec());
            prop_assert!(upper[1] <= near(upper[0]), "{more:?} {less:?}");
        }
    }

    /// A known rate, up to the measurable maximum, is returned.
    #[test]
    fn a_known_rate_is_returned_with_scans_too(window in 1_000u64..1_000_000_000, accesses in 0.0f32..4.0) {
        let mut hotness = Hotness::default();
        hotness.set_windows(Nanos(window), Nanos(window), Nanos(window));
        let rate = accesses * hotness.ceiling_per_sec(BASE);
        let got = hotness.estimate(hotness.heat_of_rate(rate, BASE), BASE).rate_per_sec();
        let expected = rate.min(MOST_ACCESSES * hotness.ceiling_per_sec(BASE));
        prop_assert!((got - expected).abs() <= 0.01 * expected + 1e-30, "{rate}: {got}");
    }

    #[test]
    fn estimates_stay_finite_and_ordered(
        steps in prop::collection::vec((0u64..2_000_000_000, 0.1f32..20_000.0), 1..40),
    ) {
        let mut hotness = Hotness::default();
        let mut heat = hotness.new_page();
        for (watched, hits) in steps {
            hotness.advance(Nanos(watched));
            heat = hotness.hit(heat, hits, None);
            let e = hotness.estimate(heat, BASE);
            prop_assert!(e.rate_per_sec().is_finite() && e.at_least_per_sec() >= 0.0);
            prop_assert!(e.rate_per_sec() < e.at_most_per_sec());
            prop_assert!(e.at_least_per_sec() <= e.rate_per_sec() && e.hits <= MAX_HITS * 1.001);
        }
    }
}

/// Accessed in each of 16 scans, and then in none of five: 0 of 6 scans at most, by hand (0 + 0.82 + 1.28 · 0.64) / 1.27.
#[test]
fn a_page_that_several_scans_missed_is_cold_soon_while_placement_is_off() {
    let window = Nanos::from_millis(20);
    let after = |scans: u32, urgent| {
        let mut hotness = Hotness::default();
        hotness.set_windows(window, window, window);
        hotness.set_remembered_time(window * 16);
        let mut heat = hotness.new_page();
        for _ in 0..16 {
            hotness.advance(window);
            heat = hotness.hit(heat, 1.0, None);
        }
        hotness.set_urgent(urgent);
        (0..scans).for_each(|_| hotness.advance(window));
        hotness.estimate(heat, PageSize::Base).at_most_per_sec() * 0.02
    };
    let share = 1.29 / 6.0;
    assert!((after(5, true) + f32::ln(1.0 - share)).abs() < 0.02, "{}", after(5, true));
    assert!(after(4, true) > 0.7, "four scans can miss it by chance: {}", after(4, true));
    assert!(after(5, false) > 0.7, "settled: {}", after(5, false));
}
