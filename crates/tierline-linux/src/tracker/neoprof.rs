// SPDX-License-Identifier: Apache-2.0
//! NeoProf: the memory device counts its accesses itself, and reports the hot pages.
//!
//! **What it does.** A unit in the slow memory's device (`hardware/neoprof`) counts every access that reaches it by
//! page, and reports a page once it was accessed more often than a threshold since the counters were last cleared.
//! The tracker reads the reported pages every 10 ms, from NeoMem's registers (`neoprof`) or from the hotlist of a CXL
//! hotness monitoring unit (`chmu`), and finds their owners. It clears the counters every 2 s, and sets the threshold
//! so that few of them exceed it; the time from a clearing to the report gives the page's rate (`neoprof::rates`).
//! A policy may set the intervals and the threshold. It also gets the unit's histogram and its state monitor.
//!
//! **When it helps.** Every access counts, reads and writes, behind all caches, and costs the program nothing: no
//! faults, no flushes.
//!
//! **When it hurts.** It requires such a device. Only the slow tier is observed: a promoted page gives no more samples.
//! The owner of a frame must be read from page tables (`owners.rs`), once for all memory of the programs, and again
//! after pages moved unnoticed; a frame without an owner among them (the kernel's, another program's) costs at most
//! one such reading a minute. A huge page is observed as its base pages, whose accesses add up.
//!
//! **Knobs.** [`NeoProfSettings`]; a policy may set threshold and intervals ([`Tracking::Counters`]).
//!
//! **Where it comes from.** NeoMem (MICRO 2024), Section IV and table V. The device's pages are assumed to be its
//! node's frames in order, without interleaving; the paper does not say.

mod owners;
mod place;

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;
use tierline_core::port::{Attention, DeviceCounts, Observations, Sample, SpaceId, Tracking};
use tierline_core::tier::{TierId, Tiers};
use tierline_core::unit::{BASE_PER_HUGE, Nanos};

use ::neoprof::driver::{Registers, Source};
use ::neoprof::histogram::bin_start;
use ::neoprof::rates::{self, Reading};
use ::neoprof::{Driver, Histogram};

use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::nodes::Nodes;
use crate::root::Root;
use crate::tracker::Tracker;
use crate::tracker::entry::{Setup, TrackerEntry};
use crate::tracker::needs::{Requirement, writable};
use owners::Owners;
use place::RegisterWindow;
pub use place::{DeviceLocation, find};

/// The tracker in the list, with NeoMem's own registers.
pub const NEOPROF: TrackerEntry = TrackerEntry {
    name: "neoprof",
    sees: "every access that reaches slow memory, counted by its device (NeoMem's unit)",
    costs: "no faults; a register read for each hot page",
    samples: false,
    needs,
    open: |at| open_for(at, Source::Fifo),
};
/// The same with a hotlist.
pub const CHMU: TrackerEntry = TrackerEntry {
    name: "chmu",
    sees: "the same, by the hotlist of a CXL hotness monitoring unit (after drafts of drivers)",
    costs: "no faults; a register read for each hot page",
    samples: false,
    needs,
    open: |at| open_for(at, Source::Hotlist),
};

fn needs(root: &Root) -> Vec<Requirement> {
    let device = find(root);
    let window = device.as_ref().map(|place| format!("/sys/bus/pci/devices/{place}/resource0"));
    vec![
        (
            device.is_some(),
            "a memory device with NeoProf, PCI 1234:4e50 (--neoprof if its ids are others)",
        ),
        (
            window.is_none_or(|path| writable(root, path)),
            "the right to map its registers (root, no lockdown)",
        ),
    ]
}

fn open_for(at: &Setup<'_>, source: Source) -> Result<Box<dyn Tracker>> {
    let settings = NeoProfSettings { source, place: at.neoprof.cloned() };
    Ok(Box::new(open(at.root, at.journal, at.tiers, &settings)?))
}

/// How it is watched by default: reported pages are read as often as in NeoMem (table V).
const WATCH: Tracking = Tracking::Counters {
    threshold: rates::LEAST,
    read: Nanos::from_millis(10),
    update: Nanos(rates::INTERVAL_NS),
    clear: Nanos(rates::INTERVAL_NS),
};
/// Reported pages read at once: a register across the bus takes a microsecond, in an emulator fifteen (ours).
const READ: usize = 4096;
/// Samples reported at once: what one tick can surely move, as a page is reported once (ours).
const GIVEN: usize = 512;
const _: () = assert!(GIVEN as u64 == BASE_PER_HUGE);
/// Pages of the programs' memory that are walked for each unknown frame, and in one poll at most (ours): a
/// millisecond on silicon.
const WALK: u64 = 4096;
const WALK_MOST: u64 = 8 * WALK;
/// Time for which a frame without an owner is not searched again (ours).
const NOBODYS: Nanos = Nanos::from_secs(60);

/// How to read the unit.
#[derive(Clone, Debug)]
pub struct NeoProfSettings {
    /// The list from which reported pages are read.
    pub source: Source,
    /// The location of the registers; `None`: the first PCI device with the unit's ids.
    pub place: Option<DeviceLocation>,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NeoProfCounts {
    /// Pages that the device reported.
    pub reported: u64,
    /// Of them, pages of the watched programs.
    pub found: u64,
    /// Of them, frames without an owner among the watched programs.
    pub without_owner: u64,
    /// Registers read.
    pub register_reads: u64,
}

/// A reported frame whose owner is being searched.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    frame: u64,
    hits: f32,
    /// If it is not found when this many rounds have begun, it has no owner.
    until: u64,
}

/// The intervals of the unit's service, and when it was last served.
#[derive(Clone, Copy, Debug, Default)]
struct ServiceTimes {
    threshold: u32,
    /// True if the threshold follows the counters, as the policy does not set it.
    adaptive: bool,
    read: Nanos,
    update: Nanos,
    clear: Nanos,
    polled: Nanos,
    updated: Nanos,
    /// `None`: not since the first process is watched.
    cleared: Option<Nanos>,
}

/// The tracker.
pub struct NeoProf<R: Registers = RegisterWindow> {
    name: &'static str,
    driver: Driver<R>,
    owners: Owners,
    /// The frame of the device's page 0, and the tier of all its pages.
    first: u64,
    tier: TierId,
    pace: ServiceTimes,
    watching: bool,
    /// The time of the last reading since the clearing.
    reading: Reading,
    utilisation: f64,
    asked: bool,
    counted: Option<DeviceCounts>,
    names: Vec<u32>,
    waiting: Vec<Waiting>,
    nobodys: FxHashMap<u64, Nanos>,
    counts: NeoProfCounts,
    due: Nanos,
}

/// Opens the unit of the slow memory.
///
/// # Errors
/// `Error::Missing` if there is none, or no single node that it could belong to; `Error::File` or `Error::Call` if
/// its registers are not accessible.
pub fn open(
    root: &Root,
    journal: &Journal,
    tiers: &Tiers,
    settings: &NeoProfSettings,
) -> Result<NeoProf> {
    let place = settings.place.clone().or_else(|| find(root)).ok_or_else(no_device)?;
    let window = RegisterWindow::open(root, journal, &place)?;
    NeoProf::new(root, tiers, window, settings.source).map_err(|error| with_place(error, &place))
}

fn no_device() -> Error {
    let (vendor, device) = ::neoprof::driver::PCI_ID;
    Error::Missing {
        what: "NeoProf".into(),
        why: format!("no PCI device {vendor:04x}:{device:04x}"),
        hint: "it needs a memory device with that unit; give `--neoprof` the place of its registers if its ids are \
               others; else try --tracker hint_faults"
            .into(),
    }
}

fn with_place(error: Error, place: &DeviceLocation) -> Error {
    match error {
        Error::Missing { what, why, hint } => {
            Error::Missing { what: format!("{what} at {place}"), why, hint }
        }
        error => error,
    }
}

impl<R: Registers> NeoProf<R> {
    /// A tracker with these registers, which counts the accesses of the slowest tier's one node.
    ///
    /// # Errors
    /// `Error::Missing` if these are not such registers, or if that tier is the only one or has several nodes.
    pub fn new(root: &Root, tiers: &Tiers, registers: R, source: Source) -> Result<Self> {
        let missing = |why: String, hint: &str| Error::Missing {
            what: "NeoProf".into(),
            why,
            hint: hint.into(),
        };
        let tier = tiers.slowest();
        if tier == TierId::FAST {
            return Err(missing(
                "there is no tier below the fastest".into(),
                "`tierline topology` lists the tiers",
            ));
        }
        let nodes = tiers.0.get(tier.index()).map_or(&[][..], |tier| &tier.nodes);
        let [node] = nodes else {
            return Err(missing(
                format!(
                    "the slowest tier has {} nodes, and it is not known which of them the unit counts",
                    nodes.len()
                ),
                "name the tiers so that the slowest has one node: --tiers",
            ));
        };
        let frames = Nodes::read(root)?.span(*node).ok_or_else(|| {
            missing(format!("node {} has no memory", node.0), "`tierline topology` lists the nodes")
        })?;
        let driver = Driver::new(registers, source)
            .map_err(|error| missing(error.to_string(), "`--neoprof` sets their place"))?;
        let name = match source {
            Source::Fifo => NEOPROF.name,
            Source::Hotlist => CHMU.name,
        };
        let mut tracker = Self {
            name,
            driver,
            owners: Owners::new(root, frames.clone()),
            first: frames.start,
            tier,
            pace: ServiceTimes::default(),
            watching: false,
            reading: Reading::default(),
            utilisation: 0.0,
            asked: false,
            counted: None,
            names: Vec::new(),
            waiting: Vec::new(),
            nobodys: FxHashMap::default(),
            counts: NeoProfCounts::default(),
            due: Nanos::ZERO,
        };
        tracker.reconfigure(WATCH)?;
        tracker.pace.adaptive = true;
        Ok(tracker)
    }

    /// Counts since the start.
    pub fn counts(&self) -> NeoProfCounts {
        NeoProfCounts { register_reads: self.driver.reads(), ..self.counts }
    }

    /// Bytes of the table of frames.
    pub fn footprint(&self) -> usize {
        self.owners.footprint()
    }

    fn clear(&mut self, now: Nanos) {
        self.driver.clear();
        (self.pace.cleared, self.reading) = (Some(now), Reading::default());
        self.nobodys.retain(|_, since| now < *since + NOBODYS);
    }

    /// Reads reported pages from the device, unless as many are waiting here as it can store itself. Each gets `hits`
    /// hits; `None`: they are dropped.
    fn read_names(&mut self, hits: Option<f32>) {
        if self.waiting.len() >= 4 * READ {
            return;
        }
        self.names.clear();
        self.driver.hot_pages(READ, &mut self.names);
        self.counts.reported += self.names.len() as u64;
        let Some(hits) = hits else { return };
        let until = self.owners.passes() + 2;
        let waiting = |page: &u32| Waiting { frame: self.first + u64::from(*page), hits, until };
        self.waiting.extend(self.names.iter().map(waiting));
    }

    /// The hits of a page that was reported at some time since the last reading. By default they are those of the
    /// whole interval; `None` if they cannot be computed.
    #[expect(clippy::cast_precision_loss, reason = "a threshold of 16 bits")]
    fn hits(&self, now: Reading) -> Option<f32> {
        let count = self.pace.threshold.saturating_add(1);
        if !self.pace.adaptive {
            return Some(count as f32);
        }
        rates::in_interval(count, self.driver.width(), self.reading, now)
    }

    /// Reports pages with known owners, after walking a little further for the others.
    fn deliver(&mut self, now: Nanos, out: &mut Observations) {
        let unknown = self.give_out(now, GIVEN, out);
        if unknown > 0 {
            let given = out.samples.len();
            self.owners.walk((unknown * WALK).min(WALK_MOST));
            self.give_out(now, GIVEN.saturating_sub(given), out);
        }
    }

    /// Reports at most `most` pages, oldest first; returns the number of pages whose owner is still unknown.
    fn give_out(&mut self, now: Nanos, most: usize, out: &mut Observations) -> u64 {
        let Self { owners, waiting, nobodys, counts, tier, .. } = self;
        let (mut given, mut unknown) = (0, 0);
        waiting.retain(|one| {
            if given == most {
                return true;
            }
            if let Some((space, vpn)) = owners.page_of(one.frame) {
                out.samples.push(Sample {
                    space,
                    vpn,
                    base_pages: 1,
                    hits: one.hits,
                    exposure: None,
                    tier: Some(*tier),
                    write: None,
                });
                (given, counts.found) = (given + 1, counts.found + 1);
                return false;
            }
            if let Entry::Vacant(entry) = nobodys.entry(one.frame) {
                if owners.passes() < one.until {
                    unknown += 1;
                    return true;
                }
                entry.insert(now);
            }
            counts.without_owner += 1;
            false
        });
        unknown
    }

    /// Requests telemetry when it is due, and reads it when it is ready.
    fn update(&mut self, now: Nanos) {
        if now >= self.pace.updated + self.pace.update {
            self.pace.updated = now;
            self.utilisation = self.driver.state().utilisation().unwrap_or(0.0);
            self.driver.request_histogram();
            self.asked = true;
        }
        if self.asked
            && let Some(histogram) = self.driver.histogram()
        {
            self.asked = false;
            self.counted = Some(self.device_counts(&histogram));
            if self.pace.adaptive {
                self.pace.threshold = rates::threshold(&histogram);
                self.driver.set_threshold(self.pace.threshold);
            }
        }
    }

    fn device_counts(&self, histogram: &Histogram) -> DeviceCounts {
        DeviceCounts {
            histogram: (0..).map(bin_start).zip(histogram.bins).collect(),
            error_bound: self.driver.error_bound(histogram),
            utilisation: self.utilisation,
        }
    }

    /// Accesses a second since the last reading.
    fn rate(&mut self, now: Nanos, reading: Reading) -> Option<f64> {
        let last = std::mem::replace(&mut self.reading, reading);
        let more = reading.accesses.wrapping_sub(last.accesses);
        let passed = now.saturating_sub(std::mem::replace(&mut self.pace.polled, now));
        (passed > Nanos::ZERO).then(|| f64::from(more) / passed.as_secs_f64())
    }
}

impl<R: Registers> Tracker for NeoProf<R> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn watch(&mut self, spaces: &[SpaceId]) -> Result<()> {
        self.owners.watch(spaces);
        if self.watching && spaces.is_empty() {
            self.driver.silence();
            self.waiting.clear();
            self.pace.cleared = None;
        }
        self.watching = !spaces.is_empty();
        Ok(())
    }

    fn poll(&mut self, now: Nanos, out: &mut Observations) -> Result<()> {
        self.due = now + self.pace.read;
        if !self.watching {
            return Ok(());
        }
        let Some(cleared) = self.pace.cleared else {
            self.driver.set_threshold(self.pace.threshold);
            self.clear(now);
            (self.pace.updated, self.pace.polled) = (now, now);
            return Ok(());
        };
        (out.remembered_time, out.report_interval) = (Some(self.pace.clear), Some(self.pace.clear));
        out.watched += now.saturating_sub(self.pace.polled);
        let ns = now.saturating_sub(cleared).0;
        let reading = Reading { ns, accesses: self.driver.accesses() };
        self.read_names(self.hits(reading));
        out.slow_hits_per_sec = self.rate(now, reading);
        self.deliver(now, out);
        self.update(now);
        // If the threshold follows the counters, they must be read before they are cleared.
        if now >= cleared + self.pace.clear && !(self.pace.adaptive && self.asked) {
            self.clear(now);
        }
        Ok(())
    }

    fn next_due(&self) -> Nanos {
        self.due
    }

    // Reading one register when nothing is hot costs the same at any attention.
    fn set_attention(&mut self, _attention: Attention) {}

    fn reconfigure(&mut self, watch: Tracking) -> Result<bool> {
        let Tracking::Counters { threshold, read, update, clear } = watch else { return Ok(false) };
        self.pace = ServiceTimes { threshold, adaptive: false, read, update, clear, ..self.pace };
        if self.pace.cleared.is_some() {
            self.driver.set_threshold(threshold);
        }
        Ok(true)
    }

    fn observes_fast_memory(&self) -> bool {
        false
    }

    fn take_device_counts(&mut self) -> Option<DeviceCounts> {
        self.counted.take()
    }
}

impl<R: Registers> Drop for NeoProf<R> {
    fn drop(&mut self) {
        self.driver.silence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pagemap::tests::{fake, tiers};
    use ::neoprof::{Config, NeoProf as Unit};
    use tierline_core::port::Vpn;

    const PRESENT: u64 = 1 << 63;
    const ME: SpaceId = SpaceId(7);
    /// The slow node's first frame in `fake`.
    const FIRST: u64 = 0x8000;

    fn unit() -> Unit {
        Unit::new(Config { width_log2: 10, sample_interval: 1, ..Config::default() })
    }

    /// A program with three pages, the second of them fast, watched for one poll.
    fn watching(source: Source) -> (tempfile::TempDir, NeoProf<Unit>) {
        let pages = [PRESENT | (FIRST + 9), PRESENT | 5, PRESENT | (FIRST + 300)];
        let (folder, root) = fake(&pages);
        let mut tracker = NeoProf::new(&root, &tiers(), unit(), source).expect("a unit");
        tracker.watch(&[ME]).expect("fine");
        tracker.poll(Nanos::from_secs(1), &mut Observations::default()).expect("begins");
        (folder, tracker)
    }

    fn accesses(tracker: &mut NeoProf<Unit>, page: u32, times: u32) {
        tracker.driver.registers().accesses(page, false, times);
    }

    #[test]
    fn a_hot_page_is_a_sample_with_its_rate() {
        for source in [Source::Fifo, Source::Hotlist] {
            let (_folder, mut tracker) = watching(source);
            accesses(&mut tracker, 300, 65);
            accesses(&mut tracker, 9, 64);
            let mut out = Observations::default();
            tracker.poll(tracker.next_due(), &mut out).expect("reads");
            let [sample] = out.samples[..] else { panic!("{:?}", out.samples) };
            assert_eq!((sample.space, sample.vpn, sample.tier), (ME, Vpn(4), Some(TierId(1))));
            // Reported after 5 ms on average; each of the 1024 counters then has its share of half of all accesses.
            // Scaled to 2 s.
            let hits = (65.0 - 64.0 / 1024.0) * 400.0;
            assert!((sample.hits / hits - 1.0).abs() < 1e-6, "{} hits, not {hits}", sample.hits);
            assert_eq!((sample.exposure, out.watched), (None, Nanos::from_millis(10)));
            assert_eq!(out.slow_hits_per_sec, Some(12_900.0), "129 accesses in 10 ms");
            assert_eq!(tracker.counts().found, 1);
        }
    }

    #[test]
    fn the_policy_sets_threshold_and_intervals() {
        let (_folder, mut tracker) = watching(Source::Fifo);
        let (read, update) = (Nanos::from_millis(20), Nanos::from_millis(50));
        let clear = Nanos::from_millis(100);
        tracker
            .reconfigure(Tracking::Counters { threshold: 2, read, update, clear })
            .expect("fine");
        let (mut named, mut reported) = (0, Vec::new());
        for _ in 0..20 {
            accesses(&mut tracker, 9, 1);
            let (mut out, now) = (Observations::default(), tracker.next_due());
            tracker.poll(now, &mut out).expect("reads");
            named += out.samples.len();
            reported.extend(tracker.take_device_counts());
        }
        // Polls after 10, 30 … 390 ms, clearings after 110, 210 and 310: the page is reported once before each, and
        // after the last. Telemetry after 50, 110, 170 … 350 ms.
        assert_eq!((named, reported.len()), (4, 6));
        let all: u32 = reported[0].histogram.iter().map(|(_, counters)| counters).sum();
        assert_eq!(
            (reported[0].histogram.len(), reported[0].histogram[1], all),
            (64, (1, 0), 1024)
        );
        assert!(reported[0].utilisation > 0.99, "no cycle passed without an access");
    }

    #[test]
    fn by_default_the_threshold_follows_the_counters() {
        let (_folder, mut tracker) = watching(Source::Fifo);
        let cleared = |tracker: &NeoProf<Unit>| tracker.pace.cleared.expect("watching");
        let begun = cleared(&tracker);
        (1_000..1_032).for_each(|page| accesses(&mut tracker, page, 500));
        while cleared(&tracker) == begun {
            let now = tracker.next_due();
            tracker.poll(now, &mut Observations::default()).expect("reads");
        }
        assert_eq!(cleared(&tracker).saturating_sub(begun), Nanos(rates::INTERVAL_NS));
        assert_eq!(tracker.driver.registers().counted_accesses(), 0);
        // One counter in 64 is 16 counters, and the 32 hot pages use at least as many.
        let theta = tracker.driver.registers().theta();
        assert!((500..600).contains(&theta), "{theta}");
    }

    #[test]
    fn a_frame_without_an_owner_is_searched_once_a_minute() {
        let (_folder, mut tracker) = watching(Source::Fifo);
        let mut seconds = 1;
        let mut rounds = Vec::new();
        while seconds < 70 {
            accesses(&mut tracker, 77, 65);
            seconds += 1;
            let mut out = Observations::default();
            tracker.poll(Nanos::from_secs(seconds), &mut out).expect("reads");
            assert!(out.samples.is_empty());
            rounds.push(tracker.owners.passes());
        }
        assert!(tracker.counts().without_owner > 10, "{:?}", tracker.counts());
        assert_eq!(tracker.counts().found, 0);
        let (first, last) = (rounds[10], rounds[58]);
        assert_eq!(first, last, "no round within the minute: {rounds:?}");
        assert!(rounds.last() > Some(&last), "one after it: {rounds:?}");
    }

    #[test]
    fn the_unit_is_off_before_and_after() {
        let (_folder, mut tracker) = watching(Source::Fifo);
        tracker.watch(&[]).expect("fine");
        accesses(&mut tracker, 9, 100);
        assert_eq!(tracker.driver.registers().hot_len(), 0);
    }

    #[test]
    fn a_missing_device_is_reported_with_a_next_step() {
        let (folder, root) = fake(&[]);
        let journal = Journal::open(folder.path().join("run")).expect("a journal");
        let settings = NeoProfSettings { source: Source::Fifo, place: None };
        let error = open(&root, &journal, &tiers(), &settings).err().expect("no device");
        assert!(error.to_string().contains("no PCI device 1234:4e50"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("--tracker")));
        // A device of that name with other registers.
        let device = root.path("/sys/bus/pci/devices/0000:00:04.0");
        std::fs::create_dir_all(&device).expect("a folder");
        for (file, text) in [("vendor", "0x1234\n"), ("device", "0x4e50\n"), ("enable", "0\n")] {
            std::fs::write(device.join(file), text).expect("a file");
        }
        std::fs::write(device.join("resource0"), vec![0; 0x1_0000]).expect("a file");
        let error = open(&root, &journal, &tiers(), &settings).err().expect("zeroes");
        assert!(error.to_string().contains("0000:00:04.0"), "{error}");
        assert_eq!(root.read("/sys/bus/pci/devices/0000:00:04.0/enable").expect("there"), "1");
        assert!(journal.restore().is_empty());
        assert_eq!(root.read("/sys/bus/pci/devices/0000:00:04.0/enable").expect("there"), "0");
    }
}
