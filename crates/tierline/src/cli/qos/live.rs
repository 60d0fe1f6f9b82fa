// SPDX-License-Identifier: Apache-2.0
//! `tierline qos` under a running manager.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};
use tierline_linux::cgroup::Created;
use tierline_linux::manager::{ApplicationStatus, ProfilePoint, TrialStatus};

use super::ManagerArgs;
use crate::apps::{App, FOLDER};
use crate::cli::Globals;
use crate::config::Layer;
use crate::print::{self, row};
use crate::report_error::ErrorWithHint;
use crate::request::{Answer, Request, VERSION, Verb};
use crate::serve;
use crate::status::qos_table;

/// Time between two questions about a measurement. Ours.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// The heads of a measurement's columns.
const TRIALS: &str = "   at most        used  CPU time      slow   latency   bandwidth  target\n";

/// A running manager.
pub struct Link {
    pid: u32,
    file: PathBuf,
}

#[derive(Serialize)]
struct Applications {
    applications: Vec<ApplicationStatus>,
}

impl Link {
    /// The manager that was named, or the only one.
    pub fn to(args: &ManagerArgs, globals: &Globals) -> Result<Self> {
        let flags = Layer { state_dir: args.state_dir.clone(), ..Layer::default() };
        let dir = args.sources.stack(&globals.root(), flags)?.flatten().options(false)?.0.state_dir;
        let mut sockets = serve::sockets(&dir)?;
        sockets.retain(|(pid, _)| args.manager.is_none_or(|wanted| wanted == *pid));
        match &sockets[..] {
            [(pid, file)] => Ok(Self { pid: *pid, file: file.clone() }),
            [] => Err(no_manager(&dir)),
            several => {
                let pids: Vec<String> = several.iter().map(|(pid, _)| pid.to_string()).collect();
                Err(ErrorWithHint::error(
                    format!("{} managers run: {}", pids.len(), pids.join(", ")),
                    "name one: --manager PID",
                ))
            }
        }
    }

    fn ask(&self, verb: &Verb) -> Result<Answer> {
        let request = Request { version: VERSION, verb: verb.clone() };
        let line = serde_json::to_string(&request)? + "\n";
        let failed = |error: std::io::Error| {
            let hint = match error.kind() {
                std::io::ErrorKind::PermissionDenied => {
                    "run this as root, or as the manager's user"
                }
                _ => "it may be busy: try again",
            };
            ErrorWithHint::error(
                format!("cannot talk to the manager, process {}: {error}", self.pid),
                hint,
            )
        };
        let text = serve::request(&self.file, &line).map_err(failed)?;
        let text = text.ok_or_else(|| no_manager(self.file.parent().unwrap_or(Path::new("/"))))?;
        let answer: Answer = serde_json::from_str(&text).map_err(|error| {
            ErrorWithHint::error(
                format!("cannot read the answer of the manager, process {}: {error}", self.pid),
                format!("use the manager's own program: /proc/{}/exe qos", self.pid),
            )
        })?;
        match (answer.error, answer.hint) {
            (Some(error), Some(hint)) => Err(ErrorWithHint::error(error, hint)),
            (Some(error), None) => Err(anyhow::Error::msg(error)),
            (None, hint) => Ok(Answer { error: None, hint, ..answer }),
        }
    }

    /// Sends a request whose answer has no content.
    pub fn quietly(&self, verb: &Verb, globals: &Globals) -> Result<u8> {
        let answer = self.ask(verb)?;
        if globals.json {
            print::json(&Applications { applications: answer.applications })?;
        }
        Ok(0)
    }

    /// Sends a request, and shows the applications of its answer.
    pub fn show(&self, verb: &Verb, globals: &Globals) -> Result<u8> {
        let applications = self.ask(verb)?.applications;
        match (globals.json, applications.is_empty()) {
            (true, _) => print::json(&Applications { applications })?,
            (false, true) => print::out("no application was submitted\n")?,
            (false, false) => print::out(&print::plain(&qos_table(&applications)))?,
        }
        Ok(0)
    }

    /// Shows all applications.
    pub fn list(&self, globals: &Globals) -> Result<u8> {
        self.show(&Verb::List, globals)
    }

    /// Submits an application.
    pub fn submit(&self, app: &App, globals: &Globals) -> Result<u8> {
        let answer = self.ask(&Verb::Submit { app: app.clone() })?;
        match globals.json {
            true => print::json(&Applications { applications: answer.applications })?,
            false => print::out(&answer.applications.iter().map(admitted).collect::<String>())?,
        }
        Ok(0)
    }

    /// Submits a new control group, and becomes a command in it.
    pub fn launch(&self, app: App, command: &[OsString], globals: &Globals) -> Result<u8> {
        let name = app.name.clone().unwrap_or_default();
        let group = Created::new(&globals.root(), &name)?;
        let app = App { cgroup: Some(group.path().into()), ..app };
        if let Err(error) = self.ask(&Verb::Submit { app }) {
            group.remove();
            return Err(error);
        }
        let started = group.join().map_err(anyhow::Error::from).map(|()| {
            let program = Path::new(&command[0]).display();
            let error = Command::new(&command[0]).args(&command[1..]).exec();
            anyhow::anyhow!("cannot run {program}: {error}")
        });
        // Only a failure gets here.
        let _ = self.ask(&Verb::Remove { name });
        Err(started.unwrap_or_else(|error| error))
    }

    /// Shows what an application has and needs, and what was decided about it.
    pub fn explain(&self, name: &str, globals: &Globals) -> Result<u8> {
        let answer = self.ask(&Verb::Explain { name: name.into() })?;
        match globals.json {
            true => print::json(&answer)?,
            false => print::out(&explained(&answer))?,
        }
        Ok(0)
    }

    /// Measures what an application needs, and shows each trial when it ends. Exit status 1 if that was not found.
    pub fn measure(&self, name: &str, globals: &Globals) -> Result<u8> {
        let show = |text: &str| if globals.json { Ok(()) } else { print::out(text) };
        self.ask(&Verb::Measure { name: name.into() })?;
        show(TRIALS)?;
        let mut shown = 0;
        loop {
            std::thread::sleep(ASK_EVERY);
            let answer = self.ask(&Verb::Profile { name: name.into() })?;
            let Some(measured) = &answer.measurement else {
                return Err(anyhow::anyhow!("{name} ended, or another application is measured"));
            };
            for trial in measured.trials.iter().skip(shown) {
                show(&trial_line(trial))?;
            }
            shown = measured.trials.len();
            let Some(finding) = &measured.finding else { continue };
            match globals.json {
                true => print::json(&answer)?,
                false => print::out(&format!("\n{finding}\n"))?,
            }
            return Ok(u8::from(measured.fast_bytes.is_none()));
        }
    }

    /// Shows what an application loses with less fast memory.
    pub fn profile(&self, name: &str, globals: &Globals) -> Result<u8> {
        let answer = self.ask(&Verb::Profile { name: name.into() })?;
        match globals.json {
            true => print::json(&answer)?,
            false => print::out(&profiled(&answer.profile))?,
        }
        Ok(0)
    }
}

fn trial_line(trial: &TrialStatus) -> String {
    let bandwidth = trial.bandwidth_bytes_per_second.map_or_else(
        || "–".into(),
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
        |rate| BytesPerSec(rate as u64).to_string(),
    );
    format!(
        "{:>12}{:>12}{:>10}{:>10}{:>10}{:>12}  {}\n",
        trial.fast_bytes.to_string(),
        trial.used_fast_bytes.to_string(),
        format!("{:.0} %", trial.cpu_share * 100.0),
        format!("{:.1} %", trial.slow_share * 100.0),
        trial.latency_ns.map_or_else(|| "–".into(), |ns| format!("{ns:.0} ns")),
        bandwidth,
        if trial.met { "met" } else { "missed" },
    )
}

fn no_manager(dir: &Path) -> anyhow::Error {
    ErrorWithHint::error(
        format!("no manager has a socket in {}", dir.display()),
        format!("start one: tierline attach --apps {FOLDER}"),
    )
}

fn admitted(one: &ApplicationStatus) -> String {
    let needed = one.needed_bytes.first().copied().unwrap_or_default();
    let note = if is_unmeasured(one) { format!("\n{UNMEASURED}") } else { String::new() };
    format!("{} is admitted; its target needs {needed} of fast memory{note}\n", one.name)
}

/// What is said about a target that nobody can check.
const UNMEASURED: &str = "its bandwidth is not measured on this machine, so nothing is reserved for it; report it: tierline qos report";

fn is_unmeasured(one: &ApplicationStatus) -> bool {
    one.slo.as_deref().is_some_and(|slo| slo.ends_with("/s"))
        && one.bandwidth_bytes_per_second.is_none()
}

fn explained(answer: &Answer) -> String {
    let Some(one) = answer.applications.first() else { return String::new() };
    let list =
        |bytes: &[Bytes]| bytes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" / ");
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let target = one.slo.as_deref().unwrap_or("none");
    let missed = one.error_share.filter(|error| *error > 0.01);
    let missed = missed.map_or(String::new(), |error| format!(" by {}", percent(error)));
    let mut text = format!("{}, priority {}, cgroup {}\n\n", one.name, one.priority, one.cgroup);
    let mut line = |key: &str, value: String| text += &format!("{key:<13} {value}\n");
    line("target", format!("{target}, {}{missed}", one.state));
    if let Some(ns) = one.latency_ns {
        let source = one.latency_source.as_deref().unwrap_or_default();
        let samples = match one.latency_samples {
            0 => String::new(),
            samples => format!(", {samples} samples"),
        };
        line("latency", format!("{} ({source}{samples})", Nanos::from_secs_f64(ns * 1e-9)));
    }
    if let Some(share) = one.slow_share {
        line("slow accesses", percent(share));
    }
    if let Some(rate) = one.bandwidth_bytes_per_second {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
        line("bandwidth", BytesPerSec(rate as u64).to_string());
    }
    line("uses", format!("{}, fastest tier first", list(&one.used_bytes)));
    line("needs", list(&one.needed_bytes));
    line("reserved", list(&one.reserved_bytes));
    line("lent", list(&one.lent_bytes));
    if is_unmeasured(one) {
        line("note", UNMEASURED.into());
    }
    if one.short_bytes > Bytes::ZERO {
        line("short", one.short_bytes.to_string());
    }
    let held = one.held_back_by.as_ref().map_or(String::new(), |by| format!(", for {by}"));
    line("CPU time", format!("{}{held}", percent(one.cpu_share)));
    text += "\nWhat was decided about it:\n";
    for decision in &answer.decisions {
        text += &format!("  {:8.1} s ago  {}\n", decision.seconds_ago, decision.text);
    }
    text
}

fn profiled(points: &[ProfilePoint]) -> String {
    let mut rows = vec![row(["fast memory", "slow accesses", "latency", "slower"])];
    let best = points.last().map_or(0.0, |point| point.latency_ns);
    rows.extend(points.iter().map(|point| {
        row([
            &point.fast_bytes.to_string(),
            &format!("{:.1} %", point.slow_share * 100.0),
            &format!("{:.0} ns", point.latency_ns),
            &format!("{:.1} %", (point.latency_ns / best.max(1e-9) - 1.0) * 100.0),
        ])
    }));
    print::table(&rows)
        + "\nPredicted from the heat of pages and the latencies of tiers without load.\n"
}
