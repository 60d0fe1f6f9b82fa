// SPDX-License-Identifier: Apache-2.0
//! The remaining limits of tenants: the only place that computes with limits. The ledger of a plan, the
//! enforcer and the migrator each keep an instance.

use std::collections::BTreeMap;

use super::Limits;
use crate::page::PageTable;
use crate::port::{Telemetry, TenantId, TenantTelemetry};
use crate::tier::TierId;
use crate::unit::Bytes;

/// Bytes that each tenant may still take in each tier; negative above its limit.
#[derive(Clone, Debug, Default)]
pub struct Allowance {
    left: BTreeMap<TenantId, [Option<i128>; TierId::MAX]>,
    /// Whether every tenant has a limit in this tier.
    all_limited: [bool; TierId::MAX],
}

impl Allowance {
    /// The limits minus the use, as measured by the world, otherwise as known to the page table. The page table
    /// misses pages that were never observed and counts shared pages twice.
    pub fn new(limits: &Limits, pages: &PageTable, telemetry: &Telemetry) -> Self {
        if limits.is_empty() {
            return Self::default();
        }
        let sound = |tenant: &TenantTelemetry| tenant.used.len() <= TierId::MAX;
        debug_assert!(telemetry.tenants.iter().all(sound), "more tiers than a machine can have");
        let known = pages.by_tenant();
        let measured = |tenant, tier: TierId| {
            let mut all = telemetry.tenants.iter();
            *all.find(|measured| measured.tenant == tenant)?.used.get(tier.index())?
        };
        let used = |tenant: TenantId, tier: TierId| {
            let known = || known.get(&tenant).map_or(Bytes::ZERO, |used| used[tier.index()]);
            measured(tenant, tier).unwrap_or_else(known)
        };
        let mut left = BTreeMap::new();
        for (tenant, limits) in limits.iter() {
            let of_tenant: &mut [Option<i128>; TierId::MAX] = left.entry(tenant).or_default();
            for ((tier, limit), left) in (0..).map(TierId).zip(limits).zip(of_tenant) {
                *left = limit.map(|limit| i128::from(limit.0) - i128::from(used(tenant, tier).0));
            }
        }
        let is_limited = |tier: usize| {
            let limited = |tenant| left.get(tenant).is_some_and(|left| left[tier].is_some());
            known.keys().all(limited)
        };
        Self { all_limited: std::array::from_fn(is_limited), left }
    }

    /// Whether no tenant has a limit.
    pub fn is_unlimited(&self) -> bool {
        self.left.is_empty()
    }

    /// Bytes that a tenant may still take in a tier; `None` without a limit.
    pub fn left(&self, tenant: TenantId, tier: TierId) -> Option<Bytes> {
        let left = self.left.get(&tenant)?[tier.index()]?;
        Some(Bytes(u64::try_from(left.max(0)).unwrap_or(u64::MAX)))
    }

    /// Whether a tenant may take `bytes` more in a tier.
    pub fn admits(&self, tenant: TenantId, tier: TierId, bytes: Bytes) -> bool {
        self.left(tenant, tier).is_none_or(|left| left >= bytes)
    }

    /// Records that a tenant has `bytes` more in a tier.
    pub fn take(&mut self, tenant: TenantId, tier: TierId, bytes: Bytes) {
        self.change(tenant, tier, -i128::from(bytes.0));
    }

    /// Records that a tenant has `bytes` less in a tier.
    pub fn give(&mut self, tenant: TenantId, tier: TierId, bytes: Bytes) {
        self.change(tenant, tier, i128::from(bytes.0));
    }

    fn change(&mut self, tenant: TenantId, tier: TierId, by: i128) {
        if let Some(left) = self.left.get_mut(&tenant).and_then(|left| left[tier.index()].as_mut())
        {
            *left += by;
        }
    }

    /// Bytes that all tenants together may still take in a tier; `None` if one has no limit.
    pub fn left_for_all(&self, tier: TierId) -> Option<Bytes> {
        let limited = self.all_limited[tier.index()];
        let left = || self.left.keys().filter_map(|&tenant| self.left(tenant, tier)).sum();
        limited.then(left)
    }

    /// Whether a tenant is above its limit in a tier.
    pub fn is_exceeded(&self, tenant: TenantId, tier: TierId) -> bool {
        let left = self.left.get(&tenant).and_then(|left| left[tier.index()]);
        left.is_some_and(|left| left < 0)
    }

    /// Tenants above their limit in a tier, and by how much.
    pub fn excess(&self) -> impl Iterator<Item = (TenantId, TierId, Bytes)> + '_ {
        self.left.iter().flat_map(|(&tenant, left)| {
            (0..).map(TierId).zip(left).filter_map(move |(tier, &left)| {
                let over = left.filter(|&left| left < 0)?.unsigned_abs();
                Some((tenant, tier, Bytes(u64::try_from(over).unwrap_or(u64::MAX))))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PageTable;
    use crate::port::{PageKind, PageSize, Region, SpaceEvent, SpaceId, Vpn};

    const A: TenantId = TenantId(1);
    const B: TenantId = TenantId(2);
    const FAST: TierId = TierId::FAST;

    /// Two tenants with eight base pages each, all in the fastest tier.
    fn pages() -> PageTable {
        let mut pages = PageTable::default();
        for (space, tenant) in [(SpaceId(7), A), (SpaceId(8), B)] {
            let (start, base_pages) = (Vpn(0), 8);
            let (size, kind) = (PageSize::Base, PageKind::Anonymous);
            pages.apply(SpaceEvent::Owned(space, tenant));
            pages.apply(SpaceEvent::Mapped(Region { space, start, base_pages, size, kind }));
            for vpn in 0..base_pages {
                let page = pages.find(space, Vpn(vpn)).unwrap();
                pages.set_tier(page, FAST);
            }
        }
        pages
    }

    #[test]
    fn a_limit_leaves_the_unused_part_and_reports_the_excess() {
        let mut limits = Limits::of(A, FAST, Bytes::from_base_pages(10));
        limits.set(B, FAST, Some(Bytes::from_base_pages(5)));
        let mut allowance = Allowance::new(&limits, &pages(), &Telemetry::default());
        assert_eq!(allowance.left(A, FAST), Some(Bytes::from_base_pages(2)));
        assert_eq!(allowance.left(A, TierId(1)), None);
        let over: Vec<_> = allowance.excess().collect();
        assert_eq!(over, [(B, FAST, Bytes::from_base_pages(3))]);
        allowance.take(A, FAST, Bytes::from_base_pages(2));
        assert!(!allowance.admits(A, FAST, Bytes::from_base_pages(1)));
        allowance.give(A, FAST, Bytes::from_base_pages(1));
        assert!(allowance.admits(A, FAST, Bytes::from_base_pages(1)));
        assert_eq!(allowance.left_for_all(FAST), Some(Bytes::from_base_pages(1)));
        assert_eq!(allowance.left_for_all(TierId(1)), None);
    }

    #[test]
    fn measured_use_overrides_the_page_table() {
        let limits = Limits::of(A, FAST, Bytes::from_base_pages(10));
        let used = vec![Some(Bytes::from_base_pages(9))];
        let measured = TenantTelemetry { tenant: A, used, ..TenantTelemetry::default() };
        let telemetry = Telemetry { tenants: vec![measured], ..Telemetry::default() };
        let allowance = Allowance::new(&limits, &pages(), &telemetry);
        assert_eq!(allowance.left(A, FAST), Some(Bytes::from_base_pages(1)));
        assert_eq!(allowance.left_for_all(FAST), None, "the other tenant has no limit");
    }
}
