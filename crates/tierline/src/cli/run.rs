// SPDX-License-Identifier: Apache-2.0
//! `tierline run`: runs a command and manages its memory. The command must run in any case.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use anyhow::{Context, Result};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use tierline_core::unit::Nanos;
use tierline_linux::error::Error;
use tierline_linux::manager::Manager;
use tierline_linux::root::Root;
use tierline_linux::user::User;

use super::join::Host;
use super::manage::{CheckedOptions, ManageArgs, raise_file_limit, say_summary, say_unmanaged};
use super::{Globals, UNUSABLE};
use crate::apps::{self, App};
use crate::drive::{Driver, EndCondition, Managed, ManagerState, OnSignal};
use crate::report_error::{self, ErrorWithHint};
use crate::signals::{SignalEvent, Signals};
use crate::tenants::{Target, TargetOrLimit, TenantSpec, TierLimits, tenants};

/// The exit statuses of shells and `env` for a missing command, and for one that cannot be executed.
const NOT_FOUND: u8 = 127;
const NOT_RUNNABLE: u8 = 126;
/// Shells add this to the number of a signal.
const BY_SIGNAL: i32 = 128;

/// Run a command and manage its memory
///
/// The command keeps its stdin, stdout and stderr, gets the signals that tierline gets, and sets the exit
/// status (128 + N if killed by signal N; 127 if there is no such command, 126 if it cannot be executed).
/// If its memory cannot be managed, it runs unmanaged. While a daemon runs, the command becomes its tenant.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n\
  \x20 tierline run --status-interval 1s -- redis-server --port 7000\n\
  \x20 tierline run --limit fast=4GiB --policy hemem -- ./app")]
pub struct RunArgs {
    /// Fail instead of running the command unmanaged
    #[arg(long)]
    strict: bool,
    /// Run the command as this user, by name or number in /etc/passwd, without any capability
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// The command with its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
    /// The command's limit in a tier, as in fast=4GiB or fast=30%,slow=20GiB; may be repeated
    #[arg(long, value_name = "TIER=LIMIT,…", help_heading = "How to manage")]
    limit: Vec<TierLimits>,
    /// Applications with targets: the *.toml files of a folder; more can be submitted with `tierline qos`
    #[arg(long, value_name = "DIR", help_heading = "How to manage")]
    apps: Option<PathBuf>,
    #[command(flatten)]
    manage: ManageArgs,
}

impl RunArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let mut plan = self.manage.plan(globals)?;
        let tenants = tenants(&self.words(), &plan.limit)?;
        let apps = self.apps.as_deref().map(apps::folder).transpose()?.unwrap_or_default();
        // Whose users these are does not depend on the machine that is managed.
        let user = |name: &String| User::find(&Root::default(), name);
        let user = self.user.as_ref().map(user).transpose()?;
        let mut signals = Signals::listen().context("cannot listen for signals")?;
        match Host::find(&plan.options.state_dir, &plan.root, plan.messages) {
            Ok(Some(host)) => {
                self.manage.check_for_guest()?;
                return self.join(plan, &host, user.as_ref(), tenants, &apps, &mut signals);
            }
            Ok(None) => {}
            Err(error) if self.strict => return Err(error),
            // The manager that is tried next says why there cannot be two.
            Err(error) => plan.messages.print(&report_error::text(&error)),
        }
        self.manage.open_reports(&mut plan)?;
        // Before the command starts: some settings (NUMA scan periods) are read at its exec.
        let (manager, why_not) = self.manager(&plan, &tenants, &apps)?;
        let messages = plan.messages;
        let (mut driver, summary) = plan.driver(manager);
        if let Some(signal) = signals.take().find_map(ending) {
            driver.finish();
            return Ok(code(BY_SIGNAL + signal.as_raw()));
        }
        let mut end = match Running::start(&mut driver, &self.command, user.as_ref(), None) {
            Ok(end) => end,
            Err(status) => return Ok(status),
        };
        driver.run(&mut signals, &mut end);
        let status = driver.finish();
        say_summary(messages, globals.json, status.as_ref());
        if let Some(summary) = summary {
            let why_not = why_not.as_deref().or(driver.failure());
            // The exit status is that of the program.
            let _ = summary.write(status.as_ref(), why_not, messages);
        }
        Ok(end.ended.map_or(UNUSABLE, exit_code))
    }

    /// Runs the command as a tenant of a daemon, until it ends.
    fn join(
        &self,
        plan: CheckedOptions,
        host: &Host,
        user: Option<&User>,
        mut tenants: Vec<TenantSpec>,
        apps: &[App],
        signals: &mut Signals,
    ) -> Result<u8> {
        let messages = plan.messages;
        let (mut driver, _) = plan.driver::<Manager>(None);
        let mut end = match Running::start(&mut driver, &self.command, user, None) {
            Ok(end) => end,
            Err(status) => return Ok(status),
        };
        for tenant in &mut tenants {
            tenant.target = Target::Pids(vec![end.child.id()]);
        }
        let _guests = match host.add(&tenants, apps) {
            Ok(guests) => Some(guests),
            // It has ended before the daemon could take it in.
            Err(_) if end.child.try_wait().is_ok_and(|status| status.is_some()) => None,
            Err(error) if self.strict => {
                let _ = end.child.kill();
                let _ = end.child.wait();
                return Err(error);
            }
            Err(error) => {
                say_unmanaged(messages, &error);
                None
            }
        };
        driver.run(signals, &mut end);
        Ok(end.ended.map_or(UNUSABLE, exit_code))
    }

    /// The target and its limits.
    fn words(&self) -> Vec<TargetOrLimit> {
        let program = Path::new(&self.command[0]);
        let name = program.file_name().unwrap_or(program.as_os_str());
        let target = Target::Command(name.to_string_lossy().into_owned());
        let limits = self.limit.iter().cloned().map(TargetOrLimit::Limits);
        [TargetOrLimit::Target(target)].into_iter().chain(limits).collect()
    }

    /// The manager, or why there is none. Wrong usage is an error in any case.
    fn manager(
        &self,
        plan: &CheckedOptions,
        tenants: &[TenantSpec],
        apps: &[App],
    ) -> Result<(Option<Manager>, Option<String>)> {
        match plan.start(tenants, apps) {
            Ok(manager) => Ok((Some(manager), None)),
            Err(error) if self.strict || is_typed(&error) => Err(error),
            Err(error) => {
                say_unmanaged(plan.messages, &error);
                Ok((None, Some(report_error::text(&error))))
            }
        }
    }
}

/// Starts a command; on failure returns the error and the exit status for it.
fn spawn(words: &[OsString], user: Option<&User>) -> Result<Child, (anyhow::Error, u8)> {
    let name = &words[0];
    let mut command = Command::new(name);
    command.args(&words[1..]);
    if let Some(user) = user {
        user.runs(&mut command);
    }
    command.spawn().map_err(|error| {
        let status = match error.kind() {
            ErrorKind::NotFound => NOT_FOUND,
            _ => NOT_RUNNABLE,
        };
        (anyhow::anyhow!("cannot run {}: {error}", Path::new(name).display()), status)
    })
}

fn is_typed(error: &anyhow::Error) -> bool {
    error.is::<ErrorWithHint>() || matches!(error.downcast_ref(), Some(Error::Input { .. }))
}

fn ending(heard: SignalEvent) -> Option<Signal> {
    match heard {
        SignalEvent::End { signal, .. } => Some(signal),
        SignalEvent::Child => None,
    }
}

/// A running command. The run ends with the command, and only then.
pub(super) struct Running {
    child: Child,
    /// Its exit status, once it has ended.
    pub ended: Option<ExitStatus>,
    /// The time at which it is left unmanaged, if any.
    deadline: Option<Nanos>,
}

impl Running {
    /// Starts a command under a driver. On failure it reports the error, ends the driver, and returns the exit
    /// status for it.
    pub fn start<M: Managed>(
        driver: &mut Driver<M>,
        command: &[OsString],
        user: Option<&User>,
        deadline: Option<Nanos>,
    ) -> Result<Self, u8> {
        match spawn(command, user) {
            Ok(child) => {
                raise_file_limit();
                driver.add(child.id());
                Ok(Self { child, ended: None, deadline })
            }
            Err((error, status)) => {
                driver.finish();
                report_error::print(&error);
                Err(status)
            }
        }
    }
}

impl EndCondition for Running {
    fn on_signal(&mut self, signal: SignalEvent) -> OnSignal {
        match signal {
            SignalEvent::Child => self.ended = self.child.try_wait().ok().flatten(),
            SignalEvent::End { to_group: true, .. } => {}
            SignalEvent::End { signal, .. } => {
                // The child was not waited for, so its pid is still its own.
                let _ = kill_process(Pid::from_child(&self.child), signal);
            }
        }
        if self.ended.is_some() { OnSignal::End } else { OnSignal::GoOn }
    }

    fn is_over(&mut self, _state: ManagerState, now: Nanos) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    fn deadline(&self) -> Option<Nanos> {
        self.deadline
    }
}

pub(super) fn exit_code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| BY_SIGNAL + signal);
    signal.or(status.code()).map_or(UNUSABLE, code)
}

fn code(status: i32) -> u8 {
    u8::try_from(status & 0xff).unwrap_or(UNUSABLE)
}
