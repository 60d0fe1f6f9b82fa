// SPDX-License-Identifier: Apache-2.0
//! Tests of traces through the command line: recorded programs (lab/traces), converted, cut, merged, replayed.

use std::fs;

use crate::machine::Machine;
use crate::{json, output, text};

const RECORDED: &str = "../../lab/traces/recorded";

/// The programs of lab/traces/record.
const PROGRAMS: [&str; 3] = ["redis", "sqlite", "graph"];

#[test]
fn recorded_programs_are_complete_and_small() {
    for program in PROGRAMS {
        let file = format!("{RECORDED}/{program}.trace");
        let info = json(&format!("trace info {file} --json"));
        assert!(info["error"].is_null(), "{info}");
        assert_eq!(info["evidence"], "counted");
        assert!(info["reads"].as_u64() > Some(10_000), "{info}");
        assert!(fs::metadata(&file).expect("a file").len() <= 300 << 10);
    }
}

/// The two halves of a trace, merged again, have the same number of accesses.
#[test]
fn a_trace_is_cut_merged_and_plotted() {
    let machine = Machine::new();
    let [early, late, both, picture] =
        ["early", "late", "both", "plot.svg"].map(|name| machine.file(name).display().to_string());
    let redis = format!("{RECORDED}/redis.trace");
    for line in [
        format!("trace cut {redis} --end 40ms -o {early}"),
        format!("trace cut {redis} --start 40ms -o {late}"),
        format!("trace merge {early} {late} -o {both}"),
        format!("trace plot {both} -o {picture}"),
    ] {
        let output = output(&line);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
    }
    let [all, early, late, both] = [&redis, &early, &late, &both]
        .map(|file| json(&format!("trace info {file} --json"))["reads"].as_u64());
    assert_eq!(all, both);
    assert_eq!(all, early.zip(late).map(|(early, late)| early + late));
    let picture = fs::read_to_string(picture).expect("a picture");
    assert!(picture.starts_with("<svg") && picture.matches("<rect").count() > 500);
}

/// Status 1, the offset of the error, and everything before it.
#[test]
fn a_truncated_trace_gives_the_offset_and_is_used_up_to_there() {
    let machine = Machine::new();
    let file = machine.file("short.trace");
    let whole = fs::read(format!("{RECORDED}/redis.trace")).expect("a trace");
    fs::write(&file, &whole[..whole.len() / 2]).expect("written");
    let line = format!("trace info {} --json", file.display());
    let output = output(&line);
    assert_eq!(output.status.code(), Some(1));
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let error = info["error"].as_str().expect("an error");
    assert!(error.starts_with(&format!("at byte {}: expected", whole.len() / 2)), "{error}");
    assert!(info["epochs"].as_u64() > Some(2), "{info}");
    let run = json(&format!("sim --trace {} --seconds 1 --policy hold --json", file.display()));
    let throughput = run["runs"][0]["overall"]["programs"][0]["throughput_per_second"].as_f64();
    assert!(throughput > Some(0.9) && throughput < Some(1.1), "{throughput:?}");
}

#[test]
fn a_file_that_is_no_trace_is_refused() {
    let output = output("trace info Cargo.toml");
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    assert!(message.contains("at byte 0: expected a Tierline trace"), "{message}");
    assert!(message.contains("Hint: `tierline trace convert --help`"), "{message}");
}

#[test]
fn accesses_are_converted_from_a_file() {
    let machine = Machine::new();
    let (text, trace) = (machine.file("lackey.txt"), machine.file("lackey.trace"));
    let accesses: String = (0..64 * 100).map(|line| format!(" L {:x},8\n", line * 64)).collect();
    fs::write(&text, accesses).expect("written");
    let (text, trace) = (text.display().to_string(), trace.display().to_string());
    let converted = output(&format!("trace convert --from lackey {text} {trace}"));
    assert_eq!(converted.status.code(), Some(0), "{}", crate::text(&converted.stderr));
    let info = json(&format!("trace info {trace} --json"));
    assert_eq!((&info["reads"], &info["touched_bytes"]), (&6400.into(), &409_600.into()));
    let output = output(&format!("trace convert --from lackey --llc 3M {text} {trace}"));
    assert_eq!(output.status.code(), Some(2));
    assert!(crate::text(&output.stderr).contains("powers of two"));
}

/// A scenario file can combine traces and synthetic workloads; with too little fast memory they are slower.
#[test]
fn a_scenario_replays_several_programs_at_once() {
    let machine = Machine::new();
    let file = machine.file("several.toml");
    let folder = std::env::current_dir().expect("a folder").join(RECORDED);
    let folder = folder.display();
    let scenario = |fast: &str| {
        format!(
            "machine = \"ddr5-cxl-asic\"\nseconds = 4\npolicy = \"first-touch\"\nfast_capacity = \"{fast}\"\n\
             [[workload]]\ntrace = \"{folder}/redis.trace\"\nname = \"redis\"\n\
             [[workload]]\ntrace = \"{folder}/sqlite.trace\"\nname = \"sqlite\"\nstart = \"1s\"\nin_flight = 2\n"
        )
    };
    let [roomy, tight] = ["1GiB", "4MiB"].map(|fast| {
        fs::write(&file, scenario(fast)).expect("written");
        let run = json(&format!("sim {} --json", file.display()));
        let programs = run["runs"][0]["steady"]["programs"].as_array().expect("programs").clone();
        assert_eq!(programs.iter().map(|p| &p["name"]).collect::<Vec<_>>(), ["redis", "sqlite"]);
        programs[0]["throughput_per_second"].as_f64().expect("a figure")
    });
    assert!(tight < 0.95 * roomy, "{tight} {roomy}");
}

/// With a third of its memory fast, policies that pack Redis' hot pages beat one that never moves any.
#[test]
fn policies_are_ranked_on_recorded_redis() {
    let line = format!(
        "compare --json --trace {RECORDED}/redis.trace,stretch=100 --machine ddr5-cxl-asic --ratio 1:2 \
         --seconds 80 --policy first-touch,tierline,memtis,oracle"
    );
    let entries = json(&line);
    let of = |policy: &str| {
        let entries = entries.as_array().expect("entries");
        let entry = entries.iter().find(|entry| entry["policy"] == policy).expect("it ran");
        entry["throughput_per_second"].as_f64().expect("a figure")
    };
    assert!(of("tierline") > of("first-touch"), "{entries}");
    assert!(of("memtis") > of("first-touch"), "{entries}");
}

/// In the lab's demo, fast memory for a quarter of Redis serves 23.6, 72.3 and 75.5 % of its accesses: unmanaged,
/// with the kernel's tiering, with Tierline (SPECIFICATION). The replay of a smaller Redis has the same order.
#[test]
fn replayed_redis_ranks_the_kernel_and_tierline_as_the_lab_does() {
    let entries = json(&format!(
        "compare --json --trace {RECORDED}/redis.trace,stretch=100 --machine ddr5-cxl-asic --ratio 1:3 \
         --seconds 80 --policy first-touch,linux,tierline"
    ));
    let of = |policy: &str, key: &str| {
        let entries = entries.as_array().expect("entries");
        let entry = entries.iter().find(|entry| entry["policy"] == policy).expect("it ran");
        entry[key].as_f64().expect("a figure")
    };
    for key in ["fast_share", "throughput_per_second"] {
        let [unmanaged, kernel, tierline] =
            ["first-touch", "linux", "tierline"].map(|policy| of(policy, key));
        assert!(unmanaged < kernel && kernel < tierline, "{key}: {entries}");
    }
}

/// If no tracker is available, the command is not started; otherwise there is a trace.
#[test]
fn recording_makes_a_trace_or_reports_what_is_missing() {
    let machine = Machine::new();
    let (trace, state) = (machine.file("a.trace"), machine.file("state"));
    let (trace, state) = (trace.display().to_string(), state.display().to_string());
    let line = format!("record -o {trace} --state-dir {state} --epoch 100ms -- sleep 0.5");
    let output = output(&line);
    match output.status.code() {
        Some(0) => assert!(json(&format!("trace info {trace} --json"))["error"].is_null()),
        code => {
            assert_eq!(code, Some(2));
            let message = text(&output.stderr);
            assert!(message.contains("Hint:") && !fs::exists(&trace).expect("known"), "{message}");
        }
    }
}
