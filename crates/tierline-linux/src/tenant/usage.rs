// SPDX-License-Identifier: Apache-2.0
//! Usage of each tier by tenants, from `memory.numa_stat` of their cgroups. A tenant without a cgroup is not measured.
//!
//! A reading is adjusted by our own moves until the next one. The kernel updates its counts in batches, so a reading
//! may miss up to 64 pages a processor (`MEMCG_CHARGE_BATCH` in its `memcontrol.h`).

use std::collections::{BTreeMap, BTreeSet};

use tierline_core::port::{Move, TenantTelemetry};
use tierline_core::tier::Tiers;
use tierline_core::unit::{Bytes, Nanos};

use super::{Tenants, id};
use crate::cgroup::{Cgroup, Cgroups};
use crate::error::Error;

/// Time between readings. Ours: with this, readings of 50 groups at 15 us each take below 1 % of a processor.
const READ_EVERY: Nanos = Nanos::from_millis(100);

/// Usage of the measured tenants.
#[derive(Debug, Default)]
pub struct Usage {
    /// The time of the last reading.
    read: Option<Nanos>,
    /// By tenant and tier, of those that are measured.
    used: BTreeMap<usize, Vec<Bytes>>,
    /// Groups whose failure was already reported.
    reported: BTreeSet<usize>,
}

impl Usage {
    /// Reads all groups, if due.
    pub fn refresh(
        &mut self,
        now: Nanos,
        groups: &Cgroups,
        tenants: &Tenants,
        tiers: &Tiers,
        problems: &mut Vec<Error>,
    ) {
        if self.read.is_some_and(|at| now < at + READ_EVERY) {
            return;
        }
        self.read = Some(now);
        self.used.clear();
        let charged: Vec<_> = groups
            .indexed()
            .map(|(at, group)| (at, self.charged(at, group, tiers, problems)))
            .collect();
        // A group's counts include the groups below it.
        let mut below: BTreeMap<usize, Vec<&Vec<Bytes>>> = BTreeMap::new();
        for (inner, used) in &charged {
            if let (Some(above), Some(used)) = (groups.parent_of(*inner), used) {
                below.entry(above).or_default().push(used);
            }
        }
        for (at, own) in &charged {
            let (Some(mut own), Some(tenant)) = (own.clone(), tenants.tenant_of_group(*at)) else {
                continue;
            };
            for inner in below.get(at).into_iter().flatten() {
                own.iter_mut()
                    .zip(*inner)
                    .for_each(|(own, inner)| *own = own.saturating_sub(*inner));
            }
            self.used.insert(tenant, own);
        }
    }

    /// Bytes of each tier that are charged to a group and those below it.
    fn charged(
        &mut self,
        at: usize,
        group: &Cgroup,
        tiers: &Tiers,
        problems: &mut Vec<Error>,
    ) -> Option<Vec<Bytes>> {
        let charged = match group.usage_by_node() {
            Ok(charged) => charged?,
            Err(problem) => {
                if self.reported.insert(at) {
                    problems.push(problem);
                }
                return None;
            }
        };
        let of_nodes = |nodes: &[_]| {
            charged.iter().filter(|one| nodes.contains(&one.node)).map(|one| one.user).sum()
        };
        Some(tiers.iter().map(|(_, tier)| of_nodes(&tier.nodes)).collect())
    }

    /// Adjusts the usage for a page that we moved.
    pub fn record_move(&mut self, tenant: usize, moved: &Move) {
        let Some(used) = self.used.get_mut(&tenant) else { return };
        let bytes = moved.size.bytes();
        if let Some(from) = used.get_mut(moved.from.index()) {
            *from = from.saturating_sub(bytes);
        }
        if let Some(to) = used.get_mut(moved.to.index()) {
            *to += bytes;
        }
    }

    /// The usage as telemetry for the core.
    pub fn telemetry(&self) -> Vec<TenantTelemetry> {
        let measured = self.used.iter().map(|(&at, used)| {
            let used = used.iter().copied().map(Some).collect();
            TenantTelemetry { tenant: id(at), used, ..TenantTelemetry::default() }
        });
        measured.collect()
    }
}
