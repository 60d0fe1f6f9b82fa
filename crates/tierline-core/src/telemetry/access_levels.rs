// SPDX-License-Identifier: Apache-2.0
//! Least accessed pages: in how many of the scanner's last eight scans a page was accessed.
//!
//! A page's history has one bit per scan, set by a hint fault in it; the number of bits set for the last eight
//! finished scans is its level, 0 to 8. A new page has all bits set. The pages of a tier are listed by level:
//! those just accessed at the end, those whose level fell at the front. Each scan shifts all histories; a
//! page's history is shifted when the page is next visited, by the scans since, and some listed pages are
//! visited every tick.
//!
//! Source: AutoTiering (ATC 2021) and its public code, which shifts at the time of the scan.

use crate::lists::residents::Residents;
use crate::lists::review::Review;
use crate::page::{PageIdx, PageTable, page_word};
use crate::port::PageKind;
use crate::tier::{TierId, Tiers};

page_word! {
    /// The scans in which a page was accessed.
    LevelWord
}

/// Number of levels.
const LEVELS: u8 = 9;
/// One bit for the present scan, and above it eight for the scans before.
const HISTORY: u64 = 0x1ff;
const PASS_SHIFT: u32 = 9;
const PASS: u64 = 0xffff;
/// Set in the word of a page with a history.
const KNOWN: u64 = 1 << 25;

/// Pages by tier and level.
#[derive(Debug)]
pub struct AccessLevels {
    residents: Residents,
    pass: u64,
    review: Review,
}

impl Default for AccessLevels {
    fn default() -> Self {
        Self { residents: Residents::new(LEVELS), pass: 0, review: Review::default() }
    }
}

impl AccessLevels {
    /// Starts a new scan, which ages all histories by one.
    pub fn start_scan(&mut self, tiers: &Tiers) {
        self.pass += 1;
        self.review = Review::of(&self.residents, tiers, 0..LEVELS);
    }

    /// Takes in moves and new pages.
    pub fn learn(&mut self, pages: &mut PageTable, touched: &[PageIdx]) {
        self.residents.finish_moves(pages);
        for &page in touched {
            if pages.heat::<LevelWord>(page).0 & KNOWN == 0 {
                self.note(pages, page, HISTORY);
            }
            if self.residents.class(pages, page).is_none() {
                let level = self.level(pages, page);
                self.residents.put(pages, page, level);
            }
        }
    }

    /// Records an access in this scan. Returns the page's level.
    pub fn accessed(&mut self, pages: &mut PageTable, page: PageIdx) -> u8 {
        let history = self.history(pages, page) | 1;
        self.note(pages, page, history);
        let level = level(history);
        self.residents.put(pages, page, level);
        level
    }

    /// Reviews the levels of `count` listed pages.
    pub fn review(&mut self, pages: &mut PageTable, count: u32) {
        for _ in 0..count {
            let Some(page) = self.review.next(&mut self.residents, pages) else { return };
            let (was, now) = (self.residents.class(pages, page), self.level(pages, page));
            if was == Some(now) {
                self.residents.put(pages, page, now); // to the end of its list, so that the next page follows
            } else {
                self.residents.put_first(pages, page, now);
            }
        }
    }

    /// The page of the lowest level in a tier, with that level.
    pub fn least(&mut self, pages: &mut PageTable, tier: TierId) -> Option<(PageIdx, u8)> {
        for listed in 0..LEVELS {
            while let Some(page) = self.residents.first(pages, tier, listed) {
                let level = self.level(pages, page);
                if level == listed {
                    return Some((page, level));
                }
                self.residents.put_first(pages, page, level); // aged since it was listed
                if level < listed {
                    return Some((page, level));
                }
            }
        }
        None
    }

    /// The file page of the lowest level in a tier, or of one near it if `checks` of them do not suffice; each
    /// page checked is deducted from `checks`.
    pub fn least_file(
        &mut self,
        pages: &mut PageTable,
        tier: TierId,
        checks: &mut u32,
    ) -> Option<PageIdx> {
        for listed in 0..LEVELS {
            for _ in 0..self.residents.len(tier, listed) {
                *checks = checks.checked_sub(1)?;
                let Some(page) = self.residents.first(pages, tier, listed) else { break };
                let is_file = pages.locate(page).is_some_and(|at| at.kind == PageKind::File);
                let level = self.level(pages, page);
                if is_file && level <= listed {
                    return Some(page);
                }
                self.residents.put(pages, page, level); // to the end of its list, so that the next page follows
            }
        }
        None
    }

    /// Removes a page that is about to move.
    pub fn start_move(&mut self, pages: &mut PageTable, page: PageIdx) {
        let level = self.level(pages, page);
        self.residents.start_move(pages, page, level);
    }

    /// The page's present level.
    pub fn level(&self, pages: &PageTable, page: PageIdx) -> u8 {
        level(self.history(pages, page))
    }

    fn note(&self, pages: &mut PageTable, page: PageIdx, history: u64) {
        pages.set_heat(page, LevelWord(KNOWN | (self.pass & PASS) << PASS_SHIFT | history));
    }

    fn history(&self, pages: &PageTable, page: PageIdx) -> u64 {
        let word = pages.heat::<LevelWord>(page).0;
        if word & KNOWN == 0 {
            return HISTORY;
        }
        let passes = self.pass.wrapping_sub(word >> PASS_SHIFT) & PASS;
        (word & HISTORY) << passes.min(9) & HISTORY
    }
}

#[expect(clippy::cast_possible_truncation, reason = "at most eight bits are set")]
fn level(history: u64) -> u8 {
    (history >> 1).count_ones() as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::all_fast;
    use crate::tier::{NodeId, Tier};
    use crate::unit::Bytes;

    fn new(count: u64) -> (PageTable, Vec<PageIdx>, AccessLevels, Tiers) {
        let (mut pages, all) = all_fast(count);
        let mut table = AccessLevels::default();
        table.learn(&mut pages, &all);
        let tier = Tier {
            name: "fast".into(),
            nodes: vec![NodeId(0)],
            capacity: Bytes::from_base_pages(count),
            latency: None,
            bandwidth: None,
        };
        (pages, all, table, Tiers(vec![tier]))
    }

    /// By hand: a new page is 11111111; accessed in scans 1, 3 and 4 it is, at the start of scans 1 to 6,
    /// 11111111, 11111111, 11111110, 11111101, 11111011 and 11110110.
    #[test]
    fn a_level_is_the_number_of_the_last_eight_scans_with_an_access() {
        let (mut pages, all, mut table, tiers) = new(2);
        assert_eq!(table.level(&pages, all[0]), 8, "new");
        let mut levels = Vec::new();
        for pass in 1..=6 {
            table.start_scan(&tiers);
            levels.push(table.level(&pages, all[0]));
            if [1, 3, 4].contains(&pass) {
                table.accessed(&mut pages, all[0]);
            }
        }
        assert_eq!(levels, [8, 8, 7, 7, 7, 6]);
        assert_eq!(table.level(&pages, all[1]), 3, "not accessed in scans 1 to 5");
        (0..9).for_each(|_| table.start_scan(&tiers));
        assert_eq!(table.level(&pages, all[1]), 0);
    }

    #[test]
    fn the_least_accessed_page_is_found_however_old_its_history() {
        let (mut pages, all, mut table, tiers) = new(3);
        for _ in 0..4 {
            table.start_scan(&tiers);
            table.accessed(&mut pages, all[0]);
            table.accessed(&mut pages, all[2]);
        }
        assert_eq!(
            table.least(&mut pages, TierId::FAST),
            Some((all[1], 5)),
            "no access in scans 1 to 3"
        );
        table.accessed(&mut pages, all[1]);
        table.start_scan(&tiers);
        table.accessed(&mut pages, all[0]);
        table.start_scan(&tiers);
        table.review(&mut pages, 10);
        assert_eq!(
            table.least(&mut pages, TierId::FAST),
            Some((all[1], 4)),
            "no access in scans 1 to 3 and 5"
        );
        table.start_move(&mut pages, all[1]);
        assert_eq!(table.least(&mut pages, TierId::FAST), Some((all[2], 7)), "no access in scan 5");
    }
}
