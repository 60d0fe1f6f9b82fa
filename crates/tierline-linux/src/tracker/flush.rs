// SPDX-License-Identifier: Apache-2.0
//! Flushes the TLB after accessed bits were cleared.
//!
//! Clearing accessed bits does not flush the TLB. A page whose entry stays there is read and written without
//! its bit being set again: it looks idle. A TLB that covers a few megabytes (base pages) replaces its
//! entries within any window; one that covers gigabytes (huge pages on a real processor, anything in an
//! emulator) may not, on a CPU that runs one program and nothing else. On one CPU the tracker's own
//! wake-ups flush an emulated TLB; a real processor keeps it across them (PCID).
//!
//! User space has no call for a flush. The cheapest way found is to move one page to another node: for a
//! process that runs on other CPUs, the kernel defers the flush of a move and then flushes each of those
//! CPUs completely. So one *cold* base page is moved to the next tier, and back at the next flush: at most
//! one page per process is in another tier than the manager believes. Alternatives: `MADV_COLD` flushes,
//! but only for pages whose accessed bit is set, and no bit is set after clearing; `mprotect` works only on
//! the caller's own memory; clearing soft-dirty bits flushes, but write-protects everything.
//!
//! Trials decide whether flushes are needed: sixteen flushed windows are followed by windows without a flush.
//! If one of those finds a fifth fewer pages, the next sixteen are flushed again; otherwise one in seventeen
//! is. A program that just became idle looks the same, and is flushed for sixteen windows without need.
//!
//! Measured in the lab, two emulated CPUs, the program alone on one of them, windows of 2 and 20 ms, 60
//! each, on 6.12 and 7.2. Of a hot set of 4 MiB in base pages, windows find 0 % without flushes, 93 % with
//! this rule, 98 % with a flush in each window. Of one of 128 MiB in huge pages they find 1 to 5 % (once
//! 87 %), 96 %, and 98 to 100 %. On one emulated CPU all of it is found without flushes. A flush costs 3 to
//! 5 ms there with two emulated CPUs, as it interrupts both; on one, less than the noise of arming.
//! For a hot set of 128 MiB in *base* pages, more is found without flushes (82 and 96 %) than with (23 and
//! 68 %): it overflows the emulated TLB, and a flush slows the program down for the length of a window.

use tierline_core::port::{PageSize, SpaceId, Vpn};
use tierline_core::tier::{NodeId, TierId, Tiers};

use crate::mover::MoveSyscall;
use crate::pagetable::MappedPage;

/// Only pages that no other process maps.
const MPOL_MF_MOVE: i32 = 1 << 1;
/// Windows between two trials, and flushed windows after a trial shows the need.
const TRIAL: u64 = 16;
/// The least number of base pages that a flushed window must find more to show the need.
const MARGIN: u64 = 64;

/// When to flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flush {
    /// Never.
    Never,
    /// If trials show that it is needed.
    #[default]
    Auto,
    /// After every clearing.
    Always,
}

/// Decides whether flushes are needed for one process.
#[derive(Clone, Copy, Debug)]
pub struct FlushNeed {
    /// Windows still to be flushed.
    left: u64,
    /// Windows since the last one with a flush.
    bare: u64,
    /// Pages found by the last window with a flush.
    with: u64,
    /// Pages found by the previous window, if it had no flush.
    without: Option<u64>,
}

impl Default for FlushNeed {
    fn default() -> Self {
        Self { left: 0, bare: TRIAL - 1, with: 0, without: None }
    }
}

impl FlushNeed {
    /// True if the coming window needs a flush.
    pub fn needs_flush(&self, flush: Flush) -> bool {
        match flush {
            Flush::Never => false,
            Flush::Always => true,
            Flush::Auto => self.left > 0 || self.bare >= TRIAL,
        }
    }

    /// Records the base pages that a window found, and whether it was flushed.
    pub fn record(&mut self, accessed: u64, flushed: bool) {
        if flushed {
            self.left = self.left.saturating_sub(1);
            self.bare = 0;
            self.with = accessed;
        } else {
            self.bare += 1;
            self.without = Some(accessed);
        }
        // TLB entries accumulate over several windows: each without a flush is compared with the last with one.
        if self.without.is_some_and(|without| self.with / 5 * 4 > without.saturating_add(MARGIN)) {
            self.left = TRIAL;
        }
        if flushed {
            self.without = None;
        }
    }
}

/// A cold page that may change its tier for a flush: of the slowest tier if possible.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlushPage {
    found: Option<(Vpn, TierId)>,
    /// The page that is in another tier for a flush, and the tier it belongs to.
    lent: Option<(Vpn, TierId)>,
    /// Pages up to this one were tried and did not move.
    after: u64,
}

impl FlushPage {
    /// True if another page would be better than the one found. `slowest` is the machine's last tier.
    #[inline]
    pub fn is_wanted(&self, slowest: TierId) -> bool {
        self.lent.is_none() && self.found.is_none_or(|(_, tier)| tier < slowest)
    }

    /// Considers a page of a scan.
    pub fn consider(&mut self, leaf: MappedPage, tier: TierId) {
        let better = self.found.is_none_or(|(_, found)| tier > found);
        let cold = leaf.size == PageSize::Base && !leaf.accessed && leaf.writable && leaf.dirty;
        if better && cold && leaf.vpn.0 > self.after {
            self.found = Some((leaf.vpn, tier));
        }
    }

    /// Flushes by moving the page found to another tier, or the moved page back. `false` if there is none, or
    /// if the move failed.
    pub fn flush(&mut self, kernel: &impl MoveSyscall, space: SpaceId, tiers: &Tiers) -> bool {
        if let Some((vpn, home)) = self.lent.take() {
            let node = tiers.0.get(home.index()).and_then(|tier| tier.nodes.first());
            let back = node.is_some_and(|node| moved(kernel, space, vpn, *node));
            self.found = back.then_some((vpn, home)).or(self.found);
            return back;
        }
        let Some((vpn, home)) = self.found.take() else {
            self.after = 0;
            return false;
        };
        let gone = other(tiers, home).is_some_and(|node| moved(kernel, space, vpn, node));
        if gone {
            self.lent = Some((vpn, home));
        } else {
            self.after = vpn.0;
        }
        gone
    }
}

/// Moves one page; `false` if it did not arrive.
fn moved(kernel: &impl MoveSyscall, space: SpaceId, vpn: Vpn, node: NodeId) -> bool {
    let (mut status, nodes) = ([i32::MIN], [i32::from(node.0)]);
    let pages = [vpn.address()];
    let answer = kernel.move_pages(space.0, &pages, Some(&nodes), &mut status, MPOL_MF_MOVE);
    answer.is_ok() && status == nodes
}

/// A node of the next faster tier; for the fastest tier, of the next slower.
fn other(tiers: &Tiers, tier: TierId) -> Option<NodeId> {
    let at = if tier == TierId::FAST { 1 } else { tier.index() - 1 };
    tiers.0.get(at)?.nodes.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pagemap::tests::tiers;
    use std::cell::RefCell;

    #[derive(Default)]
    struct Fake {
        moves: RefCell<Vec<(u64, i32)>>,
        stuck: Option<u64>,
    }

    impl MoveSyscall for Fake {
        fn move_pages(
            &self,
            _: u32,
            pages: &[u64],
            nodes: Option<&[i32]>,
            status: &mut [i32],
            _: i32,
        ) -> Result<u64, i32> {
            status[0] = nodes.map_or(-1, |nodes| nodes[0]);
            self.moves.borrow_mut().push((pages[0], status[0]));
            if self.stuck == Some(pages[0]) {
                status[0] = -libc::EACCES;
            }
            Ok(0)
        }
    }

    fn leaf(vpn: u64) -> MappedPage {
        let (vpn, size) = (Vpn(vpn), PageSize::Base);
        MappedPage { vpn, pfn: 0, size, accessed: false, writable: true, dirty: true }
    }

    fn flush_once(kernel: &Fake, spare: &mut FlushPage) -> bool {
        spare.consider(leaf(1), TierId(0));
        spare.consider(MappedPage { accessed: true, ..leaf(2) }, TierId(1));
        spare.consider(leaf(3), TierId(1));
        spare.consider(leaf(4), TierId(1));
        spare.flush(kernel, SpaceId(1), &tiers())
    }

    #[test]
    fn a_cold_slow_page_is_moved_and_moved_back() {
        let (kernel, mut spare) = (Fake::default(), FlushPage::default());
        assert!((0..3).all(|_| flush_once(&kernel, &mut spare)));
        let moves: Vec<_> = kernel.moves.borrow().iter().map(|(at, to)| (at / 4096, *to)).collect();
        assert_eq!(moves, [(3, 0), (3, 1), (3, 0)]);
    }

    #[test]
    fn after_a_page_that_cannot_be_moved_the_next_is_tried() {
        let kernel = Fake { stuck: Some(3 * 4096), ..Fake::default() };
        let mut spare = FlushPage::default();
        assert!(!flush_once(&kernel, &mut spare));
        assert!(flush_once(&kernel, &mut spare));
        assert_eq!(kernel.moves.borrow().last(), Some(&(4 * 4096, 0)));
    }

    #[test]
    fn a_need_is_found_by_trial_and_lasts_a_while() {
        let mut need = FlushNeed::default();
        assert!(!need.needs_flush(Flush::Auto), "the first window has no flush");
        need.record(500, false);
        assert!(
            need.needs_flush(Flush::Auto) && !need.needs_flush(Flush::Never),
            "the second is a trial with a flush"
        );
        need.record(1000, true);
        for _ in 0..TRIAL {
            assert!(need.needs_flush(Flush::Auto), "the flushed window found far more");
            need.record(1000, true);
        }
        assert!(!need.needs_flush(Flush::Auto), "a trial without a flush");
        need.record(950, false);
        (1..TRIAL).for_each(|_| {
            assert!(!need.needs_flush(Flush::Auto), "it found as much");
            need.record(950, false);
        });
        assert!(need.needs_flush(Flush::Auto), "a trial with a flush");
        need.record(1000, true);
        assert!(!need.needs_flush(Flush::Auto) && need.needs_flush(Flush::Always));
    }
}
