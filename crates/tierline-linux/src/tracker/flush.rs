// SPDX-License-Identifier: Apache-2.0
//! Making the processor look at the page tables again.
//!
//! Clearing accessed bits does not flush the TLB. A page that stays cached there is read and written
//! without its bit being set again: it looks idle. A TLB that covers a few megabytes (base pages)
//! forgets within any window; one that covers gigabytes (huge pages on a real processor, anything in an
//! emulator) may not, on a CPU that runs one program and nothing else. On one CPU the tracker's own
//! wake-ups flush an emulated TLB; a real processor keeps it across them (PCID).
//!
//! User space has no call for a flush. The cheapest legitimate one found: moving one page to another
//! node. On a process that runs on other CPUs the kernel defers the flush of a move and then flushes
//! each of those CPUs wholly. So one *cold* base page goes to the next tier, and home again at the next
//! flush: at most one page a process is away from where the manager believes it. `MADV_COLD` flushes
//! too, but only between pages that are young, which none is after a clearing; `mprotect` and its kin
//! work on oneself alone; soft-dirty clearing flushes, and write-protects everything.
//!
//! Whether it is needed is found out by trying: after sixteen flushed windows come some without. As soon
//! as one of those sees a fifth less, the next sixteen are flushed again; else every seventeenth is.
//! A program that just became calm looks the same, and is flushed for sixteen windows in vain.
//!
//! Measured in the lab, two emulated CPUs, the program alone on one of them, windows of 2 and 20 ms, 60
//! each, on 6.12 and 7.2. Without flushes 0 % of a hot set of 4 MiB in base pages is seen, by this rule
//! 93 %, with a flush in each window 98 %. Of one of 128 MiB in huge pages 1 to 5 % (once 87 %), 96 %,
//! and 98 to 100 %. On one emulated CPU all of it is seen without. A flush costs 3 to 5 ms there, as two
//! emulated CPUs must hear of it; on one it is lost in the noise of arming.
//! A hot set of 128 MiB in *base* pages is seen better without (82 and 96 %) than with (23 and 68 %):
//! it overflows the emulated TLB, and a flush slows the program down for the length of a window.

use tierline_core::port::{PageSize, SpaceId, Vpn};
use tierline_core::tier::{NodeId, TierId, Tiers};

use crate::mover::MoveSyscall;
use crate::pagetable::Leaf;

/// Only pages that no other process maps.
const MPOL_MF_MOVE: i32 = 1 << 1;
/// Windows between two trials, and windows that a need lasts.
const TRIAL: u64 = 16;
/// Base pages that a flushed window must see more for the need to be believed.
const MARGIN: u64 = 64;

/// When to flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flush {
    /// Not at all.
    Never,
    /// Where trials show that it is needed.
    #[default]
    Auto,
    /// After every clearing.
    Always,
}

/// Finds out whether flushes are needed for one process.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Windows that will be flushed yet.
    left: u64,
    /// Windows without a flush since the last one with.
    bare: u64,
    /// What the last window with a flush saw.
    with: u64,
    /// What the last window without one saw, where that was the window before.
    without: Option<u64>,
}

impl Default for Need {
    fn default() -> Self {
        Self { left: 0, bare: TRIAL - 1, with: 0, without: None }
    }
}

impl Need {
    /// Whether the coming window wants a flush.
    pub fn is_there(&self, flush: Flush) -> bool {
        match flush {
            Flush::Never => false,
            Flush::Always => true,
            Flush::Auto => self.left > 0 || self.bare >= TRIAL,
        }
    }

    /// Hears what a window saw, in base pages, and whether it was flushed.
    pub fn saw(&mut self, accessed: u64, flushed: bool) {
        if flushed {
            self.left = self.left.saturating_sub(1);
            self.bare = 0;
            self.with = accessed;
        } else {
            self.bare += 1;
            self.without = Some(accessed);
        }
        // Pages settle in a TLB over several windows: each without a flush is held against the last with.
        if self.without.is_some_and(|without| self.with / 5 * 4 > without.saturating_add(MARGIN)) {
            self.left = TRIAL;
        }
        if flushed {
            self.without = None;
        }
    }
}

/// A cold page that may change its tier for a flush: one of the slowest tier where there is one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spare {
    found: Option<(Vpn, TierId)>,
    /// The page that is away, and the tier it belongs to.
    lent: Option<(Vpn, TierId)>,
    /// Pages up to here were tried and would not move.
    after: u64,
}

impl Spare {
    /// Whether another page would be better than the one found. `slowest` is the machine's last tier.
    #[inline]
    pub fn is_wanted(&self, slowest: TierId) -> bool {
        self.lent.is_none() && self.found.is_none_or(|(_, tier)| tier < slowest)
    }

    /// Looks at a page of a scan.
    pub fn consider(&mut self, leaf: Leaf, tier: TierId) {
        let better = self.found.is_none_or(|(_, found)| tier > found);
        let cold = leaf.size == PageSize::Base && !leaf.accessed && leaf.writable && leaf.dirty;
        if better && cold && leaf.vpn.0 > self.after {
            self.found = Some((leaf.vpn, tier));
        }
    }

    /// Moves the page that was found, or the one that is away home, and with that flushes. `false`
    /// where there is none, or it would not move.
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

/// Moves one page; `false` if it is not there afterwards.
fn moved(kernel: &impl MoveSyscall, space: SpaceId, vpn: Vpn, node: NodeId) -> bool {
    let (mut status, nodes) = ([i32::MIN], [i32::from(node.0)]);
    let pages = [vpn.address()];
    let answer = kernel.move_pages(space.0, &pages, Some(&nodes), &mut status, MPOL_MF_MOVE);
    answer.is_ok() && status == nodes
}

/// A node of the next tier up, or down from the fastest.
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

    fn leaf(vpn: u64) -> Leaf {
        let (vpn, size) = (Vpn(vpn), PageSize::Base);
        Leaf { vpn, pfn: 0, size, accessed: false, writable: true, dirty: true }
    }

    fn flush_once(kernel: &Fake, spare: &mut Spare) -> bool {
        spare.consider(leaf(1), TierId(0));
        spare.consider(Leaf { accessed: true, ..leaf(2) }, TierId(1));
        spare.consider(leaf(3), TierId(1));
        spare.consider(leaf(4), TierId(1));
        spare.flush(kernel, SpaceId(1), &tiers())
    }

    #[test]
    fn a_cold_slow_page_goes_and_comes_home() {
        let (kernel, mut spare) = (Fake::default(), Spare::default());
        assert!((0..3).all(|_| flush_once(&kernel, &mut spare)));
        let moves: Vec<_> = kernel.moves.borrow().iter().map(|(at, to)| (at / 4096, *to)).collect();
        assert_eq!(moves, [(3, 0), (3, 1), (3, 0)]);
    }

    #[test]
    fn a_page_that_will_not_move_makes_room_for_the_next() {
        let kernel = Fake { stuck: Some(3 * 4096), ..Fake::default() };
        let mut spare = Spare::default();
        assert!(!flush_once(&kernel, &mut spare));
        assert!(flush_once(&kernel, &mut spare));
        assert_eq!(kernel.moves.borrow().last(), Some(&(4 * 4096, 0)));
    }

    #[test]
    fn a_need_is_found_by_trial_and_lasts_a_while() {
        let mut need = Need::default();
        assert!(!need.is_there(Flush::Auto), "the first window is bare");
        need.saw(500, false);
        assert!(need.is_there(Flush::Auto) && !need.is_there(Flush::Never), "the second a trial");
        need.saw(1000, true);
        for _ in 0..TRIAL {
            assert!(need.is_there(Flush::Auto), "it saw far more");
            need.saw(1000, true);
        }
        assert!(!need.is_there(Flush::Auto), "a trial without");
        need.saw(950, false);
        (1..TRIAL).for_each(|_| {
            assert!(!need.is_there(Flush::Auto), "it saw as much");
            need.saw(950, false);
        });
        assert!(need.is_there(Flush::Auto), "a trial with");
        need.saw(1000, true);
        assert!(!need.is_there(Flush::Auto) && need.is_there(Flush::Always));
    }
}
