// SPDX-License-Identifier: Apache-2.0
//! Tests of the binary as a user runs it. They need no privilege and wait by polling with a deadline.
#![forbid(unsafe_code)]

mod applications;
mod attach;
mod daemon;
mod documents;
mod errors;
mod machine;
mod model;
mod output;
mod print;
mod profile;
mod qos;
mod run;
mod safety;
mod trace;
mod tune;

use std::ffi::OsStr;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Far longer than any test takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command line of the binary.
fn tierline<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tierline"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs a command line, which is split at spaces.
fn output(line: &str) -> Output {
    tierline(line.split(' ')).output().expect("tierline runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command line that must succeed; returns its JSON.
fn json(line: &str) -> serde_json::Value {
    let output = output(line);
    assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Waits until `done` returns a value.
fn until<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = done() {
            return value;
        }
        assert!(started.elapsed() < PATIENCE, "still not: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The exit status of a child, after waiting for its end.
fn ended(child: &mut Child) -> std::process::ExitStatus {
    until("an end", || child.try_wait().expect("a child"))
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).expect("it is there");
}

/// A child that is killed when its test ends.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
