// SPDX-License-Identifier: Apache-2.0
//! The common part of verbs that only watch programs.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use tierline_core::event::Event;
use tierline_core::port::Observations;
use tierline_core::unit::Nanos;
use tierline_linux::error::Error;
use tierline_linux::manager::ManagerOptions;
use tierline_linux::process::{Selection, Targets};
use tierline_linux::recorder::Recorder;

use super::attach::{Attached, with_hint};
use super::manage::raise_file_limit;
use super::names;
use super::run::{Running, exit_code};
use super::{Globals, UNUSABLE};
use crate::clock;
use crate::config::value::Text;
use crate::drive::{Driver, Managed, Reports};
use crate::print::Messages;
use crate::request::{Answer, Verb};
use crate::signals::Signals;
use crate::status::Status;

/// Processes a tracker's observations.
pub trait Watcher {
    /// Processes the observations since the last call.
    fn observe(&mut self, now: Nanos, seen: &Observations);

    /// When it wants the next call, even without new observations.
    fn next_due(&self) -> Nanos;

    /// Called at the end.
    fn finish(self);
}

/// Which programs to watch, how and for how long.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Processes by pid
    #[arg(short, long, value_name = "PID", value_delimiter = ',', group = "targets")]
    pub pid: Vec<u32>,
    /// A control group, including those below it, relative to /sys/fs/cgroup; may be repeated
    #[arg(long, value_name = "PATH", group = "targets")]
    pub cgroup: Vec<String>,
    /// The command to run, with its arguments
    #[arg(last = true, value_name = "CMD", group = "targets", conflicts_with_all = ["pid", "cgroup"])]
    pub command: Vec<OsString>,
    /// Stop after this time, as in 60s
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Text<Nanos>>,
    /// The tracker: one of `tierline trackers` [default: the best here]
    #[arg(long, value_name = "NAME", value_parser = names::tracker(), hide_possible_values = true)]
    pub tracker: Option<String>,
    /// Do not watch the children of the processes
    #[arg(long)]
    pub no_children: bool,
    /// Folder of the journal of changed settings
    #[arg(long, value_name = "DIR", default_value = "/run/tierline")]
    pub state_dir: PathBuf,
    /// Print nothing
    #[arg(long, short)]
    pub quiet: bool,
}

impl WatchArgs {
    /// Prints messages to the user, unless quiet.
    pub fn messages(&self) -> Messages {
        Messages { quiet: self.quiet }
    }

    /// Watches until the programs end, the time is over, or a signal arrives. Returns the exit status.
    pub fn run<W: Watcher>(
        &self,
        globals: &Globals,
        watcher: impl FnOnce(&'static str) -> Result<W>,
    ) -> Result<u8> {
        let (root, messages) = (globals.root(), self.messages());
        let mut signals = Signals::listen().context("cannot listen for signals")?;
        let selection = Selection {
            pids: self.pid.clone(),
            cgroups: self.cgroup.clone(),
            children: !self.no_children,
            ..Selection::default()
        };
        Targets::new(selection.clone(), &root).map_err(with_hint)?;
        let options = ManagerOptions {
            tracker: self.tracker.clone(),
            state_dir: self.state_dir.clone(),
            ..ManagerOptions::default()
        };
        let recorder = Recorder::new(&root, selection, &options)?;
        recorder.notes().iter().for_each(|note| messages.print(note));
        let reports = Reports { messages, events: None, status_interval: None, json: globals.json };
        let mut driver = Driver::new(Some(WatchedPrograms::new(recorder, watcher)?), None, reports);
        let deadline = self.duration.as_ref().map(|time| clock::now() + time.0);
        if self.command.is_empty() {
            raise_file_limit();
            let open = !self.cgroup.is_empty();
            let mut end = Attached::new(&root, &self.pid, open, messages, deadline);
            driver.run(&mut signals, &mut end);
            driver.finish();
            return Ok(0);
        }
        let mut end = match Running::start(&mut driver, &self.command, None, deadline) {
            Ok(end) => end,
            Err(status) => return Ok(status),
        };
        driver.run(&mut signals, &mut end);
        driver.finish();
        // A command that is still running continues by itself.
        Ok(end.ended.map_or(if deadline.is_some() { 0 } else { UNUSABLE }, exit_code))
    }
}

/// Programs under a tracker, and the receiver of its observations.
struct WatchedPrograms<W> {
    recorder: Recorder,
    watcher: W,
}

impl<W: Watcher> WatchedPrograms<W> {
    /// The watcher gets the tracker's name.
    fn new(recorder: Recorder, watcher: impl FnOnce(&'static str) -> Result<W>) -> Result<Self> {
        let watcher = watcher(recorder.tracker())?;
        Ok(Self { recorder, watcher })
    }
}

impl<W: Watcher> Managed for WatchedPrograms<W> {
    fn step(&mut self, now: Nanos) -> &[Event] {
        self.watcher.observe(now, self.recorder.observe(now));
        &[]
    }

    fn next_due(&self) -> Nanos {
        self.watcher.next_due().min(self.recorder.next_due())
    }

    fn add(&mut self, pid: u32) {
        self.recorder.add(pid);
    }

    fn has_no_targets(&self) -> bool {
        self.recorder.has_no_targets()
    }

    fn take_errors(&mut self) -> Vec<Error> {
        self.recorder.take_errors()
    }

    fn request(&mut self, _now: Nanos, _verb: &Verb) -> Answer {
        Answer::refused(&anyhow::anyhow!("this process only watches programs"))
    }
    fn reload(&mut self, _now: Nanos) {}
    fn woken(&mut self, _now: Nanos) -> Result<(), String> {
        Ok(())
    }
    fn status(&self, _now: Nanos) -> Status {
        Status { tracker: self.recorder.tracker().into(), ..Status::default() }
    }

    fn shutdown(self) -> Vec<Error> {
        self.watcher.finish();
        self.recorder.shutdown()
    }
}
