// SPDX-License-Identifier: Apache-2.0
//! Frames: how much of every tier is taken, in base pages.

use tierline_core::tier::TierId;
use tierline_core::unit::Bytes;

use crate::machine::Machine;

/// Capacity and use of every tier.
#[derive(Clone, Debug)]
pub struct Frames {
    capacity: Vec<u64>,
    used: Vec<u64>,
}

impl Frames {
    /// An empty machine.
    pub fn new(machine: &Machine) -> Self {
        let capacity: Vec<u64> =
            machine.tiers.iter().map(|tier| tier.capacity.base_pages()).collect();
        Self { used: vec![0; capacity.len()], capacity }
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

    /// The fastest tier from `first` on with room for so many base pages.
    pub fn first_with_room(&self, first: TierId, base_pages: u64) -> Option<TierId> {
        (0u8..)
            .map(TierId)
            .take(self.capacity.len())
            .skip(first.index())
            .find(|&tier| self.free(tier) >= base_pages)
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
