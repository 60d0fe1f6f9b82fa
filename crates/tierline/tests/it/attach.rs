// SPDX-License-Identifier: Apache-2.0
//! `tierline attach`: manages running programs.

use std::process::{Child, Command, Output, Stdio};

use rustix::process::Signal;

use crate::machine::Machine;
use crate::{Guard, ended, output, signal, text, tierline, until};

fn sleeper() -> Guard {
    Guard(Command::new("sleep").arg("300").spawn().expect("sleep"))
}

fn attach(machine: &Machine, more: &[&str]) -> Command {
    let args = ["attach".to_string()].into_iter().chain(machine.options());
    let mut command = tierline(args.chain(more.iter().map(ToString::to_string)));
    command.stderr(Stdio::piped());
    command
}

/// Waits until the manager reports that it manages `pid`.
fn managed(machine: &Machine, manager: &mut Child, pid: u32) {
    until("it is managed", || {
        assert!(manager.try_wait().expect("a child").is_none(), "it ended");
        let status = machine.status();
        let targets = status["managers"][0]["targets"].as_array()?.clone();
        targets.iter().any(|target| target["pid"] == pid).then_some(())
    });
}

#[test]
fn a_missing_process_is_named_with_a_next_step() {
    let output = output("attach -p 4194999");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.starts_with("Error: pid \"4194999\": there is no such process\nHint: "),
        "{message}"
    );
}

#[test]
fn a_valid_target_is_required() {
    for line in [
        "attach",
        "attach --comm (",
        "attach --cgroup ../x",
        "attach --cgroup x --cgroup x/",
        "attach -p 1,2 --cgroup x -p 2",
        "attach --limit fast=1G",
        "attach --cgroup x --limit fast=1G --limit fast=2G",
        "attach -p x",
        "attach -p 1 --duration 5",
    ] {
        let output = output(line);
        assert_eq!(output.status.code(), Some(2), "{line}: {}", text(&output.stderr));
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn it_ends_with_the_process() {
    let (machine, mut sleeper) = (Machine::new(), sleeper());
    let pid = sleeper.0.id();
    machine.has(pid);
    let mut manager =
        Guard(attach(&machine, &["-p", &pid.to_string()]).spawn().expect("tierline runs"));
    managed(&machine, &mut manager.0, pid);
    sleeper.0.kill().expect("it is there");
    // The zombie counts as ended, so the process is not waited for.
    assert_eq!(ended(&mut manager.0).code(), Some(0));
}

#[test]
fn it_ends_at_a_signal_and_the_process_continues() {
    for sent in [Signal::INT, Signal::TERM] {
        let (machine, mut sleeper) = (Machine::new(), sleeper());
        let pid = sleeper.0.id();
        machine.has(pid);
        let mut manager =
            Guard(attach(&machine, &["--comm", "^sleep$"]).spawn().expect("tierline runs"));
        managed(&machine, &mut manager.0, pid);
        signal(&manager.0, sent);
        assert_eq!(ended(&mut manager.0).code(), Some(0));
        assert!(sleeper.0.try_wait().expect("a child").is_none());
    }
}

#[test]
fn it_ends_after_its_time_and_reports_that_no_process_matched() {
    let machine = Machine::new();
    let mut command = attach(&machine, &["--comm", "^no such name$", "--duration", "200ms"]);
    let output: Output = command.output().expect("tierline runs");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert_eq!(message.matches("no process matches yet").count(), 1, "{message}");
}
