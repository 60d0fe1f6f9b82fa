// SPDX-License-Identifier: Apache-2.0
//! Usage of each tier by tenants, from `memory.numa_stat` of their cgroups. A tenant without a cgroup is not measured.
//!
//! The kernel updates its counts in batches of up to 64 pages a processor (`MEMCG_CHARGE_BATCH` in its `memcontrol.h`)
//! and completes them every two seconds (`FLUSH_TIME` in `memcontrol.c`). So a reading may miss our latest moves, and a
//! tenant at its limit would exceed it by that much. Usage is therefore adjusted by our own moves, and a lower reading
//! corrects it only as far as missed moves cannot explain the difference.

use std::collections::{BTreeMap, BTreeSet};

use tierline_core::port::{Move, TenantTelemetry};
use tierline_core::tier::Tiers;
use tierline_core::unit::{Bytes, Nanos};

use super::{Tenants, id};
use crate::cgroup::{Cgroup, Cgroups};
use crate::error::Error;

/// Time between readings. Ours: with this, readings of 50 groups at 15 us each take below 1 % of a processor.
const READ_EVERY: Nanos = Nanos::from_millis(100);

/// Time after which every reading contains a move: the kernel's two seconds, and our margin.
const COMPLETE_AFTER: Nanos = Nanos::from_millis(2_500);
/// Pages a processor that the kernel's counts may miss.
const BATCH: u64 = 64;

/// Time for which a reading counts while the group's memory stays the same: only other programs can move its pages then.
const SAME_FOR: Nanos = Nanos::from_secs(10);
/// One in so many groups is read again for its age alone in one refresh.
const RENEWED: usize = 8;

/// What a group used by tier, when that was read, and all that was charged to it then.
#[derive(Debug)]
struct Reading {
    charged: Bytes,
    at: Nanos,
    used: Vec<InTier>,
}

/// What a group uses of a tier.
#[derive(Clone, Copy, Debug)]
struct InTier {
    all: Bytes,
    files: Bytes,
}

impl InTier {
    fn without(self, inner: Self) -> Self {
        Self {
            all: self.all.saturating_sub(inner.all),
            files: self.files.saturating_sub(inner.files),
        }
    }
}

/// Usage of the measured tenants.
#[derive(Debug)]
pub struct Usage {
    /// What the kernel's counts may miss.
    batch: Bytes,
    /// The time of the last reading.
    read: Option<Nanos>,
    /// When the tallies' latest period began.
    period: Nanos,
    /// By tenant and tier, of those that are measured.
    used: BTreeMap<usize, Vec<Tally>>,
    /// The last readings, by group.
    readings: BTreeMap<usize, Reading>,
    /// How many old ones this refresh may still replace: all at once would be a long step.
    renewals: usize,
    /// Groups whose failure was already reported.
    reported: BTreeSet<usize>,
}

/// What a tenant uses of a tier, and what our moves added in the latest and in the previous period.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    used: Bytes,
    /// As read last.
    files: Bytes,
    gained: [Bytes; 2],
}

impl Tally {
    /// Takes over a reading that may miss up to `batch` of the recent moves. It is never
    /// taken for too high, as a tenant would then exceed its limit.
    fn correct(&mut self, reading: InTier, batch: Bytes) {
        let [latest, previous] = self.gained;
        self.used = self.used.clamp(reading.all, reading.all + (latest + previous).min(batch));
        self.files = reading.files;
    }

    fn begin_period(&mut self) {
        self.gained = [Bytes::ZERO, self.gained[0]];
    }
}

impl Usage {
    /// Usage on a machine with so many processors; nothing is measured yet.
    pub fn new(processors: usize) -> Self {
        Self {
            batch: Bytes::from_base_pages(BATCH * processors as u64),
            read: None,
            period: Nanos::ZERO,
            used: BTreeMap::new(),
            readings: BTreeMap::new(),
            renewals: 0,
            reported: BTreeSet::new(),
        }
    }

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
        let mut before = std::mem::take(&mut self.used);
        if now >= self.period + COMPLETE_AFTER {
            self.period = now;
            before.values_mut().flatten().for_each(Tally::begin_period);
        }
        // Our own moves change usage, and not what is charged.
        let moved =
            |tallies: &Vec<Tally>| tallies.iter().any(|tally| tally.gained != [Bytes::ZERO; 2]);
        for (at, _) in groups.indexed() {
            let tenant = tenants.tenant_of_group(at);
            if tenant.and_then(|tenant| before.get(&tenant)).is_none_or(moved) {
                let above = std::iter::successors(Some(at), |at| groups.parent_of(*at));
                above.for_each(|at| drop(self.readings.remove(&at)));
            }
        }
        self.renewals = groups.iter().len().div_ceil(RENEWED);
        let charged: Vec<_> = groups
            .indexed()
            .map(|(at, group)| (at, self.charged(now, at, group, tiers, problems)))
            .collect();
        // A group's counts include the groups below it.
        let mut below: BTreeMap<usize, Vec<&Vec<InTier>>> = BTreeMap::new();
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
                own.iter_mut().zip(*inner).for_each(|(own, inner)| *own = own.without(*inner));
            }
            let first = |&InTier { all, files }| Tally { used: all, files, ..Tally::default() };
            let first = || own.iter().map(first).collect();
            let mut tallies: Vec<_> = before.remove(&tenant).unwrap_or_else(first);
            tallies.iter_mut().zip(own).for_each(|(tally, own)| tally.correct(own, self.batch));
            self.used.insert(tenant, tallies);
        }
    }

    /// Bytes of each tier that are charged to a group and those below it.
    fn charged(
        &mut self,
        now: Nanos,
        at: usize,
        group: &Cgroup,
        tiers: &Tiers,
        problems: &mut Vec<Error>,
    ) -> Option<Vec<InTier>> {
        let all = group.charged();
        if let Some(last) = self.readings.get(&at).filter(|last| Some(last.charged) == all) {
            let is_old = now >= last.at + SAME_FOR;
            if !is_old || self.renewals == 0 {
                return Some(last.used.clone());
            }
            self.renewals -= 1;
        }
        self.readings.remove(&at);
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
            let those = || charged.iter().filter(|one| nodes.contains(&one.node));
            InTier {
                all: those().map(|one| one.user).sum(),
                files: those().map(|one| one.files).sum(),
            }
        };
        let used: Vec<InTier> = tiers.iter().map(|(_, tier)| of_nodes(&tier.nodes)).collect();
        if let Some(charged) = all {
            self.readings.insert(at, Reading { charged, at: now, used: used.clone() });
        }
        Some(used)
    }

    /// Adjusts the usage for a page that we moved.
    pub fn record_move(&mut self, tenant: usize, moved: &Move) {
        let Some(used) = self.used.get_mut(&tenant) else { return };
        let bytes = moved.size.bytes();
        if let Some(from) = used.get_mut(moved.from.index()) {
            from.used = from.used.saturating_sub(bytes);
        }
        if let Some(to) = used.get_mut(moved.to.index()) {
            to.used += bytes;
            to.gained[0] += bytes;
        }
    }

    /// The usage as telemetry for the core.
    pub fn telemetry(&self) -> Vec<TenantTelemetry> {
        let measured = self.used.iter().map(|(&at, used)| {
            let used_files = used.iter().map(|tally| tally.files).collect();
            let used = used.iter().map(|tally| Some(tally.used)).collect();
            TenantTelemetry { tenant: id(at), used, used_files, ..TenantTelemetry::default() }
        });
        measured.collect()
    }
}
