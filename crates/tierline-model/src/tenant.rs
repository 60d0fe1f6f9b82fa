// SPDX-License-Identifier: Apache-2.0
//! The tenants of a scenario, and their limits over time.
//!
//! ```toml
//! [[tenant]]
//! name = "redis"
//! limit = { fast = "4GiB", slow = "30%" }
//! limits = [{ at = "30s", fast = "2GiB" }]
//!
//! [[workload]]
//! kind = "kv"
//! tenant = "redis"
//! ```
//!
//! `limit` applies from the start. Each entry of `limits` changes only the tiers that it names; `"100%"` is
//! equivalent to no limit. A tier is named as on the machine, or `t0`, `t1`, …; `fast` is the fastest tier and
//! `slow` the slowest, unless the machine has tiers of these names.
//!
//! A tenant with a `priority` is an application with quality of service: its limits are set by the controller.
//! See [`crate::qos`].

use std::collections::BTreeMap;

use serde::Deserialize;
use tierline_core::port::TenantId;
use tierline_core::qos::Limits;
use tierline_core::tier::TierId;
use tierline_core::unit::{Bytes, Nanos};

use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::text;
use crate::workload::program::{Placement, Program};
use crate::world::Arrival;

/// Limits in a scenario file: by tier, a size or a percentage of the tier's capacity.
pub type WrittenLimits = BTreeMap<String, String>;

/// A tenant in a scenario file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tenant {
    /// The name in workloads and reports.
    pub name: String,
    /// Its limits from the start.
    pub limit: WrittenLimits,
    /// Changes of its limits.
    pub limits: Vec<LimitsFrom>,
    /// Its priority, if it is an application; larger is more important.
    pub priority: Option<u32>,
    /// Its target: a latency (`200ns`), a bandwidth (`70GB/s`), or a share of slow accesses (`5%`).
    pub slo: Option<String>,
    /// Its part of what is left, if it has no target. Default: 1.
    pub weight: Option<f64>,
    /// Measures what its target needs, from this time on. One tenant of a scenario can have it.
    #[serde(deserialize_with = "text::maybe")]
    pub measure_at: Option<Nanos>,
}

/// Limits that apply from a time on.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct LimitsFrom {
    /// Time since the scenario's start.
    #[serde(deserialize_with = "text::quantity")]
    pub at: Nanos,
    /// The limits that change.
    #[serde(flatten)]
    pub limit: WrittenLimits,
}

/// One tenant's limit in one tier, from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LimitChange {
    at: Nanos,
    tenant: TenantId,
    tier: TierId,
    limit: Bytes,
}

/// The schedule of changes of limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// The next change is the last element.
    changes: Vec<LimitChange>,
}

impl Schedule {
    /// Reads the limits of all tenants, for this machine and these programs.
    ///
    /// # Errors
    /// If two tenants have the same name, or a limit is impossible on this machine with these programs.
    pub fn read(tenants: &[Tenant], machine: &Machine, arrivals: &[Arrival]) -> Result<Self> {
        let mut changes = Vec::new();
        for (at, tenant) in tenants.iter().enumerate() {
            let wrong = |why: &str| Err(tenant.wrong(why));
            if tenant.name.is_empty() {
                return wrong("it has no name; give it one, as in name = \"redis\"");
            }
            if tenants[..at].iter().any(|other| other.name == tenant.name) {
                return wrong("this name occurs twice; give each [[tenant]] its own name");
            }
            let from_start = LimitsFrom { at: Nanos::ZERO, limit: tenant.limit.clone() };
            for from in std::iter::once(&from_start).chain(&tenant.limits) {
                changes.extend(tenant.changes(id(at), from, machine, arrivals)?);
            }
        }
        // Of several changes at one time, the last one in the file applies.
        changes.sort_by_key(|change| change.at);
        changes.reverse();
        Ok(Self { changes })
    }

    /// Applies the changes that are due.
    pub fn apply(&mut self, now: Nanos, limits: &mut Limits) {
        while let Some(change) = self.changes.pop_if(|change| change.at <= now) {
            limits.set(change.tenant, change.tier, Some(change.limit));
        }
    }
}

/// The tenant of that name.
///
/// # Errors
/// `Error::Unknown` with the known names; `Error::Figure` if there are no tenants.
pub fn find(tenants: &[Tenant], name: &str) -> Result<TenantId> {
    if tenants.is_empty() {
        let why = format!("the scenario has no tenants; add a [[tenant]] with name = {name:?}");
        return Err(Error::Figure { place: format!("tenant {name:?}"), why });
    }
    let at = tenants.iter().position(|tenant| tenant.name == name);
    at.map(id).ok_or_else(|| {
        Error::unknown("tenant", name, tenants.iter().map(|tenant| tenant.name.as_str()))
    })
}

/// Tenants are numbered from 1, in the order of the file.
pub(crate) fn id(at: usize) -> TenantId {
    TenantId(u16::try_from(at + 1).unwrap_or(u16::MAX))
}

impl Tenant {
    pub(crate) fn wrong(&self, why: &str) -> Error {
        Error::Figure { place: format!("tenant {:?}", self.name), why: why.into() }
    }

    fn changes(
        &self,
        tenant: TenantId,
        from: &LimitsFrom,
        machine: &Machine,
        arrivals: &[Arrival],
    ) -> Result<Vec<LimitChange>> {
        let mut changes: Vec<LimitChange> = Vec::new();
        for (name, text) in &from.limit {
            let tier = tier(machine, name)?;
            let limit = self.limit(name, text, machine.tiers[tier.index()].capacity)?;
            if changes.iter().any(|other| other.tier == tier) {
                let why = format!("{name} has two limits; remove one of them");
                return Err(self.wrong(&why));
            }
            let own = arrivals.iter().filter(|arrival| arrival.tenant == tenant);
            let bound: Bytes = own.map(|arrival| bound(&arrival.program, tier)).sum();
            if limit < bound {
                return Err(self.wrong(&format!(
                    "a limit of {limit} on {name}, but its programs bind {bound} to that tier; raise the limit to \
                     {bound} or more"
                )));
            }
            changes.push(LimitChange { at: from.at, tenant, tier, limit });
        }
        Ok(changes)
    }

    /// A limit on a tier of this capacity.
    fn limit(&self, tier: &str, text: &str, capacity: Bytes) -> Result<Bytes> {
        let wrong = |why: String| self.wrong(&format!("a limit of {text:?} on {tier}{why}"));
        let Some(percent) = text.strip_suffix('%') else {
            let limit: Bytes = text.parse().map_err(|error| wrong(format!(": {error}")))?;
            return match limit <= capacity {
                true => Ok(limit),
                false => Err(wrong(format!(
                    ", which has {capacity}; lower it, or write a percentage of the tier, as in \"30%\""
                ))),
            };
        };
        match percent.trim().parse::<f64>() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(capacity.part(percent / 100.0)),
            _ => {
                Err(wrong("; write a size, as in \"4GiB\", or a percentage from 0% to 100%".into()))
            }
        }
    }
}

/// Bytes that a program binds to a tier: they never move.
fn bound(program: &Program, tier: TierId) -> Bytes {
    let own = match program.placement == Placement::Pinned(tier) {
        true => program.bytes,
        false => Bytes::ZERO,
    };
    own + program.memory.further.iter().map(|part| bound(part, tier)).sum()
}

fn tier(machine: &Machine, name: &str) -> Result<TierId> {
    let tiers = &machine.tiers;
    let named = tiers.iter().position(|tier| tier.name == name);
    let by_place = || match name {
        "fast" => Some(0),
        "slow" => tiers.len().checked_sub(1),
        _ => (0..tiers.len()).find(|at| *name == format!("t{at}")),
    };
    let at = named.or_else(by_place).and_then(|at| u8::try_from(at).ok());
    at.map(TierId).ok_or_else(|| {
        let known = tiers.iter().map(|tier| tier.name.as_str());
        Error::unknown("tier", name, known).within(&format!("machine {}", machine.name))
    })
}
