// SPDX-License-Identifier: Apache-2.0
//! Placement of a program's pages: the tier of every page, and of every base page of a split huge page.
//!
//! Accesses are distributed over the original pages: the base pages of a huge page are equally popular, so in
//! the model a split gains nothing, as for a program with dense hot data. Trackers that scan pages, not
//! accesses, observe a split page as one.

use std::collections::BTreeMap;

use tierline_core::port::PageSize;
use tierline_core::tier::TierId;
use tierline_core::unit::BASE_PER_HUGE;

/// Marks a page without a tier.
pub const NOWHERE: u8 = 7;
const _: () = assert!(NOWHERE as usize == TierId::MAX);
/// Marks a split page.
const SPLIT: u8 = NOWHERE + 1;

/// Base pages per huge page.
const PARTS: usize = 512;
const _: () = assert!(PARTS as u64 == BASE_PER_HUGE);
/// Their tiers.
type Parts = Box<[u8; PARTS]>;

/// The tiers of all pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// One byte per page.
    pages: Vec<u8>,
    split: BTreeMap<u32, Parts>,
    size: PageSize,
}

impl Places {
    /// Pages of this size in these tiers.
    pub fn new(pages: Vec<u8>, size: PageSize) -> Self {
        Self { pages, split: BTreeMap::new(), size }
    }

    /// Unplaced pages.
    pub fn nowhere(pages: u32, size: PageSize) -> Self {
        Self::new(vec![NOWHERE; pages as usize], size)
    }

    /// Number of pages; a split page counts as one.
    pub fn pages(&self) -> u32 {
        u32::try_from(self.pages.len()).unwrap_or(u32::MAX)
    }

    /// The tier of a page that is placed and not split.
    pub fn tier(&self, page: u32) -> Option<TierId> {
        known(self.pages[page as usize])
    }

    /// The tier of a base page of a page, split or not.
    pub fn tier_within(&self, page: u32, within: u64) -> Option<TierId> {
        match self.pages[page as usize] {
            SPLIT => known(self.split[&page][index(within)]),
            tier => known(tier),
        }
    }

    /// Whether a page is unplaced.
    pub fn is_nowhere(&self, page: u32) -> bool {
        self.pages[page as usize] == NOWHERE
    }

    /// Whether a page was split.
    pub fn is_split(&self, page: u32) -> bool {
        self.pages[page as usize] == SPLIT
    }

    /// Whether two unsplit pages are in the same tier, or both unplaced.
    pub fn are_alike(&self, one: u32, other: u32) -> bool {
        !self.is_split(one) && self.pages[one as usize] == self.pages[other as usize]
    }

    /// Base pages of a page by tier, including unplaced ones.
    pub fn parts(&self, page: u32) -> impl Iterator<Item = (u8, u64)> + use<> {
        let mut counts = [0; TierId::MAX + 1];
        match self.pages[page as usize] {
            SPLIT => self.split[&page].iter().for_each(|&tier| counts[usize::from(tier)] += 1),
            tier => counts[usize::from(tier)] = self.size.base_pages(),
        }
        (0..).zip(counts).filter(|(_, count)| *count > 0)
    }

    /// Places an unsplit page in a tier and returns its previous tier.
    pub fn put(&mut self, page: u32, tier: u8) -> u8 {
        debug_assert!(!self.is_split(page), "page {page} was split");
        std::mem::replace(&mut self.pages[page as usize], tier)
    }

    /// The same for a base page of a split page.
    pub fn put_within(&mut self, page: u32, within: u64, tier: u8) -> Option<u8> {
        let parts = self.split.get_mut(&page)?;
        Some(std::mem::replace(&mut parts[index(within)], tier))
    }

    /// Splits a placed huge page; false if it is unplaced or already split.
    pub fn split(&mut self, page: u32) -> bool {
        let tier = self.tier(page).filter(|_| self.size == PageSize::Huge);
        let Some(tier) = tier else { return false };
        self.split.insert(page, Box::new([tier.0; PARTS]));
        self.pages[page as usize] = SPLIT;
        true
    }

    /// Frees a page; a new page in its place is unsplit.
    pub fn free(&mut self, page: u32) {
        self.split.remove(&page);
        self.pages[page as usize] = NOWHERE;
    }
}

fn known(tier: u8) -> Option<TierId> {
    (tier < NOWHERE).then_some(TierId(tier))
}

fn index(within: u64) -> usize {
    (within % BASE_PER_HUGE) as usize
}
