// SPDX-License-Identifier: Apache-2.0
//! Active and inactive lists, of private and of file pages: which pages a reclaimer takes.
//!
//! New pages are inactive. A page at the front of the inactive list is asked after: accessed since the
//! reclaimer last came by, it goes round once more; accessed twice in a row, it becomes active; not
//! accessed, it is cold. What the fault that maps a new page leaves behind counts as its first access, but for file
//! pages, which are read without being mapped. Active pages become inactive in their order when too few are. So what tells
//! hot from warm is how long the reclaimer takes to come by again: a microsecond a page when it is in a hurry,
//! hours where nobody needs room.
//!
//! Private pages and file pages have lists of their own; shared memory is with the private, as it has no file to
//! go back to. While many file pages are inactive, and enough of them against the active ones, only they are looked at
//! (`cache_trim_mode`). Else each list is looked at in proportion to its length, of the private 60 in 200 of it and of
//! the files 140 (vm.swappiness 60, and no list costs reads from a disk more than the other).
//!
//! Source: Linux 5.12 and 6.3, mm/vmscan.c (`folio_check_references`, `shrink_active_list`, `inactive_is_low`,
//! `prepare_scan_count`, `get_scan_count`) and mm/swap.c (`folio_mark_accessed`). The microsecond is ours. Refaults of
//! files end the trim there, and are not known here. Where the world cannot tell of single pages, a page counts as
//! accessed that a tracker saw since (ours).

use std::collections::VecDeque;

use super::Hit;
use crate::lists::residents::Residents;
use crate::page::{FETCHED, PageIdx, PageTable, page_word};
use crate::port::PageKind;
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

page_word! {
    /// The place of a page in the lists, its last scan, and what policies over the lists keep of its faults.
    LruWord
}

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
/// From here on, bit 35 being the policies', when its accessed bit was last cleared: it was asked after or became
/// inactive, or is a file page and new; 0: never.
const ASKED: u32 = 36;
/// The unit of that time, which wraps after three hours.
const STAMP: Nanos = Nanos::from_millis(10);
const STAMPS: u64 = (1 << 20) - 1;
/// What the kernel takes to look at one page.
const LOOK: Nanos = Nanos(1_000);
/// vm.swappiness: what part of pressure is on private pages, of [`PRESSURE`].
const SWAPPINESS: usize = 60;
const PRESSURE: usize = 200;

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
        now: Nanos,
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
        for touched in touched.chunks(FETCHED) {
            pages.fetch(touched.iter().copied());
            for &page in touched {
                if self.class(pages, page).is_none() {
                    let list = list(pages, page);
                    pages.set_heat(
                        page,
                        LruWord(stamped(
                            pages.heat::<LruWord>(page).0,
                            (list == FILE).then_some(now),
                        )),
                    );
                    self.residents.put(pages, page, list | INACTIVE);
                }
            }
        }
        for hits in hits.chunks(FETCHED) {
            pages.fetch(hits.iter().map(|hit| hit.page));
            for hit in hits {
                set(pages, hit.page, SEEN, true);
            }
        }
        for answers in answers.chunks(FETCHED) {
            pages.fetch(answers.iter().map(|&(page, _)| page));
            for &(page, answer) in answers {
                self.judge(pages, now, page, answer);
            }
        }
    }

    fn judge(&mut self, pages: &mut PageTable, now: Nanos, page: PageIdx, answer: Option<bool>) {
        let word = pages.heat::<LruWord>(page).0;
        let accessed = word >> ASKED == 0 || answer.unwrap_or(word & SEEN != 0);
        pages.set_heat(page, LruWord(stamped(word & !SEEN, Some(now))));
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

    /// Brings what is known of these pages into the cache, for whoever is about to judge them.
    pub fn fetch(&self, pages: &PageTable, these: impl Iterator<Item = PageIdx> + Clone) {
        self.residents.fetch(pages, these);
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
        if !self.is_active(pages, page) && pages.heat::<LruWord>(page).0 & REFERENCED != 0 {
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
        pages.heat::<LruWord>(page).0 & DEMOTED != 0
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

    /// Lets the reclaimer look at part of a tier, each list in proportion to its length and to what pressure is
    /// on it: deactivates what is needed to have enough inactive pages, and asks after the first of them.
    pub fn scan(&mut self, pages: &mut PageTable, ask: &mut Vec<(PageIdx, Nanos)>, look: Look) {
        let count = look.count.min(usize::try_from(look.passed.0 / LOOK.0).unwrap_or(usize::MAX));
        let all = self.len(look.tier, look.takes).max(1) * PRESSURE;
        let pressure = self.pressure(pages, look);
        for list in look.takes.lists() {
            let part = self.pages_in(look.tier, list) * pressure[usize::from(list / FILE)];
            let share = count.saturating_mul(part).div_ceil(all);
            self.scan_list(pages, ask, look, list, share);
        }
    }

    /// On private pages, and on files.
    fn pressure(&self, pages: &PageTable, look: Look) -> [usize; 2] {
        match (look.takes, look.priority) {
            (Takes::Files, _) => return [0, PRESSURE],
            (Takes::All, 0) => return [PRESSURE; 2],
            _ => {}
        }
        let of_all = self.len(look.tier, Takes::All).max(1) as u64;
        let mean = pages.bytes_in(look.tier).base_pages() / of_all;
        let inactive = self.residents.len(look.tier, FILE | INACTIVE) as u64 * mean;
        match inactive >> look.priority > 0 && !self.inactive_is_low(pages, look.tier, FILE) {
            true => [0, PRESSURE],
            false => [SWAPPINESS, PRESSURE - SWAPPINESS],
        }
    }

    fn scan_list(
        &mut self,
        pages: &mut PageTable,
        ask: &mut Vec<(PageIdx, Nanos)>,
        look: Look,
        list: u8,
        count: usize,
    ) {
        let ratio = inactive_ratio(pages, look.tier);
        for _ in 0..count {
            if !self.is_low(look.tier, list, ratio) {
                break;
            }
            let Some(page) = self.residents.first(pages, look.tier, list | ACTIVE) else { break };
            pages.set_heat(page, LruWord(stamped(pages.heat::<LruWord>(page).0, Some(look.now))));
            self.residents.put(pages, page, list | INACTIVE);
        }
        let inactive = self.residents.len(look.tier, list | INACTIVE);
        let round = LOOK * inactive as u64;
        for at in 0..count.min(inactive) {
            if at % FETCHED == 0 {
                self.residents.fetch_first(pages, look.tier, list | INACTIVE, FETCHED);
            }
            let Some(page) = self.residents.first(pages, look.tier, list | INACTIVE) else { break };
            self.residents.put(pages, page, list | INACTIVE);
            let since = since(pages.heat::<LruWord>(page).0, look.now);
            // Who is at work goes round many times between two ticks.
            ask.push((page, if since <= look.awake { round.min(since) } else { since }));
        }
    }

    fn inactive_is_low(&self, pages: &PageTable, tier: TierId, list: u8) -> bool {
        self.is_low(tier, list, inactive_ratio(pages, tier))
    }

    /// Fewer inactive pages than one for every `ratio` active ones.
    fn is_low(&self, tier: TierId, list: u8, ratio: usize) -> bool {
        let inactive = self.residents.len(tier, list | INACTIVE);
        inactive.saturating_mul(ratio) < self.residents.len(tier, list | ACTIVE)
    }
}

/// What a reclaimer is about to look at.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// The time.
    pub now: Nanos,
    /// Time since it last looked: it gets no further than it can in it.
    pub passed: Nanos,
    /// Time for which it has been at work without a pause.
    pub awake: Nanos,
    /// The tier.
    pub tier: TierId,
    /// Which pages it takes.
    pub takes: Takes,
    /// How hard it tries: 12 and down to 0.
    pub priority: u8,
    /// Pages, of all lists together.
    pub count: usize,
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

/// Active pages that there may be for each inactive one: √(10·GiB).
fn inactive_ratio(pages: &PageTable, tier: TierId) -> usize {
    let gib = pages.bytes_in(tier).0 / Bytes::from_mib(1 << 10).0;
    usize::try_from((10 * gib).isqrt().max(1)).unwrap_or(usize::MAX)
}

/// The list of a page that is in none.
fn list(pages: &PageTable, page: PageIdx) -> u8 {
    let file = pages.locate(page).is_some_and(|at| at.kind == PageKind::File);
    if file { FILE } else { 0 }
}

/// A word that says when the accessed bit of its page was last cleared.
fn stamped(word: u64, at: Option<Nanos>) -> u64 {
    let stamp = at.map_or(0, |at| (at.0 / STAMP.0 % STAMPS) + 1);
    word & !(STAMPS << ASKED) | stamp << ASKED
}

/// Time since the accessed bit of the page of that word was cleared; of one where it never was it does not matter.
fn since(word: u64, now: Nanos) -> Nanos {
    let passed = (now.0 / STAMP.0 % STAMPS + 1 + STAMPS - (word >> ASKED)) % STAMPS;
    STAMP * passed.max(1)
}

fn set(pages: &mut PageTable, page: PageIdx, flag: u64, on: bool) {
    let word = pages.heat::<LruWord>(page).0;
    pages.set_heat(page, LruWord(if on { word | flag } else { word & !flag }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::all_fast;
    use crate::port::{PageSize, Region, SpaceEvent, SpaceId, Vpn};

    const FAST: TierId = TierId::FAST;
    const AT: Nanos = Nanos::from_secs(1);
    const LOOK_AT_ALL: Look = Look {
        now: AT,
        passed: Nanos::from_secs(1),
        awake: Nanos::ZERO,
        tier: FAST,
        takes: Takes::All,
        priority: 0,
        count: 1000,
    };

    /// Pages of the fastest tier, all new.
    fn new(count: u64) -> (PageTable, Vec<PageIdx>, Lru) {
        let (mut pages, all) = all_fast(count);
        let mut lru = Lru::default();
        lru.believe(&mut pages, AT, &all, &[], &[]);
        (pages, all, lru)
    }

    /// Pages whose first access was found already.
    fn asked(count: u64) -> (PageTable, Vec<PageIdx>, Lru) {
        let (mut pages, all, lru) = new(count);
        for &page in &all {
            pages.set_heat(page, LruWord(stamped(pages.heat::<LruWord>(page).0, Some(AT))));
        }
        (pages, all, lru)
    }

    fn looks(lru: &mut Lru, pages: &mut PageTable, look: Look) -> Vec<PageIdx> {
        let mut ask = Vec::new();
        lru.scan(pages, &mut ask, look);
        ask.into_iter().map(|(page, _)| page).collect()
    }

    /// Adds file pages.
    fn files(pages: &mut PageTable, count: u64) -> Vec<PageIdx> {
        pages.apply(SpaceEvent::Mapped(Region {
            space: SpaceId(2),
            start: Vpn(0),
            base_pages: count,
            size: PageSize::Base,
            kind: PageKind::File,
        }));
        let all: Vec<_> = (0..count).map(|vpn| pages.find(SpaceId(2), Vpn(vpn)).unwrap()).collect();
        all.iter().for_each(|&page| pages.set_tier(page, FAST));
        all
    }

    #[test]
    fn twice_accessed_is_active_and_not_accessed_is_cold() {
        let (mut pages, all, mut lru) = asked(3);
        let answers = [(all[0], Some(true)), (all[1], Some(false)), (all[2], Some(true))];
        lru.believe(&mut pages, AT, &[], &[], &answers);
        assert_eq!(lru.take_cold(&pages, FAST, Takes::All), Some(all[1]));
        assert_eq!(lru.take_cold(&pages, FAST, Takes::All), None);
        let answers = [(all[0], Some(true)), (all[2], Some(false))];
        lru.believe(&mut pages, AT, &[], &[], &answers);
        assert!(lru.is_active(&pages, all[0]) && !lru.is_active(&pages, all[2]));
        assert_eq!(lru.take_cold(&pages, FAST, Takes::All), Some(all[2]));
    }

    #[test]
    fn a_cold_page_that_nobody_took_is_the_first_to_be_asked_after_again() {
        let (mut pages, all, mut lru) = asked(3);
        lru.believe(&mut pages, AT, &[], &[], &[(all[1], Some(false)), (all[2], Some(false))]);
        lru.believe(&mut pages, AT, &[], &[], &[]);
        let mut ask = Vec::new();
        let look = Look { now: AT + Nanos::from_secs(7), count: 2, ..LOOK_AT_ALL };
        lru.scan(&mut pages, &mut ask, look);
        let within = Nanos::from_secs(7);
        assert_eq!(ask, [(all[1], within), (all[2], within)]);
        ask.clear();
        lru.scan(&mut pages, &mut ask, Look { awake: within, ..look });
        assert_eq!(ask[0].1, LOOK * 3, "one round of who is at work");
    }

    #[test]
    fn active_pages_are_let_down_when_more_than_the_inactive() {
        let (mut pages, all, mut lru) = new(10);
        all.iter().for_each(|&page| lru.activate(&mut pages, page));
        let asked = looks(&mut lru, &mut pages, LOOK_AT_ALL);
        assert_eq!(asked.len(), 5, "half of them, in so small a tier");
        looks(&mut lru, &mut pages, LOOK_AT_ALL);
        let active = all.iter().filter(|&&page| lru.is_active(&pages, page)).count();
        assert_eq!(active, 5);
    }

    #[test]
    fn a_reclaimer_without_swap_takes_file_pages_only() {
        let (mut pages, all, mut lru) = asked(2);
        let file = files(&mut pages, 1)[0];
        lru.believe(&mut pages, AT, &[file], &[], &[]);
        let look = Look { takes: Takes::Files, ..LOOK_AT_ALL };
        assert_eq!(looks(&mut lru, &mut pages, look), [file]);
        let cold = [(all[0], Some(false)), (file, Some(false))];
        lru.believe(&mut pages, AT, &[], &[], &cold);
        assert_eq!(lru.take_cold(&pages, FAST, Takes::Files), Some(file));
        lru.believe(&mut pages, AT, &[], &[], &cold);
        assert_eq!(lru.take_cold(&pages, FAST, Takes::All), Some(all[0]));
    }

    #[test]
    fn where_the_world_cannot_tell_what_a_tracker_saw_counts() {
        let (mut pages, all, mut lru) = asked(2);
        let hit = Hit {
            page: all[0],
            tier: Some(FAST),
            hits: 1.0,
            exposure: None,
            write: None,
            within: None,
        };
        lru.believe(&mut pages, AT, &[], &[hit], &[(all[0], None), (all[1], None)]);
        assert_eq!(lru.take_cold(&pages, FAST, Takes::All), Some(all[1]));
        assert_eq!(lru.take_cold(&pages, FAST, Takes::All), None);
    }

    /// A private page is mapped by an access; a file page is read without.
    #[test]
    fn the_fault_that_brings_a_page_is_its_first_access() {
        let (mut pages, all, mut lru) = new(1);
        let file = files(&mut pages, 1)[0];
        lru.believe(&mut pages, AT, &[file], &[], &[]);
        lru.believe(&mut pages, AT, &[], &[], &[(all[0], Some(false)), (file, Some(false))]);
        assert_eq!(lru.take_cold(&pages, FAST, Takes::All), Some(file));
        assert_eq!(lru.take_cold(&pages, FAST, Takes::All), None);
        lru.believe(&mut pages, AT, &[], &[], &[(all[0], Some(false))]);
        assert_eq!(lru.take_cold(&pages, FAST, Takes::All), Some(all[0]));
    }

    /// 40 private and 40 file pages. Files only: while 40 >> priority is something, and few are active. 14 in
    /// 20 of files against 6 in 20 of private pages when it is nothing; all of both at the last.
    #[test]
    fn files_go_first_while_there_are_many() {
        let (mut pages, _, mut lru) = asked(40);
        let file = files(&mut pages, 40);
        lru.believe(&mut pages, AT, &file, &[], &[]);
        let mut of = |lru: &mut Lru, priority| {
            let asked = looks(lru, &mut pages, Look { priority, count: 40, ..LOOK_AT_ALL });
            let files = asked.iter().filter(|page| file.contains(page)).count();
            [asked.len() - files, files]
        };
        assert_eq!(of(&mut lru, 5), [0, 20]);
        assert_eq!(of(&mut lru, 6), [6, 14]);
        assert_eq!(of(&mut lru, 0), [20, 20]);
        let (active, _) = file.split_at(21);
        active.iter().for_each(|&page| lru.activate(&mut pages, page));
        let asked = looks(&mut lru, &mut pages, Look { priority: 1, count: 40, ..LOOK_AT_ALL });
        assert!(asked.iter().any(|page| !file.contains(page)), "more are active than inactive");
    }
}
