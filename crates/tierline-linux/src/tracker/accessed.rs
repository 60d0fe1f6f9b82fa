// SPDX-License-Identifier: Apache-2.0
//! Accessed bits of single pages, on a stock kernel.
//!
//! What it does. Writes `1` to `/proc/PID/clear_refs`, which clears the accessed bit of every page of a
//! process; waits for a window; reads the process's page tables through `/proc/kcore`. A page whose bit is
//! set again was accessed within the window. The same entry contains the frame, hence the tier, and shows
//! whether the page is huge. Nothing is write-protected and no page faults: the program only has a few TLB
//! misses.
//!
//! When it helps. Nearly always: base and huge pages, reads and writes, all tiers, without a PMU and
//! without idle page tracking. Pages in fast and slow memory are observed equally well. Huge pages are watched again
//! in brief windows ([`crate::tracker::brief`]).
//!
//! When it hurts. Its cost grows with the mapped memory of the processes that run, not with used memory; with a fixed
//! budget (see [`crate::tracker::window`]) that means longer pauses. There is one bit per window: it shows whether a
//! page was accessed, but not how often; only the share of windows shows that. Clearing holds `mmap_lock`
//! for writing: page faults and `mmap` of the program wait meanwhile, plain accesses do not;
//! `WindowStats::longest_delay` is the time, `WindowStats::pause` the longer pause that follows from it. The
//! kernel's own reclaim loses the cleared bits. The TLB must drop its entries: see [`crate::tracker::flush`].
//! Accessed bits of hugetlbfs pages are never cleared, so these pages always look accessed; code that knows the
//! mappings excludes them. A process in another pid namespace is identified by its outer id.
//!
//! Knobs. Those of [`WindowSettings`]; `AccessedBits::set_flush`.
//!
//! Where it comes from. The accessed bit as in idle page tracking (Davidov, Linux 4.3) and in the page-table
//! scans of Nimble and kstaled; drgn also reads page tables through kcore.
//!
//! Measured, in microseconds per mapped base page, in emulated guests on an idle host, 700 MiB mapped: for
//! base pages, arming takes 0.24 to 0.43 and reading 0.09 to 0.14 (6.12 and 7.2, one and two CPUs); for huge
//! pages, arming 0.01 and reading 0.005. Of the reading, the work of this crate is 5 ns natively. Opening
//! takes 0.03 to 0.35 s. With 128 MiB hot of 700, one CPU and windows of 20 ms, a window finds 90 % of the
//! hot base pages or all hot huge pages, and two cold pages. Largest resident set of a program with nothing
//! but this tracker: 7.5 MB.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tierline_core::port::{
    Observations, PageAddress, PageSize, Region, SampledHits, SpaceEvent, SpaceId, Spread, Vpn,
};
use tierline_core::tier::{TierId, Tiers};
use tierline_core::unit::{BASE_PER_HUGE, Bytes, Nanos};

use crate::error::Result;
use crate::kcore::Kcore;
use crate::kcore::tasks::{Process, TaskList};
use crate::mover;
use crate::nodes::{FrameTiers, Nodes};
use crate::pagetable::{
    ALL, MappedPage, PageBits, PageTableFormat, ReadOnce, TablePages, Visit, Walker,
};
use crate::process::Stat;
use crate::root::Root;
use crate::tracker::access_bits::{AccessBits, HugeBatch, ReadCounts};
use crate::tracker::brief::Brief;
use crate::tracker::entry::TrackerEntry;
use crate::tracker::families::{Comparison, Families};
use crate::tracker::flush::{Flush, FlushNeed, FlushPage};
use crate::tracker::folios::Folios;
use crate::tracker::last_scan::{LastScan, Repeated};
use crate::tracker::look_into::LookInto;
use crate::tracker::needs::{self, btf, readable};
use crate::tracker::quick_scan::QuickScan;
use crate::tracker::second_look::SecondLook;
use crate::tracker::tier_runs::{TierRun, TierRuns};
use crate::tracker::window::{WindowSettings, has_one_cpu};
use crate::tracker::windowed::{Windowed, clear_refs, unless_gone};

/// Scans of a new process that it cannot skip, as its mappings may become known after the first. Ours.
const FIRST_SCANS: u64 = 2;

/// Every scan reports the tiers of accessed and new pages, and those of all pages of every 16th 2 MiB: of all memory in 16 scans.
const RESIDENCE_EVERY: u64 = 16;

/// The tracker in the list.
pub const ACCESSED: TrackerEntry = TrackerEntry {
    name: "accessed",
    sees: "every page accessed within a short window, loads and stores, in every tier",
    costs: "no faults in the program; clearing the accessed bits delays its page faults briefly",
    samples: false,
    needs: |root| {
        let kcore = readable(root, "/proc/kcore");
        vec![
            needs::clear_refs(root),
            (kcore, "a readable /proc/kcore (root, no lockdown)"),
            btf(root),
        ]
    },
    open: |at| Ok(Box::new(Accessed::new(at.root, at.tiers, WindowSettings::default())?)),
};

/// The tracker.
pub type Accessed = Windowed<AccessedBits>;

/// Clears the accessed bits of a process and reads them back from its page tables.
pub struct AccessedBits {
    root: Root,
    kcore: Kcore,
    kernel: TaskList,
    walker: Walker,
    tiers: Tiers,
    frames: FrameTiers,
    flush: Flush,
    one_cpu: bool,
    skips_new: bool,
    look_into: LookInto,
    folios: Folios,
    families: Families,
    /// The last scan of each process, or of the processes that are scanned in turn with it.
    last_scans: BTreeMap<SpaceId, LastScan>,
}

/// State of one process.
#[derive(Default)]
pub struct Known {
    process: Option<Process>,
    scans: u64,
    /// What the last scan found while it ran.
    found: ReadCounts,
    need: FlushNeed,
    spare: FlushPage,
    flushed: bool,
    quick_scan: QuickScan,
    second_look: SecondLook,
    brief: Brief,
}

impl Accessed {
    /// A tracker for a machine with these tiers.
    ///
    /// # Errors
    /// [`crate::error::Error::Missing`] if the kernel lacks a requirement: `/proc/kcore`, BTF.
    pub fn new(root: &Root, tiers: &Tiers, settings: WindowSettings) -> Result<Self> {
        let fast = tiers.0.first().map_or(Bytes::ZERO, |tier| tier.capacity);
        Ok(Self::with(AccessedBits::new(root, tiers)?, fast, settings))
    }
}

impl AccessedBits {
    fn new(root: &Root, tiers: &Tiers) -> Result<Self> {
        let kcore = Kcore::open(root)?;
        let kernel = TaskList::open(root, &kcore)?;
        let format = PageTableFormat { levels: kernel.levels, encrypted: kernel.encrypted };
        Ok(Self {
            root: root.clone(),
            frames: Nodes::read(root)?.by_tier(tiers),
            tiers: tiers.clone(),
            kcore,
            kernel,
            walker: Walker::new(format),
            flush: Flush::default(),
            one_cpu: has_one_cpu(),
            skips_new: false,
            look_into: LookInto::default(),
            folios: Folios::open(root, format),
            families: Families::new(format),
            last_scans: BTreeMap::new(),
        })
    }

    /// Whether a scan of a process would find no accesses. Its first scans find its pages.
    fn may_skip(&self, space: SpaceId, known: &Known) -> bool {
        known.scans >= FIRST_SCANS && !self.families.has_run(space, &self.root)
    }

    /// Sets when the TLB is flushed after clearing.
    pub fn set_flush(&mut self, flush: Flush) {
        self.flush = flush;
    }
}

impl AccessBits for AccessedBits {
    const NAME: &'static str = ACCESSED.name;
    const REPORTS_PAGE_SIZES: bool = true;
    const PEEKS: bool = true;
    const LOOKS_INTO_SPLITS: bool = true;
    type Space = Known;

    fn begin_scan(&mut self, spaces: &[SpaceId]) -> BTreeSet<SpaceId> {
        self.last_scans.retain(|space, _| spaces.binary_search(space).is_ok());
        self.families.begin_scan(spaces, &self.root)
    }

    fn arm(&mut self, space: SpaceId, known: &mut Known) -> Result<bool> {
        let is_new = known.locate(&self.kernel, &self.kcore, space);
        // The held process still runs, so the number that was found is its own.
        let held = self.root.process(space.0);
        let Some((held, process)) = held.zip(known.process) else { return Ok(false) };
        if is_new {
            self.last_scans.remove(&space);
            let image = Stat::of(&held).map(|stat| stat.start_addresses);
            self.families.add(space, process, image.unwrap_or_default());
        }
        if self.may_skip(space, known) {
            return Ok(true);
        }
        let cpu_time = held.cpu_time();
        let there = unless_gone(clear_refs(&self.root, space, "1"))?;
        self.families.record_cleared(space, cpu_time.filter(|_| there));
        known.flushed = there
            && known.need.needs_flush(self.flush)
            && known.spare.flush(&mover::KernelSyscall(self.root.clone()), space, &self.tiers);
        Ok(there)
    }

    fn read(
        &mut self,
        space: SpaceId,
        known: &mut Known,
        out: &mut Observations,
    ) -> Result<Option<ReadCounts>> {
        let Some(process) = known.process.filter(|p| self.kernel.is_current(&self.kcore, p)) else {
            return Ok(None);
        };
        known.second_look.restart();
        known.brief.clear();
        let turn = known.scans % RESIDENCE_EVERY;
        let may_skip = self.may_skip(space, known);
        // A process that has not run is scanned in every 16th scan only, and then whole.
        let full =
            known.scans == 0 || turn == 0 && may_skip || self.families.take_lost_owner(space);
        if !full && may_skip {
            known.scans += 1;
            let repeated = Repeated { before: known.found.base_accessed(), again: 0 };
            let ReadCounts { present, huge_present, .. } = known.found;
            let is_skipped = true;
            let skipped =
                ReadCounts { present, huge_present, repeated, is_skipped, ..Default::default() };
            return Ok(Some(skipped));
        }
        known.quick_scan.restart();
        let last = self.last_scans.entry(self.families.scanned_with(space)).or_default();
        last.begin(self.skips_new);
        let is_current = |process: &Process| self.kernel.is_current(&self.kcore, process);
        let mut look = Look {
            comparison: self.families.compare(space, &self.kcore, is_current),
            scan: Scan::new(space, (!full).then_some(turn), &mut known.brief, out),
            in_turn: full,
            frames: &self.frames,
            folios: &self.folios,
            slowest: self.tiers.slowest(),
            spare: &mut known.spare,
            quick_scan: &mut known.quick_scan,
            second_look: &mut known.second_look,
            last: &mut *last,
        };
        self.walker.walk(&self.kcore, process.top_table, &mut look);
        let found = look.comparison.found;
        let mut seen = look.scan.finish();
        seen.present += found.shared;
        seen.accessed += found.shared_accessed;
        seen.repeated = last.end();
        self.families.record(space, found, out);
        known.quick_scan.finish(seen.present);
        known.found = seen;
        known.need.record(seen.accessed, known.flushed);
        known.scans += 1;
        Ok(Some(seen))
    }

    fn skip_new(&mut self, skips: bool) {
        self.skips_new = skips;
    }

    fn report_again(&mut self, mapping: &Region) {
        let &Region { space, start, base_pages, .. } = mapping;
        if let Some(last) = self.last_scans.get_mut(&self.families.scanned_with(space)) {
            last.forget(start, base_pages);
        }
    }

    fn read_huge(
        &mut self,
        space: SpaceId,
        known: &mut Known,
        window: Option<Nanos>,
        watched: Duration,
        out: &mut Observations,
    ) -> Option<HugeBatch> {
        let process = known.process.filter(|p| self.kernel.is_current(&self.kcore, p))?;
        let tables = (&self.kcore, &self.walker, process.top_table);
        let held = self.root.process(space.0)?;
        let batch = known
            .brief
            .watch(&held, tables, window, self.one_cpu)
            .or_else(|| known.brief.draw(window, watched))?;
        let mut runs = TierRuns::new(space, None);
        batch.accessed.iter().for_each(|page| runs.add_accessed(*page, out));
        runs.finish(out);
        let count = |pages: usize| u32::try_from(pages).unwrap_or(u32::MAX);
        let (pages, accessed) = (count(batch.pages), count(batch.accessed.len()));
        Some(HugeBatch { pages, accessed, window: batch.window })
    }

    fn rewind_huge(&mut self, known: &mut Known) {
        known.brief.rewind();
    }

    fn watch_missed(&mut self, known: &mut Known) -> bool {
        known.brief.watch_missed()
    }

    fn peek(&mut self, known: &mut Known) -> Option<ReadCounts> {
        let process = known.process.filter(|p| self.kernel.is_current(&self.kcore, p))?;
        let (sampled, hit) =
            known.quick_scan.peek((&ReadOnce::new(&self.kcore), &self.walker, process.top_table));
        let present = known.found.present - known.found.huge_present;
        let accessed = (present * hit).checked_div(sampled)?;
        Some(ReadCounts { present, accessed, ..ReadCounts::default() })
    }

    fn resident(&mut self, space: SpaceId) -> Option<u64> {
        let statm = self.root.process(space.0)?.read_text("statm").ok()?;
        statm.split(' ').nth(1)?.parse().ok()
    }

    fn arm_quick_scan(&mut self, space: SpaceId, known: &mut Known) -> bool {
        if self.may_skip(space, known) {
            return false;
        }
        let Self { root, kernel, kcore, walker, frames, .. } = self;
        let process = known.process.filter(|process| kernel.is_current(kcore, process));
        let held = root.process(space.0);
        let armed = process.zip(held).is_some_and(|(process, held)| {
            known.quick_scan.arm(&held, (&ReadOnce::new(kcore), walker, process.top_table), frames)
        });
        // Pages whose bit was cleared by an earlier window may be in the TLB since.
        if armed {
            known.spare.flush(&mover::KernelSyscall(self.root.clone()), space, &self.tiers);
        }
        armed
    }

    fn read_quick_scan(&mut self, known: &mut Known) -> Option<(SampledHits, f64)> {
        let process = known.process.filter(|p| self.kernel.is_current(&self.kcore, p))?;
        known.quick_scan.read((&ReadOnce::new(&self.kcore), &self.walker, process.top_table))
    }

    fn arm_second_look(&mut self, space: SpaceId, known: &mut Known, most: Nanos) -> bool {
        self.root.process(space.0).is_some_and(|held| known.second_look.arm(&held, most))
    }

    fn read_second_look(
        &mut self,
        space: SpaceId,
        known: &mut Known,
        watched: Duration,
        out: &mut Observations,
    ) {
        if let Some(process) = known.process.filter(|p| self.kernel.is_current(&self.kcore, p)) {
            let tables = (&ReadOnce::new(&self.kcore), &self.walker, process.top_table);
            known.second_look.read(space, tables, watched, out);
        }
    }

    fn look_into(&mut self, split: PageAddress, known: &mut Known) -> Option<Spread> {
        let process = known.process.filter(|p| self.kernel.is_current(&self.kcore, p))?;
        let held = self.root.process(split.space.0)?;
        let tables = (&self.kcore, &self.walker, process.top_table);
        self.look_into.look(split, &held, tables, self.one_cpu)
    }

    fn refresh(&mut self) -> Result<()> {
        self.kcore.refresh()?;
        self.frames = Nodes::read(&self.root)?.by_tier(&self.tiers);
        Ok(())
    }
}

impl Known {
    /// Finds the process, or checks that it is still the same one. True if it is not.
    fn locate(&mut self, kernel: &TaskList, kcore: &Kcore, space: SpaceId) -> bool {
        let is_new = !self.process.is_some_and(|process| kernel.is_current(kcore, &process));
        if is_new {
            *self = Self { process: kernel.find(kcore, space.0), ..Self::default() };
        }
        is_new
    }
}

/// Receives the pages of a walk.
struct Look<'a> {
    comparison: Comparison<'a, Kcore>,
    scan: Scan<'a>,
    /// Whether the tiers of all pages of the present table are reported.
    in_turn: bool,
    frames: &'a FrameTiers,
    folios: &'a Folios,
    slowest: TierId,
    spare: &'a mut FlushPage,
    quick_scan: &'a mut QuickScan,
    second_look: &'a mut SecondLook,
    last: &'a mut LastScan,
}

impl Visit for Look<'_> {
    #[inline]
    fn page(&mut self, mut leaf: MappedPage) {
        let tier = self.frames.tier_of(leaf.pfn);
        let is_new = match leaf.size {
            PageSize::Base => self.last.is_new(leaf.vpn),
            PageSize::Huge => self.last.add_huge(leaf.vpn),
        };
        if leaf.size == PageSize::Base {
            self.quick_scan.add_candidate(Vpn(leaf.vpn.0 / BASE_PER_HUGE * BASE_PER_HUGE));
            leaf.accessed &= !self.last.skips(leaf.vpn);
            let is_slow = tier.is_some_and(|tier| tier > TierId::FAST);
            if leaf.accessed && is_slow {
                let is_again = self.last.is_again(leaf.vpn);
                self.scan.seen.slow_accessed += 1;
                self.scan.seen.slow_again += u64::from(is_again);
                if !is_again {
                    self.second_look.add(leaf.vpn);
                }
            }
        }
        self.scan.page(leaf, tier, is_new);
        if let Some(tier) = tier
            && self.spare.is_wanted(self.slowest)
        {
            self.spare.consider(leaf, tier);
        }
    }

    fn unaccessed_too(&self) -> PageBits {
        if self.in_turn { ALL } else { self.last.new_pages() }
    }

    fn unaccessed(&mut self, chunk: Vpn, count: u64) {
        self.quick_scan.add_candidate(chunk);
        self.scan.sized(chunk.0 / BASE_PER_HUGE, PageSize::Base);
        self.scan.seen.present += count;
    }

    fn table(&mut self, chunk: Vpn, pages: &TablePages<'_>) -> PageBits {
        self.in_turn = self.scan.is_in_turn(chunk);
        let left_out = self.comparison.table(chunk, pages, self.frames, self.scan.out);
        let is_full = pages.present == ALL && left_out == PageBits::default();
        if is_full && let Some(frame) = self.folios.most(pages.entries) {
            let accessed = pages.accessed.iter().map(|bits| bits.count_ones()).sum();
            let is_new = self.last.add_huge(chunk);
            self.scan.folio(chunk, accessed, self.frames.tier_of(frame), is_new);
            return ALL;
        }
        self.last.add(chunk, pages.present, pages.accessed);
        left_out
    }
}

/// Turns the pages of one walk into observations.
struct Scan<'a> {
    space: SpaceId,
    /// All tiers are reported of each 16th 2 MiB, from this one on; `None`: of all memory.
    turn: Option<u64>,
    brief: &'a mut Brief,
    out: &'a mut Observations,
    runs: TierRuns,
    seen: ReadCounts,
    /// The last run of 2 MiB chunks with one page size: first chunk, chunk after the last, size.
    alike: (u64, u64, PageSize),
}

impl<'a> Scan<'a> {
    fn new(
        space: SpaceId,
        turn: Option<u64>,
        brief: &'a mut Brief,
        out: &'a mut Observations,
    ) -> Self {
        let (runs, seen) = (TierRuns::new(space, None), ReadCounts::default());
        Self { space, turn, brief, out, runs, seen, alike: (0, 0, PageSize::Base) }
    }

    /// Whether the tiers of all pages of a page's 2 MiB are reported.
    #[inline]
    fn is_in_turn(&self, page: Vpn) -> bool {
        self.turn.is_none_or(|turn| page.0 / BASE_PER_HUGE % RESIDENCE_EVERY == turn)
    }

    /// A page, which may be new since the last scan: the policy is told of it at once.
    #[inline]
    fn page(&mut self, leaf: MappedPage, tier: Option<TierId>, is_new: bool) {
        if tier.is_none() {
            self.seen.in_unknown_memory += 1;
            return;
        }
        self.sized(leaf.vpn.0 / BASE_PER_HUGE, leaf.size);
        let pages = match leaf.size {
            PageSize::Base => 1,
            PageSize::Huge => 512,
        };
        let page = TierRun { start: leaf.vpn.0, pages, size: leaf.size, tier };
        let is_huge = leaf.size == PageSize::Huge;
        self.seen.present += u64::from(pages);
        self.seen.huge_present += u64::from(pages) * u64::from(is_huge);
        if leaf.accessed {
            self.seen.accessed += u64::from(pages);
            self.seen.huge_accessed += u64::from(pages) * u64::from(is_huge);
            match is_huge {
                true => self.brief.add(page),
                false => self.runs.add_accessed(page, self.out),
            }
        }
        if is_new || self.is_in_turn(leaf.vpn) {
            self.runs.add_present(page, self.out);
        }
    }

    /// A huge page that is mapped by base pages, of which so many were accessed.
    fn folio(&mut self, chunk: Vpn, accessed: u32, tier: Option<TierId>, is_new: bool) {
        let (pages, size) = (512, PageSize::Huge);
        let leaf =
            MappedPage { vpn: chunk, pfn: 0, size, accessed: false, writable: false, dirty: false };
        self.page(leaf, tier, is_new);
        if tier.is_some() {
            self.seen.in_folios += BASE_PER_HUGE;
            let hit = BASE_PER_HUGE * u64::from(accessed > 0);
            self.seen.accessed += hit;
            self.seen.huge_accessed += hit;
            self.brief.add_folio(TierRun { start: chunk.0, pages, size, tier }, accessed);
        }
    }

    /// Adds the page size of a 2 MiB chunk. Reported at every scan, so nothing must be remembered about memory that
    /// was unmapped meanwhile, or whose mapping is not yet known.
    #[inline]
    fn sized(&mut self, chunk: u64, size: PageSize) {
        let (first, end, alike) = self.alike;
        if alike == size && chunk + 1 == end {
            return;
        }
        if alike == size && chunk == end {
            self.alike.1 = chunk + 1;
            return;
        }
        self.report_size();
        debug_assert!(first <= chunk, "pages come by ascending address");
        self.alike = (chunk, chunk + 1, size);
    }

    fn report_size(&mut self) {
        let (first, end, size) = self.alike;
        if first < end {
            let (start, base_pages) = (Vpn(first * BASE_PER_HUGE), (end - first) * BASE_PER_HUGE);
            self.out.space_events.push(SpaceEvent::Sized(self.space, start, base_pages, size));
        }
    }

    fn finish(mut self) -> ReadCounts {
        self.report_size();
        self.runs.finish(self.out);
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Maps;
    use crate::topology::tests::fake;
    use tierline_core::page::PageTable;

    fn leaf(vpn: u64, size: PageSize, accessed: bool) -> MappedPage {
        MappedPage { vpn: Vpn(vpn), pfn: 0, size, accessed, writable: true, dirty: true }
    }

    /// One scan over `leaves`, all in tier 1.
    fn scan(leaves: &[MappedPage], out: &mut Observations) -> ReadCounts {
        let mut brief = Brief::default();
        let mut scan = Scan::new(SpaceId(9), None, &mut brief, out);
        for leaf in leaves {
            scan.page(*leaf, Some(TierId(1)), false);
        }
        scan.finish()
    }

    fn sizes(out: &Observations) -> Vec<(u64, u64, PageSize)> {
        let sized = |event: &SpaceEvent| match event {
            SpaceEvent::Sized(_, vpn, base_pages, size) => (vpn.0, *base_pages, *size),
            other => panic!("{other:?}"),
        };
        out.space_events.iter().map(sized).collect()
    }

    #[test]
    fn accessed_pages_become_samples_and_all_pages_residence() {
        let mut out = Observations::default();
        let base = |vpn, accessed| leaf(vpn, PageSize::Base, accessed);
        let leaves = [base(1, true), base(2, true), base(3, false), base(4, true)];
        let seen = scan(&leaves, &mut out);
        assert_eq!(seen, ReadCounts { present: 4, accessed: 3, ..ReadCounts::default() });
        let samples: Vec<_> = out.samples.iter().map(|s| (s.vpn.0, s.base_pages)).collect();
        assert_eq!(samples, [(1, 2), (4, 1)]);
        assert_eq!(out.samples[0].tier, Some(TierId(1)));
        assert_eq!((out.residence.len(), out.residence[0].base_pages), (1, 4));
        assert_eq!(sizes(&out), [(0, 512, PageSize::Base)]);
    }

    /// Of the second 2 MiB all pages are reported, of others accessed and new ones.
    #[test]
    fn new_pages_are_reported_by_the_first_scan_that_finds_them() {
        let (mut brief, mut out) = (Brief::default(), Observations::default());
        let mut scan = Scan::new(SpaceId(9), Some(1), &mut brief, &mut out);
        let base = |vpn, accessed| leaf(vpn, PageSize::Base, accessed);
        for (page, is_new) in [
            (base(1, true), false),
            (base(2, false), true),
            (base(3, true), true),
            (base(512, false), false),
        ] {
            scan.page(page, Some(TierId(1)), is_new);
        }
        scan.finish();
        let residence: Vec<_> = out.residence.iter().map(|r| (r.vpn.0, r.base_pages)).collect();
        let samples: Vec<_> = out.samples.iter().map(|s| (s.vpn.0, s.base_pages)).collect();
        assert_eq!((residence, samples), (vec![(2, 2), (512, 1)], vec![(1, 1), (3, 1)]));
    }

    #[test]
    fn every_scan_reports_all_page_sizes() {
        let (huge, base) = (PageSize::Huge, PageSize::Base);
        let leaves = [
            leaf(512, huge, true),
            leaf(1024, huge, false),
            leaf(1600, base, true),
            leaf(1700, base, true),
            leaf(2048, base, true),
            leaf(4096, huge, true),
        ];
        for _ in 0..2 {
            let mut out = Observations::default();
            scan(&leaves, &mut out);
            assert_eq!(sizes(&out), [(512, 1024, huge), (1536, 1024, base), (4096, 512, huge)]);
        }
    }

    /// Page tables are scanned more often than mappings are read: a mapping may become known after its huge pages were
    /// scanned, vanish, and come back at the same address.
    #[test]
    fn huge_pages_are_known_whenever_their_mapping_is_read() {
        let (_dir, root) = fake(&[("/proc/9/maps", ""), ("/proc/9/stat", "")]);
        root.hold(9).expect("it runs");
        let (mut maps, mut table) = (Maps::new(SpaceId(9)), PageTable::default());
        let head = [leaf(512, PageSize::Huge, true)];
        let texts =
            ["1000-3000 rw-p 0 0:0 0\n", "1000-3000 rw-p 0 0:0 0\n200000-400000 rw-p 0 0:0 0\n"];
        for (i, text) in [texts[0], texts[1], texts[0], texts[1]].into_iter().enumerate() {
            let mut out = Observations::default();
            scan(&head, &mut out);
            std::fs::write(root.path("/proc/9/maps"), text).expect("a mapping");
            maps.refresh(&root, &mut out.space_events).expect("maps");
            scan(&head, &mut out);
            out.space_events.drain(..).for_each(|event| table.apply(event));
            let size = table.find(SpaceId(9), Vpn(512)).map(|page| table.is_huge(page));
            assert_eq!(size, (i % 2 == 1).then_some(true), "look {i}");
            table.check();
        }
    }

    #[test]
    fn pages_in_unknown_memory_are_only_counted() {
        let mut out = Observations::default();
        let mut brief = Brief::default();
        let mut scan = Scan::new(SpaceId(9), None, &mut brief, &mut out);
        scan.page(leaf(512, PageSize::Huge, true), None, false);
        let seen = scan.finish();
        assert_eq!((seen.in_unknown_memory, seen.present), (1, 0));
        assert!(out.samples.is_empty() && out.space_events.is_empty());
    }
}
