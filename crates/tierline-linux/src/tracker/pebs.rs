// SPDX-License-Identifier: Apache-2.0
//! PEBS: Intel's CPUs record one load per sampling period that missed the last cache.
//!
//! **What it does.** Counts retired loads that missed L3 on every CPU and records the address of one in
//! 10,007, and the source of its data. A record stands for as many accesses as the period.
//!
//! **When it helps.** It observes exactly the accesses that depend on placement: those that reach memory, of
//! any tier. Other accesses cost nothing. It is the best source if the CPU has it.
//!
//! **When it hurts.** Few virtual machines have it. A page with less than a thousand misses a second is
//! sampled once in ten seconds. Prefetched lines are not loads that missed. Stores are counted whether or
//! not they miss, so they cannot be compared with loads: they are off by default.
//!
//! **Knobs.** [`PebsSettings`]: the periods, and the tier of each kind of memory.
//!
//! **Where it comes from.** HeMem (SOSP'21), MEMTIS (SOSP'23); event codes from Intel's perfmon tables.
//! Not tested on hardware yet: tests use synthetic records, and opening gives an error if there is no PMU.

use tierline_core::unit::Nanos;

use crate::error::{Error, Result};
use crate::perf::PerfEvent;
use crate::perf::data_src::DataSource;
use crate::root::Root;
use crate::tracker::entry::TrackerEntry;
use crate::tracker::needs::may_sample;
use crate::tracker::pmu::{PMUS, PmuEvent, Sampler, SourceTiers};

/// The tracker in the list.
pub const PEBS: TrackerEntry = TrackerEntry {
    name: "pebs",
    sees: "sampled loads that miss the cache, with address and tier (Intel)",
    costs: "well below 1 % of the program at the default period",
    samples: true,
    needs: |root| {
        let has = |pmu: &&str| root.exists(format!("{PMUS}/{pmu}/events/mem-loads"));
        let loads = ["cpu", "cpu_core"].iter().any(has);
        vec![
            (loads, "a CPU unit with the event mem-loads (Intel, not in a virtual machine)"),
            may_sample(root),
        ]
    },
    open: |at| Ok(Box::new(open(at.root, &PebsSettings::default())?)),
};

/// How to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PebsSettings {
    /// Missed loads per record; a prime, to avoid resonance with loops.
    pub load_period: u64,
    /// Stores per record; `None`: no stores.
    pub store_period: Option<u64>,
    /// The tier of each kind of memory.
    pub tiers: SourceTiers,
    /// Time between polls.
    pub poll: Nanos,
}

impl Default for PebsSettings {
    fn default() -> Self {
        Self {
            load_period: 10_007,
            store_period: None,
            tiers: SourceTiers::default(),
            poll: Nanos::from_millis(25),
        }
    }
}

/// `MEM_INST_RETIRED.ALL_STORES`.
const STORES: u64 = 0x82d0;
/// `MEM_LOAD_RETIRED.L3_MISS`; each record contains the source of the data.
const ANY_MISS: &[(u64, Option<DataSource>)] = &[(0x20d1, None)];
/// `MEM_LOAD_L3_MISS_RETIRED.LOCAL_DRAM` and `.REMOTE_DRAM`, `MEM_LOAD_RETIRED.LOCAL_PMM`,
/// `MEM_LOAD_L3_MISS_RETIRED.REMOTE_PMM`: servers that support persistent memory.
const BY_SOURCE: &[(u64, Option<DataSource>)] = &[
    (0x01d3, Some(DataSource::LocalDram)),
    (0x02d3, Some(DataSource::RemoteDram)),
    (0x80d1, Some(DataSource::Pmem)),
    (0x10d3, Some(DataSource::Pmem)),
];

/// Opens the events of this CPU.
///
/// # Errors
/// `Error::Missing` if this is no Intel CPU or if it has no such events.
pub fn open(root: &Root, settings: &PebsSettings) -> Result<Sampler> {
    let cpu = Cpu::read(root)?;
    cpu.require_pebs(root)?;
    let events = events(cpu.model, settings);
    Sampler::open(root, PEBS.name, &events, settings.tiers, settings.poll)
}

fn events(model: u32, settings: &PebsSettings) -> Vec<PmuEvent> {
    let loads = match model {
        // Skylake-SP and Cascade Lake, Ice Lake-SP and -D. From Sapphire Rapids on CXL is a source too, without an
        // event of its own: the records contain it.
        0x55 | 0x6a | 0x6c => BY_SOURCE,
        _ => ANY_MISS,
    };
    let event = |code, period, source| PmuEvent {
        event: PerfEvent::raw(code),
        period,
        precise: 2,
        user_only: true,
        source,
        counts_accesses: true,
        stores: false,
        keep_unknown: true,
    };
    let loads = loads.iter().map(|(code, source)| event(*code, settings.load_period, *source));
    let stores = settings.store_period.map(|period| PmuEvent {
        stores: true,
        // A store's record does not say whether it reached memory.
        source: Some(DataSource::Unknown),
        ..event(STORES, period, None)
    });
    loads.chain(stores).collect()
}

/// The first CPU in `/proc/cpuinfo`.
pub struct Cpu {
    /// `GenuineIntel`, `AuthenticAMD`.
    pub vendor: String,
    /// The family.
    pub family: u32,
    /// The model.
    pub model: u32,
}

impl Cpu {
    /// Reads `/proc/cpuinfo`.
    ///
    /// # Errors
    /// `Error::File` if it cannot be read. On other architectures the fields are empty or 0.
    pub fn read(root: &Root) -> Result<Self> {
        let text = root.read("/proc/cpuinfo")?;
        let field = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            let found = lines.find(|(key, _)| key.trim() == name);
            found.map(|(_, value)| value.trim().to_string()).unwrap_or_default()
        };
        let number = |name| field(name).parse().unwrap_or_default();
        Ok(Self {
            vendor: field("vendor_id"),
            family: number("cpu family"),
            model: number("model"),
        })
    }

    fn require_pebs(&self, root: &Root) -> Result<()> {
        let missing = |why: String| {
            let hint = "try --tracker ibs on AMD, --tracker hint_faults anywhere".into();
            Err(Error::Missing { what: "PEBS".into(), why, hint })
        };
        if self.vendor != "GenuineIntel" {
            return missing(format!("the CPU is {:?}, not Intel's", self.vendor));
        }
        let units = ["cpu", "cpu_core"];
        let unit =
            units.into_iter().find(|u| root.exists(format!("/sys/bus/event_source/devices/{u}")));
        let Some(unit) = unit else {
            return missing("the CPU has no PMU (a virtual machine?)".into());
        };
        let caps = format!("/sys/bus/event_source/devices/{unit}/caps/max_precise");
        match root.read_number(&caps) {
            Ok(0 | 1) => missing(format!("{caps} is below 2")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cpuinfo: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().expect("a folder");
        let root = Root::at(dir.path());
        for (path, text) in files.iter().chain([&("/proc/cpuinfo", cpuinfo)]) {
            let real = root.path(path);
            std::fs::create_dir_all(real.parent().expect("a parent")).expect("a folder");
            std::fs::write(real, text).expect("a file");
        }
        (dir, root)
    }

    const SKYLAKE: &str = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\n\
        model name\t: Xeon\n";

    fn why(root: &Root) -> String {
        open(root, &PebsSettings::default()).err().expect("no PEBS").to_string()
    }

    #[test]
    fn on_machines_without_it_the_error_says_why() {
        let (_dir, root) = machine("vendor_id : AuthenticAMD\n", &[]);
        assert!(why(&root).contains("AuthenticAMD"));
        let (_dir, root) = machine(SKYLAKE, &[]);
        assert!(why(&root).contains("no PMU"));
        let caps = "/sys/bus/event_source/devices/cpu/caps/max_precise";
        let (_dir, root) = machine(SKYLAKE, &[(caps, "0\n")]);
        assert!(why(&root).contains("max_precise is below 2"));
    }

    #[test]
    fn the_cpu_model_selects_the_events() {
        let (_dir, root) = machine(SKYLAKE, &[]);
        let cpu = Cpu::read(&root).expect("cpuinfo");
        assert_eq!((cpu.family, cpu.model), (6, 0x55));
        let codes = |model, settings: &PebsSettings| -> Vec<PerfEvent> {
            events(model, settings).iter().map(|event| event.event).collect()
        };
        let plain = PebsSettings::default();
        assert_eq!(codes(cpu.model, &plain)[1], PerfEvent::raw(0x02d3));
        assert_eq!(codes(0x8f, &plain), [PerfEvent::raw(0x20d1)]);
        let stores = PebsSettings { store_period: Some(100_003), ..plain };
        assert_eq!(codes(0x8f, &stores), [PerfEvent::raw(0x20d1), PerfEvent::raw(0x82d0)]);
    }
}
