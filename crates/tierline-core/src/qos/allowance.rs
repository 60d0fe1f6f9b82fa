// SPDX-License-Identifier: Apache-2.0
//! The remaining limits of tenants: the only place that computes with limits. The ledger of a plan, the
//! enforcer and the migrator each keep an instance.

use super::Limits;
use crate::page::UseByTenant;
use crate::port::{Telemetry, TenantId, TenantTelemetry};
use crate::tier::TierId;
use crate::unit::Bytes;

/// What remains of a tenant's limits, by tier.
type Remainders = [Option<Remainder>; TierId::MAX];

#[derive(Clone, Copy, Debug)]
struct Remainder {
    limit: Bytes,
    /// Negative above the limit.
    left: i128,
}

impl Remainder {
    fn left(self) -> Bytes {
        Bytes(u64::try_from(self.left.max(0)).unwrap_or(u64::MAX))
    }

    fn excess(self) -> Option<Bytes> {
        let over = (self.left < 0).then(|| self.left.unsigned_abs())?;
        Some(Bytes(u64::try_from(over).unwrap_or(u64::MAX)))
    }
}

/// Bytes that each tenant may still take in each tier.
#[derive(Clone, Debug, Default)]
pub struct Allowance {
    /// In order of tenants.
    tenants: Vec<(TenantId, Remainders)>,
    /// Whether every tenant has a limit in this tier.
    all_limited: [bool; TierId::MAX],
}

impl Allowance {
    /// The limits minus the use, as measured by the world, otherwise as known to the page table, which misses pages
    /// that were never observed and counts shared pages twice.
    pub fn new(limits: &Limits, known: &UseByTenant, telemetry: &Telemetry) -> Self {
        if limits.is_empty() {
            return Self::default();
        }
        let sound = |tenant: &TenantTelemetry| tenant.used.len() <= TierId::MAX;
        debug_assert!(telemetry.tenants.iter().all(sound), "more tiers than a machine can have");
        let measured = telemetry.by_tenant();
        let tenants = limits.iter().map(|(tenant, limits)| {
            let (known, measured) = (known.get(&tenant), measured.get(&tenant));
            let used = |tier: usize| {
                let measured = measured.and_then(|measured| *measured.used.get(tier)?);
                measured.or(known.map(|known| known[tier])).unwrap_or_default()
            };
            let remainder = |tier: usize| {
                let limit = limits[tier]?;
                Some(Remainder { limit, left: i128::from(limit.0) - i128::from(used(tier).0) })
            };
            (tenant, std::array::from_fn(remainder))
        });
        let mut allowance = Self { tenants: tenants.collect(), all_limited: [true; TierId::MAX] };
        for tenant in known.keys() {
            let of_tenant = allowance.find(*tenant).map(|at| allowance.tenants[at].1);
            for (all, one) in allowance.all_limited.iter_mut().zip(of_tenant.unwrap_or_default()) {
                *all &= one.is_some();
            }
        }
        allowance
    }

    fn find(&self, tenant: TenantId) -> Option<usize> {
        self.tenants.binary_search_by_key(&tenant, |&(tenant, _)| tenant).ok()
    }

    fn remainder(&self, tenant: TenantId, tier: TierId) -> Option<Remainder> {
        self.tenants[self.find(tenant)?].1[tier.index()]
    }

    /// Whether no tenant has a limit.
    pub fn is_unlimited(&self) -> bool {
        self.tenants.is_empty()
    }

    /// A tenant's limit in a tier.
    pub fn limit(&self, tenant: TenantId, tier: TierId) -> Option<Bytes> {
        self.remainder(tenant, tier).map(|one| one.limit)
    }

    /// Bytes that a tenant may still take in a tier; `None` without a limit.
    pub fn left(&self, tenant: TenantId, tier: TierId) -> Option<Bytes> {
        self.remainder(tenant, tier).map(Remainder::left)
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
        if let Some(at) = self.find(tenant)
            && let Some(one) = &mut self.tenants[at].1[tier.index()]
        {
            one.left += by;
        }
    }

    /// Bytes that all tenants together may still take in a tier; `None` if one has no limit.
    pub fn left_for_all(&self, tier: TierId) -> Option<Bytes> {
        let in_tier = || self.tenants.iter().filter_map(|(_, of_tenant)| of_tenant[tier.index()]);
        self.all_limited[tier.index()].then(|| in_tier().map(Remainder::left).sum())
    }

    /// Whether a tenant is above its limit in a tier.
    pub fn is_exceeded(&self, tenant: TenantId, tier: TierId) -> bool {
        self.remainder(tenant, tier).is_some_and(|one| one.left < 0)
    }

    /// Tenants above their limit in a tier, and by how much.
    pub fn excess(&self) -> impl Iterator<Item = (TenantId, TierId, Bytes)> + '_ {
        self.tenants.iter().flat_map(|&(tenant, of_tenant)| {
            (0..)
                .map(TierId)
                .zip(of_tenant)
                .filter_map(move |(tier, one)| Some((tenant, tier, one?.excess()?)))
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
        let mut allowance = Allowance::new(&limits, &pages().by_tenant(), &Telemetry::default());
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
        let allowance = Allowance::new(&limits, &pages().by_tenant(), &telemetry);
        assert_eq!(allowance.left(A, FAST), Some(Bytes::from_base_pages(1)));
        assert_eq!(allowance.left_for_all(FAST), None, "the other tenant has no limit");
    }
}
