// SPDX-License-Identifier: Apache-2.0
//! Active and inactive lists: which pages a reclaimer takes.
//!
//! New pages are inactive. A page at the front of the inactive list is asked after: accessed since the
//! reclaimer last came by, it goes round once more; accessed twice in a row, it becomes active; not
//! accessed, it is cold. Active pages become inactive in their order when too few are. What tells hot
//! from warm is how soon the reclaimer comes by again: it takes a microsecond a page, so a time that
//! is proportional to the list.
//!
//! Source: Linux 6.3, mm/vmscan.c (`folio_check_references`, `shrink_active_list`, `inactive_is_low`) and
//! mm/swap.c (`folio_mark_accessed`). The microsecond is ours. Where the world cannot tell of single pages, a page counts as
//! accessed that a tracker saw since (ours).

use std::collections::VecDeque;

use super::Hit;
use crate::lists::residents::Residents;
use crate::page::{PageIdx, PageTable};
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

const INACTIVE: u8 = 0;
const ACTIVE: u8 = 1;
/// Accessed once when it was asked after.
const REFERENCED: u64 = 1 << 32;
/// Seen by a tracker since it was asked after.
const SEEN: u64 = 1 << 33;
/// What the kernel takes to look at one page.
const LOOK: Nanos = Nanos(1_000);

/// The lists of all tiers.
#[derive(Debug)]
pub struct Lru {
    residents: Residents,
    /// Inactive pages found not accessed, by tier, in the order of the list.
    cold: [VecDeque<PageIdx>; TierId::MAX],
}

impl Default for Lru {
    fn default() -> Self {
        Self { residents: Residents::new(2), cold: Default::default() }
    }
}

impl Lru {
    /// Takes in moves, new pages, signs of access and answers.
    pub fn believe(
        &mut self,
        pages: &mut PageTable,
        touched: &[PageIdx],
        hits: &[Hit],
        answers: &[(PageIdx, Option<bool>)],
    ) {
        self.residents.settle(pages);
        for page in self.cold.iter_mut().flat_map(|cold| cold.drain(..).rev()) {
            if self.residents.class(pages, page) == Some(INACTIVE) {
                self.residents.put_first(pages, page, INACTIVE); // nobody took it
            }
        }
        for &page in touched {
            if self.residents.class(pages, page).is_none() {
                self.residents.put(pages, page, INACTIVE);
            }
        }
        for hit in hits {
            set(pages, hit.page, SEEN, true);
        }
        for &(page, answer) in answers {
            self.judge(pages, page, answer);
        }
    }

    fn judge(&mut self, pages: &mut PageTable, page: PageIdx, answer: Option<bool>) {
        let word = pages.word(page);
        let accessed = answer.unwrap_or(word & SEEN != 0);
        pages.set_word(page, word & !SEEN);
        if self.residents.class(pages, page) != Some(INACTIVE) {
            return;
        }
        match (accessed, word & REFERENCED != 0) {
            (false, _) => {
                set(pages, page, REFERENCED, false);
                if let Some(tier) = pages.state(page).tier() {
                    self.cold[tier.index()].push_back(page);
                }
            }
            (true, false) => set(pages, page, REFERENCED, true),
            (true, true) => self.activate(pages, page),
        }
    }

    /// Whether `page` is in an active list.
    pub fn is_active(&self, pages: &PageTable, page: PageIdx) -> bool {
        self.residents.class(pages, page) == Some(ACTIVE)
    }

    /// Makes `page` active.
    pub fn activate(&mut self, pages: &mut PageTable, page: PageIdx) {
        set(pages, page, REFERENCED, false);
        self.residents.put(pages, page, ACTIVE);
    }

    /// An access that the kernel saw by itself: the second makes an inactive page active.
    pub fn mark_accessed(&mut self, pages: &mut PageTable, page: PageIdx) {
        if !self.is_active(pages, page) && pages.word(page) & REFERENCED != 0 {
            self.activate(pages, page);
        } else {
            set(pages, page, REFERENCED, true);
        }
    }

    /// Takes out a page that is to be moved; it stays active or inactive.
    pub fn moves(&mut self, pages: &mut PageTable, page: PageIdx) {
        let class = self.residents.class(pages, page).unwrap_or(INACTIVE);
        self.residents.moves(pages, page, class);
    }

    /// Whether `page` is in a list, and not on its way.
    pub fn holds(&self, pages: &PageTable, page: PageIdx) -> bool {
        self.residents.class(pages, page).is_some()
    }

    /// The next cold page of `tier`.
    pub fn take_cold(&mut self, pages: &PageTable, tier: TierId) -> Option<PageIdx> {
        let inactive = |page: &PageIdx| self.residents.class(pages, *page) == Some(INACTIVE);
        std::iter::from_fn(|| self.cold[tier.index()].pop_front()).find(inactive)
    }

    /// Pages of `tier` in both lists.
    pub fn len(&self, tier: TierId) -> usize {
        self.residents.len(tier, INACTIVE) + self.residents.len(tier, ACTIVE)
    }

    /// Lets the reclaimer look at `count` pages of a tier, or as many as it gets to in `passed`:
    /// deactivates what is needed to have enough inactive pages, and asks after the first of them.
    pub fn scan(
        &mut self,
        pages: &mut PageTable,
        ask: &mut Vec<(PageIdx, Nanos)>,
        tier: TierId,
        count: usize,
        passed: Nanos,
    ) {
        let count = count.min(usize::try_from(passed.0 / LOOK.0).unwrap_or(usize::MAX));
        for _ in 0..count {
            if !self.inactive_is_low(pages, tier) {
                break;
            }
            let Some(page) = self.residents.first(pages, tier, ACTIVE) else { break };
            self.residents.put(pages, page, INACTIVE);
        }
        let inactive = self.residents.len(tier, INACTIVE);
        let within = LOOK * inactive as u64;
        for _ in 0..count.min(inactive) {
            let Some(page) = self.residents.first(pages, tier, INACTIVE) else { break };
            self.residents.put(pages, page, INACTIVE);
            ask.push((page, within));
        }
    }

    /// Fewer inactive pages than one for every √(10·GiB) active ones.
    fn inactive_is_low(&self, pages: &PageTable, tier: TierId) -> bool {
        let gib = pages.bytes_in(tier).0 / Bytes::from_mib(1 << 10).0;
        let ratio = usize::try_from((10 * gib).isqrt().max(1)).unwrap_or(usize::MAX);
        let inactive = self.residents.len(tier, INACTIVE);
        inactive.saturating_mul(ratio) < self.residents.len(tier, ACTIVE)
    }
}

fn set(pages: &mut PageTable, page: PageIdx, flag: u64, on: bool) {
    let word = pages.word(page);
    pages.set_word(page, if on { word | flag } else { word & !flag });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{PageKind, PageSize, Region, SpaceEvent, SpaceId, Vpn};

    const FAST: TierId = TierId::FAST;

    /// Pages of the fastest tier, all new.
    fn new(count: u64) -> (PageTable, Vec<PageIdx>, Lru) {
        let mut pages = PageTable::default();
        pages.apply(SpaceEvent::Mapped(Region {
            space: SpaceId(1),
            start: Vpn(0),
            base_pages: count,
            size: PageSize::Base,
            kind: PageKind::Anonymous,
        }));
        let find = |vpn| pages.find(SpaceId(1), Vpn(vpn)).unwrap();
        let all: Vec<PageIdx> = (0..count).map(find).collect();
        all.iter().for_each(|&page| pages.set_tier(page, PageSize::Base, FAST));
        let mut lru = Lru::default();
        lru.believe(&mut pages, &all, &[], &[]);
        (pages, all, lru)
    }

    #[test]
    fn twice_accessed_is_active_and_not_accessed_is_cold() {
        let (mut pages, all, mut lru) = new(3);
        let answers = [(all[0], Some(true)), (all[1], Some(false)), (all[2], Some(true))];
        lru.believe(&mut pages, &[], &[], &answers);
        assert_eq!(lru.take_cold(&pages, FAST), Some(all[1]));
        assert_eq!(lru.take_cold(&pages, FAST), None);
        let answers = [(all[0], Some(true)), (all[2], Some(false))];
        lru.believe(&mut pages, &[], &[], &answers);
        assert!(lru.is_active(&pages, all[0]) && !lru.is_active(&pages, all[2]));
        assert_eq!(lru.take_cold(&pages, FAST), Some(all[2]));
    }

    #[test]
    fn a_cold_page_that_nobody_took_is_the_first_to_be_asked_after_again() {
        let (mut pages, all, mut lru) = new(3);
        lru.believe(&mut pages, &[], &[], &[(all[1], Some(false)), (all[2], Some(false))]);
        lru.believe(&mut pages, &[], &[], &[]);
        let mut ask = Vec::new();
        lru.scan(&mut pages, &mut ask, FAST, 2, Nanos::from_millis(1));
        assert_eq!(ask.iter().map(|(page, _)| *page).collect::<Vec<_>>(), [all[1], all[2]]);
        assert_eq!(ask[0].1, LOOK * 3, "the time of one round");
    }

    #[test]
    fn active_pages_are_let_down_when_more_than_the_inactive() {
        let (mut pages, all, mut lru) = new(10);
        all.iter().for_each(|&page| lru.activate(&mut pages, page));
        let mut ask = Vec::new();
        lru.scan(&mut pages, &mut ask, FAST, 100, Nanos::from_secs(1));
        assert_eq!(ask.len(), 5, "half of them, in so small a tier");
        lru.scan(&mut pages, &mut Vec::new(), FAST, 100, Nanos::from_secs(1));
        let active = all.iter().filter(|&&page| lru.is_active(&pages, page)).count();
        assert_eq!(active, 5);
    }

    #[test]
    fn where_the_world_cannot_tell_what_a_tracker_saw_counts() {
        let (mut pages, all, mut lru) = new(2);
        let hit = Hit { page: all[0], tier: Some(FAST), hits: 1.0, exposure: None, write: None };
        lru.believe(&mut pages, &[], &[hit], &[(all[0], None), (all[1], None)]);
        assert_eq!(lru.take_cold(&pages, FAST), Some(all[1]));
        assert_eq!(lru.take_cold(&pages, FAST), None);
    }
}
