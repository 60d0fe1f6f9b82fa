// SPDX-License-Identifier: Apache-2.0
//! The pages of the last scan: which were in memory, and which base pages were accessed.
//!
//! The kernel marks a page as accessed when it maps it: at its first access, and with it, where a file is mapped, some
//! neighbours that nobody accessed. So in its first window each new page looks as hot as the hottest ones. And pages that
//! are accessed in one scan and not in the next show that a window is too short. Two bits a page are kept: 68 MiB for a TiB.
//! Of huge pages, the addresses are kept: a program may fill its memory with them within a second.

use std::collections::VecDeque;

use tierline_core::port::Vpn;
use tierline_core::unit::BASE_PER_HUGE;

use crate::pagetable::PageBits;

/// The pages of one process at the last scan, and what has become of those that are being read.
#[derive(Debug, Default)]
pub struct LastScan {
    tables: Found<Table>,
    huge: Found<Vpn>,
    has_scanned: bool,
    /// New pages do not count as accessed.
    skips_new: bool,
    /// Of the table added last, the pages that were not in memory in the last scan, and those accessed in both.
    new: PageBits,
    again: PageBits,
    counts: Repeated,
}

/// Base pages that were accessed in the last scan and are still in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repeated {
    /// Their number.
    pub before: u64,
    /// Of them, those that were accessed in this scan.
    pub again: u64,
}

/// The base pages of 2 MiB.
#[derive(Clone, Copy, Debug, Default)]
struct Table {
    chunk: Vpn,
    present: PageBits,
    accessed: PageBits,
}

/// What the last scan found, by ascending address. The next one takes it from the front, and adds what it finds at the back.
#[derive(Debug)]
struct Found<T> {
    kept: VecDeque<T>,
    /// What is left of the last scan.
    left: usize,
}

impl<T> Default for Found<T> {
    fn default() -> Self {
        Self { kept: VecDeque::new(), left: 0 }
    }
}

impl<T> Found<T> {
    fn begin(&mut self) {
        self.end();
        self.left = self.kept.len();
    }

    /// What the last scan found at this address. Nothing is taken below it any more.
    fn take(&mut self, at: Vpn, address: impl Fn(&T) -> Vpn) -> Option<T> {
        while self.left > 0 && address(&self.kept[0]) <= at {
            self.left -= 1;
            let found = self.kept.pop_front().filter(|found| address(found) == at);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn add(&mut self, found: T) {
        // With twice the room, as it grows by itself, half would be empty.
        if self.kept.len() == self.kept.capacity() {
            self.kept.reserve_exact(self.kept.len() / 8 + 64);
        }
        self.kept.push_back(found);
    }

    /// Forgets what the scan did not pass, also of one that failed half-way.
    fn end(&mut self) {
        self.kept.drain(..self.left);
        self.left = 0;
    }
}

impl LastScan {
    /// Begins a scan. With `skips_new`, a page that was not in memory in the last one does not count as accessed.
    pub fn begin(&mut self, skips_new: bool) {
        self.tables.begin();
        self.huge.begin();
        self.skips_new = skips_new;
        self.counts = Repeated::default();
    }

    /// Takes the pages of all 2 MiB in which such a run of pages begins, lies or ends for new ones in the next scan. Between scans.
    pub fn forget(&mut self, start: Vpn, base_pages: u64) {
        self.tables.end();
        self.huge.end();
        let [from, until] = [start.huge_head().0, start.0 + base_pages];
        let tables = &mut self.tables.kept;
        let [first, end] = [from, until].map(|at| tables.partition_point(|it| it.chunk.0 < at));
        tables.range_mut(first..end).for_each(|table| table.present = PageBits::default());
        let huge = &mut self.huge.kept;
        let [first, end] = [from, until].map(|at| huge.partition_point(|head| head.0 < at));
        huge.drain(first..end);
    }

    /// Adds the next huge page. True if it was not in memory in the last scan, as one.
    pub fn add_huge(&mut self, head: Vpn) -> bool {
        let is_new = self.huge.take(head, |head| *head).is_none();
        self.huge.add(head);
        is_new
    }

    /// Adds the next 2 MiB.
    pub fn add(&mut self, chunk: Vpn, present: PageBits, accessed: PageBits) {
        let before = self.tables.take(chunk, |table| table.chunk).unwrap_or_default();
        let mut table = Table { chunk, present, accessed };
        for (at, accessed) in table.accessed.iter_mut().enumerate() {
            self.new[at] = if self.has_scanned { present[at] & !before.present[at] } else { 0 };
            *accessed &= if self.skips_new { !self.new[at] } else { u64::MAX };
            self.again[at] = before.accessed[at] & *accessed;
            let still = before.accessed[at] & present[at];
            self.counts.before += u64::from(still.count_ones());
            self.counts.again += u64::from((still & *accessed).count_ones());
        }
        self.tables.add(table);
    }

    /// The pages of the 2 MiB that were added last that were not in memory in the last scan.
    pub fn new_pages(&self) -> PageBits {
        self.new
    }

    /// Whether a page is one of them.
    #[inline]
    pub fn is_new(&self, page: Vpn) -> bool {
        has(&self.new, page)
    }

    /// Whether a page is one of them, and does not count as accessed.
    #[inline]
    pub fn skips(&self, page: Vpn) -> bool {
        self.skips_new && self.is_new(page)
    }

    /// Whether a page of the 2 MiB that were added last was accessed in the last scan, too.
    #[inline]
    pub fn is_again(&self, page: Vpn) -> bool {
        has(&self.again, page)
    }

    /// Ends the scan.
    pub fn end(&mut self) -> Repeated {
        self.tables.end();
        self.huge.end();
        self.has_scanned = true;
        self.counts
    }
}

#[inline]
fn has(bits: &PageBits, page: Vpn) -> bool {
    let (word, bit) = (page.0 % BASE_PER_HUGE / 64, page.0 % 64);
    let word = usize::try_from(word).ok().and_then(|word| bits.get(word));
    word.is_some_and(|word| word >> bit & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(pages: &[u64]) -> PageBits {
        let mut bits = PageBits::default();
        for page in pages {
            bits[usize::try_from(page / 64).expect("in range")] |= 1 << (page % 64);
        }
        bits
    }

    /// One scan of tables, each with its pages and those of them that were accessed; the pages that it skips.
    fn scan(
        known: &mut LastScan,
        tables: &[(u64, &[u64], &[u64])],
        skips_new: bool,
    ) -> (Vec<u64>, Repeated) {
        known.begin(skips_new);
        let mut skipped = Vec::new();
        for (chunk, present, accessed) in tables {
            known.add(Vpn(*chunk), bits(present), bits(accessed));
            skipped
                .extend(present.iter().map(|page| chunk + page).filter(|p| known.skips(Vpn(*p))));
        }
        (skipped, known.end())
    }

    #[test]
    fn a_page_is_found_again_if_the_scan_before_found_it() {
        let mut known = LastScan::default();
        scan(&mut known, &[(0, &[1, 70], &[1, 70])], false);
        known.begin(false);
        known.add(Vpn(0), bits(&[1, 2, 70]), bits(&[1, 2]));
        assert_eq!([1, 2, 70].map(|page| known.is_again(Vpn(page))), [true, false, false]);
    }

    #[test]
    fn pages_whose_mapping_was_not_known_are_new_again() {
        let mut known = LastScan::default();
        let all = [0, 512, 1024, 1536].map(|chunk| (chunk, [5].as_slice(), [5].as_slice()));
        scan(&mut known, &all, false);
        known.forget(Vpn(1000), 100);
        known.begin(false);
        let is_new = all.map(|(chunk, present, accessed)| {
            known.add(Vpn(chunk), bits(present), bits(accessed));
            known.is_new(Vpn(chunk + 5))
        });
        assert_eq!(is_new, [false, true, true, false]);
        assert_eq!(known.end(), Repeated { before: 4, again: 4 }, "they were accessed");
    }

    #[test]
    fn a_huge_page_is_new_in_its_first_scan_and_when_its_mapping_was_not_known() {
        let mut known = LastScan::default();
        let mut new = |forget: Option<(u64, u64)>, heads: &[u64]| -> Vec<u64> {
            forget.into_iter().for_each(|(start, pages)| known.forget(Vpn(start), pages));
            known.begin(false);
            let new = heads.iter().copied().filter(|head| known.add_huge(Vpn(*head))).collect();
            known.end();
            new
        };
        assert_eq!(new(None, &[512, 2048]), [512, 2048]);
        assert_eq!(new(None, &[0, 512, 1024, 2048]), [0, 1024]);
        assert_eq!(new(None, &[0, 2048]), [0; 0]);
        assert_eq!(new(None, &[0, 512, 2048]), [512], "split or gone in between");
        assert_eq!(new(Some((1000, 40)), &[0, 512, 2048]), [512], "the mapping covers a part");
        assert_eq!(new(Some((1024, 1024)), &[0, 512, 2048]), [0; 0], "and here none");
    }

    /// A scan that fails after one of two tables; a mapping that is read again; then both tables.
    #[test]
    fn a_scan_that_failed_half_way_leaves_what_it_found() {
        let mut known = LastScan::default();
        let both: [(u64, &[u64], &[u64]); 2] = [(0, &[1], &[1]), (512, &[1], &[1])];
        scan(&mut known, &both, false);
        known.begin(false);
        known.add(Vpn(0), bits(&[1]), bits(&[1]));
        known.forget(Vpn(512), 512);
        assert_eq!(scan(&mut known, &both, false).1, Repeated { before: 1, again: 1 });
        assert_eq!(scan(&mut known, &both, false).1, Repeated { before: 2, again: 2 });
    }

    #[test]
    fn what_is_kept_has_room_for_an_eighth_more_at_most() {
        let mut found = Found::default();
        for round in 0..4 {
            found.begin();
            for at in (0..10_000).map(Vpn) {
                assert_eq!(found.take(at, |at| *at).is_some(), round > 0);
                found.add(at);
            }
            found.end();
        }
        assert!(found.kept.len() == 10_000 && found.kept.capacity() < 12_000);
    }

    #[test]
    fn a_page_is_skipped_in_its_first_scan_alone() {
        let mut known = LastScan::default();
        let first = scan(&mut known, &[(0, &[1, 70], &[1]), (1024, &[5], &[])], true);
        assert!(first.0.is_empty(), "nothing is known before");
        let grown: [(u64, &[u64], &[u64]); 3] =
            [(0, &[1, 2, 70], &[1, 2]), (512, &[511], &[]), (1024, &[5], &[5])];
        assert_eq!(
            scan(&mut known, &grown, true),
            (vec![2, 1023], Repeated { before: 1, again: 1 })
        );
        assert_eq!(scan(&mut known, &grown, true), (vec![], Repeated { before: 2, again: 2 }));
        known.begin(false);
        known.add(Vpn(512), bits(&[3, 511]), bits(&[3]));
        assert_eq!((known.new_pages(), known.is_new(Vpn(515))), (bits(&[3]), true), "but counts");
        assert!(!known.skips(Vpn(515)));
        known.add(Vpn(1024), bits(&[5]), bits(&[5]));
        known.end();
        scan(&mut known, &grown, true);
        let other: [(u64, &[u64], &[u64]); 2] = [(512, &[0], &[0]), (1024, &[5, 63], &[])];
        assert_eq!(scan(&mut known, &other, false), (vec![], Repeated { before: 1, again: 0 }));
    }
}
