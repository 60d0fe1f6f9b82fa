// SPDX-License-Identifier: Apache-2.0
//! Moves pages with `move_pages(2)`, and checks the result.
//!
//! The call's own results are not reliable: it leaves the status of pages it did not reach unchanged, and a
//! full target with `demotion_enabled` does not fail but demotes other programs' pages. So the status array
//! is filled with a mark first, pages that keep the mark are queried again, and pages are sent only to
//! nodes with enough free memory.

pub mod near;
pub mod page_out;
pub mod split;
pub mod syscall;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use rustc_hash::{FxBuildHasher, FxHashMap};
use tierline_core::port::{Move, Outcome, PageSize, Vpn};
use tierline_core::tier::{NodeId, TierId, Tiers};
use tierline_core::unit::{BASE_PER_HUGE, Bytes, Nanos};

use self::near::{Near, Rooms};
use crate::error::{Error, Result};
use crate::root::Root;
use crate::telemetry::NodeMemory;
pub use syscall::{KernelSyscall, MoveSyscall};

/// A status that the kernel never writes.
const UNTOUCHED: i32 = i32::MIN;
/// Attempts per batch: a call stops at the first chunk with a page that cannot be moved, and does not
/// try the pages after it.
const ATTEMPTS: usize = 3;
/// From call to call, huge pages are named by another of their base pages, this many further: one may be a copy that a fork
/// left in the place of a page of the folio. Ours: a third of a huge page, and odd.
const NAMED_STEP: u64 = 171;

/// How to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoverSettings {
    /// Pages per call; 256 to 1024 cost the same per page, fewer cost more.
    pub batch: usize,
}

impl Default for MoverSettings {
    fn default() -> Self {
        Self { batch: 2048 }
    }
}

/// Which pages move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MovedPages {
    /// Those that no other process maps.
    Own,
    /// Those that other processes map, too. Needs CAP_SYS_NICE.
    All,
}

impl MovedPages {
    fn flags(self) -> i32 {
        match self {
            Self::Own => MPOL_MF_MOVE,
            Self::All => MPOL_MF_MOVE_ALL,
        }
    }
}

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoverCounts {
    /// `move_pages` calls that moved.
    pub move_calls: u64,
    /// `move_pages` calls that only queried locations.
    pub queries: u64,
    /// Base pages moved.
    pub base_pages: u64,
    /// Bytes moved.
    pub bytes: Bytes,
    /// The same by the node that they left, if it was known, and the node that they went to.
    pub by_nodes: BTreeMap<(NodeId, NodeId), Bytes>,
    /// Time spent in `migrate`.
    pub time_spent: Nanos,
    /// Requests by outcome.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Errors by number, both of calls and of single pages.
    pub errnos: BTreeMap<i32, u64>,
}

/// Moves pages.
#[derive(Debug)]
pub struct Mover<S = KernelSyscall> {
    syscall: S,
    near: Near,
    settings: MoverSettings,
    /// The pages that the present call moves.
    pages: MovedPages,
    counters: MoverCounts,
    errors: Vec<Error>,
}

impl Mover<KernelSyscall> {
    /// A mover that uses the running kernel.
    pub fn new(root: &Root, settings: MoverSettings) -> Self {
        Self { near: Near::read(root), ..Self::with(KernelSyscall(root.clone()), settings) }
    }
}

/// Pages of one process for one node.
struct Batch {
    pid: u32,
    node: NodeId,
    /// Addresses, without duplicates.
    pages: Vec<u64>,
    /// For each page, the index of the first request that named it.
    asked: Vec<usize>,
    /// For each page, the node where it was, if known, and its size.
    from: Vec<(Option<NodeId>, Bytes)>,
}

impl Batch {
    /// Records the memory that its pages use now, and that they no longer use.
    fn record_use(
        &self,
        memory: &mut [NodeMemory],
        outcomes: &[Outcome],
        by_nodes: &mut BTreeMap<(NodeId, NodeId), Bytes>,
    ) {
        let pages = self.asked.iter().zip(&self.from);
        for (_, &(from, size)) in pages.filter(|(at, _)| outcomes[**at] == Outcome::Done) {
            if let Some(from) = from {
                *by_nodes.entry((from, self.node)).or_default() += size;
            }
            for one in memory.iter_mut() {
                if Some(one.node) == from {
                    one.free += size;
                } else if one.node == self.node {
                    one.free = one.free.saturating_sub(size);
                }
            }
        }
    }
}

impl<S: MoveSyscall> Mover<S> {
    /// A mover with another `move_pages`.
    pub fn with(syscall: S, settings: MoverSettings) -> Self {
        let settings = MoverSettings { batch: settings.batch.max(1) };
        let (counters, errors) = (MoverCounts::default(), Vec::new());
        let near = Near::default();
        Self { syscall, near, settings, pages: MovedPages::Own, counters, errors }
    }

    /// Counts since the start.
    pub fn counters(&self) -> &MoverCounts {
        &self.counters
    }

    /// Takes the failures that outcomes cannot describe: a node that does not exist, a refused call. At
    /// most one per errno is kept.
    pub fn take_errors(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.errors)
    }

    /// Moves pages and appends one outcome per move, in the same order; other than `which` stay. Pages go to nodes with usable memory, and
    /// `memory` follows: what a page used is free for those after it. Returns the time taken.
    ///
    /// Within a run of moves to one tier, pages are grouped by process. The runs keep the given order, so
    /// demotions make room for the promotions after them.
    pub fn migrate(
        &mut self,
        moves: &[Move],
        which: MovedPages,
        tiers: &Tiers,
        memory: &mut [NodeMemory],
        out: &mut Vec<Outcome>,
    ) -> Nanos {
        self.pages = which;
        let began = Instant::now();
        let mut outcomes = vec![Outcome::Refused; moves.len()];
        let mut first = 0;
        for run in moves.chunk_by(|a, b| a.to == b.to) {
            self.run(run, first, tiers, memory, &mut outcomes);
            first += run.len();
        }
        for outcome in &outcomes {
            *self.counters.outcomes.entry(*outcome).or_default() += 1;
        }
        out.append(&mut outcomes);
        let took = Nanos(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        self.counters.time_spent += took;
        took
    }

    /// The nodes of a process's pages; `None` for a page that is not (or not yet) in memory.
    ///
    /// # Errors
    /// `Error::Call` if the process is gone (ESRCH) or may not be managed (EPERM).
    pub fn nodes_of(&mut self, pid: u32, pages: &[Vpn]) -> Result<Vec<Option<NodeId>>> {
        let mut nodes = Vec::with_capacity(pages.len());
        for chunk in pages.chunks(self.settings.batch) {
            let addresses: Vec<u64> = chunk.iter().map(|vpn| vpn.address()).collect();
            let status =
                self.ask(pid, &addresses).map_err(|errno| call_error(pid, "ask for", errno))?;
            nodes.extend(status.into_iter().map(|code| node_of(code).ok()));
        }
        Ok(nodes)
    }

    /// A run of moves to one tier; `first` is the index of its first move.
    fn run(
        &mut self,
        run: &[Move],
        first: usize,
        tiers: &Tiers,
        memory: &mut [NodeMemory],
        outcomes: &mut [Outcome],
    ) {
        let Some(to) = run.first().map(|one| one.to) else { return };
        if to.index() >= tiers.len() {
            return;
        }
        let mut by_space: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, one) in run.iter().enumerate() {
            by_space.entry(one.space.0).or_default().push(at);
        }
        for (pid, places) in by_space {
            for part in places.chunks(self.settings.batch) {
                let part: Vec<(usize, &Move)> =
                    part.iter().map(|&at| (first + at, &run[at])).collect();
                self.part(pid, to, &part, tiers, memory, outcomes);
            }
        }
    }

    /// At most one batch of one process: queries the pages' nodes, picks target nodes, moves.
    fn part(
        &mut self,
        pid: u32,
        to: TierId,
        part: &[(usize, &Move)],
        tiers: &Tiers,
        memory: &mut [NodeMemory],
        outcomes: &mut [Outcome],
    ) {
        let within = self.counters.move_calls.wrapping_mul(NAMED_STEP) % BASE_PER_HUGE;
        let addresses: Vec<u64> = part.iter().map(|(_, one)| named(one, within)).collect();
        let before = match self.ask(pid, &addresses) {
            Ok(status) => status,
            Err(errno) => {
                let outcome = self.whole_call(pid, errno);
                part.iter().for_each(|(at, _)| outcomes[*at] = outcome);
                return;
            }
        };
        let nodes = memory.iter().filter(|one| tiers[to].nodes.contains(&one.node));
        let mut free: Vec<(NodeId, Bytes)> = nodes.map(|one| (one.node, one.usable())).collect();
        // Where no node is nearer, the one under the least pressure comes first (TPP, 5.3).
        if to == TierId::FAST {
            free.sort_by_key(|(_, room)| Reverse(*room));
        }
        let rises = part.iter().any(|(_, one)| one.to < one.from);
        let home = if rises { self.near.home(pid) } else { None };
        let mut rooms = Rooms::new(free);
        let mut batches: Vec<Batch> = Vec::new();
        let mut seen = FxHashMap::with_capacity_and_hasher(part.len(), FxBuildHasher);
        let mut again = Vec::new();
        for ((&(at, one), &address), &code) in part.iter().zip(&addresses).zip(&before) {
            if let Some(&first) = seen.get(&address) {
                again.push((at, first));
                continue;
            }
            seen.insert(address, at);
            match settled(code, to, tiers) {
                Some(outcome) => outcomes[at] = outcome,
                None => match rooms.take(&self.near, near_to(one, code, home), one.size.bytes()) {
                    Some(node) => {
                        let batch = batch_for(&mut batches, pid, node);
                        batch.pages.push(address);
                        batch.asked.push(at);
                        batch.from.push((node_of(code).ok(), one.size.bytes()));
                    }
                    None => outcomes[at] = Outcome::NoRoom,
                },
            }
        }
        for batch in &batches {
            self.send(batch, to, tiers, outcomes);
            batch.record_use(memory, outcomes, &mut self.counters.by_nodes);
        }
        // A page named twice gets the outcome of the first request.
        again.into_iter().for_each(|(at, first)| outcomes[at] = outcomes[first]);
        self.count(part, outcomes);
    }

    /// Moves one batch to its node.
    fn send(&mut self, batch: &Batch, to: TierId, tiers: &Tiers, outcomes: &mut [Outcome]) {
        let mut left: Vec<usize> = (0..batch.pages.len()).collect();
        for _ in 0..ATTEMPTS {
            if left.is_empty() {
                return;
            }
            let pages: Vec<u64> = left.iter().map(|&page| batch.pages[page]).collect();
            let (status, failed) = match self.call(batch, &pages) {
                Ok(answer) => answer,
                Err(errno) => {
                    let outcome = self.whole_call(batch.pid, errno);
                    return left.iter().for_each(|&page| outcomes[batch.asked[page]] = outcome);
                }
            };
            let mut next = Vec::new();
            for (&page, &code) in left.iter().zip(&status) {
                let outcome = judge(code, to, tiers, failed);
                outcomes[batch.asked[page]] = outcome;
                if failed.is_none() && outcome == Outcome::Busy {
                    next.push(page);
                } else if code < 0 {
                    *self.counters.errnos.entry(-code).or_default() += 1;
                }
            }
            left = next;
        }
    }

    /// One call that moves pages. Returns each page's status, from the call or, if it wrote none, from a second
    /// query, and the errno of a call that failed part of the way.
    fn call(
        &mut self,
        batch: &Batch,
        pages: &[u64],
    ) -> std::result::Result<(Vec<i32>, Option<i32>), i32> {
        let nodes = vec![i32::from(batch.node.0); pages.len()];
        let mut status = vec![UNTOUCHED; pages.len()];
        self.counters.move_calls += 1;
        let flags = self.pages.flags();
        let answer = self.syscall.move_pages(batch.pid, pages, Some(&nodes), &mut status, flags);
        let failed = match answer {
            Ok(0) if !status.contains(&UNTOUCHED) => return Ok((status, None)),
            Ok(_) => None,
            Err(errno @ (libc::ESRCH | libc::EPERM | libc::EINVAL | libc::EFAULT)) => {
                return Err(errno);
            }
            Err(errno) => {
                self.whole_call(batch.pid, errno);
                Some(errno)
            }
        };
        let read = self.ask(batch.pid, pages)?;
        for (code, now) in status.iter_mut().zip(read) {
            // Keep a page's own error; its location comes from the second query.
            if *code == UNTOUCHED || *code >= 0 {
                *code = now;
            }
        }
        Ok((status, failed))
    }

    fn ask(&mut self, pid: u32, pages: &[u64]) -> std::result::Result<Vec<i32>, i32> {
        let mut status = vec![UNTOUCHED; pages.len()];
        self.counters.queries += 1;
        self.syscall.move_pages(pid, pages, None, &mut status, 0)?;
        Ok(status)
    }

    /// The outcome of every page in a call that failed as a whole.
    fn whole_call(&mut self, pid: u32, errno: i32) -> Outcome {
        let seen = self.counters.errnos.entry(errno).or_default();
        *seen += 1;
        match errno {
            libc::ESRCH => Outcome::SpaceGone,
            libc::ENOMEM => Outcome::NoRoom,
            // The capability for shared pages is missing; there is nothing wrong with the process.
            libc::EPERM if self.pages == MovedPages::All => Outcome::Shared,
            _ => {
                if *seen == 1 {
                    self.errors.push(call_error(pid, "move", errno));
                }
                Outcome::Refused
            }
        }
    }

    fn count(&mut self, part: &[(usize, &Move)], outcomes: &[Outcome]) {
        let moved = part.iter().filter(|(at, _)| outcomes[*at] == Outcome::Done);
        let mut pages: Vec<(u64, u64)> =
            moved.map(|(_, one)| (head(one), one.size.base_pages())).collect();
        pages.sort_unstable();
        pages.dedup_by_key(|page| page.0);
        let base_pages: u64 = pages.iter().map(|(_, base)| base).sum();
        self.counters.base_pages += base_pages;
        self.counters.bytes += Bytes::from_base_pages(base_pages);
    }
}

/// `MPOL_MF_MOVE` of the kernel's `mempolicy.h`: pages that only this process maps.
const MPOL_MF_MOVE: i32 = 2;
/// `MPOL_MF_MOVE_ALL`: pages that several processes map as well.
const MPOL_MF_MOVE_ALL: i32 = 4;

/// The first address of a page.
fn head(one: &Move) -> u64 {
    named(one, 0)
}

/// The address to pass. A huge page moves as a whole for any of its base pages.
fn named(one: &Move, within: u64) -> u64 {
    match one.size {
        PageSize::Base => one.vpn.address(),
        PageSize::Huge => Vpn(one.vpn.huge_head().0 + within).address(),
    }
}

/// A status as a node or an errno.
fn node_of(code: i32) -> std::result::Result<NodeId, i32> {
    u16::try_from(code).map(NodeId).map_err(|_| -code.max(-i32::MAX))
}

/// The outcome if it is known before moving: the page is in the wanted tier, or not in memory. `None`: move it.
fn settled(code: i32, to: TierId, tiers: &Tiers) -> Option<Outcome> {
    match node_of(code) {
        Ok(node) if tiers.of_node(node) == Some(to) => Some(Outcome::Elsewhere(to)),
        Ok(_) => None,
        Err(libc::ENOENT | libc::EFAULT) => Some(Outcome::PageGone),
        // A shared or busy page may still move; the moving call reports it.
        Err(_) => None,
    }
}

/// The outcome of a page that was to go to tier `to`. `failed` is the errno of the whole call, for pages
/// that did not move.
fn judge(code: i32, to: TierId, tiers: &Tiers, failed: Option<i32>) -> Outcome {
    match node_of(code) {
        Ok(node) if tiers.of_node(node) == Some(to) => Outcome::Done,
        Ok(_) => match failed {
            None => Outcome::Busy,
            Some(libc::ENOMEM) => Outcome::NoRoom,
            Some(_) => Outcome::Refused,
        },
        Err(libc::ENOENT | libc::EFAULT) => Outcome::PageGone,
        Err(libc::ENOMEM) => Outcome::NoRoom,
        Err(libc::EBUSY | libc::EAGAIN) => Outcome::Busy,
        Err(libc::EACCES) => Outcome::Shared,
        Err(_) => Outcome::Refused,
    }
}

/// Where a page should be near: to its process if it is promoted, to where it is if it is demoted.
fn near_to(one: &Move, code: i32, home: Option<NodeId>) -> Option<NodeId> {
    if one.to < one.from { home } else { node_of(code).ok() }
}

fn batch_for(batches: &mut Vec<Batch>, pid: u32, node: NodeId) -> &mut Batch {
    let place = batches.iter().position(|batch| batch.node == node).unwrap_or_else(|| {
        batches.push(Batch { pid, node, pages: Vec::new(), asked: Vec::new(), from: Vec::new() });
        batches.len() - 1
    });
    &mut batches[place]
}

fn call_error(pid: u32, what: &str, errno: i32) -> Error {
    Error::Call {
        call: format!("move_pages to {what} pages of process {pid}"),
        source: io::Error::from_raw_os_error(errno),
    }
}

#[cfg(test)]
mod tests;
