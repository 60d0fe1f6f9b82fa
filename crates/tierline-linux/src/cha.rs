// SPDX-License-Identifier: Apache-2.0
//! Loaded latency of a tier from the CPU's counters: the table of requests (TOR) in each caching and home agent
//! (CHA) of Intel's Ice Lake-SP and later, through perf's `uncore_cha_N` units.
//!
//! Little's law: latency = average number of reads in the table / reads entered per second.
//! The hardware counts both, so the result is exact for demand data reads that missed the last level
//! cache; it excludes stores and prefetches.
//!
//! Only counter 0 of a box can count occupancy, so one box watches one tier. Addresses are spread
//! evenly over all boxes, therefore box `i` watches tier `i mod tiers`, and its counts are scaled to
//! all boxes; nothing is multiplexed.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;
use std::time::Instant;

use perf_event_open_sys as perf;
use serde::Serialize;
use tierline_core::tier::{TierId, Tiers};
use tierline_core::unit::Nanos;

use crate::error::{Error, Result};
use crate::root::Root;
use crate::topology::Topology;
use crate::topology::nodelist::parse_ids;

const UNITS: &str = "/sys/bus/event_source/devices";
const INSERTS: u64 = 0x35;
const OCCUPANCY: u64 = 0x36;

/// Which reads a tier's boxes count, as perf's umask with its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadSource {
    /// DRAM of any socket.
    Dram,
    /// DRAM of the reader's own socket.
    LocalDram,
    /// DRAM of another socket.
    RemoteDram,
    /// CXL memory (Sapphire Rapids and later).
    Cxl,
}

impl ReadSource {
    /// `IA_MISS_DRD_*` of the event lists of Ice Lake-X and Sapphire Rapids.
    const fn umask(self) -> u64 {
        match self {
            Self::Dram => 0xc817_8601,
            Self::LocalDram => 0xc816_8601,
            Self::RemoteDram => 0xc817_0601,
            Self::Cxl => 0x10_c817_8201,
        }
    }
}

/// What the boxes of one tier counted between two reads of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LoadedReading {
    /// Average time of a demand read; `None` if there was none.
    pub latency: Option<Nanos>,
    /// Demand reads in flight, on average.
    pub occupancy: f64,
    /// Demand reads per second.
    pub reads_per_sec: f64,
}

/// Raw counts, summed over the boxes of a tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ChaCounts {
    inserts: u64,
    occupancy: u64,
    clock: u64,
}

struct TierCounters {
    tier: usize,
    inserts: File,
    occupancy: File,
    clock: File,
    last: ChaCounts,
}

/// The open counters.
pub struct Cha {
    watches: Vec<TierCounters>,
    /// For each tier: all boxes divided by its boxes. Counts are multiplied by it.
    scale: Vec<f64>,
    last: Instant,
}

impl Cha {
    /// Opens the counters: boxes are assigned to the tiers in turn, on every socket.
    ///
    /// # Errors
    /// `Error::Missing` if this CPU has no such units or no known clock event, or if there are fewer boxes
    /// than tiers; `Error::Call` if perf refuses (`perf_event_paranoid`, no CAP_PERFMON).
    pub fn open(root: &Root, tiers: &Tiers, topology: &Topology) -> Result<Self> {
        let boxes = boxes(root);
        if boxes.len() < tiers.len() || tiers.is_empty() {
            let why = format!("{} uncore_cha units for {} tiers", boxes.len(), tiers.len());
            return Err(missing(why));
        }
        let clock = clock_event(&root.read("/proc/cpuinfo").unwrap_or_default())
            .ok_or_else(|| missing("the clock event of this CPU model is not known".into()))?;
        let sources = sources(tiers, topology);
        let mut watches = Vec::new();
        let mut seats = vec![0_u32; tiers.len()];
        for (at, name) in boxes.iter().enumerate() {
            let tier = at % tiers.len();
            seats[tier] += 1;
            let unit = Unit::read(root, name)?;
            for &cpu in &unit.cpus {
                watches.push(unit.watch(cpu, tier, sources[tier], clock)?);
            }
        }
        let all: u32 = seats.iter().sum();
        let scale = seats.iter().map(|&seats| f64::from(all) / f64::from(seats.max(1))).collect();
        Ok(Self { watches, scale, last: Instant::now() })
    }

    /// Counts since the last read (or since opening), one entry per tier.
    ///
    /// # Errors
    /// `Error::Call` if a counter cannot be read.
    pub fn read(&mut self) -> Result<Vec<LoadedReading>> {
        let elapsed = self.last.elapsed().as_secs_f64();
        self.last = Instant::now();
        let mut sums = vec![(ChaCounts::default(), 0_u32); self.scale.len()];
        for watch in &mut self.watches {
            let delta = watch.read()?;
            let (sum, boxes) = &mut sums[watch.tier];
            sum.inserts += delta.inserts;
            sum.occupancy += delta.occupancy;
            sum.clock += delta.clock;
            *boxes += 1;
        }
        let tiers = sums.iter().zip(&self.scale);
        Ok(tiers.map(|((sum, boxes), scale)| loaded(*sum, *boxes, *scale, elapsed)).collect())
    }
}

/// Little's law over `boxes` boxes that each counted for `elapsed` seconds.
#[expect(clippy::cast_precision_loss, reason = "counts of one quantum are far below 2^52")]
fn loaded(sum: ChaCounts, boxes: u32, scale: f64, elapsed: f64) -> LoadedReading {
    let clock = sum.clock as f64 / f64::from(boxes.max(1));
    if clock <= 0.0 || elapsed <= 0.0 {
        return LoadedReading::default();
    }
    let (inserts, occupancy) = (sum.inserts as f64, sum.occupancy as f64);
    let seconds_a_tick = elapsed / clock;
    LoadedReading {
        latency: (inserts > 0.0)
            .then(|| Nanos::from_secs_f64(occupancy / inserts * seconds_a_tick)),
        occupancy: occupancy / clock * scale,
        reads_per_sec: inserts / elapsed * scale,
    }
}

/// What each tier's boxes count. CPU-less memory with a CXL region or a DAX device is CXL memory;
/// without one it is DRAM.
pub fn sources(tiers: &Tiers, topology: &Topology) -> Vec<ReadSource> {
    let has_cpus = |tier: TierId| {
        let mut nodes = tiers[tier].nodes.iter().filter_map(|id| topology.node(*id));
        nodes.any(|node| !node.cpus.is_empty())
    };
    let with_cpus = tiers.iter().filter(|(id, _)| has_cpus(*id)).count();
    let is_cxl = |tier: TierId| {
        let dax = topology.dax.iter().filter_map(|dax| dax.target_node);
        !topology.cxl_regions.is_empty() || dax.into_iter().any(|n| tiers[tier].nodes.contains(&n))
    };
    let source = |tier: TierId| match has_cpus(tier) {
        true if with_cpus == 1 => ReadSource::Dram,
        true if tier == TierId::FAST => ReadSource::LocalDram,
        true => ReadSource::RemoteDram,
        false if is_cxl(tier) => ReadSource::Cxl,
        false => ReadSource::RemoteDram,
    };
    tiers.iter().map(|(id, _)| source(id)).collect()
}

/// The CHA units of this machine, by number.
pub fn boxes(root: &Root) -> Vec<String> {
    let number = |name: &String| name.strip_prefix("uncore_cha_")?.parse::<u32>().ok();
    let mut boxes: Vec<String> =
        root.list(UNITS).into_iter().filter(|name| number(name).is_some()).collect();
    boxes.sort_by_key(number);
    boxes
}

/// The event that counts a box's own clock, by CPU model (family 6).
fn clock_event(cpuinfo: &str) -> Option<u64> {
    let field = |name: &str| {
        let line =
            cpuinfo.lines().find(|line| line.split(':').next().map(str::trim) == Some(name))?;
        line.split_once(':')?.1.trim().parse::<u32>().ok()
    };
    match (field("cpu family")?, field("model")?) {
        // Ice Lake-SP and Ice Lake-D.
        (6, 106 | 108) => Some(0x00),
        // Sapphire, Emerald and Granite Rapids.
        (6, 143 | 207 | 173) => Some(0x01),
        _ => None,
    }
}

/// One unit as described in sysfs.
struct Unit {
    name: String,
    kind: u32,
    cpus: Vec<u32>,
    event: Vec<(u32, u32)>,
    umask: Vec<(u32, u32)>,
}

impl Unit {
    fn read(root: &Root, name: &str) -> Result<Self> {
        let folder = format!("{UNITS}/{name}");
        let text = |file: &str| root.read(format!("{folder}/{file}"));
        let format = |file: &'static str| {
            let found = text(&format!("format/{file}"))?;
            parse_format(&found).ok_or_else(|| Error::Format {
                path: root.path(format!("{folder}/format/{file}")),
                found,
                expected: "config: and bit ranges",
            })
        };
        let kind = root.read_number(format!("{folder}/type"))?;
        Ok(Self {
            name: name.into(),
            kind: u32::try_from(kind).unwrap_or(u32::MAX),
            cpus: parse_ids(&text("cpumask")?).unwrap_or_default(),
            event: format("event")?,
            umask: format("umask")?,
        })
    }

    fn watch(&self, cpu: u32, tier: usize, source: ReadSource, clock: u64) -> Result<TierCounters> {
        let count = |event: u64, umask: u64| {
            let config = spread(&self.event, event).zip(spread(&self.umask, umask));
            let (event, umask) = config.ok_or_else(|| {
                missing(format!("{} has no room for umask {umask:#x}: an older kernel?", self.name))
            })?;
            open(self.kind, event | umask, cpu, &self.name)
        };
        let mut watch = TierCounters {
            tier,
            inserts: count(INSERTS, source.umask())?,
            occupancy: count(OCCUPANCY, source.umask())?,
            clock: count(clock, 0)?,
            last: ChaCounts::default(),
        };
        watch.read()?;
        Ok(watch)
    }
}

impl TierCounters {
    fn read(&mut self) -> Result<ChaCounts> {
        let now = ChaCounts {
            inserts: value(&mut self.inserts)?,
            occupancy: value(&mut self.occupancy)?,
            clock: value(&mut self.clock)?,
        };
        let last = std::mem::replace(&mut self.last, now);
        Ok(ChaCounts {
            inserts: now.inserts.saturating_sub(last.inserts),
            occupancy: now.occupancy.saturating_sub(last.occupancy),
            clock: now.clock.saturating_sub(last.clock),
        })
    }
}

/// Parses `config:8-15,32-55` to bit ranges, lowest bit of the value first.
fn parse_format(text: &str) -> Option<Vec<(u32, u32)>> {
    let range = |item: &str| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last && last < 64).then_some((first, last))
    };
    text.trim().strip_prefix("config:")?.split(',').map(range).collect()
}

/// Writes `value` to the bits of `ranges`; `None` if it does not fit.
fn spread(ranges: &[(u32, u32)], mut value: u64) -> Option<u64> {
    let mut config = 0;
    for &(first, last) in ranges {
        let width = last - first + 1;
        let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
        config |= (value & mask) << first;
        value = value.checked_shr(width).unwrap_or(0);
    }
    (value == 0).then_some(config)
}

fn open(kind: u32, config: u64, cpu: u32, name: &str) -> Result<File> {
    let mut attr = perf::bindings::perf_event_attr {
        type_: kind,
        config,
        ..perf::bindings::perf_event_attr::default()
    };
    attr.size = u32::try_from(size_of_val(&attr)).unwrap_or(0);
    let cpu = i32::try_from(cpu).unwrap_or(-1);
    let flags = perf::bindings::PERF_FLAG_FD_CLOEXEC;
    // SAFETY: `attr` is initialised and contains its size; counting (no sampling) writes no memory.
    let fd = unsafe { perf::perf_event_open(&raw mut attr, -1, cpu, -1, flags.into()) };
    if fd < 0 {
        let call = format!("perf_event_open of {name} (config {config:#x}) on CPU {cpu}");
        return Err(Error::Call { call, source: io::Error::last_os_error() });
    }
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn value(file: &mut File) -> Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact(&mut bytes)
        .map_err(|source| Error::Call { call: "read of an uncore counter".into(), source })?;
    Ok(u64::from_ne_bytes(bytes))
}

fn missing(why: String) -> Error {
    Error::Missing {
        what: "loaded latency from the CPU's counters".into(),
        why,
        hint: "the latency probe is used instead, if it is enabled".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::{TWO_NODES, fake};

    #[test]
    fn codes_are_spread_over_the_unit_s_bit_ranges() {
        let umask = parse_format("config:8-15,32-55\n").expect("a format");
        let event = parse_format("config:0-7").expect("a format");
        assert_eq!(spread(&umask, ReadSource::LocalDram.umask()), Some(0x00c8_1686_0000_0100));
        assert_eq!(spread(&event, OCCUPANCY), Some(0x36));
        assert_eq!(spread(&umask, ReadSource::Cxl.umask()), None, "needs the wider field");
        let wide = parse_format("config:8-15,32-63").expect("a format");
        assert_eq!(spread(&wide, ReadSource::Cxl.umask()), Some(0x10c8_1782_0000_0100));
        assert_eq!(parse_format("config1:0-7"), None);
        assert_eq!(parse_format("config:9-70"), None);
    }

    #[test]
    fn littles_law() {
        // 2.4 GHz for 1 s on each of 2 boxes out of 4; 1e6 reads that stayed 240 cycles each.
        let sum = ChaCounts { inserts: 1_000_000, occupancy: 240_000_000, clock: 4_800_000_000 };
        let loaded = loaded(sum, 2, 2.0, 1.0);
        assert_eq!(loaded.latency, Some(Nanos(100)));
        assert!((loaded.reads_per_sec - 2e6).abs() < 1.0);
        assert!((loaded.occupancy - 0.2).abs() < 1e-9, "reads/s x latency");
        assert_eq!(super::loaded(ChaCounts::default(), 0, 1.0, 1.0).latency, None);
    }

    #[test]
    fn boxes_clocks_and_sources_are_found() {
        let mut files = TWO_NODES.to_vec();
        for unit in ["uncore_cha_10", "uncore_cha_2", "uncore_imc_0"] {
            files.push((
                match unit {
                    "uncore_cha_10" => "/sys/bus/event_source/devices/uncore_cha_10/type",
                    "uncore_cha_2" => "/sys/bus/event_source/devices/uncore_cha_2/type",
                    _ => "/sys/bus/event_source/devices/uncore_imc_0/type",
                },
                "9",
            ));
        }
        let (_dir, root) = fake(&files);
        assert_eq!(boxes(&root), ["uncore_cha_2", "uncore_cha_10"]);
        assert_eq!(clock_event("cpu family\t: 6\nmodel\t\t: 143\n"), Some(1));
        assert_eq!(clock_event("cpu family\t: 25\nmodel\t\t: 1\n"), None);
        let mut topology = Topology::read(&root).expect("topology");
        let tiers = topology.tiers(None).expect("tiers");
        assert_eq!(sources(&tiers, &topology), [ReadSource::Dram, ReadSource::RemoteDram]);
        topology.cxl_regions.push(crate::topology::CxlRegion {
            name: "region0".into(),
            size: tierline_core::unit::Bytes(1),
            committed: true,
            bound: true,
        });
        assert_eq!(sources(&tiers, &topology)[1], ReadSource::Cxl);
    }

    #[test]
    fn without_units_the_error_names_them_as_missing() {
        let (_dir, root) = fake(TWO_NODES);
        let topology = Topology::read(&root).expect("topology");
        let tiers = topology.tiers(None).expect("tiers");
        assert!(matches!(Cha::open(&root, &tiers, &topology), Err(Error::Missing { .. })));
    }
}
