// SPDX-License-Identifier: Apache-2.0
//! Pages out memory of other processes: `process_madvise` with `MADV_PAGEOUT`.
//!
//! The kernel writes anonymous and shared memory to swap, and drops file pages whose content is on disk. Pages that
//! several processes map, and changed file pages, stay in memory. The call does not report which pages
//! were paged out, so the page map is read afterwards.
//!
//! The page map does not show whether a file page that no process maps is still in the page cache. It stays there
//! if only a part of a large folio was named: the kernel splits the folio, which unmaps the pages, and reclaims
//! them only at the next request, after an access (measured on Linux 6.18 with ext4).

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use rustix::io::Errno;
use tierline_core::port::{Outcome, PageAddress, PageSize, SpaceId};
use tierline_core::unit::Bytes;

use crate::cgroup::Cgroups;
use crate::error::{Error, Result};
use crate::pagemap::Pagemap;
use crate::process::advise::{Advice, advise, check_support, joined};
use crate::root::Root;
use crate::telemetry::{Pressure, Resource};

/// The bit of `CAP_SYS_NICE` in `/proc/self/status`.
const SYS_NICE: u32 = 23;

/// Pages out.
#[derive(Debug)]
pub struct Pager {
    root: Root,
    errors: Vec<Error>,
    /// Errors already reported.
    reported: BTreeSet<i32>,
}

/// What can be paged out on this machine.
#[derive(Debug)]
pub struct PageOutSupport {
    /// Why anonymous and shared memory cannot be paged out, if so; file pages always can.
    pub no_swap: Option<Error>,
}

/// Finds what can be paged out of the processes in `groups`. Access to single processes is not tried: the kernel
/// requires the same rights as for reading `/proc/PID/maps`.
///
/// # Errors
/// `Error::Missing` if nothing can be paged out: the system call, the right to use it, or the pressure information
/// that shows the cost of paging in is missing.
pub fn probe(root: &Root, groups: &Cgroups) -> Result<PageOutSupport> {
    probe_with(root, groups, check_support(Advice::PageOut))
}

fn probe_with(
    root: &Root,
    groups: &Cgroups,
    tried: std::result::Result<(), Errno>,
) -> Result<PageOutSupport> {
    let missing = |why: String, hint: &str| {
        Err(Error::Missing { what: "paging out".into(), why, hint: hint.into() })
    };
    match tried {
        Err(Errno::NOSYS | Errno::INVAL) => {
            return missing(
                "this kernel has no process_madvise(MADV_PAGEOUT)".into(),
                "use Linux 5.10 or newer; in a container, allow process_madvise in its seccomp profile",
            );
        }
        _ if !may_advise(root) => {
            return missing(
                "process_madvise needs CAP_SYS_NICE, which is missing".into(),
                "run as root, or add CAP_SYS_NICE to the service's AmbientCapabilities",
            );
        }
        Err(errno) => {
            return missing(
                format!("process_madvise fails on our own process: {errno}"),
                "in a container, allow process_madvise in its seccomp profile",
            );
        }
        Ok(()) => {}
    }
    Pressure::of_machine(root, Resource::Memory)?;
    Ok(PageOutSupport { no_swap: no_swap(root, groups)? })
}

/// True if this process has the capability to advise other processes.
fn may_advise(root: &Root) -> bool {
    let status = root.read("/proc/self/status").unwrap_or_default();
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = held.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    held.is_some_and(|held| held & (1 << SYS_NICE) != 0)
}

fn no_swap(root: &Root, groups: &Cgroups) -> Result<Option<Error>> {
    let missing = |why: String, hint: &str| {
        Ok(Some(Error::Missing { what: "swap".into(), why, hint: hint.into() }))
    };
    match free_swap(root) {
        None => {
            return missing(
                "/proc/swaps lists no device".into(),
                "add one with mkswap and swapon: a partition, a file, or compressed memory (modprobe zram)",
            );
        }
        Some(Bytes::ZERO) => {
            return missing(
                "all devices in /proc/swaps are full".into(),
                "add a larger one with mkswap and swapon",
            );
        }
        Some(_) => {}
    }
    for group in groups.iter() {
        if group.may_swap()? == Some(false) {
            return missing(
                format!(
                    "memory.swap.max of cgroup {:?} or of a group above it is 0",
                    group.typed_name()
                ),
                "raise it: echo max > memory.swap.max (MemorySwapMax= of a systemd unit)",
            );
        }
    }
    Ok(None)
}

/// Free bytes on all swap devices; `None` if there is no device.
fn free_swap(root: &Root) -> Option<Bytes> {
    let text = root.read("/proc/swaps").ok()?;
    let kib = |line: &str| -> Option<u64> {
        // Blanks in a file's name are escaped. Fields: Filename Type Size Used Priority.
        let mut fields = line.split_ascii_whitespace().skip(2).map(|word| word.parse::<u64>().ok());
        Some(fields.next()??.saturating_sub(fields.next()??))
    };
    let devices: Vec<u64> = text.lines().skip(1).filter_map(kib).collect();
    (!devices.is_empty()).then(|| Bytes(devices.iter().sum::<u64>() << 10))
}

impl Pager {
    /// A pager for this machine.
    pub fn new(root: &Root) -> Self {
        Self { root: root.clone(), errors: Vec::new(), reported: BTreeSet::new() }
    }

    /// Takes the failures that outcomes cannot describe; each errno is reported once.
    pub fn take_errors(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.errors)
    }

    /// Pages out and appends one outcome per page, in the same order. `Outcome::Done`: paged out; `NoRoom`: swap is
    /// full; `Busy`: in use, or its file is not yet written; `Refused`: mapped by other processes too, or locked.
    pub fn page_out(&mut self, pages: &[PageAddress], out: &mut Vec<Outcome>) {
        let mut by_space: BTreeMap<SpaceId, Vec<(Page, usize)>> = BTreeMap::new();
        for (at, page) in pages.iter().enumerate() {
            by_space.entry(page.space).or_default().push((Page::of(page), at));
        }
        let first = out.len();
        out.resize(first + pages.len(), Outcome::Refused);
        for (space, mut named) in by_space {
            named.sort_unstable();
            let pages: Vec<Page> = named.iter().map(|(page, _)| *page).collect();
            let outcomes = self.of_one(space, &pages);
            for ((_, at), outcome) in named.into_iter().zip(outcomes) {
                out[first + at] = outcome;
            }
        }
    }

    /// Pages out sorted pages of one process.
    fn of_one(&mut self, space: SpaceId, pages: &[Page]) -> Vec<Outcome> {
        match refusals(&self.root, space, pages) {
            Ok(refused) => match self.read_back(space, pages, &refused) {
                Ok(outcomes) => outcomes,
                Err(error) => {
                    let gone = self.root.process(space.0).is_none();
                    let outcome = if gone { Outcome::SpaceGone } else { Outcome::Refused };
                    self.report(-1, (!gone).then_some(error));
                    vec![outcome; pages.len()]
                }
            },
            Err(Errno::SRCH) => vec![Outcome::SpaceGone; pages.len()],
            Err(errno) => {
                let call = format!("process_madvise(MADV_PAGEOUT) of process {}", space.0);
                let source = io::Error::from_raw_os_error(errno.raw_os_error());
                self.report(errno.raw_os_error(), Some(Error::Call { call, source }));
                vec![Outcome::Refused; pages.len()]
            }
        }
    }

    fn report(&mut self, errno: i32, error: Option<Error>) {
        if let Some(error) = error
            && self.reported.insert(errno)
        {
            self.errors.push(error);
        }
    }

    /// Reads the outcomes from the page map.
    fn read_back(
        &self,
        space: SpaceId,
        pages: &[Page],
        refused: &[Option<Errno>],
    ) -> Result<Vec<Outcome>> {
        let mut pagemap = Pagemap::open(&self.root, space.0)?;
        let mut outcomes = Vec::with_capacity(pages.len());
        let full = || free_swap(&self.root).is_none_or(|free| free == Bytes::ZERO);
        for (page, refused) in pages.iter().zip(refused) {
            let mut left = Remaining::default();
            pagemap.read(page.start..page.start + page.base_pages, |_, entry| {
                left.add(entry.is_present(), entry.is_exclusive(), entry.is_anonymous());
            })?;
            outcomes.push(left.outcome(*refused, &full));
        }
        Ok(outcomes)
    }
}

/// A page of a process: its start and length, in base pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Page {
    start: u64,
    base_pages: u64,
}

impl Page {
    fn of(page: &PageAddress) -> Self {
        let head = if page.size == PageSize::Huge { page.vpn.huge_head() } else { page.vpn };
        Self { start: head.0, base_pages: page.size.base_pages() }
    }
}

/// Calls the kernel, with neighbouring pages as one range; returns the error of each refused page.
fn refusals(
    root: &Root,
    space: SpaceId,
    pages: &[Page],
) -> std::result::Result<Vec<Option<Errno>>, Errno> {
    let held = root.process(space.0).ok_or(Errno::SRCH)?;
    let ranges = joined(pages.iter().map(|page| (page.start, page.base_pages)));
    let mut of_ranges = Vec::with_capacity(ranges.len());
    advise(&held, Advice::PageOut, &ranges, &mut of_ranges)?;
    let mut refused = Vec::with_capacity(pages.len());
    for (range, errno) in ranges.iter().zip(of_ranges) {
        let within = pages[refused.len()..].iter().take_while(|page| page.start < range.end);
        match errno {
            None => refused.resize(refused.len() + within.count(), None),
            // One refused page fails its whole range: retry page by page.
            Some(_) => {
                let alone: Vec<_> = within.map(|p| p.start..p.start + p.base_pages).collect();
                advise(&held, Advice::PageOut, &alone, &mut refused)?;
            }
        }
    }
    Ok(refused)
}

/// The part of a page that is still in memory.
#[derive(Clone, Copy, Debug, Default)]
struct Remaining {
    any: bool,
    /// Mapped by other processes as well.
    shared: bool,
    /// It would be written to swap.
    anonymous: bool,
}

impl Remaining {
    fn add(&mut self, present: bool, exclusive: bool, anonymous: bool) {
        self.any |= present;
        self.shared |= present && !exclusive;
        self.anonymous |= present && anonymous;
    }

    /// The outcome of the page; `full` returns whether swap is full.
    fn outcome(self, refused: Option<Errno>, full: &dyn Fn() -> bool) -> Outcome {
        match refused {
            Some(Errno::NOMEM) => Outcome::PageGone,
            Some(_) => Outcome::Refused,
            None if !self.any => Outcome::Done,
            None if self.shared => Outcome::Refused,
            None if self.anonymous && full() => Outcome::NoRoom,
            None => Outcome::Busy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use tierline_core::port::Vpn;

    use crate::cgroup::tests::Fake;

    const SWAPS: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";

    #[test]
    fn a_missing_requirement_is_named_with_a_next_step() {
        let fake = Fake::new();
        let put = |path: &str, text: &str| fake.put(path, text);
        let probe = |tried| probe_with(&fake.root, &Cgroups::default(), tried);
        let why = |tried| {
            let error = probe(tried).expect_err("missing");
            assert!(error.hint().is_some_and(|hint| !hint.is_empty()));
            error.to_string()
        };
        assert!(why(Err(Errno::NOSYS)).contains("no process_madvise(MADV_PAGEOUT)"));
        assert!(why(Ok(())).contains("CAP_SYS_NICE"));
        put("/proc/self/status", "CapEff:\t0000000000000000\n");
        assert!(why(Err(Errno::PERM)).contains("CAP_SYS_NICE"));
        put("/proc/self/status", "CapEff:\t0000000000800000\n");
        assert!(why(Ok(())).contains("/proc/pressure/memory"), "{}", why(Ok(())));
        put("/proc/pressure/memory", "some avg10=0 avg60=0 avg300=0 total=0\n");
        let no_swap = |groups: &[&str]| {
            let named: Vec<String> = groups.iter().map(|name| (*name).into()).collect();
            let groups = Cgroups::open(&fake.root, &named).expect("groups");
            let ability = probe_with(&fake.root, &groups, Ok(())).expect("files at least");
            ability.no_swap.map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(no_swap(&[]).contains("lists no device"));
        put("/proc/swaps", SWAPS);
        assert!(no_swap(&[]).contains("lists no device"));
        put("/proc/swaps", &format!("{SWAPS}/dev/zram0 partition 8188 8188 100\n"));
        assert!(no_swap(&[]).contains("full"));
        put(
            "/proc/swaps",
            &format!("{SWAPS}/dev/zram0 partition 8188 8188 100\n/a\\040b file 16 12 -2\n"),
        );
        assert_eq!((no_swap(&[]), free_swap(&fake.root)), (String::new(), Some(Bytes(4096))));
        fake.group("a", &[]);
        fake.group("b", &[]);
        put("/sys/fs/cgroup/b/memory.swap.max", "0\n");
        assert!(no_swap(&["a", "b"]).contains("cgroup \"b\""));
        assert_eq!(no_swap(&["a"]), "");
    }

    #[test]
    fn pages_left_in_memory_have_the_right_outcome() {
        let outcome = |entries: &[(bool, bool, bool)], refused, full: bool| {
            let mut left = Remaining::default();
            entries
                .iter()
                .for_each(|&(present, exclusive, anon)| left.add(present, exclusive, anon));
            left.outcome(refused, &|| full)
        };
        let (out, own, shared, file) =
            ((false, false, true), (true, true, true), (true, false, true), (true, true, false));
        assert_eq!(outcome(&[out, out], None, true), Outcome::Done);
        assert_eq!(outcome(&[out, own], None, true), Outcome::NoRoom);
        assert_eq!(outcome(&[out, own], None, false), Outcome::Busy);
        assert_eq!(outcome(&[file], None, true), Outcome::Busy, "no swap is needed for it");
        assert_eq!(outcome(&[own, shared], None, true), Outcome::Refused);
        assert_eq!(outcome(&[out], Some(Errno::NOMEM), false), Outcome::PageGone);
        assert_eq!(outcome(&[own], Some(Errno::INVAL), false), Outcome::Refused);
    }

    /// A new file of 8 pages, fully mapped.
    fn mapped(mut file: &File) -> *mut u8 {
        file.write_all(&vec![0xa5; BYTES]).expect("room");
        file.sync_all().expect("written");
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new memory, which stays mapped until the test's process ends; the bytes read are inside it.
        unsafe {
            let start = std::ptr::null_mut();
            let start = libc::mmap(start, BYTES, access, libc::MAP_SHARED, file.as_raw_fd(), 0);
            assert_ne!(start, libc::MAP_FAILED);
            let start = start.cast::<u8>();
            (0..PAGES).for_each(|page| {
                std::ptr::read_volatile(start.add(page << 12));
            });
            start
        }
    }

    /// `TMPFS_MAGIC` of the kernel's `magic.h`.
    const TMPFS: rustix::fs::FsWord = 0x0102_1994;
    const PAGES: usize = 8;
    const BYTES: usize = PAGES << 12;

    /// How many pages of such a mapping are in the page cache.
    fn cached(start: *mut u8) -> usize {
        let mut cached = [0_u8; PAGES];
        // SAFETY: mapping and vector have the right lengths: one byte per page.
        assert_eq!(unsafe { libc::mincore(start.cast(), BYTES, cached.as_mut_ptr()) }, 0);
        cached.iter().filter(|&byte| byte & 1 == 1).count()
    }

    /// On the running kernel. Skipped if a process may not advise itself (before Linux 6.13), or if the files are on
    /// tmpfs.
    #[test]
    fn pages_of_a_file_are_out_and_come_back_with_their_bytes() {
        if let Err(errno) = check_support(Advice::PageOut) {
            return eprintln!("skipped: {errno}");
        }
        let file = || tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).expect("a file");
        let files = [file(), file()];
        if rustix::fs::fstatfs(&files[0]).expect("its file system").f_type == TMPFS {
            return eprintln!("skipped: {} is in memory", env!("CARGO_MANIFEST_DIR"));
        }
        let [start, other] = files.each_ref().map(mapped);
        let first = Vpn::of(start.addr() as u64).0;
        let own = SpaceId(std::process::id());
        let page = |vpn| PageAddress { space: own, vpn: Vpn(vpn), size: PageSize::Base };
        let gone = PageAddress { space: SpaceId(u32::MAX), ..page(1) };
        // In descending order of address, and with pages that are not mapped.
        let mut pages: Vec<PageAddress> =
            (0..PAGES as u64).rev().map(|at| page(first + at)).collect();
        pages.extend([gone, page(16)]);
        let (mut pager, mut out) = (Pager::new(&Root::default()), vec![Outcome::Busy]);
        pager.page_out(&pages, &mut out);
        assert_eq!(out[0], Outcome::Busy, "pages in use stay");
        assert_eq!(out[1..=PAGES], [Outcome::Done; PAGES], "{:?}", pager.take_errors());
        assert_eq!(out[PAGES + 1..], [Outcome::SpaceGone, Outcome::PageGone]);
        assert_eq!((cached(start), cached(other)), (0, PAGES));
        // SAFETY: the mapping has this length.
        let bytes = unsafe { std::slice::from_raw_parts(start, BYTES) };
        assert!(bytes.iter().all(|&byte| byte == 0xa5));
        assert!(pager.take_errors().is_empty());
    }
}
