// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::tracker::access_bits::HugeBatch;
use crate::tracker::window::tests::apart;
use tierline_core::port::{PageKind, PageSize, Sample, SampledHits, Vpn};
use tierline_core::unit::BASE_PER_HUGE;

/// Reports ten base pages, three accessed; process 2 has ended.
#[derive(Default)]
struct Fake {
    armed: Vec<u32>,
    /// Huge pages: four, of which all are accessed in more than a millisecond, and one in less.
    huge: bool,
    /// So many windows of huge pages show no access.
    stands_still: usize,
    /// The last window was one of them.
    missed: bool,
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
        self.missed = self.stands_still > 0;
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
    fn watch_missed(&mut self, (): &mut ()) -> bool {
        self.taken = !std::mem::take(&mut self.missed);
        !self.taken
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
    let mut tracker = Windowed::with(Peeking::default(), Bytes::from_base_pages(1_000), settings);
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
    let mut tracker = Windowed::with(Peeking::default(), Bytes::from_base_pages(1_000), apart());
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
    let mut tracker = Windowed::with(Peeking::default(), Bytes::from_base_pages(1_000), settings);
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
    let mut tracker = Windowed::with(Peeking::default(), Bytes::from_base_pages(1_000), apart());
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
    let gone =
        |code| Error::Call { call: "x".into(), source: std::io::Error::from_raw_os_error(code) };
    assert!(matches!(unless_gone(Err(gone(libc::ESRCH))), Ok(false)));
    assert!(unless_gone(Err(gone(libc::EPERM))).is_err());
}
