// SPDX-License-Identifier: Apache-2.0
//! The bound: no policy exceeds it, and it is reached where placement is simple.

use proptest::prelude::*;
use tierline_model::matrix::policies;
use tierline_model::run::run;
use tierline_model::scenario::Scenario;

/// What a policy may exceed it by: the error of the search.
const ERROR: f64 = 0.005;

fn progress(scenario: &Scenario, policy: &str) -> f64 {
    run(&Scenario { policy: policy.into(), ..scenario.clone() }).unwrap().overall.progress
}

fn scenario(machine: &str, fast_gib: u32, programs: &[String]) -> Scenario {
    let mut text = format!(
        "machine = \"{machine}\"\nseconds = 1.5\ngrow = true\nfast_capacity = \"{fast_gib}GiB\"\n"
    );
    programs.iter().for_each(|program| text += &format!("[[workload]]\n{program}\n"));
    Scenario::parse("test", &text).unwrap()
}

fn program() -> impl Strategy<Value = String> {
    let gups = (2u32..5, 1u32..16).prop_map(|(set, threads)| {
        format!("kind = \"gups\"\nset = \"{set}GiB\"\nhot = \"1GiB\"\njump = \"700ms\"\nthreads = {threads}")
    });
    let kv =
        (2u32..5).prop_map(|set| format!("kind = \"kv\"\nset = \"{set}GiB\"\ndrift = \"64MiB/s\""));
    let scan = (1u32..4).prop_map(|set| format!("kind = \"scan\"\nset = \"{set}GiB\""));
    prop_oneof![gups, kv, scan]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn no_policy_exceeds_it(
        machine in prop::sample::select(vec!["colloid-icx", "arms-optane", "hbm-ddr5-cxl", "mercury-genoa-astera"]),
        fast_gib in 1u32..3,
        mut programs in prop::collection::vec(program(), 1..3),
        intensity in 0u32..4,
        policy in prop::sample::select(policies().collect::<Vec<_>>()),
    ) {
        let mut fast_gib = fast_gib;
        if intensity > 0 {
            fast_gib += 1;
            programs.push(format!("kind = \"antagonist\"\nintensity = {intensity}"));
        }
        let scenario = scenario(machine, fast_gib, &programs);
        let (of, bound) = (progress(&scenario, policy), progress(&scenario, "bound"));
        prop_assert!(of <= bound * (1.0 + ERROR), "{policy} {of}, bound {bound}");
    }
}

/// All memory is fast, or the hot set is and nothing else is in the way.
#[test]
fn it_is_reached_where_everything_fits() {
    let gups = "kind = \"gups\"\nset = \"2GiB\"\nhot = \"1GiB\"\nthreads = 1".to_string();
    let fits = scenario("colloid-icx", 4, &[gups]);
    let (of, bound) = (progress(&fits, "first-touch"), progress(&fits, "bound"));
    assert!((of / bound - 1.0).abs() < ERROR, "{of} {bound}");
    assert!(progress(&fits, "bound+moves") <= bound * (1.0 + ERROR));
}
