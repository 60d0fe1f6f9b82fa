// SPDX-License-Identifier: Apache-2.0
//! Frames: how much of every tier is taken, in base pages, and in which tier a new page goes.

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
    /// Tiers that fell to their low watermark and are to get no new pages until their high one is free.
    halted: Vec<bool>,
    /// Tiers that did so since it was last asked.
    turned_away: Vec<bool>,
    /// Base pages that were ever allocated in each tier.
    allocated: Vec<u64>,
}

/// Where a new page went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The tier.
    pub tier: TierId,
    /// No tier had its low watermark free: the thread that allocates has to reclaim first.
    pub tight: bool,
}

impl Frames {
    /// An empty machine, on which new pages go by a rule.
    pub fn new(machine: &Machine, rule: Allocation) -> Self {
        let capacity: Vec<u64> =
            machine.tiers.iter().map(|tier| tier.capacity.base_pages()).collect();
        let tiers = capacity.len();
        let marks = machine.tiers.iter().map(|tier| Watermarks::of(tier.capacity)).collect();
        Self {
            marks,
            used: vec![0; tiers],
            halted: vec![false; tiers],
            turned_away: vec![false; tiers],
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

    /// Whether there is such a tier.
    pub fn has(&self, tier: TierId) -> bool {
        tier.index() < self.capacity.len()
    }

    /// Takes base pages for a new page of some kind, in a tier from `first` on.
    pub fn allocate(&mut self, first: TierId, kind: PageKind, base_pages: u64) -> Option<Place> {
        let place = self.place(first, kind, base_pages)?;
        self.take(place.tier, base_pages);
        self.allocated[place.tier.index()] += base_pages;
        Some(place)
    }

    fn place(&mut self, first: TierId, kind: PageKind, base_pages: u64) -> Option<Place> {
        if let Allocation::Kernel { coupled, by_type } = self.rule {
            let below = TierId(u8::from(by_type && kind != PageKind::Anonymous));
            let mut tiers = self.tiers(first.max(below)).chain(self.tiers(first));
            if let Some(tier) = tiers.find(|&tier| self.is_open(tier, coupled, base_pages)) {
                return Some(Place { tier, tight: false });
            }
        }
        let tight = self.rule != Allocation::FirstTouch;
        let tier = self.tiers(first).find(|&tier| self.free(tier) >= base_pages)?;
        Some(Place { tier, tight })
    }

    fn tiers(&self, first: TierId) -> impl Iterator<Item = TierId> + use<> {
        (0u8..).map(TierId).take(self.capacity.len()).skip(first.index())
    }

    /// Whether the kernel's allocator puts a page there.
    fn is_open(&mut self, tier: TierId, coupled: bool, base_pages: u64) -> bool {
        let (marks, free) = (self.marks[tier.index()], self.free(tier));
        let halted = &mut self.halted[tier.index()];
        *halted = *halted && coupled && free < marks.high.base_pages();
        if free < marks.low.base_pages() + base_pages {
            *halted = true;
            self.turned_away[tier.index()] = true;
        }
        !*halted
    }

    /// The tiers that fell to their low watermark since this was last asked.
    pub fn take_turned_away(&mut self) -> Vec<bool> {
        let tiers = self.capacity.len();
        std::mem::replace(&mut self.turned_away, vec![false; tiers])
    }

    /// Bytes that were ever allocated in a tier.
    pub fn allocated(&self, tier: TierId) -> Bytes {
        Bytes::from_base_pages(self.allocated[tier.index()])
    }

    /// Takes base pages of a tier.
    ///
    /// # Panics
    /// Where there are not as many: nothing may ever overfill a tier.
    pub fn take(&mut self, tier: TierId, base_pages: u64) {
        assert!(self.free(tier) >= base_pages, "{tier} is full");
        self.used[tier.index()] += base_pages;
    }

    /// Gives base pages of a tier back.
    pub fn give(&mut self, tier: TierId, base_pages: u64) {
        self.used[tier.index()] -= base_pages;
    }
}
