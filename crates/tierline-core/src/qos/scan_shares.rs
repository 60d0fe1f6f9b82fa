// SPDX-License-Identifier: Apache-2.0
//! Which tiers serve a tenant's accesses, from the pages that whole scans found accessed.
//!
//! All pages of a program are watched for the same window, so the pages found in each tier are compared as they are. The heat
//! of a sample of its pages compares less well: it forgets what several scans did not find, as is right for moves, and a page
//! that is accessed less than once in several windows is then taken for idle, although all such pages together may have most
//! of the accesses.
//!
//! A page counts once in a window however often it is accessed. So memory that is accessed many times in a window counts for
//! less than its accesses; most of those are served by the processor's caches. Ours.

use std::collections::BTreeMap;

use crate::page::PageTable;
use crate::port::TenantId;
use crate::telemetry::SpaceHits;
use crate::tier::TierId;

/// Pages found that count: older ones are forgotten as new ones come. At a share of 5 % the standard error is 1 %. Ours.
const COUNTING: f64 = 512.0;
/// Below this number the share is unknown. Ours.
const FEWEST: f64 = 64.0;
/// Scans that count, at most; as the trackers' windows.
const SCANS: f64 = 16.0;

/// Pages found accessed by tier, of each tenant.
#[derive(Clone, Debug, Default)]
pub struct ScanShares {
    tenants: BTreeMap<TenantId, [f64; TierId::MAX]>,
}

impl ScanShares {
    /// Takes in a scan of all processes: what it found, by address space.
    pub fn add(&mut self, hits_of: &[SpaceHits], pages: &PageTable) {
        let mut scan = BTreeMap::<TenantId, [f64; TierId::MAX]>::new();
        for of in hits_of {
            let sums = scan.entry(pages.tenant_of(of.space)).or_default();
            sums.iter_mut().zip(&of.by_tier).for_each(|(sum, hits)| *sum += hits);
        }
        for (tenant, found) in scan {
            let known = self.tenants.entry(tenant).or_default();
            let (before, new): (f64, f64) = (known.iter().sum(), found.iter().sum());
            let kept = ((COUNTING - new).max(0.0) / before.max(1.0)).min(1.0 - 1.0 / SCANS);
            known.iter_mut().zip(found).for_each(|(sum, hits)| *sum = *sum * kept + hits);
        }
    }

    /// The accesses of a tenant in each tier, in proportion; `None` if too few are known.
    pub fn of(&self, tenant: TenantId) -> Option<[f64; TierId::MAX]> {
        let found = self.tenants.get(&tenant)?;
        (found.iter().sum::<f64>() >= FEWEST).then_some(*found)
    }

    /// Forgets a tenant.
    pub fn forget(&mut self, tenant: TenantId) {
        self.tenants.remove(&tenant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{SpaceEvent, SpaceId};

    const TENANT: TenantId = TenantId(1);

    /// A tenant of two processes, and another one.
    fn pages() -> PageTable {
        let mut pages = PageTable::default();
        for (space, tenant) in [(1, 1), (2, 1), (3, 2)] {
            pages.apply(SpaceEvent::Owned(SpaceId(space), TenantId(tenant)));
        }
        pages
    }

    fn found(space: u32, fast: f64, slow: f64) -> SpaceHits {
        let mut by_tier = [0.0; TierId::MAX];
        (by_tier[0], by_tier[1]) = (fast, slow);
        SpaceHits { space: SpaceId(space), by_tier }
    }

    fn slow_share(shares: &ScanShares) -> Option<f64> {
        shares.of(TENANT).map(|[fast, slow, ..]| slow / (fast + slow))
    }

    #[test]
    fn the_pages_of_all_processes_of_a_tenant_count() {
        let (mut shares, pages) = (ScanShares::default(), pages());
        shares.add(&[found(1, 20.0, 30.0), found(3, 900.0, 0.0)], &pages);
        assert_eq!(slow_share(&shares), None, "50 are too few");
        shares.add(&[found(2, 40.0, 20.0)], &pages);
        let by_hand = (30.0 * 15.0 / 16.0 + 20.0) / (50.0 * 15.0 / 16.0 + 60.0);
        assert!((slow_share(&shares).unwrap() - by_hand).abs() < 1e-9, "{shares:?}");
        shares.forget(TENANT);
        assert_eq!(slow_share(&shares), None);
        assert_eq!(shares.of(TenantId(2)).map(|by_tier| by_tier[0]), Some(900.0));
    }

    /// A scan in a long window finds thousands of pages, later ones hundreds.
    #[test]
    fn what_later_scans_find_replaces_what_one_has_found() {
        let (mut shares, pages) = (ScanShares::default(), pages());
        shares.add(&[found(1, 0.0, 10_000.0)], &pages);
        shares.add(&[found(1, 256.0, 0.0)], &pages);
        assert!((slow_share(&shares).unwrap() - 0.5).abs() < 1e-9, "half of 512: {shares:?}");
        shares.add(&[found(1, 600.0, 0.0)], &pages);
        assert_eq!(slow_share(&shares), Some(0.0));
        shares.add(&[], &pages);
        assert_eq!(
            slow_share(&shares),
            Some(0.0),
            "a scan that finds none of its pages says nothing"
        );
    }
}
