// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::page::PageTable;
use crate::port::{PageKind, PageSize, Region, SpaceEvent, SpaceId, Vpn};
use crate::rng::Rng;
use proptest::prelude::*;

/// By hand: of pages that get 10 a second in the mean, one idle for 0.9 s is expected to get 1 / (0.1 + 0.9), one hit
/// after 0.1 s 2 / (0.1 + 0.1).
#[test]
fn the_longer_idle_the_colder_and_at_first_as_hot_as_the_others() {
    let near = |a: f32, b: f32| assert!((a - b).abs() < 1e-4, "{a} is not {b}");
    near(expected_rate(10.0, 0.0, 0.0), 10.0);
    near(expected_rate(10.0, 0.0, 0.9), 1.0);
    near(expected_rate(10.0, 1.0, 0.1), 10.0);
    near(expected_rate(f32::INFINITY, 0.0, 0.5), 2.0);
    assert!(expected_rate(f32::INFINITY, 0.0, 0.0).is_infinite(), "nothing is known");
}

/// The heat as a page table keeps it.
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
    let mut heat = hotness.newborn();
    for _ in 0..4 {
        heat = hotness.hit(heat, 1.0, Some(Nanos::from_millis(10)));
    }
    let got = hotness.estimate(heat);
    assert!((got.rate_per_sec() - 100.0).abs() < 1.0, "{got:?}");
    assert!((got.at_least_per_sec() - 38.2).abs() < 0.1, "(4 + 2 - 2·√5) / 40 ms");
}

/// Three looks of 20 ms and the one in vain: Wilson's lower bound of 3 in 4 at two deviations is
/// (3 + 2 - 2·√(3/4 + 1)) / 8.
#[test]
fn looks_that_always_see_a_page_say_that_it_is_busy_not_how_busy() {
    let mut hotness = Hotness::default();
    hotness.look_for(Nanos::from_millis(20), Nanos::from_millis(20));
    let (mut always, never) = (hotness.newborn(), hotness.newborn());
    for _ in 0..3 {
        hotness.advance(Nanos::from_millis(20));
        always = hotness.hit(always, 1.0, None);
    }
    let (always, never) = (hotness.estimate(always), hotness.estimate(never));
    let of_share = |p: f32| -(1.0 - p).ln() / 0.02;
    assert!((always.at_least_per_sec() / of_share(0.2943) - 1.0).abs() < 0.02, "{always:?}");
    assert!(never.at_least_per_sec() == 0.0 && never.at_most_per_sec() > 5.0, "{never:?}");
}

#[test]
fn a_page_that_wakes_up_is_believed_within_a_few_looks() {
    let mut hotness = Hotness::default();
    let look = Nanos::from_millis(20);
    hotness.look_for(look, look);
    hotness.remember(look * 16);
    hotness.hurry(true);
    let mut heat = hotness.newborn();
    hotness.advance(look * 16);
    for _ in 0..4 {
        hotness.advance(look);
        heat = hotness.hit(heat, 1.0, None);
    }
    assert!(hotness.estimate(heat).at_least_per_sec() > 15.0, "{:?}", hotness.estimate(heat));
}

/// Reports of twenty looks, each of which sees the page sixteen times: four in vain are no silence.
#[test]
fn looks_that_are_told_of_together_are_no_silence() {
    let mut hotness = Hotness::default();
    let look = Nanos::from_millis(10);
    hotness.look_for(look, look * 20);
    hotness.remember(look * 100);
    hotness.hurry(true);
    let mut heat = hotness.newborn();
    let mut bounds = Vec::new();
    for silent in [200, 0, 0] {
        hotness.advance(look * (silent + 20));
        heat = hotness.hit(heat, 16.0, None);
        bounds.push(hotness.estimate(heat).at_least_per_sec());
    }
    let of_share = |p: f32| -(1.0 - p).ln() / 0.01;
    assert!(bounds.iter().all(|&bound| bound > of_share(0.4)), "{bounds:?}");
    assert!(bounds.iter().all(|&bound| bound < of_share(0.8)), "{bounds:?}");
}

/// Pages that every tenth look sees, for 256 looks: those that ever pass for a page of a fifth of the
/// highest rate.
#[test]
fn luck_does_not_add_up_while_it_hurries() {
    let look = Nanos::from_millis(20);
    let lucky = |hurry_anew_every: u32| {
        let (mut rng, mut hotness) = (Rng::new(11), Hotness::default());
        hotness.look_for(look, look);
        hotness.remember(look * 16);
        let mut heats = vec![hotness.newborn(); 1_000];
        let mut ever = vec![false; heats.len()];
        for i in 0..256 {
            hotness.hurry(i % hurry_anew_every != 0);
            hotness.look_for(look, look);
            hotness.advance(look);
            for (heat, ever) in heats.iter_mut().zip(&mut ever) {
                if rng.below(10) == 0 {
                    *heat = hotness.hit(*heat, 1.0, None);
                    let bound = hotness.estimate(*heat).at_least_per_sec();
                    *ever |= bound > 0.2 * hotness.ceiling_per_sec();
                }
            }
        }
        ever.iter().filter(|&&ever| ever).count()
    };
    let (many, one) = (lucky(8), lucky(1_000));
    assert!(
        many > 4 * one && one < 50,
        "{many} by luck with a new alert every eight looks, {one} in a single one"
    );
}

#[test]
fn a_known_rate_is_believed_and_replaces_what_was() {
    let hotness = Hotness::default();
    for rate in [0.0, 3.0, 1e6] {
        let got = hotness.estimate(hotness.known(rate)).rate_per_sec();
        assert!((got - rate).abs() <= 1e-3 * rate + 1e-30, "{rate}: {got}");
    }
}

#[test]
fn time_without_watching_does_not_cool_a_page() {
    let mut hotness = Hotness::default();
    let heat = hotness.hit(hotness.newborn(), 2.0, Some(Nanos::from_millis(20)));
    let before = hotness.estimate(heat);
    assert_eq!(hotness.estimate(heat), before);
    hotness.advance(Nanos::from_millis(20));
    assert!(hotness.estimate(heat).rate_per_sec() < 0.6 * before.rate_per_sec());
}

/// A page of 100 hits a second falls silent, another one wakes up, and somebody says that there was a
/// change: half a second tells them apart. Without the word the first is believed for longer.
#[test]
fn what_samples_told_before_a_change_is_void() {
    let tenth = Nanos::from_millis(100);
    let told = |change: bool| {
        let mut hotness = Hotness::default();
        let (mut old, mut new) = (hotness.newborn(), hotness.newborn());
        for _ in 0..100 {
            hotness.advance(tenth);
            old = hotness.hit(old, 10.0, None);
        }
        hotness.advance(tenth);
        if change {
            hotness.change();
        }
        for _ in 0..5 {
            hotness.advance(tenth);
            new = hotness.hit(new, 2.0, None);
        }
        (hotness.estimate(old).at_most_per_sec(), hotness.estimate(new).at_least_per_sec())
    };
    let (old, new) = told(true);
    assert!(old < new, "{old} {new}");
    let (old, new) = told(false);
    assert!(old > new, "{old} {new}");
}

#[test]
fn a_page_that_turned_cold_is_forgotten_within_its_memory() {
    let mut hotness = Hotness::default();
    hotness.remember(Nanos::from_secs(1));
    let heat = hotness.hit(hotness.newborn(), 15.0, Some(Nanos::from_millis(100)));
    hotness.advance(Nanos::from_secs(20));
    assert!(hotness.estimate(heat).rate_per_sec() < 1.0);
}

/// Page A is accessed 100 times a second, page B 3 times: windows of 20 ms tell them apart.
#[test]
fn windows_tell_hot_from_warm_whatever_the_pauses_between_them() {
    let mut rng = Rng::new(7);
    let mut hotness = Hotness::default();
    hotness.remember(Nanos::from_millis(320));
    let mut heats = [hotness.newborn(); 2];
    for _ in 0..64 {
        hotness.advance(Nanos::from_millis(20));
        for (heat, rate) in heats.iter_mut().zip([100.0, 3.0]) {
            if rng.exponential(rate) < 0.020 {
                *heat = hotness.hit(*heat, 1.0, None);
            }
        }
    }
    let [hot, warm] = heats.map(|heat| hotness.estimate(heat));
    assert!(hot.at_least_per_sec() > 20.0 && warm.at_least_per_sec() < 5.0, "{hot:?} {warm:?}");
}

/// A page that every look sees, another that every second one does: whatever becomes of windows, the first is
/// the busier, and its rate is that of the mean window.
#[test]
fn longer_windows_do_not_make_the_busiest_page_look_coldest() {
    for (first, then) in
        [(1, 20), (20, 1)].map(|(a, b)| (Nanos::from_millis(a), Nanos::from_millis(b)))
    {
        let mut hotness = Hotness::default();
        let mut heats = [hotness.newborn(); 2];
        let mut rates = Vec::new();
        for i in 0..240 {
            let window = if i < 120 { first } else { then };
            hotness.remember(window * 16);
            hotness.look_for(window, window);
            hotness.advance(window);
            heats[0] = hotness.hit(heats[0], 1.0, None);
            if i % 2 == 0 {
                heats[1] = hotness.hit(heats[1], 1.0, None);
            }
            let [busy, half] = heats.map(|heat| hotness.estimate(heat).rate_per_sec());
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

/// The clock that evidence follows is the watch clock while windows stay as they are.
#[test]
fn windows_that_do_not_change_cost_no_precision() {
    let mut hotness = Hotness::default();
    for _ in 0..100 {
        hotness.look_for(Nanos(20_000_001), Nanos(20_000_001));
        hotness.advance(Nanos(20_000_001));
        assert_eq!(hotness.clock, hotness.watched);
        assert_eq!(hotness.ceiling_per_sec(), 1.0 / seconds(Nanos(20_000_001)));
    }
}

/// What a tracker reports at a time: the length of its looks, how many they are, and in how many of them the page
/// was seen. Some trackers report more hits than looks.
#[derive(Clone, Copy, Debug)]
struct Report {
    window: Nanos,
    looks: u64,
    hits: [f32; 2],
    hurry: bool,
    memory: u64,
}

fn reports() -> impl Strategy<Value = Vec<Report>> {
    let hits = prop_oneof![Just(0.0f32), 0.0f32..3.0, 0.0f32..20_000.0];
    let window = prop_oneof![0u64..1_000, 1_000_000u64..1_000_000_000, Just(20_000_000)];
    let report = (window, 1u64..40, hits, 0.0f32..=1.0, any::<bool>(), 0u64..200);
    let report = report.prop_map(|(window, looks, hits, part, hurry, memory)| Report {
        window: Nanos(window),
        looks,
        hits: [hits, hits * part],
        hurry,
        memory,
    });
    prop::collection::vec(report, 1..60)
}

proptest! {
    #[test]
    fn rates_are_sound_whatever_the_windows(reports in reports()) {
        let mut hotness = Hotness::default();
        let mut heats = [hotness.newborn(); 2];
        for Report { window, looks, hits, hurry, memory } in reports {
            hotness.hurry(hurry);
            hotness.remember(window * memory);
            hotness.look_for(window, window * looks);
            hotness.advance(window * looks);
            for (heat, hits) in heats.iter_mut().zip(hits) {
                // Where both pages were seen, so that both were silent for as long.
                if hits > 0.0 {
                    *heat = hotness.hit(*heat, hits, None);
                }
                *heat = packed(*heat);
            }
            // Bounds of hardly any hits are small differences of large numbers.
            let near = |rate: f32| rate * 1.0001 + 1e-6 * hotness.ceiling_per_sec();
            let [more, less] = heats.map(|heat| hotness.estimate(heat));
            for e in [more, less] {
                prop_assert!((0.0..=1.0).contains(&(e.hits / e.looks)), "{e:?}");
                let [least, rate, most] =
                    [e.at_least_per_sec(), e.rate_per_sec(), e.at_most_per_sec()];
                prop_assert!(least >= 0.0 && least <= near(rate), "{e:?}");
                prop_assert!(rate <= near(most) && most.is_finite(), "{e:?}");
                let ceiling = MOST_ACCESSES * hotness.ceiling_per_sec();
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

    /// A known rate up to the most that looks tell of comes back.
    #[test]
    fn a_known_rate_is_believed_by_looks_too(window in 1_000u64..1_000_000_000, accesses in 0.0f32..4.0) {
        let mut hotness = Hotness::default();
        hotness.look_for(Nanos(window), Nanos(window));
        let rate = accesses * hotness.ceiling_per_sec();
        let got = hotness.estimate(hotness.known(rate)).rate_per_sec();
        let expected = rate.min(MOST_ACCESSES * hotness.ceiling_per_sec());
        prop_assert!((got - expected).abs() <= 0.01 * expected + 1e-30, "{rate}: {got}");
    }

    #[test]
    fn estimates_stay_finite_and_ordered(
        steps in prop::collection::vec((0u64..2_000_000_000, 0.1f32..20_000.0), 1..40),
    ) {
        let mut hotness = Hotness::default();
        let mut heat = hotness.newborn();
        for (watched, hits) in steps {
            hotness.advance(Nanos(watched));
            heat = hotness.hit(heat, hits, None);
            let e = hotness.estimate(heat);
            prop_assert!(e.rate_per_sec().is_finite() && e.at_least_per_sec() >= 0.0);
            prop_assert!(e.rate_per_sec() < e.at_most_per_sec());
            prop_assert!(e.at_least_per_sec() <= e.rate_per_sec() && e.hits <= MAX_HITS * 1.001);
        }
    }
}
