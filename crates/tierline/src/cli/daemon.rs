// SPDX-License-Identifier: Apache-2.0
//! `tierline daemon`: manages the tenants of a folder, as a service.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use rustix::thread::set_no_new_privs;
use tierline_core::unit::Nanos;
use tierline_linux::state_dir::StateDir;

use super::Globals;
use super::manage::{ManageArgs, confine, finish, raise_file_limit};
use crate::api::client::SOCKET;
use crate::api::{self, ApiOptions, Snapshot};
use crate::apps;
use crate::clock;
use crate::daemon::Daemon;
use crate::drive::{EndCondition, ManagerState, OnSignal};
use crate::notify::Notifier;
use crate::report_error::ErrorWithHint;
use crate::roster::Roster;
use crate::signals::{SignalEvent, Signals};
use crate::status::Status;

/// Manage the tenants of a folder, as a service
///
/// Each *.toml file is a tenant: a control group, a unit of systemd, or all processes that match a rule, with limits or a
/// target. Tenants are added and removed while it runs: by the files, which SIGHUP lets it read again, and through its
/// socket. SIGTERM ends it: changed settings are restored, pages stay where they are.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n\
  \x20 tierline daemon\n\
  \x20 tierline daemon --apps ./apps.d --socket ./api.sock --state-dir ./state --dry-run\n\
  \x20 tierline daemon --metrics 127.0.0.1:9273")]
pub struct DaemonArgs {
    /// The folder of tenants
    #[arg(long, value_name = "DIR", default_value = apps::FOLDER)]
    apps: PathBuf,
    /// The socket of the API [default: api.sock in the state folder]
    #[arg(long, value_name = "PATH", help_heading = "API")]
    socket: Option<PathBuf>,
    /// The group that may open the socket [default: tierline, if there is one]
    #[arg(long, value_name = "GROUP", help_heading = "API")]
    group: Option<String>,
    /// The group that may add and remove tenants through the socket, besides root
    #[arg(long, value_name = "GROUP", help_heading = "API")]
    admin_group: Option<String>,
    /// Show the metrics on a loopback port too, to every user of this machine
    #[arg(long, value_name = "ADDRESS", help_heading = "API")]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    manage: ManageArgs,
}

impl DaemonArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        // Before any thread. No program is started here that could need either otherwise.
        let _ = set_no_new_privs(true);
        raise_file_limit();
        let mut plan = self.manage.plan(globals)?;
        let mut signals = Signals::listen().context("cannot listen for signals")?;
        let (messages, state_dir) = (plan.messages, plan.options.state_dir.clone());
        let _only = lock(&state_dir)?;
        let roster = Roster::new(&plan.root, self.apps.clone(), state_dir.clone(), messages)?;
        self.manage.open_reports(&mut plan)?;
        let manager = plan.start(&[], &[])?;
        let (root, tracker) = (plan.root.clone(), manager.tracker().name());
        let first = Snapshot::new(Status::of(&manager, clock::now()), roster.standings());
        let (feed, hub) = api::feed(first).context("cannot start the API")?;
        let waker = feed.waker().context("cannot start the API")?;
        let notifier = Notifier::from_environment();
        let options = ApiOptions {
            socket: self.socket.clone().unwrap_or_else(|| state_dir.join(SOCKET)),
            group: self.group.clone(),
            admin_group: self.admin_group.clone(),
            metrics: self.metrics,
        };
        let daemon = Daemon::new(manager, roster, feed, notifier);
        let (mut driver, summary) = plan.driver(Some(daemon));
        driver.wake_by(waker);
        let started = api::start(&options, hub);
        let started = started.and_then(|api| confine(&root, messages, tracker).map(|()| api));
        let api = match started {
            Ok(api) => api,
            Err(error) => {
                driver.finish();
                return Err(error);
            }
        };
        driver.run(&mut signals, &mut UntilStopped);
        // Nobody is answered by a manager that is gone.
        drop(api);
        Ok(finish(&mut driver, summary, messages, globals.json))
    }
}

/// Makes sure that this is the only daemon of a state folder, until the file is closed.
fn lock(state_dir: &Path) -> Result<File> {
    StateDir::create(state_dir)?;
    let folder = File::open(state_dir).context("cannot open the state folder")?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        ErrorWithHint::error(
            format!("a daemon runs already, with the state folder {}", state_dir.display()),
            "see what it does: tierline status; or stop it: systemctl stop tierline",
        )
    })?;
    Ok(folder)
}

/// Goes on until a signal ends it, with and without programs.
struct UntilStopped;

impl EndCondition for UntilStopped {
    fn on_signal(&mut self, signal: SignalEvent) -> OnSignal {
        match signal {
            SignalEvent::Child => OnSignal::GoOn,
            SignalEvent::End { signal: Signal::HUP, .. } => OnSignal::Reload,
            SignalEvent::End { .. } => OnSignal::End,
        }
    }

    fn is_over(&mut self, state: ManagerState, _now: Nanos) -> bool {
        state == ManagerState::Absent
    }

    fn deadline(&self) -> Option<Nanos> {
        None
    }
}
