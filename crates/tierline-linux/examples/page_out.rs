// SPDX-License-Identifier: Apache-2.0
//! Pages out memory of a child in a control group on a real kernel, and checks the outcomes and the cost of paging
//! back in. For a lab guest with swap and cgroup2, as root. Exits with 1 if a check fails.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::ptr::null_mut;
use std::time::Instant;

use tierline_core::port::{Outcome, PageAddress, PageSize, SpaceId, Vpn};
use tierline_core::unit::{BASE_PER_HUGE, Bytes, Nanos};
use tierline_linux::cgroup::{Cgroups, Reclaimed, group_of};
use tierline_linux::mover::page_out::{Pager, probe};
use tierline_linux::root::Root;
use tierline_linux::telemetry::page_in::{PageIn, refaults};

const GROUP: &str = "/sys/fs/cgroup/example";
const HUGE: usize = 2 << 20;
const BASE_PAGES: usize = 8192;
const HUGE_PAGES: usize = 8;

/// Private memory of the child, and its special pages.
struct Memory {
    base: Vpn,
    huge: Vpn,
    locked: Vpn,
    /// Mapped by the parent as well.
    shared: Vpn,
}

struct Lab {
    root: Root,
    pager: Pager,
    child: u32,
    failed: bool,
}

impl Lab {
    fn expect(&mut self, what: &str, holds: bool) {
        println!("{} {what}", if holds { "ok  " } else { "FAIL" });
        self.failed |= !holds;
    }

    /// Pages out; returns the number of pages for each outcome.
    fn out(&mut self, first: Vpn, count: usize, size: PageSize) -> BTreeMap<Outcome, usize> {
        let place = |at: usize| Vpn(first.0 + at as u64 * size.base_pages());
        let page = |at| PageAddress { space: SpaceId(self.child), vpn: place(at), size };
        let pages: Vec<PageAddress> = (0..count).map(page).collect();
        let (began, mut out) = (Instant::now(), Vec::new());
        self.pager.page_out(&pages, &mut out);
        let took = began.elapsed();
        let mut kinds = BTreeMap::new();
        out.iter().for_each(|outcome| *kinds.entry(*outcome).or_insert(0) += 1);
        let each = took / u32::try_from(count).unwrap_or(1);
        println!("  {count} {size:?} pages: {kinds:?} in {took:?}, {each:?} each");
        for error in self.pager.take_errors() {
            println!("  error: {error}");
        }
        kinds
    }

    /// Bytes of the child in swap.
    fn swapped(&self) -> Bytes {
        let status = self.root.read(format!("/proc/{}/status", self.child)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmSwap:"));
        let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
        Bytes(kib.unwrap_or(0) << 10)
    }
}

fn now() -> Nanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    Nanos::from_secs(seconds.unwrap_or(0)) + Nanos(nanos.unwrap_or(0))
}

/// Fresh memory of `pages` base pages, aligned to 2 MiB. Each page contains its number.
fn filled(pages: usize, flags: i32, advice: i32) -> Vpn {
    let (bytes, access) = (pages << 12, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a fresh mapping at an address that the kernel chooses, never unmapped; the part used is aligned
    // inside it.
    unsafe {
        let at = libc::mmap(null_mut(), bytes + HUGE, access, flags | libc::MAP_ANONYMOUS, -1, 0);
        assert!(at != libc::MAP_FAILED);
        let at = at.add(at.align_offset(HUGE));
        libc::madvise(at, bytes, advice);
        (0..pages)
            .for_each(|page| at.add(page << 12).cast::<usize>().write_volatile(page ^ 0xa5a5));
        Vpn::of(at.addr() as u64)
    }
}

/// True if each page still contains its number.
fn is_whole(first: Vpn, pages: usize) -> bool {
    let at = std::ptr::with_exposed_provenance::<u8>(usize::try_from(first.address()).unwrap_or(0));
    // SAFETY: memory from `filled`, which has that many pages.
    (0..pages)
        .all(|page| unsafe { at.add(page << 12).cast::<usize>().read_volatile() } == page ^ 0xa5a5)
}

/// The child: reports its addresses, then checks its memory on each request.
fn live(mut parent: UnixStream, shared: Vpn) -> ! {
    let memory = Memory {
        base: filled(BASE_PAGES, libc::MAP_PRIVATE, libc::MADV_NOHUGEPAGE),
        huge: filled(HUGE_PAGES * 512, libc::MAP_PRIVATE, libc::MADV_HUGEPAGE),
        locked: filled(8, libc::MAP_PRIVATE, libc::MADV_NOHUGEPAGE),
        shared,
    };
    let locked =
        std::ptr::with_exposed_provenance(usize::try_from(memory.locked.address()).unwrap_or(0));
    // SAFETY: the range is 8 pages of our own.
    assert_eq!(unsafe { libc::mlock(locked, 8 << 12) }, 0);
    let Memory { base, huge, locked, shared } = memory;
    for vpn in [base, huge, locked, shared] {
        parent.write_all(&vpn.0.to_ne_bytes()).expect("a parent");
    }
    let mut asked = [0];
    while parent.read_exact(&mut asked).is_ok() {
        let whole = is_whole(base, BASE_PAGES) && is_whole(huge, HUGE_PAGES * 512);
        parent.write_all(&[u8::from(whole)]).expect("a parent");
    }
    std::process::exit(0)
}

/// Lets the child check its memory; true if all of it is unchanged.
fn ask(child: &mut UnixStream) -> bool {
    let mut whole = [0];
    child.write_all(&[1]).expect("a child");
    child.read_exact(&mut whole).expect("a child");
    whole[0] == 1
}

fn main() {
    fs::create_dir_all(GROUP).expect("cgroup2 on /sys/fs/cgroup, and root");
    let (mut ours, theirs) = UnixStream::pair().expect("a pair");
    let shared = filled(8, libc::MAP_SHARED, libc::MADV_NOHUGEPAGE);
    // SAFETY: this process has one thread; the child continues in `live`.
    let child = match unsafe { libc::fork() } {
        0 => {
            drop(ours);
            fs::write(format!("{GROUP}/cgroup.procs"), "0").expect("a group");
            is_whole(shared, 8);
            live(theirs, shared)
        }
        pid => u32::try_from(pid).expect("a child"),
    };
    drop(theirs);
    let mut vpn = || {
        let mut bytes = [0; 8];
        ours.read_exact(&mut bytes).expect("a child");
        Vpn(u64::from_ne_bytes(bytes))
    };
    let memory = Memory { base: vpn(), huge: vpn(), locked: vpn(), shared: vpn() };
    let root = Root::default();
    root.hold(child).expect("a child");
    let mut lab = Lab { pager: Pager::new(&root), root, child, failed: false };
    let mut groups = Cgroups::open(&lab.root, &["example".into()]).expect("the group");
    check(&mut lab, &mut groups, &memory, &mut ours);

    drop(ours);
    // SAFETY: our own child.
    unsafe { libc::waitpid(child.cast_signed(), null_mut(), 0) };
    fs::remove_dir(GROUP).expect("an empty group");
    let gone = groups.get(0).expect("it").usage_by_node();
    lab.expect("a removed group is reported as gone, not as an error", matches!(gone, Ok(None)));
    lab.expect(
        "its process is reported as gone",
        lab_gone(&mut Pager::new(&Root::default()), child),
    );
    std::process::exit(i32::from(lab.failed));
}

fn lab_gone(pager: &mut Pager, child: u32) -> bool {
    let mut out = Vec::new();
    let page = PageAddress { space: SpaceId(child), vpn: Vpn(1), size: PageSize::Base };
    pager.page_out(&[page], &mut out);
    out == [Outcome::SpaceGone]
}

fn check(lab: &mut Lab, groups: &mut Cgroups, memory: &Memory, child: &mut UnixStream) {
    let user = |groups: &Cgroups| {
        let charged =
            groups.get(0).expect("it").usage_by_node().expect("readable").unwrap_or_default();
        charged.iter().map(|node| node.user).sum::<Bytes>()
    };
    match probe(&lab.root, groups) {
        Ok(ability) => lab.expect("anonymous memory can be paged out", ability.no_swap.is_none()),
        Err(error) => lab.expect(&error.to_string(), false),
    }
    lab.expect(
        "the child is in its group",
        group_of(&lab.root, lab.child).as_deref() == Some("/example"),
    );
    lab.expect("the group lists the child", groups.processes().get(&lab.child) == Some(&0));
    let before = user(groups);
    println!("  the group uses {before}");
    let mut page_in = PageIn::default();
    let root = lab.root.clone();
    page_in.stall_share(now(), &root, groups).expect("PSI");

    let out = lab.out(memory.base, BASE_PAGES, PageSize::Base);
    lab.expect("base pages are paged out", out.get(&Outcome::Done) == Some(&BASE_PAGES));
    let bytes = Bytes::from_base_pages(BASE_PAGES as u64);
    lab.expect("all of them are in swap", lab.swapped() >= bytes);
    let after = user(groups);
    println!("  the group uses {after}");
    lab.expect(
        "the group's usage falls by as much",
        before.saturating_sub(after).0 >= bytes.0 / 10 * 9,
    );
    let out = lab.out(memory.huge, HUGE_PAGES, PageSize::Huge);
    lab.expect("huge pages are paged out", out.get(&Outcome::Done) == Some(&HUGE_PAGES));
    let all = Bytes::from_base_pages((HUGE_PAGES as u64) * BASE_PER_HUGE) + bytes;
    lab.expect("all of them are in swap", lab.swapped() >= all);
    let out = lab.out(memory.shared, 8, PageSize::Base);
    lab.expect("pages of two processes stay", out == BTreeMap::from([(Outcome::Refused, 8)]));
    let out = lab.out(memory.locked, 8, PageSize::Base);
    lab.expect("locked pages stay", out == BTreeMap::from([(Outcome::Refused, 8)]));
    let out = lab.out(Vpn(1), 8, PageSize::Base);
    lab.expect(
        "unmapped pages are reported as gone",
        out == BTreeMap::from([(Outcome::PageGone, 8)]),
    );

    let (counted, began) = (refaults(&lab.root, groups).expect("counted"), Instant::now());
    let idle = page_in.stall_share(now(), &lab.root, groups).expect("PSI");
    lab.expect("every byte is unchanged", ask(child));
    let took = began.elapsed();
    let stall = page_in.stall_share(now(), &lab.root, groups).expect("PSI").unwrap_or(0.0);
    let back = refaults(&lab.root, groups).expect("counted").since(counted);
    println!(
        "  stall while paging out {idle:?}; paging in took {took:?}: stall {stall:.3}, {back} refaults"
    );
    lab.expect("paging in shows as a stall", stall > 0.05);
    lab.expect("paging in shows in the group's refaults", back >= (BASE_PAGES / 2) as u64);
    lab.expect("nothing is left in swap", lab.swapped() == Bytes::ZERO);

    let asked = groups.get(0).expect("it").reclaim(Bytes::from_mib(8), Some(200));
    lab.expect(
        "memory.reclaim reclaims the requested amount",
        matches!(asked, Ok(Some(Reclaimed::All))),
    );
    println!("  {} in swap", lab.swapped());
    lab.expect(
        "memory.reclaim reclaims not much more",
        lab.swapped() >= Bytes::from_mib(7) && lab.swapped() <= Bytes::from_mib(12),
    );
    fs::write(format!("{GROUP}/memory.swap.max"), "0").expect("a limit");
    let none = probe(&lab.root, groups).ok().and_then(|ability| ability.no_swap);
    lab.expect(
        "the error names the group that may not swap",
        none.is_some_and(|error| error.to_string().contains("example")),
    );
    lab.expect("every byte is unchanged again", ask(child) && lab.swapped() == Bytes::ZERO);
    let out = lab.out(memory.base, 64, PageSize::Base);
    lab.expect("its pages stay", out == BTreeMap::from([(Outcome::Busy, 64)]));
}
