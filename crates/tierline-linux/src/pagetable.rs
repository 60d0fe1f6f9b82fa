// SPDX-License-Identifier: Apache-2.0
//! Walks the page tables (x86-64) of another process: one entry per page, with the accessed bit.
//!
//! The walk follows present entries from the top table and does not need `/proc/PID/maps`: tables exist
//! only where pages are mapped, so no empty range is read, and a process with thousands of mappings
//! costs no more than one with three.
//!
//! Nothing is locked. A table may be freed and reused while it is read; the 2 MiB that it described then
//! give wrong entries once. These are harmless: an address outside RAM is not followed, the number of
//! tables is bounded by the RAM, and the caller looks up every reported frame.
//!
//! Never reported: pages that managers do not move (the zero page, device memory), 1 GiB pages (they
//! cannot be migrated), swapped pages. Only recent kernels mark the *huge* zero page: 6.12 shows it like
//! any other, and a move of it is refused. Pages of hugetlbfs look like transparent huge pages here, and
//! `clear_refs` does not clear their accessed bit: a caller that knows the mappings drops them.

use std::cell::RefCell;
use std::ops::Range;

use tierline_core::port::{PageSize, Vpn};
use tierline_core::unit::BASE_PER_HUGE;

use crate::kcore::Kcore;

const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
const LARGE: u64 = 1 << 7;
/// In an entry without `PRESENT`: armed for a NUMA hint fault, or `mprotect`ed to no access.
const PROT_NONE: u64 = 1 << 8;
/// A page without a page structure of its own, or the zero page.
const SPECIAL: u64 = 1 << 9;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
const ENTRIES: usize = 512;
/// User space is the lower half of the top table.
const USER_ENTRIES: usize = ENTRIES / 2;
const MAX_LEVELS: usize = 5;

/// Physical memory from which tables are read.
pub trait PhysicalMemory {
    /// Fills `buf` from a physical address; `false` if that is not RAM.
    fn read_phys(&self, address: u64, buf: &mut [u8]) -> bool;
    /// The number of base pages of RAM.
    fn ram_base_pages(&self) -> u64;
}

impl PhysicalMemory for Kcore {
    fn read_phys(&self, address: u64, buf: &mut [u8]) -> bool {
        self.read_phys(address, buf)
    }
    fn ram_base_pages(&self) -> u64 {
        self.ram_base_pages()
    }
}

/// Tables that one pass reads once: pages near each other have the same upper tables, and each small read is a system call.
pub struct ReadOnce<'a, M> {
    memory: &'a M,
    /// The last tables, the latest first.
    tables: RefCell<Vec<(u64, Box<Table>)>>,
}

type Table = [u8; ENTRIES * 8];

impl<'a, M: PhysicalMemory> ReadOnce<'a, M> {
    /// For one pass over tables in `memory`.
    pub fn new(memory: &'a M) -> Self {
        Self { memory, tables: RefCell::default() }
    }
}

impl<M: PhysicalMemory> PhysicalMemory for ReadOnce<'_, M> {
    fn read_phys(&self, address: u64, buf: &mut [u8]) -> bool {
        // What is longer than an entry is read from the lowest table, of which only a part is wanted.
        if buf.len() != 8 {
            return self.memory.read_phys(address, buf);
        }
        let (table, at) = (address & !0xfff, (address & 0xfff) as usize);
        let mut tables = self.tables.borrow_mut();
        match tables.iter().position(|(known, _)| *known == table) {
            Some(known) => tables[..=known].rotate_right(1),
            None => {
                let mut read = Box::new([0; ENTRIES * 8]);
                if !self.memory.read_phys(table, read.as_mut_slice()) {
                    return false;
                }
                tables.insert(0, (table, read));
                tables.truncate(MAX_LEVELS);
            }
        }
        let entry = tables[0].1.get(at..at + 8);
        entry.map(|entry| buf.copy_from_slice(entry)).is_some()
    }
    fn ram_base_pages(&self) -> u64 {
        self.memory.ram_base_pages()
    }
}

/// A page that is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedPage {
    /// Its first base page.
    pub vpn: Vpn,
    /// The frame of its first base page.
    pub pfn: u64,
    /// Base, or huge if one entry maps 2 MiB.
    pub size: PageSize,
    /// Accessed since the bit was last cleared.
    pub accessed: bool,
    /// The process may write to it now.
    pub writable: bool,
    /// Written since it was last written back (not since the accessed bit was cleared).
    pub dirty: bool,
}

/// Receives the pages of a walk. Any `FnMut(MappedPage)` receives every page.
pub trait Visit {
    /// A page.
    fn page(&mut self, leaf: MappedPage);

    /// The base pages of the table told last that are visited though they were not accessed; others are only counted.
    /// Called once per table: most pages of most programs are cold, and a call for each would be most of the cost of a walk.
    fn unaccessed_too(&self) -> PageBits {
        ALL
    }

    /// `count` base pages that were not accessed, within the 2 MiB that start at `chunk`.
    fn unaccessed(&mut self, _chunk: Vpn, _count: u64) {}

    /// The base pages in memory within the 2 MiB that start at `chunk`, and those of them that were accessed; told before
    /// the pages themselves. Returns the pages to be left out.
    fn table(&mut self, _chunk: Vpn, _table: &TablePages<'_>) -> PageBits {
        PageBits::default()
    }
}

/// The base pages of one table.
#[derive(Clone, Copy, Debug)]
pub struct TablePages<'a> {
    /// The entries.
    pub entries: &'a TableEntries,
    /// Those that map pages.
    pub present: PageBits,
    /// Of them, those that were accessed.
    pub accessed: PageBits,
}

/// The entries of the lowest table.
pub type TableEntries = [u64; ENTRIES];

/// One bit for each base page of 2 MiB.
pub type PageBits = [u64; ENTRIES / 64];

/// All base pages of a table.
pub const ALL: PageBits = [u64::MAX; ENTRIES / 64];

impl<F: FnMut(MappedPage)> Visit for F {
    fn page(&mut self, leaf: MappedPage) {
        self(leaf);
    }
}

/// The format of the processor's page tables on this machine.
#[derive(Clone, Copy, Debug)]
pub struct PageTableFormat {
    /// Levels: 4 or 5.
    pub levels: u32,
    /// Address bits that do not belong to the address (memory encryption).
    pub encrypted: u64,
}

impl PageTableFormat {
    /// The levels that tables are walked in.
    fn levels(self) -> usize {
        (self.levels as usize).clamp(2, MAX_LEVELS)
    }

    /// The table that an entry of a higher one points to; `None` if it points to none.
    fn next(self, entry: u64) -> Option<u64> {
        let is_table = entry & PRESENT != 0 && entry & LARGE == 0;
        is_table.then_some(entry & ADDRESS & !self.encrypted)
    }

    /// The table of a level in which `vpn` has its entry, by one small read per level above. `None` if there is none.
    fn find_level(
        self,
        memory: &impl PhysicalMemory,
        top: u64,
        vpn: Vpn,
        level: usize,
    ) -> Option<u64> {
        (level + 1..=self.levels()).rev().try_fold(top, |table, level| {
            let mut bytes = [0; 8];
            let is_read = memory.read_phys(table + offset(vpn, level), &mut bytes);
            is_read.then_some(u64::from_ne_bytes(bytes)).and_then(|entry| self.next(entry))
        })
    }

    /// The lowest table of the 2 MiB at `chunk`, by one small read per level and one of the table. `None` if there is none.
    pub fn find_table(
        self,
        memory: &impl PhysicalMemory,
        top: u64,
        chunk: Vpn,
    ) -> Option<TableEntries> {
        let table = self.find_level(memory, top, chunk, 1)?;
        let mut entries = [0; ENTRIES];
        memory.read_phys(table, as_bytes(&mut entries)).then_some(entries)
    }

    /// The frame in an entry that maps a base page.
    pub fn frame(self, entry: u64) -> u64 {
        // The address of an entry that is not present is stored inverted (the mitigation of L1TF).
        let raw = if entry & PRESENT == 0 { !entry } else { entry };
        (raw & ADDRESS & !self.encrypted) / 4096
    }
}

/// Where the entry of `vpn` is in its table of a level, in bytes.
fn offset(vpn: Vpn, level: usize) -> u64 {
    (vpn.0 >> (9 * (level - 1))) % ENTRIES as u64 * 8
}

/// The entries of two tables that map the same frames.
pub fn same_frames(a: &TableEntries, b: &TableEntries) -> PageBits {
    let mut same = PageBits::default();
    let pairs = a.as_chunks::<64>().0.iter().zip(b.as_chunks::<64>().0);
    for (same, (a, b)) in same.iter_mut().zip(pairs) {
        for (at, (a, b)) in a.iter().zip(b).enumerate() {
            let is_same = (a ^ b) & ADDRESS == 0 && a & b & PRESENT != 0 && (a | b) & SPECIAL == 0;
            *same |= u64::from(is_same) << at;
        }
    }
    same
}

/// Walks page tables; keeps its buffers (20 KiB) between walks.
pub struct Walker {
    format: PageTableFormat,
    tables: Vec<[u64; ENTRIES]>,
    /// Tables that this walk may still read.
    budget: u64,
    /// Tables read in the last walk.
    pub tables_read: u64,
}

impl Walker {
    /// A walker for this machine's tables.
    pub fn new(format: PageTableFormat) -> Self {
        let tables = vec![[0; ENTRIES]; MAX_LEVELS];
        Self { format, tables, budget: 0, tables_read: 0 }
    }

    /// Calls `visit` with every page in memory, by ascending address. `top` is the physical address of the
    /// top table. `false` if that cannot be read.
    pub fn walk(&mut self, memory: &impl PhysicalMemory, top: u64, visit: &mut impl Visit) -> bool {
        let levels = self.format.levels();
        // Each table maps a page or another table. Sixteen pages a table is sparser than real programs.
        self.budget = 1024 + memory.ram_base_pages() / 16;
        let full = self.budget;
        let ok = self.table(memory, top, levels, 0, visit);
        self.tables_read = full - self.budget;
        ok
    }

    /// The page at `vpn`, by one small read per level; `None` if it is not in memory.
    pub fn find(&self, memory: &impl PhysicalMemory, top: u64, vpn: Vpn) -> Option<MappedPage> {
        self.find_run::<1>(memory, top, vpn).and_then(|[leaf]| leaf)
    }

    /// The `N` base pages from `vpn` on, which must be in one table, by one small read per level; for a huge
    /// page, only that page. `None` if there is no table.
    pub fn find_run<const N: usize>(
        &self,
        memory: &impl PhysicalMemory,
        top: u64,
        vpn: Vpn,
    ) -> Option<[Option<MappedPage>; N]> {
        let middle = self.format.find_level(memory, top, vpn, 2)?;
        let (mut bytes, mut pages) = ([[0; 8]; N], [None; N]);
        if !memory.read_phys(middle + offset(vpn, 2), &mut bytes[0]) {
            return None;
        }
        let entry = u64::from_ne_bytes(bytes[0]);
        if entry & LARGE != 0 {
            let huge = is_page(entry).then_some(vpn.huge_head());
            pages[0] = huge.map(|head| self.leaf(entry, head.0, PageSize::Huge));
            return Some(pages);
        }
        let lowest = self.format.next(entry)?;
        if !memory.read_phys(lowest + offset(vpn, 1), bytes.as_flattened_mut()) {
            return None;
        }
        let entries = bytes.map(u64::from_ne_bytes);
        for ((page, entry), vpn) in pages.iter_mut().zip(entries).zip(vpn.0..) {
            *page = is_page(entry).then(|| self.leaf(entry, vpn, PageSize::Base));
        }
        Some(pages)
    }

    /// Calls `visit` with every huge page in `pages`, which must be in one gigabyte, by one small read per level.
    /// `false` if there is no table.
    pub fn find_huge(
        &self,
        memory: &impl PhysicalMemory,
        top: u64,
        pages: Range<Vpn>,
        mut visit: impl FnMut(MappedPage),
    ) -> bool {
        let Some(table) = self.format.find_level(memory, top, pages.start, 2) else {
            return false;
        };
        let heads = pages.start.huge_head().0..pages.end.0;
        let count = (heads.end - heads.start).div_ceil(BASE_PER_HUGE).min(ENTRIES as u64);
        let mut entries = [0; ENTRIES];
        let read = &mut entries[..usize::try_from(count).unwrap_or(ENTRIES)];
        if !memory.read_phys(table + offset(pages.start, 2), as_bytes(read)) {
            return false;
        }
        let heads = heads.step_by(ENTRIES);
        let huge = heads.zip(&*read).filter(|(_, entry)| *entry & LARGE != 0 && is_page(**entry));
        huge.for_each(|(vpn, &entry)| visit(self.leaf(entry, vpn, PageSize::Huge)));
        true
    }

    /// Visits the table at `address`, whose first entry maps page `base`. Level 1 holds pages.
    fn table(
        &mut self,
        memory: &impl PhysicalMemory,
        address: u64,
        level: usize,
        base: u64,
        visit: &mut impl Visit,
    ) -> bool {
        if !self.read(memory, address, level) {
            return false;
        }
        if level == 1 {
            self.base_pages(base, visit);
            return true;
        }
        let reach = 9 * (level - 1);
        let top = level == self.format.levels();
        for i in used(&self.tables[level - 1], if top { USER_ENTRIES } else { ENTRIES }) {
            let entry = self.tables[level - 1][i];
            let vpn = base + ((i as u64) << reach);
            if entry & LARGE != 0 && level <= 3 {
                if level == 2 {
                    self.huge_page(entry, vpn, visit);
                }
            } else if let Some(below) = self.format.next(entry) {
                self.table(memory, below, level - 1, vpn, visit);
            }
        }
        true
    }

    fn read(&mut self, memory: &impl PhysicalMemory, address: u64, level: usize) -> bool {
        if self.budget == 0 {
            return false;
        }
        self.budget -= 1;
        memory.read_phys(address, as_bytes(&mut self.tables[level - 1]))
    }

    fn base_pages(&self, base: u64, visit: &mut impl Visit) {
        let table = &self.tables[0];
        let (mut present, mut accessed) = page_bits(table);
        let pages = TablePages { entries: table, present, accessed };
        for (at, left_out) in visit.table(Vpn(base), &pages).into_iter().enumerate() {
            present[at] &= !left_out;
            accessed[at] &= !left_out;
        }
        let (mut visited, mut counted) = (present, 0);
        for ((visited, accessed), too) in
            visited.iter_mut().zip(accessed).zip(visit.unaccessed_too())
        {
            counted += u64::from((*visited & !accessed & !too).count_ones());
            *visited &= accessed | too;
        }
        if counted > 0 {
            visit.unaccessed(Vpn(base), counted);
        }
        for (first, mut bits) in (0..).step_by(64).zip(visited) {
            while bits != 0 {
                let at = first + bits.trailing_zeros() as usize;
                visit.page(self.leaf(table[at], base + at as u64, PageSize::Base));
                bits &= bits - 1;
            }
        }
    }

    fn huge_page(&self, entry: u64, vpn: u64, visit: &mut impl Visit) {
        if is_page(entry) {
            visit.page(self.leaf(entry, vpn, PageSize::Huge));
        }
    }

    #[inline]
    fn leaf(&self, entry: u64, vpn: u64, size: PageSize) -> MappedPage {
        MappedPage {
            vpn: Vpn(vpn),
            // Bit 12 of a huge entry is an attribute, not part of the address.
            pfn: self.format.frame(entry) & !(size.base_pages() - 1),
            size,
            accessed: entry & ACCESSED != 0,
            writable: entry & WRITABLE != 0,
            dirty: entry & DIRTY != 0,
        }
    }
}

/// True if an entry of the last level maps a page that is reported.
fn is_page(entry: u64) -> bool {
    entry & (PRESENT | PROT_NONE) != 0 && entry & SPECIAL == 0
}

/// The entries that map pages, and those of them that were accessed.
fn page_bits(table: &[u64; ENTRIES]) -> (PageBits, PageBits) {
    let (mut present, mut accessed) = <(PageBits, PageBits)>::default();
    for ((present, accessed), entries) in
        present.iter_mut().zip(&mut accessed).zip(table.as_chunks::<64>().0)
    {
        for (at, entry) in entries.iter().enumerate() {
            *present |= u64::from(is_page(*entry)) << at;
            *accessed |= u64::from(entry & ACCESSED != 0) << at;
        }
        *accessed &= *present;
    }
    (present, accessed)
}

/// The range of used entries, computed before the walk below borrows the table's buffer.
fn used(table: &[u64; ENTRIES], end: usize) -> Range<usize> {
    let first = table[..end].iter().position(|e| *e != 0).unwrap_or(end);
    let last = table[..end].iter().rposition(|e| *e != 0).map_or(end, |i| i + 1);
    first..last
}

/// Entries of a table as a buffer of bytes.
fn as_bytes(entries: &mut [u64]) -> &mut [u8] {
    // SAFETY: a `u64` has no padding and every byte pattern is valid; the length is that of the entries, which
    // are borrowed as long as the slice lives.
    unsafe { std::slice::from_raw_parts_mut(entries.as_mut_ptr().cast(), size_of_val(entries)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ram(Vec<u8>);

    impl PhysicalMemory for Ram {
        fn read_phys(&self, address: u64, buf: &mut [u8]) -> bool {
            let at = usize::try_from(address).unwrap_or(usize::MAX);
            let end = at.saturating_add(buf.len());
            self.0.get(at..end).map(|bytes| buf.copy_from_slice(bytes)).is_some()
        }
        fn ram_base_pages(&self) -> u64 {
            self.0.len() as u64 / 4096
        }
    }

    impl Ram {
        fn put(&mut self, table: usize, index: usize, entry: u64) {
            let at = table * 4096 + index * 8;
            self.0[at..at + 8].copy_from_slice(&entry.to_ne_bytes());
        }
    }

    /// Tables at frames 0 (top) to 3 for the second gigabyte; `pmd` and `pte` fill the last two levels.
    fn ram(pmd: &[(usize, u64)], pte: &[(usize, u64)]) -> Ram {
        let mut ram = Ram(vec![0; 4 * 4096]);
        ram.put(0, 0, 0x1000 | PRESENT);
        ram.put(1, 1, 0x2000 | PRESENT);
        ram.put(2, 3, 0x3000 | PRESENT);
        pmd.iter().for_each(|(i, e)| ram.put(2, *i, *e));
        pte.iter().for_each(|(i, e)| ram.put(3, *i, *e));
        ram
    }

    fn walk(ram: &Ram) -> Vec<MappedPage> {
        let mut leaves = Vec::new();
        let mut walker = Walker::new(PageTableFormat { levels: 4, encrypted: 1 << 47 });
        walker.walk(ram, 0, &mut |leaf| leaves.push(leaf));
        leaves
    }

    const CHUNK: u64 = (1 << 18) + 3 * 512;

    #[test]
    fn base_pages_come_with_their_bits() {
        let leaves = walk(&ram(
            &[],
            &[(5, 0xabc << 12 | 1 << 47 | PRESENT | ACCESSED | DIRTY), (6, 0xabd << 12 | 3)],
        ));
        let leaf = MappedPage {
            vpn: Vpn(CHUNK + 5),
            pfn: 0xabc,
            size: PageSize::Base,
            accessed: true,
            writable: false,
            dirty: true,
        };
        let (vpn, pfn, accessed, writable, dirty) = (Vpn(CHUNK + 6), 0xabd, false, true, false);
        let next = MappedPage { vpn, pfn, accessed, writable, dirty, ..leaf };
        assert_eq!(leaves, [leaf, next]);
    }

    #[test]
    fn a_huge_page_is_one_leaf_and_its_attribute_bit_is_ignored() {
        let leaves = walk(&ram(&[(4, 0x20_0000 | 1 << 12 | LARGE | PRESENT | ACCESSED)], &[]));
        assert_eq!(leaves.len(), 1);
        assert_eq!((leaves[0].vpn, leaves[0].pfn), (Vpn(CHUNK + 512), 512));
        assert_eq!((leaves[0].size, leaves[0].accessed), (PageSize::Huge, true));
    }

    #[test]
    fn huge_pages_are_found_without_a_walk() {
        let huge = |frame: u64| frame << 12 | LARGE | PRESENT;
        let ram = ram(&[(4, huge(512) | ACCESSED), (5, huge(1024)), (7, huge(1536))], &[]);
        let walker = Walker::new(PageTableFormat { levels: 4, encrypted: 0 });
        let find = |pages: Range<u64>| {
            let mut found = Vec::new();
            let pages = Vpn(CHUNK + pages.start * 512)..Vpn(CHUNK + pages.end * 512);
            let is_there = walker.find_huge(&ram, 0, pages, |leaf| {
                found.push(((leaf.vpn.0 - CHUNK) / 512, leaf.pfn, leaf.accessed));
            });
            (is_there, found)
        };
        assert_eq!(
            find(0..3),
            (true, vec![(1, 512, true), (2, 1024, false)]),
            "not the table of base pages"
        );
        assert_eq!(find(4..5), (true, vec![(4, 1536, false)]));
        assert_eq!(find(1 << 9..(1 << 9) + 1), (false, vec![]), "no table");
    }

    #[test]
    fn an_entry_armed_for_a_hint_fault_keeps_its_frame() {
        let armed = (!(0xabc_u64 << 12) & ADDRESS) | PROT_NONE;
        let leaves = walk(&ram(&[], &[(0, armed)]));
        assert_eq!((leaves[0].pfn, leaves[0].accessed), (0xabc, false));
    }

    #[test]
    fn zero_pages_swap_and_gigantic_pages_are_skipped() {
        let mut ram = ram(&[], &[(0, 0x5000 | PRESENT | SPECIAL), (1, 0xffff_0000)]);
        ram.put(1, 2, 0x4000_0000 | PRESENT | LARGE);
        assert_eq!(walk(&ram), []);
    }

    #[test]
    fn a_pass_over_nearby_pages_reads_their_upper_tables_once() {
        struct Counted(Ram, std::cell::Cell<usize>);
        impl PhysicalMemory for Counted {
            fn read_phys(&self, address: u64, buf: &mut [u8]) -> bool {
                self.1.set(self.1.get() + 1);
                self.0.read_phys(address, buf)
            }
            fn ram_base_pages(&self) -> u64 {
                self.0.ram_base_pages()
            }
        }
        let entry = |frame: u64| frame << 12 | PRESENT | ACCESSED;
        let pages: Vec<_> = (0..4).map(|i| (i * 128, entry(0xabc + i as u64))).collect();
        let memory = Counted(ram(&[], &pages), Default::default());
        let walker = Walker::new(PageTableFormat { levels: 4, encrypted: 0 });
        let find = |memory: &ReadOnce<'_, Counted>, page: usize| {
            let run: Option<[_; 2]> = walker.find_run(memory, 0, Vpn(CHUNK + page as u64));
            run.and_then(|[leaf, _]| leaf).map(|leaf| leaf.pfn)
        };
        let once = ReadOnce::new(&memory);
        let found: Vec<_> = pages.iter().map(|(page, _)| find(&once, *page)).collect();
        assert_eq!(found, [Some(0xabc), Some(0xabd), Some(0xabe), Some(0xabf)]);
        let (upper, lowest) = (3, 4);
        assert_eq!(memory.1.get(), upper + lowest);
        // The next pass sees what has changed since.
        let Counted(mut ram, reads) = memory;
        ram.put(3, 0, entry(0xdef));
        let memory = Counted(ram, reads);
        assert_eq!(find(&ReadOnce::new(&memory), 0), Some(0xdef));
    }

    #[test]
    fn untouched_pages_can_be_counted_instead() {
        #[derive(Default)]
        struct Counter(Vec<u64>, Vec<(Vpn, u64)>);
        impl Visit for Counter {
            fn page(&mut self, leaf: MappedPage) {
                self.0.push(leaf.vpn.0);
            }
            fn unaccessed_too(&self) -> PageBits {
                [1 << 3, 0, 0, 0, 0, 0, 0, 0]
            }
            fn unaccessed(&mut self, chunk: Vpn, count: u64) {
                self.1.push((chunk, count));
            }
        }
        let ram = ram(&[], &[(1, PRESENT), (2, PRESENT | ACCESSED), (3, PRESENT), (4, ACCESSED)]);
        let mut counter = Counter::default();
        Walker::new(PageTableFormat { levels: 4, encrypted: 0 }).walk(&ram, 0, &mut counter);
        assert_eq!((counter.0, counter.1), (vec![CHUNK + 2, CHUNK + 3], vec![(Vpn(CHUNK), 1)]));
    }

    #[test]
    fn a_walk_of_cyclic_tables_ends() {
        // Each entry of each table points to its own table: 512^4 pages, if followed.
        let mut ram = Ram(vec![0; 4096]);
        (0..512).for_each(|i| ram.put(0, i, PRESENT));
        let mut seen = 0_u64;
        let mut walker = Walker::new(PageTableFormat { levels: 4, encrypted: 0 });
        assert!(walker.walk(&ram, 0, &mut |_| seen += 1));
        assert!(walker.tables_read <= 1025, "{}", walker.tables_read);
        assert!(!walker.walk(&ram, 1 << 40, &mut |_| seen += 1), "no RAM there");
        let ram = Ram(vec![0xff; 4096]);
        walker.walk(&ram, 0, &mut |_| seen += 1);
    }
}
