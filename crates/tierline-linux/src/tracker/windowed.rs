// SPDX-License-Identifier: Apache-2.0
//! The steps of all trackers that arm, wait and read. Their differences are in an [`AccessBits`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tierline_core::port::{
    Attention, Observations, PageAddress, Region, SampledHits, SlowFound, SpaceId, Spread, Tracking,
};
use tierline_core::unit::{BASE_PER_HUGE, Bytes, Nanos};

use crate::error::{Error, Result};
use crate::process::held::{self, ended, file_error};
use crate::root::Root;
use crate::tracker::Tracker;
use crate::tracker::last_scan::Repeated;
use crate::tracker::moment::Moment;
use crate::tracker::window::{
    Cost, CostMeter, RaisedPriority, WindowPace, WindowSettings, WindowStats, are_alike,
    has_one_cpu, ratio, thread_cpu,
};

/// Windows that show what a page does now; older ones are outdated. Ours: with fewer, pages look hot by chance
/// too often; with more, a change takes too long to show.
const WINDOWS_REMEMBERED: u64 = 16;

/// Share of one CPU that scans may cost for a policy that counts hits by itself. Ours: twice the default's.
const BUDGET_OF_COUNTING: f64 = 0.1;

/// Time between the ends of two quick scans while windows are rare, or the window, if that is longer.
const QUICK_SCAN_EVERY: Nanos = Nanos::from_millis(500);

/// Windows up to this are waited for in place: other work of the manager would make them longer, and with a
/// long window warm pages look hot.
const IN_PLACE: Nanos = Nanos::from_millis(50);

/// Parts of a window after which a sample of pages is read: the window ends where they show enough accesses. So a
/// window that a change made too long, as when a program has filled its memory and begins to work, costs an eighth.
const PEEK_AT: [u64; 3] = [8, 4, 2];

/// Time between checks whether a program still fills its memory, and the growth in that time: one in this many pages.
const GROWTH_EVERY: Nanos = Nanos::from_millis(100);
const GROWTH_OF: u64 = 128;
/// A new mapping is large if it has more than one in this many pages of all memory in use. Ours.
const LARGE_OF: u64 = 16;

/// A window that takes at least this part of the time since the last scan: most new pages got into memory within it, so
/// their accessed bits show no more than their first access. Ours.
const NEW_WITHIN: u64 = 4;

/// A process is sparse if an entry of its page tables costs more than this many of the others', and all of it more than this.
/// Ours: page tables are usually full. A huge page is one entry, so a process in base pages beside one in huge pages is not sparse.
const SPARSE: u64 = 8;
const COSTLY: Nanos = Nanos::from_millis(20);
/// The most scans in which a sparse process rests.
const MOST_RESTS: u64 = 1 << 12;

/// Huge pages that were accessed in the window of base pages, of which at least one should be in windows of their own. If none
/// is, their program did not run then, as others had the CPU: they are watched again after this time, and this often. Ours.
const ENOUGH_HUGE: u32 = 16;
const WATCHED_AGAIN_AFTER: Nanos = Nanos::from_millis(3);
const WATCHED_AGAIN: u32 = 3;

/// The longest that batches of huge pages are watched in one step.
const AT_ONCE: Duration = Duration::from_millis(20);

/// True for a window that took far longer than requested, because the manager moved pages meanwhile or the
/// machine stood still: with a long window warm pages look hot. Ours.
fn is_drawn_out(waited: Duration, asked: Nanos) -> bool {
    nanos(waited) > asked * 2 + IN_PLACE
}

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
    fn entries(&self) -> u64 {
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

/// A tracker around an [`AccessBits`].
pub struct Windowed<P: AccessBits> {
    probe: P,
    pace: WindowPace,
    /// The fast tier's size: a window should not find more accessed pages than fit there.
    fast: Bytes,
    spaces: BTreeMap<SpaceId, Watched<P::Space>>,
    /// The processes whose pages decide how long a window is; empty: all.
    focus: BTreeSet<SpaceId>,
    one_cpu: bool,
    step: Step,
    due: Nanos,
    /// The process that the next part of a scan begins with; `None`: a scan begins.
    next_part: Option<SpaceId>,
    /// When the last arming ended; the same on the manager's clock.
    armed_at: Option<Instant>,
    opened_at: Nanos,
    /// When the pages of a quick scan, or of a second look, were armed.
    sample_armed: Option<Moment>,
    /// Cost of the last two quick scans; of the later one, a part may not be known yet. The next one is expected to cost what the
    /// cheaper one did: the kernel splits a huge page of which it is given base pages, but only once.
    quick_costs: [Nanos; 2],
    /// When the last window ended.
    closed_at: Nanos,
    /// When the budget permits another window; quick scans fill the time until then.
    affordable_at: Nanos,
    /// Whether the last scan was discarded, and this one repeats it.
    repeats: bool,
    /// Whether a new process, or a large new mapping, began the next scan, and the last one. A program that forks or maps again and
    /// again must not spend the credit, so the pause after such a scan is kept.
    for_newcomer: bool,
    after_newcomer: bool,
    /// The scan that is being read, and what it has found.
    scan: Scan,
    found: Observations,
    stats: WindowStats,
}

/// A scan between the first reading and the last.
#[derive(Clone, Copy, Debug, Default)]
struct Scan {
    seen: ReadCounts,
    /// Of them, those of the processes in focus.
    in_focus: ReadCounts,
    /// How long the window was. If this thread moved pages for most of it, so that programs stood still, it does not show
    /// how long it should be. It moves none in a window that is waited for in place.
    waited: Duration,
    /// The mean window of base pages, and the samples of base pages.
    watched: Duration,
    base_samples: usize,
    /// Base pages of processes that rest.
    resting: u64,
    /// Huge pages watched again, those of them that were accessed, and the sum of their windows.
    huge_pages: u32,
    huge_accessed: u32,
    huge_watched: Duration,
    /// How often huge pages were watched again because no window showed an access.
    watched_again: u32,
}

impl Scan {
    /// Adds a process that was watched for `window`.
    fn add_space(&mut self, seen: ReadCounts, window: Duration, in_focus: bool) {
        self.seen += seen;
        self.in_focus += if in_focus { seen } else { ReadCounts::default() };
        let part = ratio(seen.present.max(1), self.seen.present.max(1));
        self.watched = self.watched.mul_f64(1.0 - part) + window.mul_f64(part);
    }

    fn add(&mut self, batch: HugeBatch) {
        self.huge_pages += batch.pages;
        self.huge_accessed += batch.accessed;
        self.huge_watched += batch.window.unwrap_or(self.watched) * batch.pages;
    }

    /// Whether the windows of huge pages show no more than that their program did not run.
    fn shows_no_run(&self) -> bool {
        self.huge_accessed == 0
            && self.huge_pages >= ENOUGH_HUGE
            && self.watched_again < WATCHED_AGAIN
    }

    /// What was seen, of huge pages in their own window.
    fn seen(&self) -> ReadCounts {
        let huge_accessed = u64::from(self.huge_accessed) * BASE_PER_HUGE;
        let accessed = self.seen.base_accessed() + huge_accessed;
        ReadCounts { accessed, huge_accessed, ..self.seen }
    }

    /// What the next window depends on: of the processes in focus in the window of base pages, or of all as
    /// [`WindowPace::adapt`] takes it.
    fn decisive(&self) -> [ReadCounts; 2] {
        match self.in_focus {
            ReadCounts { present: 0, .. } => [self.seen, self.seen()],
            in_focus => [in_focus; 2],
        }
    }
}

struct Watched<S> {
    kept: S,
    /// The moment of the last arming, until it is read.
    armed: Option<Moment>,
    /// CPU time of its last arming.
    arming: Nanos,
    /// CPU time of its last scan in which it was not skipped, and the pages and the entries that it found.
    cost: Nanos,
    present: u64,
    entries: u64,
    /// Scans since, and whether it is left out of the present one.
    rests: u64,
    is_resting: bool,
}

impl<S> Watched<S> {
    /// Not scanned yet.
    fn new(kept: S) -> Self {
        let (arming, cost) = (Nanos::ZERO, Nanos::ZERO);
        let (present, entries, rests) = (0, 0, 0);
        Self { kept, armed: None, arming, cost, present, entries, rests, is_resting: false }
    }

    /// How much more it costs than all other processes together, which with it cost `all` and have these entries: zero
    /// unless it is sparse. Such a process is watched so rarely that it costs as much as they, and delays no window of them.
    fn excess(&self, all: Nanos, entries: u64) -> Nanos {
        let others = all.saturating_sub(self.cost);
        let of_others = entries.saturating_sub(self.entries);
        let per_entry = u128::from(self.cost.0) * u128::from(of_others);
        let is_sparse = per_entry > u128::from(others.0) * u128::from(SPARSE * self.entries);
        if is_sparse && self.cost > COSTLY { self.cost.saturating_sub(others) } else { Nanos::ZERO }
    }

    /// Decides whether it rests in the next scan.
    fn rest(&mut self, all: Nanos, entries: u64) {
        let excess = self.excess(all, entries);
        let others = all.saturating_sub(self.cost);
        let most = excess.0.checked_div(others.0).unwrap_or(0).min(MOST_RESTS);
        self.is_resting = self.rests < most;
        self.rests = if self.is_resting { self.rests + 1 } else { 0 };
    }
}

/// The cost and the entries of all processes, each at its last scan.
fn sum<S>(spaces: &BTreeMap<SpaceId, Watched<S>>) -> (Nanos, u64) {
    let all = spaces.values().map(|watched| watched.cost).sum();
    (all, spaces.values().map(|watched| watched.entries).sum())
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Arm,
    Read,
    ReadHuge,
    SecondLook,
    QuickScan,
    ReadQuickScan,
    /// Checks whether a program still fills its memory; this many pages were in memory before.
    Growth(u64),
}

impl<P: AccessBits> Windowed<P> {
    /// A tracker that uses `probe`; `fast` is the fast tier's capacity.
    pub fn with(probe: P, fast: Bytes, settings: WindowSettings) -> Self {
        Self {
            probe,
            pace: WindowPace::new(settings),
            fast,
            spaces: BTreeMap::new(),
            focus: BTreeSet::new(),
            one_cpu: has_one_cpu(),
            step: Step::Arm,
            due: Nanos::ZERO,
            next_part: None,
            armed_at: None,
            opened_at: Nanos::ZERO,
            sample_armed: None,
            quick_costs: [Nanos::ZERO; 2],
            closed_at: Nanos::ZERO,
            affordable_at: Nanos::ZERO,
            repeats: false,
            for_newcomer: false,
            after_newcomer: false,
            scan: Scan::default(),
            found: Observations::default(),
            stats: WindowStats::default(),
        }
    }

    /// Result and cost of the last window.
    pub fn stats(&self) -> WindowStats {
        self.stats
    }

    /// The probe, for its own settings.
    pub fn probe(&mut self) -> &mut P {
        &mut self.probe
    }

    fn go_on(&mut self, step: Step, due: Nanos) {
        (self.step, self.due) = (step, due);
    }

    /// Waits until the window ends, or a sample of pages shows that it has become too long. This step began at `start`,
    /// which is `now` on the manager's clock.
    fn wait(&mut self, now: Nanos, start: Instant, out: &mut Observations) -> Result<()> {
        loop {
            let window = self.pace.window();
            let now_on = now + nanos(start.elapsed());
            let waited = now_on.saturating_sub(self.opened_at);
            if waited >= window {
                return self.close_window(now, start, out);
            }
            let peeks = PEEK_AT.iter().filter(|_| P::PEEKS).map(|part| Nanos(window.0 / part));
            if peeks.clone().any(|peek| waited >= peek) && self.is_full() {
                self.pace.end_window(waited);
                return self.close_window(now, start, out);
            }
            let until = peeks.into_iter().find(|peek| *peek > waited).unwrap_or(window);
            if until > IN_PLACE {
                self.go_on(Step::Read, self.opened_at + until);
                return Ok(());
            }
            std::thread::sleep(Duration::from_nanos((until.saturating_sub(waited)).0));
        }
    }

    /// Whether a sample shows as many accessed pages as a window should find.
    fn is_full(&mut self) -> bool {
        let (mut seen, mut in_focus) = (ReadCounts::default(), ReadCounts::default());
        for (space, watched) in self.spaces.iter_mut().filter(|(_, own)| own.armed.is_some()) {
            let own = self.probe.peek(&mut watched.kept).unwrap_or_default();
            seen += own;
            in_focus += if self.focus.contains(space) { own } else { ReadCounts::default() };
        }
        match in_focus.present {
            0 => self.pace.is_full(seen, self.stats.present, self.fast),
            present => self.pace.is_full(in_focus, present, self.fast),
        }
    }

    /// Ends the window: reads the accesses, then watches huge pages. This step began at `start`, which is `now` on
    /// the manager's clock.
    fn close_window(&mut self, now: Nanos, start: Instant, out: &mut Observations) -> Result<()> {
        let waited = self.armed_at.map_or(Duration::ZERO, |armed| armed.elapsed());
        let since_last = now.saturating_sub(self.closed_at);
        self.probe.skip_new(nanos(waited) * NEW_WITHIN > since_last);
        self.scan.waited = waited;
        self.read()?;
        if self.scan.seen.in_unknown_memory > 0 {
            self.probe.refresh()?;
        }
        let is_last = self.next_part.is_none() && !self.repeats;
        if is_drawn_out(waited, self.pace.window())
            || is_last && self.pace.shows_pause(self.scan.decisive()[0])
        {
            self.found.samples.clear();
            let seen = ReadCounts { accessed: 0, huge_accessed: 0, ..self.scan.seen };
            self.scan = Scan { seen, ..Scan::default() };
            self.next_part = None;
            self.finish(now + nanos(start.elapsed()), out);
            // Once at once, as what it was to show is still unknown.
            if !std::mem::replace(&mut self.repeats, true) {
                self.go_on(Step::Arm, self.closed_at);
            }
        } else if self.next_part.is_some() {
            self.go_on(Step::Arm, now + nanos(start.elapsed()));
        } else {
            self.repeats = false;
            self.read_huge(now, start, out);
        }
        Ok(())
    }

    /// Watches huge pages for as long as a step may take, and rests once all were watched.
    fn read_huge(&mut self, now: Nanos, start: Instant, out: &mut Observations) {
        let Self { probe, scan, found, .. } = self;
        let (meter, begun, window) = (CostMeter::start(), Instant::now(), self.pace.huge_window());
        let mut is_last = true;
        'all: for (space, watched) in &mut self.spaces {
            while let Some(batch) =
                probe.read_huge(*space, &mut watched.kept, window, scan.watched, found)
            {
                scan.add(batch);
                if begun.elapsed() > AT_ONCE {
                    is_last = false;
                    break 'all;
                }
            }
        }
        self.stats.read += meter.cost();
        let now = now + nanos(start.elapsed());
        if !is_last {
            return self.go_on(Step::ReadHuge, now);
        }
        if window.is_some() && self.scan.shows_no_run() {
            self.rewind_huge();
            self.scan.watched_again += 1;
            return self.go_on(Step::ReadHuge, now + WATCHED_AGAIN_AFTER);
        }
        if self.pace.shorten_huge(self.scan.seen(), self.fast) {
            self.rewind_huge();
            return self.go_on(Step::ReadHuge, now);
        }
        if self.pace.attention() == Attention::Calm && self.arm_second_look() {
            return self.go_on(Step::SecondLook, now + nanos(self.scan.watched));
        }
        self.conclude(now, out);
    }

    /// Begins a second look at pages that the scan hit, for as long as the first, and at no more cost than that. `false` if there
    /// are none.
    fn arm_second_look(&mut self) -> bool {
        let (meter, arming, mut armed) = (CostMeter::start(), Moment::now(), false);
        let most = self.stats.arm.cpu + self.stats.read.cpu;
        // What a process that rests was last seen to access is too old.
        for (space, watched) in self.spaces.iter_mut().filter(|(_, own)| !own.is_resting) {
            let left = most.saturating_sub(meter.cost().cpu);
            armed |= self.probe.arm_second_look(*space, &mut watched.kept, left);
        }
        self.sample_armed = Some(arming.midway());
        self.stats.read += meter.cost();
        armed
    }

    /// Ends the second look, and with it the scan.
    fn second_look(&mut self, now: Nanos, start: Instant, out: &mut Observations) {
        let (meter, reading) = (CostMeter::start(), Moment::now());
        let watched = self
            .sample_armed
            .take()
            .map_or(Duration::ZERO, |armed| armed.watched_until(reading.midway(), self.one_cpu));
        if !is_drawn_out(watched, nanos(self.scan.watched)) {
            for (space, own) in self.spaces.iter_mut().filter(|(_, own)| !own.is_resting) {
                self.probe.read_second_look(*space, &mut own.kept, watched, &mut self.found);
            }
        }
        self.stats.read += meter.cost();
        self.conclude(now + nanos(start.elapsed()), out);
    }

    /// Ends a scan: the next window depends on it.
    fn conclude(&mut self, now: Nanos, out: &mut Observations) {
        let (scan, window) = (self.scan, self.pace.huge_window());
        let huge = match scan.huge_watched.checked_div(scan.huge_pages) {
            Some(mean) => Some(nanos(mean)),
            // Without huge pages, estimates need no page sizes.
            None => window.filter(|_| scan.seen.huge_present > 0),
        };
        let (window, before) = (nanos(scan.watched), self.stats.watched);
        if scan.watched * 2 >= scan.waited || nanos(scan.waited) <= IN_PLACE {
            let [seen, own] = scan.decisive();
            self.pace.adapt(seen, own, self.fast);
        }
        self.finish(now, out);
        let Repeated { before: found, again } = scan.seen.repeated;
        let ReadCounts { present, huge_present, slow_accessed, slow_again, .. } = scan.seen;
        let slow = SlowFound {
            accessed: slow_accessed,
            again: slow_again,
            base_pages: present - huge_present,
        };
        out.found_again = are_alike(window, before).then_some([found, again]);
        out.slow_found = out.found_again.map(|_| slow);
        self.stats.huge_watched = huge;
        out.watched += self.stats.watched;
        out.window = Some(self.stats.watched);
        out.huge_window = self.stats.huge_watched;
        out.remembered_time = Some(self.stats.watched * WINDOWS_REMEMBERED);
    }

    /// Discards what was seen of huge pages in too long a window.
    fn rewind_huge(&mut self) {
        let (huge_pages, huge_accessed, huge_watched) = Default::default();
        self.scan = Scan { huge_pages, huge_accessed, huge_watched, ..self.scan };
        self.found.samples.truncate(self.scan.base_samples);
        self.spaces.values_mut().for_each(|watched| self.probe.rewind_huge(&mut watched.kept));
    }

    /// Reports what was found, updates the statistics, and rests.
    fn finish(&mut self, now: Nanos, out: &mut Observations) {
        out.space_events.append(&mut self.found.space_events);
        out.residence.append(&mut self.found.residence);
        // Not copied: there may be one for each page, and the room for them is needed once.
        match out.samples.is_empty() {
            true => out.samples = std::mem::take(&mut self.found.samples),
            false => out.samples.append(&mut self.found.samples),
        }
        let scan = std::mem::take(&mut self.scan);
        let (seen, mut cost) = (scan.seen(), self.stats.arm);
        let present = seen.present + scan.resting;
        let (all, entries) = sum(&self.spaces);
        let watched = self.spaces.values().filter(|watched| !watched.is_resting);
        let excess = watched.map(|watched| watched.excess(all, entries)).sum();
        cost += self.stats.read;
        cost.cpu = cost.cpu.saturating_sub(excess);
        self.stats = WindowStats {
            windows: self.stats.windows + 1,
            present: seen.present,
            accessed: seen.accessed,
            watched: nanos(scan.watched),
            huge_watched: None,
            window: self.pace.window(),
            pause: self.pace.pause(now, cost, self.stats.longest_delay, present),
            ..self.stats
        };
        (self.closed_at, self.affordable_at) = (now, now + self.stats.pause);
        self.after_newcomer = std::mem::take(&mut self.for_newcomer);
        self.rest(now);
    }

    /// Schedules the next window, or a cheaper step before it.
    fn rest(&mut self, now: Nanos) {
        let check = now + GROWTH_EVERY;
        if self.pace.grows()
            && check < self.next_window()
            && let Some(resident) = self.resident()
        {
            return self.go_on(Step::Growth(resident), check);
        }
        let window = self.pace.quick_window();
        // The cost grows with the number of processes.
        let [before, last] = self.quick_costs;
        let earned = self.pace.earned(before.min(last).as_secs_f64());
        let quick_scan = now + QUICK_SCAN_EVERY.max(earned).saturating_sub(window);
        if self.pace.attention() != Attention::Moving && quick_scan + window < self.next_window() {
            self.go_on(Step::QuickScan, quick_scan);
        } else {
            self.go_on(Step::Arm, self.next_window());
        }
    }

    /// Schedules the next step anew, unless a scan has begun.
    fn reschedule(&mut self) {
        if self.next_part.is_none()
            && matches!(
                self.step,
                Step::Arm | Step::QuickScan | Step::ReadQuickScan | Step::Growth(_)
            )
        {
            self.rest(self.closed_at);
        }
    }

    /// Pages of all processes in memory.
    fn resident(&mut self) -> Option<u64> {
        let Self { probe, spaces, .. } = self;
        spaces.keys().map(|space| probe.resident(*space)).sum()
    }

    /// Opens the next window as soon as a program has filled its memory.
    fn check_growth(&mut self, before: u64, now: Nanos) {
        match self.resident() {
            Some(resident) if resident.saturating_sub(before) > before / GROWTH_OF => {
                self.rest(now)
            }
            _ => self.go_on(Step::Arm, now),
        }
    }

    /// Opens the next window soon, on credit, for what is new.
    fn end_pause(&mut self) {
        let has_begun = self.closed_at > Nanos::ZERO;
        if has_begun && self.pace.has_credit() && !self.after_newcomer {
            self.affordable_at = Nanos::ZERO;
            self.for_newcomer = true;
            self.reschedule();
        }
    }

    fn next_window(&self) -> Nanos {
        self.affordable_at.max(self.closed_at + self.pace.least_pause())
    }

    /// Arms the samples of all processes, and reads them after the window of quick scans.
    fn quick_scan(&mut self, now: Nanos, start: Instant, out: &mut Observations) {
        let (meter, arming, mut armed) = (CostMeter::start(), Moment::now(), false);
        self.quick_costs = [self.quick_costs[1], Nanos::ZERO];
        for (space, watched) in &mut self.spaces {
            armed |= self.probe.arm_quick_scan(*space, &mut watched.kept);
        }
        self.sample_armed = Some(arming.midway());
        self.pay(meter.cost());
        let (window, now_on) = (self.pace.quick_window(), now + nanos(start.elapsed()));
        if !armed {
            self.rest(now_on);
        } else if window > IN_PLACE {
            self.go_on(Step::ReadQuickScan, now_on + window);
        } else {
            std::thread::sleep(Duration::from_nanos(window.0));
            self.read_quick_scan(now, start, out);
        }
    }

    /// Reports the hits of the samples, and the hits per second projected from them.
    fn read_quick_scan(&mut self, now: Nanos, start: Instant, out: &mut Observations) {
        let (meter, reading) = (CostMeter::start(), Moment::now());
        let found =
            self.spaces.values_mut().filter_map(|w| self.probe.read_quick_scan(&mut w.kept));
        let found = found.reduce(|(mut hits, projected), more| {
            hits += more.0;
            (hits, projected + more.1)
        });
        if let (Some(armed), Some((hits, projected))) = (self.sample_armed.take(), found) {
            let watched = armed.watched_until(reading.midway(), self.one_cpu);
            out.slow_hits_sampled = Some(hits);
            out.slow_hits_per_sec = Some(projected / watched.as_secs_f64().max(1e-6));
        }
        self.pay(meter.cost());
        self.rest(now + nanos(start.elapsed()));
    }

    /// Subtracts a quick scan from the budget: the next window comes later, by at most its own pause.
    fn pay(&mut self, cost: Cost) {
        self.quick_costs[1] += cost.cpu;
        let latest = self.closed_at + self.stats.pause * 2;
        let earned = self.pace.earned(cost.cpu.as_secs_f64());
        self.affordable_at = (self.affordable_at + earned).min(latest);
    }

    /// Arms as many processes as can be armed within a window: whoever is armed first is watched meanwhile.
    fn arm(&mut self) -> Result<()> {
        let first = self.next_part.take().unwrap_or_else(|| {
            (self.stats.arm, self.stats.read) = Default::default();
            self.stats.longest_delay = Nanos::ZERO;
            let (all, entries) = sum(&self.spaces);
            let spaces: Vec<SpaceId> = self.spaces.keys().copied().collect();
            let left_out = self.probe.begin_scan(&spaces);
            for (space, watched) in &mut self.spaces {
                watched.rest(all, entries);
                watched.is_resting |= left_out.contains(space);
                self.scan.resting += if watched.is_resting { watched.present } else { 0 };
            }
            SpaceId(0)
        });
        let (began, window) = (Instant::now(), self.pace.window());
        for (space, watched) in self.spaces.range_mut(first..) {
            if watched.is_resting {
                continue;
            }
            if nanos(began.elapsed()) > window {
                self.next_part = Some(*space);
                break;
            }
            let (meter, start) = (CostMeter::start(), Moment::now());
            let there = self.probe.arm(*space, &mut watched.kept)?;
            watched.armed = there.then(|| start.midway());
            let cost = meter.cost();
            watched.arming = cost.cpu;
            self.stats.arm += cost;
            self.stats.longest_delay = self.stats.longest_delay.max(cost.wall);
        }
        self.armed_at = Some(Instant::now());
        Ok(())
    }

    /// Reads the processes that were armed.
    fn read(&mut self) -> Result<()> {
        let meter = CostMeter::start();
        for (space, watched) in &mut self.spaces {
            let Some(armed) = watched.armed.take() else { continue };
            let (own, start) = (thread_cpu(), Moment::now());
            if let Some(part) = self.probe.read(*space, &mut watched.kept, &mut self.found)? {
                if !part.is_skipped {
                    watched.cost = watched.arming + thread_cpu().saturating_sub(own);
                }
                (watched.present, watched.entries) = (part.present, part.entries());
                let window = armed.watched_until(start.midway(), self.one_cpu);
                self.scan.add_space(part, window, self.focus.contains(space));
            }
        }
        self.scan.base_samples = self.found.samples.len();
        self.stats.read += meter.cost();
        Ok(())
    }
}

impl<P: AccessBits> Tracker for Windowed<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    /// A new process ends the pause: the sample of a quick scan does not know its pages.
    fn watch(&mut self, spaces: &[SpaceId]) -> Result<()> {
        self.spaces.retain(|space, _| spaces.contains(space));
        let mut newcomers = false;
        for space in spaces {
            self.spaces.entry(*space).or_insert_with(|| {
                newcomers = true;
                Watched::new(P::Space::default())
            });
        }
        if newcomers {
            self.end_pause();
        }
        Ok(())
    }

    fn poll(&mut self, now: Nanos, out: &mut Observations) -> Result<()> {
        if now < self.due || self.spaces.is_empty() {
            return Ok(());
        }
        let start = Instant::now();
        let _urgent = RaisedPriority::begin();
        match self.step {
            Step::Arm => {
                self.arm()?;
                self.opened_at = now + nanos(start.elapsed());
                self.wait(now, start, out)?;
            }
            Step::Read => self.wait(now, start, out)?,
            Step::ReadHuge => self.read_huge(now, start, out),
            Step::Growth(before) => self.check_growth(before, now),
            Step::SecondLook => self.second_look(now, start, out),
            Step::QuickScan => self.quick_scan(now, start, out),
            Step::ReadQuickScan => self.read_quick_scan(now, start, out),
        }
        Ok(())
    }

    fn next_due(&self) -> Nanos {
        self.due
    }

    fn reports_page_sizes(&self) -> bool {
        P::REPORTS_PAGE_SIZES
    }

    fn looks_into_splits(&self) -> bool {
        P::LOOKS_INTO_SPLITS
    }

    /// Base pages of huge pages are unknown, and are to be found soon.
    fn look_into(&mut self, split: &[PageAddress], out: &mut Vec<Spread>) {
        self.pace.record_splits(split.len() as u64);
        for split in split.chunk_by(|a, b| a.space == b.space) {
            if let Some(watched) = self.spaces.get_mut(&split[0].space) {
                out.extend(self.probe.look_into(split[0], &mut watched.kept));
            }
        }
    }

    fn focus(&mut self, spaces: &BTreeSet<SpaceId>) {
        if *spaces != self.focus {
            self.focus.clone_from(spaces);
            self.pace.refocus();
        }
    }

    /// Where the pages of a large mapping are is known after the next scan.
    fn report_again(&mut self, mapping: &Region) {
        self.probe.report_again(mapping);
        if mapping.base_pages > self.stats.present / LARGE_OF {
            self.end_pause();
        }
    }

    fn record_promotions(&mut self, base_pages: u64) {
        self.pace.record_promotions(base_pages);
    }

    /// A policy that counts hits by itself learns little from one scan.
    fn reconfigure(&mut self, watch: Tracking) -> Result<bool> {
        if !matches!(watch, Tracking::TrueRates | Tracking::Regions { .. }) {
            self.pace.settings.budget_alert = BUDGET_OF_COUNTING;
            // It is told of no change, so nothing is kept for one.
            let kept = std::mem::take(&mut self.pace.settings.kept);
            self.pace.settings.credit = self.pace.settings.credit.saturating_sub(kept);
        }
        Ok(false)
    }

    /// An alarm shortens the pause, as far as its first window is earned, or may be owed.
    fn set_attention(&mut self, attention: Attention) {
        let alarm = self.pace.is_alarm(attention);
        self.pace.set_attention(attention);
        if alarm {
            let soonest = self.closed_at + self.pace.pause_before_alarm();
            self.affordable_at = self.affordable_at.min(soonest);
        }
        self.reschedule();
    }
}

pub(super) fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// Clears what is recorded of the pages of a process; the kernel's `clear_refs` knows several `kinds`.
pub(super) fn clear_refs(root: &Root, space: SpaceId, kind: &str) -> Result<()> {
    let process = root.process(space.0).ok_or_else(ended);
    let cleared = process.and_then(|process| process.write("clear_refs", kind));
    cleared.map_err(|source| file_error(root, space.0, "clear_refs", "write", source))
}

/// `Ok(false)` if the error says that the process has ended; other errors are returned.
pub(super) fn unless_gone(result: Result<()>) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if is_gone(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// True for the kernel's errors of a process that has ended.
pub(crate) fn is_gone(error: &Error) -> bool {
    let (Error::File { source, .. } | Error::Call { source, .. }) = error else { return false };
    held::is_gone(source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracker::window::tests::apart;
    use tierline_core::port::{PageKind, PageSize, Sample, Vpn};

    /// Reports ten base pages, three accessed; process 2 has ended.
    #[derive(Default)]
    struct Fake {
        armed: Vec<u32>,
        /// Huge pages: four, of which all are accessed in more than a millisecond, and one in less.
        huge: bool,
        /// So many windows of huge pages show no access.
        stands_still: usize,
        taken: bool,
        windows: Vec<Option<Nanos>>,
        arming: Duration,
    }

    impl AccessBits for Fake {
        const NAME: &'static str = "fake";
        type Space = ();
        fn arm(&mut self, space: SpaceId, (): &mut ()) -> Result<bool> {
            self.armed.push(space.0);
            std::thread::sleep(self.arming);
            Ok(space.0 != 2)
        }
        fn read(
            &mut self,
            _: SpaceId,
            (): &mut (),
            _: &mut Observations,
        ) -> Result<Option<ReadCounts>> {
            self.taken = false;
            let all = if self.huge { 2048 } else { 0 };
            let (huge_present, huge_accessed) = (all, all);
            let (present, accessed) = (10 + all, 3 + all);
            Ok(Some(ReadCounts {
                present,
                accessed,
                huge_present,
                huge_accessed,
                ..ReadCounts::default()
            }))
        }
        fn read_huge(
            &mut self,
            space: SpaceId,
            (): &mut (),
            window: Option<Nanos>,
            _watched: Duration,
            out: &mut Observations,
        ) -> Option<HugeBatch> {
            if !self.huge || std::mem::replace(&mut self.taken, true) {
                return None;
            }
            self.windows.push(window);
            let is_brief = window.is_some_and(|window| window < Nanos::from_millis(1));
            let (pages, all) = if self.stands_still > 0 { (16, 0) } else { (4, 4) };
            self.stands_still = self.stands_still.saturating_sub(1);
            let accessed = if is_brief { all / 4 } else { all };
            for page in 0..u64::from(accessed) {
                let (vpn, base_pages) = (Vpn(page * BASE_PER_HUGE), 512);
                let (hits, exposure, tier, write) = (1.0, None, None, None);
                out.samples.push(Sample { space, vpn, base_pages, hits, exposure, tier, write });
            }
            let window = window.map(|window| Duration::from_nanos(window.0));
            Some(HugeBatch { pages, accessed, window })
        }
        fn rewind_huge(&mut self, (): &mut ()) {
            self.taken = false;
        }
        fn refresh(&mut self) -> Result<()> {
            Ok(())
        }
    }

    /// 1,000 base pages, of which a sample can be read.
    #[derive(Default)]
    struct Peeking {
        accessed: u64,
        /// What the last reading found.
        before: u64,
        growth: u64,
        resident: u64,
        /// CPU time of reading a sample.
        busy: Nanos,
    }

    impl AccessBits for Peeking {
        const NAME: &'static str = "peeking";
        const PEEKS: bool = true;
        type Space = ();
        fn arm(&mut self, _: SpaceId, (): &mut ()) -> Result<bool> {
            Ok(true)
        }
        fn read(
            &mut self,
            _: SpaceId,
            (): &mut (),
            _: &mut Observations,
        ) -> Result<Option<ReadCounts>> {
            let before = std::mem::replace(&mut self.before, self.accessed);
            let repeated = Repeated { before, again: before.min(self.accessed) };
            Ok(self.peek(&mut ()).map(|seen| ReadCounts { repeated, ..seen }))
        }
        fn peek(&mut self, (): &mut ()) -> Option<ReadCounts> {
            let until = thread_cpu() + self.busy;
            while thread_cpu() < until {}
            Some(ReadCounts { present: 1_000, accessed: self.accessed, ..ReadCounts::default() })
        }
        fn arm_quick_scan(&mut self, _: SpaceId, (): &mut ()) -> bool {
            true
        }
        fn read_quick_scan(&mut self, (): &mut ()) -> Option<(SampledHits, f64)> {
            Some((SampledHits { hits: 7.0, variance: 7.0 }, 10.0))
        }
        fn arm_second_look(&mut self, _: SpaceId, (): &mut (), _: Nanos) -> bool {
            true
        }
        fn read_second_look(
            &mut self,
            space: SpaceId,
            (): &mut (),
            watched: Duration,
            out: &mut Observations,
        ) {
            let (vpn, exposure) = (Vpn(0), Some(nanos(watched)));
            let (base_pages, hits, tier, write) = (1, 1.0, None, None);
            out.samples.push(Sample { space, vpn, base_pages, hits, exposure, tier, write });
        }
        fn resident(&mut self, _: SpaceId) -> Option<u64> {
            self.resident += self.growth;
            Some(self.resident)
        }
        fn refresh(&mut self) -> Result<()> {
            Ok(())
        }
    }

    /// Process 1 has 10,000 pages; process 2 has 10, and takes 30 ms of CPU time to arm. Or both have 10 and take so long, and
    /// process 1 is skipped from its second scan on.
    #[derive(Default)]
    struct Sparse {
        armed: Vec<u32>,
        skips: bool,
    }

    impl AccessBits for Sparse {
        const NAME: &'static str = "sparse";
        type Space = ();
        fn arm(&mut self, space: SpaceId, (): &mut ()) -> Result<bool> {
            self.armed.push(space.0);
            let (begun, is_first) = (thread_cpu(), self.armed.len() == 1);
            let is_slow = space.0 == 2 || self.skips && is_first;
            while is_slow && thread_cpu() < begun + Nanos::from_millis(30) {}
            Ok(true)
        }
        fn read(
            &mut self,
            space: SpaceId,
            (): &mut (),
            _: &mut Observations,
        ) -> Result<Option<ReadCounts>> {
            let present = if space.0 == 1 && !self.skips { 10_000 } else { 10 };
            let is_skipped = self.skips && space.0 == 1 && self.armed.len() > 2;
            Ok(Some(ReadCounts { present, accessed: 9, is_skipped, ..ReadCounts::default() }))
        }
        fn refresh(&mut self) -> Result<()> {
            Ok(())
        }
    }

    /// Process 1 has all of its 10,000 pages accessed in any window; process 2 has 20 of 1,000.
    #[derive(Default)]
    struct BusyAndQuiet;

    impl BusyAndQuiet {
        fn counts(space: u32) -> ReadCounts {
            let (present, accessed) = if space == 1 { (10_000, 10_000) } else { (1_000, 20) };
            ReadCounts { present, accessed, ..ReadCounts::default() }
        }
    }

    impl AccessBits for BusyAndQuiet {
        const NAME: &'static str = "busy and quiet";
        const PEEKS: bool = true;
        /// Its number.
        type Space = u32;
        fn arm(&mut self, space: SpaceId, kept: &mut u32) -> Result<bool> {
            *kept = space.0;
            Ok(true)
        }
        fn read(
            &mut self,
            space: SpaceId,
            _: &mut u32,
            _: &mut Observations,
        ) -> Result<Option<ReadCounts>> {
            Ok(Some(Self::counts(space.0)))
        }
        fn peek(&mut self, kept: &mut u32) -> Option<ReadCounts> {
            Some(Self::counts(*kept))
        }
        fn refresh(&mut self) -> Result<()> {
            Ok(())
        }
    }

    /// The pages of the busy one fill the first eighth of a window.
    #[test]
    fn the_window_is_as_long_as_the_programs_in_focus_need_it() {
        let (window, longest) = (Nanos::from_millis(8), Nanos::from_millis(40));
        let settings = WindowSettings { window, longest, ..WindowSettings::default() };
        let mut tracker = Windowed::with(BusyAndQuiet, Bytes::from_base_pages(100_000), settings);
        let mut out = Observations::default();
        tracker.watch(&[SpaceId(1), SpaceId(2)]).expect("fine");
        let mut window_with = |focus: &[u32]| {
            tracker.focus(&focus.iter().copied().map(SpaceId).collect());
            let until = tracker.stats().windows + 4;
            while tracker.stats().windows < until {
                tracker.poll(tracker.next_due(), &mut out).expect("works");
            }
            tracker.stats().window
        };
        assert!(window_with(&[]) < window, "of 11,000 pages 10,020 are accessed");
        assert_eq!(window_with(&[2]), longest, "2 % of its pages are accessed");
        assert!(window_with(&[]) < longest, "all decide again");
        assert!(window_with(&[9]) < longest, "it has no pages yet");
    }

    #[test]
    fn it_arms_waits_reads_and_pauses() {
        let fast = Bytes::from_base_pages(8);
        let mut tracker = Windowed::with(Fake::default(), fast, apart());
        let mut out = Observations::default();
        tracker.poll(Nanos(5), &mut out).expect("nothing to do");
        assert!(tracker.probe().armed.is_empty(), "no process is watched");
        tracker.watch(&[SpaceId(1), SpaceId(2)]).expect("fine");
        tracker.poll(Nanos(5), &mut out).expect("arms");
        assert_eq!(tracker.probe().armed, [1, 2]);
        let due = tracker.next_due();
        assert!(due >= Nanos::from_millis(60));
        tracker.poll(due.saturating_sub(Nanos(1)), &mut out).expect("not due");
        assert_eq!(tracker.stats().windows, 0);
        tracker.poll(due, &mut out).expect("reads");
        let stats = tracker.stats();
        assert_eq!((stats.windows, stats.present, stats.accessed), (1, 10, 3));
        assert_eq!(out.watched, stats.watched);
        assert!(tracker.next_due() >= due + Nanos::from_millis(20));
        tracker.poll(tracker.next_due(), &mut out).expect("arms again");
        assert_eq!(tracker.probe().armed, [1, 2, 1, 2]);
    }

    /// By hand: 400 MB in base pages, at 40 ms, beside 400 MB in huge pages, at 2 ms.
    #[test]
    fn a_process_in_base_pages_is_watched_as_often_as_one_in_huge_pages() {
        let base = ReadCounts { present: 102_400, ..ReadCounts::default() };
        let huge = ReadCounts { huge_present: 102_400, ..base };
        assert_eq!((base.entries(), huge.entries()), (102_400, 200));
        let (cost, entries) = (Nanos::from_millis(40), base.entries());
        let watched = Watched { cost, entries, ..Watched::new(()) };
        assert_eq!(watched.excess(Nanos::from_millis(42), entries + huge.entries()), Nanos::ZERO);
    }

    /// By hand: 90 pages at 1 ms, beside 300 at 3 ms; a tenth as much is not sparse, or not costly.
    #[test]
    fn a_process_whose_pages_are_far_apart_costs_no_more_than_the_others() {
        let ms = Nanos::from_millis;
        let watched = |cost, entries| Watched { cost, entries, ..Watched::new(()) };
        let mut far = watched(ms(90), 90);
        assert_eq!(far.excess(ms(93), 390), ms(87));
        assert_eq!(watched(ms(90), 9_000).excess(ms(93), 9_300), Nanos::ZERO);
        assert_eq!(watched(ms(15), 90).excess(ms(18), 390), Nanos::ZERO);
        assert_eq!(far.excess(ms(90), 90), Nanos::ZERO, "alone");
        let rests = |far: &mut Watched<()>| {
            far.rest(ms(93), 390);
            far.is_resting
        };
        assert_eq!((0..60).filter(|_| !rests(&mut far)).count(), 2, "in 1 of 30 scans");
    }

    #[test]
    fn a_process_that_is_skipped_makes_no_other_look_expensive() {
        let probe = Sparse { skips: true, ..Sparse::default() };
        let mut tracker = Windowed::with(probe, Bytes::from_base_pages(1_000), apart());
        tracker.watch(&[SpaceId(1), SpaceId(2)]).expect("fine");
        while tracker.stats().windows < 6 {
            tracker.poll(tracker.next_due(), &mut Observations::default()).expect("works");
        }
        assert_eq!(tracker.probe().armed, [1, 2].repeat(6));
    }

    /// One process has a thousandth of the pages, and takes 30 ms to arm.
    #[test]
    fn a_process_whose_pages_are_far_apart_delays_no_other() {
        let (mut tracker, mut out) = (
            Windowed::with(Sparse::default(), Bytes::from_base_pages(1_000), apart()),
            Observations::default(),
        );
        tracker.watch(&[SpaceId(1), SpaceId(2)]).expect("fine");
        while tracker.stats().windows < 8 {
            tracker.poll(tracker.next_due(), &mut out).expect("works");
        }
        assert_eq!(tracker.probe().armed[..2], [1, 2]);
        let others = tracker.probe().armed.iter().filter(|pid| **pid == 1).count();
        assert!((8..=9).contains(&others) && tracker.probe().armed.len() == others + 1);
        assert!(tracker.pace.credit() > 0.9, "{}", tracker.pace.credit());
        assert!(!tracker.pace.grows());
    }

    /// Each process takes longer to arm than a window lasts, so each is a part of the scan.
    #[test]
    fn large_processes_are_watched_one_after_the_other() {
        let ms = Nanos::from_millis;
        let settings = WindowSettings { window: ms(2), shortest: ms(2), ..apart() };
        let probe = Fake { arming: Duration::from_millis(3), ..Fake::default() };
        let mut tracker = Windowed::with(probe, Bytes::from_base_pages(8), settings);
        let mut out = Observations::default();
        tracker.watch(&[SpaceId(1), SpaceId(3), SpaceId(4)]).expect("fine");
        tracker.poll(tracker.next_due(), &mut out).expect("a part");
        assert_eq!((tracker.probe().armed.len(), tracker.stats().windows), (1, 0));
        let due = tracker.next_due();
        tracker.set_attention(Attention::Alert);
        assert_eq!(tracker.next_due(), due, "an alarm does not delay the next part");
        tracker.watch(&[SpaceId(1), SpaceId(4)]).expect("one has ended");
        tracker.poll(due, &mut out).expect("the other part");
        assert_eq!(tracker.probe().armed, [1, 4]);
        let stats = tracker.stats();
        assert_eq!((stats.windows, stats.present, stats.accessed), (1, 20, 6));
        assert_eq!(out.watched, stats.watched);
    }

    /// All huge pages are accessed in the window of base pages, and in a first brief one of 2 ms.
    #[test]
    fn huge_pages_are_watched_in_ever_briefer_windows_until_few_are_accessed() {
        let settings = WindowSettings { huge_window: Nanos::from_millis(2), ..apart() };
        let fast = Bytes::from_base_pages(2048);
        let probe = Fake { huge: true, ..Fake::default() };
        let mut tracker = Windowed::with(probe, fast, settings);
        let mut out = Observations::default();
        tracker.watch(&[SpaceId(1)]).expect("fine");
        while tracker.stats().windows == 0 {
            tracker.poll(tracker.next_due(), &mut out).expect("works");
        }
        let windows = [Nanos::from_millis(2), Nanos(250_000)];
        assert_eq!(tracker.probe().windows, windows.map(Some));
        assert_eq!((out.samples.len(), out.huge_window), (1, Some(windows[1])));
        assert_eq!(tracker.stats().accessed, 3 + 512);
    }

    /// Of 16 huge pages none is accessed in this many windows; then one of four is.
    #[test]
    fn huge_pages_of_a_program_that_did_not_run_are_watched_again() {
        let windows_and_hits = |stands_still| {
            let settings = WindowSettings { huge_window: Nanos(500_000), ..apart() };
            let probe = Fake { huge: true, stands_still, ..Fake::default() };
            let mut tracker = Windowed::with(probe, Bytes::from_base_pages(2048), settings);
            let mut out = Observations::default();
            tracker.watch(&[SpaceId(1)]).expect("fine");
            while tracker.stats().windows == 0 {
                tracker.poll(tracker.next_due(), &mut out).expect("works");
            }
            (tracker.probe().windows.len(), out.samples.len())
        };
        assert_eq!(windows_and_hits(0), (1, 1));
        assert_eq!(windows_and_hits(2), (3, 1));
        assert_eq!(windows_and_hits(9), (4, 0), "they may be idle");
    }

    #[test]
    fn a_policy_that_counts_hits_gets_more_scans_at_a_constant_rate() {
        let mut tracker = Windowed::with(Fake::default(), Bytes::from_base_pages(8), apart());
        let before = tracker.pace.settings;
        tracker.reconfigure(Tracking::TrueRates).expect("fine");
        assert_eq!(tracker.pace.settings, before);
        let samples = Tracking::Samples { loads: 199, stores: None, cpu_permille: None };
        tracker.reconfigure(samples).expect("fine");
        assert!(tracker.pace.settings.budget_alert > before.budget_alert);
        assert_eq!(tracker.pace.settings.kept, Nanos::ZERO, "at a constant rate");
        assert_eq!(tracker.pace.settings.credit, before.credit.saturating_sub(before.kept));
    }

    /// A window of 800 ms, of which a sample is read after 100, 200 and 400 ms.
    #[test]
    fn a_window_ends_once_a_sample_shows_enough_accesses() {
        let window = Nanos::from_millis(800);
        let settings = WindowSettings { window, ..WindowSettings::default() };
        let at = |ms| Nanos::from_millis(ms);
        let mut tracker =
            Windowed::with(Peeking::default(), Bytes::from_base_pages(1_000), settings);
        let mut out = Observations::default();
        tracker.watch(&[SpaceId(1)]).expect("fine");
        tracker.poll(at(0), &mut out).expect("arms");
        let opened = tracker.opened_at;
        assert_eq!(tracker.next_due(), opened + at(100));
        tracker.probe().accessed = 100;
        tracker.poll(opened + at(100), &mut out).expect("reads the sample");
        assert_eq!((tracker.stats().windows, tracker.next_due()), (0, opened + at(200)));
        tracker.probe().accessed = 300;
        tracker.poll(opened + at(200), &mut out).expect("reads all");
        assert_eq!(tracker.stats().windows, 1);
        assert!(tracker.stats().window <= at(110), "200 ms were too long: {:?}", tracker.stats());
    }

    /// Grows by 100 pages between two readings, or not.
    #[test]
    fn the_next_window_opens_as_soon_as_memory_is_filled() {
        let at = |ms| Nanos::from_millis(ms);
        let mut tracker =
            Windowed::with(Peeking::default(), Bytes::from_base_pages(1_000), apart());
        let mut out = Observations::default();
        tracker.watch(&[SpaceId(1)]).expect("fine");
        tracker.probe().growth = 100;
        while tracker.stats().windows == 0 {
            tracker.poll(tracker.next_due(), &mut out).expect("works");
        }
        // A budget that was spent must not delay it.
        tracker.affordable_at = tracker.closed_at + at(5_000);
        tracker.rest(tracker.closed_at);
        for _ in 0..3 {
            let due = tracker.next_due();
            tracker.poll(due, &mut out).expect("checks");
            assert_eq!((tracker.stats().windows, tracker.next_due()), (1, due + GROWTH_EVERY));
        }
        tracker.probe().growth = 0;
        let due = tracker.next_due();
        tracker.poll(due, &mut out).expect("checks");
        assert_eq!((tracker.step, tracker.next_due()), (Step::Arm, due));
    }

    #[test]
    fn a_calm_scan_is_reported_with_a_second_look_at_the_pages_that_it_hit() {
        let window = Nanos::from_millis(80);
        let settings = WindowSettings { window, ..WindowSettings::default() };
        let looked_twice = |attention| {
            let mut tracker =
                Windowed::with(Peeking::default(), Bytes::from_base_pages(1_000), settings);
            tracker.probe().accessed = 10;
            tracker.watch(&[SpaceId(1)]).expect("fine");
            tracker.set_attention(attention);
            let (mut out, mut looks) = (Observations::default(), 0);
            while out.watched == Nanos::ZERO {
                assert!(out.samples.is_empty(), "the scan and the second look are one report");
                let due = tracker.next_due();
                let start = Instant::now();
                while nanos(start.elapsed()) < due.min(window) {}
                looks += u32::from(tracker.step == Step::SecondLook);
                tracker.poll(due, &mut out).expect("a step");
            }
            (looks, out.samples.iter().map(|sample| sample.hits).collect::<Vec<_>>())
        };
        // A second look during which the machine stood still shows nothing.
        assert!((0..5).any(|_| looked_twice(Attention::Calm) == (1, vec![1.0])));
        assert_eq!(looked_twice(Attention::Alert), (0, vec![]));
    }

    /// Pages that are accessed a few times a second show nothing in a shorter one.
    #[test]
    fn a_quick_scan_has_the_window_of_a_scan() {
        let window = Nanos::from_millis(400);
        let settings = WindowSettings { window, ..WindowSettings::default() };
        let mut tracker =
            Windowed::with(Peeking::default(), Bytes::from_base_pages(1_000), settings);
        let mut out = Observations::default();
        tracker.watch(&[SpaceId(1)]).expect("fine");
        tracker.set_attention(Attention::Calm);
        tracker.stats.pause = Nanos::from_secs(100);
        tracker.affordable_at = tracker.stats.pause;
        tracker.rest(Nanos::ZERO);
        assert_eq!(tracker.next_due(), QUICK_SCAN_EVERY.saturating_sub(window));
        let due = tracker.next_due();
        tracker.poll(due, &mut out).expect("arms");
        assert!(out.slow_hits_sampled.is_none() && tracker.next_due() >= due + window);
        tracker.poll(tracker.next_due(), &mut out).expect("reads");
        let hits = out.slow_hits_sampled.map(|sampled| sampled.hits);
        assert_eq!((hits, tracker.step), (Some(7.0), Step::QuickScan));
    }

    /// The kernel splits a huge page of which it is given base pages: a sample of them is costly once.
    #[test]
    fn one_costly_quick_scan_does_not_delay_the_next() {
        let mut tracker = Windowed::with(
            Peeking::default(),
            Bytes::from_base_pages(1_000),
            WindowSettings::default(),
        );
        tracker.watch(&[SpaceId(1)]).expect("fine");
        tracker.set_attention(Attention::Calm);
        tracker.affordable_at = Nanos::from_secs(100);
        let mut next = |costs_ms: [u64; 2]| {
            tracker.quick_costs = costs_ms.map(Nanos::from_millis);
            tracker.rest(Nanos::ZERO);
            tracker.next_due() + tracker.pace.quick_window()
        };
        assert_eq!(next([1, 100]), QUICK_SCAN_EVERY);
        assert_eq!(next([100, 100]), Nanos::from_secs(10), "a hundredth of a CPU");
    }

    #[test]
    fn a_new_process_ends_a_pause_on_credit() {
        let mut tracker = Windowed::with(Fake::default(), Bytes::from_base_pages(8), apart());
        tracker.closed_at = Nanos::from_secs(1);
        let mut due_after = |spaces: &[SpaceId], credit| {
            tracker.set_attention(Attention::Calm);
            tracker.affordable_at = Nanos::from_secs(100);
            tracker.reschedule();
            tracker.pace.set_credit(credit);
            tracker.watch(spaces).expect("fine");
            (tracker.step == Step::Arm).then(|| tracker.next_due())
        };
        let soon = Some(Nanos::from_millis(1_250));
        assert_eq!(due_after(&[SpaceId(1)], 1.0), soon);
        assert_eq!(due_after(&[SpaceId(1)], 1.0), None, "not new");
        assert_eq!(due_after(&[SpaceId(1), SpaceId(3)], 0.5), None, "kept for a change");
        assert_eq!(due_after(&[SpaceId(1), SpaceId(4)], 1.0), soon);
    }

    #[test]
    fn a_large_new_mapping_ends_a_pause_on_credit() {
        let mut tracker = Windowed::with(Fake::default(), Bytes::from_base_pages(8), apart());
        tracker.closed_at = Nanos::from_secs(1);
        tracker.stats.present = 1_600;
        let mut ends = |base_pages, credit| {
            tracker.affordable_at = Nanos::from_secs(100);
            tracker.pace.set_credit(credit);
            let (start, size, kind) = (Vpn(512), PageSize::Base, PageKind::default());
            tracker.report_again(&Region { space: SpaceId(1), start, base_pages, size, kind });
            tracker.affordable_at == Nanos::ZERO
        };
        assert!(!ends(100, 1.0) && ends(101, 1.0));
        assert!(!ends(101, 0.5), "kept for a change");
    }

    /// A new process before every scan: each second pause is kept.
    #[test]
    fn a_program_that_forks_again_and_again_does_not_spend_the_credit() {
        let mut tracker = Windowed::with(Fake::default(), Bytes::from_base_pages(8), apart());
        let mut out = Observations::default();
        let kept = (1..=8).map(|child| {
            tracker.watch(&[SpaceId(10 + child)]).expect("fine");
            let keeps = tracker.affordable_at > Nanos::ZERO;
            let scans = tracker.stats().windows;
            while tracker.stats().windows == scans {
                tracker.poll(tracker.next_due(), &mut out).expect("works");
            }
            tracker.affordable_at = tracker.closed_at + Nanos::from_secs(1);
            tracker.pace.set_credit(1.0);
            keeps
        });
        assert_eq!(kept.collect::<Vec<_>>()[1..], [false, true, false, true, false, true, false]);
    }

    #[test]
    fn an_alarm_ends_a_pause() {
        let mut tracker = Windowed::with(Fake::default(), Bytes::from_base_pages(8), apart());
        for before in [Attention::Calm, Attention::Suspicious] {
            tracker.set_attention(before);
            tracker.affordable_at = Nanos::from_secs(100);
            tracker.set_attention(Attention::Alert);
            assert!(tracker.next_due() < Nanos::from_secs(1), "{before:?}");
        }
    }

    /// The machine stood still twice.
    #[test]
    fn a_discarded_scan_is_repeated_at_once_but_not_again() {
        let mut tracker = Windowed::with(Fake::default(), Bytes::from_base_pages(8), apart());
        let mut out = Observations::default();
        tracker.watch(&[SpaceId(1)]).expect("fine");
        tracker.set_attention(Attention::Moving);
        let mut pauses = Vec::new();
        for _ in 0..3 {
            tracker.poll(tracker.next_due(), &mut out).expect("arms");
            if let Some(armed) = tracker.armed_at.filter(|_| pauses.len() < 2) {
                tracker.armed_at = armed.checked_sub(Duration::from_secs(1));
            }
            tracker.poll(tracker.next_due(), &mut out).expect("reads");
            pauses.push(tracker.next_due().saturating_sub(tracker.closed_at));
        }
        let usual = tracker.pace.settings.pause_moving;
        assert!(pauses[0] == Nanos::ZERO && pauses[1..].iter().all(|&p| p >= usual), "{pauses:?}");
        assert_eq!((tracker.stats().windows, out.watched), (3, tracker.stats().watched));
    }

    /// On one CPU, reading a sample takes most of a window of 1 ms, which finds one page in a hundred.
    #[test]
    fn a_window_that_is_short_for_the_own_work_becomes_longer() {
        let window = Nanos::from_millis(1);
        let settings = WindowSettings { window, ..WindowSettings::default() };
        let peeking = Peeking { accessed: 10, busy: window * 2, ..Peeking::default() };
        let mut tracker = Windowed::with(peeking, Bytes::from_base_pages(1_000), settings);
        tracker.one_cpu = true;
        tracker.watch(&[SpaceId(1)]).expect("fine");
        let mut out = Observations::default();
        while tracker.stats().windows == 0 {
            tracker.poll(tracker.next_due(), &mut out).expect("works");
        }
        assert!(tracker.stats().window > window, "{:?}", tracker.stats());
    }

    /// Finds 200 pages, then next to none twice: the program stood still, then it is idle.
    #[test]
    fn a_window_of_a_program_that_stood_still_is_repeated_at_once_but_not_again() {
        let mut tracker =
            Windowed::with(Peeking::default(), Bytes::from_base_pages(1_000), apart());
        tracker.watch(&[SpaceId(1)]).expect("fine");
        let mut look = |accessed| {
            let mut out = Observations::default();
            tracker.probe().accessed = accessed;
            let until = tracker.stats().windows + 1;
            while tracker.stats().windows < until {
                tracker.poll(tracker.next_due(), &mut out).expect("works");
            }
            let waits = tracker.next_due() > tracker.closed_at;
            (out.watched > Nanos::ZERO, waits)
        };
        let counts = (true, true);
        assert_eq!([look(200), look(200), look(10)], [counts, counts, (false, false)]);
        assert_eq!([look(10), look(10)], [counts, counts]);
    }

    #[test]
    fn a_prolonged_window_is_discarded() {
        let asked = Nanos::from_millis(80);
        assert!(!is_drawn_out(Duration::from_millis(200), asked));
        assert!(is_drawn_out(Duration::from_millis(220), asked));
        assert!(!is_drawn_out(Duration::from_millis(45), Nanos::from_millis(1)), "slept too long");
    }

    #[test]
    fn a_process_that_has_ended_is_no_error() {
        let gone = |code| Error::Call {
            call: "x".into(),
            source: std::io::Error::from_raw_os_error(code),
        };
        assert!(matches!(unless_gone(Err(gone(libc::ESRCH))), Ok(false)));
        assert!(unless_gone(Err(gone(libc::EPERM))).is_err());
    }
}
