// SPDX-License-Identifier: Apache-2.0
//! Since when has a page been waiting for its fault? One [`Arming`] an address space.
//!
//! The kernel's scan arms ranges; it passes over pages that are armed already without a sign. So a
//! page's wait begins with the *first* arming after its last fault, not with the last one before the
//! fault: the latter would make every cold page that the scan has just passed look hot.
//!
//! Kept by blocks of one huge page, made when a page in it first faults: the last few armings of the
//! block, and for each page how many armings the block had seen when it last faulted.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use tierline_core::port::Vpn;
use tierline_core::unit::{BASE_PER_HUGE, Nanos};

/// Armings remembered of a block. A wait over more scans than this is cut to them: a lower bound for
/// a cold page, and a bounded error for one that was moved here meanwhile, hot all along.
const KEPT: usize = 4;

/// Base pages of a block.
const PAGES: usize = 512;
const _: () = assert!(BASE_PER_HUGE == PAGES as u64);

/// Armings of a space kept for blocks in which no page has faulted yet; at 64 MiB each, 16 GiB.
const RECENT: usize = 256;

/// A range that the kernel armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arm {
    /// When.
    pub time: Nanos,
    /// The first page.
    pub start: Vpn,
    /// The page after the last.
    pub end: Vpn,
}

impl Arm {
    fn covers(&self, page: Vpn) -> bool {
        (self.start..self.end).contains(&page)
    }

    fn touches(&self, block: u64) -> bool {
        self.start.0 < (block + 1) * BASE_PER_HUGE && self.end.0 > block * BASE_PER_HUGE
    }
}

/// For each page the block's number of armings, modulo 2^16, when it last faulted. After 65,536
/// armings without a fault one in 16,384 pages is taken for one of the last four scans.
enum Seen {
    Huge(u16),
    Base(Box<[u16; PAGES]>),
}

struct Block {
    arms: [Option<Arm>; KEPT],
    /// How many armings there were so far, modulo 2^16; the next goes to this slot modulo `KEPT`.
    count: u16,
    seen: Seen,
}

impl Block {
    fn new(arms: impl Iterator<Item = Arm>) -> Self {
        let mut block = Self { arms: [None; KEPT], count: 0, seen: Seen::Huge(0) };
        arms.for_each(|arm| block.arm(arm));
        block
    }

    fn arm(&mut self, arm: Arm) {
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
pub struct Arming {
    blocks: FxHashMap<u64, Block>,
    recent: VecDeque<Arm>,
}

impl Arming {
    /// Hears that a range was armed. Calls come in the order of time, between those of `fault`.
    pub fn arm(&mut self, arm: Arm) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(arm);
        let blocks = arm.start.0 / BASE_PER_HUGE..arm.end.0.div_ceil(BASE_PER_HUGE);
        // Whichever is shorter: the range, or what is known at all (a range may be sparse and vast).
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

    /// For how long `page` had been waiting for the fault it took at `time`. `None` if it was not
    /// seen being armed since its last fault.
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

    /// Bytes that this takes, about.
    pub fn footprint(&self) -> usize {
        let pages =
            self.blocks.values().filter(|block| matches!(block.seen, Seen::Base(_))).count();
        self.blocks.capacity() * size_of::<(u64, Block)>()
            + pages * size_of::<[u16; PAGES]>()
            + self.recent.capacity() * size_of::<Arm>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(ms: u64, start: u64, end: u64) -> Arm {
        Arm { time: Nanos::from_millis(ms), start: Vpn(start), end: Vpn(end) }
    }

    fn fault(arming: &mut Arming, ms: u64, page: u64) -> Option<u64> {
        let waited = arming.fault(Vpn(page), false, Nanos::from_millis(ms));
        waited.map(|nanos| nanos.0 / 1_000_000)
    }

    #[test]
    fn the_wait_begins_with_the_first_arming_after_the_last_fault() {
        let mut arming = Arming::default();
        arming.arm(arm(100, 0, 16384));
        assert_eq!(fault(&mut arming, 110, 5), Some(10), "hot");
        arming.arm(arm(400, 0, 16384));
        arming.arm(arm(700, 0, 16384));
        assert_eq!(fault(&mut arming, 710, 5), Some(310), "armed at 400, and passed over at 700");
        assert_eq!(fault(&mut arming, 711, 6), Some(611), "never touched before");
        assert_eq!(fault(&mut arming, 712, 6), None, "not armed since");
    }

    #[test]
    fn only_what_was_armed_waits() {
        let mut arming = Arming::default();
        arming.arm(arm(100, 512, 600));
        assert_eq!(fault(&mut arming, 110, 600), None);
        assert_eq!(fault(&mut arming, 110, 511), None);
        assert_eq!(fault(&mut arming, 110, 599), Some(10));
        arming.arm(arm(120, 600, 1024));
        assert_eq!(fault(&mut arming, 130, 600), Some(10), "two mappings in one block");
    }

    #[test]
    fn a_long_wait_is_cut_to_the_armings_kept() {
        let mut arming = Arming::default();
        arming.arm(arm(0, 0, 512));
        assert_eq!(fault(&mut arming, 1, 0), Some(1));
        (1..=10).for_each(|k| arming.arm(arm(k * 100, 0, 512)));
        assert_eq!(fault(&mut arming, 1050, 0), Some(350));
    }

    #[test]
    fn a_huge_page_waits_as_a_whole_and_its_parts_after_a_split_know_it() {
        let mut arming = Arming::default();
        arming.arm(arm(100, 0, 1024));
        let waited = arming.fault(Vpn(700), true, Nanos::from_millis(130));
        assert_eq!(waited, Some(Nanos::from_millis(30)));
        arming.arm(arm(200, 0, 1024));
        assert_eq!(fault(&mut arming, 210, 513), Some(10), "not since 100");
        assert_eq!(fault(&mut arming, 220, 514), Some(20));
    }

    #[test]
    fn vast_ranges_cost_no_more_than_the_blocks_known() {
        let mut arming = Arming::default();
        for k in 0..1000 {
            arming.arm(arm(k, 0, 1 << 36));
        }
        assert_eq!(fault(&mut arming, 1000, 1 << 35), Some(4));
        arming.arm(arm(1001, 0, 1 << 36));
        assert_eq!(fault(&mut arming, 1005, 1 << 35), Some(4));
        assert!(arming.footprint() < 20_000, "{}", arming.footprint());
    }
}
