// SPDX-License-Identifier: Apache-2.0
//! `tierline attach`: manages what runs already.

use anyhow::{Context, Result, anyhow};
use clap::{ArgGroup, Args};
use regex_lite::Regex;
use tierline_core::unit::Nanos;
use tierline_linux::error::Error;
use tierline_linux::process::{Selection, Stat, Targets};
use tierline_linux::root::Root;

use super::manage::{ManageArgs, say_summary};
use super::{FOUND, Globals};
use crate::clock;
use crate::config::value::Text;
use crate::drive::{Scene, Standing};
use crate::letter::{self, Hinted};
use crate::print::Voice;
use crate::signals::{Heard, Signals};

/// Manage programs that run already
///
/// A process that fits any of the choices is managed, with what it starts, until it is gone, until
/// Ctrl-C, or for the given time. Pages then stay where they are; settings are put back.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("targets").required(true).multiple(true))]
#[command(
    after_help = "Example: tierline attach --comm '^redis' --cgroup system.slice/db.service --duration 10m"
)]
pub struct AttachArgs {
    /// Processes by number
    #[arg(short, long, value_name = "PID", value_delimiter = ',', group = "targets")]
    pid: Vec<u32>,
    /// A control group with those below it, relative to /sys/fs/cgroup; may be repeated
    #[arg(long, value_name = "PATH", group = "targets")]
    cgroup: Vec<String>,
    /// Processes whose name (15 bytes at most) matches this regular expression
    #[arg(long, value_name = "REGEX", group = "targets")]
    comm: Option<Regex>,
    /// Stop after this time, as in 60s
    #[arg(long, value_name = "TIME")]
    duration: Option<Text<Nanos>>,
    #[command(flatten)]
    manage: ManageArgs,
}

impl AttachArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let plan = self.manage.plan(globals)?;
        let mut signals = Signals::listen().context("cannot listen for signals")?;
        let selection = Selection {
            pids: self.pid.clone(),
            cgroups: self.cgroup.clone(),
            comm: self.comm.clone(),
            children: plan.children,
            min_rss: plan.min_rss,
        };
        // First of all: that a process does not exist says more than that there is one tier.
        Targets::new(selection.clone(), &plan.root).map_err(explained)?;
        let manager = plan.start(selection)?;
        let voice = plan.voice;
        let open = !self.cgroup.is_empty() || self.comm.is_some();
        let deadline = self.duration.as_ref().map(|time| clock::now() + time.0);
        let mut scene = Attached::new(&plan.root, &self.pid, open, voice, deadline);
        let (mut driver, summary) = plan.driver(Some(manager));
        driver.run(&mut signals, &mut scene);
        let status = driver.finish();
        say_summary(voice, globals.json, status.as_ref());
        if let Some(summary) = summary {
            summary.write(status.as_ref(), driver.failure(), voice);
        }
        match driver.failure() {
            Some(why) => {
                letter::print(&anyhow!("the manager failed: {why}"));
                Ok(FOUND)
            }
            None => Ok(0),
        }
    }
}

/// Adds the next step to a wrong choice.
pub(super) fn explained(error: Error) -> anyhow::Error {
    let hint = match &error {
        Error::Input { what: "pid", .. } => {
            "see what there is: ps -eo pid,rss,comm --sort=-rss | head"
        }
        Error::Input { what: "cgroup", .. } => {
            "see what there is: systemd-cgls, or ls /sys/fs/cgroup"
        }
        _ => return error.into(),
    };
    Hinted::error(error.to_string(), hint)
}

/// Managing what was there already.
pub(super) struct Attached {
    root: Root,
    pids: Vec<u32>,
    /// True where more may come: groups and names are chosen, not only numbers.
    open: bool,
    /// True once something was managed.
    met: bool,
    /// True once it was said that nothing fits yet.
    waiting: bool,
    voice: Voice,
    deadline: Option<Nanos>,
}

impl Attached {
    /// Until all of `pids` are gone; where more may come (`open`), until those that fit are.
    pub fn new(
        root: &Root,
        pids: &[u32],
        open: bool,
        voice: Voice,
        deadline: Option<Nanos>,
    ) -> Self {
        let (root, pids) = (root.clone(), pids.to_vec());
        Self { root, pids, open, met: false, waiting: false, voice, deadline }
    }

    /// A chosen process may be there and yet too small to be managed.
    fn is_there(&self, pid: u32) -> bool {
        Stat::read(&self.root, pid).is_ok_and(|stat| !stat.zombie)
    }

    /// Says once that nothing fits so far.
    fn wait_for_the_first(&mut self) {
        if !self.waiting {
            self.voice.say("nothing fits yet; waiting");
        }
        self.waiting = true;
    }
}

impl Scene for Attached {
    fn hear(&mut self, signal: Heard) -> bool {
        matches!(signal, Heard::End { .. })
    }

    fn is_over(&mut self, standing: Standing, now: Nanos) -> bool {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            return true;
        }
        match standing {
            Standing::Asleep => return false,
            Standing::Absent => return true,
            Standing::Managing => {
                self.met = true;
                return false;
            }
            Standing::Alone => {}
        }
        if self.open && !self.met {
            self.wait_for_the_first();
            return false;
        }
        !self.pids.iter().any(|&pid| self.is_there(pid))
    }

    fn deadline(&self) -> Option<Nanos> {
        self.deadline
    }
}
