// SPDX-License-Identifier: Apache-2.0
//! Tenants on the modelled machine: limits are kept, a lowered limit is obeyed in time, and reports contain the
//! tenants' memory use and the programs' slowdown.

use std::collections::BTreeSet;

use tierline_core::port::{Observations, SpaceEvent, TenantId, World};
use tierline_core::tier::TierId;
use tierline_core::unit::{Bytes, Nanos};
use tierline_model::report::Interval;
use tierline_model::run::run;
use tierline_model::scenario::Scenario;

use crate::run::report;

const GIB: u64 = 1 << 30;
/// Fast memory of this machine.
const FAST: u64 = 2 * GIB;

/// Two tenants, each of which could use more fast memory than exists.
fn two_tenants(settings: &str, first: &str, second: &str) -> String {
    format!(
        r#"
        machine = "colloid-icx"
        fast_capacity = "2GiB"
        {settings}
        [tracker_knobs]
        sample_period = 5003
        [[tenant]]
        name = "first"
        {first}
        [[tenant]]
        name = "second"
        {second}
        [[workload]]
        kind = "gups"
        tenant = "first"
        set = "3GiB"
        hot = "1536MiB"
        threads = 7
        [[workload]]
        kind = "kv"
        tenant = "second"
        set = "3GiB"
        threads = 7
        "#
    )
}

/// Bytes of a tenant in fast memory.
fn fast(row: &Interval, tenant: usize) -> u64 {
    row.means.tenants[tenant].used_bytes[0].0
}

/// At first touch the first program occupies all 2 GiB of fast memory, as a kernel does not check limits at
/// allocation. The excess is demoted at 1 GiB/s.
#[test]
fn limits_are_kept_in_every_interval_and_used() {
    // The published policies promote only what they take for hot, so they leave some of their room free.
    for (policy, least) in [("tierline", 90), ("memtis", 25), ("hemem", 1)] {
        let settings = format!("policy = \"{policy}\"\nseconds = 20");
        let limits = ["limit = { fast = \"768MiB\" }", "limit = { t0 = \"40%\" }"];
        let report = report(&two_tenants(&settings, limits[0], limits[1]));
        let limits = [768 << 20, FAST / 5 * 2];
        for row in &report.series {
            let at = format!("{policy}, {} s", row.seconds);
            let tenants = &row.means.tenants;
            for (tenant, limit) in limits.into_iter().enumerate() {
                // 0.4 of 2 GiB is not a whole number of bytes.
                assert!(tenants[tenant].limit_bytes[0].unwrap().0.abs_diff(limit) <= 1, "{at}");
                assert_eq!(tenants[tenant].limit_bytes[1], None, "{at}");
                assert!(row.seconds < 3.0 || fast(row, tenant) <= limit, "{at}: {tenants:?}");
                let all: Bytes = tenants[tenant].used_bytes.iter().copied().sum();
                assert_eq!(all.0, 3 * GIB, "{at}: nothing of a tenant is lost or counted twice");
            }
            let free = row.means.tiers[0].free_bytes.0;
            assert_eq!(fast(row, 0) + fast(row, 1) + free, FAST, "{at}");
        }
        // Each tenant wants more than its limit; the second one has only what was promoted.
        let last = report.series.last().unwrap();
        for (tenant, limit) in limits.into_iter().enumerate() {
            let used = fast(last, tenant);
            assert!(used * 100 >= limit * least, "{policy}: tenant {tenant} has {used} of {limit}");
        }
        assert_eq!(report.steady.programs[1].tenant.as_deref(), Some("second"));
    }
}

#[test]
fn a_limit_lowered_by_100_mb_is_obeyed_within_a_second_at_256_mib_per_s() {
    let (before, after) = (900 << 20, 800 << 20);
    let settings = "seconds = 17\nmax_rate = \"256MiB/s\"\nreport_every = \"100ms\"";
    let first = "limit = { fast = \"900MiB\" }\nlimits = [{ at = \"15s\", fast = \"800MiB\" }]";
    let report = report(&two_tenants(settings, first, "limit = { fast = \"1GiB\" }"));
    let rows = |from: f64, to: f64| {
        let within = move |row: &&Interval| row.seconds > from && row.seconds < to;
        report.series.iter().filter(within)
    };
    let (mut at_old, mut at_new) = (0, 0);
    for row in rows(14.0, 14.99) {
        assert!(fast(row, 0) <= before && fast(row, 0) > after, "{}", row.seconds);
        at_old += 1;
    }
    for row in rows(16.0, 17.1) {
        assert!(fast(row, 0) <= after, "{}: {}", row.seconds, fast(row, 0));
        assert!(fast(row, 0) >= after / 10 * 9, "no more is demoted than necessary");
        at_new += 1;
    }
    assert!(at_old >= 8 && at_new >= 8, "{at_old} rows before and {at_new} after");
    // The other tenant keeps its memory.
    let had = rows(14.0, 14.99).map(|row| fast(row, 1)).min().unwrap();
    let has = rows(15.0, 17.1).map(|row| fast(row, 1)).min().unwrap();
    assert!(has + (32 << 20) >= had && had * 10 >= GIB * 9, "{has} of {had}");
}

/// The pages of a key-value store that move back soon after a move, at a limit and where fast memory ends there. Its keys are
/// of very unequal heat, so the last pages that fit differ by noise only.
#[test]
fn a_limit_moves_little_more_back_and_forth_than_a_tier_of_that_size() {
    let of = |fast: &str, tenant: &str, owner: &str| {
        report(&format!(
            r#"
            machine = "ddr5-cxl-asic"
            fast_capacity = "{fast}"
            seconds = 20
            {tenant}
            [[workload]]
            kind = "kv"
            set = "4GiB"
            drift = "4MiB/s"
            {owner}
            "#
        ))
    };
    let limit = "[[tenant]]\nname = \"shop\"\nlimit = { fast = \"3GiB\" }";
    let limited = of("6GiB", limit, "tenant = \"shop\"");
    let full = of("3GiB", "", "");
    let (back, usual) = (limited.moves.ping_pong_pages, full.moves.ping_pong_pages);
    assert!(back * 2 <= usual * 3, "{back} pages, {usual} without a limit");
    let [speed, usual] = [limited, full].map(|one| one.steady.programs[0].throughput);
    assert!(speed > usual * 0.98, "{speed} look-ups a second, {usual} without a limit");
}

#[test]
fn a_tenant_without_limits_changes_nothing() {
    let text = two_tenants("seconds = 5", "", "");
    let unowned: Vec<&str> = text.lines().filter(|line| !line.contains("tenant = ")).collect();
    let unowned = unowned.join("\n").replace("[[tenant]]", "").replace("name = \"first\"", "");
    let unowned = unowned.replace("name = \"second\"", "");
    let (owned, unowned) = (report(&text), report(&unowned));
    assert_eq!(owned.fingerprint, unowned.fingerprint);
    assert_eq!((owned.steady.tenants.len(), unowned.steady.tenants.len()), (2, 0));
}

#[test]
fn owners_are_reported_before_the_first_mapping_and_use_is_measured() {
    let text = two_tenants("seconds = 5", "", "") + "[[workload]]\nkind = \"scan\"\nset = \"1GiB\"";
    let mut world = Scenario::parse("test", &text).unwrap().world().unwrap();
    let mut seen = Observations::default();
    world.observe(Nanos::from_millis(10), &mut seen);
    let mut owned = BTreeSet::new();
    let mut mapped = Vec::new();
    for event in seen.space_events {
        match event {
            SpaceEvent::Owned(space, tenant) => assert!(owned.insert((space, tenant))),
            SpaceEvent::Mapped(region) => {
                let owner = owned.iter().find(|(space, _)| *space == region.space);
                mapped.push(owner.map(|&(_, tenant)| tenant));
            }
            other => panic!("unexpected event: {other:?}"),
        }
    }
    assert_eq!(mapped, [Some(TenantId(1)), Some(TenantId(2)), None]);
    let measured = world.measure(Nanos::from_millis(10)).tenants;
    assert_eq!(measured.len(), 2, "a program without tenant is not measured");
    for (at, tenant) in measured.iter().enumerate() {
        let job = &world.jobs()[at];
        let used = [TierId(0), TierId(1)].map(|tier| Some(job.bytes_in(tier)));
        assert_eq!((tenant.tenant, &tenant.used[..]), (job.tenant, &used[..]));
    }
}

#[test]
fn impossible_limits_are_refused_with_a_next_step() {
    let refused = |first: &str, second: &str, more: &str| {
        let text = two_tenants("seconds = 1", first, second) + more;
        run(&Scenario::parse("test", &text).unwrap()).unwrap_err().to_string()
    };
    let bound = "[[workload]]\nkind = \"antagonist\"\ntenant = \"first\"";
    let of_third = "[[workload]]\nkind = \"scan\"\ntenant = \"third\"";
    for (first, more, parts) in [
        ("", of_third, &["tenant", "third"][..]),
        ("limit = { fast = \"3GiB\" }", "", &["first", "fast", "3GiB", "2.0 GiB", "lower it"]),
        ("limit = { fast = \"101%\" }", "", &["first", "fast", "101%", "0% to 100%"]),
        ("limit = { fast = \"-1%\" }", "", &["first", "fast", "-1%", "0% to 100%"]),
        ("limit = { fast = \"much\" }", "", &["first", "fast", "much", "as in 512M"]),
        ("limit = { fats = \"1GiB\" }", "", &["tier", "fats", "colloid-icx"]),
        ("limit = { t2 = \"1GiB\" }", "", &["tier", "t2", "colloid-icx"]),
        ("limit = { t0 = \"1GiB\", fast = \"1GiB\" }", "", &["first", "two limits", "remove one"]),
        ("limits = [{ at = \"1s\", slow = \"999GiB\" }]", "", &["first", "slow", "999GiB"]),
        ("limit = { fast = \"400MiB\" }", bound, &["first", "bind 500 MiB", "raise"]),
    ] {
        let error = refused(first, "", more);
        assert!(parts.iter().all(|part| error.contains(part)), "{first} {more}: {error}");
    }
    let twice = refused("", "[[tenant]]\nname = \"first\"", "");
    assert!(twice.contains("first") && twice.contains("twice"), "{twice}");
    let nameless = refused("", "[[tenant]]\nlimit = {}", "");
    assert!(nameless.contains("no name"), "{nameless}");
    let alone = "[[workload]]\nkind = \"scan\"\ntenant = \"first\"";
    let error = Scenario::parse("test", alone).unwrap().arrivals().unwrap_err().to_string();
    assert!(error.contains("first") && error.contains("add a [[tenant]]"), "{error}");
    let timeless = two_tenants("", "limits = [{ fast = \"1GiB\" }]", "");
    let error = Scenario::parse("test", &timeless).unwrap_err().to_string();
    assert!(error.contains("at"), "{error}");
}

/// The reported speed-up equals that of separate simulations: of the programs together, and of each alone on a
/// machine where all its memory is fast. There are no moves and no stalls, so both have the same patterns.
#[test]
fn speedup_is_relative_to_running_alone_in_fast_memory() {
    let programs = [
        "kind = \"gups\"\nset = \"6GiB\"\nhot = \"2GiB\"",
        "kind = \"scan\"\nset = \"4GiB\"\nthreads = 5",
    ];
    let simulated = |fast: &str, programs: &[&str]| {
        let head = format!("seconds = 2\npolicy = \"hold\"\ntracker = \"truth\"\n{fast}\n");
        report(&programs.iter().fold(head, |text, own| text + "[[workload]]\n" + own + "\n")).steady
    };
    let together = simulated("fast_capacity = \"3GiB\"", &programs);
    let mut speedups = Vec::new();
    for (program, own) in together.programs.iter().zip(programs) {
        let alone = &simulated("", &[own]);
        assert!((alone.programs[0].shares[0] - 1.0).abs() < 1e-9, "all its memory is fast");
        assert!((alone.weighted_speedup - 1.0).abs() < 1e-6, "{}", alone.weighted_speedup);
        let expected = program.throughput / alone.programs[0].throughput;
        let booked = program.speedup.unwrap();
        assert!((booked / expected - 1.0).abs() < 1e-6, "{booked}, not {expected}");
        assert!(booked < 0.9, "{booked}: the other program and slow memory slow it down");
        speedups.push(booked);
    }
    let weighted: f64 = speedups.iter().sum();
    assert!((together.weighted_speedup - weighted).abs() < 1e-12);
    let least = speedups.iter().copied().fold(f64::INFINITY, f64::min);
    assert!((together.worst_slowdown.unwrap() - 1.0 / least).abs() < 1e-12);
}

/// The speed-up of a program covers the time in which it ran; a program without threads does not count.
#[test]
fn a_late_program_is_not_slow_and_an_idle_one_does_not_count() {
    let text = r#"
        seconds = 3
        policy = "hold"
        tracker = "truth"
        [[workload]]
        kind = "gups"
        set = "1GiB"
        hot = "512MiB"
        start = "2s"
        [[workload]]
        kind = "antagonist"
        intensity = 0
    "#;
    let overall = report(text).overall;
    assert_eq!(overall.programs.iter().filter(|program| program.speedup.is_none()).count(), 1);
    assert!((overall.weighted_speedup - 1.0).abs() < 1e-3, "{}", overall.weighted_speedup);
    assert!((overall.worst_slowdown.unwrap() - 1.0).abs() < 1e-3);
}
