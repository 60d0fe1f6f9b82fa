// SPDX-License-Identifier: Apache-2.0
//! Runs of virtual pages and the runs of indices that they map to.

use std::collections::BTreeMap;
use std::ops::Range;

use super::indices::PageIdx;
use crate::port::{PageAddress, PageKind, PageSize, SpaceId, TenantId, Vpn};
use crate::tier::TierId;

/// The address of a page: the inverse of [`PageTable::find`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLocation {
    /// Its address space.
    pub space: SpaceId,
    /// The page (the head of a huge page).
    pub vpn: Vpn,
    /// Its size.
    pub size: PageSize,
    /// What backs it.
    pub kind: PageKind,
}

impl From<PageLocation> for PageAddress {
    /// The page of an order to a world.
    fn from(PageLocation { space, vpn, size, .. }: PageLocation) -> Self {
        Self { space, vpn, size }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IndexRun {
    pub base_pages: u64,
    pub size: PageSize,
    pub kind: PageKind,
    pub first: u32,
}

impl IndexRun {
    pub fn pages(&self) -> u32 {
        pages_u32(self.base_pages >> self.size.shift())
    }

    /// The pages that hold base pages `lo..hi`; a huge page once.
    pub fn pages_in(&self, lo: u64, hi: u64) -> Range<u32> {
        debug_assert!(lo <= hi && hi <= self.base_pages, "{lo}..{hi} of {}", self.base_pages);
        let (first, shift) = (self.first, self.size.shift());
        let (lo, hi) = (lo >> shift, (hi + self.size.base_pages() - 1) >> shift);
        first + pages_u32(lo)..first + pages_u32(hi)
    }
}

/// One address space: its tenant, its runs, and its pages by tier.
#[derive(Debug, Default)]
pub(super) struct Space {
    pub tenant: TenantId,
    /// See [`crate::port::SpaceEvent::Represents`].
    pub represents: bool,
    pub runs: BTreeMap<Vpn, IndexRun>,
    /// Base pages known to be in each tier.
    pub in_tier: [u64; TierId::MAX],
}

/// A run and where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub space: SpaceId,
    pub start: Vpn,
    pub run: IndexRun,
}

impl Found {
    pub fn holds(&self, space: SpaceId, start: u64, end: u64) -> bool {
        self.space == space && self.start.0 <= start && end <= self.start.0 + self.run.base_pages
    }

    /// Where a page is, if it is in this run.
    pub fn locate(&self, page: PageIdx) -> Option<PageLocation> {
        let Self { space, start, run } = *self;
        let offset = page.0.checked_sub(run.first).filter(|&offset| offset < run.pages())?;
        let vpn = Vpn(start.0 + u64::from(offset) * run.size.base_pages());
        Some(PageLocation { space, vpn, size: run.size, kind: run.kind })
    }
}

/// Page counts of a run fit in 32 bits: `map` refuses longer runs, as they get no indices.
pub(super) fn pages_u32(pages: u64) -> u32 {
    u32::try_from(pages).unwrap_or(u32::MAX)
}
