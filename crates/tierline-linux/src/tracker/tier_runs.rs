// SPDX-License-Identifier: Apache-2.0
//! Joins neighbouring pages with the same properties to runs.

use tierline_core::port::{Observations, PageSize, Residence, Sample, SpaceId, Vpn};
use tierline_core::tier::TierId;

/// Neighbouring pages of one size in one tier (`None`: unknown).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierRun {
    /// The first base page.
    pub start: u64,
    /// The number of base pages.
    pub pages: u32,
    /// The size of each.
    pub size: PageSize,
    /// The tier of all of them.
    pub tier: Option<TierId>,
}

impl TierRun {
    /// Adds the next page, if it is of the same kind.
    #[inline]
    fn extend(&mut self, page: Self) -> bool {
        let next = self.start + u64::from(self.pages) == page.start;
        let fits = next && self.size == page.size && self.tier == page.tier;
        let sum = self.pages.checked_add(page.pages).filter(|_| fits);
        self.pages = sum.unwrap_or(self.pages);
        sum.is_some()
    }
}

/// Collects pages by ascending address, and reports them as runs.
pub struct TierRuns {
    space: SpaceId,
    /// Whether accesses are known to be stores.
    write: Option<bool>,
    touched: Option<TierRun>,
    living: Option<TierRun>,
}

impl TierRuns {
    /// A collection for one process.
    pub fn new(space: SpaceId, write: Option<bool>) -> Self {
        Self { space, write, touched: None, living: None }
    }

    /// Adds a page that was accessed.
    #[inline]
    pub fn add_accessed(&mut self, page: TierRun, out: &mut Observations) {
        if !self.touched.as_mut().is_some_and(|run| run.extend(page))
            && let Some(run) = self.touched.replace(page)
        {
            out.samples.push(self.sample(run));
        }
    }

    /// Adds a page that is in memory.
    #[inline]
    pub fn add_present(&mut self, page: TierRun, out: &mut Observations) {
        if !self.living.as_mut().is_some_and(|run| run.extend(page))
            && let Some(run) = self.living.replace(page)
        {
            out.residence.extend(self.residence(run));
        }
    }

    /// Reports the open runs.
    pub fn finish(self, out: &mut Observations) {
        out.samples.extend(self.touched.map(|run| self.sample(run)));
        out.residence.extend(self.living.and_then(|run| self.residence(run)));
    }

    fn sample(&self, run: TierRun) -> Sample {
        Sample {
            space: self.space,
            vpn: Vpn(run.start),
            base_pages: run.pages,
            hits: 1.0,
            exposure: None,
            tier: run.tier,
            write: self.write,
        }
    }

    fn residence(&self, run: TierRun) -> Option<Residence> {
        let (space, vpn, base_pages) = (self.space, Vpn(run.start), run.pages);
        Some(Residence { space, vpn, base_pages, tier: run.tier? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(start: u64, tier: u8) -> TierRun {
        TierRun { start, pages: 1, size: PageSize::Base, tier: Some(TierId(tier)) }
    }

    #[test]
    fn neighbours_of_one_tier_and_size_are_one_run() {
        let mut out = Observations::default();
        let mut runs = TierRuns::new(SpaceId(1), None);
        for at in [page(1, 0), page(2, 0), page(3, 1), page(5, 1)] {
            runs.add_accessed(at, &mut out);
            runs.add_present(at, &mut out);
        }
        runs.add_accessed(TierRun { pages: 512, size: PageSize::Huge, ..page(6, 1) }, &mut out);
        runs.finish(&mut out);
        let samples: Vec<_> = out.samples.iter().map(|s| (s.vpn.0, s.base_pages)).collect();
        assert_eq!(samples, [(1, 2), (3, 1), (5, 1), (6, 512)]);
        let living: Vec<_> = out.residence.iter().map(|r| (r.vpn.0, r.base_pages)).collect();
        assert_eq!(living, [(1, 2), (3, 1), (5, 1)]);
    }
}
