// SPDX-License-Identifier: Apache-2.0
//! Whole runs.

use tierline_model::report::Report;
use tierline_model::run::run;
use tierline_model::scenario::Scenario;

fn report(text: &str) -> Report {
    run(&Scenario::parse("test", text).unwrap()).unwrap()
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
    let report = report(SMALL);
    let first = &report.series[0].means.programs[0];
    let steady = &report.steady.programs[0];
    println!("{:#?}\n{:#?}", report.series[0], report.steady);
    println!("{:#?}", report.moves);
    assert!(steady.shares[0] > 0.93 && steady.throughput > 1.05 * first.throughput);
}

#[test]
fn one_seed_one_report_and_another_seed_another() {
    let of = |seed: u64| report(&format!("seed = {seed}\n{SMALL}"));
    assert_eq!(of(1), of(1));
    assert_ne!(of(1).fingerprint, of(2).fingerprint);
}
