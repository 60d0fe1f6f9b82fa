// SPDX-License-Identifier: Apache-2.0
//! Tenants' limits in each tier, what remains of them, their enforcement, and the controller that sets them.

pub mod admission;
pub mod allocation;
pub mod allowance;
pub mod application;
pub mod bracket;
pub mod controller;
pub mod decision;
pub mod enforcer;
pub mod heat_curve;
pub mod heat_sample;
mod lending;
pub mod measured;
pub mod measurement;
pub mod need;
pub mod profiler;
mod rest;
pub mod scan_shares;
pub mod showback;
pub mod squeeze;
pub mod state;
mod steady_clock;
pub mod thresholds;

use std::collections::{BTreeMap, BTreeSet};

use crate::port::TenantId;
use crate::tier::TierId;
use crate::unit::Bytes;

/// Limits on the bytes that a tenant may have in a tier. No entry: no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    tenants: BTreeMap<TenantId, [Option<Bytes>; TierId::MAX]>,
    behind: BTreeSet<TenantId>,
}

impl Limits {
    /// One limit of one tenant.
    pub fn of(tenant: TenantId, tier: TierId, limit: Bytes) -> Self {
        let mut limits = Self::default();
        limits.set(tenant, tier, Some(limit));
        limits
    }

    /// Sets or removes a tenant's limit in a tier.
    pub fn set(&mut self, tenant: TenantId, tier: TierId, limit: Option<Bytes>) {
        debug_assert!(tier.index() < TierId::MAX, "{tier} is no tier");
        let of_tenant = self.tenants.entry(tenant).or_default();
        of_tenant[tier.index()] = limit;
        if of_tenant.iter().all(Option::is_none) {
            self.tenants.remove(&tenant);
        }
        debug_assert_eq!(self.get(tenant, tier), limit);
    }

    /// A tenant's limit in a tier.
    pub fn get(&self, tenant: TenantId, tier: TierId) -> Option<Bytes> {
        self.tenants.get(&tenant)?[tier.index()]
    }

    /// Removes all limits of a tenant.
    pub fn remove_all(&mut self, tenant: TenantId) {
        self.tenants.remove(&tenant);
        self.behind.remove(&tenant);
    }

    /// Sets the tenants that miss their target and may have more memory in the fastest tier: their pages go there whether
    /// or not that repays the moves.
    pub fn set_behind(&mut self, tenants: impl IntoIterator<Item = TenantId>) {
        self.behind.clear();
        self.behind.extend(tenants);
    }

    /// The tenants that miss their target and may have more memory in the fastest tier.
    pub fn behind(&self) -> &BTreeSet<TenantId> {
        &self.behind
    }

    /// Whether no tenant has a limit.
    pub fn is_empty(&self) -> bool {
        let none = |limits: &[Option<Bytes>; TierId::MAX]| limits.iter().all(Option::is_none);
        debug_assert!(!self.tenants.values().any(none), "tenants without a limit have no entry");
        self.tenants.is_empty()
    }

    /// The tenants with limits, with their limits in each tier.
    pub fn iter(&self) -> impl Iterator<Item = (TenantId, &[Option<Bytes>; TierId::MAX])> {
        self.tenants.iter().map(|(&tenant, limits)| (tenant, limits))
    }
}
