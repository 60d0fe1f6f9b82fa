// SPDX-License-Identifier: Apache-2.0
//! Forces every failure of the call; actual moves are tested on a real kernel.

use std::cell::RefCell;
use std::collections::BTreeMap;

use tierline_core::port::{Reason, SpaceId};
use tierline_core::tier::Tier;

use super::*;

/// Pages by address: the node, or the negative errno of a query.
#[derive(Default)]
struct Fake {
    pages: RefCell<BTreeMap<u64, i32>>,
    /// Pages that cannot be moved: the call stops at them.
    pinned: Vec<u64>,
    /// Pages that move only with `MPOL_MF_MOVE_ALL`.
    shared: Vec<u64>,
    /// The errno of every moving call, after this many pages.
    fail: Option<(i32, usize)>,
    /// The errno of every call.
    refuse: Option<i32>,
    /// CAP_SYS_NICE is missing.
    refuse_all: bool,
}

impl MoveSyscall for Fake {
    fn move_pages(
        &self,
        _pid: u32,
        pages: &[u64],
        nodes: Option<&[i32]>,
        status: &mut [i32],
        flags: i32,
    ) -> std::result::Result<u64, i32> {
        if let Some(errno) = self.refuse {
            return Err(errno);
        }
        if self.refuse_all && flags == MPOL_MF_MOVE_ALL {
            return Err(libc::EPERM);
        }
        let mut known = self.pages.borrow_mut();
        let Some(nodes) = nodes else {
            for (page, code) in pages.iter().zip(status) {
                *code = known.get(page).copied().unwrap_or(-libc::ENOENT);
            }
            return Ok(0);
        };
        for (at, (page, node)) in pages.iter().zip(nodes).enumerate() {
            if self.fail.is_some_and(|(_, after)| at >= after) {
                return Err(self.fail.map_or(0, |(errno, _)| errno));
            }
            if self.pinned.contains(page) {
                return Ok((pages.len() - at) as u64);
            }
            if self.shared.contains(page) && flags != MPOL_MF_MOVE_ALL {
                status[at] = -libc::EACCES;
                continue;
            }
            if let Some(code) = known.get_mut(page).filter(|code| **code >= 0) {
                *code = *node;
            }
            status[at] = known.get(page).copied().unwrap_or(-libc::ENOENT);
        }
        Ok(0)
    }
}

fn tiers() -> Tiers {
    let tier = |name: &str, nodes: &[u16]| Tier {
        name: name.into(),
        nodes: nodes.iter().map(|id| NodeId(*id)).collect(),
        capacity: Bytes(1 << 30),
        latency: None,
        bandwidth: None,
    };
    Tiers(vec![tier("fast", &[0, 2]), tier("slow", &[1])])
}

fn promote(vpn: u64) -> Move {
    Move {
        space: SpaceId(7),
        vpn: Vpn(vpn),
        size: PageSize::Base,
        from: TierId(1),
        to: TierId(0),
        reason: Reason::Hot { rate_per_sec: 1.0 },
    }
}

/// `count` pages from page 1 on, all on node 1.
fn fake(count: u64) -> Fake {
    let pages = (1..=count).map(|vpn| (Vpn(vpn).address(), 1)).collect();
    Fake { pages: RefCell::new(pages), ..Fake::default() }
}

/// Base pages that are usable on nodes 0, 1 and 2.
fn memory(base_pages: [u64; 3]) -> Vec<NodeMemory> {
    let usable = base_pages.map(Bytes::from_base_pages);
    let node = |(id, usable)| NodeMemory {
        node: NodeId(id),
        total: usable,
        free: usable,
        reserved: Bytes::ZERO,
        cold_files: Bytes::ZERO,
        files: Bytes::ZERO,
    };
    (0..).zip(usable).map(node).collect()
}

fn migrate(fake: Fake, moves: &[Move], room: u64) -> (Vec<Outcome>, Mover<Fake>) {
    let mut mover = Mover::with(fake, MoverSettings { batch: 4 });
    let mut out = Vec::new();
    mover.migrate(moves, MovedPages::Own, &tiers(), &mut memory([room; 3]), &mut out);
    (out, mover)
}

fn promotions(count: u64) -> Vec<Move> {
    (1..=count).map(promote).collect()
}

#[test]
fn pages_move_in_batches_and_are_counted() {
    let (out, mover) = migrate(fake(10), &promotions(10), 100);
    assert_eq!(out, [Outcome::Done; 10]);
    let counters = mover.counters();
    assert_eq!((counters.move_calls, counters.base_pages), (3, 10));
    assert_eq!(counters.bytes, Bytes(40960));
    assert_eq!(counters.outcomes[&Outcome::Done], 10);
}

#[test]
fn a_full_node_spills_to_the_next_and_a_full_tier_is_not_called() {
    let (out, mover) = migrate(fake(4), &promotions(4), 1);
    assert_eq!(out, [Outcome::Done, Outcome::Done, Outcome::NoRoom, Outcome::NoRoom]);
    let pages = mover.syscall.pages.borrow();
    assert_eq!(pages.values().copied().collect::<Vec<_>>(), [0, 2, 1, 1]);
    drop(pages);
    let page = Bytes::from_base_pages(1);
    let by_nodes = [((NodeId(1), NodeId(0)), page), ((NodeId(1), NodeId(2)), page)];
    assert_eq!(mover.counters().by_nodes, by_nodes.into());
    let (out, mover) = migrate(fake(4), &promotions(4), 0);
    assert_eq!(out, [Outcome::NoRoom; 4]);
    assert_eq!(mover.counters().move_calls, 0);
}

/// Fast memory is full, except for two pages: what three demotions free is there for the promotions after them, and no
/// more than that.
#[test]
fn what_moves_free_is_room_for_the_moves_after_them() {
    let nodes = (0..3).map(|page| (page, 0)).chain((10..20).map(|page| (page, 1)));
    let pages = nodes.map(|(page, node)| (Vpn(page).address(), node)).collect();
    let fake = Fake { pages: RefCell::new(pages), ..Fake::default() };
    let demote = |page| Move { from: TierId(0), to: TierId(1), ..promote(page) };
    let moves: Vec<Move> = (0..3).map(demote).chain((10..20).map(promote)).collect();
    let mut mover = Mover::with(fake, MoverSettings { batch: 4 });
    let (mut memory, mut out) = (memory([2, 100, 0]), Vec::new());
    let (down, up) = moves.split_at(3);
    mover.migrate(down, MovedPages::Own, &tiers(), &mut memory, &mut out);
    mover.migrate(up, MovedPages::Own, &tiers(), &mut memory, &mut out);
    assert_eq!(out, [vec![Outcome::Done; 8], vec![Outcome::NoRoom; 5]].concat());
    let usable = memory.iter().map(|one| one.usable().base_pages());
    assert_eq!(usable.collect::<Vec<_>>(), [0, 102, 0]);
}

/// Node 0 has room for two pages, node 2 for four. Computed by hand: four go to node 2, the fifth to node 0.
#[test]
fn of_several_local_nodes_the_one_under_least_pressure_is_promoted_to() {
    let mut mover = Mover::with(fake(5), MoverSettings { batch: 8 });
    mover.migrate(
        &promotions(5),
        MovedPages::Own,
        &tiers(),
        &mut memory([2, 0, 4]),
        &mut Vec::new(),
    );
    let pages = mover.syscall.pages.borrow();
    assert_eq!(pages.values().copied().collect::<Vec<_>>(), [2, 2, 2, 2, 0]);
}

#[test]
fn a_pinned_page_is_busy_and_those_around_it_move() {
    let fake = Fake { pinned: vec![Vpn(2).address()], ..fake(3) };
    let (out, _) = migrate(fake, &promotions(3), 100);
    assert_eq!(out[0], Outcome::Done);
    assert_eq!(out[1], Outcome::Busy);
    assert_eq!(out[2], Outcome::Busy, "the call never reaches the pages after the pinned one");
}

#[test]
fn pages_that_are_gone_there_already_or_named_twice() {
    let fake = fake(3);
    fake.pages.borrow_mut().insert(Vpn(2).address(), 2);
    fake.pages.borrow_mut().insert(Vpn(3).address(), -libc::EFAULT);
    let moves = [promote(1), promote(1), promote(2), promote(3), promote(9)];
    let (out, mover) = migrate(fake, &moves, 100);
    assert_eq!(
        out,
        [
            Outcome::Done,
            Outcome::Done,
            Outcome::Elsewhere(TierId(0)),
            Outcome::PageGone,
            Outcome::PageGone
        ]
    );
    assert_eq!(mover.counters().base_pages, 1, "moved once");
}

#[test]
fn a_shared_page_moves_only_with_all_its_mappings() {
    let fake = Fake { shared: vec![Vpn(2).address()], ..fake(3) };
    let (out, mut mover) = migrate(fake, &promotions(3), 100);
    assert_eq!(out, [Outcome::Done, Outcome::Shared, Outcome::Done]);
    assert_eq!(mover.counters().errnos[&libc::EACCES], 1);
    let (mut memory, mut out) = (memory([1 << 18; 3]), Vec::new());
    mover.syscall.refuse_all = true;
    mover.migrate(&[promote(2)], MovedPages::All, &tiers(), &mut memory, &mut out);
    mover.syscall.refuse_all = false;
    mover.migrate(&[promote(2)], MovedPages::All, &tiers(), &mut memory, &mut out);
    assert_eq!(out, [Outcome::Shared, Outcome::Done], "without CAP_SYS_NICE it stays shared");
    assert!(mover.take_errors().is_empty());
}

#[test]
fn a_call_that_fails_half_way_is_read_back() {
    let fake = Fake { fail: Some((libc::ENOMEM, 2)), ..fake(4) };
    let (out, _) = migrate(fake, &promotions(4), 100);
    assert_eq!(out, [Outcome::Done, Outcome::Done, Outcome::NoRoom, Outcome::NoRoom]);
    let broken = Fake { fail: Some((libc::ENODEV, 1)), ..self::fake(2) };
    let (out, mut mover) = migrate(broken, &promotions(2), 100);
    assert_eq!(out, [Outcome::Done, Outcome::Refused]);
    assert!(mover.take_errors()[0].to_string().contains("os error 19"));
}

/// Node 1 has 2 pages less free than it must have: what the first two of four pages leave is not for others.
#[test]
fn what_pages_leave_fills_the_reserve_first() {
    let mut memory = memory([100; 3]);
    (memory[1].free, memory[1].reserved) = (Bytes::ZERO, Bytes::from_base_pages(2));
    let mut mover = Mover::with(fake(4), MoverSettings { batch: 4 });
    let mut out = Vec::new();
    mover.migrate(&promotions(4), MovedPages::Own, &tiers(), &mut memory, &mut out);
    assert_eq!(memory[1].usable(), Bytes::from_base_pages(2));
}

#[test]
fn a_refused_process_and_a_gone_one() {
    for (errno, expected) in [(libc::ESRCH, Outcome::SpaceGone), (libc::EPERM, Outcome::Refused)] {
        let fake = Fake { refuse: Some(errno), ..fake(2) };
        let (out, mut mover) = migrate(fake, &promotions(2), 100);
        assert_eq!(out, [expected; 2]);
        assert_eq!(mover.take_errors().len(), usize::from(errno == libc::EPERM));
        assert!(mover.nodes_of(7, &[Vpn(1)]).is_err());
    }
}

#[test]
fn an_unknown_tier_is_refused_and_no_moves_make_no_calls() {
    let wild = Move { to: TierId(6), ..promote(1) };
    let (out, _) = migrate(fake(1), &[wild], 100);
    assert_eq!(out, [Outcome::Refused]);
    let (out, _) = migrate(fake(1), &[], 100);
    assert!(out.is_empty());
}

#[test]
fn a_huge_page_is_named_by_one_of_its_base_pages_another_in_each_call() {
    let fake = Fake::default();
    for vpn in [512, 512 + NAMED_STEP] {
        fake.pages.borrow_mut().insert(Vpn(vpn).address(), 1);
    }
    let huge = Move { size: PageSize::Huge, ..promote(600) };
    let (out, mut mover) = migrate(fake, &[huge, huge], 1000);
    assert_eq!(out, [Outcome::Done; 2]);
    assert_eq!(mover.counters().base_pages, 512);
    let mut out = Vec::new();
    mover.migrate(&[huge], MovedPages::Own, &tiers(), &mut memory([1000; 3]), &mut out);
    assert_eq!(out, [Outcome::Done], "the first was a copy: the folio is still there");
    assert_eq!(mover.syscall.pages.borrow()[&Vpn(512 + NAMED_STEP).address()], 0);
}

#[test]
fn this_process_is_found_on_its_node() {
    let here = Box::new([1u8; 8192]);
    let page = Vpn::of(here.as_ptr() as u64);
    let mut mover = Mover::new(&Root::default(), MoverSettings::default());
    let nodes = mover.nodes_of(std::process::id(), &[page, Vpn(1)]);
    // A sandbox may forbid the call.
    if let Ok(nodes) = nodes {
        assert!(nodes[0].is_some() && nodes[1].is_none());
    }
    drop(here);
}

#[test]
fn the_kernel_is_asked_to_move_pages_only_of_held_processes_that_run() {
    use crate::process::held::tests::{end, waiting};
    let root = Root::default();
    let (chosen, stranger) = (waiting(), waiting());
    let ask = |pid: u32| KernelSyscall(root.clone()).move_pages(pid, &[], None, &mut [], 0);
    root.hold(chosen.id()).expect("it runs");
    let numbers = [chosen.id(), stranger.id()];
    assert_eq!(numbers.map(ask), [Ok(0), Err(libc::ESRCH)]);
    end(chosen);
    assert_eq!(ask(numbers[0]), Err(libc::ESRCH));
    end(stranger);
}
