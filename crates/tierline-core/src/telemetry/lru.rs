// SPDX-License-Identifier: Apache-2.0
//! Active and inactive lists, of private and of file pages: which pages a reclaimer takes.
//!
//! New pages are inactive. A page at the front of the inactive list is asked after: accessed since the
//! reclaimer last came by, it goes round once more; accessed twice in a row, it becomes active; not
//! accessed, it is cold. Active pages become inactive in their order when too few are. What tells hot
//! from warm is how soon the reclaimer comes by again: it takes a microsecond a page, so a time that
//! is proportional to the list. Private pages and file pages have lists of their own, and are looked at in
//! proportion to their numbers; shared memory is with the private, as it has no file to go back to.
//!
//! Source: Linux 6.3, mm/vmscan.c (`folio_check_references`, `shrink_active_list`, `inactive_is_low`) and
//! mm/swap.c (`folio_mark_accessed`). The microsecond is ours. Where the world cannot tell of single pages, a page counts as
//! accessed that a tracker saw since (ours).

use std::collections::VecDeque;

use super::Hit;
use crate::lists::residents::Residents;
use crate::page::{PageIdx, PageTable};
use crate::port::PageKind;
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

const INACTIVE: u8 = 0;
const ACTIVE: u8 = 1;
/// The lists of file pages are beside those of private ones.
const FILE: u8 = 2;
/// Accessed once when it was asked after.
const REFERENCED: u64 = 1 << 32;
/// Seen by a tracker since it was asked after.
const SEEN: u64 = 1 << 33;
/// Demoted, and not promoted since (`PG_demoted`).
const DEMOTED: u64 = 1 << 34;
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
        Self { residents: Residents::new(4), cold: Default::default() }
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
            let class = self.residents.class(pages, page);
            if let Some(class) = class.filter(|class| class & ACTIVE == 0) {
                self.residents.put_first(pages, page, class); // nobody took it
            }
        }
        for &page in touched {
            if self.class(pages, page).is_none() {
                let class = list(pages, page) | INACTIVE;
                self.residents.put(pages, page, class);
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
        if self.class(pages, page).is_none_or(|class| class & ACTIVE != 0) {
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

    fn class(&self, pages: &PageTable, page: PageIdx) -> Option<u8> {
        self.residents.class(pages, page)
    }

    /// Whether `page` is in an active list.
    pub fn is_active(&self, pages: &PageTable, page: PageIdx) -> bool {
        self.class(pages, page).is_some_and(|class| class & ACTIVE != 0)
    }

    /// Makes `page` active.
    pub fn activate(&mut self, pages: &mut PageTable, page: PageIdx) {
        set(pages, page, REFERENCED, false);
        let class = self.class(pages, page).unwrap_or_else(|| list(pages, page));
        self.residents.put(pages, page, class | ACTIVE);
    }

    /// An access that the kernel saw by itself: the second makes an inactive page active.
    pub fn mark_accessed(&mut self, pages: &mut PageTable, page: PageIdx) {
        if !self.is_active(pages, page) && pages.word(page) & REFERENCED != 0 {
            self.activate(pages, page);
        } else {
            set(pages, page, REFERENCED, true);
        }
    }

    /// Takes out a page that is to be moved or paged out; it stays active or inactive.
    pub fn moves(&mut self, pages: &mut PageTable, page: PageIdx) {
        let class = self.class(pages, page).unwrap_or_else(|| list(pages, page));
        self.residents.moves(pages, page, class);
    }

    /// Notes that a page is to be demoted, or promoted.
    pub fn set_demoted(&mut self, pages: &mut PageTable, page: PageIdx, demoted: bool) {
        set(pages, page, DEMOTED, demoted);
    }

    /// Whether the page was demoted, and not promoted since.
    pub fn is_demoted(&self, pages: &PageTable, page: PageIdx) -> bool {
        pages.word(page) & DEMOTED != 0
    }

    /// Whether `page` is in a list, and not on its way.
    pub fn holds(&self, pages: &PageTable, page: PageIdx) -> bool {
        self.class(pages, page).is_some()
    }

    /// The next cold page of `tier`, of those that `takes` are wanted.
    pub fn take_cold(&mut self, pages: &PageTable, tier: TierId, takes: Takes) -> Option<PageIdx> {
        let class = |page: &PageIdx| self.residents.class(pages, *page);
        let fits = |class: u8| class & ACTIVE == 0 && (takes == Takes::All || class & FILE != 0);
        let cold = &mut self.cold[tier.index()];
        std::iter::from_fn(|| cold.pop_front()).find(|page| class(page).is_some_and(fits))
    }

    /// Pages of `tier` in the lists that `takes` names.
    pub fn len(&self, tier: TierId, takes: Takes) -> usize {
        takes.lists().map(|list| self.pages_in(tier, list)).sum()
    }

    fn pages_in(&self, tier: TierId, list: u8) -> usize {
        self.residents.len(tier, list | INACTIVE) + self.residents.len(tier, list | ACTIVE)
    }

    /// Lets the reclaimer look at `count` pages of a tier, or as many as it gets to in `passed`, each list in
    /// proportion to its length: deactivates what is needed to have enough inactive pages, and asks after the
    /// first of them.
    pub fn scan(
        &mut self,
        pages: &mut PageTable,
        ask: &mut Vec<(PageIdx, Nanos)>,
        tier: TierId,
        takes: Takes,
        count: usize,
        passed: Nanos,
    ) {
        let count = count.min(usize::try_from(passed.0 / LOOK.0).unwrap_or(usize::MAX));
        let all = self.len(tier, takes).max(1);
        for list in takes.lists() {
            let share = count.saturating_mul(self.pages_in(tier, list)).div_ceil(all);
            self.scan_list(pages, ask, tier, list, share);
        }
    }

    fn scan_list(
        &mut self,
        pages: &mut PageTable,
        ask: &mut Vec<(PageIdx, Nanos)>,
        tier: TierId,
        list: u8,
        count: usize,
    ) {
        for _ in 0..count {
            if !self.inactive_is_low(pages, tier, list) {
                break;
            }
            let Some(page) = self.residents.first(pages, tier, list | ACTIVE) else { break };
            self.residents.put(pages, page, list | INACTIVE);
        }
        let inactive = self.residents.len(tier, list | INACTIVE);
        let within = LOOK * inactive as u64;
        for _ in 0..count.min(inactive) {
            let Some(page) = self.residents.first(pages, tier, list | INACTIVE) else { break };
            self.residents.put(pages, page, list | INACTIVE);
            ask.push((page, within));
        }
    }

    /// Fewer inactive pages than one for every √(10·GiB) active ones.
    fn inactive_is_low(&self, pages: &PageTable, tier: TierId, list: u8) -> bool {
        let gib = pages.bytes_in(tier).0 / Bytes::from_mib(1 << 10).0;
        let ratio = usize::try_from((10 * gib).isqrt().max(1)).unwrap_or(usize::MAX);
        let inactive = self.residents.len(tier, list | INACTIVE);
        inactive.saturating_mul(ratio) < self.residents.len(tier, list | ACTIVE)
    }
}

/// Which pages a reclaimer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// All: they stay in memory, elsewhere.
    All,
    /// Those that have a file to go back to: there is no swap device.
    Files,
}

impl Takes {
    fn lists(self) -> impl Iterator<Item = u8> {
        [0, FILE].into_iter().filter(move |&list| self == Self::All || list == FILE)
    }
}

/// The list of a page that is in none.
fn list(pages: &PageTable, page: PageIdx) -> u8 {
    let file = pages.locate(page).is_some_and(|at| at.kind == PageKind::File);
    if file { FILE } else { 0 }
}

fn set(pages: &mut PageTable, page: PageIdx, flag: u64, on: bool) {
    let word = pages.word(page);
    pages.set_word(page, if on { word | flag } else { word & !flag });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::all_fast;
    use crate::port::{PageSize, Region, SpaceEvent, SpaceId, Vpn};

    const FAST: TierId = TierId::FAST;

    /// Pages of the fastest tier, all new.
    fn new(count: u64) -> (PageTable, Vec<PageIdx>, Lru) {
        let (mut pages, all) = all_fast(count);
        let mut lru = Lru::default();
        lru.believe(&mut pages, &all, &[], &[]);
        (pages, all, lru)
    }

    #[test]
    fn twice_accessed_is_active_and_not_accessed_is_cold() {
        let (mut pages, all, mut lru) = new(3);
        let answers = [(all[0], Some(true)), (all[1], Some(false)), (all[2], Some(true))];
        lru.believe(&mut pages, &[], &[], &answers);
        assert_eq!(lru.take_cold(&pages, FAST, Takes::All), Some(all[1]));
        assert_eq!(lru.take_cold(&pages, FAST, Takes::All), None);
        let answers = [(all[0], Some(true)), (all[2], Some(false))];
        lru.believe(&mut pages, &[], &[], &answers);
        assert!(lru.is_active(&pages, all[0]) && !lru.is_active(&pages, all[2]));
        assert_eq!(lru.take_cold(&pages, FAST, Takes::All), Some(all[2]));
    }

    #[test]
    fn a_cold_page_that_nobody_took_is_the_first_to_be_asked_after_again() {
        let (mut pages, all, mut lru) = new(3);
        lru.believe(&mut pages, &[], &[], &[(all[1], Some(false)), (all[2], Some(false))]);
        lru.believe(&mut pages, &[], &[], &[]);
        let mut ask = Vec::new();
        lru.scan(&mut pages, &mut ask, FAST, Takes::All, 2, Nanos::from_millis(1));
        assert_eq!(ask.iter().map(|(page, _)| *page).collect::<Vec<_>>(), [all[1], all[2]]);
        assert_eq!(ask[0].1, LOOK * 3, "the time of one round");
    }

    #[test]
    fn active_pages_are_let_down_when_more_than_the_inactive() {
        let (mut pages, all, mut lru) = new(10);
        all.iter().for_each(|&page| lru.activate(&mut pages, page));
        let mut ask = Vec::new();
        lru.scan(&mut pages, &mut ask, FAST, Takes::All, 100, Nanos::from_secs(1));
        assert_eq!(ask.len(), 5, "half of them, in so small a tier");
        lru.scan(&mut pages, &mut Vec::new(), FAST, Takes::All, 100, Nanos::from_secs(1));
        let active = all.iter().filter(|&&page| lru.is_active(&pages, page)).count();
        assert_eq!(active, 5);
    }

    #[test]
    fn a_reclaimer_without_swap_takes_file_pages_only() {
        let (mut pages, all, mut lru) = new(2);
        pages.apply(SpaceEvent::Mapped(Region {
            space: SpaceId(2),
            start: Vpn(0),
            base_pages: 1,
            size: PageSize::Base,
            kind: PageKind::File,
        }));
        let file = pages.find(SpaceId(2), Vpn(0)).unwrap();
        pages.set_tier(file, PageSize::Base, FAST);
        lru.believe(&mut pages, &[file], &[], &[]);
        let mut ask = Vec::new();
        lru.scan(&mut pages, &mut ask, FAST, Takes::Files, 10, Nanos::from_millis(1));
        assert_eq!(ask.iter().map(|(page, _)| *page).collect::<Vec<_>>(), [file]);
        let cold = [(all[0], Some(false)), (file, Some(false))];
        lru.believe(&mut pages, &[], &[], &cold);
        assert_eq!(lru.take_cold(&pages, FAST, Takes::Files), Some(file));
        lru.believe(&mut pages, &[], &[], &cold);
        assert_eq!(lru.take_cold(&pages, FAST, Takes::All), Some(all[0]));
    }

    #[test]
    fn where_the_world_cannot_tell_what_a_tracker_saw_counts() {
        let (mut pages, all, mut lru) = new(2);
        let hit = Hit { page: all[0], tier: Some(FAST), hits: 1.0, exposure: None, write: None };
        lru.believe(&mut pages, &[], &[hit], &[(all[0], None), (all[1], None)]);
        assert_eq!(lru.take_cold(&pages, FAST, Takes::All), Some(all[1]));
        assert_eq!(lru.take_cold(&pages, FAST, Takes::All), None);
    }
}
