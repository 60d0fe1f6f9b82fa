// SPDX-License-Identifier: Apache-2.0
//! The common part of `run` and `attach`: their options, and the start of a manager.

use std::fs::File;
use std::io::Write;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use tierline_core::guard::message;
use tierline_core::tier::Tiers;
use tierline_core::unit::{Bytes, Nanos};
use tierline_linux::manager::{Manager, ManagerOptions};
use tierline_linux::privilege;
use tierline_linux::root::Root;
use tierline_linux::seccomp::{self, Role};
use tierline_linux::systemd;
use tierline_linux::tenant::Tenant;
use tierline_linux::topology::Topology;

use super::{FOUND, Globals};
use crate::apps::{self, App};
use crate::calibration;
use crate::config::Layer;
use crate::config::file::ConfigSources;
use crate::config::value::Text;
use crate::drive::{Driver, EventLog, Managed, Reports};
use crate::output::{empty, private};
use crate::print::{Messages, SCHEMA_VERSION, to_stderr};
use crate::report_error::{self, ErrorWithHint};
use crate::serve::StatusSocket;
use crate::status::Status;
use crate::tenants::{self, TenantSpec, TierLimits};

/// Options of the verbs that manage.
#[derive(Debug, Args)]
pub struct ManageArgs {
    #[command(flatten)]
    layer: Layer,
    #[command(flatten)]
    sources: ConfigSources,
    /// Observe, estimate and decide, but move nothing
    #[arg(long, help_heading = "How to manage")]
    dry_run: bool,
    /// Do not manage the children of the managed processes
    #[arg(long, help_heading = "How to manage")]
    no_children: bool,
    /// Write every event to this file, one line of JSON each
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    events: Option<PathBuf>,
    /// Write no more events than this
    #[arg(long, value_name = "SIZE", default_value = "1GiB", help_heading = "Reports")]
    events_limit: Text<Bytes>,
    /// Print a line of status on stderr at this interval, as in 1s
    #[arg(long, value_name = "TIME", help_heading = "Reports")]
    status_interval: Option<Text<Nanos>>,
    /// Write the last status as JSON to this file; - is stdout
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    summary: Option<PathBuf>,
    /// Print nothing except errors that end tierline itself
    #[arg(long, short, help_heading = "Reports")]
    pub quiet: bool,
}

/// The checked options.
pub struct CheckedOptions {
    /// The root of `/proc` and `/sys`.
    pub root: Root,
    /// How to manage.
    pub options: ManagerOptions,
    /// The limits of tenants without limits on the command line.
    pub limit: TierLimits,
    /// The smallest process to manage.
    pub min_rss: Bytes,
    /// True if children of the managed processes are managed too.
    pub children: bool,
    /// Prints messages to the user.
    pub messages: Messages,
    reports: Reports,
    summary: Option<Summary>,
}

/// The file of the last status.
pub enum Summary {
    /// `-`.
    Stdout,
    /// Any other name.
    File(File),
}

impl ManageArgs {
    /// Checks everything that can be checked before the start.
    pub fn plan(&self, globals: &Globals) -> Result<CheckedOptions> {
        let root = globals.root();
        let layer = self.sources.stack(&root, self.layer.clone())?.flatten();
        let limit = layer.limits();
        let (options, min_rss) = layer.options(self.dry_run)?;
        let messages = Messages { quiet: self.quiet };
        let reports = Reports {
            messages,
            events: None,
            status_interval: self
                .status_interval
                .as_ref()
                .map(|time| time.0)
                .filter(|_| !self.quiet),
            json: globals.json,
        };
        let children = !self.no_children;
        let summary = None;
        Ok(CheckedOptions { root, options, limit, min_rss, children, messages, reports, summary })
    }
}

impl ManageArgs {
    /// Checks that no option is given which is the daemon's own, as this manager joins one.
    ///
    /// # Errors
    /// If there is one.
    pub fn check_for_guest(&self) -> Result<()> {
        let layer = Layer { state_dir: None, limit: None, ..self.layer.clone() };
        let is_given = [
            ("how to manage", layer != Layer::default()),
            ("--dry-run", self.dry_run),
            ("--no-children", self.no_children),
            ("--events", self.events.is_some()),
            ("--status-interval", self.status_interval.is_some()),
            ("--summary", self.summary.is_some()),
        ];
        match is_given.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => Err(ErrorWithHint::error(
                format!("a daemon manages this machine, and has its own options: {option}"),
                "leave such options out to join the daemon; `tierline status` shows its own. Or stop it: \
                 systemctl stop tierline",
            )),
        }
    }

    /// Opens the files of the reports, once everything else is checked. What is in them stays until the manager runs.
    pub fn open_reports(&self, plan: &mut CheckedOptions) -> Result<()> {
        let events = self.events.as_deref().map(private).transpose()?;
        plan.reports.events = events.map(|file| EventLog::new(file, self.events_limit.0));
        plan.summary = self.summary.as_deref().map(Summary::open).transpose()?;
        Ok(())
    }
}

impl CheckedOptions {
    /// Starts a manager of these tenants and applications: it watches, and its settings are in force.
    pub fn start(&self, tenants: &[TenantSpec], apps: &[App]) -> Result<Manager> {
        let selection = tenants::selection(tenants, self.children, self.min_rss);
        let (root, options) = (self.root.clone(), self.options.clone());
        let tenants = self.tenants(tenants)?;
        let started = catch_unwind(move || Manager::new(&root, selection, tenants, options));
        let mut manager = match started {
            Ok(manager) => manager?,
            Err(panic) => {
                return Err(anyhow!("the manager failed: {}", message(panic.as_ref())));
            }
        };
        manager.notes().iter().for_each(|note| self.messages.print(note));
        match calibration::read(&self.root) {
            Ok(Some(thresholds)) => manager.calibrate(thresholds),
            Ok(None) => {}
            Err(error) => self.messages.print(&report_error::text(&error)),
        }
        apps::host_all(&mut manager, &self.root, apps, self.messages);
        Ok(manager)
    }

    /// The tenants, with their limits checked against the machine's tiers.
    fn tenants(&self, tenants: &[TenantSpec]) -> Result<Vec<Tenant>> {
        let tiers = match tenants.iter().all(|tenant| tenant.limits.is_empty()) {
            // The manager reports the best error about a machine's tiers.
            true => Tiers(Vec::new()),
            false => Topology::read(&self.root)?.tiers(self.options.tiers.as_ref())?,
        };
        tenants.iter().map(|tenant| tenant.resolve(&tiers)).collect()
    }

    /// A driver for `manager`, and the file of the final summary.
    pub fn driver<M: Managed>(self, manager: Option<M>) -> (Driver<M>, Option<Summary>) {
        let socket = manager.is_some().then(|| StatusSocket::open(&self.options.state_dir));
        let socket = socket.and_then(|opened| {
            let warn = |error: &_| {
                self.messages
                    .print(&format!("`tierline status` cannot reach this manager: {error}"))
            };
            opened.inspect_err(warn).ok()
        });
        (Driver::new(manager, socket, self.reports), self.summary)
    }
}

impl Summary {
    fn open(file: &Path) -> Result<Self> {
        match file.to_str() {
            Some("-") => Ok(Self::Stdout),
            _ => Ok(Self::File(private(file)?)),
        }
    }

    /// Writes the last status, or why there is none. `false` if it cannot be written.
    pub fn write(self, status: Option<&Status>, why_not: Option<&str>, messages: Messages) -> bool {
        #[derive(Serialize)]
        struct Unmanaged<'a> {
            schema_version: u32,
            managed: bool,
            why: &'a str,
        }
        let why = why_not.unwrap_or("the manager failed");
        let unmanaged = Unmanaged { schema_version: SCHEMA_VERSION, managed: false, why };
        let text = match status {
            Some(status) => serde_json::to_string_pretty(status),
            None => serde_json::to_string_pretty(&unmanaged),
        };
        let written = text.map_err(std::io::Error::from).and_then(|text| match self {
            Self::Stdout => writeln!(std::io::stdout(), "{text}"),
            Self::File(mut file) => empty(&file).and_then(|()| writeln!(file, "{text}")),
        });
        if let Err(error) = &written {
            messages.print(&format!("cannot write the summary: {error}"));
        }
        written.is_ok()
    }
}

/// Gives up every right that a manager with this tracker does not need once it runs: capabilities, and system calls.
/// What other threads have is their own. Call it last: no file of another user is opened later, no thread and no
/// program is started.
///
/// # Errors
/// If capabilities cannot be given up. A kernel without filters of system calls is reported only.
pub fn confine(root: &Root, messages: Messages, tracker: &str) -> Result<()> {
    systemd::start_runner(root).context("cannot start the thread for systemctl")?;
    privilege::keep_only(privilege::needed(tracker)).context("cannot give up capabilities")?;
    if let Err(error) = seccomp::confine(Role::Manager) {
        messages.print(&format!("system calls are not restricted: {error}"));
    }
    Ok(())
}

/// A managed process takes two open files, and the soft limit is made for programs that use select(2). A
/// command inherits it, so it is raised after the command has started.
pub fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Reports that the command runs unmanaged, and why.
pub fn say_unmanaged(messages: Messages, error: &anyhow::Error) {
    messages.print(&format!("running unmanaged: {}", report_error::text(error)));
    if let Some(hint) = report_error::hint(error) {
        messages.print(&format!("hint: {hint}"));
    }
}

/// Stops the manager and writes its summary. Returns the exit status of a command that runs no program.
pub fn finish<M: Managed>(
    driver: &mut Driver<M>,
    summary: Option<Summary>,
    messages: Messages,
    json: bool,
) -> u8 {
    let status = driver.finish();
    say_summary(messages, json, status.as_ref());
    let written =
        summary.is_none_or(|summary| summary.write(status.as_ref(), driver.failure(), messages));
    if let Some(why) = driver.failure() {
        report_error::print(&anyhow!("the manager failed: {why}"));
    }
    if written && driver.failure().is_none() { 0 } else { FOUND }
}

/// The last line of a managed run.
pub fn say_summary(messages: Messages, json: bool, status: Option<&Status>) {
    match status {
        Some(status) if json && !messages.quiet => to_stderr(&status.json()),
        Some(status) => messages.print(&status.line()),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_that_cannot_be_written_is_told_of() {
        let messages = Messages { quiet: true };
        let written = |file: File| Summary::File(file).write(None, Some("a test"), messages);
        assert!(written(tempfile::tempfile().expect("a file")));
        let full = File::options().write(true).open("/dev/full").expect("a device");
        assert!(!written(full));
    }
}
