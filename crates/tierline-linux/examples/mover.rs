// SPDX-License-Identifier: Apache-2.0
//! Moves every kind of page from node 1 to node 0 on a real kernel and checks the outcomes.
//! For the two-tier lab guest, as root. Exits with 1 if a check fails.

use std::ptr::null_mut;

use tierline_core::port::{Move, Outcome, PageSize, Reason, SpaceEvent, SpaceId, Vpn};
use tierline_core::tier::{NodeId, TierId, Tiers};
use tierline_core::unit::{BASE_PAGE, BASE_PER_HUGE, Bytes};
use tierline_linux::journal::Journal;
use tierline_linux::mover::{MovedPages, Mover, MoverSettings};
use tierline_linux::process::Maps;
use tierline_linux::root::Root;
use tierline_linux::telemetry::{self, KernelCounters};
use tierline_linux::topology::Topology;

const DEMOTION: &str = "/sys/kernel/mm/numa/demotion_enabled";
const HUGE: usize = 2 << 20;
const MPOL_DEFAULT: i32 = 0;
const MPOL_BIND: i32 = 2;

struct Lab {
    root: Root,
    tiers: Tiers,
    mover: Mover,
    failed: bool,
}

impl Lab {
    fn memory(&self) -> Vec<telemetry::NodeMemory> {
        telemetry::nodes(&self.root, &self.tiers).unwrap_or_default()
    }

    fn usable(&self, node: NodeId) -> Bytes {
        self.memory().iter().find(|m| m.node == node).map(|m| m.usable()).unwrap_or_default()
    }

    /// Moves pages to tier `to`; `honest` reports the real free memory, otherwise the mover is given a large value.
    fn migrate(&mut self, pages: &[(Vpn, PageSize)], to: TierId, honest: bool) -> Vec<Outcome> {
        self.migrate_which(MovedPages::Own, pages, to, honest)
    }

    /// Moves pages that other processes map, too.
    fn migrate_shared(&mut self, pages: &[(Vpn, PageSize)], to: TierId) -> Vec<Outcome> {
        self.migrate_which(MovedPages::All, pages, to, true)
    }

    fn migrate_which(
        &mut self,
        which: MovedPages,
        pages: &[(Vpn, PageSize)],
        to: TierId,
        honest: bool,
    ) -> Vec<Outcome> {
        let one = |&(vpn, size): &(Vpn, PageSize)| Move {
            space: SpaceId(std::process::id()),
            vpn,
            size,
            from: TierId(1 - to.0.min(1)),
            to,
            reason: Reason::Hot { rate_per_sec: 1.0 },
        };
        let moves: Vec<Move> = pages.iter().map(one).collect();
        let mut out = Vec::new();
        let mut memory = self.memory();
        if !honest {
            memory.iter_mut().for_each(|one| one.free = Bytes(1 << 40));
        }
        let took = self.mover.migrate(&moves, which, &self.tiers, &mut memory, &mut out);
        let mut kinds = std::collections::BTreeMap::new();
        out.iter().for_each(|outcome| *kinds.entry(*outcome).or_insert(0_u64) += 1);
        println!("  {kinds:?} in {took}");
        for error in self.mover.take_errors() {
            println!("  error: {error}");
        }
        out
    }

    fn expect(&mut self, what: &str, holds: bool) {
        println!("{} {what}", if holds { "ok  " } else { "FAIL" });
        self.failed |= !holds;
    }
}

/// Fresh private memory of `bytes` on a node, aligned to 2 MiB, written if `touch`.
fn memory(bytes: usize, node: u16, huge: bool, touch: bool) -> Vpn {
    let (prot, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh mapping at an address that the kernel chooses; the part used is aligned inside it.
    unsafe {
        let at = libc::mmap(null_mut(), bytes + HUGE, prot, flags, -1, 0);
        assert!(at != libc::MAP_FAILED);
        let at = at.add(at.align_offset(HUGE));
        libc::madvise(at, bytes, if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE });
        bind(Some(node));
        if touch {
            at.cast::<u8>().write_bytes(1, bytes);
        }
        bind(None);
        Vpn::of(at as u64)
    }
}

/// Prefers a node for new pages; `None` restores the default.
fn bind(node: Option<u16>) {
    let mask: u64 = node.map_or(0, |node| 1 << node);
    let mode = if node.is_some() { MPOL_BIND } else { MPOL_DEFAULT };
    // SAFETY: the kernel reads 64 bits of `mask`.
    let answer = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, &raw const mask, 64) };
    assert_eq!(answer, 0, "set_mempolicy");
}

fn base(start: Vpn, count: u64) -> Vec<(Vpn, PageSize)> {
    (0..count).map(|at| (Vpn(start.0 + at), PageSize::Base)).collect()
}

fn all(outcomes: &[Outcome], wanted: Outcome) -> bool {
    !outcomes.is_empty() && outcomes.iter().all(|outcome| *outcome == wanted)
}

fn plain(lab: &mut Lab) {
    println!("- 4096 base pages, up, up again, and down");
    let start = memory(16 << 20, 1, false, true);
    let pages = base(start, 4096);
    let moved = lab.migrate(&pages, TierId(0), true);
    lab.expect("all pages move", all(&moved, Outcome::Done));
    let vpns: Vec<Vpn> = pages.iter().map(|page| page.0).collect();
    let nodes = lab.mover.nodes_of(std::process::id(), &vpns).unwrap_or_default();
    lab.expect("nodes_of agrees", nodes.iter().all(|node| *node == Some(NodeId(0))));
    let again = lab.migrate(&pages, TierId(0), true);
    lab.expect("pages already there are reported so", all(&again, Outcome::Elsewhere(TierId(0))));
    let back = lab.migrate(&pages, TierId(1), true);
    lab.expect("all pages move back", all(&back, Outcome::Done));
    // SAFETY: the range is our own memory of `plain`, which is not used again.
    unsafe { libc::munmap(start.address() as *mut _, 16 << 20) };
    let gone = lab.migrate(&pages[..10], TierId(0), true);
    lab.expect("unmapped", all(&gone, Outcome::PageGone));
}

fn never_written(lab: &mut Lab) {
    println!("- untouched and zero pages");
    let start = memory(1 << 20, 1, false, false);
    let untouched = lab.migrate(&base(start, 16), TierId(0), true);
    lab.expect("untouched", all(&untouched, Outcome::PageGone));
    // SAFETY: reads of our own mapping, which puts the zero page there.
    let sum: u64 = (0..16u64)
        .map(|page| unsafe {
            ((start.address() + page * BASE_PAGE.0) as *const u8).read_volatile()
        })
        .map(u64::from)
        .sum();
    let zero = lab.migrate(&base(start, 16), TierId(0), true);
    lab.expect("zero page", sum == 0 && all(&zero, Outcome::PageGone));
}

fn huge(lab: &mut Lab) {
    println!("- 8 huge pages");
    let start = memory(8 * HUGE, 1, true, true);
    let before = KernelCounters::vmstat(&lab.root).unwrap_or_default();
    let heads: Vec<_> =
        (0..8).map(|at| (Vpn(start.0 + at * BASE_PER_HUGE), PageSize::Huge)).collect();
    let seen = huge_bytes(lab);
    lab.expect("the page map shows 16 MiB huge at least", seen >= Bytes(16 << 20));
    let moved = lab.migrate(&heads, TierId(0), true);
    lab.expect("all huge pages move", all(&moved, Outcome::Done));
    let after = KernelCounters::vmstat(&lab.root).unwrap_or_default();
    let grown = after.since(&before);
    lab.expect("8 whole, 0 split", {
        grown.get("thp_migration_success") == Some(&8) && !grown.contains_key("thp_migration_split")
    });
    lab.expect("still huge", huge_bytes(lab) >= seen);
    let tail = lab.mover.nodes_of(std::process::id(), &[Vpn(start.0 + 511)]).unwrap_or_default();
    lab.expect("the base pages inside moved with it", tail == [Some(NodeId(0))]);
    let tails: Vec<_> = (0..512).map(|at| (Vpn(start.0 + at), PageSize::Base)).collect();
    let down = lab.migrate(&tails, TierId(1), true);
    lab.expect("512 base pages named one by one reach their node", all(&down, Outcome::Done));
}

fn huge_bytes(lab: &Lab) -> Bytes {
    let mut maps = Maps::new(SpaceId(std::process::id()));
    let mut events: Vec<SpaceEvent> = Vec::new();
    let done =
        maps.refresh(&lab.root, &mut events).and_then(|()| maps.sizes(&lab.root, &mut events));
    if let Err(error) = done {
        println!("  {error}");
    }
    let huge = events.iter().map(|event| match event {
        SpaceEvent::Sized(_, _, base_pages, PageSize::Huge) => *base_pages,
        _ => 0,
    });
    Bytes::from_base_pages(huge.sum())
}

fn shared(lab: &mut Lab) {
    println!("- pages shared with a child");
    let start = memory(1 << 20, 1, false, true);
    // SAFETY: the child only sleeps and is ended below.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe { libc::pause() };
    }
    let pages = base(start, 64);
    let left = lab.migrate(&pages, TierId(0), true);
    lab.expect("a plain move leaves them", all(&left, Outcome::Shared));
    let moved = lab.migrate_shared(&pages, TierId(0));
    lab.expect("a move for all processes moves them", all(&moved, Outcome::Done));
    // SAFETY: our own child.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, null_mut(), 0);
    }
    let mut out = Vec::new();
    let ghost = Move {
        space: SpaceId(child.unsigned_abs()),
        vpn: start,
        size: PageSize::Base,
        from: TierId(1),
        to: TierId(0),
        reason: Reason::Hot { rate_per_sec: 1.0 },
    };
    let (tiers, mut memory) = (lab.tiers.clone(), lab.memory());
    lab.mover.migrate(&[ghost], MovedPages::Own, &tiers, &mut memory, &mut out);
    lab.expect("the dead child's space is gone", out == [Outcome::SpaceGone]);
}

fn pinned(lab: &mut Lab) {
    println!("- one pinned page among 32");
    let start = memory(1 << 20, 1, false, true);
    let mut pipe = [0; 2];
    let held =
        libc::iovec { iov_base: (start.address() + 5 * BASE_PAGE.0) as *mut _, iov_len: 4096 };
    // SAFETY: a fresh pipe, and one page of our own that the pipe then holds.
    let sent = unsafe {
        libc::pipe(pipe.as_mut_ptr());
        libc::vmsplice(pipe[1], &raw const held, 1, 0)
    };
    let out = lab.migrate(&base(start, 32), TierId(0), true);
    let moved = out.iter().filter(|outcome| **outcome == Outcome::Done).count();
    lab.expect(
        "the pinned page is busy, the others move",
        sent == 4096 && out[5] == Outcome::Busy && moved == 31,
    );
}

/// Fills node 0 with `demotion_enabled` set as given and tries to move 64 MiB there.
fn full(lab: &mut Lab, journal: &Journal, demotion: &str) {
    println!("- a full target, demotion {demotion}");
    if let Err(error) = journal.set(&lab.root, DEMOTION, demotion) {
        println!("  {error}");
    }
    let source = memory(64 << 20, 1, false, true);
    let mut hogs = Vec::new();
    while lab.usable(NodeId(0)) > Bytes(4 << 20) {
        hogs.push(memory(4 << 20, 0, false, true));
    }
    let before = KernelCounters::vmstat(&lab.root).unwrap_or_default();
    let honest = lab.migrate(&base(source, 16384), TierId(0), true);
    let after = KernelCounters::vmstat(&lab.root).unwrap_or_default();
    println!("  kernel: {:?}", delta(&before, &after));
    let none = honest.iter().filter(|outcome| **outcome == Outcome::NoRoom).count();
    lab.expect("most moves report no room", none > 14_000);
    lab.expect("no pages of other programs are demoted", demoted(&before, &after) == 0);
    let moved = lab.migrate(&base(source, 16384), TierId(0), false);
    let later = KernelCounters::vmstat(&lab.root).unwrap_or_default();
    println!("  without the check for free memory: {:?}", delta(&after, &later));
    if demotion == "0" {
        lab.expect("ENOMEM is reported as no room", moved.contains(&Outcome::NoRoom));
    } else {
        lab.expect(
            "the kernel demotes others' pages (the reason for the check)",
            demoted(&after, &later) > 0,
        );
    }
    for hog in hogs {
        // SAFETY: our own memory of this function, not used again.
        unsafe { libc::munmap(hog.address() as *mut _, 4 << 20) };
    }
    // SAFETY: as above.
    unsafe { libc::munmap(source.address() as *mut _, 64 << 20) };
}

fn delta<'a>(before: &KernelCounters, after: &'a KernelCounters) -> Vec<(&'a str, u64)> {
    let grown = after.since(before).into_iter();
    grown
        .filter(|(name, _)| name.starts_with("pgdemote") || name.starts_with("pgmigrate"))
        .collect()
}

fn demoted(before: &KernelCounters, after: &KernelCounters) -> u64 {
    delta(before, after)
        .iter()
        .filter(|(name, _)| name.starts_with("pgdemote"))
        .map(|(_, n)| n)
        .sum()
}

fn main() {
    let root = Root::default();
    let tiers = Topology::read(&root).and_then(|topology| topology.tiers(None));
    let tiers = match tiers {
        Ok(tiers) => tiers,
        Err(error) => {
            eprintln!("Error: {error}");
            error.hint().iter().for_each(|hint| eprintln!("Hint: {hint}"));
            std::process::exit(2);
        }
    };
    let mover = Mover::new(&Root::default(), MoverSettings::default());
    let mut lab = Lab { root, tiers, mover, failed: false };
    let journal = Journal::open("/run/tierline").expect("a journal");
    journal.set(&lab.root, "/proc/sys/kernel/numa_balancing", "0").expect("numa_balancing off");
    plain(&mut lab);
    never_written(&mut lab);
    huge(&mut lab);
    shared(&mut lab);
    pinned(&mut lab);
    full(&mut lab, &journal, "0");
    full(&mut lab, &journal, "1");
    println!("{:?}", lab.mover.counters());
    println!("changed: {:?}", journal.changes());
    drop(journal);
    let restored = lab.root.read(DEMOTION).unwrap_or_default();
    lab.expect("demotion_enabled is restored", restored == "false");
    std::process::exit(i32::from(lab.failed));
}
