// SPDX-License-Identifier: Apache-2.0
//! PEBS: one in so many loads that missed the last cache, as Intel's CPUs record them.
//!
//! **What it does.** Counts retired loads that missed L3 on every CPU and records the address of one in
//! 10,007, and where the data came from. A record stands for as many accesses as the period.
//!
//! **When it helps.** It sees what placement is about: accesses that reach memory, of any tier, at no
//! cost to those that do not. The best source where there is one.
//!
//! **When it hurts.** Few virtual machines have it. A page with less than a thousand misses a second is
//! seen once in ten seconds. Prefetched lines are not loads that missed. Stores are counted whether or
//! not they miss, and so in another currency: they are off unless asked for.
//!
//! **Knobs.** [`Settings`]: the periods, and which tier each kind of memory is.
//!
//! **Where it comes from.** HeMem (SOSP'21), MEMTIS (SOSP'23); event codes from Intel's perfmon tables.
//! Not tested on hardware yet: records are synthetic, opening fails cleanly where there is no PMU.

use tierline_core::unit::Nanos;

use crate::error::{Error, Result};
use crate::perf::Event;
use crate::perf::data_src::Source;
use crate::root::Root;
use crate::tracker::list::TrackerEntry;
use crate::tracker::needs::may_sample;
use crate::tracker::pmu::{PMUS, PmuEvent, Sampler, SourceTiers};

/// The tracker in the list.
pub const PEBS: TrackerEntry = TrackerEntry {
    name: "pebs",
    sees: "sampled loads that miss the cache, with address and tier (Intel)",
    costs: "well below 1 % of the program at the default period",
    samples: true,
    made_for: |_| false,
    needs: |root| {
        let has = |pmu: &&str| root.exists(format!("{PMUS}/{pmu}/events/mem-loads"));
        let loads = ["cpu", "cpu_core"].iter().any(has);
        vec![
            (loads, "a CPU unit with the event mem-loads (Intel, not in a virtual machine)"),
            may_sample(root),
        ]
    },
    open: |at| Ok(Box::new(open(at.root, &Settings::default())?)),
};

/// How to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Loads that missed, for one record; a prime keeps clear of loops.
    pub load_period: u64,
    /// Stores for one record; `None`: no stores.
    pub store_period: Option<u64>,
    /// Which tier each kind of memory is.
    pub tiers: SourceTiers,
    /// Time between polls.
    pub poll: Nanos,
}

impl Default for Settings {
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
/// `MEM_LOAD_RETIRED.L3_MISS`; where the data came from is in each record.
const ANY_MISS: &[(u64, Option<Source>)] = &[(0x20d1, None)];
/// `MEM_LOAD_L3_MISS_RETIRED.LOCAL_DRAM` and `.REMOTE_DRAM`, `MEM_LOAD_RETIRED.LOCAL_PMM`,
/// `MEM_LOAD_L3_MISS_RETIRED.REMOTE_PMM`: servers that know persistent memory.
const BY_SOURCE: &[(u64, Option<Source>)] = &[
    (0x01d3, Some(Source::LocalDram)),
    (0x02d3, Some(Source::RemoteDram)),
    (0x80d1, Some(Source::Pmem)),
    (0x10d3, Some(Source::Pmem)),
];

/// Opens the events that this CPU has.
///
/// # Errors
/// `Error::Missing` if this is no Intel CPU or it has no such events to offer.
pub fn open(root: &Root, settings: &Settings) -> Result<Sampler> {
    let cpu = Cpu::read(root)?;
    cpu.require_pebs(root)?;
    let events = events(cpu.model, settings);
    Sampler::open(root, PEBS.name, &events, settings.tiers, settings.poll)
}

fn events(model: u32, settings: &Settings) -> Vec<PmuEvent> {
    let loads = match model {
        // Skylake-SP and Cascade Lake, Ice Lake-SP and -D. From Sapphire Rapids on CXL is a source
        // too, which has no event of its own: the records tell.
        0x55 | 0x6a | 0x6c => BY_SOURCE,
        _ => ANY_MISS,
    };
    let event = |code, period, source| PmuEvent {
        event: Event::raw(code),
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
        // A store's own level says nothing about memory.
        source: Some(Source::Unknown),
        ..event(STORES, period, None)
    });
    loads.chain(stores).collect()
}

/// What `/proc/cpuinfo` says of the first CPU.
pub struct Cpu {
    /// `GenuineIntel`, `AuthenticAMD`.
    pub vendor: String,
    /// The family.
    pub family: u32,
    /// The model.
    pub model: u32,
}

impl Cpu {
    /// Reads it.
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
            return missing("the CPU offers no PMU (a virtual machine?)".into());
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
        open(root, &Settings::default()).err().expect("no PEBS").to_string()
    }

    #[test]
    fn machines_without_it_say_why() {
        let (_dir, root) = machine("vendor_id : AuthenticAMD\n", &[]);
        assert!(why(&root).contains("AuthenticAMD"));
        let (_dir, root) = machine(SKYLAKE, &[]);
        assert!(why(&root).contains("no PMU"));
        let caps = "/sys/bus/event_source/devices/cpu/caps/max_precise";
        let (_dir, root) = machine(SKYLAKE, &[(caps, "0\n")]);
        assert!(why(&root).contains("max_precise is below 2"));
    }

    #[test]
    fn the_model_decides_on_the_events() {
        let (_dir, root) = machine(SKYLAKE, &[]);
        let cpu = Cpu::read(&root).expect("cpuinfo");
        assert_eq!((cpu.family, cpu.model), (6, 0x55));
        let codes = |model, settings: &Settings| -> Vec<Event> {
            events(model, settings).iter().map(|event| event.event).collect()
        };
        let plain = Settings::default();
        assert_eq!(codes(cpu.model, &plain)[1], Event::raw(0x02d3));
        assert_eq!(codes(0x8f, &plain), [Event::raw(0x20d1)]);
        let stores = Settings { store_period: Some(100_003), ..plain };
        assert_eq!(codes(0x8f, &stores), [Event::raw(0x20d1), Event::raw(0x82d0)]);
    }
}
