// SPDX-License-Identifier: Apache-2.0
//! `tierline run`: the command must run in any case.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::machine::Machine;
use crate::{Guard, ended, json, output, signal, text, tierline, until};

/// An empty root: nothing can be managed there, on any machine.
fn bare(script: &str) -> Command {
    tierline(["run", "--root", "/nonexistent", "--", "sh", "-c", script])
}

fn code(script: &str) -> Option<i32> {
    bare(script).output().expect("tierline runs").status.code()
}

#[test]
fn the_exit_status_is_that_of_the_command() {
    assert_eq!(code("exit 0"), Some(0));
    assert_eq!(code("exit 7"), Some(7));
    assert_eq!(code("kill -9 $$"), Some(128 + 9));
    assert_eq!(
        output("run -q --root /nonexistent -- /nonexistent/command").status.code(),
        Some(127)
    );
    assert_eq!(output("run -q --root /nonexistent -- /etc/passwd").status.code(), Some(126));
}

#[test]
fn without_tiers_the_command_runs_unmanaged_with_a_reason() {
    let machine = Machine::new();
    fs::write(machine.root().join("sys/devices/system/node/online"), "0\n").expect("a file");
    let summary = machine.file("summary.json");
    let args = machine.options();
    let run = |more: &[&str]| {
        let args =
            ["run"].into_iter().chain(args.iter().map(String::as_str)).chain(more.iter().copied());
        tierline(args.chain(["--", "echo", "hello"])).output().expect("tierline runs")
    };
    let degraded = run(&["--summary", &summary.display().to_string()]);
    assert_eq!((degraded.status.code(), text(&degraded.stdout).as_str()), (Some(0), "hello\n"));
    let message = text(&degraded.stderr);
    assert!(message.lines().all(|line| line.starts_with("tierline: ")), "{message}");
    assert!(
        message.contains("unmanaged: there is nothing to tier") && message.contains("hint: "),
        "{message}"
    );
    let summary: serde_json::Value =
        serde_json::from_slice(&fs::read(summary).expect("it")).expect("JSON");
    assert_eq!(summary["managed"], false);
    assert_eq!(text(&run(&["--quiet"]).stderr), "");
    let strict = run(&["--strict"]);
    assert_eq!((strict.status.code(), text(&strict.stdout).as_str()), (Some(2), ""));
    let message = text(&strict.stderr);
    assert!(
        message.starts_with("Error: there is nothing to tier") && message.contains("\nHint: "),
        "{message}"
    );
}

#[test]
fn wrong_usage_is_refused_before_the_command_starts() {
    let machine = Machine::new();
    let root = machine.root().display().to_string();
    for wrong in [
        "--tiers fast=0,slow=9",
        "--tiers fast",
        "--policy teirline",
        "--interval 5",
        "--interval 1us",
        "--set polcy=hold",
        "--limit fast",
        "--limit fast=2GiB",
        "--limit slow=101%",
        "--limit cxl=1M",
        "--limit fast=1M --limit fast=2M",
        "--set limit=fast=2GiB",
        "--events /nonexistent/folder/file",
    ] {
        let output = output(&format!("run --root {root} {wrong} -- echo started"));
        assert_eq!(output.status.code(), Some(2), "{wrong}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "", "{wrong}");
    }
}

#[test]
fn a_wrong_limit_is_an_error_with_a_next_step() {
    let machine = Machine::new();
    let root = machine.root().display().to_string();
    for (limit, error, hint) in [
        ("fast=2GiB", "limit fast=2GiB of echo: the tier has 1.0 GiB", "at most fast=1GiB"),
        ("cxl=1M", "this machine has no tier cxl", "there are fast, slow"),
    ] {
        let message = text(&output(&format!("run --root {root} --limit {limit} -- echo x")).stderr);
        let lines: Vec<&str> = message.lines().collect();
        assert!(lines[0].starts_with("Error: ") && lines[0].contains(error), "{message}");
        assert!(lines[1].starts_with("Hint: ") && lines[1].contains(hint), "{message}");
    }
}

#[test]
fn the_command_keeps_stdin_and_stdout() {
    let mut command = bare("cat");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("tierline runs");
    child.stdin.take().expect("a pipe").write_all(b"through\n").expect("it reads");
    assert_eq!(text(&child.wait_with_output().expect("an end").stdout), "through\n");
}

/// A script of two minutes: longer than the test, but it ends even if the test fails.
const WAIT: &str = "i=0; while [ $((i += 1)) -lt 6000 ]; do sleep 0.02; done";

/// Starts a script and waits until it has created the file `ready`.
fn started(machine: &Machine, script: &str) -> Guard {
    let ready = machine.file("ready");
    let script = script.replace("READY", &format!("touch '{}'", ready.display()));
    let child = Guard(bare(&script).spawn().expect("tierline runs"));
    until("ready", || ready.exists().then_some(()));
    child
}

#[test]
fn signals_are_passed_on_and_the_command_decides() {
    for (name, sent) in
        [("TERM", Signal::TERM), ("INT", Signal::INT), ("HUP", Signal::HUP), ("QUIT", Signal::QUIT)]
    {
        let machine = Machine::new();
        let script = format!("trap 'exit 42' {name}; READY; {WAIT}");
        let mut child = started(&machine, &script);
        signal(&child.0, sent);
        assert_eq!(ended(&mut child.0).code(), Some(42), "{name}");
    }
}

#[test]
fn a_second_request_to_end_is_passed_on_too() {
    let machine = Machine::new();
    let once = machine.file("once");
    let script = format!(
        "n=0; trap 'n=$((n+1)); touch {}; [ $n = 2 ] && exit 43' TERM; READY; {WAIT}",
        once.display()
    );
    let mut child = started(&machine, &script);
    signal(&child.0, Signal::TERM);
    until("the first has arrived", || once.exists().then_some(()));
    assert!(child.0.try_wait().expect("a child").is_none());
    signal(&child.0, Signal::TERM);
    assert_eq!(ended(&mut child.0).code(), Some(43));
}

#[test]
fn ignored_signals_stay_ignored() {
    let binary = env!("CARGO_BIN_EXE_tierline");
    let script = format!(
        "trap '' HUP; exec {binary} run -q --root /nonexistent -- sh -c 'kill -HUP $$; exit 5'"
    );
    let status = Command::new("sh").args(["-c", &script]).status().expect("a shell");
    assert_eq!(status.code(), Some(5), "nohup must work through tierline");
}

fn count(file: &Path) -> u64 {
    fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[test]
fn the_command_survives_the_death_of_its_manager() {
    let machine = Machine::new();
    let counter = machine.file("counter");
    // The script ends when the folder is deleted.
    let script = format!(
        "READY; n=0; while [ -e '{0}' ]; do n=$((n+1)); echo $n >'{1}.new'; mv '{1}.new' '{1}'; sleep 0.01; done",
        machine.root().display(),
        counter.display()
    );
    let mut child = started(&machine, &script);
    child.0.kill().expect("it is there");
    ended(&mut child.0);
    let before = count(&counter);
    until("it continues to count", || (count(&counter) > before + 5).then_some(()));
}

/// The command links itself into the machine's /proc, so that the manager finds it.
fn managed(machine: &Machine, more: &[String]) -> Command {
    let link = machine.root().join("proc");
    let stop = machine.file("stop");
    let script = format!(
        "ln -s /proc/$$ '{}'/$$; while [ -e '{}' ] && ! [ -e '{}' ]; do sleep 0.02; done; exit 9",
        link.display(),
        machine.root().display(),
        stop.display()
    );
    let args = ["run".to_string()].into_iter().chain(machine.options()).chain(more.iter().cloned());
    tierline(args.chain(["--", "sh", "-c", &script].map(String::from)))
}

#[test]
fn a_managed_command_is_observed_reported_and_released() {
    let machine = Machine::new();
    let path = |name: &str| machine.file(name).display().to_string();
    let more = [
        "--events",
        &path("events"),
        "--summary",
        &path("summary"),
        "--status-interval",
        "20ms",
        "--limit",
        "fast=25%",
    ];
    let mut command = managed(&machine, &more.map(String::from));
    let mut child = Guard(
        command
            .stderr(fs::File::create(machine.file("stderr")).expect("a file"))
            .spawn()
            .expect("it"),
    );
    let status = until("it is managed", || {
        let status = machine.status()["managers"][0].clone();
        status["targets"]
            .as_array()
            .is_some_and(|t| t.iter().any(|t| t["comm"] == "sh"))
            .then_some(status)
    });
    assert_eq!(status["pid"], child.0.id());
    assert_eq!((&status["policy"], &status["tracker"]), (&"hold".into(), &"soft_dirty".into()));
    assert_eq!(status["dry_run"], true);
    assert_eq!((&status["schema_version"], &status["managed"]), (&2.into(), &true.into()));
    let metrics = &status["metrics"];
    assert_eq!(metrics["tier_capacity_bytes"]["slow"], 2_u64 << 30);
    assert_eq!(metrics["tenant_limit_bytes"]["sh"], serde_json::json!({"fast": 256 << 20}));
    let targets = status["targets"].as_array().map(Vec::len);
    assert_eq!(metrics["tenant_processes"]["sh"], serde_json::json!(targets));
    assert!(metrics["manager_resident_bytes"].as_u64() > Some(0), "{status}");
    assert!(metrics["samples_total"].is_u64() && metrics["orders_bytes_total"].is_null());
    let state = machine.file("state").display().to_string();
    let written = text(&output(&format!("status --metrics --state-dir {state}")).stdout);
    for line in [
        "# TYPE tierline_samples counter",
        "tierline_tier_capacity_bytes{tier=\"fast\"} 1073741824",
    ] {
        assert!(written.lines().any(|found| found == line), "{line} in\n{written}");
    }
    assert!(written.contains("tierline_manager_info{policy=\"hold\",tracker=\"soft_dirty\""));
    assert!(written.ends_with("# EOF\n"));
    let shown = text(&output(&format!("status --state-dir {state}")).stdout);
    assert!(shown.contains("tier  capacity") && shown.contains("(dry run)"), "{shown}");
    fs::write(machine.file("stop"), "").expect("a file");
    assert_eq!(ended(&mut child.0).code(), Some(9));
    let summary: serde_json::Value =
        serde_json::from_slice(&fs::read(path("summary")).expect("it")).expect("JSON");
    assert_eq!(summary["metrics"]["migrator_busy_seconds_total"]["move"], 0.0);
    let events = fs::read_to_string(path("events")).expect("it");
    assert!(
        events.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()),
        "{events}"
    );
    let message = fs::read_to_string(path("stderr")).expect("it");
    assert!(message.contains("tierline: tracker: soft_dirty"), "{message}");
    assert!(message.matches("own CPU").count() >= 2, "{message}");
    let left: Vec<_> = fs::read_dir(machine.file("state")).expect("a folder").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn recover_deletes_the_socket_of_a_killed_manager() {
    let machine = Machine::new();
    let mut child = Guard(managed(&machine, &["--quiet".into()]).spawn().expect("tierline runs"));
    until("it answers", || machine.status()["managers"][0].is_object().then_some(()));
    child.0.kill().expect("it is there");
    ended(&mut child.0);
    assert_eq!(
        machine.status()["managers"],
        serde_json::json!([]),
        "dead managers are not queried"
    );
    let (state, root) = (machine.file("state"), machine.root());
    json(&format!("recover --json --state-dir {} --root {}", state.display(), root.display()));
    assert_eq!(fs::read_dir(state).expect("a folder").count(), 0);
}
