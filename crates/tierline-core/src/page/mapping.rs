// SPDX-License-Identifier: Apache-2.0
//! How the page table follows mappings and page sizes.
//!
//! These come from different readers, in any order: a list of mappings does not say which pages are huge, and
//! page tables do not say what is mapped. Each is kept until its own reader reports otherwise.

use super::regions::{Found, IndexRun, Space, pages_u32};
use super::{PageIdx, PageTable};
use crate::port::{PageKind, PageSize, Region, SpaceId, Vpn};
use crate::unit::BASE_PER_HUGE;

impl PageTable {
    pub(super) fn map(&mut self, region: Region) {
        let Region { space, kind, size, .. } = region;
        let (start, end) = (region.start.0, region.start.0.saturating_add(region.base_pages));
        let (stays, goes): (Vec<_>, Vec<_>) =
            self.overlapped(space, start, end).into_iter().partition(|(_, run)| run.kind == kind);
        for (vpn, run) in goes {
            self.unmap(space, start.max(vpn.0), end.min(vpn.0 + run.base_pages));
        }
        for (from, to) in gaps(start, end, &stays) {
            let (whole_from, whole_to) = match size {
                PageSize::Base => (to, to),
                PageSize::Huge => whole_huge(from, to),
            };
            self.add(space, from, whole_from, PageSize::Base, kind);
            self.add(space, whole_from, whole_to, size, kind);
            self.add(space, whole_to, to, PageSize::Base, kind);
        }
        for (from, to) in self.take_unmapped_huge(space, start, end) {
            self.resize(space, from, to, PageSize::Huge);
        }
    }

    /// Maps unknown pages in a range that has none.
    fn add(&mut self, space: SpaceId, start: u64, end: u64, size: PageSize, kind: PageKind) {
        if start >= end {
            return;
        }
        let mut run = IndexRun { base_pages: end - start, size, kind, first: 0 };
        let Some(first) = self.take_indices(run.pages()) else {
            return; // 2^32 pages are managed already: 16 TiB in base pages
        };
        run.first = first;
        self.base_pages += run.base_pages;
        self.attach(space, Vpn(start), run);
    }

    /// Unmaps a run of base pages. The rest of a huge page at its edge stays mapped, as base pages.
    pub(super) fn unmap(&mut self, space: SpaceId, start: u64, end: u64) {
        self.take_unmapped_huge(space, start, end);
        let (first, last) = (Vpn(start).huge_head().0, Vpn(end).huge_head().0);
        for (head, is_cut) in [(first, first < start), (last, last < end)] {
            if is_cut && start < end {
                self.split_all(space, head, head + BASE_PER_HUGE);
            }
        }
        for (vpn, run) in self.overlapped(space, start, end) {
            self.cut(space, vpn, run, start, end);
        }
    }

    /// Sets the page size of `start..end`. Huge pages that are not fully mapped are recorded for later.
    pub(super) fn resize(&mut self, space: SpaceId, start: u64, end: u64, size: PageSize) {
        if size == PageSize::Base {
            self.take_unmapped_huge(space, start, end);
            self.split_all(space, start, end);
            return;
        }
        let (start, end) = whole_huge(start, end);
        self.take_unmapped_huge(space, start, end);
        let mut at = start;
        for (from, to, kind) in self.of_one_kind(space, start, end) {
            let (from, to) = whole_huge(from, to);
            if from < to {
                self.expect_huge(space, at, from);
                self.form_huge(space, from, to, kind);
                at = to;
            }
        }
        self.expect_huge(space, at, end);
    }

    /// Replaces the base pages of `from..to`, all of one kind, by huge pages of unknown heat and tier.
    fn form_huge(&mut self, space: SpaceId, from: u64, to: u64, kind: PageKind) {
        let mut huge = self.overlapped(space, from, to);
        huge.retain(|(_, run)| run.size == PageSize::Huge);
        for (from, to) in gaps(from, to, &huge) {
            self.unmap(space, from, to);
            self.add(space, from, to, PageSize::Huge, kind);
        }
    }

    /// The mapped parts of `start..end`; neighbours of one kind are joined, whatever their page size.
    fn of_one_kind(&self, space: SpaceId, start: u64, end: u64) -> Vec<(u64, u64, PageKind)> {
        let mut joined: Vec<(u64, u64, PageKind)> = Vec::new();
        for (vpn, run) in self.overlapped(space, start, end) {
            let (from, to) = (start.max(vpn.0), end.min(vpn.0 + run.base_pages));
            match joined.last_mut() {
                Some(last) if (last.1, last.2) == (from, run.kind) => last.1 = to,
                _ => joined.push((from, to, run.kind)),
            }
        }
        joined
    }

    /// Records huge pages that were reported where not all of their memory is mapped.
    fn expect_huge(&mut self, space: SpaceId, start: u64, end: u64) {
        if start < end {
            self.unmapped_huge.insert((space, Vpn(start)), end - start);
        }
    }

    /// Removes and returns the recorded huge pages that overlap `start..end`.
    fn take_unmapped_huge(&mut self, space: SpaceId, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut taken = Vec::new();
        if start >= end {
            return taken;
        }
        let end = end.div_ceil(BASE_PER_HUGE).saturating_mul(BASE_PER_HUGE);
        let start = Vpn(start).huge_head().0;
        while let Some((&(_, vpn), &base_pages)) =
            self.unmapped_huge.range((space, Vpn(0))..(space, Vpn(end))).next_back()
            && vpn.0 + base_pages > start
        {
            self.unmapped_huge.remove(&(space, vpn));
            let to = vpn.0 + base_pages;
            taken.push((start.max(vpn.0), end.min(to)));
            for (from, to) in [(vpn.0, start), (end, to)].into_iter().filter(|(from, to)| from < to)
            {
                self.unmapped_huge.insert((space, Vpn(from)), to - from);
            }
        }
        taken
    }

    fn overlapped(&self, space: SpaceId, start: u64, end: u64) -> Vec<(Vpn, IndexRun)> {
        let Some(Space { runs, .. }) = self.spaces.get(&space) else { return Vec::new() };
        let from = runs.range(..=Vpn(start)).next_back().map_or(Vpn(start), |(&vpn, _)| vpn);
        let overlapped = runs.range(from..Vpn(end.max(from.0)));
        let overlapped =
            overlapped.filter(|(vpn, run)| start < end && vpn.0 + run.base_pages > start);
        overlapped.map(|(&vpn, &run)| (vpn, run)).collect()
    }

    /// Splits a huge page in place: its base pages keep address and tier, and have no heat. False if it is no
    /// huge page, or if 2^32 pages are managed already.
    pub fn split(&mut self, page: PageIdx) -> bool {
        let Some(at) = self.locate(page).filter(|at| at.size == PageSize::Huge) else {
            return false;
        };
        self.last_found.take();
        self.split_all(at.space, at.vpn.0, at.vpn.0 + BASE_PER_HUGE)
    }

    /// Splits every huge page that overlaps `start..end`. False if one could not be split, as 2^32 pages are
    /// managed already.
    fn split_all(&mut self, space: SpaceId, start: u64, end: u64) -> bool {
        let huge = |(_, run): &(Vpn, IndexRun)| run.size == PageSize::Huge;
        let runs = self.overlapped(space, start, end).into_iter().filter(huge);
        runs.fold(true, |all, (vpn, run)| self.split_run(space, vpn, run, start, end) && all)
    }

    fn split_run(&mut self, space: SpaceId, vpn: Vpn, run: IndexRun, start: u64, end: u64) -> bool {
        let lo = (start.max(vpn.0) - vpn.0) / BASE_PER_HUGE * BASE_PER_HUGE;
        let hi = (end.min(vpn.0 + run.base_pages) - vpn.0).div_ceil(BASE_PER_HUGE) * BASE_PER_HUGE;
        let Some(first) = self.take_indices(pages_u32(hi - lo)) else { return false };
        let tiers: Vec<_> =
            run.pages_in(lo, hi).map(|page| self.state(PageIdx(page)).tier()).collect();
        self.cut(space, vpn, run, vpn.0 + lo, vpn.0 + hi);
        let parts = IndexRun { base_pages: hi - lo, size: PageSize::Base, kind: run.kind, first };
        self.attach(space, Vpn(vpn.0 + lo), parts);
        self.base_pages += parts.base_pages;
        for (part, page) in parts.pages_in(0, parts.base_pages).map(PageIdx).enumerate() {
            if let Some(tier) = tiers[part >> PageSize::Huge.shift()] {
                self.set_tier(page, tier);
            }
        }
        true
    }

    /// Removes `start..end`, rounded out to whole pages, from one run.
    fn cut(&mut self, space: SpaceId, vpn: Vpn, run: IndexRun, start: u64, end: u64) {
        let unit = run.size.base_pages();
        let lo = (start.max(vpn.0) - vpn.0) / unit * unit;
        let hi = (end.min(vpn.0 + run.base_pages) - vpn.0).div_ceil(unit) * unit;
        self.detach(space, vpn, run.first);
        let (first, pages) = (run.first + pages_u32(lo / unit), pages_u32((hi - lo) / unit));
        self.release_indices(space, first, pages, unit);
        self.base_pages -= hi - lo;
        if lo > 0 {
            self.attach(space, vpn, IndexRun { base_pages: lo, ..run });
        }
        if hi < run.base_pages {
            let rest = IndexRun {
                base_pages: run.base_pages - hi,
                first: run.first + pages_u32(hi / unit),
                ..run
            };
            self.attach(space, Vpn(vpn.0 + hi), rest);
        }
    }

    fn attach(&mut self, space: SpaceId, vpn: Vpn, run: IndexRun) {
        debug_assert!(run.base_pages > 0, "a run is not empty");
        let before = self.by_index.insert(run.first, Found { space, start: vpn, run });
        debug_assert_eq!(before, None, "index {} is in use", run.first);
        self.spaces.entry(space).or_default().runs.insert(vpn, run);
    }

    fn detach(&mut self, space: SpaceId, vpn: Vpn, first: u32) {
        self.last_found.take();
        let known = self.by_index.remove(&first);
        let at = known.map(|found| (found.space, found.start));
        debug_assert_eq!(at, Some((space, vpn)), "the run with index {first}");
        if let Some(space) = self.spaces.get_mut(&space) {
            space.runs.remove(&vpn);
        }
    }

    pub(super) fn remove_space(&mut self, space: SpaceId) {
        self.unmapped_huge.retain(|(of, _), _| *of != space);
        let runs = self.spaces.get(&space).map(|space| space.runs.clone()).unwrap_or_default();
        for run in runs.into_values() {
            self.by_index.remove(&run.first);
            self.release_indices(space, run.first, run.pages(), run.size.base_pages());
            debug_assert!(run.base_pages <= self.base_pages, "more than is mapped");
            self.base_pages -= run.base_pages;
        }
        self.spaces.remove(&space);
    }
}

/// The parts of `start..end` that are in none of `runs`, which are sorted.
fn gaps(start: u64, end: u64, runs: &[(Vpn, IndexRun)]) -> Vec<(u64, u64)> {
    let ends = runs.iter().map(|(vpn, run)| vpn.0 + run.base_pages);
    let from = std::iter::once(start).chain(ends);
    let to = runs.iter().map(|(vpn, _)| vpn.0).chain(std::iter::once(end));
    from.zip(to).filter(|(from, to)| from < to).collect()
}

/// The range of whole huge pages in `start..end`; empty, at `end`, if there is none.
pub(super) fn whole_huge(start: u64, end: u64) -> (u64, u64) {
    let (from, to) = (start.div_ceil(BASE_PER_HUGE) * BASE_PER_HUGE, Vpn(end).huge_head().0);
    if from < to { (from, to) } else { (end, end) }
}
