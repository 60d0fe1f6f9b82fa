// SPDX-License-Identifier: Apache-2.0
//! `tierline attach`: manages running programs.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::ArgAction::Append;
use clap::{Arg, ArgGroup, ArgMatches, Args, Command, FromArgMatches, value_parser};
use regex_lite::Regex;
use rustix::thread::set_no_new_privs;
use tierline_core::unit::Nanos;
use tierline_linux::error::Error;
use tierline_linux::manager::Manager;
use tierline_linux::process::{Held, Rule, Targets};
use tierline_linux::root::Root;

use super::Globals;
use super::join::{Host, Joined};
use super::manage::{ManageArgs, confine, finish, raise_file_limit};
use crate::apps;
use crate::clock;
use crate::config::value::Text;
use crate::drive::{EndCondition, ManagerState, OnSignal};
use crate::print::Messages;
use crate::report_error::ErrorWithHint;
use crate::signals::{SignalEvent, Signals};
use crate::tenants::{Target, TargetOrLimit, TenantSpec, TierLimits, selection, tenants};

/// Manage running programs
///
/// Manages every process that matches one of the targets, and its children, until they have ended, until
/// Ctrl-C, or for the given time. Pages then stay where they are; changed settings are restored. While a daemon runs, the
/// programs become its tenants for this time.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("targets").required(true).multiple(true))]
#[command(after_help = "Examples:\n\
  \x20 tierline attach -p 4242 --duration 10m\n\
  \x20 tierline attach --comm '^redis' --dry-run\n\
  \x20 tierline attach --cgroup system.slice/db.service --limit fast=30% --cgroup user.slice\n\
  \x20 tierline attach --apps /etc/tierline/apps.d")]
pub struct AttachArgs {
    #[command(flatten)]
    words: TargetsAndLimits,
    /// Applications with targets: the *.toml files of a folder; more can be submitted with `tierline qos`
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = apps::FOLDER, group = "targets")]
    apps: Option<PathBuf>,
    /// Stop after this time, as in 60s
    #[arg(long, value_name = "TIME")]
    duration: Option<Text<Nanos>>,
    #[command(flatten)]
    manage: ManageArgs,
}

impl AttachArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        // Before any thread. No program is started here that could need either otherwise.
        let _ = set_no_new_privs(true);
        raise_file_limit();
        let mut plan = self.manage.plan(globals)?;
        let mut signals = Signals::listen().context("cannot listen for signals")?;
        let tenants = tenants(&self.words.0, &plan.limit)?;
        // First of all: a missing process is a more useful error than a machine with one tier.
        let selection = selection(&tenants, plan.children, plan.min_rss);
        Targets::new(selection.clone(), &plan.root).map_err(with_hint)?;
        let apps = self.apps.as_deref().map(apps::folder).transpose()?;
        if let Some(host) = Host::find(&plan.options.state_dir, &plan.root, plan.messages)? {
            self.manage.check_for_guest()?;
            let named = selection.pids.iter().filter_map(|&pid| plan.root.hold(pid).ok()).collect();
            let guests = host.add(&tenants, apps.as_deref().unwrap_or_default())?;
            let by_number = |tenant: &TenantSpec| matches!(tenant.target, Target::Pids(_));
            let ends_with_them = apps.is_none() && tenants.iter().all(by_number);
            let deadline = self.duration.as_ref().map(|time| clock::now() + time.0);
            let mut end = Joined::new(named, ends_with_them, deadline);
            plan.driver::<Manager>(None).0.run(&mut signals, &mut end);
            drop(guests);
            return Ok(0);
        }
        self.manage.open_reports(&mut plan)?;
        let manager = plan.start(&tenants, apps.as_deref().unwrap_or_default())?;
        let messages = plan.messages;
        let open = !selection.cgroups.is_empty() || !selection.rules.is_empty();
        let deadline = self.duration.as_ref().map(|time| clock::now() + time.0);
        let mut end = Attached::new(&plan.root, &selection.pids, open, messages, deadline);
        end.stays = apps.is_some();
        let (root, tracker) = (plan.root.clone(), manager.tracker().name());
        let (mut driver, summary) = plan.driver(Some(manager));
        if let Err(error) = confine(&root, messages, tracker) {
            driver.finish();
            return Err(error);
        }
        driver.run(&mut signals, &mut end);
        Ok(finish(&mut driver, summary, messages, globals.json))
    }
}

/// Targets and limits in the order of the command line: a limit belongs to the target before it.
#[derive(Clone, Debug)]
struct TargetsAndLimits(Vec<TargetOrLimit>);

impl Args for TargetsAndLimits {
    fn augment_args(command: Command) -> Command {
        let target = |id: &'static str, value: &'static str| {
            Arg::new(id).long(id).value_name(value).group("targets")
        };
        let pid = target("pid", "PID").short('p').value_delimiter(',');
        let cgroup = target("cgroup", "PATH");
        let comm = target("comm", "REGEX").value_parser(value_parser!(Regex));
        let limit = Arg::new("limit").long("limit").value_name("TIER=LIMIT,…");
        command.args([
            pid.value_parser(value_parser!(u32)).action(Append).help("Processes by pid"),
            cgroup.action(Append).help(
                "A control group, including those below it, relative to /sys/fs/cgroup; may be repeated",
            ),
            comm.help("Processes whose name (15 bytes at most) matches this regular expression"),
            limit.value_parser(value_parser!(TierLimits)).action(Append).help(
                "The limit in a tier for the target before it, as in fast=4GiB or fast=30%,slow=20GiB; before \
                 the first target: the limit for every target",
            ),
        ])
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for TargetsAndLimits {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut words: Vec<(usize, TargetOrLimit)> = Vec::new();
        words.extend(at(matches, "pid", |pids| TargetOrLimit::Target(Target::Pids(pids))));
        words.extend(at(matches, "cgroup", |mut paths: Vec<String>| {
            TargetOrLimit::Target(Target::Cgroup(paths.remove(0)))
        }));
        words.extend(at(matches, "comm", |mut patterns: Vec<Regex>| {
            TargetOrLimit::Target(Target::Rule(Rule::Comm(patterns.remove(0))))
        }));
        words.extend(at(matches, "limit", |mut limits: Vec<TierLimits>| {
            TargetOrLimit::Limits(limits.remove(0))
        }));
        words.sort_by_key(|(index, _)| *index);
        Ok(Self(words.into_iter().map(|(_, word)| word).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// All values of an option with their positions on the command line.
fn at<T: Clone + Send + Sync + 'static>(
    matches: &ArgMatches,
    id: &str,
    word: impl Fn(Vec<T>) -> TargetOrLimit,
) -> Vec<(usize, TargetOrLimit)> {
    // Each value has its own index; the index of an occurrence is that of its last value.
    let mut indices = matches.indices_of(id).into_iter().flatten();
    let occurrences = matches.get_occurrences::<T>(id).into_iter().flatten();
    let placed = occurrences.filter_map(|values| {
        let values: Vec<T> = values.cloned().collect();
        let place = indices.nth(values.len().checked_sub(1)?)?;
        Some((place, word(values)))
    });
    placed.collect()
}

/// Adds the next step to the error of a wrong target.
pub(super) fn with_hint(error: Error) -> anyhow::Error {
    let hint = match &error {
        Error::Input { what: "pid", .. } => {
            "list processes: ps -eo pid,rss,comm --sort=-rss | head"
        }
        Error::Input { what: "cgroup", .. } => {
            "list control groups: systemd-cgls, or ls /sys/fs/cgroup"
        }
        _ => return error.into(),
    };
    ErrorWithHint::error(error.to_string(), hint)
}

/// Manages running programs.
pub(super) struct Attached {
    /// The processes that were named and have not ended before the start.
    named: Vec<Arc<Held>>,
    /// True if more processes may appear: a cgroup or a name is selected, not only pids.
    open: bool,
    /// True if it goes on without any process: applications may be submitted.
    pub stays: bool,
    /// True once a process was managed.
    met: bool,
    /// True once it was reported that no process matches yet.
    waiting: bool,
    messages: Messages,
    deadline: Option<Nanos>,
}

impl Attached {
    /// Runs until all of `pids` have ended; if more may appear (`open`), until all matching processes have.
    pub fn new(
        root: &Root,
        pids: &[u32],
        open: bool,
        messages: Messages,
        deadline: Option<Nanos>,
    ) -> Self {
        let named = pids.iter().filter_map(|&pid| root.hold(pid).ok()).collect();
        Self { named, open, stays: false, met: false, waiting: false, messages, deadline }
    }

    /// Reports once that no process matches yet.
    fn wait_for_the_first(&mut self) {
        if !self.waiting {
            self.messages.print("no process matches yet; waiting");
        }
        self.waiting = true;
    }
}

impl EndCondition for Attached {
    fn on_signal(&mut self, signal: SignalEvent) -> OnSignal {
        match signal {
            SignalEvent::Child => OnSignal::GoOn,
            SignalEvent::End { .. } => OnSignal::End,
        }
    }

    fn is_over(&mut self, state: ManagerState, now: Nanos) -> bool {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            return true;
        }
        match state {
            ManagerState::NotDue => return false,
            ManagerState::Absent => return true,
            ManagerState::Managing => {
                self.met = true;
                return false;
            }
            ManagerState::NoTargets => {}
        }
        if self.stays {
            return false;
        }
        if self.open && !self.met {
            self.wait_for_the_first();
            return false;
        }
        // One may be too small to be managed.
        !self.named.iter().any(|held| held.is_alive())
    }

    fn deadline(&self) -> Option<Nanos> {
        self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::value::TextForm;
    use clap::Parser;

    #[derive(Debug, Parser)]
    #[command(group = ArgGroup::new("targets").multiple(true))]
    struct Line {
        #[command(flatten)]
        words: TargetsAndLimits,
    }

    /// The tenants of a command line, each with its limits, highest priority first.
    fn read(line: &str) -> Vec<String> {
        let words =
            Line::try_parse_from(["attach"].into_iter().chain(line.split(' '))).expect(line);
        let tenants = tenants(&words.words.0, &TierLimits::default()).expect(line);
        let one = |tenant: &crate::tenants::TenantSpec| {
            let limits: Vec<String> = tenant.limits.iter().map(TextForm::to_text).collect();
            format!("{} {}", tenant.name, limits.join(" below it ")).trim_end().to_string()
        };
        tenants.iter().map(one).collect()
    }

    #[test]
    fn options_keep_their_order() {
        assert_eq!(
            read("--cgroup a --limit fast=30% --cgroup b --comm ^c --limit t1=1G --limit fast=2G"),
            ["a fast=30%", "b", "^c t1=1GiB,fast=2GiB"]
        );
        assert_eq!(
            read("--limit fast=1G -p 1,2 --cgroup a -p 3 --limit fast=2G"),
            ["pid 1,2 fast=1GiB", "a fast=1GiB", "pid 3 fast=2GiB below it fast=1GiB"]
        );
        assert_eq!(
            read("--comm x -p 3 --limit=fast=2G,slow=3G"),
            ["x", "pid 3 fast=2GiB,slow=3GiB"]
        );
    }
}
