// SPDX-License-Identifier: Apache-2.0
//! Quality of service: the twelve scenarios in `scenarios/qos`, and what must hold in each.
//!
//! A program whose memory is all equally hot needs `set · (250 − target) / 150` of fast memory: 100 ns fast, 250 ns
//! slow.

use tierline_core::unit::{Bytes, BytesPerSec, Nanos};
use tierline_model::report::{Interval, Report, TenantMeans};
use tierline_model::run::run;
use tierline_model::scenario::Scenario;

/// The scenario of that name, on its machine.
fn scenario(name: &str) -> Scenario {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let read = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).unwrap();
    let mut scenario = Scenario::parse(name, &read(&format!("scenarios/qos/{name}.toml"))).unwrap();
    scenario.machine_text = Some(read(&format!("scenarios/qos/{}", scenario.machine)));
    scenario
}

fn report(name: &str) -> Report {
    run(&scenario(name)).unwrap()
}

/// The scenario with a migrator that moves this much at most.
fn report_at(name: &str, max_rate: BytesPerSec) -> Report {
    run(&Scenario { max_rate, ..scenario(name) }).unwrap()
}

/// Limits of the migrator: what holds must not depend on it.
const MAX_RATES: [BytesPerSec; 2] = [BytesPerSec(1 << 30), BytesPerSec(10 << 30)];

fn tenant<'a>(row: &'a Interval, name: &str) -> &'a TenantMeans {
    row.means.tenants.iter().find(|tenant| tenant.name == name).unwrap()
}

/// The intervals from one time to another.
fn between(report: &Report, from: f64, to: f64) -> impl Iterator<Item = &Interval> {
    report.series.iter().filter(move |row| row.seconds > from && row.seconds <= to)
}

fn gib(bytes: Bytes) -> f64 {
    bytes.0 as f64 / (1u64 << 30) as f64
}

/// Fast memory of a tenant at the end.
fn fast(report: &Report, name: &str) -> f64 {
    gib(tenant(report.series.last().unwrap(), name).used_bytes[0])
}

fn assert_near(found: f64, expected: f64, share: f64, what: &str) {
    assert!((found / expected - 1.0).abs() <= share, "{what}: {found:.2}, expected {expected}");
}

/// Fast memory of a, b and c at the end, and c's latency, which is 2 GiB short.
fn assert_settled(report: &Report, what: &str) {
    for (name, expected) in [("a", 12.0), ("b", 15.0), ("c", 13.0)] {
        assert_near(fast(report, name), expected, 0.05, &format!("{what}: memory of {name}"));
    }
    let last = report.series.last().unwrap();
    let latency = |name| tenant(last, name).latency_ns.unwrap();
    assert_near(latency("a"), 160.0, 0.05, what);
    assert_near(latency("b"), 175.0, 0.05, what);
    assert_near(latency("c"), 185.0, 0.05, what);
    assert!(latency("c") > 175.0 * 1.03, "{what}: c misses its target");
    let short = gib(tenant(last, "c").qos.as_ref().unwrap().short_bytes);
    assert!((1.5..3.5).contains(&short), "{what}: {short:.1} GiB short");
}

#[test]
#[ignore = "a minute, optimised: ./test runs it"]
fn scenario_01_the_order_of_arrival_does_not_matter() {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for order in orders {
        let mut scenario = scenario("01-order-of-arrival");
        for (program, at) in scenario.workload.iter_mut().zip(order) {
            program.insert("start".into(), format!("{}s", 10 * at).into());
        }
        assert_settled(&run(&scenario).unwrap(), &format!("{order:?}"));
    }
}

#[test]
#[ignore = "seconds, optimised: ./test runs it"]
fn scenario_02_what_one_leaves_goes_to_the_others() {
    let report = report("02-one-leaves");
    let last = report.series.last().unwrap();
    let lent = |name| gib(tenant(last, name).qos.as_ref().unwrap().lent_bytes);
    assert_near(fast(&report, "b"), 25.0, 0.05, "b");
    assert_near(fast(&report, "c"), 15.0, 0.05, "c");
    assert_near(lent("b"), 10.0, 0.15, "lent to b");
    assert!(lent("c") < 0.5, "{}", lent("c"));
    assert!(tenant(last, "c").latency_ns.unwrap() < 175.0 * 1.02);
}

#[test]
#[ignore = "seconds, optimised: ./test runs it"]
fn scenario_03_growth_takes_from_the_least_important_and_no_more() {
    for max_rate in MAX_RATES {
        let report = report_at("03-one-grows", max_rate);
        for (name, expected) in [("a", 18.0), ("b", 15.0), ("c", 7.0)] {
            assert!(
                (fast(&report, name) - expected).abs() < 0.9,
                "{name}: {}",
                fast(&report, name)
            );
        }
        // The limits of the others fall by 6 GiB in total: nothing is taken and given back.
        let rows: Vec<&Interval> = between(&report, 49.0, 90.0).collect();
        let fallen = |name| -> f64 {
            let limit = |row: &Interval| gib(tenant(row, name).limit_bytes[0].unwrap());
            rows.windows(2).map(|pair| (limit(pair[0]) - limit(pair[1])).max(0.0)).sum()
        };
        let fallen = fallen("b") + fallen("c");
        assert!((5.0..7.5).contains(&fallen), "{fallen:.1} GiB");
    }
}

#[test]
fn scenario_04_an_impossible_target_is_refused() {
    let error = run(&scenario("04-impossible-target")).unwrap_err().to_string();
    for part in ["\"a\"", "90 ns", "100 ns at best", "relax"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
#[ignore = "seconds, optimised: ./test runs it"]
fn scenario_05_memory_that_does_not_help_is_not_taken() {
    let report = report("05-own-load-too-high");
    let last = report.series.last().unwrap();
    let reserved = |name| gib(tenant(last, name).qos.as_ref().unwrap().reserved_bytes);
    assert!(tenant(last, "a").latency_ns.unwrap() > 105.0 * 1.02, "its own load is too high");
    assert_near(reserved("a"), 5.0, 0.1, "a takes its hot memory");
    for name in ["b", "c"] {
        assert!(fast(&report, name) > 14.2, "{name} keeps what it needs: {}", fast(&report, name));
    }
}

#[test]
#[ignore = "seconds, optimised: ./test runs it"]
fn scenario_06_a_cold_program_keeps_its_memory_beside_a_hot_one() {
    let with = report("06-cold-above-hot");
    for row in between(&with, 15.0, 60.0) {
        let cold = tenant(row, "cold");
        assert!(gib(cold.used_bytes[0]) > 11.8, "{} s: {cold:?}", row.seconds);
        assert!(cold.latency_ns.unwrap() < 160.0 * 1.02, "{} s: {cold:?}", row.seconds);
    }
    let mut without = scenario("06-cold-above-hot");
    without.tenant.iter_mut().for_each(|tenant| (tenant.priority, tenant.slo) = (None, None));
    // Otherwise the cold one comes first by its weight: it waits for each access.
    without.policy_knobs.insert("stall_costs".into(), 0.0);
    let without = run(&without).unwrap();
    let cold = tenant(without.series.last().unwrap(), "cold").latency_ns.unwrap();
    assert!(cold > 200.0, "without targets and weights the hot one wins: {cold}");
}

#[test]
#[ignore = "seconds, optimised: ./test runs it"]
fn scenario_07_an_idle_program_costs_nobody_and_is_back_within_a_second() {
    let report = report("07-idle-then-active");
    for row in &report.series {
        let batch = tenant(row, "batch");
        assert_eq!(batch.cpu_share, 1.0, "nobody is above it: {} s", row.seconds);
        // 20 s busy, 20 s idle, again and again.
        let since = row.seconds % 40.0;
        if row.seconds > 40.0 && (2.0..=20.0).contains(&since) {
            assert!(batch.bytes_per_second > 60.0 * 1.073e9 * 0.95, "{} s: {batch:?}", row.seconds);
        }
        if since > 35.0 {
            let other = tenant(row, "other");
            assert_eq!(other.cpu_share, 1.0, "{} s: held back for an idle one", row.seconds);
        }
    }
}

/// Times at which a limit changed.
fn changes(report: &Report) -> Vec<f64> {
    let limits = |row: &Interval| -> Vec<_> {
        row.means.tenants.iter().map(|tenant| tenant.limit_bytes.clone()).collect()
    };
    let pairs = report.series.windows(2);
    pairs.filter(|pair| limits(&pair[0]) != limits(&pair[1])).map(|pair| pair[1].seconds).collect()
}

#[test]
#[ignore = "minutes of CPU time, optimised: ./test --long runs it"]
fn hour_long_scenario_08_a_swinging_load_does_not_swing_the_limits() {
    let report = report("08-swinging-load");
    let changes = changes(&report);
    assert!(changes.len() * 10 < 3_600, "{} changes of a limit in an hour", changes.len());
    let late = changes.iter().filter(|seconds| **seconds > 600.0).count();
    assert!(late * 10 < 3_000, "{late} changes after ten minutes");
    let misses = between(&report, 300.0, 3_600.0)
        .filter(|row| tenant(row, "a").latency_ns.unwrap() > 160.0 * 1.05)
        .count();
    assert_eq!(misses, 0, "a keeps its target within 5 %");
}

/// Scenario 10 on a quarter of the memory; the hog works for 20 s and is idle for 15 s.
#[test]
#[ignore = "minutes of CPU time, optimised: ./test --long runs it"]
fn hour_long_a_hog_that_works_in_waves_does_not_swing_the_limits() {
    let mut scenario = scenario("10-hog");
    (scenario.seconds, scenario.fast_capacity) = (3_600.0, Some(Bytes(10 << 30)));
    scenario.interval = Some(Nanos::from_millis(200));
    (scenario.report_every, scenario.quantum) = (Nanos::from_millis(200), Nanos::from_millis(100));
    scenario.tracker_knobs.sample_period = 100_009.0;
    let sizes = [&[("set", "1GiB")][..], &[("set", "15GiB"), ("busy", "20s"), ("calm", "15s")]];
    for (program, knobs) in scenario.workload.iter_mut().zip(sizes) {
        knobs.iter().for_each(|&(knob, value)| _ = program.insert(knob.into(), value.into()));
    }
    let report = run(&scenario).unwrap();
    let changes = changes(&report);
    assert!(changes.len() * 10 < 3_600, "{} changes of a limit in an hour", changes.len());
    let settled = between(&report, 600.0, 3_600.0).filter(|row| row.seconds % 35.0 > 2.0);
    let worst = settled.map(|row| tenant(row, "ls").latency_ns.unwrap()).fold(0.0, f64::max);
    assert!(worst <= 110.0 * 1.05, "{worst:.1} ns");
}

/// With nothing lent, an application has what its target takes, and no more: the error of a settled target is at
/// most 5 %, above and below.
#[test]
#[ignore = "seconds, optimised: ./test runs it"]
fn scenario_settled_targets_are_tracked_within_5_percent() {
    for (slo, target) in [("130ns", 130.0), ("170ns", 170.0), ("210ns", 210.0), ("70GB/s", 0.0)] {
        let mut scenario = scenario("10-hog");
        (scenario.seconds, scenario.lend) = (90.0, false);
        scenario.tracker_knobs.sample_period = 40_009.0;
        let (alone, latency) = if target > 0.0 { (0, true) } else { (1, false) };
        let name = ["ls", "hog"][alone];
        scenario.tenant = vec![scenario.tenant[alone].clone()];
        scenario.workload = vec![scenario.workload[alone].clone()];
        scenario.tenant[0].slo = Some(slo.into());
        scenario.workload[0].insert("set".into(), "20GiB".into());
        scenario.workload[0].insert("threads".into(), 16.into());
        let report = run(&scenario).unwrap();
        for row in between(&report, 60.0, 90.0) {
            let found = tenant(row, name);
            let error = match latency {
                true => found.latency_ns.unwrap() / target - 1.0,
                false => found.bytes_per_second / (70.0 * 1.073_741_824e9) - 1.0,
            };
            assert!(error.abs() <= 0.05, "{slo}, {} s: {found:?}", row.seconds);
        }
    }
}

/// Its pages are moved for each trial; 20 GiB (250 - 160) / 150 = 12 GiB.
#[test]
#[ignore = "seconds, optimised: ./test runs it"]
fn scenario_a_measured_need_is_that_of_the_formula() {
    let mut scenario = scenario("01-order-of-arrival");
    scenario.seconds = 200.0;
    scenario.tenant.retain(|tenant| tenant.name != "c");
    scenario.workload.retain(|program| program["name"].as_str() != Some("c"));
    let a = scenario.tenant.iter_mut().find(|tenant| tenant.name == "a").unwrap();
    a.measure_at = Some(Nanos::from_secs(40));
    let report = run(&scenario).unwrap();
    let found = report.qos_decisions.iter().find(|one| one.text.starts_with("measured:"));
    let found = found.expect("it ends");
    let words: Vec<&str> = found.text.split_whitespace().collect();
    let gib = words.iter().position(|word| *word == "GiB").map(|at| words[at - 1]);
    assert_near(gib.and_then(|gib| gib.parse().ok()).unwrap(), 12.0, 0.05, &found.text);
    assert!(found.seconds < 140.0, "{found:?}");
    let last = report.series.last().unwrap();
    assert!(tenant(last, "a").latency_ns.unwrap() <= 165.0);
}

/// A program with half its memory in slow memory, and one that is throttled: memory times time, and the slowdown.
#[test]
#[ignore = "seconds, optimised: ./test runs it"]
fn scenario_showback_agrees_with_the_model() {
    let report = report("10-hog");
    for program in &report.overall.programs {
        let name = program.tenant.as_ref().unwrap();
        let found = report.overall.tenants.iter().find(|tenant| tenant.name == *name).unwrap();
        let held: f64 = found.used_byte_seconds.iter().sum();
        let memory: u64 = found.used_bytes.iter().map(|bytes| bytes.0).sum();
        #[expect(clippy::cast_precision_loss, reason = "the memory of one machine")]
        let expected = memory as f64 * report.seconds;
        assert_near(held, expected, 0.02, name);
    }
    // Alone, fast memory serves the hog at its limit; in this model both tiers together serve it better.
    let ls = report.steady.tenants.iter().find(|tenant| tenant.name == "ls").unwrap();
    assert_near(ls.estimated_slowdown.unwrap(), 1.0, 0.02, "all its memory is fast");
    let hog = report.steady.tenants.iter().find(|tenant| tenant.name == "hog").unwrap();
    assert!(hog.estimated_slowdown.unwrap() > 1.0 / hog.cpu_share, "throttled, and slow: {hog:?}");
}

#[test]
#[ignore = "seconds, optimised: ./test runs it"]
fn scenario_09_latency_targets_throttle_nobody() {
    let report = report("09-latency-only");
    for row in &report.series {
        assert!(row.means.tenants.iter().all(|tenant| tenant.cpu_share == 1.0));
    }
    // a: 30 (250 - 130) / 150 = 24; b needs 20 and gets the rest.
    assert_near(fast(&report, "a"), 24.0, 0.05, "a");
    assert_near(fast(&report, "b"), 16.0, 0.07, "b");
    assert!(tenant(report.series.last().unwrap(), "a").latency_ns.unwrap() < 130.0 * 1.02);
}

#[test]
#[ignore = "a minute, optimised: ./test runs it"]
fn scenario_10_a_hog_is_demoted_then_throttled_and_not_more_than_needed() {
    let report = report("10-hog");
    let last = report.series.last().unwrap();
    assert!(tenant(last, "ls").latency_ns.unwrap() <= 110.0 * 1.05, "{:?}", tenant(last, "ls"));
    let hog = tenant(last, "hog");
    let reached = report.steady.tenants.iter().find(|tenant| tenant.name == "hog").unwrap();
    let best = best_of_grid();
    assert!(hog.cpu_share < 1.0, "throttled");
    let share = reached.bytes_per_second / best;
    assert!(share > 0.9, "{share:.2} of the best {:.1} GB/s", best * 1e-9);
}

/// The highest bandwidth of the hog over shares of its memory that are fast, and shares of CPU time, at which
/// the other program is at most 10 % slower than unloaded.
fn best_of_grid() -> f64 {
    use tierline_model::load::{Class, Loads, PerTier, solve};
    let machine = scenario("10-hog").machine().unwrap();
    let (cores, network) = (machine.cores, machine.network());
    let mut best = 0.0f64;
    for (fast, cpu) in (0..=20).flat_map(|fast| (1..=40).map(move |cpu| (fast, cpu))) {
        let fast = f64::from(fast) / 20.0;
        let (mut all, mut mixed) = (PerTier::default(), PerTier::default());
        all[0] = 1.0;
        (mixed[0], mixed[1]) = (fast, 1.0 - fast);
        let ls = Class::program(2.0 * cores.in_flight_random, 0.0, all, 0.0);
        let in_flight = 26.0 * cores.in_flight_stream * f64::from(cpu) / 40.0;
        let hog = Class::program(in_flight, cores.stream_think_ns, mixed, 0.0);
        let mut loads = Loads::default();
        solve(&network, &[ls, hog], &mut loads);
        // At most 36 of its 60 GiB fit into fast memory beside the other program.
        if fast <= 0.6 && loads.latency_ns[0] + loads.wait_ns <= 110.0 {
            best = best.max(loads.reads_per_ns[1] * 64e9);
        }
    }
    best
}

#[test]
#[ignore = "seconds, optimised: ./test runs it"]
fn scenario_11_a_bandwidth_target_above_has_its_bandwidth_and_latency_below_is_not_throttled() {
    let report = report("11-bandwidth-first");
    for row in between(&report, 30.0, 80.0) {
        let hog = tenant(row, "hog");
        assert!(hog.bytes_per_second > 70e9 * 0.98, "{} s: {hog:?}", row.seconds);
        assert_eq!(tenant(row, "ls").cpu_share, 1.0);
        assert_eq!(hog.cpu_share, 1.0);
    }
}

#[test]
#[ignore = "seconds, optimised: ./test runs it"]
fn scenario_12_three_tiers_are_taken_only_as_far_as_needed() {
    for max_rate in MAX_RATES {
        let report = report_at("12-three-tiers", max_rate);
        let last = report.series.last().unwrap();
        let reserved = |name| gib(tenant(last, name).qos.as_ref().unwrap().reserved_bytes);
        assert!(reserved("c") < 0.5, "the second tier satisfies c: {}", reserved("c"));
        // a: 20 (120 - 100) / 40 = 10 of the first tier. b needs 5 of it.
        assert_near(reserved("a"), 10.0, 0.15, "a");
        assert_near(reserved("b"), 5.0, 0.2, "b");
        for row in between(&report, 75.0, 90.0) {
            for tenant in &row.means.tenants {
                for (used, limit) in tenant.used_bytes.iter().zip(&tenant.limit_bytes) {
                    let most = limit.map_or(f64::INFINITY, gib);
                    assert!(gib(*used) < most + 0.3, "{} s: {tenant:?}", row.seconds);
                }
            }
        }
        for (name, target) in [("a", 100.0), ("b", 110.0), ("c", 150.0)] {
            let latency = tenant(last, name).latency_ns.unwrap();
            assert!(latency < target * 1.05, "{name}: {latency}");
        }
    }
}
