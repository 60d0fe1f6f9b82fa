// SPDX-License-Identifier: Apache-2.0
//! Programs whose accesses are equally frequent and stall them differently.

use tierline_model::report::Means;
use tierline_model::run::run;
use tierline_model::scenario::Scenario;

/// The scenario in the folder, with counters of stalls that are wrong by this factor; 0: none.
fn scenario(stall_error: f64) -> Scenario {
    let text = include_str!("../../../../scenarios/chaser-beside-stream.toml");
    Scenario { stall_error, ..Scenario::parse("chaser-beside-stream.toml", text).unwrap() }
}

/// The last quarter of the run, after 45 s.
fn steady(scenario: &Scenario, policy: &str) -> Means {
    run(&Scenario { policy: policy.into(), ..scenario.clone() }).unwrap().steady
}

/// The same for the default policy.
fn by_default(scenario: &Scenario) -> Means {
    steady(scenario, "tierline")
}

/// The scenario for the default policy with all accesses counting the same.
fn unweighted(scenario: Scenario) -> Scenario {
    Scenario { policy_knobs: [("stall_costs".to_owned(), 0.0)].into(), ..scenario }
}

/// The geometric mean of the programs' speed-ups: the sum of log throughputs, as a factor for each program.
fn speed(means: &Means) -> f64 {
    let speedups: Vec<f64> = means.programs.iter().filter_map(|program| program.speedup).collect();
    assert_eq!(speedups.len(), 2);
    (speedups[0] * speedups[1]).sqrt()
}

/// Of the other policies, those that pack move pages without end or not at all, and none of them comes near.
#[test]
fn a_chaser_gets_fast_memory_before_a_stream() {
    let scenario = scenario(1.0);
    let of = |policy: &str| speed(&steady(&scenario, policy));
    let (ours, bound) = (speed(&by_default(&scenario)), of("bound"));
    assert!(ours >= 0.95 * bound && ours <= 1.005 * bound, "{ours} of {bound}");
    let same = speed(&by_default(&unweighted(scenario.clone())));
    assert!(same < ours, "all accesses the same: {same}, ours {ours}");
    for other in ["tpp+alto", "pact", "hybridtier", "hemem+colloid"] {
        let other_speed = of(other);
        assert!(other_speed < ours, "{other}: {other_speed}, ours {ours}");
    }
}

/// Unknown, or wrong by four in either direction, the stalls do no harm.
#[test]
fn wrong_counters_of_stalls_do_no_harm() {
    let without = speed(&by_default(&unweighted(scenario(0.0))));
    for stall_error in [0.0, 4.0, 0.25] {
        let with = speed(&by_default(&scenario(stall_error)));
        assert!(with >= 0.999 * without, "wrong by {stall_error}: {with}, without {without}");
    }
}

/// There is nothing to weigh it against.
#[test]
fn one_program_alone_is_placed_the_same_with_and_without_stalls() {
    let mut alone = scenario(1.0);
    alone.workload.truncate(1);
    alone.seconds = 5.0;
    assert_eq!(run(&alone).unwrap().fingerprint, run(&unweighted(alone)).unwrap().fingerprint);
}
