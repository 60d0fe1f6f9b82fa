// SPDX-License-Identifier: Apache-2.0
//! Frames: how much of every tier is in use, in base pages, and the tier of a new page.

use tierline_core::policy::parts::watermarks::Watermarks;
use tierline_core::port::{Allocation, PageKind};
use tierline_core::tier::TierId;
use tierline_core::unit::Bytes;

use crate::machine::Machine;

/// Capacity and use of every tier.
#[derive(Clone, Debug)]
pub struct Frames {
    capacity: Vec<u64>,
    used: Vec<u64>,
    rule: Allocation,
    marks: Vec<Watermarks>,
    /// Tiers that fell to their low watermark; they get no new pages until their high watermark is free.
    halted: Vec<bool>,
    /// Tiers that did so since the last query.
    failed_allocations: Vec<bool>,
    /// Base pages allocated so far in each tier.
    allocated: Vec<u64>,
}

/// Placement of a new page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewPagePlace {
    /// The tier.
    pub tier: TierId,
    /// No tier had its low watermark free, so the allocating thread has to reclaim first.
    pub tight: bool,
}

impl Frames {
    /// An empty machine with an allocation rule for new pages.
    pub fn new(machine: &Machine, rule: Allocation) -> Self {
        let capacity: Vec<u64> =
            machine.tiers.iter().map(|tier| tier.capacity.base_pages()).collect();
        let tiers = capacity.len();
        let marks = machine.tiers.iter().map(|tier| Watermarks::of(tier.capacity)).collect();
        Self {
            marks,
            used: vec![0; tiers],
            halted: vec![false; tiers],
            failed_allocations: vec![false; tiers],
            allocated: vec![0; tiers],
            capacity,
            rule,
        }
    }

    /// Base pages free in a tier.
    pub fn free(&self, tier: TierId) -> u64 {
        self.capacity[tier.index()] - self.used[tier.index()]
    }

    /// Bytes free in a tier.
    pub fn free_bytes(&self, tier: TierId) -> Bytes {
        Bytes::from_base_pages(self.free(tier))
    }

    /// Whether the tier exists.
    pub fn has(&self, tier: TierId) -> bool {
        tier.index() < self.capacity.len()
    }

    /// Allocates base pages for a new page of this kind, in the first suitable tier from `first` on.
    pub fn allocate(
        &mut self,
        first: TierId,
        kind: PageKind,
        base_pages: u64,
    ) -> Option<NewPagePlace> {
        let place = self.place(first, kind, base_pages)?;
        self.take(place.tier, base_pages);
        self.allocated[place.tier.index()] += base_pages;
        Some(place)
    }

    fn place(&mut self, first: TierId, kind: PageKind, base_pages: u64) -> Option<NewPagePlace> {
        if let Allocation::Kernel { coupled, by_type } = self.rule {
            let below = TierId(u8::from(by_type && kind != PageKind::Anonymous));
            let mut tiers = self.tiers(first.max(below)).chain(self.tiers(first));
            if let Some(tier) = tiers.find(|&tier| self.is_open(tier, coupled, base_pages)) {
                return Some(NewPagePlace { tier, tight: false });
            }
        }
        let tight = self.rule != Allocation::FirstTouch;
        let tier = self.tiers(first).find(|&tier| self.free(tier) >= base_pages)?;
        Some(NewPagePlace { tier, tight })
    }

    fn tiers(&self, first: TierId) -> impl Iterator<Item = TierId> + use<> {
        (0u8..).map(TierId).take(self.capacity.len()).skip(first.index())
    }

    /// Whether the kernel's allocator would use this tier.
    fn is_open(&mut self, tier: TierId, coupled: bool, base_pages: u64) -> bool {
        let (marks, free) = (self.marks[tier.index()], self.free(tier));
        let halted = &mut self.halted[tier.index()];
        *halted = *halted && coupled && free < marks.high.base_pages();
        if free < marks.low.base_pages() + base_pages {
            *halted = true;
            self.failed_allocations[tier.index()] = true;
        }
        !*halted
    }

    /// Tiers that fell to their low watermark since the last call.
    pub fn take_turned_away(&mut self) -> Vec<bool> {
        let tiers = self.capacity.len();
        std::mem::replace(&mut self.failed_allocations, vec![false; tiers])
    }

    /// Bytes allocated so far in a tier.
    pub fn allocated(&self, tier: TierId) -> Bytes {
        Bytes::from_base_pages(self.allocated[tier.index()])
    }

    /// Allocates base pages in a tier.
    ///
    /// # Panics
    /// If there are not enough: no tier may ever be overfilled.
    pub fn take(&mut self, tier: TierId, base_pages: u64) {
        assert!(self.free(tier) >= base_pages, "{tier} is full");
        self.used[tier.index()] += base_pages;
    }

    /// Frees base pages of a tier.
    pub fn give(&mut self, tier: TierId, base_pages: u64) {
        self.used[tier.index()] -= base_pages;
    }
}
