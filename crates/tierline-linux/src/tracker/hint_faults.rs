// SPDX-License-Identifier: Apache-2.0
//! NUMA hint faults: which page, by which process, when, and how long after it was armed.
//!
//! **What it does.** In tiering mode the kernel's NUMA balancing removes the access rights from pages of
//! the slow tier, one slice of each address space at a time, and restores them page by page on access. The
//! tracker configures it to do only that (`hot_threshold_ms` 0: no page is hot enough to be promoted) and
//! reads faults and armings through perf. A fault is one access; the time since the page was armed gives
//! the page's rate: with 100 accesses a second it is 10 ms on average, with three 330 ms. Both pages fault
//! in every scan, so a count of faults could not distinguish them.
//!
//! Faults come from a probe on `numa_migrate_check` (Linux 6.12 and later), which is exact. Without it they
//! come from the page fault event, which includes the first access to new memory: a fault then counts if
//! the page was armed before or, if armings are not observed, if it faulted before. Armings come from a
//! probe on `change_prot_numa`; without it samples have no exposure. [`HintFaults::sources`] reports what
//! is used.
//!
//! **When it helps.** It needs no PMU, so it works in virtual machines and on any vendor's CPU. It observes
//! reads and writes of single pages (base or huge).
//!
//! **When it hurts.** Pages of the fast tier are never armed, so the absence of samples there does not mean
//! cold. The kernel scans a program only while it runs, for at most 3 % of its time, and a program started
//! under slower settings keeps its first scan period. If a fast node has more free memory than the larger
//! of 1 GiB and a sixteenth of its size, the kernel promotes every page that faults, whatever the
//! threshold. For a hot page that arrives unarmed in the slow tier, the first time to fault is counted from
//! up to four earlier scans. In a large folio smaller than a huge page, one page faults for all.
//!
//! **Knobs.** [`HintFaultSettings`]: the megabytes armed at a time when alert and when calm (the kernel divides by
//! it, so it is never 0), the most faults a second, the scan period, the poll interval, the ring size.
//!
//! **Where it comes from.** Linux `mm/mempolicy.c`, `kernel/sched/fair.c`; TPP (ASPLOS'23); Colloid
//! (SOSP'24) uses the same time in its TPP port.
//!
//! **Measured** in QEMU without KVM, one CPU of 250 million instructions a second; 300 MB in the slow
//! tier, every fifth page hot at random, with 36 times the accesses of a warm one (180 to 330 and 5 to 9 a
//! second), at most 4,000 faults a second:
//!
//! | | 7.2 | 6.12 |
//! |---|---|---|
//! | hot pages with a time to fault below 32 ms | 93 % | 96 % |
//! | warm pages with a time to fault below 32 ms | 8 % | 9 % |
//! | median time to fault, hot | about 8 ms | 4..8 ms |
//! | median time to fault, warm | 128..256 ms | 128..256 ms |
//!
//! In a separate run on 7.2, 700 MB without a budget, 225,078 of vmstat's 225,078 hint faults were recorded.
//! A fault cost the program 14 to 20 us there (3,600 to 5,200 instructions: the kernel's own fault, the
//! probe, the record); 3 us of it is the reader: 7 % of the throughput at 5,000 faults a second. Without a
//! budget a quarter of the throughput was left. Setting up a probe took 0.4 to 0.9 s of CPU once (the kernel
//! searches its type information). With 3 GB in the fast node, mostly free, the kernel promoted 12,379 pages
//! in the first 73,258 faults and 51,242 in the next 51,825, with or without threshold 0.

mod arming;
mod pace;

use rustc_hash::{FxHashMap, FxHashSet};
use tierline_core::port::{Attention, Observations, Sample, SpaceId, Vpn};
use tierline_core::tier::TierId;
use tierline_core::unit::{BASE_PER_HUGE, Nanos};

use crate::balancing::{self, MODE, TIERING};
use crate::conflicts::OwnUse;
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::perf::sample::Fields;
use crate::perf::tracefs::{DynamicEvent, EventField};
use crate::perf::{Attr, CpuRings, PerfEvent, monotonic_now, online_cpus};
use crate::root::Root;
use crate::tracker::Tracker;
use crate::tracker::entry::TrackerEntry;
use crate::tracker::needs::{may_sample, two_nodes};
use arming::{ArmedRange, ArmingHistory};
use pace::SliceSize;

/// The tracker in the list.
pub const HINT_FAULTS: TrackerEntry = TrackerEntry {
    name: "hint_faults",
    sees: "accesses to single pages of slow memory, with the time from arming to access",
    costs: "a page fault for every observed page; fast memory is not observed",
    samples: false,
    needs: |root| {
        vec![
            (root.exists(MODE), "kernel.numa_balancing (CONFIG_NUMA_BALANCING)"),
            (
                balancing::may_tier(root).is_ok(),
                "kernel.numa_balancing at 0 or 2 (back at 1 or 3, programs could hang)",
            ),
            two_nodes(root),
            (
                root.exists(format!("{KNOBS}/hot_threshold_ms")),
                "debugfs with sched/numa_balancing (mounted, root, Linux 6.1)",
            ),
            (
                root.exists("/sys/kernel/tracing/events"),
                "tracefs on /sys/kernel/tracing (mounted, root)",
            ),
            may_sample(root),
        ]
    },
    open: |at| {
        // With two tiers, a hint fault implies the page's tier; with more it does not.
        let slow = (at.tiers.len() == 2).then_some(TierId(1));
        Ok(Box::new(HintFaults::new(at.root, at.journal, slow, HintFaultSettings::default())?))
    },
};

const KNOBS: &str = "/sys/kernel/debug/sched/numa_balancing";
/// Time under watch that is remembered of a page. Ours: dozens of a hot page's faults, a few of a warm one's.
const MEMORY: Nanos = Nanos::from_millis(500);
/// Arm nothing.
const OFF: &str = "0";
/// In `vmf->flags`: the access was a store.
const FAULT_WRITE: u64 = 1;

/// How to arm and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HintFaultSettings {
    /// The most megabytes of memory that the kernel arms at a time when alert; at least 1.
    pub alert_scan_mb: u32,
    /// The same when calm; at least 1.
    pub calm_scan_mb: u32,
    /// The average hint faults a second allowed for each CPU when alert; a quarter of it when calm. One costs a
    /// microsecond or two on silicon, twenty in an emulator. Every armed page faults in the end, so the time of a pass
    /// is the number of slow pages in use by this.
    pub faults_per_sec_per_cpu: u32,
    /// The least milliseconds of running time in which the kernel may scan a whole program. A task takes its
    /// period from this when it first runs, and keeps it.
    pub scan_period_min_ms: u32,
    /// The most milliseconds of it.
    pub scan_period_max_ms: u32,
    /// Time between polls when alert; twice that when calm.
    pub poll: Nanos,
    /// Base pages of a CPU's ring for faults; one page of 4 KiB stores about 50.
    pub ring_pages: usize,
}

impl Default for HintFaultSettings {
    fn default() -> Self {
        Self {
            alert_scan_mb: 64,
            calm_scan_mb: 8,
            faults_per_sec_per_cpu: 16_000,
            scan_period_min_ms: 100,
            scan_period_max_ms: 400,
            poll: Nanos::from_millis(25),
            ring_pages: 128,
        }
    }
}

/// The source of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultSource {
    /// A probe that records only hint faults, and whether they are stores.
    Probe,
    /// The page fault event: includes the first access to new memory if armings are not observed.
    PageFaults,
}

/// The sources in use on this kernel, and why better ones are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcesInUse {
    /// The source of faults.
    pub faults: FaultSource,
    /// True if armings are observed, so that samples have an exposure.
    pub arming: bool,
    /// Why better sources are not in use; empty if all are.
    pub missing: Vec<String>,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HintFaultCounts {
    /// Samples reported.
    pub faults: u64,
    /// Ranges armed in the processes watched.
    pub arms: u64,
    /// Records of other processes.
    pub foreign: u64,
    /// Page faults that were not hint faults (page fault event only).
    pub other_faults: u64,
    /// Records lost because a ring was full.
    pub lost: u64,
}

/// The most pages of a process that are remembered as faulted: 64 MiB.
const MOST_TOUCHED: usize = 1 << 22;

/// State of one address space.
#[derive(Default)]
struct Watched {
    arming: ArmingHistory,
    /// Pages that have faulted; kept only if nothing else separates hint faults from first accesses.
    touched: FxHashSet<Vpn>,
}

impl Watched {
    /// True for the first fault of a page. At `most` pages all are forgotten: each then has a first fault again.
    fn touch(&mut self, page: Vpn, most: usize) -> bool {
        if self.touched.len() >= most {
            self.touched.clear();
        }
        self.touched.insert(page)
    }

    fn footprint(&self) -> usize {
        self.arming.footprint() + self.touched.capacity() * size_of::<Vpn>()
    }
}

/// One fault as recorded.
#[derive(Clone, Copy, Debug)]
struct Fault {
    time: Nanos,
    space: SpaceId,
    page: Vpn,
    huge: bool,
    write: Option<bool>,
}

/// The positions of the fields of the two probes.
#[derive(Clone, Copy)]
struct FaultFields {
    address: EventField,
    pte: EventField,
    flags: EventField,
}

#[derive(Clone, Copy)]
struct ArmFields {
    start: EventField,
    end: EventField,
}

struct Faults {
    // Declared before the probe, to be dropped first: an event in use cannot be removed.
    rings: CpuRings,
    probe: Option<(DynamicEvent, FaultFields)>,
}

struct Arms {
    rings: CpuRings,
    fields: ArmFields,
    _probe: DynamicEvent,
}

/// The tracker.
pub struct HintFaults {
    root: Root,
    journal: Journal,
    settings: HintFaultSettings,
    slow: Option<TierId>,
    faults: Faults,
    arms: Option<Arms>,
    why: Vec<String>,
    spaces: FxHashMap<SpaceId, Watched>,
    /// Read but not reported yet: faults after the start of the drain wait for their armings.
    pending_faults: Vec<Fault>,
    pending_arms: Vec<(SpaceId, ArmedRange)>,
    counts: HintFaultCounts,
    scanning: bool,
    attention: Attention,
    /// The passes at which calm may begin: moves of a part of memory do not show that placement is settled.
    calm_after: u64,
    pace: SliceSize,
    cpus: u64,
    due: Nanos,
}

impl HintFaults {
    /// Opens the probes; the kernel's settings are changed when there is something to watch. `slow` is the tier
    /// that samples report: the slow one of two, `None` if the machine has more.
    ///
    /// # Errors
    /// `Error::Missing` if the kernel has no tiering mode or its knobs are not accessible, `Error::Call` if
    /// perf events cannot be opened.
    pub fn new(
        root: &Root,
        journal: &Journal,
        slow: Option<TierId>,
        settings: HintFaultSettings,
    ) -> Result<Self> {
        require_knobs(root)?;
        let mut why = Vec::new();
        let faults = match open_fault_probe(root, settings.ring_pages) {
            Ok(faults) => faults,
            Err(error) => {
                why.push(error.to_string());
                open_page_faults(root, settings.ring_pages)?
            }
        };
        let cpus = online_cpus(root)?.len() as u64;
        let arms = open_arms(root).map_err(|error| why.push(error.to_string())).ok();
        Ok(Self {
            root: root.clone(),
            journal: journal.clone(),
            settings,
            slow,
            faults,
            arms,
            why,
            spaces: FxHashMap::default(),
            pending_faults: Vec::new(),
            pending_arms: Vec::new(),
            counts: HintFaultCounts::default(),
            scanning: false,
            attention: Attention::default(),
            calm_after: 0,
            pace: SliceSize::new(Nanos::ZERO),
            cpus,
            due: Nanos::ZERO,
        })
    }

    /// The sources in use on this kernel.
    pub fn sources(&self) -> SourcesInUse {
        let faults =
            if self.faults.probe.is_some() { FaultSource::Probe } else { FaultSource::PageFaults };
        SourcesInUse { faults, arming: self.arms.is_some(), missing: self.why.clone() }
    }

    /// Counts since the start.
    pub const fn counts(&self) -> HintFaultCounts {
        self.counts
    }

    /// Megabytes that the kernel presently arms at a time; 0 while arming is paused.
    pub const fn slice_mb(&self) -> u32 {
        self.pace.mb
    }

    /// Approximate bytes used by the record of armings.
    pub fn footprint(&self) -> usize {
        self.spaces.values().map(Watched::footprint).sum()
    }

    fn knob(&self, name: &str, value: u32) -> Result<()> {
        self.journal.set(&self.root, &format!("{KNOBS}/{name}"), &value.to_string())
    }

    /// Everything else before the mode, so that nothing is promoted between two writes.
    fn start_scanning(&mut self) -> Result<()> {
        self.knob("hot_threshold_ms", 0)?;
        self.knob("scan_delay_ms", 0)?;
        self.knob("scan_period_min_ms", self.settings.scan_period_min_ms)?;
        self.knob("scan_period_max_ms", self.settings.scan_period_max_ms)?;
        self.faults.rings.enable(true)?;
        if let Some(arms) = &self.arms {
            arms.rings.enable(true)?;
        }
        self.pace = SliceSize::new(monotonic_now());
        self.scanning = true;
        self.set_pace()
    }

    /// Sets the slice that is armed at a time: the only knob that running tasks follow.
    fn set_pace(&self) -> Result<()> {
        // The kernel divides by it, so it is never 0. Armed pages stay armed when the mode is off.
        if self.pace.mb > 0 {
            self.knob("scan_size_mb", self.pace.mb)?;
        }
        let mode = if self.pace.mb > 0 { TIERING } else { OFF };
        self.journal.set(&self.root, MODE, mode)
    }

    /// Passes that have ended in all address spaces.
    fn passes(&self) -> u64 {
        self.spaces.values().map(|watched| watched.arming.passes()).min().unwrap_or_default()
    }

    /// Whether placement is settled and all memory was armed since it was not.
    fn is_calm(&self) -> bool {
        self.attention == Attention::Calm
            && (self.arms.is_none() || self.passes() >= self.calm_after)
    }

    fn adjust_pace(&mut self, now: Nanos, faults: u64) -> Result<()> {
        let full = u64::from(self.settings.faults_per_sec_per_cpu) * self.cpus;
        let (budget, limit) = match self.is_calm() {
            false => (full, self.settings.alert_scan_mb),
            true => (full / 4, self.settings.calm_scan_mb),
        };
        if self.pace.record_faults(now, faults, budget, limit) { self.set_pace() } else { Ok(()) }
    }

    fn stop_scanning(&mut self) -> Result<()> {
        self.journal.set(&self.root, MODE, OFF)?;
        self.faults.rings.enable(false)?;
        if let Some(arms) = &self.arms {
            arms.rings.enable(false)?;
        }
        self.scanning = false;
        Ok(())
    }

    fn drain(&mut self) {
        let Self { faults, arms, spaces, pending_faults, pending_arms, counts, .. } = self;
        if let Some(Arms { rings, fields, .. }) = arms {
            rings.drain(|s| match space_of(s.pid, spaces) {
                Some(space) => pending_arms.extend(read_arm(&s, *fields).map(|arm| (space, arm))),
                None => counts.foreign += 1,
            });
        }
        let fields = faults.probe.as_ref().map(|(_, fields)| *fields);
        faults.rings.drain(|s| match space_of(s.pid, spaces) {
            Some(space) => pending_faults.extend(read_fault(&s, space, fields)),
            None => counts.foreign += 1,
        });
    }

    /// Reports the faults recorded until `horizon`, in the order of time.
    fn deliver(&mut self, horizon: Nanos, out: &mut Observations) {
        self.pending_arms.sort_by_key(|(_, arm)| arm.time);
        self.pending_faults.sort_by_key(|fault| fault.time);
        let arms_ready = self.pending_arms.partition_point(|(_, arm)| arm.time <= horizon);
        let faults_ready = self.pending_faults.partition_point(|fault| fault.time <= horizon);
        let mut arms = std::mem::take(&mut self.pending_arms);
        let mut faults = std::mem::take(&mut self.pending_faults);
        let mut armed = arms.drain(..arms_ready).peekable();
        for fault in faults.drain(..faults_ready) {
            while let Some((space, arm)) = armed.next_if(|(_, arm)| arm.time <= fault.time) {
                self.take_arm(space, arm);
            }
            self.take_fault(fault, out);
        }
        armed.by_ref().for_each(|(space, arm)| self.take_arm(space, arm));
        drop(armed);
        (self.pending_arms, self.pending_faults) = (arms, faults);
    }

    fn take_arm(&mut self, space: SpaceId, arm: ArmedRange) {
        if let Some(watched) = self.spaces.get_mut(&space) {
            watched.arming.arm(arm);
            self.counts.arms += 1;
        }
    }

    fn take_fault(&mut self, fault: Fault, out: &mut Observations) {
        let Some(watched) = self.spaces.get_mut(&fault.space) else { return };
        let seen_armed = self.arms.is_some();
        let exposure = match seen_armed {
            true => watched.arming.fault(fault.page, fault.huge, fault.time),
            false => None,
        };
        let is_hint = match (self.faults.probe.is_some(), seen_armed) {
            (true, _) => true,
            (false, true) => exposure.is_some(),
            (false, false) => !watched.touch(fault.page, MOST_TOUCHED),
        };
        if !is_hint {
            self.counts.other_faults += 1;
            return;
        }
        self.counts.faults += 1;
        out.samples.push(to_sample(&fault, exposure, self.slow));
    }

    fn count_losses(&mut self, out: &mut Observations) {
        let arms = self.arms.as_ref().map(|arms| arms.rings.losses().lost);
        let lost = self.faults.rings.losses().lost + arms.unwrap_or_default();
        out.lost += lost.saturating_sub(self.counts.lost);
        self.counts.lost = lost;
    }
}

impl Tracker for HintFaults {
    fn name(&self) -> &'static str {
        HINT_FAULTS.name
    }

    fn uses(&self) -> OwnUse {
        OwnUse { hint_faults: true, ..OwnUse::default() }
    }

    fn watch(&mut self, spaces: &[SpaceId]) -> Result<()> {
        self.spaces.retain(|space, _| spaces.contains(space));
        for space in spaces {
            self.spaces.entry(*space).or_default();
        }
        match (self.scanning, self.spaces.is_empty()) {
            (false, false) => self.start_scanning(),
            (true, true) => self.stop_scanning(),
            _ => Ok(()),
        }
    }

    fn poll(&mut self, now: Nanos, out: &mut Observations) -> Result<()> {
        self.due = now + if self.is_calm() { self.settings.poll * 2 } else { self.settings.poll };
        if !self.scanning {
            return Ok(());
        }
        // A fault on a CPU that is read late may follow an arming on one that was read early.
        let horizon = monotonic_now();
        let before = self.counts.faults + self.counts.other_faults;
        self.drain();
        out.remembered_time = Some(MEMORY);
        self.deliver(horizon, out);
        self.count_losses(out);
        // A fault costs the same whether or not it gives a sample.
        self.adjust_pace(now, self.counts.faults + self.counts.other_faults - before)
    }

    fn next_due(&self) -> Nanos {
        self.due
    }

    fn set_attention(&mut self, attention: Attention) {
        if attention == Attention::Calm {
            self.calm_after = self.passes() + 2; // the present pass began before
        }
        self.attention = attention;
    }

    fn observes_fast_memory(&self) -> bool {
        false
    }
}

fn space_of(pid: u32, spaces: &FxHashMap<SpaceId, Watched>) -> Option<SpaceId> {
    let space = SpaceId(pid);
    spaces.contains_key(&space).then_some(space)
}

fn read_arm(sample: &crate::perf::sample::Sample<'_>, fields: ArmFields) -> Option<ArmedRange> {
    let (start, end) = (fields.start.read(sample.raw)?, fields.end.read(sample.raw)?);
    let arm = ArmedRange { time: Nanos(sample.time), start: Vpn::of(start), end: Vpn::of(end) };
    (arm.start < arm.end).then_some(arm)
}

fn read_fault(
    sample: &crate::perf::sample::Sample<'_>,
    space: SpaceId,
    fields: Option<FaultFields>,
) -> Option<Fault> {
    let time = Nanos(sample.time);
    let Some(fields) = fields else {
        return Some(Fault { time, space, page: Vpn::of(sample.addr), huge: false, write: None });
    };
    let page = Vpn::of(fields.address.read(sample.raw)?);
    let write = fields.flags.read(sample.raw)? & FAULT_WRITE != 0;
    // A fault on a huge page is handled before a page-table entry is looked up.
    let huge = fields.pte.read(sample.raw)? == 0;
    Some(Fault { time, space, page, huge, write: Some(write) })
}

fn to_sample(fault: &Fault, exposure: Option<Nanos>, tier: Option<TierId>) -> Sample {
    let (vpn, base_pages) = match fault.huge {
        true => (fault.page.huge_head(), BASE_PER_HUGE),
        false => (fault.page, 1),
    };
    Sample {
        space: fault.space,
        vpn,
        base_pages: u32::try_from(base_pages).unwrap_or(1),
        hits: 1.0,
        exposure,
        tier,
        write: fault.write,
    }
}

fn require_knobs(root: &Root) -> Result<()> {
    let missing = |why: String, hint: &str| {
        Err(Error::Missing { what: "NUMA hint faults".into(), why, hint: hint.into() })
    };
    if !root.exists(MODE) {
        return missing(
            format!("no {MODE}"),
            "a kernel with CONFIG_NUMA_BALANCING; try --tracker damon",
        );
    }
    balancing::may_tier(root)?;
    for name in ["hot_threshold_ms", "scan_size_mb"] {
        if !root.exists(format!("{KNOBS}/{name}")) {
            return missing(
                format!("no {KNOBS}/{name}"),
                "mount -t debugfs none /sys/kernel/debug (and no kernel lockdown), Linux 6.1 or later",
            );
        }
    }
    Ok(())
}

fn open_fault_probe(root: &Root, pages: usize) -> Result<Faults> {
    let definition = "numa_migrate_check addr=vmf->address pte=vmf->pte flags=vmf->flags:x32";
    let probe = DynamicEvent::create(root, "fault", &[("f", definition)])?;
    let fields = FaultFields {
        address: probe.event.field("addr")?,
        pte: probe.event.field("pte")?,
        flags: probe.event.field("flags")?,
    };
    let rings = open_tracepoint(root, &probe, pages)?;
    Ok(Faults { rings, probe: Some((probe, fields)) })
}

fn open_page_faults(root: &Root, pages: usize) -> Result<Faults> {
    let fields = Fields::TID | Fields::TIME | Fields::ADDR;
    let attr = Attr { user_only: true, ..Attr::every(PerfEvent::PAGE_FAULTS, fields) };
    Ok(Faults { rings: CpuRings::open(root, &attr, pages)?, probe: None })
}

/// Ranges are armed a few dozen times a second, so a small ring is enough.
const ARM_RING_PAGES: usize = 16;

fn open_arms(root: &Root) -> Result<Arms> {
    // The second and third argument are the range's ends. The time is taken on entry, before the first page is
    // armed.
    let range = "change_prot_numa start=$arg2 end=$arg3";
    let probe = DynamicEvent::create(root, "arm", &[("f", range), ("p", range)])?;
    let fields = ArmFields { start: probe.event.field("start")?, end: probe.event.field("end")? };
    Ok(Arms { rings: open_tracepoint(root, &probe, ARM_RING_PAGES)?, fields, _probe: probe })
}

fn open_tracepoint(root: &Root, probe: &DynamicEvent, pages: usize) -> Result<CpuRings> {
    let fields = Fields::TID | Fields::TIME | Fields::RAW;
    CpuRings::open(root, &Attr::every(PerfEvent::Tracepoint(probe.event.id), fields), pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faulted_pages_are_remembered_up_to_a_number() {
        let mut watched = Watched::default();
        let first = [1, 2, 1, 3, 4, 1].map(|page| watched.touch(Vpn(page), 3));
        assert_eq!(first, [true, true, false, true, true, true]);
        assert_eq!(watched.touched.len(), 2);
    }

    #[test]
    fn without_debugfs_the_error_says_what_to_mount() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = Root::at(dir.path());
        let journal = Journal::open(dir.path().join("run")).expect("a journal");
        let open = || HintFaults::new(&root, &journal, None, HintFaultSettings::default()).err();
        let error = open().expect("no knobs");
        assert!(error.to_string().contains("numa_balancing"), "{error}");
        std::fs::create_dir_all(root.path("/proc/sys/kernel")).expect("a folder");
        std::fs::write(root.path(MODE), "0").expect("a file");
        let error = open().expect("no debugfs");
        assert!(error.hint().is_some_and(|hint| hint.contains("mount -t debugfs")), "{error}");
        for mode in ["1", "3"] {
            std::fs::write(root.path(MODE), mode).expect("a file");
            let error = open().expect("balanced between sockets");
            assert!(error.hint().is_some_and(|hint| hint.contains("numa_balancing=0")), "{error}");
        }
    }

    #[test]
    fn a_huge_page_is_one_sample_from_its_head() {
        let fault = Fault {
            time: Nanos(5),
            space: SpaceId(7),
            page: Vpn(1030),
            huge: true,
            write: Some(true),
        };
        let sample = to_sample(&fault, Some(Nanos(3)), Some(TierId(1)));
        assert_eq!((sample.vpn, sample.base_pages), (Vpn(1024), 512));
        let base = to_sample(&Fault { huge: false, ..fault }, None, None);
        assert_eq!((base.vpn, base.base_pages, base.write), (Vpn(1030), 1, Some(true)));
    }
}
