// SPDX-License-Identifier: Apache-2.0
//! Active and inactive lists of private and of file pages: selects the pages that a reclaimer takes.
//!
//! New pages are inactive. A page at the front of an inactive list is checked: if accessed since the last
//! check, it goes to the end of the list; if accessed in two checks in a row, it becomes active; otherwise it
//! is cold. The fault that maps a new page counts as its first access, except for file pages, which are read
//! without being mapped. Active pages become inactive, oldest first, if too few are inactive. So the interval
//! between checks separates hot from warm: a microsecond per page under pressure, hours without pressure.
//!
//! Private and file pages have separate lists; shared memory is with the private pages, as it has no file.
//! While many file pages are inactive, and enough of them in relation to the active ones, only file pages are
//! scanned (`cache_trim_mode`). Otherwise each list is scanned in proportion to its length times its pressure,
//! 60 of 200 on private pages and 140 on file pages (vm.swappiness 60, with equal cost of disk reads).
//! Source: Linux 5.12 and 6.3, mm/vmscan.c (`folio_check_references`, `shrink_active_list`, `inactive_is_low`,
//! `prepare_scan_count`, `get_scan_count`) and mm/swap.c (`folio_mark_accessed`). The microsecond is ours.
//! There, refaults of files end `cache_trim_mode`; they are not known here. If the world cannot check single
//! pages, a page counts as accessed if a tracker reported it since the last check (ours).

use std::collections::VecDeque;

use super::Hit;
use crate::lists::residents::Residents;
use crate::page::{PREFETCH_BATCH, PageIdx, PageTable, page_word};
use crate::port::PageKind;
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

page_word! {
    /// The list state of a page, its last check, and the fault state of policies that use these lists.
    LruWord
}

const INACTIVE: u8 = 0;
const ACTIVE: u8 = 1;
/// Flag of the lists of file pages, next to those of private ones.
const FILE: u8 = 2;
/// Accessed at its last check.
const REFERENCED: u64 = 1 << 32;
/// Reported by a tracker since its last check.
const SEEN: u64 = 1 << 33;
/// Demoted, and not promoted since (`PG_demoted`).
const DEMOTED: u64 = 1 << 34;
/// Lowest bit of the time when its accessed bit was last cleared (bit 35 belongs to the policies): it was
/// checked, or became inactive, or is a new file page; 0: never.
const ASKED: u32 = 36;
/// The unit of that time, which wraps after three hours.
const STAMP: Nanos = Nanos::from_millis(10);
const STAMPS: u64 = (1 << 20) - 1;
/// The kernel's time to scan one page.
const SCAN_TIME: Nanos = Nanos(1_000);
/// vm.swappiness: the part of pressure on private pages, of [`PRESSURE`].
const SWAPPINESS: usize = 60;
const PRESSURE: usize = 200;

/// The lists of all tiers.
#[derive(Debug)]
pub struct Lru {
    residents: Residents,
    /// Inactive pages that were not accessed, by tier, in list order.
    cold: [VecDeque<PageIdx>; TierId::MAX],
}

impl Default for Lru {
    fn default() -> Self {
        Self { residents: Residents::new(4), cold: Default::default() }
    }
}

impl Lru {
    /// Takes in moves, new pages, hits and answers.
    pub fn learn(
        &mut self,
        pages: &mut PageTable,
        now: Nanos,
        touched: &[PageIdx],
        hits: &[Hit],
        answers: &[(PageIdx, Option<bool>)],
    ) {
        self.residents.finish_moves(pages);
        for page in self.cold.iter_mut().flat_map(|cold| cold.drain(..).rev()) {
            let class = self.residents.class(pages, page);
            if let Some(class) = class.filter(|class| class & ACTIVE == 0) {
                self.residents.put_first(pages, page, class); // not taken
            }
        }
        for touched in touched.chunks(PREFETCH_BATCH) {
            pages.prefetch(touched.iter().copied());
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
        for hits in hits.chunks(PREFETCH_BATCH) {
            pages.prefetch(hits.iter().map(|hit| hit.page));
            for hit in hits {
                set(pages, hit.page, SEEN, true);
            }
        }
        for answers in answers.chunks(PREFETCH_BATCH) {
            pages.prefetch(answers.iter().map(|&(page, _)| page));
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

    /// Loads the state of these pages into the cache before they are judged.
    pub fn prefetch(&self, pages: &PageTable, these: impl Iterator<Item = PageIdx> + Clone) {
        self.residents.prefetch(pages, these);
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

    /// An access that the kernel itself observed: the second one makes an inactive page active.
    pub fn mark_accessed(&mut self, pages: &mut PageTable, page: PageIdx) {
        if !self.is_active(pages, page) && pages.heat::<LruWord>(page).0 & REFERENCED != 0 {
            self.activate(pages, page);
        } else {
            set(pages, page, REFERENCED, true);
        }
    }

    /// Removes a page that is about to be moved or paged out; it stays active or inactive.
    pub fn start_move(&mut self, pages: &mut PageTable, page: PageIdx) {
        let class = self.class(pages, page).unwrap_or_else(|| list(pages, page));
        self.residents.start_move(pages, page, class);
    }

    /// Records that a page is being demoted, or promoted.
    pub fn set_demoted(&mut self, pages: &mut PageTable, page: PageIdx, demoted: bool) {
        set(pages, page, DEMOTED, demoted);
    }

    /// Whether the page was demoted, and not promoted since.
    pub fn is_demoted(&self, pages: &PageTable, page: PageIdx) -> bool {
        pages.heat::<LruWord>(page).0 & DEMOTED != 0
    }

    /// Whether `page` is in a list, and not about to move.
    pub fn holds(&self, pages: &PageTable, page: PageIdx) -> bool {
        self.class(pages, page).is_some()
    }

    /// The next cold page of `tier`, among those of `of`.
    pub fn take_cold(&mut self, pages: &PageTable, tier: TierId, of: Eligible) -> Option<PageIdx> {
        let class = |page: &PageIdx| self.residents.class(pages, *page);
        let fits = |class: u8| class & ACTIVE == 0 && (of == Eligible::All || class & FILE != 0);
        let cold = &mut self.cold[tier.index()];
        std::iter::from_fn(|| cold.pop_front()).find(|page| class(page).is_some_and(fits))
    }

    /// Pages of `tier` in the lists of `of`.
    pub fn len(&self, tier: TierId, of: Eligible) -> usize {
        of.lists().map(|list| self.pages_in(tier, list)).sum()
    }

    fn pages_in(&self, tier: TierId, list: u8) -> usize {
        self.residents.len(tier, list | INACTIVE) + self.residents.len(tier, list | ACTIVE)
    }

    /// Scans part of a tier, each list in proportion to its length and its pressure: deactivates as many pages
    /// as the inactive list lacks, and asks about the oldest inactive ones.
    pub fn scan(&mut self, pages: &mut PageTable, ask: &mut Vec<(PageIdx, Nanos)>, scan: LruScan) {
        let count =
            scan.count.min(usize::try_from(scan.passed.0 / SCAN_TIME.0).unwrap_or(usize::MAX));
        let all = self.len(scan.tier, scan.eligible).max(1) * PRESSURE;
        let pressure = self.pressure(pages, scan);
        for list in scan.eligible.lists() {
            let part = self.pages_in(scan.tier, list) * pressure[usize::from(list / FILE)];
            let share = count.saturating_mul(part).div_ceil(all);
            self.scan_list(pages, ask, scan, list, share);
        }
    }

    /// The pressure on private pages and on file pages.
    fn pressure(&self, pages: &PageTable, scan: LruScan) -> [usize; 2] {
        match (scan.eligible, scan.priority) {
            (Eligible::Files, _) => return [0, PRESSURE],
            (Eligible::All, 0) => return [PRESSURE; 2],
            _ => {}
        }
        let of_all = self.len(scan.tier, Eligible::All).max(1) as u64;
        let mean = pages.bytes_in(scan.tier).base_pages() / of_all;
        let inactive = self.residents.len(scan.tier, FILE | INACTIVE) as u64 * mean;
        match inactive >> scan.priority > 0 && !self.inactive_is_low(pages, scan.tier, FILE) {
            true => [0, PRESSURE],
            false => [SWAPPINESS, PRESSURE - SWAPPINESS],
        }
    }

    fn scan_list(
        &mut self,
        pages: &mut PageTable,
        ask: &mut Vec<(PageIdx, Nanos)>,
        scan: LruScan,
        list: u8,
        count: usize,
    ) {
        let ratio = inactive_ratio(pages, scan.tier);
        for _ in 0..count {
            if !self.is_low(scan.tier, list, ratio) {
                break;
            }
            let Some(page) = self.residents.first(pages, scan.tier, list | ACTIVE) else { break };
            pages.set_heat(page, LruWord(stamped(pages.heat::<LruWord>(page).0, Some(scan.now))));
            self.residents.put(pages, page, list | INACTIVE);
        }
        let inactive = self.residents.len(scan.tier, list | INACTIVE);
        let round = SCAN_TIME * inactive as u64;
        for at in 0..count.min(inactive) {
            if at % PREFETCH_BATCH == 0 {
                self.residents.prefetch_first(pages, scan.tier, list | INACTIVE, PREFETCH_BATCH);
            }
            let Some(page) = self.residents.first(pages, scan.tier, list | INACTIVE) else { break };
            self.residents.put(pages, page, list | INACTIVE);
            let since = since(pages.heat::<LruWord>(page).0, scan.now);
            // A reclaimer at work scans the list many times between two ticks.
            ask.push((page, if since <= scan.awake { round.min(since) } else { since }));
        }
    }

    fn inactive_is_low(&self, pages: &PageTable, tier: TierId, list: u8) -> bool {
        self.is_low(tier, list, inactive_ratio(pages, tier))
    }

    /// Whether there are fewer inactive pages than one per `ratio` active ones.
    fn is_low(&self, tier: TierId, list: u8, ratio: usize) -> bool {
        let inactive = self.residents.len(tier, list | INACTIVE);
        inactive.saturating_mul(ratio) < self.residents.len(tier, list | ACTIVE)
    }
}

/// One scan of a reclaimer.
#[derive(Clone, Copy, Debug)]
pub struct LruScan {
    /// The time.
    pub now: Nanos,
    /// Time since its last scan, which limits the pages it can scan.
    pub passed: Nanos,
    /// Time for which it has been awake.
    pub awake: Nanos,
    /// The tier.
    pub tier: TierId,
    /// Which pages it takes.
    pub eligible: Eligible,
    /// Its priority: 12, and down to 0 for the greatest effort.
    pub priority: u8,
    /// Pages to scan, over all lists.
    pub count: usize,
}

/// Which pages a reclaimer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligible {
    /// All: they move to another tier.
    All,
    /// Only pages with a file: there is no swap device.
    Files,
}

impl Eligible {
    fn lists(self) -> impl Iterator<Item = u8> {
        [0, FILE].into_iter().filter(move |&list| self == Self::All || list == FILE)
    }
}

/// Active pages per inactive one, at most: √(10·GiB).
fn inactive_ratio(pages: &PageTable, tier: TierId) -> usize {
    let gib = pages.bytes_in(tier).0 / Bytes::from_mib(1 << 10).0;
    usize::try_from((10 * gib).isqrt().max(1)).unwrap_or(usize::MAX)
}

/// The list for a page that is in none.
fn list(pages: &PageTable, page: PageIdx) -> u8 {
    let file = pages.locate(page).is_some_and(|at| at.kind == PageKind::File);
    if file { FILE } else { 0 }
}

/// A word with the time when the accessed bit of its page was last cleared.
fn stamped(word: u64, at: Option<Nanos>) -> u64 {
    let stamp = at.map_or(0, |at| (at.0 / STAMP.0 % STAMPS) + 1);
    word & !(STAMPS << ASKED) | stamp << ASKED
}

/// Time since the accessed bit of the word's page was cleared; meaningless if it never was.
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
    const SCAN_ALL: LruScan = LruScan {
        now: AT,
        passed: Nanos::from_secs(1),
        awake: Nanos::ZERO,
        tier: FAST,
        eligible: Eligible::All,
        priority: 0,
        count: 1000,
    };

    /// Pages of the fastest tier, all new.
    fn new(count: u64) -> (PageTable, Vec<PageIdx>, Lru) {
        let (mut pages, all) = all_fast(count);
        let mut lru = Lru::default();
        lru.learn(&mut pages, AT, &all, &[], &[]);
        (pages, all, lru)
    }

    /// Pages whose first access was already checked.
    fn asked(count: u64) -> (PageTable, Vec<PageIdx>, Lru) {
        let (mut pages, all, lru) = new(count);
        for &page in &all {
            pages.set_heat(page, LruWord(stamped(pages.heat::<LruWord>(page).0, Some(AT))));
        }
        (pages, all, lru)
    }

    fn scan(lru: &mut Lru, pages: &mut PageTable, scan: LruScan) -> Vec<PageIdx> {
        let mut ask = Vec::new();
        lru.scan(pages, &mut ask, scan);
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
    fn a_page_accessed_twice_is_active_and_one_not_accessed_is_cold() {
        let (mut pages, all, mut lru) = asked(3);
        let answers = [(all[0], Some(true)), (all[1], Some(false)), (all[2], Some(true))];
        lru.learn(&mut pages, AT, &[], &[], &answers);
        assert_eq!(lru.take_cold(&pages, FAST, Eligible::All), Some(all[1]));
        assert_eq!(lru.take_cold(&pages, FAST, Eligible::All), None);
        let answers = [(all[0], Some(true)), (all[2], Some(false))];
        lru.learn(&mut pages, AT, &[], &[], &answers);
        assert!(lru.is_active(&pages, all[0]) && !lru.is_active(&pages, all[2]));
        assert_eq!(lru.take_cold(&pages, FAST, Eligible::All), Some(all[2]));
    }

    #[test]
    fn a_cold_page_that_was_not_taken_is_checked_again_first() {
        let (mut pages, all, mut lru) = asked(3);
        lru.learn(&mut pages, AT, &[], &[], &[(all[1], Some(false)), (all[2], Some(false))]);
        lru.learn(&mut pages, AT, &[], &[], &[]);
        let mut ask = Vec::new();
        let scan = LruScan { now: AT + Nanos::from_secs(7), count: 2, ..SCAN_ALL };
        lru.scan(&mut pages, &mut ask, scan);
        let within = Nanos::from_secs(7);
        assert_eq!(ask, [(all[1], within), (all[2], within)]);
        ask.clear();
        lru.scan(&mut pages, &mut ask, LruScan { awake: within, ..scan });
        assert_eq!(ask[0].1, SCAN_TIME * 3, "the time of one scan while awake");
    }

    #[test]
    fn active_pages_are_deactivated_if_more_than_the_inactive() {
        let (mut pages, all, mut lru) = new(10);
        all.iter().for_each(|&page| lru.activate(&mut pages, page));
        let asked = scan(&mut lru, &mut pages, SCAN_ALL);
        assert_eq!(asked.len(), 5, "half of them, in so small a tier");
        scan(&mut lru, &mut pages, SCAN_ALL);
        let active = all.iter().filter(|&&page| lru.is_active(&pages, page)).count();
        assert_eq!(active, 5);
    }

    #[test]
    fn a_reclaimer_without_swap_takes_file_pages_only() {
        let (mut pages, all, mut lru) = asked(2);
        let file = files(&mut pages, 1)[0];
        lru.learn(&mut pages, AT, &[file], &[], &[]);
        let files_only = LruScan { eligible: Eligible::Files, ..SCAN_ALL };
        assert_eq!(scan(&mut lru, &mut pages, files_only), [file]);
        let cold = [(all[0], Some(false)), (file, Some(false))];
        lru.learn(&mut pages, AT, &[], &[], &cold);
        assert_eq!(lru.take_cold(&pages, FAST, Eligible::Files), Some(file));
        lru.learn(&mut pages, AT, &[], &[], &cold);
        assert_eq!(lru.take_cold(&pages, FAST, Eligible::All), Some(all[0]));
    }

    #[test]
    fn without_answers_hits_of_a_tracker_count() {
        let (mut pages, all, mut lru) = asked(2);
        let hit = Hit {
            page: all[0],
            tier: Some(FAST),
            hits: 1.0,
            exposure: None,
            write: None,
            base_page: None,
        };
        lru.learn(&mut pages, AT, &[], &[hit], &[(all[0], None), (all[1], None)]);
        assert_eq!(lru.take_cold(&pages, FAST, Eligible::All), Some(all[1]));
        assert_eq!(lru.take_cold(&pages, FAST, Eligible::All), None);
    }

    /// A private page is mapped by an access; a file page is read without being mapped.
    #[test]
    fn the_fault_that_maps_a_page_is_its_first_access() {
        let (mut pages, all, mut lru) = new(1);
        let file = files(&mut pages, 1)[0];
        lru.learn(&mut pages, AT, &[file], &[], &[]);
        lru.learn(&mut pages, AT, &[], &[], &[(all[0], Some(false)), (file, Some(false))]);
        assert_eq!(lru.take_cold(&pages, FAST, Eligible::All), Some(file));
        assert_eq!(lru.take_cold(&pages, FAST, Eligible::All), None);
        lru.learn(&mut pages, AT, &[], &[], &[(all[0], Some(false))]);
        assert_eq!(lru.take_cold(&pages, FAST, Eligible::All), Some(all[0]));
    }

    /// 40 private and 40 file pages. Only files while 40 >> priority is above zero and few files are active; 14
    /// of 20 file pages and 6 of 20 private ones when it is zero; all of both at priority 0.
    #[test]
    fn files_go_first_while_there_are_many() {
        let (mut pages, _, mut lru) = asked(40);
        let file = files(&mut pages, 40);
        lru.learn(&mut pages, AT, &file, &[], &[]);
        let mut of = |lru: &mut Lru, priority| {
            let asked = scan(lru, &mut pages, LruScan { priority, count: 40, ..SCAN_ALL });
            let files = asked.iter().filter(|page| file.contains(page)).count();
            [asked.len() - files, files]
        };
        assert_eq!(of(&mut lru, 5), [0, 20]);
        assert_eq!(of(&mut lru, 6), [6, 14]);
        assert_eq!(of(&mut lru, 0), [20, 20]);
        let (active, _) = file.split_at(21);
        active.iter().for_each(|&page| lru.activate(&mut pages, page));
        let asked = scan(&mut lru, &mut pages, LruScan { priority: 1, count: 40, ..SCAN_ALL });
        assert!(asked.iter().any(|page| !file.contains(page)), "more are active than inactive");
    }
}
