// SPDX-License-Identifier: Apache-2.0
//! Since when has a page been armed? One [`ArmingHistory`] per address space.
//!
//! The kernel's scan arms ranges; it skips pages that are already armed without a record of it. So the time
//! to fault starts with the *first* arming after the page's last fault, not with the last arming before the
//! fault: the latter would make every cold page look hot just after a scan.
//!
//! State is kept in blocks of one huge page, created when a page in it first faults: the last few armings of
//! the block, and for each page the number of armings of the block at the page's last fault.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use tierline_core::port::Vpn;
use tierline_core::unit::{BASE_PER_HUGE, Nanos};

/// Armings remembered per block. A time to fault over more scans is cut to them: a lower bound for a cold
/// page, and a bounded error for a hot page that was moved here meanwhile.
const KEPT: usize = 4;

/// Base pages of a block.
const PAGES: usize = 512;
const _: () = assert!(BASE_PER_HUGE == PAGES as u64);

/// Armings of a space kept for blocks without a fault so far; at 64 MiB each, 16 GiB.
const RECENT: usize = 256;

/// A range that the kernel armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArmedRange {
    /// The time of arming.
    pub time: Nanos,
    /// The first page.
    pub start: Vpn,
    /// The page after the last.
    pub end: Vpn,
}

impl ArmedRange {
    fn covers(&self, page: Vpn) -> bool {
        (self.start..self.end).contains(&page)
    }

    fn touches(&self, block: u64) -> bool {
        self.start.0 < (block + 1) * BASE_PER_HUGE && self.end.0 > block * BASE_PER_HUGE
    }
}

/// For each page the block's number of armings, modulo 2^16, at its last fault. After 65,536 armings without
/// a fault, one page in 16,384 is mistaken for one of the last four scans.
enum Seen {
    Huge(u16),
    Base(Box<[u16; PAGES]>),
}

struct Block {
    arms: [Option<ArmedRange>; KEPT],
    /// The number of armings so far, modulo 2^16; the next goes to this slot modulo `KEPT`.
    count: u16,
    seen: Seen,
}

impl Block {
    fn new(arms: impl Iterator<Item = ArmedRange>) -> Self {
        let mut block = Self { arms: [None; KEPT], count: 0, seen: Seen::Huge(0) };
        arms.for_each(|arm| block.arm(arm));
        block
    }

    fn arm(&mut self, arm: ArmedRange) {
        self.arms[usize::from(self.count) % KEPT] = Some(arm);
        self.count = self.count.wrapping_add(1);
    }

    /// The first arming of `page` since its last fault.
    fn waiting_since(&self, page: Vpn) -> Option<Nanos> {
        let seen = match &self.seen {
            Seen::Huge(seen) => *seen,
            Seen::Base(pages) => pages[offset(page)],
        };
        let new = usize::from(self.count.wrapping_sub(seen)).min(KEPT);
        let from = self.count.wrapping_sub(u16::try_from(new).unwrap_or_default());
        let slots = (0..new).map(|k| usize::from(from).wrapping_add(k) % KEPT);
        let arms = slots.filter_map(|slot| self.arms[slot]);
        arms.into_iter().find(|arm| arm.covers(page)).map(|arm| arm.time)
    }

    fn faulted(&mut self, page: Vpn, huge: bool) {
        if huge {
            self.seen = Seen::Huge(self.count);
            return;
        }
        if let Seen::Huge(all) = self.seen {
            self.seen = Seen::Base(Box::new([all; PAGES]));
        }
        if let Seen::Base(pages) = &mut self.seen {
            pages[offset(page)] = self.count;
        }
    }
}

fn offset(page: Vpn) -> usize {
    (page.0 % BASE_PER_HUGE) as usize
}

/// The armings of one address space.
#[derive(Default)]
pub struct ArmingHistory {
    blocks: FxHashMap<u64, Block>,
    recent: VecDeque<ArmedRange>,
    passes: u64,
}

impl ArmingHistory {
    /// Records that a range was armed. Calls must be in the order of time, between those of `fault`.
    pub fn arm(&mut self, arm: ArmedRange) {
        // Memory is armed by ascending address.
        self.passes += u64::from(self.recent.back().is_some_and(|last| arm.start < last.start));
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(arm);
        let blocks = arm.start.0 / BASE_PER_HUGE..arm.end.0.div_ceil(BASE_PER_HUGE);
        // Iterate over the shorter of the range and the known blocks (a range may be sparse and very large).
        if blocks.end.saturating_sub(blocks.start) <= self.blocks.len() as u64 {
            for block in blocks {
                if let Some(block) = self.blocks.get_mut(&block) {
                    block.arm(arm);
                }
            }
        } else {
            let touched = self.blocks.iter_mut().filter(|(block, _)| arm.touches(**block));
            touched.for_each(|(_, block)| block.arm(arm));
        }
    }

    /// Records a fault of `page` at `time` and returns its time to fault. `None` if no arming was observed since
    /// its last fault.
    pub fn fault(&mut self, page: Vpn, huge: bool, time: Nanos) -> Option<Nanos> {
        let number = page.0 / BASE_PER_HUGE;
        let recent = &self.recent;
        let block = self.blocks.entry(number).or_insert_with(|| {
            Block::new(recent.iter().copied().filter(|arm| arm.touches(number)))
        });
        let since = block.waiting_since(page);
        block.faulted(page, huge);
        since.map(|since| time.saturating_sub(since))
    }

    /// Passes over the space that have ended.
    pub const fn passes(&self) -> u64 {
        self.passes
    }

    /// Approximate bytes used.
    pub fn footprint(&self) -> usize {
        let pages =
            self.blocks.values().filter(|block| matches!(block.seen, Seen::Base(_))).count();
        self.blocks.capacity() * size_of::<(u64, Block)>()
            + pages * size_of::<[u16; PAGES]>()
            + self.recent.capacity() * size_of::<ArmedRange>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(ms: u64, start: u64, end: u64) -> ArmedRange {
        ArmedRange { time: Nanos::from_millis(ms), start: Vpn(start), end: Vpn(end) }
    }

    fn fault(arming: &mut ArmingHistory, ms: u64, page: u64) -> Option<u64> {
        let waited = arming.fault(Vpn(page), false, Nanos::from_millis(ms));
        waited.map(|nanos| nanos.0 / 1_000_000)
    }

    #[test]
    fn the_time_to_fault_starts_with_the_first_arming_after_the_last_fault() {
        let mut arming = ArmingHistory::default();
        arming.arm(arm(100, 0, 16384));
        assert_eq!(fault(&mut arming, 110, 5), Some(10), "hot");
        arming.arm(arm(400, 0, 16384));
        arming.arm(arm(700, 0, 16384));
        assert_eq!(fault(&mut arming, 710, 5), Some(310), "armed at 400, and skipped at 700");
        assert_eq!(fault(&mut arming, 711, 6), Some(611), "never accessed before");
        assert_eq!(fault(&mut arming, 712, 6), None, "not armed since");
    }

    #[test]
    fn only_armed_pages_have_a_time_to_fault() {
        let mut arming = ArmingHistory::default();
        arming.arm(arm(100, 512, 600));
        assert_eq!(fault(&mut arming, 110, 600), None);
        assert_eq!(fault(&mut arming, 110, 511), None);
        assert_eq!(fault(&mut arming, 110, 599), Some(10));
        arming.arm(arm(120, 600, 1024));
        assert_eq!(fault(&mut arming, 130, 600), Some(10), "two mappings in one block");
    }

    #[test]
    fn a_long_time_to_fault_is_cut_to_the_armings_kept() {
        let mut arming = ArmingHistory::default();
        arming.arm(arm(0, 0, 512));
        assert_eq!(fault(&mut arming, 1, 0), Some(1));
        (1..=10).for_each(|k| arming.arm(arm(k * 100, 0, 512)));
        assert_eq!(fault(&mut arming, 1050, 0), Some(350));
    }

    #[test]
    fn a_pass_ends_when_arming_starts_again_below() {
        let mut arming = ArmingHistory::default();
        for (start, passes) in [(0, 0), (512, 0), (4096, 0), (0, 1), (512, 1), (256, 2)] {
            arming.arm(arm(1, start, start + 256));
            assert_eq!(arming.passes(), passes, "from {start}");
        }
    }

    #[test]
    fn a_huge_page_faults_as_a_whole_and_its_parts_keep_that_after_a_split() {
        let mut arming = ArmingHistory::default();
        arming.arm(arm(100, 0, 1024));
        let waited = arming.fault(Vpn(700), true, Nanos::from_millis(130));
        assert_eq!(waited, Some(Nanos::from_millis(30)));
        arming.arm(arm(200, 0, 1024));
        assert_eq!(fault(&mut arming, 210, 513), Some(10), "not armed since 100");
        assert_eq!(fault(&mut arming, 220, 514), Some(20));
    }

    #[test]
    fn large_ranges_cost_no_more_than_the_known_blocks() {
        let mut arming = ArmingHistory::default();
        for k in 0..1000 {
            arming.arm(arm(k, 0, 1 << 36));
        }
        assert_eq!(fault(&mut arming, 1000, 1 << 35), Some(4));
        arming.arm(arm(1001, 0, 1 << 36));
        assert_eq!(fault(&mut arming, 1005, 1 << 35), Some(4));
        assert!(arming.footprint() < 20_000, "{}", arming.footprint());
    }
}
