// SPDX-License-Identifier: Apache-2.0
//! DAMON: the kernel's own access monitor, which observes regions and splits and merges them over time.
//!
//! **What it does.** In every sampling interval, a kernel thread checks one page of each region: was it
//! accessed since the last check? After an aggregation interval it reports the count of each region in a
//! trace event, which is read through perf; regions without an access are filtered out in the kernel. A
//! hit is one sampling interval in which the page was accessed: hits over time approximate the page's
//! rate, up to one per sampling interval.
//!
//! **When it helps.** The cost grows with the number of regions, not with the memory. It also observes the
//! fast tier.
//!
//! **When it hurts.** A region is judged by one page at a time: if single hot pages are scattered among cold
//! ones, all of them look lukewarm. DAMON does not flush the TLB: pages whose entries stay in it look idle. On
//! silicon these are few unless they are huge; in an emulator they are all pages of a program until something
//! else runs on its CPU. Only one user can run DAMON: this tracker cannot run beside `damon_stat` (on by
//! default since Linux 6.17), `damon_reclaim`, `damon_lru_sort` or another user's DAMON.
//!
//! **Knobs.** [`DamonSettings`]: sampling and aggregation intervals when calm and when alert, the fewest and
//! most regions, and whether `damon_stat` may be switched off meanwhile.
//!
//! **Where it comes from.** Linux `mm/damon`, `Documentation/admin-guide/mm/damon/usage.rst`; Park et al.
//! (HPDC'22).
//!
//! **Measured** in QEMU without KVM, one CPU of 250 million instructions a second; 300 MB, the first 60 MB
//! hot. 10 ms / 200 ms takes 4 % of that CPU in the first seconds and 30 % once there are 1000 regions (a
//! CPU of today: ten to forty times less); 50 ms / 1 s takes 0.4 % at ten regions. The border of the hot
//! part was found within ten seconds. Hits per page differed two to three times where accesses differed
//! thirty-six times: DAMON does not flush the TLB, and an emulator's is large.

mod admin;

use tierline_core::port::{Attention, Observations, Sample, SpaceId, Vpn};
use tierline_core::unit::{BASE_PAGE, Nanos};

use crate::conflicts::OwnUse;
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::perf::sample::Fields;
use crate::perf::tracefs::{EventField, TraceEvent};
use crate::perf::{Attr, CpuRings, PerfEvent};
use crate::root::Root;
use crate::tracker::Tracker;
use crate::tracker::entry::TrackerEntry;
use crate::tracker::needs::{Requirement, writable};
use admin::{Admin, Targets};

/// The tracker in the list.
pub const DAMON: TrackerEntry = TrackerEntry {
    name: "damon",
    sees: "regions, by one sampled page each, in every tier",
    costs: "a kernel thread, in proportion to regions and sampling rate",
    samples: false,
    needs,
    open: |at| Ok(Box::new(Damon::new(at.root, at.journal, DamonSettings::default())?)),
};

fn needs(root: &Root) -> Vec<Requirement> {
    const KDAMONDS: &str = "/sys/kernel/mm/damon/admin/kdamonds";
    let modules = ["damon_stat", "damon_reclaim", "damon_lru_sort"];
    let owned = modules.iter().any(|name| {
        let on = root.read(format!("/sys/module/{name}/parameters/enabled"));
        on.is_ok_and(|text| text.trim() == "Y")
    });
    let busy = root.list(KDAMONDS).iter().any(|name| {
        root.read(format!("{KDAMONDS}/{name}/state")).is_ok_and(|text| text.trim() == "on")
    });
    let count = format!("{KDAMONDS}/nr_kdamonds");
    vec![
        (root.exists(&count), "DAMON's folder in sysfs (CONFIG_DAMON_SYSFS)"),
        (writable(root, &count), "the right to configure DAMON (root)"),
        (
            !owned,
            "a free DAMON: a kernel module runs it (damon_stat: echo N to its parameter enabled)",
        ),
        (!busy, "a free DAMON: another user's kdamond is on"),
    ]
}

/// How often DAMON checks pages and reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// Time between two checks.
    pub sample: Nanos,
    /// Time between two results.
    pub aggregation: Nanos,
}

/// What DAMON watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressSpace {
    /// The virtual memory of the processes watched.
    #[default]
    Virtual,
    /// All physical memory; results are not samples but come from [`Damon::take_physical`].
    Physical,
}

/// How to observe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamonSettings {
    /// What to watch.
    pub address_space: AddressSpace,
    /// Intervals while placement is settled.
    pub calm: Intervals,
    /// Intervals while it is not.
    pub alert: Intervals,
    /// The fewest regions; the kernel requires 3.
    pub min_regions: u32,
    /// The most regions; this bounds the cost.
    pub max_regions: u32,
    /// Switch `damon_stat` off while this runs, instead of failing.
    pub take_over_damon_stat: bool,
}

impl Default for DamonSettings {
    fn default() -> Self {
        let ms = |sample, aggregation| Intervals {
            sample: Nanos::from_millis(sample),
            aggregation: Nanos::from_millis(aggregation),
        };
        Self {
            address_space: AddressSpace::Virtual,
            calm: ms(50, 1000),
            alert: ms(10, 200),
            min_regions: 10,
            max_regions: 1000,
            take_over_damon_stat: false,
        }
    }
}

/// A run of physical memory that was accessed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhysicalRun {
    /// Its first byte.
    pub start: u64,
    /// The byte after its last.
    pub end: u64,
    /// Sampling intervals in which it was accessed.
    pub hits: f32,
}

/// Base pages of a CPU's ring: about 1000 regions.
const RING_PAGES: usize = 32;

#[derive(Clone, Copy)]
struct ResultFields {
    target: EventField,
    start: EventField,
    end: EventField,
    hits: EventField,
}

/// One region's result.
#[derive(Clone, Copy, Debug, PartialEq)]
struct DamonRegion {
    target: u64,
    start: u64,
    end: u64,
    hits: f32,
}

/// Ours: a region's hits vary less than a page's, and borders move.
const AGGREGATIONS_REMEMBERED: u64 = 5;

/// The tracker.
pub struct Damon {
    root: Root,
    admin: Admin,
    settings: DamonSettings,
    rings: CpuRings,
    fields: ResultFields,
    /// In the order of DAMON's targets.
    spaces: Vec<SpaceId>,
    physical: Vec<PhysicalRun>,
    attention: Attention,
    /// The intervals that DAMON currently has.
    current: Intervals,
    /// The start of the time not yet read, if DAMON runs.
    watching_since: Option<Nanos>,
    /// CPU time of kernel threads that have ended.
    cpu_before: Nanos,
    lost: u64,
    due: Nanos,
}

impl Damon {
    /// Claims DAMON. It starts when there is something to watch; for physical memory it starts at once.
    ///
    /// # Errors
    /// `Error::Missing` if the kernel has no DAMON in sysfs or no trace events, or if another user, which is
    /// named, uses DAMON; `Error::Call` if perf events cannot be opened.
    pub fn new(root: &Root, journal: &Journal, settings: DamonSettings) -> Result<Self> {
        let event = TraceEvent::find(root, "damon/damon_aggregated")?;
        let fields = ResultFields {
            target: event.field("target_id")?,
            start: event.field("start")?,
            end: event.field("end")?,
            hits: event.field("nr_accesses")?,
        };
        let attr = Attr::every(PerfEvent::Tracepoint(event.id), Fields::RAW);
        let rings = CpuRings::open(root, &attr, RING_PAGES)?;
        rings.filter("nr_accesses > 0")?;
        rings.enable(true)?;
        let admin = Admin::claim(root, journal, settings.take_over_damon_stat)?;
        let mut damon = Self {
            root: root.clone(),
            admin,
            settings,
            rings,
            fields,
            spaces: Vec::new(),
            physical: Vec::new(),
            attention: Attention::default(),
            current: settings.alert,
            watching_since: None,
            cpu_before: Nanos::ZERO,
            lost: 0,
            due: Nanos::ZERO,
        };
        if settings.address_space == AddressSpace::Physical {
            damon.restart()?;
        }
        Ok(damon)
    }

    /// The accessed runs of physical memory since the last call.
    pub fn take_physical(&mut self) -> Vec<PhysicalRun> {
        std::mem::take(&mut self.physical)
    }

    const fn intervals(&self) -> Intervals {
        match self.attention {
            Attention::Alert | Attention::Suspicious | Attention::Moving => self.settings.alert,
            Attention::Calm => self.settings.calm,
        }
    }

    fn restart(&mut self) -> Result<()> {
        self.cpu_before = self.kernel_cpu();
        self.admin.stop();
        self.watching_since = None;
        // Results of the old targets would be attributed to the new ones.
        self.rings.drain(|_| ());
        let targets = match self.settings.address_space {
            AddressSpace::Physical => Targets::Physical,
            AddressSpace::Virtual if self.spaces.is_empty() => return Ok(()),
            AddressSpace::Virtual => Targets::Processes(&self.spaces),
        };
        self.current = self.intervals();
        let regions = (self.settings.min_regions, self.settings.max_regions);
        self.admin.configure(targets, self.current, regions)?;
        self.admin.start()?;
        self.watching_since = Some(crate::perf::monotonic_now());
        Ok(())
    }

    fn follow_attention(&mut self) -> Result<()> {
        let wanted = self.intervals();
        if wanted == self.current || self.watching_since.is_none() {
            return Ok(());
        }
        self.current = wanted;
        self.admin.set_intervals(wanted)?;
        self.admin.commit()
    }

    fn read(&mut self, out: &mut Observations) {
        let Self { rings, fields, spaces, physical, settings, .. } = self;
        rings.drain(|s| {
            let Some(region) = read_region(s.raw, *fields) else { return };
            match settings.address_space {
                AddressSpace::Virtual => out.samples.extend(to_sample(region, spaces)),
                AddressSpace::Physical => physical.push(PhysicalRun {
                    start: region.start,
                    end: region.end,
                    hits: region.hits,
                }),
            }
        });
        let lost = rings.losses().lost;
        out.lost += lost - self.lost;
        self.lost = lost;
    }
}

impl Tracker for Damon {
    fn name(&self) -> &'static str {
        DAMON.name
    }

    fn uses(&self) -> OwnUse {
        OwnUse { damon: true, ..OwnUse::default() }
    }

    fn watch(&mut self, spaces: &[SpaceId]) -> Result<()> {
        // DAMON knows processes by their numbers.
        let running = running(&self.root, spaces);
        if self.settings.address_space == AddressSpace::Physical || self.spaces == running {
            return Ok(());
        }
        self.spaces = running;
        self.restart().or_else(|error| {
            // A process that ended before DAMON found it: the next call names the running ones.
            let gone = spaces.iter().any(|s| self.root.process(s.0).is_none());
            if gone { Ok(()) } else { Err(error) }
        })
    }

    fn poll(&mut self, now: Nanos, out: &mut Observations) -> Result<()> {
        self.read(out);
        if let Some(since) = self.watching_since {
            out.watched += now.saturating_sub(since);
            self.watching_since = Some(now.max(since));
            out.window = Some(self.current.sample);
            out.aggregation = Some(self.current.aggregation);
            out.remembered_time = Some(self.current.aggregation * AGGREGATIONS_REMEMBERED);
        }
        self.follow_attention()?;
        self.due = now + self.current.aggregation;
        Ok(())
    }

    fn next_due(&self) -> Nanos {
        self.due
    }

    fn set_attention(&mut self, attention: Attention) {
        self.attention = attention;
    }

    fn kernel_cpu(&self) -> Nanos {
        self.cpu_before + self.admin.thread_cpu().unwrap_or_default()
    }
}

/// Those of the processes that are held and run.
fn running(root: &Root, spaces: &[SpaceId]) -> Vec<SpaceId> {
    spaces.iter().copied().filter(|space| root.process(space.0).is_some()).collect()
}

fn read_region(raw: &[u8], fields: ResultFields) -> Option<DamonRegion> {
    let hits = u16::try_from(fields.hits.read(raw)?).unwrap_or(u16::MAX);
    Some(DamonRegion {
        target: fields.target.read(raw)?,
        start: fields.start.read(raw)?,
        end: fields.end.read(raw)?,
        hits: f32::from(hits),
    })
}

fn to_sample(region: DamonRegion, spaces: &[SpaceId]) -> Option<Sample> {
    let space = *spaces.get(usize::try_from(region.target).ok()?)?;
    let bytes = region.end.checked_sub(region.start)?;
    Some(Sample {
        space,
        vpn: Vpn::of(region.start),
        base_pages: u32::try_from(bytes / BASE_PAGE.0).unwrap_or(u32::MAX),
        hits: region.hits,
        exposure: None,
        tier: None,
        write: None,
    })
}

fn busy(who: String, hint: String) -> Error {
    Error::Missing { what: "DAMON".into(), why: format!("{who} is using it"), hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "\tfield:unsigned long target_id;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned long start;\toffset:24;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned long end;\toffset:32;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int nr_accesses;\toffset:40;\tsize:4;\tsigned:0;\n";

    #[test]
    fn only_processes_that_run_are_named_to_damon() {
        let (folder, root) = crate::pagemap::tests::fake(&[]);
        let spaces = [SpaceId(7), SpaceId(8)];
        assert_eq!(running(&root, &spaces), [SpaceId(7)], "nobody holds 8");
        std::fs::remove_dir_all(folder.path().join("proc/7")).expect("an end");
        assert_eq!(running(&root, &spaces), []);
    }

    #[test]
    fn a_result_becomes_a_sample_of_its_target() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = Root::at(dir.path());
        let event = root.path("/sys/kernel/tracing/events/damon/damon_aggregated");
        std::fs::create_dir_all(&event).expect("a folder");
        std::fs::write(event.join("id"), "7").expect("a file");
        std::fs::write(event.join("format"), FORMAT).expect("a file");
        let event = TraceEvent::find(&root, "damon/damon_aggregated").expect("an event");
        let field = |name| event.field(name).expect("a field");
        let fields = ResultFields {
            target: field("target_id"),
            start: field("start"),
            end: field("end"),
            hits: field("nr_accesses"),
        };
        let words = [0u64, 1, 1, 0x10_0000, 0x30_0000, 17];
        let raw: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let region = read_region(&raw, fields).expect("a region");
        let sample = to_sample(region, &[SpaceId(3), SpaceId(4)]).expect("a sample");
        assert_eq!((sample.space, sample.vpn, sample.base_pages), (SpaceId(4), Vpn(256), 512));
        assert!((sample.hits - 17.0).abs() < f32::EPSILON);
        assert_eq!(to_sample(region, &[SpaceId(3)]), None, "an earlier target");
        assert_eq!(read_region(&raw[..42], fields), None);
    }
}
