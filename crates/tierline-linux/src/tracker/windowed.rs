// SPDX-License-Identifier: Apache-2.0
//! The steps of all trackers that arm, wait and read. Their differences are in an [`AccessBits`].

mod scan;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tierline_core::port::{
    Attention, Observations, PageAddress, Region, SlowFound, SpaceId, Spread, Tracking,
};
use tierline_core::unit::{Bytes, Nanos};

use self::scan::Scan;
use self::watched::{Watched, sum};
use crate::error::{Error, Result};
use crate::process::held::{self, ended, file_error};
use crate::root::Root;
use crate::tracker::Tracker;
use crate::tracker::access_bits::{AccessBits, ReadCounts};
use crate::tracker::cost::{Cost, CostMeter, RaisedPriority, thread_cpu};
use crate::tracker::last_scan::Repeated;
use crate::tracker::moment::Moment;
use crate::tracker::window::{WindowPace, WindowSettings, WindowStats, are_alike, has_one_cpu};

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

/// Huge pages of a program that did not run, as others had the CPU, are watched again after this time, and this often. Ours.
const WATCHED_AGAIN_AFTER: Nanos = Nanos::from_millis(3);
const WATCHED_AGAIN: u32 = 3;

/// The longest that batches of huge pages are watched in one step.
const AT_ONCE: Duration = Duration::from_millis(20);

/// True for a window that took far longer than requested, because the manager moved pages meanwhile or the
/// machine stood still: with a long window warm pages look hot. Ours.
fn is_drawn_out(waited: Duration, asked: Nanos) -> bool {
    nanos(waited) > asked * 2 + IN_PLACE
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
        if window.is_some() && self.scan.watched_again < WATCHED_AGAIN && self.watch_missed() {
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

    /// Goes on with huge pages whose programs did not run as they were watched. `false` if there are none.
    fn watch_missed(&mut self) -> bool {
        let Self { probe, spaces, .. } = self;
        spaces.values_mut().fold(false, |any, own| probe.watch_missed(&mut own.kept) | any)
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
        self.scan.forget_huge(split, &mut self.found);
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

    fn record_processing(&mut self, cpu: Nanos) {
        self.pace.record_processing(cpu);
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
mod tests;
