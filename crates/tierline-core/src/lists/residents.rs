// SPDX-License-Identifier: Apache-2.0
//! Residents: the pages of every tier in lists by class (hot and cold, active and inactive, bins), in order of
//! arrival.
//!
//! A page can leave its tier without a notice to these lists (a retried move, an unmapped region). Such a stray
//! is relisted when it reaches the front of a list, or at its next hit.

use crate::lists::{ListId, Lists};
use crate::page::{PageIdx, PageTable};
use crate::tier::TierId;

/// Pages by tier and class.
#[derive(Debug)]
pub struct Residents {
    classes: u8,
    lists: Lists,
    moving: Vec<(PageIdx, u8)>,
}

impl Residents {
    /// Empty lists for `classes` classes, numbered from 0.
    pub fn new(classes: u8) -> Self {
        let lists = Lists::new(TierId::MAX * usize::from(classes));
        Self { classes, lists, moving: Vec::new() }
    }

    /// The class of `page`, if it is in a list of its present tier.
    pub fn class(&self, pages: &PageTable, page: PageIdx) -> Option<u8> {
        let state = pages.state(page);
        if !state.is_listed() {
            return None; // stale links of an unmapped page whose index may be in use again
        }
        let (list, tier) = (self.lists.of(page)?, state.tier()?);
        (list.0 / self.classes == tier.0).then_some(list.0 % self.classes)
    }

    /// Loads the words and the list links of these pages into the cache.
    pub fn prefetch(&self, pages: &PageTable, these: impl Iterator<Item = PageIdx> + Clone) {
        pages.prefetch(these.clone());
        self.lists.prefetch(these);
    }

    /// Loads the words of the oldest `count` pages of a list into the cache.
    pub fn prefetch_first(&self, pages: &PageTable, tier: TierId, class: u8, count: usize) {
        let first = self.lists.first(self.list(tier, class));
        let next = std::iter::successors(first, |&page| self.lists.after(page));
        pages.prefetch(next.take(count));
    }

    /// Puts `page` at the end of its tier's list of that class. A page without a tier, or one that the kernel
    /// refused to move, is put in no list.
    pub fn put(&mut self, pages: &mut PageTable, page: PageIdx, class: u8) {
        let state = pages.state(page);
        let tier = state.tier().filter(|_| !state.is_refused());
        pages.set_listed(page, tier.is_some());
        match tier {
            Some(tier) => self.lists.push_back(self.list(tier, class), page),
            None => self.lists.remove(page),
        }
    }

    /// Puts `page` at the front of its list, as its oldest page.
    pub fn put_first(&mut self, pages: &mut PageTable, page: PageIdx, class: u8) {
        self.put(pages, page, class);
        if let Some(list) = self.lists.of(page) {
            self.lists.push_front(list, page);
        }
    }

    /// Pages in a list, including strays.
    pub fn len(&self, tier: TierId, class: u8) -> usize {
        self.lists.len(self.list(tier, class))
    }

    /// The oldest page of the list; relists strays on the way.
    pub fn first(&mut self, pages: &mut PageTable, tier: TierId, class: u8) -> Option<PageIdx> {
        loop {
            let page = self.lists.first(self.list(tier, class))?;
            if self.class(pages, page).is_some() && !pages.state(page).is_refused() {
                return Some(page);
            }
            if pages.state(page).is_listed() {
                self.put(pages, page, class);
            } else {
                self.lists.remove(page);
            }
        }
    }

    /// Removes a page from the lists.
    pub fn remove(&mut self, pages: &mut PageTable, page: PageIdx) {
        self.lists.remove(page);
        pages.set_listed(page, false);
    }

    /// Removes a page that is about to move; [`Residents::finish_moves`] lists it in the tier where it ends up.
    pub fn start_move(&mut self, pages: &mut PageTable, page: PageIdx, class: u8) {
        self.remove(pages, page);
        self.moving.push((page, class));
    }

    /// Lists the pages that were about to move, in their present tier.
    pub fn finish_moves(&mut self, pages: &mut PageTable) {
        for (page, class) in std::mem::take(&mut self.moving) {
            if !pages.state(page).is_listed() {
                self.put(pages, page, class);
            }
        }
    }

    fn list(&self, tier: TierId, class: u8) -> ListId {
        debug_assert!(class < self.classes, "class {class} of {}", self.classes);
        ListId(tier.0 * self.classes + class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{PageKind, PageSize, Region, SpaceEvent, SpaceId, Vpn};

    fn table() -> (PageTable, Vec<PageIdx>) {
        let mut pages = PageTable::default();
        pages.apply(SpaceEvent::Mapped(Region {
            space: SpaceId(1),
            start: Vpn(0),
            base_pages: 4,
            size: PageSize::Base,
            kind: PageKind::Anonymous,
        }));
        let all: Vec<PageIdx> =
            (0..4).map(|vpn| pages.find(SpaceId(1), Vpn(vpn)).unwrap()).collect();
        for &page in &all {
            pages.set_tier(page, TierId(0));
        }
        (pages, all)
    }

    #[test]
    fn a_stray_at_the_front_of_a_list_is_relisted() {
        let (mut pages, all) = table();
        let mut residents = Residents::new(2);
        all.iter().for_each(|&page| residents.put(&mut pages, page, 1));
        pages.set_tier(all[0], TierId(1)); // moved without a notice
        pages.apply(SpaceEvent::Unmapped(SpaceId(1), Vpn(1), 1));
        pages.set_refused(all[2], true);
        assert_eq!(residents.first(&mut pages, TierId(0), 1), Some(all[3]));
        assert_eq!(residents.class(&pages, all[0]), Some(1), "now in the other tier's list");
        assert_eq!(residents.len(TierId(0), 1), 1);
        assert_eq!(residents.len(TierId(1), 1), 1);
    }

    #[test]
    fn a_moving_page_is_listed_where_it_went() {
        let (mut pages, all) = table();
        let mut residents = Residents::new(2);
        residents.put(&mut pages, all[0], 0);
        residents.start_move(&mut pages, all[0], 0);
        assert_eq!(residents.first(&mut pages, TierId(0), 0), None);
        pages.set_tier(all[0], TierId(1));
        residents.finish_moves(&mut pages);
        assert_eq!(residents.first(&mut pages, TierId(1), 0), Some(all[0]));
    }
}
