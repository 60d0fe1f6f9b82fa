// SPDX-License-Identifier: Apache-2.0
//! The tenants of this host and their processes.

pub mod cpu;
pub mod reports;
pub mod usage;

use std::collections::BTreeMap;

use tierline_core::port::{SpaceEvent, SpaceId, TenantId};
use tierline_core::qos::Limits;
use tierline_core::tier::TierId;
use tierline_core::unit::Bytes;

use crate::process::{Rule, Targets};

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
    /// Processes that match a rule.
    Rule(Rule),
}

/// All tenants, with the owner of every managed process.
///
/// A process belongs to the tenant of its innermost submitted cgroup, as its memory is charged there. Without one, it
/// belongs to the tenant that names it, by pid before name, otherwise to its parent's tenant.
#[derive(Debug, Default)]
pub struct Tenants {
    tenants: BTreeMap<usize, Tenant>,
    /// The tenants of submitted groups and of rules, by their indices in the targets.
    of_groups: BTreeMap<usize, usize>,
    of_rules: BTreeMap<usize, usize>,
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
        let mut all = Self::default();
        let (mut groups, mut rules) = (0.., 0..);
        for tenant in tenants {
            match &tenant.target {
                Target::Cgroup(_) => all.add_group(groups.next().unwrap_or(0), tenant),
                Target::Rule(_) => all.add_rule(rules.next().unwrap_or(0), tenant),
                Target::Command(_) | Target::Pids(_) => all.add(tenant),
            };
        }
        all
    }

    /// Adds a tenant; returns its index, the first that is free.
    fn add(&mut self, tenant: Tenant) -> usize {
        let at = (0..).find(|at| !self.tenants.contains_key(at)).unwrap_or(0);
        self.tenants.insert(at, tenant);
        at
    }

    /// Adds the tenant of a submitted group; returns its index.
    pub fn add_group(&mut self, group: usize, tenant: Tenant) -> usize {
        let at = self.add(tenant);
        self.of_groups.insert(group, at);
        at
    }

    /// Adds the tenant of a rule; returns its index.
    pub fn add_rule(&mut self, rule: usize, tenant: Tenant) -> usize {
        let at = self.add(tenant);
        self.of_rules.insert(rule, at);
        at
    }

    /// Removes a tenant. Its index may be another one's from now on.
    pub fn remove(&mut self, at: usize) {
        self.tenants.remove(&at);
        self.of_groups.retain(|_, tenant| *tenant != at);
        self.of_rules.retain(|_, tenant| *tenant != at);
        self.owners.retain(|_, owner| *owner != at);
    }

    /// Gives a tenant another name.
    pub fn rename(&mut self, at: usize, name: &str) {
        if let Some(tenant) = self.tenants.get_mut(&at) {
            tenant.name = name.into();
        }
    }

    /// The submitted group of the tenant at an index.
    pub fn group_of(&self, at: usize) -> Option<usize> {
        self.of_groups.iter().find(|(_, tenant)| **tenant == at).map(|(group, _)| *group)
    }

    /// The rule of the tenant at an index.
    pub fn rule_of(&self, at: usize) -> Option<usize> {
        self.of_rules.iter().find(|(_, tenant)| **tenant == at).map(|(rule, _)| *rule)
    }

    /// The tenants by index.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Tenant)> {
        self.tenants.iter().map(|(at, tenant)| (*at, tenant))
    }

    /// The tenant at an index.
    pub fn get(&self, at: usize) -> Option<&Tenant> {
        self.tenants.get(&at)
    }

    /// The index of the tenant of a managed process.
    pub fn tenant_of(&self, pid: u32) -> Option<usize> {
        self.owners.get(&pid).copied()
    }

    /// The number of managed processes of the tenant at an index.
    pub fn processes(&self, at: usize) -> usize {
        self.owners.values().filter(|&&owner| owner == at).count()
    }

    /// The managed processes of the tenant at an index.
    pub fn processes_of(&self, at: usize) -> Vec<u32> {
        self.owners.iter().filter(|(_, owner)| **owner == at).map(|(pid, _)| *pid).collect()
    }

    /// The index of the tenant of the submitted group at `group`.
    pub fn tenant_of_group(&self, group: usize) -> Option<usize> {
        self.of_groups.get(&group).copied()
    }

    /// The limits of all tenants.
    pub fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        for (at, tenant) in self.iter() {
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
            let Some(owner) = self.find(pid, targets) else { continue };
            if self.owners.insert(pid, owner) != Some(owner) {
                out.push(SpaceEvent::Owned(SpaceId(pid), id(owner)));
            }
        }
    }

    fn find(&self, pid: u32, targets: &Targets) -> Option<usize> {
        if let Some(at) = targets.group_of(pid).and_then(|group| self.tenant_of_group(group)) {
            return Some(at);
        }
        // A parent may be known without being managed, while it is too small.
        let mut ancestor = pid;
        while let Some(stat) = targets.stat(ancestor) {
            let named = self.named(ancestor, targets);
            if let Some(at) = named.or_else(|| self.previous_tenant(ancestor)) {
                return Some(at);
            }
            ancestor = stat.parent;
        }
        let launched = |tenant: &Tenant| matches!(tenant.target, Target::Command(_));
        let first = self.iter().find(|(_, tenant)| launched(tenant));
        first.or_else(|| self.iter().next()).map(|(at, _)| at)
    }

    /// The tenant that names a process by its pid, otherwise by a rule.
    fn named(&self, pid: u32, targets: &Targets) -> Option<usize> {
        let names =
            |tenant: &Tenant| matches!(&tenant.target, Target::Pids(pids) if pids.contains(&pid));
        let by_pid = self.iter().find(|(_, tenant)| names(tenant)).map(|(at, _)| at);
        by_pid.or_else(|| self.of_rules.get(&targets.rule_of(pid)?).copied())
    }

    /// The tenant that a process had before, unless through its cgroup or a rule: it stays after its parent has ended.
    fn previous_tenant(&self, pid: u32) -> Option<usize> {
        let is_left = |at: &usize| self.group_of(*at).is_none() && self.rule_of(*at).is_none();
        self.tenant_of(pid).filter(is_left)
    }
}

#[cfg(test)]
mod tests;
