// SPDX-License-Identifier: Apache-2.0
//! What trackers that arm, wait and read have to do by themselves, and what they find.

use std::collections::BTreeSet;
use std::time::Duration;

use tierline_core::port::{Observations, PageAddress, Region, SampledHits, SpaceId, Spread};
use tierline_core::unit::{BASE_PER_HUGE, Nanos};

use crate::error::Result;
use crate::tracker::last_scan::Repeated;

/// A way to let the kernel record which pages are accessed, and to read that.
pub trait AccessBits {
    /// The tracker's name for users.
    const NAME: &'static str;
    /// Its state for each process.
    type Space: Default;
    /// True if it reports huge pages itself.
    const REPORTS_PAGE_SIZES: bool = false;
    /// True if [`AccessBits::peek`] works.
    const PEEKS: bool = false;
    /// True if [`AccessBits::look_into`] works.
    const LOOKS_INTO_SPLITS: bool = false;

    /// Begins a scan of these processes, in order. Returns those to be left out of it.
    fn begin_scan(&mut self, _spaces: &[SpaceId]) -> BTreeSet<SpaceId> {
        BTreeSet::new()
    }

    /// Clears all recorded accesses of a process. `false` if it has ended.
    fn arm(&mut self, space: SpaceId, kept: &mut Self::Space) -> Result<bool>;

    /// Appends the accesses since. `None` if the process has ended.
    fn read(
        &mut self,
        space: SpaceId,
        kept: &mut Self::Space,
        out: &mut Observations,
    ) -> Result<Option<ReadCounts>>;

    /// Whether the next [`AccessBits::read`] takes pages that got into memory since the last one for not accessed.
    fn skip_new(&mut self, _skips: bool) {}

    /// Makes the next [`AccessBits::read`] report the pages of this mapping, if it would only report new ones.
    fn report_again(&mut self, _mapping: &Region) {}

    /// Reads a small sample of the base pages that the last [`AccessBits::read`] found, and projects it to all of
    /// them. What was recorded stays.
    fn peek(&mut self, _kept: &mut Self::Space) -> Option<ReadCounts> {
        None
    }

    /// Pages in memory now, at a cost that does not depend on their number.
    fn resident(&mut self, _space: SpaceId) -> Option<u64> {
        None
    }

    /// Clears the recorded accesses of a small sample of the slow tiers' pages, whatever the size of the process.
    /// `false` if it cannot.
    fn arm_quick_scan(&mut self, _space: SpaceId, _kept: &mut Self::Space) -> bool {
        false
    }

    /// Reports the next batch of huge pages that [`AccessBits::read`] found accessed and did not report; with a
    /// window, those of them that are accessed in that one, too. `None` after the last batch. The window of base pages took `_watched`.
    fn read_huge(
        &mut self,
        _space: SpaceId,
        _kept: &mut Self::Space,
        _window: Option<Nanos>,
        _watched: Duration,
        _out: &mut Observations,
    ) -> Option<HugeBatch> {
        None
    }

    /// Makes [`AccessBits::read_huge`] begin again with the first batch.
    fn rewind_huge(&mut self, _kept: &mut Self::Space) {}

    /// Makes [`AccessBits::read_huge`] go on with batches in whose window the program presumably did not run. `false` if there are
    /// none.
    fn watch_missed(&mut self, _kept: &mut Self::Space) -> bool {
        false
    }

    /// The slow base pages of that sample that were accessed since, and their projected number in the whole process.
    fn read_quick_scan(&mut self, _kept: &mut Self::Space) -> Option<(SampledHits, f64)> {
        None
    }

    /// Clears the recorded accesses of the slow base pages that [`AccessBits::read`] found accessed, and the one before did
    /// not; some of them, if that takes more CPU time than `most`. `false` if there are none, or if it cannot.
    fn arm_second_look(&mut self, _space: SpaceId, _kept: &mut Self::Space, _most: Nanos) -> bool {
        false
    }

    /// Reports those of them that were accessed since, too. The window took `watched`.
    fn read_second_look(
        &mut self,
        _space: SpaceId,
        _kept: &mut Self::Space,
        _watched: Duration,
        _out: &mut Observations,
    ) {
    }

    /// Looks into a huge page that was just split.
    fn look_into(&mut self, _split: PageAddress, _kept: &mut Self::Space) -> Option<Spread> {
        None
    }

    /// Reads the machine's memory again, after frames in unknown memory were found: some may have been added.
    fn refresh(&mut self) -> Result<()>;
}

/// The result of reading one process, in base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// In memory.
    pub present: u64,
    /// Accessed.
    pub accessed: u64,
    /// In memory as part of a huge page that [`AccessBits::read_huge`] reports.
    pub huge_present: u64,
    /// Of them, accessed.
    pub huge_accessed: u64,
    /// In huge pages that are mapped by base pages.
    pub in_folios: u64,
    /// In unknown memory.
    pub in_unknown_memory: u64,
    /// Accessed in the last scan, too, if that is known.
    pub repeated: Repeated,
    /// Base pages of slow memory that were accessed, if tiers are known.
    pub slow_accessed: u64,
    /// Of them, those that were accessed in the last scan, too.
    pub slow_again: u64,
    /// The process has not run, so it was not read.
    pub is_skipped: bool,
}

impl ReadCounts {
    /// Accessed, without huge pages.
    pub fn base_accessed(&self) -> u64 {
        self.accessed - self.huge_accessed
    }

    /// Entries of page tables: a huge page is one, unless it is mapped by base pages.
    pub(super) fn entries(&self) -> u64 {
        let by_one = self.huge_present - self.in_folios;
        self.present - by_one + by_one / BASE_PER_HUGE
    }
}

impl std::ops::AddAssign for ReadCounts {
    fn add_assign(&mut self, other: Self) {
        self.present += other.present;
        self.accessed += other.accessed;
        self.huge_present += other.huge_present;
        self.huge_accessed += other.huge_accessed;
        self.in_folios += other.in_folios;
        self.in_unknown_memory += other.in_unknown_memory;
        self.repeated.before += other.repeated.before;
        self.repeated.again += other.repeated.again;
        self.slow_accessed += other.slow_accessed;
        self.slow_again += other.slow_again;
    }
}

/// The result of a batch of huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugeBatch {
    /// Huge pages in the batch.
    pub pages: u32,
    /// Of them, accessed.
    pub accessed: u32,
    /// How long they were watched; `None`: in the window of base pages only.
    pub window: Option<Duration>,
}
