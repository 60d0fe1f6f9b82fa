// SPDX-License-Identifier: Apache-2.0
//! Tests of `tierline profile`: of recorded programs and of workloads on the model.

use serde_json::Value;

use crate::{json, output, text};

fn spans(heat: &Value) -> Vec<[u64; 3]> {
    let within = heat["within"].as_array().expect("spans");
    let number = |span: &Value, key: &str| span[key].as_u64().expect("a number");
    let all = ["intervals", "used_bytes", "came_back_bytes"];
    within.iter().map(|span| all.map(|key| number(span, key))).collect()
}

/// Longer spans contain more memory, and all of it once they are as long as the trace.
#[test]
fn a_recorded_program_uses_more_memory_in_longer_time() {
    for program in ["redis", "sqlite"] {
        let file = format!("../../lab/traces/recorded/{program}.trace");
        let info = json(&format!("trace info {file} --json"));
        let interval = info["seconds"].as_f64().expect("seconds") / 9.5;
        let line = format!("profile --trace {file} --interval {interval}s --json");
        let profile = json(&line);
        assert_eq!(profile["intervals"], 10, "{program}");
        let all = &profile["memory"][0];
        assert_eq!(all["memory_bytes"], info["touched_bytes"], "{program}");
        assert_eq!(all["new_bytes"], info["touched_bytes"], "every page is new once");
        let spans = spans(all);
        assert_eq!(spans.iter().map(|span| span[0]).collect::<Vec<_>>(), [1, 2, 5, 10]);
        assert!(spans.windows(2).all(|two| two[0][1] <= two[1][1] && two[0][2] <= two[1][2]));
        let last = spans.last().expect("a span");
        assert_eq!(
            (Some(last[1]), Some(last[2])),
            (all["memory_bytes"].as_u64(), all["came_back_bytes"].as_u64())
        );
        assert_eq!(profile["memory"].as_array().map(Vec::len), Some(1), "a trace has no kinds");
    }
}

/// TPP's published figures of Web1 (3.3).
#[test]
fn private_memory_is_hotter_than_files() {
    let profile = json("profile --workload datacenter:app=web1 --json");
    let seconds = profile["interval_seconds"].as_f64().expect("seconds");
    assert!((seconds - 60.0).abs() < 1e-6 && profile["intervals"] == 10, "{profile}");
    let kinds = profile["memory"].as_array().expect("kinds");
    let names: Vec<&str> = kinds.iter().filter_map(|heat| heat["kind"].as_str()).collect();
    assert_eq!(names, ["anonymous", "file"]);
    let percent = |heat: &Value| 100 * spans(heat)[1][1] / heat["memory_bytes"].as_u64().unwrap();
    assert!((35..=60).contains(&percent(&kinds[1])) && (3..=14).contains(&percent(&kinds[2])));
    let message = text(&output("profile --workload datacenter:app=web1").stdout);
    assert!(message.contains("private") && message.contains("10 intervals of 60.0 s"), "{message}");
}

#[test]
fn a_missing_target_is_an_error_that_lists_the_targets() {
    let refused = output("profile");
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--workload"));
}
