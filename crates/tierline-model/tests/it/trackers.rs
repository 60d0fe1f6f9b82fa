// SPDX-License-Identifier: Apache-2.0
//! The observations of each tracker, compared with the truth.

use tierline_core::port::{Observations, Tracking, World};
use tierline_core::tier::TierId;
use tierline_core::unit::Nanos;
use tierline_model::run::run;
use tierline_model::scenario::Scenario;
use tierline_model::tracker::TRACKERS;
use tierline_model::world::ModelWorld;

use crate::run::on_neomems_machine;

/// 4 GiB with 1 GiB hot at the end of memory, on a machine with 2 GiB of fast memory.
fn scenario(tracker: &str, more: &str) -> Scenario {
    let text = format!(
        r#"
        tracker = "{tracker}"
        seconds = 30
        fast_capacity = "2GiB"
        {more}
        [[workload]]
        kind = "gups"
        set = "4GiB"
        hot = "1GiB"
        chunk = "64MiB"
        "#
    );
    Scenario::parse("test", &text).unwrap()
}

/// Samplers need many accesses. Trackers of accessed bits need few, as otherwise all pages look equal (15
/// threads access every huge page within 20 ms).
#[test]
fn the_default_policy_finds_the_hot_set_with_every_tracker() {
    for entry in TRACKERS {
        let (threads, least) = match entry.name {
            "pebs" | "ibs" | "neoprof" | "truth" => (15.0, 0.93),
            "accessed" | "page_idle" => (0.003, 0.93),
            // These cover a part of memory at a time, or a page per region: the default policy must not get
            // worse with them, but need not improve within this time (as on Linux, see SPECIFICATION.md).
            _ => (0.003, 0.48),
        };
        let more = "tracker_knobs = { sample_period = 20011 }";
        let mut scenario = scenario(entry.name, more);
        scenario.workload[0].insert("threads".into(), threads.into());
        let report = run(&scenario).unwrap();
        let first = report.series[0].means.programs[0].shares[0];
        let last = report.steady.programs[0].shares[0];
        println!("{:12} {first:.3} -> {last:.3} {:?}", entry.name, report.moves);
        assert!(last >= least, "{}: {first} -> {last}", entry.name);
    }
}

fn world(tracker: &str, more: &str) -> ModelWorld {
    scenario(tracker, more).world().unwrap()
}

fn seen(world: &mut ModelWorld, seconds: u64) -> Observations {
    let mut out = Observations::default();
    for tick in 0..=seconds * 20 {
        world.observe(Nanos::from_millis(50) * tick, &mut out);
    }
    out
}

#[test]
fn samples_are_one_read_in_the_period_and_lie_where_accesses_go() {
    let mut world = world("pebs", "tracker_knobs = { sample_period = 100003 }");
    let out = seen(&mut world, 2);
    let job = &world.jobs()[0];
    let expected = job.reads / 100_003.0;
    let count = f64::from(u32::try_from(out.samples.len()).unwrap());
    assert!((count - expected).abs() <= 1.0, "{count} of {expected}");
    let fast = out.samples.iter().filter(|s| s.tier.is_some_and(|t| t.0 == 0)).count();
    let share = f64::from(u32::try_from(fast).unwrap()) / count;
    assert!((share - job.census.shares(&job.pattern)[0]).abs() < 0.02, "{share}");
}

/// The mean time to fault of a page is one over its rate.
#[test]
fn times_to_fault_match_the_rates_of_pages() {
    let knobs =
        r#"tracker_knobs = { scan_fast = true, scan_period = "100ms", scan_part = "1GiB" }"#;
    let mut world = world("hint_faults", knobs);
    let out = seen(&mut world, 10);
    let job = &world.jobs()[0];
    for band in 0..2 {
        let of = |s: &&tierline_core::port::Sample| {
            job.page_at(s.vpn).is_some_and(|page| job.pattern.band(page) == band)
        };
        let times: Vec<f64> = out
            .samples
            .iter()
            .filter(of)
            .filter_map(|s| s.exposure.map(Nanos::as_secs_f64))
            .collect();
        let mean = times.iter().sum::<f64>() / f64::from(u32::try_from(times.len()).unwrap());
        let expected = 1e-9 / (job.reads_per_ns * job.pattern.density(band));
        assert!((mean / expected - 1.0).abs() < 0.1, "band {band}: {mean} s, not {expected}");
    }
}

/// Every page is accessed in a window of 20 ms: each gets hundreds of thousands of accesses per second.
#[test]
fn a_window_reports_all_pages_touched_in_it() {
    let mut world = world("accessed", "");
    let out = seen(&mut world, 1);
    let pages: u64 = out.samples.iter().map(|s| u64::from(s.base_pages)).sum();
    let windows = out.watched.0 / Nanos::from_millis(20).0;
    assert_eq!(pages, windows * (4 << 18), "{windows} windows");
}

/// In slow memory only, with a threshold between hot and cold pages: nearly all hot pages are reported, and few
/// others.
#[test]
fn a_counting_device_reports_hot_slow_pages_and_its_utilisation() {
    // So wide that no cold page shares its counters in both lanes with a hot one.
    let mut world = world("neoprof", "tracker_knobs = { sketch_width_log2 = 22 }");
    let begun = Nanos::from_secs(4); // when its counters are also cleared
    seen(&mut world, 4);
    let job = &world.jobs()[0];
    let hot_ns = job.reads_per_ns * job.pattern.density(0) / 512.0; // per base page
    let clear = Nanos::from_secs(5);
    // Reads and as many writes in five seconds; a third of them is far above a cold page's.
    let threshold = hot_ns * 2.0 * 5e9 / 3.0;
    world.configure_tracking(Tracking::Counters {
        threshold: format!("{threshold:.0}").parse().unwrap(),
        read: Nanos::from_millis(50),
        update: Nanos::from_secs(1),
        clear,
    });
    world.measure(begun);
    let before = *world.counters();
    let mut out = Observations::default();
    world.observe(begun + clear, &mut out);
    let job = &world.jobs()[0];
    assert!(out.samples.iter().all(|s| s.tier == Some(TierId(1))));
    let is_hot = |vpn| job.page_at(vpn).is_some_and(|page| job.pattern.band(page) == 0);
    let count = |count: usize| f64::from(u32::try_from(count).unwrap());
    let named = count(out.samples.iter().filter(|s| is_hot(s.vpn)).count());
    let all = job.census.base_pages(0, 1) as f64;
    let false_ones = 1.0 - named / count(out.samples.len());
    assert!(named >= 0.98 * all && false_ones <= 0.02, "{named} of {all}, {false_ones} false");

    let counted = world.measure(begun + clear).counted.expect("a report of the device");
    let counters: u64 = counted.histogram.iter().map(|&(_, counters)| u64::from(counters)).sum();
    assert_eq!(counters, 1 << 22);
    let since = world.counters().since(&before);
    let used = (since.reads[1] * 2.0 / (since.ns * 0.4)).min(1.0);
    assert!((counted.utilisation / used - 1.0).abs() < 0.05, "{} {used}", counted.utilisation);
}

/// Without a requested configuration, and with one counter per 16 pages, most reported accesses still belong to
/// hot pages, and there are no more than were made.
#[test]
fn an_unconfigured_device_reports_hot_pages_with_few_counters() {
    let mut world = world("neoprof", "tracker_knobs = { sketch_width_log2 = 16 }");
    seen(&mut world, 2); // its first threshold is too low for this many accesses
    let before = *world.counters();
    world.measure(Nanos::from_secs(2));
    let mut out = Observations::default();
    for tick in 1..=400 {
        world.observe(Nanos::from_secs(2) + Nanos::from_millis(10) * tick, &mut out);
    }
    world.measure(Nanos::from_secs(6));
    let job = &world.jobs()[0];
    let hits = |band| {
        let of = |s: &&tierline_core::port::Sample| {
            job.page_at(s.vpn).is_some_and(|page| job.pattern.band(page) == band)
        };
        out.samples.iter().filter(of).map(|s| f64::from(s.hits)).sum::<f64>()
    };
    let accesses = 2.0 * world.counters().since(&before).reads[1]; // as many writes as reads
    let [hot, cold] = [0, 1].map(hits);
    assert!(hot > 10.0 * cold, "{hot} of hot pages, {cold} of others");
    assert!(hot + cold < 1.1 * accesses, "{hot} and {cold} of {accesses}");
    assert!(hot > 0.05 * accesses, "{hot} of {accesses}");
}

/// Popularity drifts through base pages, for which samples are few. With the device's counts the default policy
/// must do at least as well as NeoMem.
#[test]
fn the_default_policy_with_a_counting_device_is_as_good_as_neomem() {
    let speed = |policy: &str| {
        let settings = format!("policy = '{policy}'\ntracker = 'neoprof'\nseconds = 30");
        let workload = "kind = 'kv'\nset = '3GiB'\ndrift = '16MiB/s'";
        on_neomems_machine(&settings, "1GiB", workload).overall.programs[0].throughput
    };
    let [ours, theirs] = ["tierline", "neomem"].map(speed);
    assert!(ours > theirs, "{ours} and {theirs}");
}

/// 1.25 GiB are allocated after fast memory is full; all their pages are accessed every few milliseconds.
/// Without observations of fast memory, pages must still be demoted in time, so that new pages are fast.
#[test]
fn headroom_is_kept_without_observations_of_fast_memory() {
    for tracker in ["neoprof", "hint_faults"] {
        let settings = format!("tracker = '{tracker}'\nseconds = 20");
        let growth = "start_set = '1GiB'\ngrowth = '64MiB/s'\nfresh = '320MiB'";
        let workload = format!("kind = 'latest'\nset = '3GiB'\n{growth}");
        let report = on_neomems_machine(&settings, "1GiB", &workload);
        let (demoted, allocated) = (report.moves.demoted_pages, 1280 << 8);
        assert!(demoted * 10 > allocated * 9, "{tracker}: {demoted} for {allocated}");
    }
}
