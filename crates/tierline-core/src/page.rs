// SPDX-License-Identifier: Apache-2.0
//! The page table: what is known of every managed page, in eight bytes a page.
//!
//! A [`Region`] maps a run of virtual pages to a run of dense 32-bit indices. What is known of a page is
//! one word over that index, so that a sample costs one miss of the cache; words are in chunks that come
//! to be when one of their pages is first touched: a terabyte that is mapped and never sampled costs
//! nothing. Nothing here walks pages that nobody named.
//!
//! Mappings and page sizes come from different readers, in any order: a mapping does not say which pages are huge, and
//! page tables do not say what is mapped. Each is kept until its own reader reports otherwise.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::port::{PageAt, PageKind, PageSize, Region, SpaceEvent, SpaceId, Vpn};
use crate::tier::TierId;
use crate::unit::{BASE_PER_HUGE, Bytes};

/// The dense index of a managed page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageIdx(u32);

impl PageIdx {
    /// Its place in a table with an entry a page.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// The page with that place.
    #[expect(clippy::cast_possible_truncation, reason = "the inverse of `index`")]
    pub(crate) const fn from_index(index: usize) -> Self {
        Self(index as u32)
    }
}

impl fmt::Display for PageIdx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

const CHUNK_BITS: u32 = 12;
const CHUNK_PAGES: usize = 1 << CHUNK_BITS;
/// Of a page's flags: its tier's number plus one; zero where it is unknown.
const TIER: u8 = 0b111;

/// Bytes of metadata of one page, base or huge.
pub const METADATA_BYTES_PER_PAGE: usize = size_of::<Chunk>() / CHUNK_PAGES;

/// Pages to fetch into the cache together ([`PageTable::fetch`]): enough to overlap as many misses as
/// processors can, few enough to stay there until they are used.
pub const FETCHED: usize = 64;

/// Bits of a page's heat, whoever gives them their meaning.
pub const WORD_BITS: u32 = 56;

/// What is known of a run of pages. Of each word the lower [`WORD_BITS`] are the page's heat: the watch
/// clock at its last hit (32 bits), the watched seconds that its hits were seen in (the upper half of an
/// `f32`), its hits in sixteenths (8 bits). Above them are its flags and tier, see [`PageState`].
type Chunk = [u64; CHUNK_PAGES];

/// A page of which nothing is known: zero, which the system gives without writing it.
const UNKNOWN: u64 = 0;
/// The bits of its heat.
const WORD: u64 = (1 << WORD_BITS) - 1;

/// What is remembered of a page's heat; [`crate::telemetry::hotness`] gives it its meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Heat {
    /// Hits remembered, 0 to just below 16 in steps of 1/16.
    pub hits: f32,
    /// Watched seconds they were seen in.
    pub exposure_seconds: f32,
    /// The watch clock at the last hit.
    pub stamp: u32,
}

impl Heat {
    #[expect(clippy::cast_possible_truncation, reason = "cut into its three parts")]
    fn of(known: u64) -> Self {
        Self {
            hits: f32::from((known >> 48) as u8) / 16.0,
            exposure_seconds: f32::from_bits(u32::from((known >> 32) as u16) << 16),
            stamp: known as u32,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rounded to the nearest representable value on purpose"
    )]
    fn word(self) -> u64 {
        let hits = (self.hits * 16.0 + 0.5).min(255.0) as u8;
        let exposure = self.exposure_seconds.to_bits().saturating_add(1 << 15) >> 16;
        u64::from(hits) << 48 | u64::from(exposure) << 32 | u64::from(self.stamp)
    }
}

/// The flags of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageState(u8);

impl PageState {
    const QUEUED: u8 = 1 << 3;
    const LISTED: u8 = 1 << 4;
    const RETURNS_SHIFT: u8 = 5;
    const REFUSED: u8 = 1 << 7;

    fn of(known: u64) -> Self {
        Self((known >> WORD_BITS) as u8)
    }

    /// The tier it lives in, where known.
    pub fn tier(self) -> Option<TierId> {
        (self.0 & TIER).checked_sub(1).map(TierId)
    }

    /// A policy holds it in its queue of candidates.
    pub fn is_queued(self) -> bool {
        self.0 & Self::QUEUED != 0
    }

    /// A policy holds it in its list of a tier's residents.
    pub fn is_listed(self) -> bool {
        self.0 & Self::LISTED != 0
    }

    /// A policy holds all that it needs to hold: a page of the fastest tier in its list, or any in its queue.
    pub fn is_held(self) -> bool {
        self.is_queued() || self.is_listed() && self.tier() == Some(TierId::FAST)
    }

    /// The kernel refused to move it; not tried again while it is mapped.
    pub fn is_refused(self) -> bool {
        self.0 & Self::REFUSED != 0
    }

    /// How often it came back soon after a move, up to 3.
    pub fn returns(self) -> u8 {
        (self.0 >> Self::RETURNS_SHIFT) & 0b11
    }

    fn with(self, flag: u8, on: bool) -> Self {
        Self(if on { self.0 | flag } else { self.0 & !flag })
    }
}

/// Where a page is found again outside: the inverse of [`PageTable::find`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Whose page.
    pub space: SpaceId,
    /// The page (of a huge page: its head).
    pub vpn: Vpn,
    /// Its size.
    pub size: PageSize,
    /// What backs it.
    pub kind: PageKind,
}

impl From<Location> for PageAt {
    /// As a world is asked for it.
    fn from(Location { space, vpn, size, .. }: Location) -> Self {
        Self { space, vpn, size }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Run {
    base_pages: u64,
    size: PageSize,
    kind: PageKind,
    first: u32,
}

impl Run {
    fn pages(&self) -> u32 {
        pages_u32(self.base_pages / self.size.base_pages())
    }

    /// The pages of its base pages from `lo` to `hi`, a huge page once.
    fn pages_in(&self, lo: u64, hi: u64) -> impl Iterator<Item = PageIdx> + use<> {
        let (first, shift) = (self.first, self.size.shift());
        let (lo, hi) = (lo >> shift, (hi + self.size.base_pages() - 1) >> shift);
        (pages_u32(lo)..pages_u32(hi)).map(move |page| PageIdx(first + page))
    }
}

/// The run that was found last: samples and moves mostly are of few.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    space: SpaceId,
    start: Vpn,
    run: Run,
}

impl Found {
    fn holds(&self, space: SpaceId, start: u64, end: u64) -> bool {
        self.space == space && self.start.0 <= start && end <= self.start.0 + self.run.base_pages
    }

    /// Where a page is, if it is one of the run's.
    fn locate(&self, page: PageIdx) -> Option<Location> {
        let Self { space, start, run } = *self;
        let offset = page.0.checked_sub(run.first).filter(|&offset| offset < run.pages())?;
        let vpn = Vpn(start.0 + u64::from(offset) * run.size.base_pages());
        Some(Location { space, vpn, size: run.size, kind: run.kind })
    }
}

/// All managed pages.
#[derive(Default)]
pub struct PageTable {
    chunks: Vec<Option<Box<Chunk>>>,
    spaces: BTreeMap<SpaceId, BTreeMap<Vpn, Run>>,
    by_index: BTreeMap<u32, (SpaceId, Vpn)>,
    free: BTreeMap<u32, u32>,
    /// The same by length.
    free_by_len: BTreeSet<(u32, u32)>,
    /// Huge pages that were reported where no memory is mapped yet: their first page and their base pages.
    unmapped_huge: BTreeMap<(SpaceId, Vpn), u64>,
    next: u32,
    in_tier: [u64; TierId::MAX],
    base_pages: u64,
    last_found: Cell<Found>,
}

impl fmt::Debug for PageTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageTable")
            .field("base_pages", &self.base_pages)
            .field("regions", &self.by_index.len())
            .finish_non_exhaustive()
    }
}

impl PageTable {
    /// Applies one change of what there is to manage.
    pub fn apply(&mut self, event: SpaceEvent) {
        self.last_found.take();
        match event {
            SpaceEvent::Mapped(region) => self.map(region),
            SpaceEvent::Sized(space, vpn, base_pages, size) => {
                self.resize(space, vpn.0, vpn.0.saturating_add(base_pages), size);
            }
            SpaceEvent::Unmapped(space, vpn, base_pages) => {
                self.unmap(space, vpn.0, vpn.0.saturating_add(base_pages));
            }
            SpaceEvent::Gone(space) => self.remove_space(space),
        }
    }

    /// Base pages mapped.
    pub fn base_pages(&self) -> u64 {
        self.base_pages
    }

    /// Bytes of managed memory known to be in `tier`.
    pub fn bytes_in(&self, tier: TierId) -> Bytes {
        Bytes::from_base_pages(self.in_tier[tier.index()])
    }

    /// Indices that were ever given out: every page's is below.
    pub(crate) fn indices(&self) -> usize {
        self.next as usize
    }

    /// Bytes of metadata held now.
    pub fn metadata_bytes(&self) -> usize {
        self.chunks.iter().flatten().count() * size_of::<Chunk>()
    }

    /// The spaces there are, in order.
    pub fn spaces(&self) -> impl Iterator<Item = SpaceId> + '_ {
        self.spaces.keys().copied()
    }

    fn map(&mut self, region: Region) {
        let Region { space, kind, size, .. } = region;
        let (start, end) = (region.start.0, region.start.0.saturating_add(region.base_pages));
        let (stays, goes): (Vec<_>, Vec<_>) =
            self.overlapped(space, start, end).into_iter().partition(|(_, run)| run.kind == kind);
        for (vpn, run) in goes {
            self.unmap(space, start.max(vpn.0), end.min(vpn.0 + run.base_pages));
        }
        for (from, to) in gaps(start, end, &stays) {
            let (whole_from, whole_to) = match size {
                PageSize::Base => (to, to),
                PageSize::Huge => whole_huge(from, to),
            };
            self.add(space, from, whole_from, PageSize::Base, kind);
            self.add(space, whole_from, whole_to, size, kind);
            self.add(space, whole_to, to, PageSize::Base, kind);
        }
        for (from, to) in self.take_unmapped_huge(space, start, end) {
            self.resize(space, from, to, PageSize::Huge);
        }
    }

    /// Maps pages of which nothing is known where none are.
    fn add(&mut self, space: SpaceId, start: u64, end: u64, size: PageSize, kind: PageKind) {
        if start >= end {
            return;
        }
        let mut run = Run { base_pages: end - start, size, kind, first: 0 };
        let Some(first) = self.take_indices(run.pages()) else {
            return; // 2^32 pages are managed already: 16 TiB in base pages
        };
        run.first = first;
        self.base_pages += run.base_pages;
        self.attach(space, Vpn(start), run);
    }

    /// Unmaps a run of base pages; the rest of a huge page that it is part of stays, in base pages.
    fn unmap(&mut self, space: SpaceId, start: u64, end: u64) {
        self.take_unmapped_huge(space, start, end);
        let (first, last) = (Vpn(start).huge_head().0, Vpn(end).huge_head().0);
        for (head, is_cut) in [(first, first < start), (last, last < end)] {
            if is_cut && start < end {
                self.split_all(space, head, head + BASE_PER_HUGE);
            }
        }
        for (vpn, run) in self.overlapped(space, start, end) {
            self.cut(space, vpn, run, start, end);
        }
    }

    /// Gives the pages of `start..end` their size. Huge pages that are not, or not wholly, mapped are kept for later.
    fn resize(&mut self, space: SpaceId, start: u64, end: u64, size: PageSize) {
        if size == PageSize::Base {
            self.take_unmapped_huge(space, start, end);
            self.split_all(space, start, end);
            return;
        }
        let (start, end) = whole_huge(start, end);
        self.take_unmapped_huge(space, start, end);
        let mut at = start;
        for (from, to, kind) in self.of_one_kind(space, start, end) {
            let (from, to) = whole_huge(from, to);
            if from < to {
                self.expect_huge(space, at, from);
                self.form_huge(space, from, to, kind);
                at = to;
            }
        }
        self.expect_huge(space, at, end);
    }

    /// Replaces the base pages of `from..to`, all of one kind, by huge ones, of which nothing is known.
    fn form_huge(&mut self, space: SpaceId, from: u64, to: u64, kind: PageKind) {
        let mut huge = self.overlapped(space, from, to);
        huge.retain(|(_, run)| run.size == PageSize::Huge);
        for (from, to) in gaps(from, to, &huge) {
            self.unmap(space, from, to);
            self.add(space, from, to, PageSize::Huge, kind);
        }
    }

    /// What of `start..end` is mapped, neighbours of one kind joined whatever their size.
    fn of_one_kind(&self, space: SpaceId, start: u64, end: u64) -> Vec<(u64, u64, PageKind)> {
        let mut joined: Vec<(u64, u64, PageKind)> = Vec::new();
        for (vpn, run) in self.overlapped(space, start, end) {
            let (from, to) = (start.max(vpn.0), end.min(vpn.0 + run.base_pages));
            match joined.last_mut() {
                Some(last) if (last.1, last.2) == (from, run.kind) => last.1 = to,
                _ => joined.push((from, to, run.kind)),
            }
        }
        joined
    }

    /// Notes that huge pages were seen where nothing, or not all of them, is mapped.
    fn expect_huge(&mut self, space: SpaceId, start: u64, end: u64) {
        if start < end {
            self.unmapped_huge.insert((space, Vpn(start)), end - start);
        }
    }

    /// Takes back what was noted of huge pages that overlap `start..end`.
    fn take_unmapped_huge(&mut self, space: SpaceId, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut taken = Vec::new();
        if start >= end {
            return taken;
        }
        let end = end.div_ceil(BASE_PER_HUGE).saturating_mul(BASE_PER_HUGE);
        let start = Vpn(start).huge_head().0;
        while let Some((&(_, vpn), &base_pages)) =
            self.unmapped_huge.range((space, Vpn(0))..(space, Vpn(end))).next_back()
            && vpn.0 + base_pages > start
        {
            self.unmapped_huge.remove(&(space, vpn));
            let to = vpn.0 + base_pages;
            taken.push((start.max(vpn.0), end.min(to)));
            for (from, to) in [(vpn.0, start), (end, to)].into_iter().filter(|(from, to)| from < to)
            {
                self.unmapped_huge.insert((space, Vpn(from)), to - from);
            }
        }
        taken
    }

    fn overlapped(&self, space: SpaceId, start: u64, end: u64) -> Vec<(Vpn, Run)> {
        let Some(runs) = self.spaces.get(&space) else { return Vec::new() };
        let from = runs.range(..=Vpn(start)).next_back().map_or(Vpn(start), |(&vpn, _)| vpn);
        let overlapped = runs.range(from..Vpn(end.max(from.0)));
        let overlapped =
            overlapped.filter(|(vpn, run)| start < end && vpn.0 + run.base_pages > start);
        overlapped.map(|(&vpn, &run)| (vpn, run)).collect()
    }

    /// Splits a huge page in place: its base pages lie where it lay and in its tier, and nothing else is
    /// known of them. False where it is no huge page, or 2^32 pages are managed already.
    pub fn split(&mut self, page: PageIdx) -> bool {
        let Some(at) = self.locate(page).filter(|at| at.size == PageSize::Huge) else {
            return false;
        };
        self.last_found.take();
        self.split_all(at.space, at.vpn.0, at.vpn.0 + BASE_PER_HUGE)
    }

    /// Splits every huge page that overlaps `start..end`. False where one stays whole, as 2^32 pages are managed
    /// already.
    fn split_all(&mut self, space: SpaceId, start: u64, end: u64) -> bool {
        let huge = |(_, run): &(Vpn, Run)| run.size == PageSize::Huge;
        let runs = self.overlapped(space, start, end).into_iter().filter(huge);
        runs.fold(true, |all, (vpn, run)| self.split_run(space, vpn, run, start, end) && all)
    }

    fn split_run(&mut self, space: SpaceId, vpn: Vpn, run: Run, start: u64, end: u64) -> bool {
        let lo = (start.max(vpn.0) - vpn.0) / BASE_PER_HUGE * BASE_PER_HUGE;
        let hi = (end.min(vpn.0 + run.base_pages) - vpn.0).div_ceil(BASE_PER_HUGE) * BASE_PER_HUGE;
        let Some(first) = self.take_indices(pages_u32(hi - lo)) else { return false };
        let tiers: Vec<_> = run.pages_in(lo, hi).map(|page| self.state(page).tier()).collect();
        self.cut(space, vpn, run, vpn.0 + lo, vpn.0 + hi);
        let parts = Run { base_pages: hi - lo, size: PageSize::Base, kind: run.kind, first };
        self.attach(space, Vpn(vpn.0 + lo), parts);
        self.base_pages += parts.base_pages;
        for (part, page) in parts.pages_in(0, parts.base_pages).enumerate() {
            if let Some(tier) = tiers[part >> PageSize::Huge.shift()] {
                self.set_tier(page, PageSize::Base, tier);
            }
        }
        true
    }

    /// Removes `start..end` from one run, in whole pages.
    fn cut(&mut self, space: SpaceId, vpn: Vpn, run: Run, start: u64, end: u64) {
        let unit = run.size.base_pages();
        let lo = (start.max(vpn.0) - vpn.0) / unit * unit;
        let hi = (end.min(vpn.0 + run.base_pages) - vpn.0).div_ceil(unit) * unit;
        self.detach(space, vpn, run.first);
        self.release_indices(run.first + pages_u32(lo / unit), pages_u32((hi - lo) / unit), unit);
        self.base_pages -= hi - lo;
        if lo > 0 {
            self.attach(space, vpn, Run { base_pages: lo, ..run });
        }
        if hi < run.base_pages {
            let rest = Run {
                base_pages: run.base_pages - hi,
                first: run.first + pages_u32(hi / unit),
                ..run
            };
            self.attach(space, Vpn(vpn.0 + hi), rest);
        }
    }

    fn attach(&mut self, space: SpaceId, vpn: Vpn, run: Run) {
        self.by_index.insert(run.first, (space, vpn));
        self.spaces.entry(space).or_default().insert(vpn, run);
    }

    fn detach(&mut self, space: SpaceId, vpn: Vpn, first: u32) {
        self.by_index.remove(&first);
        if let Some(runs) = self.spaces.get_mut(&space) {
            runs.remove(&vpn);
        }
    }

    fn remove_space(&mut self, space: SpaceId) {
        self.unmapped_huge.retain(|(of, _), _| *of != space);
        for (_, run) in self.spaces.remove(&space).unwrap_or_default() {
            self.by_index.remove(&run.first);
            self.release_indices(run.first, run.pages(), run.size.base_pages());
            self.base_pages -= run.base_pages;
        }
    }

    fn take_indices(&mut self, pages: u32) -> Option<u32> {
        if let Some(&(len, at)) = self.free_by_len.range((pages, 0)..).next() {
            self.forget_free(at, len);
            if len > pages {
                self.note_free(at + pages, len - pages);
            }
            return Some(at);
        }
        let first = self.next;
        self.next = first.checked_add(pages)?;
        self.chunks.resize_with((self.next as usize).div_ceil(CHUNK_PAGES), || None);
        Some(first)
    }

    fn release_indices(&mut self, first: u32, pages: u32, base_pages_each: u64) {
        if pages == 0 {
            return;
        }
        self.reset_state(first, pages, base_pages_each);
        let (mut at, mut len) = (first, pages);
        if let Some((&before, &n)) = self.free.range(..first).next_back()
            && before + n == first
        {
            self.forget_free(before, n);
            (at, len) = (before, n + pages);
        }
        if let Some(&n) = self.free.get(&(first + pages)) {
            self.forget_free(first + pages, n);
            len += n;
        }
        self.note_free(at, len);
    }

    fn note_free(&mut self, at: u32, len: u32) {
        self.free.insert(at, len);
        self.free_by_len.insert((len, at));
    }

    fn forget_free(&mut self, at: u32, len: u32) {
        self.free.remove(&at);
        self.free_by_len.remove(&(len, at));
    }

    /// Forgets the state of a run; whole chunks are dropped, not written.
    fn reset_state(&mut self, first: u32, pages: u32, base_pages_each: u64) {
        let (mut at, end) = (first as usize, first as usize + pages as usize);
        while at < end {
            let (c, offset) = (at / CHUNK_PAGES, at % CHUNK_PAGES);
            let n = (CHUNK_PAGES - offset).min(end - at);
            if let Some(chunk) = &mut self.chunks[c] {
                for known in &mut chunk[offset..offset + n] {
                    if let Some(tier) = PageState::of(*known).tier() {
                        self.in_tier[tier.index()] -= base_pages_each;
                    }
                    *known = UNKNOWN;
                }
            }
            if n == CHUNK_PAGES {
                self.chunks[c] = None;
            }
            at += n;
        }
    }

    /// The page that holds `vpn`.
    pub fn find(&self, space: SpaceId, vpn: Vpn) -> Option<PageIdx> {
        let mut found = None;
        self.for_each(space, vpn, 1, |page| found = Some(page));
        found
    }

    /// Calls `f` for every managed page in a run of base pages, a huge page once.
    pub fn for_each(&self, space: SpaceId, vpn: Vpn, base_pages: u32, mut f: impl FnMut(PageIdx)) {
        let end = vpn.0.saturating_add(u64::from(base_pages));
        let last = self.last_found.get();
        if last.holds(space, vpn.0, end) {
            return last.run.pages_in(vpn.0 - last.start.0, end - last.start.0).for_each(f);
        }
        let Some(runs) = self.spaces.get(&space) else { return };
        let from = runs.range(..=vpn).next_back().map_or(vpn, |(&start, _)| start);
        for (&start, run) in runs.range(from..Vpn(end.max(from.0))) {
            let lo = vpn.0.max(start.0) - start.0;
            let hi = (end.min(start.0 + run.base_pages)).saturating_sub(start.0);
            if lo >= hi {
                continue;
            }
            self.last_found.set(Found { space, start, run: *run });
            run.pages_in(lo, hi).for_each(&mut f);
        }
    }

    /// Where `page` is, or `None` if it was unmapped since.
    pub fn locate(&self, page: PageIdx) -> Option<Location> {
        self.last_found.get().locate(page).or_else(|| {
            let (_, &(space, start)) = self.by_index.range(..=page.0).next_back()?;
            let found = Found { space, start, run: *self.spaces.get(&space)?.get(&start)? };
            self.last_found.set(found);
            found.locate(page)
        })
    }

    /// Whether it is a huge page.
    pub fn is_huge(&self, page: PageIdx) -> bool {
        self.locate(page).is_some_and(|at| at.size == PageSize::Huge)
    }

    /// All that is known of a page.
    fn known(&self, page: PageIdx) -> u64 {
        let chunk = self.chunks[page.index() / CHUNK_PAGES].as_ref();
        chunk.map_or(UNKNOWN, |chunk| chunk[page.index() % CHUNK_PAGES])
    }

    fn known_mut(&mut self, page: PageIdx) -> &mut u64 {
        let chunk = &mut self.chunks[page.index() / CHUNK_PAGES];
        let chunk = chunk.get_or_insert_with(unknown_chunk);
        &mut chunk[page.index() % CHUNK_PAGES]
    }

    /// Brings what is known of these pages into the cache. Done for many at once, their misses overlap:
    /// several times as fast as one after the other, each with work in between.
    pub fn fetch(&self, pages: impl Iterator<Item = PageIdx>) {
        std::hint::black_box(pages.fold(0, |sum, page| sum ^ self.known(page)));
    }

    /// What is remembered of the page's heat.
    pub fn heat(&self, page: PageIdx) -> Heat {
        Heat::of(self.known(page))
    }

    /// Remembers the page's heat; hits are cut to what a byte holds.
    pub fn set_heat(&mut self, page: PageIdx, heat: Heat) {
        self.renew_heat(page, |_| heat);
    }

    /// Lets `renew` make the page's heat anew; returns its flags.
    pub fn renew_heat(&mut self, page: PageIdx, renew: impl FnOnce(Heat) -> Heat) -> PageState {
        let known = self.known_mut(page);
        *known = *known & !WORD | renew(Heat::of(*known)).word();
        PageState::of(*known)
    }

    /// The same seven bytes as a word of [`WORD_BITS`], for hotness of another form than [`Heat`]: what
    /// they mean is up to who writes them. Zero for a page nothing is known of.
    pub fn word(&self, page: PageIdx) -> u64 {
        self.known(page) & WORD
    }

    /// Replaces the page's word.
    ///
    /// # Panics
    /// Where it is longer than [`WORD_BITS`].
    pub fn set_word(&mut self, page: PageIdx, word: u64) {
        assert!(word <= WORD, "a page's word has {WORD_BITS} bits: {word:#x}");
        let known = self.known_mut(page);
        *known = *known & !WORD | word;
    }

    /// The page's flags.
    pub fn state(&self, page: PageIdx) -> PageState {
        PageState::of(self.known(page))
    }

    fn set_state(&mut self, page: PageIdx, state: PageState) {
        let known = self.known_mut(page);
        *known = *known & WORD | u64::from(state.0) << WORD_BITS;
    }

    /// Notes that a policy holds the page in its queue of candidates, or no longer does.
    pub fn set_queued(&mut self, page: PageIdx, on: bool) {
        self.set_state(page, self.state(page).with(PageState::QUEUED, on));
    }

    /// Notes that a policy holds the page in its list of residents, or no longer does.
    pub fn set_listed(&mut self, page: PageIdx, on: bool) {
        self.set_state(page, self.state(page).with(PageState::LISTED, on));
    }

    /// Notes that the kernel refused to move the page.
    pub fn set_refused(&mut self, page: PageIdx) {
        self.set_state(page, self.state(page).with(PageState::REFUSED, true));
    }

    /// Notes how often the page came back soon after a move; more than 3 count as 3.
    pub fn set_returns(&mut self, page: PageIdx, returns: u8) {
        let cleared = self.state(page).with(0b11 << PageState::RETURNS_SHIFT, false);
        self.set_state(page, cleared.with(returns.min(3) << PageState::RETURNS_SHIFT, true));
    }

    /// Notes the tier a page lives in, for the page of known `size`.
    pub fn set_tier(&mut self, page: PageIdx, size: PageSize, tier: TierId) {
        let old = self.state(page);
        if old.tier() == Some(tier) {
            return;
        }
        if let Some(before) = old.tier() {
            self.in_tier[before.index()] -= size.base_pages();
        }
        self.in_tier[tier.index()] += size.base_pages();
        self.set_state(page, PageState(old.0 & !TIER | (tier.0 + 1)));
    }

    /// Notes that a page of known `size` lives nowhere: it was paged out.
    pub fn clear_tier(&mut self, page: PageIdx, size: PageSize) {
        let old = self.state(page);
        if let Some(before) = old.tier() {
            self.in_tier[before.index()] -= size.base_pages();
            self.set_state(page, old.with(TIER, false));
        }
    }

    /// Re-derives the books from the pages themselves. Walks everything: for tests only.
    ///
    /// # Panics
    /// Where the counts kept along the way differ from what is there.
    pub fn check(&self) {
        let mut in_tier = [0; TierId::MAX];
        let (mut base_pages, mut indices) = (0, 0);
        for (&space, runs) in &self.spaces {
            let mut last_end = 0;
            for (&vpn, run) in runs {
                assert!(vpn.0 >= last_end, "regions overlap at {vpn:?}");
                let odd = (vpn.0 | run.base_pages) % run.size.base_pages();
                assert_eq!(odd, 0, "part of a huge page at {vpn:?}");
                last_end = vpn.0 + run.base_pages;
                base_pages += run.base_pages;
                indices += u64::from(run.pages());
                assert_eq!(self.by_index.get(&run.first), Some(&(space, vpn)));
                for i in 0..run.pages() {
                    if let Some(tier) = self.state(PageIdx(run.first + i)).tier() {
                        in_tier[tier.index()] += run.size.base_pages();
                    }
                }
            }
        }
        let free: u64 = self.free.values().map(|&n| u64::from(n)).sum();
        assert!(
            self.free.iter().eq(self
                .free_by_len
                .iter()
                .map(|(len, at)| (at, len))
                .collect::<BTreeMap<_, _>>())
        );
        assert_eq!(indices + free, u64::from(self.next), "an index is lost or used twice");
        assert_eq!(base_pages, self.base_pages);
        assert_eq!(in_tier, self.in_tier);
    }
}

/// What of `start..end` is in none of `runs`, which are in order.
fn gaps(start: u64, end: u64, runs: &[(Vpn, Run)]) -> Vec<(u64, u64)> {
    let ends = runs.iter().map(|(vpn, run)| vpn.0 + run.base_pages);
    let from = std::iter::once(start).chain(ends);
    let to = runs.iter().map(|(vpn, _)| vpn.0).chain(std::iter::once(end));
    from.zip(to).filter(|(from, to)| from < to).collect()
}

/// The whole huge pages in `start..end`; nothing at its end where there is none.
fn whole_huge(start: u64, end: u64) -> (u64, u64) {
    let (from, to) = (start.div_ceil(BASE_PER_HUGE) * BASE_PER_HUGE, Vpn(end).huge_head().0);
    if from < to { (from, to) } else { (end, end) }
}

/// A chunk without a copy of it on the stack.
#[cold]
fn unknown_chunk() -> Box<Chunk> {
    let words = vec![UNKNOWN; CHUNK_PAGES].into_boxed_slice();
    words.try_into().expect("as many as a chunk has")
}

/// Page counts of a run fit in 32 bits: longer runs cannot be given indices and are refused by `map`.
fn pages_u32(pages: u64) -> u32 {
    u32::try_from(pages).unwrap_or(u32::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn region(space: u32, start: u64, base_pages: u64, size: PageSize) -> Region {
        Region {
            space: SpaceId(space),
            start: Vpn(start),
            base_pages,
            size,
            kind: PageKind::Anonymous,
        }
    }

    /// So many base pages of one program, all in the fastest tier.
    pub(crate) fn all_fast(count: u64) -> (PageTable, Vec<PageIdx>) {
        let mut table = PageTable::default();
        table.apply(SpaceEvent::Mapped(region(1, 0, count, PageSize::Base)));
        let find = |vpn| table.find(SpaceId(1), Vpn(vpn)).unwrap();
        let all: Vec<PageIdx> = (0..count).map(find).collect();
        all.iter().for_each(|&page| table.set_tier(page, PageSize::Base, TierId::FAST));
        (table, all)
    }

    #[test]
    fn a_page_costs_eight_bytes() {
        assert_eq!(METADATA_BYTES_PER_PAGE, 8);
    }

    #[test]
    fn a_terabyte_that_nobody_touched_costs_no_metadata() {
        let mut table = PageTable::default();
        table.apply(SpaceEvent::Mapped(region(1, 0, 1 << 28, PageSize::Base)));
        assert_eq!(table.metadata_bytes(), 0);
        let page = table.find(SpaceId(1), Vpn(77_777_777)).unwrap();
        table.set_tier(page, PageSize::Base, TierId(1));
        assert_eq!(table.metadata_bytes(), 8 * CHUNK_PAGES);
    }

    #[test]
    fn a_huge_page_is_one_page_by_any_of_its_addresses() {
        let mut table = PageTable::default();
        table.apply(SpaceEvent::Mapped(region(1, 512, 1024, PageSize::Huge)));
        let head = table.find(SpaceId(1), Vpn(512)).unwrap();
        assert_eq!(table.find(SpaceId(1), Vpn(1023)), Some(head));
        assert_ne!(table.find(SpaceId(1), Vpn(1024)), Some(head));
        table.set_tier(head, PageSize::Huge, TierId(1));
        assert_eq!(table.bytes_in(TierId(1)), Bytes::from_mib(2));
    }

    #[test]
    fn a_huge_page_is_split_in_place() {
        let mut table = PageTable::default();
        table.apply(SpaceEvent::Mapped(region(1, 512, 3 * 512, PageSize::Huge)));
        let page = table.find(SpaceId(1), Vpn(1024)).unwrap();
        table.set_tier(page, PageSize::Huge, TierId(1));
        table.set_word(page, 7);
        assert!(table.split(page));
        table.check();
        assert_eq!(table.bytes_in(TierId(1)), Bytes::from_mib(2));
        let mut split = Vec::new();
        table.for_each(SpaceId(1), Vpn(1000), 1000, |page| split.push(page));
        let at = |page| table.locate(page).unwrap();
        assert_eq!(split.len(), 1 + 512 + 1, "between its neighbours, which are whole");
        for (page, vpn) in split[1..513].iter().zip(1024..) {
            assert_eq!((at(*page).vpn, at(*page).size), (Vpn(vpn), PageSize::Base));
            assert_eq!((table.state(*page).tier(), table.word(*page)), (Some(TierId(1)), 0));
        }
        assert!(!table.split(split[1]), "no further");
        // The world tells of it later: what became known of its base pages meanwhile stays.
        table.set_word(split[9], 5);
        table.apply(SpaceEvent::Mapped(region(1, 1024, 512, PageSize::Base)));
        assert_eq!(table.word(split[9]), 5);
        table.apply(SpaceEvent::Sized(SpaceId(1), Vpn(1024), 512, PageSize::Huge));
        table.check();
        assert_eq!(
            table.bytes_in(TierId(1)),
            Bytes::ZERO,
            "made whole by the kernel: another page"
        );
    }

    #[test]
    fn a_size_is_kept_when_its_mapping_is_read_later_or_again() {
        let mut table = PageTable::default();
        let sized = |vpn, pages, size| SpaceEvent::Sized(SpaceId(1), Vpn(vpn), pages, size);
        let read = SpaceEvent::Mapped(region(1, 100, 2000, PageSize::Base));
        table.apply(sized(0, 2560, PageSize::Huge));
        assert_eq!(table.base_pages(), 0, "a size alone maps nothing");
        table.apply(read);
        let huge = |table: &PageTable, vpn| {
            table.find(SpaceId(1), Vpn(vpn)).map(|page| table.is_huge(page))
        };
        let parts = [99, 100, 511, 512, 2047, 2048, 2099, 2100];
        let sizes = parts.map(|vpn| huge(&table, vpn));
        let (base, whole) = (Some(false), Some(true));
        assert_eq!(sizes, [None, base, base, whole, whole, base, base, None]);
        let page = table.find(SpaceId(1), Vpn(512)).unwrap();
        table.set_tier(page, PageSize::Huge, TierId(1));
        table.apply(read);
        assert_eq!(parts.map(|vpn| huge(&table, vpn)), sizes);
        assert_eq!(table.state(page).tier(), Some(TierId(1)));
        // The mapping grows: what was seen beyond it counts now.
        table.apply(SpaceEvent::Mapped(region(1, 100, 2460, PageSize::Base)));
        assert_eq!(huge(&table, 2048), whole);
        // Half of a huge page is unmapped: the kernel splits it, and so do the books.
        table.apply(SpaceEvent::Unmapped(SpaceId(1), Vpn(768), 256));
        assert_eq!([512, 767, 768, 1024].map(|vpn| huge(&table, vpn)), [base, base, None, whole]);
        assert_eq!(table.bytes_in(TierId(1)), Bytes::from_mib(1));
        table.apply(SpaceEvent::Mapped(region(1, 768, 256, PageSize::Base)));
        assert_eq!(huge(&table, 512), base, "that it was huge is over");
        table.check();
    }

    #[test]
    fn heat_survives_packing_within_a_percent() {
        let mut table = PageTable::default();
        table.apply(SpaceEvent::Mapped(region(1, 0, 1, PageSize::Base)));
        let page = table.find(SpaceId(1), Vpn(0)).unwrap();
        let heat = Heat { hits: 3.5, exposure_seconds: 0.123, stamp: 9 };
        table.set_heat(page, heat);
        let back = table.heat(page);
        assert_eq!((back.hits, back.stamp), (3.5, 9));
        assert!((back.exposure_seconds / 0.123 - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_word_comes_back_bit_by_bit_and_goes_with_the_page() {
        let mut table = PageTable::default();
        table.apply(SpaceEvent::Mapped(region(1, 0, 2, PageSize::Base)));
        let page = table.find(SpaceId(1), Vpn(1)).unwrap();
        assert_eq!(table.word(page), 0);
        for bit in 0..WORD_BITS {
            table.set_word(page, 1 << bit);
            assert_eq!(table.word(page), 1 << bit);
        }
        assert_eq!(table.state(page).tier(), None, "flags are no part of it");
        table.apply(SpaceEvent::Unmapped(SpaceId(1), Vpn(1), 1));
        assert_eq!(table.word(page), 0);
    }

    #[test]
    fn flags_do_not_disturb_each_other() {
        let mut table = PageTable::default();
        table.apply(SpaceEvent::Mapped(region(1, 0, 1, PageSize::Base)));
        let page = table.find(SpaceId(1), Vpn(0)).unwrap();
        table.set_tier(page, PageSize::Base, TierId(2));
        table.set_returns(page, 7);
        table.set_queued(page, true);
        table.set_listed(page, true);
        table.set_queued(page, false);
        let state = table.state(page);
        assert_eq!((state.tier(), state.returns()), (Some(TierId(2)), 3));
        assert!(state.is_listed() && !state.is_queued() && !state.is_refused());
        table.set_returns(page, 1);
        assert_eq!(table.state(page).returns(), 1);
    }

    const QUARTER: u64 = BASE_PER_HUGE / 4;
    const QUARTERS: u64 = 24;

    /// What the books must say, quarter by quarter of huge pages.
    #[derive(Default)]
    struct Expected {
        kinds: BTreeMap<u64, PageKind>,
        tiers: BTreeMap<u64, TierId>,
        /// Where a huge page was seen last.
        seen_huge: BTreeSet<u64>,
    }

    impl Expected {
        fn is_huge(&self, quarter: u64) -> bool {
            let mut kinds = (quarter / 4 * 4..quarter / 4 * 4 + 4).map(|at| self.kinds.get(&at));
            let first = kinds.next().flatten();
            self.seen_huge.contains(&(quarter / 4))
                && first.is_some()
                && kinds.all(|kind| kind == first)
        }

        fn apply(&mut self, event: SpaceEvent) {
            let huge_before: Vec<bool> = (0..QUARTERS).map(|at| self.is_huge(at)).collect();
            match event {
                SpaceEvent::Mapped(Region { start, base_pages, size, kind, .. }) => {
                    let all = start.0 / QUARTER..(start.0 + base_pages) / QUARTER;
                    let is_new = |at: &u64| self.kinds.get(at) != Some(&kind);
                    let new: BTreeSet<u64> = all.filter(is_new).collect();
                    for &at in &new {
                        if self.kinds.contains_key(&at) {
                            self.unmap(at);
                        }
                        self.kinds.insert(at, kind);
                        let mut whole = at / 4 * 4..at / 4 * 4 + 4;
                        if size == PageSize::Huge && whole.all(|at| new.contains(&at)) {
                            self.seen_huge.insert(at / 4);
                        }
                    }
                }
                SpaceEvent::Sized(_, vpn, base_pages, size) => {
                    for chunk in vpn.0 / BASE_PER_HUGE..(vpn.0 + base_pages) / BASE_PER_HUGE {
                        match size {
                            PageSize::Base => self.seen_huge.remove(&chunk),
                            PageSize::Huge => self.seen_huge.insert(chunk),
                        };
                    }
                }
                SpaceEvent::Unmapped(_, vpn, base_pages) => {
                    let all = vpn.0 / QUARTER..(vpn.0 + base_pages) / QUARTER;
                    all.for_each(|at| self.unmap(at));
                }
                SpaceEvent::Gone(_) => *self = Self::default(),
            }
            // A huge page that came to be is another page.
            for (at, was_huge) in (0..QUARTERS).zip(huge_before) {
                if self.is_huge(at) && !was_huge {
                    self.tiers.remove(&at);
                }
            }
        }

        fn unmap(&mut self, at: u64) {
            self.kinds.remove(&at);
            self.tiers.remove(&at);
            self.seen_huge.remove(&(at / 4));
        }

        fn check(&self, table: &PageTable) {
            table.check();
            for at in 0..QUARTERS {
                for vpn in [at * QUARTER, (at + 1) * QUARTER - 1] {
                    let page = table.find(SpaceId(1), Vpn(vpn));
                    let found = page.and_then(|page| table.locate(page));
                    let size = if self.is_huge(at) { PageSize::Huge } else { PageSize::Base };
                    let expected = self.kinds.get(&at).map(|&kind| (kind, size));
                    assert_eq!(found.map(|found| (found.kind, found.size)), expected, "at {vpn}");
                    let tier = page.and_then(|page| table.state(page).tier());
                    assert_eq!(tier, self.tiers.get(&at).copied(), "at {vpn}");
                }
            }
        }
    }

    fn events() -> impl Strategy<Value = Vec<(u8, u64, u64, bool, bool)>> {
        let any = (0u8..8, 0..QUARTERS, 1..=QUARTERS, any::<bool>(), any::<bool>());
        prop::collection::vec(any, 1..40)
    }

    proptest! {
        /// Mappings are read, sizes are seen before and after that, pages are split by us and by others, formed again
        /// and moved, in any order: the last one to know something is right.
        #[test]
        fn sizes_follow_whatever_the_order(steps in events()) {
            let (mut table, mut expected) = (PageTable::default(), Expected::default());
            for (what, at, quarters, huge, file) in steps {
                let (at, to) = (at * QUARTER, (at + quarters).min(QUARTERS) * QUARTER);
                let size = if huge { PageSize::Huge } else { PageSize::Base };
                let (head, end) = whole_huge(at, to);
                let event = match what {
                    0 | 1 => {
                        let kind = if file { PageKind::File } else { PageKind::Anonymous };
                        let (start, end) = if huge { (head, end) } else { (at, to) };
                        let region = region(1, start, end - start, size);
                        Some(SpaceEvent::Mapped(Region { kind, ..region }))
                    }
                    2 | 3 => Some(SpaceEvent::Sized(SpaceId(1), Vpn(head), end - head, size)),
                    4 => Some(SpaceEvent::Unmapped(SpaceId(1), Vpn(at), to - at)),
                    5 if huge && file => Some(SpaceEvent::Gone(SpaceId(1))),
                    _ => None,
                };
                if let Some(event) = event {
                    table.apply(event);
                    expected.apply(event);
                } else if what == 5 {
                    if let Some(page) = table.find(SpaceId(1), Vpn(at)) && table.split(page) {
                        expected.seen_huge.remove(&(at / BASE_PER_HUGE));
                    }
                } else {
                    let tier = TierId(u8::from(huge));
                    let mut moved = Vec::new();
                    let base_pages = u32::try_from(to - at).unwrap();
                    table.for_each(SpaceId(1), Vpn(at), base_pages, |page| moved.push(page));
                    for page in moved {
                        let at = table.locate(page).unwrap();
                        table.set_tier(page, at.size, tier);
                        let quarters = at.vpn.0..at.vpn.0 + at.size.base_pages();
                        expected.tiers.extend(quarters.map(|vpn| (vpn / QUARTER, tier)));
                    }
                }
                expected.check(&table);
            }
        }

        #[test]
        fn books_balance_under_any_sequence_of_mappings(
            steps in prop::collection::vec((0u32..3, 0u64..40, 1u64..20, 0u8..8), 1..60),
        ) {
            let mut table = PageTable::default();
            for (space, start, len, what) in steps {
                let (start, len) = (start * 512, len * 512);
                match what {
                    0 => table.apply(SpaceEvent::Mapped(region(space, start, len, PageSize::Base))),
                    1 => table.apply(SpaceEvent::Mapped(region(space, start, len, PageSize::Huge))),
                    2 => table.apply(SpaceEvent::Unmapped(SpaceId(space), Vpn(start + 7), len)),
                    3 => table.apply(SpaceEvent::Gone(SpaceId(space))),
                    6 => table.apply(SpaceEvent::Sized(SpaceId(space), Vpn(start), len, PageSize::Huge)),
                    7 => table.apply(SpaceEvent::Sized(SpaceId(space), Vpn(start), len, PageSize::Base)),
                    4 => {
                        let page = table.find(SpaceId(space), Vpn(start + 9));
                        let size = page.map(|page| table.locate(page).unwrap().size);
                        let is_split = page.is_some_and(|page| table.split(page));
                        prop_assert_eq!(is_split, size == Some(PageSize::Huge));
                    }
                    _ => {
                        let mut hit = Vec::new();
                        table.for_each(SpaceId(space), Vpn(start + 3), 600, |page| hit.push(page));
                        for page in hit {
                            let at = table.locate(page).unwrap();
                            prop_assert_eq!(table.find(at.space, at.vpn), Some(page));
                            table.set_tier(page, at.size, TierId(u8::from(start % 1024 == 0)));
                        }
                    }
                }
                table.check();
            }
        }
    }
}
