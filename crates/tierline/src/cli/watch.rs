// SPDX-License-Identifier: Apache-2.0
//! What verbs that only watch programs take, and how they watch.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use tierline_core::event::Event;
use tierline_core::port::Observations;
use tierline_core::unit::Nanos;
use tierline_linux::error::Error;
use tierline_linux::manager::Options;
use tierline_linux::process::{Selection, Targets};
use tierline_linux::recorder::Recorder;

use super::attach::{Attached, explained};
use super::names;
use super::run::{Running, exit_code};
use super::{Globals, UNUSABLE};
use crate::clock;
use crate::config::value::Text;
use crate::drive::{Driver, Managed, Reports};
use crate::print::Voice;
use crate::signals::Signals;
use crate::status::Status;

/// Makes something of what a tracker sees.
pub trait Watcher {
    /// What was seen since the last time.
    fn see(&mut self, now: Nanos, seen: &Observations);

    /// When it wants to see again, whether there is news or not.
    fn next_due(&self) -> Nanos;

    /// The watching is over.
    fn finish(self);
}

/// Which programs, how and for how long.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Processes by number
    #[arg(short, long, value_name = "PID", value_delimiter = ',', group = "targets")]
    pub pid: Vec<u32>,
    /// A control group with those below it, relative to /sys/fs/cgroup; may be repeated
    #[arg(long, value_name = "PATH", group = "targets")]
    pub cgroup: Vec<String>,
    /// The command to run, with its arguments
    #[arg(last = true, value_name = "CMD", group = "targets", conflicts_with_all = ["pid", "cgroup"])]
    pub command: Vec<OsString>,
    /// Stop after this time, as in 60s
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Text<Nanos>>,
    /// How accesses are seen: one of `tierline trackers` [default: the best here]
    #[arg(long, value_name = "NAME", value_parser = names::tracker(), hide_possible_values = true)]
    pub tracker: Option<String>,
    /// Leave out what the processes start
    #[arg(long)]
    pub no_children: bool,
    /// Where changed settings are written down
    #[arg(long, value_name = "DIR", default_value = "/run/tierline")]
    pub state_dir: PathBuf,
    /// Say nothing
    #[arg(long, short)]
    pub quiet: bool,
}

impl WatchArgs {
    /// Speaks to the user, if wanted.
    pub fn voice(&self) -> Voice {
        Voice { quiet: self.quiet }
    }

    /// Watches until the programs, the time or a signal end it. Returns the exit status.
    pub fn run<W: Watcher>(
        &self,
        globals: &Globals,
        watcher: impl FnOnce(&'static str) -> Result<W>,
    ) -> Result<u8> {
        let (root, voice) = (globals.root(), self.voice());
        let mut signals = Signals::listen().context("cannot listen for signals")?;
        let selection = Selection {
            pids: self.pid.clone(),
            cgroups: self.cgroup.clone(),
            children: !self.no_children,
            ..Selection::default()
        };
        Targets::new(selection.clone(), &root).map_err(explained)?;
        let options = Options {
            tracker: self.tracker.clone(),
            state_dir: self.state_dir.clone(),
            ..Options::default()
        };
        let recorder = Recorder::new(&root, selection, &options)?;
        recorder.notes().iter().for_each(|note| voice.say(note));
        let reports = Reports { voice, events: None, status_interval: None, json: globals.json };
        let mut driver = Driver::new(Some(Watched::new(recorder, watcher)?), None, reports);
        let deadline = self.duration.as_ref().map(|time| clock::now() + time.0);
        if self.command.is_empty() {
            let open = !self.cgroup.is_empty();
            let mut scene = Attached::new(&root, &self.pid, open, voice, deadline);
            driver.run(&mut signals, &mut scene);
            driver.finish();
            return Ok(0);
        }
        let mut scene = match Running::start(&mut driver, &self.command, deadline) {
            Ok(scene) => scene,
            Err(status) => return Ok(status),
        };
        driver.run(&mut signals, &mut scene);
        driver.finish();
        // A command that outlives the watching goes on by itself.
        Ok(scene.ended.map_or(if deadline.is_some() { 0 } else { UNUSABLE }, exit_code))
    }
}

/// Programs under a tracker, and who wants to know.
struct Watched<W> {
    recorder: Recorder,
    watcher: W,
}

impl<W: Watcher> Watched<W> {
    /// The watcher is told the tracker's name.
    fn new(recorder: Recorder, watcher: impl FnOnce(&'static str) -> Result<W>) -> Result<Self> {
        let watcher = watcher(recorder.tracker())?;
        Ok(Self { recorder, watcher })
    }
}

impl<W: Watcher> Managed for Watched<W> {
    fn step(&mut self, now: Nanos) -> &[Event] {
        self.watcher.see(now, self.recorder.observe(now));
        &[]
    }

    fn next_due(&self) -> Nanos {
        self.watcher.next_due().min(self.recorder.next_due())
    }

    fn add(&mut self, pid: u32) {
        self.recorder.add(pid);
    }

    fn is_alone(&self) -> bool {
        self.recorder.is_alone()
    }

    fn take_problems(&mut self) -> Vec<Error> {
        self.recorder.take_problems()
    }

    fn status(&self, _now: Nanos) -> Status {
        Status { tracker: self.recorder.tracker().into(), ..Status::default() }
    }

    fn shutdown(self) -> Vec<Error> {
        self.watcher.finish();
        self.recorder.shutdown()
    }
}
