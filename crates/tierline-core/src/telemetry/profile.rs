// SPDX-License-Identifier: Apache-2.0
//! A profile of memory: how much is in use within a given number of minutes, by kind, and after which time cold
//! memory is used again.
//!
//! Time is divided into intervals, normally of a minute. A page has 64 bits, one for each of the last 64
//! intervals: was it accessed then? A page that is accessed after intervals without an access came back.
//! Accesses are those that a tracker saw: with a sampler, pages that it missed count as idle.
//!
//! Source: Chameleon, the profiler of TPP (ASPLOS 2023, section 3): bitmap, interval and kinds; the reports are
//! its figures 7 (use over the last minutes), 8 (by kind) and 11 (time until used again). The paper's sampling
//! of core groups in turn is left out.

use serde::Serialize;

use crate::page::{PageIdx, PageTable, page_word};
use crate::port::{Observations, PageKind, PageSize};
use crate::unit::Bytes;

page_word! {
    /// Whether a page was accessed.
    SeenWord
}

/// Number of intervals remembered.
pub const REMEMBERED: u32 = u64::BITS;
/// Spans of a report, in intervals.
const SPANS: [u32; 7] = [1, 2, 5, 10, 20, 40, REMEMBERED];
const KINDS: [PageKind; 3] = [PageKind::Anonymous, PageKind::File, PageKind::Shared];
/// The word of a page that was accessed since it was mapped.
const SEEN: u64 = 1;

/// Words per chunk of the history.
const CHUNK: usize = 4096;

/// The observed use of the memory of some programs.
pub struct Profile {
    pages: PageTable,
    /// One word per page, the present interval in its lowest bit. Undefined for a page that is not [`SEEN`]. In
    /// chunks, made when one of their pages is first touched: memory that is only mapped costs nothing.
    history: Vec<Option<Box<[u64; CHUNK]>>>,
    /// Finished intervals.
    intervals: u32,
    /// The next interval has not begun: the lowest bit is of the last finished one.
    between: bool,
    /// Base pages that came back, by kind and by number of intervals; the last entry is for more than is
    /// remembered.
    back: [[u64; REMEMBERED as usize + 1]; KINDS.len()],
    /// Base pages that were accessed for the first time.
    new: [u64; KINDS.len()],
    touched: Vec<PageIdx>,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            pages: PageTable::default(),
            history: Vec::new(),
            intervals: 0,
            between: false,
            back: [[0; REMEMBERED as usize + 1]; KINDS.len()],
            new: [0; KINDS.len()],
            touched: Vec::new(),
        }
    }
}

impl Profile {
    /// Takes in a tracker's observations.
    pub fn observe(&mut self, seen: &Observations) {
        self.begin();
        for &event in &seen.space_events {
            self.pages.apply(event);
        }
        let mut touched = std::mem::take(&mut self.touched);
        for at in &seen.residence {
            self.pages.for_each(at.space, at.vpn, at.base_pages, |page| touched.push(page));
            touched.drain(..).for_each(|page| self.pages.set_tier(page, at.tier));
        }
        for sample in &seen.samples {
            let (space, vpn) = (sample.space, sample.vpn);
            self.pages.for_each(space, vpn, sample.base_pages, |page| touched.push(page));
            touched.drain(..).for_each(|page| self.touch(page));
        }
        self.touched = touched;
    }

    fn touch(&mut self, page: PageIdx) {
        let Some(at) = self.pages.locate(page) else { return };
        let (chunk, within) = (page.index() / CHUNK, page.index() % CHUNK);
        if self.history.len() <= chunk {
            self.history.resize(chunk + 1, None);
        }
        let kind = place_of(at.kind);
        let history = &mut self.history[chunk].get_or_insert_with(|| Box::new([0; CHUNK]))[within];
        if self.pages.heat::<SeenWord>(page).0 != SEEN {
            self.pages.set_heat(page, SeenWord(SEEN));
            self.new[kind] += at.size.base_pages();
            *history = 1;
            return;
        }
        let cold = history.trailing_zeros(); // 64 if longer
        if cold > 1 {
            self.back[kind][cold as usize] += at.size.base_pages();
        }
        *history |= 1;
    }

    /// Ends an interval. Walks the pages that were ever accessed.
    pub fn end_interval(&mut self) {
        self.begin();
        self.intervals += 1;
        self.between = true;
    }

    fn begin(&mut self) {
        if std::mem::take(&mut self.between) {
            let chunks = self.history.iter_mut().flatten();
            chunks.flat_map(|chunk| chunk.iter_mut()).for_each(|history| *history <<= 1);
        }
    }

    /// Finished intervals.
    pub fn intervals(&self) -> u32 {
        self.intervals
    }

    /// The profile of the finished intervals: of all memory, then of each kind present. Walks all pages.
    pub fn report(&self) -> Vec<MemoryUse> {
        let spans = SPANS.into_iter().filter(|&span| span <= self.intervals);
        let mut kinds: Vec<MemoryUse> = KINDS.into_iter().map(MemoryUse::of).collect();
        for heat in &mut kinds {
            let back = &self.back[place_of(heat.kind.unwrap_or_default())];
            heat.within = spans
                .clone()
                .map(|intervals| UseWithin { intervals, ..UseWithin::default() })
                .collect();
            heat.new = Bytes::from_base_pages(self.new[place_of(heat.kind.unwrap_or_default())]);
            heat.came_back = Bytes::from_base_pages(back.iter().sum());
            for within in &mut heat.within {
                let soon = back.iter().take(within.intervals as usize + 1).sum();
                within.came_back = Bytes::from_base_pages(soon);
            }
        }
        for index in 0..self.pages.indices() {
            let page = PageIdx::from_index(index);
            let Some(at) = self.pages.locate(page) else { continue };
            let seen = self.pages.heat::<SeenWord>(page).0 == SEEN;
            if seen || self.pages.state(page).tier().is_some() {
                let chunk = self.history.get(index / CHUNK).and_then(Option::as_ref);
                let history = chunk.filter(|_| seen).map_or(0, |chunk| chunk[index % CHUNK]);
                let over = if self.between { history } else { history >> 1 };
                kinds[place_of(at.kind)].add(over, at.size);
            }
        }
        kinds.retain(|heat| heat.memory > Bytes::ZERO);
        let mut all = MemoryUse {
            within: spans
                .map(|intervals| UseWithin { intervals, ..UseWithin::default() })
                .collect(),
            ..MemoryUse::default()
        };
        kinds.iter().for_each(|heat| all.join(heat));
        [vec![all], kinds].concat()
    }
}

fn place_of(kind: PageKind) -> usize {
    kind as usize
}

/// The use of memory of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryUse {
    /// The kind; `None`: all kinds.
    pub kind: Option<PageKind>,
    /// Present memory: resident, or accessed at least once.
    #[serde(rename = "memory_bytes")]
    pub memory: Bytes,
    /// Memory accessed for the first time, of all that was ever present.
    #[serde(rename = "new_bytes")]
    pub new: Bytes,
    /// Memory accessed after at least one interval without an access, each time it came back.
    #[serde(rename = "came_back_bytes")]
    pub came_back: Bytes,
    /// By spans of time.
    pub within: Vec<UseWithin>,
}

/// The use within the last intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UseWithin {
    /// Number of intervals.
    pub intervals: u32,
    /// Memory accessed in at least one of these intervals.
    #[serde(rename = "used_bytes")]
    pub used: Bytes,
    /// Memory that came back at most this many intervals after its last access.
    #[serde(rename = "came_back_bytes")]
    pub came_back: Bytes,
}

impl MemoryUse {
    fn of(kind: PageKind) -> Self {
        Self { kind: Some(kind), ..Self::default() }
    }

    /// Adds a page by its finished intervals, the last in the lowest bit.
    fn add(&mut self, history: u64, size: PageSize) {
        self.memory += size.bytes();
        let last = history.trailing_zeros();
        for within in self.within.iter_mut().filter(|within| last < within.intervals) {
            within.used += size.bytes();
        }
    }

    fn join(&mut self, other: &Self) {
        self.memory += other.memory;
        self.new += other.new;
        self.came_back += other.came_back;
        for (own, other) in self.within.iter_mut().zip(&other.within) {
            own.used += other.used;
            own.came_back += other.came_back;
        }
    }

    /// Memory accessed in one of the last `intervals`, if that was measured.
    pub fn used_within(&self, intervals: u32) -> Option<Bytes> {
        self.within.iter().find(|within| within.intervals == intervals).map(|within| within.used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{Region, Residence, Sample, SpaceEvent, SpaceId, Vpn};
    use crate::tier::TierId;

    const PAGE: Bytes = PageSize::Base.bytes();

    fn mapped(space: u32, kind: PageKind, base_pages: u64) -> Observations {
        let region =
            Region { space: SpaceId(space), start: Vpn(0), base_pages, size: PageSize::Base, kind };
        let base_pages = u32::try_from(base_pages).unwrap();
        let residence =
            Residence { space: SpaceId(space), vpn: Vpn(0), base_pages, tier: TierId::FAST };
        Observations {
            space_events: vec![SpaceEvent::Mapped(region)],
            residence: vec![residence],
            ..Observations::default()
        }
    }

    fn accessed(space: u32, vpn: u64, base_pages: u32) -> Observations {
        let sample = Sample {
            space: SpaceId(space),
            vpn: Vpn(vpn),
            base_pages,
            hits: 1.0,
            exposure: None,
            tier: None,
            write: None,
        };
        Observations { samples: vec![sample], ..Observations::default() }
    }

    #[test]
    fn mapped_memory_that_is_not_touched_costs_nothing() {
        let mut profile = Profile::default();
        let (space, base_pages) = (SpaceId(1), 1 << 28);
        let region =
            Region { space, start: Vpn(0), base_pages, size: PageSize::Base, kind: KINDS[0] };
        profile.observe(&Observations {
            space_events: vec![SpaceEvent::Mapped(region)],
            ..Observations::default()
        });
        profile.observe(&accessed(1, base_pages - 1, 1));
        profile.end_interval();
        profile.observe(&accessed(1, base_pages - 1, 1));
        assert_eq!(profile.history.iter().flatten().count(), 1, "of 65,536 chunks");
        assert_eq!(profile.new[0], 1);
    }

    /// Ten private pages and four of a file. Page 0 is accessed always, pages 1 and 2 once, page 3 in the first
    /// and the fifth interval, the file never.
    #[test]
    fn memory_is_reported_by_kind_and_by_time_of_last_use() {
        let mut profile = Profile::default();
        profile.observe(&mapped(1, PageKind::Anonymous, 10));
        profile.observe(&mapped(2, PageKind::File, 4));
        for interval in 0..5 {
            profile.observe(&accessed(1, 0, if interval == 0 { 4 } else { 1 }));
            if interval == 4 {
                profile.observe(&accessed(1, 3, 1));
                profile.observe(&accessed(1, 3, 1));
            }
            profile.end_interval();
        }
        let report = profile.report();
        assert_eq!(
            report.iter().map(|heat| heat.kind).collect::<Vec<_>>(),
            [None, Some(PageKind::Anonymous), Some(PageKind::File)]
        );
        let (all, anon, file) = (&report[0], &report[1], &report[2]);
        assert_eq!([all.memory, anon.memory, file.memory], [PAGE * 14, PAGE * 10, PAGE * 4]);
        assert_eq!(anon.used_within(1), Some(PAGE * 2), "pages 0 and 3");
        assert_eq!(anon.used_within(2), Some(PAGE * 2));
        assert_eq!(anon.used_within(5), Some(PAGE * 4));
        assert_eq!(anon.used_within(10), None, "not observed for that long");
        assert_eq!((file.used_within(5), file.new), (Some(Bytes::ZERO), Bytes::ZERO));
        assert_eq!((anon.new, anon.came_back), (PAGE * 4, PAGE));
        let came_back: Vec<Bytes> = anon.within.iter().map(|within| within.came_back).collect();
        assert_eq!(came_back, [Bytes::ZERO, Bytes::ZERO, PAGE], "after four intervals");
        assert_eq!(all.within, anon.within);
    }

    #[test]
    fn after_64_intervals_a_page_comes_back_after_longer_than_is_remembered() {
        let mut profile = Profile::default();
        profile.observe(&mapped(1, PageKind::Anonymous, 1));
        profile.observe(&accessed(1, 0, 1));
        (0..REMEMBERED).for_each(|_| profile.end_interval());
        assert_eq!(
            profile.report()[0].used_within(REMEMBERED),
            Some(PAGE),
            "the oldest bit is lost"
        );
        profile.end_interval();
        assert_eq!(profile.report()[0].used_within(REMEMBERED), Some(Bytes::ZERO));
        profile.observe(&accessed(1, 0, 1));
        assert_eq!(profile.report()[0].came_back, PAGE);
        assert_eq!(profile.report()[0].new, PAGE, "only once");
    }

    #[test]
    fn what_is_unmapped_is_forgotten() {
        let mut profile = Profile::default();
        profile.observe(&mapped(1, PageKind::Anonymous, 2));
        profile.observe(&accessed(1, 0, 2));
        profile.end_interval();
        let spaces = vec![SpaceEvent::Unmapped(SpaceId(1), Vpn(0), 1)];
        profile.observe(&Observations { space_events: spaces, ..Observations::default() });
        assert_eq!(profile.report()[0].memory, PAGE);
        profile.observe(&mapped(1, PageKind::Anonymous, 2));
        assert_eq!(profile.report()[0].used_within(1), Some(PAGE), "the other one");
        profile.observe(&accessed(1, 0, 1));
        assert_eq!(
            (profile.report()[0].new, profile.report()[0].came_back),
            (PAGE * 3, Bytes::ZERO)
        );
    }
}
