// SPDX-License-Identifier: Apache-2.0
//! The tenants of this host and their processes.

pub mod cpu;
pub mod reports;
pub mod usage;

use std::collections::BTreeMap;

use regex_lite::Regex;
use tierline_core::port::{SpaceEvent, SpaceId, TenantId};
use tierline_core::qos::Limits;
use tierline_core::tier::TierId;
use tierline_core::unit::Bytes;

use crate::process::Targets;

/// Programs that share limits.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// Its name in reports.
    pub name: String,
    /// Which processes belong to it.
    pub target: Target,
    /// Its limit in each tier, fastest first; no entry or `None`: no limit.
    pub limits: Vec<Option<Bytes>>,
}

/// The processes of a tenant. Their children belong to it too.
#[derive(Clone, Debug)]
pub enum Target {
    /// A launched command, by its name.
    Command(String),
    /// Processes by pid.
    Pids(Vec<u32>),
    /// A control group, including those below it.
    Cgroup(String),
    /// Processes whose name matches.
    Comm(Regex),
}

/// All tenants, with the owner of every managed process.
///
/// A process belongs to the tenant of its innermost submitted cgroup, as its memory is charged there. Without one, it
/// belongs to the tenant that names it, by pid before name, otherwise to its parent's tenant.
#[derive(Debug, Default)]
pub struct Tenants {
    tenants: Vec<Tenant>,
    /// The tenants whose targets are cgroups, in the order in which the groups were submitted.
    of_groups: Vec<usize>,
    /// The tenant of each managed process, by index.
    owners: BTreeMap<u32, usize>,
}

/// The core's id for the tenant at an index; 0 means no tenant.
pub fn id(at: usize) -> TenantId {
    TenantId(u16::try_from(at + 1).unwrap_or(u16::MAX))
}

/// The index of the tenant with an id of the core.
pub fn index(id: TenantId) -> Option<usize> {
    usize::from(id.0).checked_sub(1)
}

impl Tenants {
    /// Creates the set without processes.
    pub fn new(tenants: Vec<Tenant>) -> Self {
        let is_group = |(at, tenant): (usize, &Tenant)| {
            matches!(tenant.target, Target::Cgroup(_)).then_some(at)
        };
        let of_groups = tenants.iter().enumerate().filter_map(is_group).collect();
        Self { tenants, of_groups, owners: BTreeMap::new() }
    }

    /// Adds the tenant of the group that was submitted last; returns its index.
    pub fn add_group(&mut self, tenant: Tenant) -> usize {
        self.tenants.push(tenant);
        let at = self.tenants.len() - 1;
        self.of_groups.push(at);
        at
    }

    /// Gives a tenant another name.
    pub fn rename(&mut self, at: usize, name: &str) {
        if let Some(tenant) = self.tenants.get_mut(at) {
            tenant.name = name.into();
        }
    }

    /// The submitted group of the tenant at an index.
    pub fn group_of(&self, at: usize) -> Option<usize> {
        self.of_groups.iter().position(|&tenant| tenant == at)
    }

    /// The tenants, in the order in which they were submitted.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Tenant> {
        self.tenants.iter()
    }

    /// The index of the tenant of a managed process.
    pub fn tenant_of(&self, pid: u32) -> Option<usize> {
        self.owners.get(&pid).copied()
    }

    /// The number of managed processes of the tenant at an index.
    pub fn processes(&self, at: usize) -> usize {
        self.owners.values().filter(|&&owner| owner == at).count()
    }

    /// The index of the tenant of the submitted group at `group`.
    pub fn tenant_of_group(&self, group: usize) -> Option<usize> {
        self.of_groups.get(group).copied()
    }

    /// The limits of all tenants.
    pub fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        for (at, tenant) in self.tenants.iter().enumerate() {
            for (tier, limit) in (0..).map(TierId).zip(&tenant.limits) {
                limits.set(id(at), tier, *limit);
            }
        }
        limits
    }

    /// Forgets processes that are gone; a process that reuses the pid is reported again.
    pub fn forget(&mut self, gone: &[u32]) {
        gone.iter().for_each(|pid| {
            self.owners.remove(pid);
        });
    }

    /// Finds the owner of every managed process, and reports new and changed owners.
    pub fn assign(&mut self, targets: &Targets, out: &mut Vec<SpaceEvent>) {
        if self.tenants.is_empty() {
            return;
        }
        for pid in targets.pids() {
            let owner = self.find(pid, targets);
            if self.owners.insert(pid, owner) != Some(owner) {
                out.push(SpaceEvent::Owned(SpaceId(pid), id(owner)));
            }
        }
    }

    fn find(&self, pid: u32, targets: &Targets) -> usize {
        if let Some(at) = targets.group_of(pid).and_then(|group| self.tenant_of_group(group)) {
            return at;
        }
        // A parent may be known without being managed, while it is too small.
        let mut ancestor = pid;
        while let Some(stat) = targets.stat(ancestor) {
            if let Some(at) =
                self.named(ancestor, &stat.comm).or_else(|| self.previous_tenant(ancestor))
            {
                return at;
            }
            ancestor = stat.parent;
        }
        let launched = |tenant: &Tenant| matches!(tenant.target, Target::Command(_));
        self.tenants.iter().position(launched).unwrap_or(0)
    }

    /// The tenant that names a process by its pid, otherwise by its name.
    fn named(&self, pid: u32, comm: &str) -> Option<usize> {
        let find = |is: &dyn Fn(&Target) -> bool| self.tenants.iter().position(|t| is(&t.target));
        find(&|target| matches!(target, Target::Pids(pids) if pids.contains(&pid)))
            .or_else(|| find(&|target| matches!(target, Target::Comm(name) if name.is_match(comm))))
    }

    /// The tenant that a process had before, unless through its cgroup: it stays after its parent has ended.
    fn previous_tenant(&self, pid: u32) -> Option<usize> {
        self.tenant_of(pid).filter(|at| !self.of_groups.contains(at))
    }
}

#[cfg(test)]
mod tests;
