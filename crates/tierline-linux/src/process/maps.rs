// SPDX-License-Identifier: Apache-2.0
//! `/proc/PID/maps` as regions, and their changes since the last read.

use std::hash::BuildHasher;

use rustc_hash::FxBuildHasher;
use tierline_core::port::{PageKind, PageSize, Region, SpaceEvent, SpaceId, Vpn};
use tierline_core::unit::{BASE_PER_HUGE, Bytes, Nanos};

use super::held::{ended, file_error, is_gone};
use super::huge;
use super::limits::{keep_within_limit, left_out, mappings_text};
use super::stat::Stat;
use crate::error::{Error, Result};
use crate::root::Root;

/// A run of pages of one kind: first page, first page after it, kind.
pub(crate) type MappedRun = (u64, u64, PageKind);

/// A process that seems idle is read in one of so many looks: it may have changed a mapping in less than a clock tick.
const IDLE_LOOKS: u8 = 8;

/// The mappings of one process.
#[derive(Debug)]
pub struct Maps {
    space: SpaceId,
    /// Its size and CPU time at the last reading, and the looks since.
    at_reading: (u64, u64),
    idle_looks: u8,
    /// When they may be read again, as that is costly.
    pub due: Nanos,
    /// A hash of the text of the last read: if it is equal, nothing changed.
    text: Option<u64>,
    runs: Vec<MappedRun>,
    hugetlb: Bytes,
    /// Mappings that are left out, until it is reported; once for a process.
    left_out: Option<Error>,
    has_told: bool,
}

impl Maps {
    /// A space with no known mappings.
    pub fn new(space: SpaceId) -> Self {
        let (runs, hugetlb) = (Vec::new(), Bytes::ZERO);
        Self {
            space,
            at_reading: (0, 0),
            idle_looks: 0,
            due: Nanos::ZERO,
            text: None,
            runs,
            hugetlb,
            left_out: None,
            has_told: false,
        }
    }

    /// Whether the process has neither run nor changed its size since the last reading, so that another one, the most
    /// costly part of a look, is likely to show nothing new.
    pub fn is_idle(&mut self, stat: &Stat) -> bool {
        let now = (stat.size, stat.ran);
        let same = self.text.is_some() && self.at_reading == now;
        self.idle_looks = if same { (self.idle_looks + 1) % IDLE_LOOKS } else { 0 };
        self.at_reading = now;
        self.idle_looks > 0
    }

    /// Reads the mappings and appends the changes: unmapped runs first, then mapped ones. The mappings do not
    /// show which pages are huge. Nothing is parsed if the text is the same as last time. A process that has
    /// ended is `Gone`, not an error.
    ///
    /// # Errors
    /// `Error::File` if we may not read them.
    pub fn refresh(&mut self, root: &Root, out: &mut Vec<SpaceEvent>) -> Result<()> {
        let pid = self.space.0;
        let read = root.process(pid).ok_or_else(ended).and_then(|held| mappings_text(&held));
        let (text, is_cut) = match read {
            Ok(read) => read,
            Err(error) if is_gone(&error) => (Vec::new(), false),
            Err(source) => return Err(file_error(root, pid, "maps", "read", source)),
        };
        let hash = (!text.is_empty()).then(|| FxBuildHasher.hash_one(&text));
        if hash == self.text {
            return Ok(());
        }
        if hash.is_none() {
            *self = Self::new(self.space);
            out.push(SpaceEvent::Gone(self.space));
            return Ok(());
        }
        let (mut runs, hugetlb) = parse(&text);
        let pages = keep_within_limit(root, &mut runs);
        if (is_cut || pages > 0) && !std::mem::replace(&mut self.has_told, true) {
            self.left_out = Some(left_out(pid, pages, is_cut));
        }
        self.replace(runs, out);
        (self.text, self.hugetlb) = (hash, hugetlb);
        Ok(())
    }

    /// Takes the report of mappings that are not managed, once.
    pub fn take_left_out(&mut self) -> Option<Error> {
        self.left_out.take()
    }

    /// Base pages that are managed.
    pub fn pages(&self) -> u64 {
        self.runs.iter().map(|run| run.1 - run.0).sum()
    }

    /// Finds which pages are huge (`PAGEMAP_SCAN`, Linux 6.7) and appends the page sizes of all mappings that may have
    /// huge pages. Walks page tables - about 0.1 s for a million base pages - so call it rarely.
    ///
    /// # Errors
    /// `Error::Missing` if the kernel has no `PAGEMAP_SCAN`, `Error::File` if the page map may not be opened. An
    /// ended process is not an error.
    pub fn sizes(&self, root: &Root, out: &mut Vec<SpaceEvent>) -> Result<()> {
        let whole = self.runs.iter().map(|(start, end, _)| {
            (start.next_multiple_of(BASE_PER_HUGE), Vpn(*end).huge_head().0)
        });
        let whole: Vec<(u64, u64)> = whole.filter(|(start, end)| start < end).collect();
        let huge = huge::scan(root, self.space.0, &whole)?;
        let mut sized = |runs: &[(u64, u64)], size| {
            let event =
                |&(start, end)| SpaceEvent::Sized(self.space, Vpn(start), end - start, size);
            out.extend(runs.iter().map(event));
        };
        sized(&subtract(&whole, &huge), PageSize::Base);
        sized(&huge, PageSize::Huge);
        Ok(())
    }

    /// Bytes mapped from hugetlb: reserved by their program, and not managed.
    pub fn hugetlb(&self) -> Bytes {
        self.hugetlb
    }

    fn replace(&mut self, runs: Vec<MappedRun>, out: &mut Vec<SpaceEvent>) {
        for kind in [PageKind::Anonymous, PageKind::File, PageKind::Shared] {
            for (start, end) in subtract(&of_kind(&self.runs, kind), &of_kind(&runs, kind)) {
                out.push(SpaceEvent::Unmapped(self.space, Vpn(start), end - start));
            }
        }
        for kind in [PageKind::Anonymous, PageKind::File, PageKind::Shared] {
            for (start, end) in subtract(&of_kind(&runs, kind), &of_kind(&self.runs, kind)) {
                let (space, size) = (self.space, PageSize::Base);
                let (start, base_pages) = (Vpn(start), end - start);
                let region = Region { space, start, base_pages, size, kind };
                out.push(SpaceEvent::Mapped(region));
            }
        }
        self.runs = runs;
    }
}

/// The manageable runs of a maps text, with neighbours of one kind joined, and the hugetlb bytes, which are
/// left out. The kernel writes the file a buffer at a time: a mapping that moved meanwhile can appear
/// twice, so addresses that do not rise are dropped.
fn parse(text: &[u8]) -> (Vec<MappedRun>, Bytes) {
    let mut runs: Vec<MappedRun> = Vec::new();
    let mut hugetlb = Bytes::ZERO;
    // A name can have any bytes.
    let lines = text.split(|byte| *byte == b'\n').map(String::from_utf8_lossy);
    for (start, end, what) in lines.filter_map(|line| parse_line(&line)) {
        let kind = match what {
            MappingKind::Pages(kind) => kind,
            MappingKind::HugeTlb => {
                hugetlb += Bytes::from_base_pages(end - start);
                continue;
            }
        };
        let start = start.max(runs.last().map_or(0, |run| run.1));
        match runs.last_mut() {
            _ if start >= end => {}
            Some(last) if last.1 == start && last.2 == kind => last.1 = end,
            _ => runs.push((start, end, kind)),
        }
    }
    (runs, hugetlb)
}

enum MappingKind {
    Pages(PageKind),
    HugeTlb,
}

/// Parses `start-end perms offset dev inode path`; `None` if it is not manageable.
fn parse_line(line: &str) -> Option<(u64, u64, MappingKind)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let perms = words.next()?;
    let (_offset, _device, inode) = (words.next()?, words.next()?, words.next()?);
    let name = words.next().unwrap_or_default();
    // Guard regions hold no pages.
    if start >= end || perms.starts_with("---") {
        return None;
    }
    Some((Vpn::of(start).0, Vpn::of(end).0, what(perms, inode, name)?))
}

fn what(perms: &str, inode: &str, name: &str) -> Option<MappingKind> {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if starts(&["[vdso", "[vvar", "[vsyscall", "[uprobes"]) {
        return None;
    }
    if starts(&["/anon_hugepage", "/dev/hugepages", "/memfd:hugetlb"]) {
        return Some(MappingKind::HugeTlb);
    }
    if starts(&["/dev/zero", "/dev/shm/", "/memfd:", "/SYSV", "[anon_shmem:"]) {
        return Some(MappingKind::Pages(PageKind::Shared));
    }
    // Device memory cannot be moved.
    if starts(&["/dev/", "anon_inode:"]) {
        return None;
    }
    let writable = perms.contains('w');
    Some(MappingKind::Pages(match perms.ends_with('s') {
        true => PageKind::File,
        false if inode == "0" => PageKind::Anonymous,
        // A program's data segment: written pages become private memory.
        false if writable => PageKind::Anonymous,
        false => PageKind::File,
    }))
}

fn of_kind(runs: &[MappedRun], kind: PageKind) -> Vec<(u64, u64)> {
    runs.iter().filter(|run| run.2 == kind).map(|(start, end, _)| (*start, *end)).collect()
}

/// The parts of `runs` in none of `holes`; both by address, without overlaps.
fn subtract(runs: &[(u64, u64)], holes: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut left = Vec::new();
    let mut first = 0;
    for &(mut start, end) in runs {
        first += holes[first..].partition_point(|hole| hole.1 <= start);
        for hole in holes[first..].iter().take_while(|hole| hole.0 < end) {
            if hole.0 > start {
                left.push((start, hole.0));
            }
            start = start.max(hole.1);
        }
        if start < end {
            left.push((start, end));
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::fake;

    const TEXT: &str = "\
00400000-00402000 r-xp 00000000 08:01 42                                 /usr/bin/app
00402000-00403000 rw-p 00002000 08:01 42                                 /usr/bin/app
00403000-00405000 rw-p 00000000 00:00 0                                  [heap]
7f0000000000-7f0000200000 rw-p 00000000 00:00 0
7f0000200000-7f0000201000 ---p 00000000 00:00 0
7f0000201000-7f0000203000 rw-s 00000000 00:01 7                          /dev/shm/x y
7f0000400000-7f0000600000 rw-p 00000000 00:0f 9                          /anon_hugepage (deleted)
7f0000600000-7f0000601000 rw-s 00000000 00:06 3                          /dev/dri/card0
7ffe00000000-7ffe00021000 rw-p 00000000 00:00 0                          [stack]
7ffe00030000-7ffe00034000 r--p 00000000 00:00 0                          [vvar]
7ffe00034000-7ffe00036000 r-xp 00000000 00:00 0                          [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

    #[test]
    fn lines_become_runs_of_one_kind() {
        let (runs, hugetlb) = parse(TEXT.as_bytes());
        assert_eq!(
            runs,
            [
                (0x400, 0x402, PageKind::File),
                (0x402, 0x405, PageKind::Anonymous),
                (0x7_f000_0000, 0x7_f000_0200, PageKind::Anonymous),
                (0x7_f000_0201, 0x7_f000_0203, PageKind::Shared),
                (0x7_ffe0_0000, 0x7_ffe0_0021, PageKind::Anonymous),
            ]
        );
        assert_eq!(hugetlb, Bytes(2 << 20));
    }

    #[test]
    fn torn_and_malformed_texts_are_tolerated() {
        let (runs, _) = parse(
            b"1000-3000 rw-p 0 0:0 0\n2000-4000 rw-p 0 0:0 0\nx\n5000-4000 rw-p 0 0:0 0\n6000-7000\n",
        );
        assert_eq!(runs, [(1, 4, PageKind::Anonymous)]);
    }

    #[test]
    fn only_differences_are_reported_unmapped_first() {
        let (_dir, root) =
            fake(&[("/proc/5/maps", "1000-5000 rw-p 0 0:0 0\n"), ("/proc/5/stat", "")]);
        root.hold(5).expect("it runs");
        let mut maps = Maps::new(SpaceId(5));
        let mut out = Vec::new();
        maps.refresh(&root, &mut out).expect("maps");
        let region = |start, base_pages| Region {
            space: SpaceId(5),
            start: Vpn(start),
            base_pages,
            size: PageSize::Base,
            kind: PageKind::Anonymous,
        };
        assert_eq!(out, [SpaceEvent::Mapped(region(1, 4))]);
        out.clear();
        maps.refresh(&root, &mut out).expect("maps");
        assert!(out.is_empty());
        std::fs::write(
            root.path("/proc/5/maps"),
            "1000-2000 rw-p 0 0:0 0\n3000-9000 rw-p 0 0:0 0\n",
        )
        .expect("a change");
        maps.refresh(&root, &mut out).expect("maps");
        assert_eq!(
            out,
            [SpaceEvent::Unmapped(SpaceId(5), Vpn(2), 1), SpaceEvent::Mapped(region(5, 4))]
        );
        out.clear();
        std::fs::remove_dir_all(root.path("/proc/5")).expect("an end");
        maps.refresh(&root, &mut out).expect("maps");
        assert_eq!(out, [SpaceEvent::Gone(SpaceId(5))]);
        assert!(maps.runs.is_empty());
    }

    #[test]
    fn the_mappings_of_an_idle_program_are_read_now_and_then() {
        let (_dir, root) =
            fake(&[("/proc/5/maps", "1000-5000 rw-p 0 0:0 0\n"), ("/proc/5/stat", "")]);
        root.hold(5).expect("it runs");
        let (mut maps, mut out) = (Maps::new(SpaceId(5)), Vec::new());
        let text = crate::process::stat::tests::text(5, "it", 1, 5, 9, 1);
        let mut stat = Stat::parse(&text).expect("a stat");
        let mut is_idle = |maps: &mut Maps, stat: &Stat| {
            let idle = maps.is_idle(stat);
            maps.refresh(&root, &mut out).expect("maps");
            idle
        };
        assert!(!is_idle(&mut maps, &stat), "never read");
        let idle: Vec<bool> = (0..16).map(|_| is_idle(&mut maps, &stat)).collect();
        assert_eq!(idle.iter().filter(|idle| **idle).count(), 14, "{idle:?}");
        stat.ran += 1;
        assert!(!is_idle(&mut maps, &stat) && is_idle(&mut maps, &stat), "it has run");
        stat.size += 4096;
        assert!(!is_idle(&mut maps, &stat) && is_idle(&mut maps, &stat), "it has grown");
    }

    #[test]
    fn a_reserved_address_space_is_left_out_and_said_once() {
        let whole = "1000-5000 rw-p 0 0:0 0\n10000000-400010000000 rw-p 0 0:0 0\n";
        let (_dir, root) = fake(&[("/proc/5/maps", whole), ("/proc/5/stat", "")]);
        root.hold(5).expect("it runs");
        let (mut maps, mut out) = (Maps::new(SpaceId(5)), Vec::new());
        maps.refresh(&root, &mut out).expect("maps");
        // Its start stays.
        let most = 1 << 24;
        assert_eq!((maps.pages(), out.len()), (most, 2), "{out:?}");
        let told = maps.take_left_out().expect("told").to_string();
        assert!(told.contains("63.9 TiB") && told.contains("process 5"), "{told}");
        let more = format!("{whole}500000000000-500000001000 rw-p 0 0:0 0\n");
        std::fs::write(root.path("/proc/5/maps"), more).expect("a change");
        maps.refresh(&root, &mut out).expect("maps");
        assert_eq!((maps.pages(), maps.take_left_out().is_none()), (most, true));
        assert_eq!(maps.runs.last(), Some(&(0x5_0000_0000, 0x5_0000_0001, PageKind::Anonymous)));
    }

    #[test]
    fn a_change_of_kind_is_an_unmap_and_a_map() {
        let mut maps = Maps::new(SpaceId(1));
        let mut out = Vec::new();
        maps.replace(vec![(1, 4, PageKind::Anonymous)], &mut out);
        out.clear();
        maps.replace(vec![(1, 2, PageKind::Anonymous), (2, 4, PageKind::File)], &mut out);
        assert!(matches!(out[0], SpaceEvent::Unmapped(_, Vpn(2), 2)));
        assert!(matches!(out[1], SpaceEvent::Mapped(Region { kind: PageKind::File, .. })));
    }

    #[test]
    fn run_arithmetic() {
        assert_eq!(subtract(&[(0, 10), (20, 30)], &[(2, 4), (8, 22)]), [(0, 2), (4, 8), (22, 30)]);
        assert_eq!(subtract(&[], &[(1, 2)]), []);
        assert_eq!(subtract(&[(1, 2), (2, 3)], &[(1, 3)]), []);
    }
}
