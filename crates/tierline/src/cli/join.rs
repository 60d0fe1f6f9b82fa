// SPDX-License-Identifier: Apache-2.0
//! Joining a daemon: one manager serves the whole machine, so what `run` and `attach` would manage becomes its tenants
//! until they end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use tierline_core::unit::Nanos;
use tierline_linux::process::{Held, Rule};
use tierline_linux::root::Root;

use crate::api::client;
use crate::apps::App;
use crate::config::value::TextForm;
use crate::drive::{EndCondition, ManagerState, OnSignal};
use crate::print::Messages;
use crate::report_error;
use crate::rules::{Match, Process};
use crate::signals::SignalEvent;
use crate::tenants::{Target, TenantSpec, TierLimits};

/// Time between two looks whether the programs of `attach` have ended.
const LOOK_EVERY: Nanos = Nanos::from_secs(1);

/// A daemon that manages this machine.
#[derive(Debug)]
pub struct Host {
    socket: PathBuf,
    root: Root,
    messages: Messages,
}

/// Tenants of a daemon that were added for a command line; dropping them removes them.
#[derive(Debug)]
pub struct Guests<'a> {
    host: &'a Host,
    names: Vec<String>,
}

impl Host {
    /// The daemon with this state folder, if one listens.
    ///
    /// # Errors
    /// If it cannot be asked, as without the right to open its socket.
    pub fn find(state_dir: &Path, root: &Root, messages: Messages) -> Result<Option<Self>> {
        // A folder that others may write is refused where a manager starts.
        let Ok(Some(socket)) = client::socket(state_dir) else { return Ok(None) };
        let host = Self { socket, root: root.clone(), messages };
        Ok(client::listens(&host.socket)?.then_some(host))
    }

    /// Adds tenants: these targets with their limits, and these applications. All of them, or none.
    ///
    /// # Errors
    /// If the daemon refuses one.
    pub fn add(&self, tenants: &[TenantSpec], apps: &[App]) -> Result<Guests<'_>> {
        let mut guests = Guests { host: self, names: Vec::new() };
        let own = tenants.iter().enumerate().map(|(at, tenant)| self.app(tenant, at));
        for app in own.chain(apps.iter().cloned().map(Ok)) {
            let app = app?;
            client::add(&self.socket, &app)?;
            let name = app.name.unwrap_or_default();
            self.messages.print(&format!("managed by the daemon, as its tenant {name}"));
            guests.names.push(name);
        }
        Ok(guests)
    }

    /// A tenant as the daemon gets it.
    fn app(&self, tenant: &TenantSpec, at: usize) -> Result<App> {
        let mut app = App {
            name: Some(format!("{}-{}-{at}", plain(&tenant.name), std::process::id())),
            limit: limits(&tenant.limits),
            ..App::default()
        };
        match &tenant.target {
            Target::Pids(pids) => {
                let find = |&pid: &u32| Process::find(&self.root, pid);
                let processes: Result<Vec<Process>, _> = pids.iter().map(find).collect();
                app.matches = Some(Match::processes(processes?));
            }
            Target::Cgroup(path) => app.cgroup = Some(path.clone()),
            Target::Rule(Rule::Comm(pattern)) => {
                app.matches = Some(Match::comm(pattern.as_str()).map_err(anyhow::Error::msg)?);
            }
            Target::Rule(_) | Target::Command(_) => {
                return Err(anyhow::Error::msg("a command line names no such target"));
            }
        }
        Ok(app)
    }
}

/// The first limit of each tier, as one text.
fn limits(layers: &[TierLimits]) -> Option<String> {
    let mut all = TierLimits::default();
    for (tier, limit) in layers.iter().flat_map(|layer| &layer.0) {
        if !all.0.iter().any(|(known, _)| known == tier) {
            all.0.push((tier.clone(), *limit));
        }
    }
    (!all.0.is_empty()).then(|| all.to_text())
}

/// What of a text may be in a tenant's name, up to 32 characters.
fn plain(text: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "_.@-".contains(*c);
    let kept: String = text.chars().filter(is_plain).take(32).collect();
    let kept = kept.trim_start_matches(['.', '-']);
    if kept.is_empty() { "tenant".into() } else { kept.into() }
}

impl Drop for Guests<'_> {
    fn drop(&mut self) {
        for name in &self.names {
            // One whose processes have ended may be gone already, and a daemon that has ended has no tenants.
            if let Err(error) = client::remove(&self.host.socket, name) {
                let text = report_error::text(&error);
                self.host.messages.print(&format!("tenant {name} of the daemon stays: {text}"));
            }
        }
    }
}

/// Waits while a daemon manages the targets of `attach`.
pub struct Joined {
    /// The processes that were named.
    pub named: Vec<Arc<Held>>,
    /// True if it ends with them: no other target was named.
    pub ends_with_them: bool,
    /// When it ends at the latest.
    pub deadline: Option<Nanos>,
    next_look: Nanos,
}

impl Joined {
    /// Waits for the end of these processes if `ends_with_them`, for a signal, or for the deadline.
    pub fn new(named: Vec<Arc<Held>>, ends_with_them: bool, deadline: Option<Nanos>) -> Self {
        Self { named, ends_with_them, deadline, next_look: Nanos::ZERO }
    }
}

impl EndCondition for Joined {
    fn on_signal(&mut self, signal: SignalEvent) -> OnSignal {
        match signal {
            SignalEvent::Child => OnSignal::GoOn,
            SignalEvent::End { .. } => OnSignal::End,
        }
    }

    fn is_over(&mut self, _state: ManagerState, now: Nanos) -> bool {
        self.next_look = now + LOOK_EVERY;
        self.deadline.is_some_and(|deadline| now >= deadline)
            || (self.ends_with_them && !self.named.iter().any(|held| held.is_alive()))
    }

    fn deadline(&self) -> Option<Nanos> {
        let look = self.ends_with_them.then_some(self.next_look);
        [look, self.deadline].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_becomes_a_tenant_that_the_daemon_reads() {
        let limits = ["fast=1GiB", "fast=2GiB,slow=50%"].map(|text| text.parse().expect("limits"));
        let root = Root::default();
        let host = Host { socket: "/none".into(), root, messages: Messages { quiet: true } };
        let app = |name: &str, target: Target| {
            let spec = TenantSpec { name: name.into(), target, limits: limits.to_vec() };
            let app = host.app(&spec, 3).expect("a tenant");
            let json = serde_json::to_string(&app).expect("as sent");
            assert_eq!(serde_json::from_str::<App>(&json).expect("as received"), app);
            app
        };
        let own = std::process::id();
        let sent = app("pid 7", Target::Pids(vec![own]));
        assert_eq!(sent.name, Some(format!("pid7-{own}-3")));
        assert_eq!(sent.limit.as_deref(), Some("fast=1GiB,slow=50%"), "the first one of a tier");
        assert!(!sent.matches.expect("processes").has_ended(&Root::default()));
        assert_eq!(app("/", Target::Cgroup("a/b".into())).cgroup.as_deref(), Some("a/b"));
        let gone = Match::processes(vec![Process { pid: own, start: 1 }]);
        assert!(gone.has_ended(&Root::default()), "the number is another one's by now");
    }
}
