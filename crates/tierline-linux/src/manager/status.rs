// SPDX-License-Identifier: Apache-2.0
//! What a manager reports about itself: its parts, targets and tenants.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tierline_core::engine::Engine;
use tierline_core::qos::showback::Usage;
use tierline_core::tier::{NodeId, TierId};
use tierline_core::unit::{Bytes, Nanos};

use super::{Lateness, Manager, ManagerOptions};
use crate::journal::ChangedSetting;
use crate::orders::OrderTally;
use crate::telemetry::KernelCounters;
use crate::tenant::{Tenant, id};
use crate::tracker::Tracker;

/// A managed process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetStatus {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub comm: String,
}

/// A tenant: programs that share limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TenantStatus {
    /// Its index.
    pub at: usize,
    /// Its name.
    pub name: String,
    /// How many of its processes are managed.
    pub processes: usize,
    /// Bytes it uses in each tier, fastest first.
    pub used: Vec<Bytes>,
    /// Its limit in each tier; `None`: no limit.
    pub limits: Vec<Option<Bytes>>,
    /// What it has used since the start.
    pub usage: Usage,
}

impl Manager {
    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The tracker in use.
    pub fn tracker(&self) -> &dyn Tracker {
        self.world.tracker()
    }

    /// Memory moved, by the node that it left and the node that it went to.
    pub fn moved_by_nodes(&self) -> &BTreeMap<(NodeId, NodeId), Bytes> {
        &self.world.mover().counters().by_nodes
    }

    /// The options it was started with.
    pub fn options(&self) -> &ManagerOptions {
        &self.options
    }

    /// Time since the first step.
    pub fn uptime(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.started.unwrap_or(now))
    }

    /// Time since the last sample; `None` before the first.
    pub fn time_since_sample(&self, now: Nanos) -> Option<Nanos> {
        self.world.last_sample().map(|at| now.saturating_sub(at))
    }

    /// Orders by kind and outcome.
    pub fn orders(&self) -> &OrderTally {
        &self.orders
    }

    /// Errors so far that did not stop the manager.
    pub fn error_count(&self) -> u64 {
        self.problems
    }

    /// How late its steps began.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// The managed processes.
    pub fn targets(&self) -> Vec<TargetStatus> {
        let comm = |pid| {
            let text = self.root.process(pid).and_then(|held| held.read_text("comm").ok());
            text.unwrap_or_default().trim_end_matches('\n').to_string()
        };
        self.world.pids().map(|pid| TargetStatus { pid, comm: comm(pid) }).collect()
    }

    /// The tenants by index. A tenant's usage is measured from its cgroup; without
    /// one, it is the sum of its known pages.
    pub fn tenants(&self) -> Vec<TenantStatus> {
        let tiers = || self.engine.tiers().iter().map(|(id, _)| id);
        let tenants = self.world.tenants();
        let measured = &self.engine.telemetry().tenants;
        let status = |(at, tenant): (usize, &Tenant)| {
            let measured = measured.iter().find(|one| one.tenant == id(at));
            let used = |tier: TierId| {
                let measured = measured.and_then(|one| *one.used.get(tier.index())?);
                measured.unwrap_or_else(|| self.engine.pages().bytes_of(id(at), tier))
            };
            let limit = |tier: TierId| tenant.limits.get(tier.index()).copied().flatten();
            TenantStatus {
                at,
                name: tenant.name.clone(),
                processes: tenants.processes(at),
                used: tiers().map(used).collect(),
                limits: tiers().map(limit).collect(),
                usage: self.engine.showback().of(id(at)),
            }
        };
        tenants.iter().map(status).collect()
    }

    /// Settings of the machine that are changed at present.
    pub fn changed_settings(&self) -> Vec<ChangedSetting> {
        self.journal.changes()
    }

    /// Resident memory of this process, by the second field of `statm`, in pages.
    pub fn resident(&self) -> Bytes {
        let statm = self.root.read("/proc/self/statm").unwrap_or_default();
        let pages = statm.split(' ').nth(1).and_then(|field| field.parse().ok());
        Bytes::from_base_pages(pages.unwrap_or(0))
    }

    /// The kernel's counters of page moves on the whole machine since the start, by their names in
    /// `/proc/vmstat`.
    pub fn kernel_counts(&self) -> BTreeMap<String, u64> {
        let now = KernelCounters::vmstat(&self.root).unwrap_or_default();
        let (of_moves, since) = (now.of_moves(), now.since(&self.before));
        let since = since.into_iter().filter(|(name, _)| of_moves.contains_key(name));
        since.map(|(name, count)| (name.to_string(), count)).collect()
    }
}
