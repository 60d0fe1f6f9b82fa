// SPDX-License-Identifier: Apache-2.0
//! `tierline qos`, with the scenarios of the repository.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::{text, tierline};

fn qos(words: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    tierline(["qos"].iter().chain(words)).current_dir(root).output().expect("tierline runs")
}

/// Fast memory is 40 GiB at 100 ns, slow memory has 250 ns; a uniform program needs size (250 - target) / 150.
#[test]
fn a_plan_serves_targets_by_priority_and_tells_what_is_short() {
    let out = qos(&["plan", "--json", "scenarios/qos/01-order-of-arrival.toml"]);
    assert_eq!(out.status.code(), Some(1), "one target is not met: {}", text(&out.stderr));
    let plan: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let applications = plan["applications"].as_array().expect("an array");
    let gib = |one: &Value| one.as_f64().expect("bytes") / f64::from(1 << 30);
    for (one, (name, reserved, short, ns)) in applications.iter().zip([
        ("a", 12.0, 0.0, 160.0),
        ("b", 15.0, 0.0, 175.0),
        ("c", 13.0, 2.0, 185.0),
    ]) {
        assert_eq!(one["name"], name);
        let grant = &one["grant"];
        assert!((gib(&grant["reserved_bytes_by_tier"][0]) - reserved).abs() < 0.01, "{one}");
        assert!((gib(&grant["short_bytes"]) - short).abs() < 0.01, "{one}");
        assert!((one["unloaded_latency_ns"].as_f64().expect("ns") - ns).abs() < 0.1, "{one}");
    }
}

#[test]
fn a_plan_refuses_the_impossible_and_names_the_best() {
    let out = qos(&["plan", "scenarios/qos/04-impossible-target.toml"]);
    assert_eq!(out.status.code(), Some(1));
    let plan = text(&out.stdout);
    assert!(plan.contains("90 ns cannot be met") && plan.contains("100 ns at best"), "{plan}");
    assert_eq!(plan.matches("meets its target").count(), 2, "{plan}");
}

#[test]
fn a_scenario_without_priorities_or_an_unknown_name_is_an_error_with_a_hint() {
    let out = qos(&["plan", "scenarios/several-tenants.toml"]);
    assert_eq!(out.status.code(), Some(2));
    let error = text(&out.stderr);
    assert!(error.contains("no tenant with a priority") && error.contains("Hint: "), "{error}");
}
