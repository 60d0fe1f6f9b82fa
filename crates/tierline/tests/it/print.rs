// SPDX-License-Identifier: Apache-2.0
//! What is printed: errors with their next step, and JSON.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use tierline_core::policy::POLICIES;
use tierline_linux::tracker::TRACKERS;
use tierline_model::workload::list::listed;

use crate::machine::Machine;
use crate::{json, output, text, tierline};

#[test]
fn every_policy_tracker_and_workload_is_explained() {
    let names = POLICIES.iter().map(|entry| entry.name);
    let names = names.chain(TRACKERS.iter().map(|entry| entry.name));
    for name in names.chain(listed().map(|entry| entry.name)) {
        let report = json(&format!("explain --json {name}"));
        let text = report["text"].as_str().expect("a text");
        assert!(text.starts_with(name) && text.lines().count() > 3, "{text}");
    }
    let unknown = output("explain teirline");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        text(&unknown.stderr).contains("Hint: did you mean tierline?"),
        "{}",
        text(&unknown.stderr)
    );
}

#[test]
fn workloads_are_listed_with_their_knobs() {
    let list = json("workloads --json");
    let workloads = list["workloads"].as_array().expect("workloads");
    let names: Vec<_> = workloads.iter().filter_map(|workload| workload["name"].as_str()).collect();
    assert!(names.starts_with(&["gups", "kv"]) && names.ends_with(&["trace"]), "{names:?}");
    let hot = &workloads[0]["knobs"][1];
    assert_eq!(
        (&hot["name"], &hot["default"], &hot["unit"]),
        (&"hot".into(), &"24GiB".into(), &"size".into())
    );
    assert!(text(&output("workloads").stdout).contains("random updates to a hot set"));
    let explained = text(&output("explain gups").stdout);
    for part in ["What it does:", "hot_share", "0 to 1", "Every workload also takes", "stop"] {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    let knobs = text(&output("explain hemem").stdout);
    assert!(knobs.contains("hot_reads") && knobs.contains("Sampled loads"), "{knobs}");
}

#[test]
fn the_lists_are_those_of_the_core() {
    let policies = json("policies --json");
    let name = |at: usize| policies["policies"][at]["name"].as_str();
    assert!(POLICIES.iter().enumerate().all(|(at, entry)| name(at) == Some(entry.name)));
    assert_eq!(policies["policies"][0]["default"], true);
    let trackers = json("trackers --json");
    for (at, entry) in TRACKERS.iter().enumerate() {
        let tracker = &trackers["trackers"][at];
        assert_eq!(tracker["name"], entry.name);
        assert!(tracker["available"].is_boolean(), "the probe does not know {}", entry.name);
    }
}

/// A scenario's tracker is the Linux tracker of that name; only a model can observe everything.
#[test]
fn the_models_trackers_are_those_of_linux() {
    let only: Vec<&str> = tierline_model::tracker::TRACKERS
        .iter()
        .map(|entry| entry.name)
        .filter(|name| TRACKERS.iter().all(|entry| entry.name != *name))
        .collect();
    assert_eq!(only, ["truth"]);
}

#[test]
fn doctor_reports_the_next_step() {
    let output = output("doctor --json");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = report["findings"].as_array().expect("findings");
    assert!(findings.iter().all(|f| f["next_step"].as_str().is_some_and(|next| !next.is_empty())));
    let serious = findings.iter().any(|finding| finding["severity"] != "note");
    assert_eq!(output.status.code(), Some(i32::from(serious)));
    assert_eq!(report["schema_version"], 2);
}

#[test]
fn a_two_tier_machine_is_described_in_base_units() {
    let machine = Machine::new();
    let report = json(&format!("topology --json --root {}", machine.root().display()));
    assert_eq!(report["tiers"][1]["name"], "slow");
    assert_eq!(report["tiers"][1]["capacity_bytes"], 2_u64 << 30);
    assert_eq!(report["nodes"][0]["free_bytes"], 512 << 20);
    let text = text(&output(&format!("topology --root {}", machine.root().display())).stdout);
    assert!(text.contains("fast") && text.contains("2.0 GiB"), "{text}");
}

#[test]
fn a_typo_in_the_configuration_is_shown_with_its_line_and_the_nearest_key() {
    let machine = Machine::new();
    let file = machine.file("typo.toml");
    fs::write(&file, "policy = \"hold\"\nmax_rat = \"1GB/s\"\n").expect("a file");
    for line in ["config check FILE", "run --config FILE -- true", "config print --config FILE"] {
        let output = output(&line.replace("FILE", &file.display().to_string()));
        let text = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(
            text.starts_with("Error: ") && text.contains("line 2") && text.contains("^^^"),
            "{text}"
        );
        assert!(text.contains("Hint: unknown key max_rat; did you mean max_rate?"), "{text}");
    }
    let missing = output("config check /nowhere/tierline.toml");
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("/nowhere/tierline.toml"));
}

#[test]
fn the_configuration_shows_the_source_of_each_value() {
    let machine = Machine::new();
    let root = machine.root();
    fs::create_dir_all(root.join("etc/tierline/tierline.d")).expect("a folder");
    fs::write(root.join("etc/tierline/tierline.toml"), "policy = \"hold\"\ninterval = \"1s\"")
        .expect("a file");
    fs::write(root.join("etc/tierline/tierline.d/a.toml"), "interval = \"2s\"").expect("a file");
    let line = format!(
        "config print --json --root {} --set limit=fast=1G --max-rate 8M/s",
        root.display()
    );
    let report = json(&line);
    let keys = report["keys"].as_array().expect("keys");
    let of = |key: &str| keys.iter().find(|k| k["key"] == key).expect("a key").clone();
    assert!(of("policy")["source"].as_str().is_some_and(|s| s.ends_with("tierline.toml")));
    assert_eq!(of("interval")["value"], "2s");
    assert_eq!(of("limit")["source"], "--set limit=fast=1G");
    assert_eq!(of("limit")["value"], "fast=1GiB");
    assert_eq!(of("max_rate")["value"], "8MiB/s");
    assert_eq!(of("tracker")["source"], "default");
}

#[test]
fn a_closed_pipe_is_no_error() {
    for line in ["completion bash", "policies --json", "man", "doctor --json"] {
        let (gone, stdout) = UnixStream::pair().expect("a pair");
        drop(gone);
        let mut command = tierline(line.split(' '));
        let output = command.stdout(OwnedFd::from(stdout)).output().expect("tierline runs");
        assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{line}");
    }
}

#[test]
fn completions_and_manuals_contain_the_verbs() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(text(&output(&format!("completion {shell}")).stdout).contains("attach"), "{shell}");
    }
    let machine = Machine::new();
    let dir = machine.file("man");
    assert_eq!(output(&format!("man {}", dir.display())).status.code(), Some(0));
    assert!(fs::read_to_string(dir.join("tierline-run.1")).expect("a page").contains("dry"));
    assert!(text(&output("--version").stdout).starts_with("tierline "));
}

#[test]
fn completions_offer_names_and_no_hidden_option() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = text(&output(&format!("completion {shell}")).stdout);
        assert!(script.contains("json"), "{shell}");
        assert!(!script.contains("--root") && !script.contains("-l root"), "{shell}");
        assert!(!script.contains("A folder used instead of /"), "{shell}");
    }
    let bash = text(&output("completion bash").stdout);
    let of = |verb: &str| {
        let from = bash.find(&format!("        tierline__subcmd__{verb})")).expect(verb);
        let length = bash[from..].find("\n            ;;\n").expect("its end");
        let end = from + length;
        &bash[from..end]
    };
    for (verb, names) in [
        ("sim", ["hemem+colloid", "colloid-icx", "gups", "pebs", "nomad"]),
        ("tune", ["hemem+colloid", "colloid-icx", "gups", "hemem", "gups"]),
        ("record", ["soft_dirty", "damon", "pebs", "hint_faults", "accessed"]),
        ("explain", ["hemem", "damon", "nomad", "tierline", "pebs"]),
    ] {
        let offered = of(verb);
        assert!(names.iter().all(|name| offered.contains(name)), "{verb}: {offered}");
    }
}

#[test]
fn documents_are_printed_as_json_too() {
    let script = json("completion fish --json");
    assert!(script["text"].as_str().is_some_and(|text| text.contains("complete -c tierline")));
    assert!(json("man --json")["text"].as_str().is_some_and(|text| text.contains(".TH")));
    let machine = Machine::new();
    let pages = json(&format!("man {} --json", machine.file("man").display()));
    let pages = pages["files"].as_array().expect("files").clone();
    assert!(pages.len() > 20 && pages.iter().all(|page| page.is_string()), "{pages:?}");
    for line in [
        "bench model --seconds 1",
        "bench trace --records 1000",
        "bench qos --applications 20 --steps 5",
    ] {
        let runs = json(&format!("{line} --json"));
        assert_eq!(runs["schema_version"], 2);
        assert!(runs["runs"][0].is_object(), "{runs}");
    }
}

/// Names in an example are checked only by the verb that runs it.
#[test]
fn the_examples_of_the_model_run() {
    for verb in ["sim", "compare"] {
        let help = text(&output(&format!("{verb} --help")).stdout);
        let lines = help.lines().map(|line| line.strip_prefix("Example: ").unwrap_or(line).trim());
        let begin = format!("tierline {verb} --policy");
        let example = lines.clone().find(|line| line.starts_with(&begin)).expect("an example");
        let line = example.strip_prefix("tierline ").expect("it").to_string() + " --seconds 0.2";
        let output = output(&line);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
    }
}

#[test]
fn recover_and_status_without_managers_succeed() {
    let machine = Machine::new();
    let dir = machine.file("state");
    let report = json(&format!("recover --json --state-dir {}", dir.display()));
    assert_eq!(report["restored"], serde_json::json!([]));
    assert_eq!(machine.status()["managers"], serde_json::json!([]));
}

#[test]
fn every_recorded_move_has_a_reason() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let events = folder.path().join("events");
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/policy/jump.toml");
    let run = json(&format!("sim {scenario} --seconds 3 --json --events {}", events.display()));
    let promoted = run["runs"][0]["moves"]["promoted_pages"].as_u64().expect("a count");
    let moves = json(&format!("explain --json --why {}", events.display()));
    let moves = moves["moves"].as_array().expect("a list");
    let up = |m: &&serde_json::Value| m["to"] == 0 && m["outcome"] == "done";
    let pages = |m: &serde_json::Value| if m["size"] == "huge" { 512 } else { 1 };
    let counted: u64 = moves.iter().filter(up).map(pages).sum();
    assert!(promoted > 0 && counted == promoted, "{counted} of {promoted}");

    let address = moves[0]["vpn"].as_u64().expect("a page") * 4096 + 5;
    let story = output(&format!("explain --why {} --page {address:#x}", events.display()));
    let story = text(&story.stdout).to_string();
    assert!(story.contains("accesses a second") || story.contains(" a second"), "{story}");
    assert!(story.contains("Outcome: "), "{story}");

    std::fs::write(&events, "{\"event\":\n").expect("a file");
    let broken = output(&format!("explain --why {}", events.display()));
    assert_eq!(broken.status.code(), Some(2));
    assert!(text(&broken.stderr).contains(":1: "), "{}", text(&broken.stderr));
}
