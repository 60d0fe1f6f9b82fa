// SPDX-License-Identifier: Apache-2.0
//! Complete runs.

use tierline_core::policy::Wants;
use tierline_core::port::{Move, Observations, Order, PageSize, Reason, World};
use tierline_core::tier::TierId;
use tierline_core::unit::{BASE_PAGE, Bytes, Nanos};
use tierline_model::report::Report;
use tierline_model::run::run;
use tierline_model::scenario::Scenario;

/// The report of a scenario.
pub fn report(text: &str) -> Report {
    run(&Scenario::parse("test", text).unwrap()).unwrap()
}

/// The report of a program in base pages on NeoMem's machine, with this much fast memory.
pub fn on_neomems_machine(settings: &str, fast: &str, workload: &str) -> Report {
    report(&format!(
        r#"
        machine = "neomem-spr-fpga"
        {settings}
        fast_capacity = "{fast}"
        grow = true
        [[workload]]
        {workload}
        pages = "base"
        "#
    ))
}

const SMALL: &str = r#"
    seconds = 20
    policy = "tierline"
    fast_capacity = "3GiB"
    [tracker_knobs]
    sample_period = 5003
    [[workload]]
    kind = "gups"
    set = "6GiB"
    hot = "2GiB"
"#;

#[test]
fn the_default_policy_finds_the_hot_set_and_throughput_rises() {
    let report = report(&format!("max_rate = \"1GiB/s\"\n{SMALL}"));
    let first = &report.series[0].means.programs[0];
    let steady = &report.steady.programs[0];
    println!("{:#?}\n{:#?}", report.series[0], report.steady);
    println!("{:#?}", report.moves);
    assert!(steady.shares[0] > 0.92 && steady.throughput > 1.05 * first.throughput);
}

#[test]
fn one_seed_one_report_and_another_seed_another() {
    let of = |seed: u64| report(&format!("seed = {seed}\n{SMALL}"));
    assert_eq!(of(1), of(1));
    assert_ne!(of(1).fingerprint, of(2).fingerprint);
}

/// A kernel policy's promotions stall the thread that faults; those of the default policy do not.
#[test]
fn promotion_is_paid_by_the_faulting_thread_under_kernel_policies() {
    let of = |policy: &str, synchronous: &str| {
        let text = SMALL.replace("\"tierline\"", &format!("\"{policy}\"\n{synchronous}"));
        report(&text)
    };
    for (policy, in_fault) in [("tpp", true), ("linux", true), ("tierline", false)] {
        let [chosen, same] = ["", &format!("synchronous = {in_fault}")];
        let other = of(policy, &format!("synchronous = {}", !in_fault));
        assert_eq!(of(policy, chosen), of(policy, same), "{policy}");
        assert_ne!(of(policy, same), other, "{policy}");
    }
}

/// A program that binds memory to a node gets it there, however late it starts: the antagonist uses fast memory
/// although GUPS has filled it before.
#[test]
fn pinned_memory_is_reserved_for_a_late_program() {
    let text = r#"
        seconds = 4
        policy = "hold"
        fast_capacity = "1GiB"
        [[workload]]
        kind = "gups"
        set = "2GiB"
        hot = "512MiB"
        [[workload]]
        kind = "antagonist"
        start = "2s"
    "#;
    let scenario = Scenario::parse("test", text).unwrap();
    let mut world = scenario.world().unwrap();
    world.run_until(Nanos::from_secs(1));
    world.check();
    assert!(
        world.frames().free(TierId::FAST) < PageSize::Huge.base_pages(),
        "GUPS occupies the rest"
    );
    world.run_until(Nanos::from_secs(3));
    world.check();
    let shares = &report(text).steady.programs[1].shares;
    assert!((shares[0] - 1.0).abs() < 1e-12, "{shares:?}");
}

/// Four threads need a quarter of the copying time of one, plus the kernel's own work.
#[test]
fn a_page_is_copied_by_the_requested_number_of_threads() {
    let scenario = Scenario::parse("test", SMALL).unwrap();
    let spent = |copy_threads: Option<u32>| {
        let wants = Wants { copy_threads, ..Wants::default() };
        let mut world = scenario.world_for(&wants).unwrap();
        world.observe(Nanos::from_millis(10), &mut Observations::default());
        let job = &world.jobs()[0];
        let page = (0..job.live()).find(|&page| job.tier(page) == Some(TierId::FAST)).unwrap();
        let demotion = Move {
            space: job.space,
            vpn: job.vpn(page),
            size: job.size,
            from: TierId::FAST,
            to: TierId(1),
            reason: Reason::Headroom { rate_per_sec: 1.0 },
        };
        world.act(Nanos::from_millis(10), &[Order::Move(demotion)], &mut Vec::new())
    };
    let (one, four) = (spent(Some(1)), spent(Some(4)));
    assert_eq!(spent(None), one);
    let work = 5_000.0 + 4_000.0 / 32.0;
    let copying = |ns: Nanos| ns.as_secs_f64() * 1e9 - work;
    assert!((copying(one) / copying(four) - 4.0).abs() < 0.01, "{one} and {four}");
}

/// Lightly loaded HBM has more latency than DDR5, so new memory has no business there: 5 GiB of it, of which half would be
/// moved out again if room were kept for all.
#[test]
fn no_room_is_made_for_new_memory_in_a_tier_that_should_serve_less() {
    let report = report(
        r#"
        machine = "hbm-ddr5-cxl"
        ratio = "1:14"
        seconds = 5
        [[workload]]
        kind = "latest"
        set = "12GiB"
        start_set = "6GiB"
        fresh = "800MiB"
        growth = "1GiB/s"
        threads = 3
        "#,
    );
    let moved = report.moves.promoted_pages + report.moves.demoted_pages;
    assert!(BASE_PAGE.0 * moved < 5 << 29, "{:?}", report.moves);
}

/// A scan of three times as much memory as is fast, which reads a page for a moment every two seconds, beside random reads of an
/// index of a third of fast memory: nothing of the scan is worth a move, although each of its pages looks hot while it is read.
#[test]
fn pages_that_are_hot_for_a_moment_are_not_promoted() {
    let report = report(
        r#"
        machine = "arms-optane"
        policy = "tierline"
        seconds = 30
        fast_capacity = "4GiB"
        grow = true
        [[workload]]
        kind = "xsbench"
        set = "8GiB"
        threads = 0.7
        index = "1200MiB"
        index_share = 0.8
        [[workload]]
        kind = "scan"
        set = "12GiB"
        threads = 1.4
        start = "3s"
        "#,
    );
    let fast_share = report.steady.programs[0].shares[0];
    // The index, which has 0.8 of them, is fast from the start, and so is a part of the rest.
    assert!(fast_share > 0.8, "of random reads: {fast_share}");
    let moved = BASE_PAGE * report.moves.promoted_pages;
    assert!(moved < Bytes::from_mib(4096), "no more than fast memory holds: {moved:?}");
}
