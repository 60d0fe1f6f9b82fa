// SPDX-License-Identifier: Apache-2.0
//! Counters of the kernel: memory per node, page moves, pressure.

pub mod allocations;
pub mod page_in;

use std::collections::BTreeMap;

use serde::Serialize;
use tierline_core::port::TierTelemetry;
use tierline_core::tier::{NodeId, Tiers};
use tierline_core::unit::Bytes;

use crate::error::{Error, Result};
use crate::root::Root;
use crate::topology::{meminfo_field, zones};

/// Bit of `kernel.numa_balancing`: the kernel promotes itself, and keeps more memory free for it.
const KERNEL_TIERS: u64 = 2;

/// Memory of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NodeMemory {
    /// The node.
    pub node: NodeId,
    /// Total bytes.
    pub total: Bytes,
    /// Free, including the kernel's reserves; after moves, what is expected.
    pub free: Bytes,
    /// What moved pages must leave free; less may be free now. See [`zones::reserved`].
    pub reserved: Bytes,
    /// See [`cold_files`].
    pub cold_files: Bytes,
    /// Pages of files, and of shared memory.
    pub files: Bytes,
}

impl NodeMemory {
    /// Free for moved pages. Using more than this wakes kswapd.
    pub fn usable(&self) -> Bytes {
        self.free.saturating_sub(self.reserved)
    }

    /// What is missing from the reserve.
    pub fn lacking(&self) -> Bytes {
        self.reserved.saturating_sub(self.free)
    }
}

/// Reads the memory of every node of every tier.
///
/// # Errors
/// `Error::File` or `Error::Format` if a node's meminfo or `/proc/zoneinfo` cannot be read.
pub fn nodes(root: &Root, tiers: &Tiers) -> Result<Vec<NodeMemory>> {
    let zones = zones::read(root)?;
    let is_kernel_tiering = is_kernel_tiering(root);
    let ids = tiers.0.iter().flat_map(|tier| tier.nodes.iter().copied());
    let read = |node: NodeId| {
        let memory = node_memory(root, node)?;
        Ok(NodeMemory { reserved: zones::reserved(&zones, node, is_kernel_tiering), ..memory })
    };
    ids.map(read).collect()
}

/// Reads the memory of these nodes again, but not what is reserved: `/proc/zoneinfo` costs several times what all else here does,
/// grows with the processors, and what it says of reserves changes only by settings.
///
/// # Errors
/// `Error::File` or `Error::Format` if a node's meminfo cannot be read; those after it are left as they were.
pub fn read_again(root: &Root, nodes: &mut [NodeMemory]) -> Result<()> {
    for node in nodes {
        *node = NodeMemory { reserved: node.reserved, ..node_memory(root, node.node)? };
    }
    Ok(())
}

/// Subtracts what other programs have allocated since `nodes` were read: a page for which there is no room would be
/// reclaimed for, in a call that returns only afterwards.
///
/// # Errors
/// `Error::File` or `Error::Format` if a node's meminfo cannot be read; nothing counts as usable in that node then.
pub fn subtract_allocated<'a>(
    root: &Root,
    nodes: impl Iterator<Item = &'a mut NodeMemory>,
) -> Result<()> {
    for node in nodes {
        match node_memory(root, node.node) {
            Ok(now) => node.free = node.free.min(now.free),
            Err(error) => {
                node.free = Bytes::ZERO;
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Free bytes per tier without the kernel's reserves, `more` of each node included, or what is missing from these; the rest of
/// the telemetry is left unknown, as the kernel does not count it.
pub fn tiers(
    tiers: &Tiers,
    nodes: &[NodeMemory],
    more: impl Fn(&NodeMemory) -> Bytes,
) -> Vec<TierTelemetry> {
    let tier = |ids: &[NodeId]| {
        let here = || nodes.iter().filter(|memory| ids.contains(&memory.node));
        let free: Bytes = here().map(|memory| memory.usable() + more(memory)).sum();
        let lacking = here().map(NodeMemory::lacking).filter(|_| free == Bytes::ZERO).sum();
        TierTelemetry { free, lacking, ..TierTelemetry::default() }
    };
    tiers.0.iter().map(|one| tier(&one.nodes)).collect()
}

/// True if `kernel.numa_balancing` has the tiering bit set.
pub fn is_kernel_tiering(root: &Root) -> bool {
    let mode = root.read_number("/proc/sys/kernel/numa_balancing").unwrap_or(0);
    mode & KERNEL_TIERS != 0
}

/// Pages of files that the kernel considers cold, that no program maps, and that need not be written first.
pub(crate) fn cold_files([inactive, mapped, shared, dirty, in_writeback]: [Bytes; 5]) -> Bytes {
    // Trackers clear what the kernel would know by that a mapped page is hot. What is mapped includes shared memory, which
    // is not in the list of files. For pages to be written the kernel would wait.
    inactive.saturating_sub(mapped.saturating_sub(shared) + dirty + in_writeback)
}

/// What a node's meminfo says; nothing counts as reserved.
fn node_memory(root: &Root, node: NodeId) -> Result<NodeMemory> {
    let path = format!("/sys/devices/system/node/node{}/meminfo", node.0);
    let text = root.read(&path)?;
    let field = |name| meminfo_field(&text, name);
    let names = ["Inactive(file)", "Mapped", "Shmem", "Dirty", "Writeback"];
    let cold_files = cold_files(names.map(|name| field(name).unwrap_or_default()));
    let files = field("FilePages").unwrap_or_default();
    let both = field("MemTotal").zip(field("MemFree"));
    let of_both =
        |(total, free)| NodeMemory { node, total, free, reserved: Bytes::ZERO, cold_files, files };
    both.map(of_both).ok_or_else(|| Error::Format {
        path: root.path(path),
        found: text.lines().next().unwrap_or_default().into(),
        expected: "lines with MemTotal and MemFree",
    })
}

/// Counters as `name value` lines: `/proc/vmstat`, a node's vmstat, a group's memory.stat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelCounters(pub BTreeMap<String, u64>);

impl KernelCounters {
    /// The machine's `/proc/vmstat`.
    ///
    /// # Errors
    /// `Error::File` if it cannot be read.
    pub fn vmstat(root: &Root) -> Result<Self> {
        root.read("/proc/vmstat").map(|text| Self::parse(&text))
    }

    /// One node's vmstat.
    ///
    /// # Errors
    /// `Error::File` if there is no such node.
    pub fn of_node(root: &Root, node: NodeId) -> Result<Self> {
        let path = format!("/sys/devices/system/node/node{}/vmstat", node.0);
        root.read(path).map(|text| Self::parse(&text))
    }

    /// Lines that are not counters are skipped.
    pub fn parse(text: &str) -> Self {
        let counter = |line: &str| {
            let (name, value) = line.trim().split_once(' ')?;
            Some((name.to_string(), value.trim().parse().ok()?))
        };
        Self(text.lines().filter_map(counter).collect())
    }

    /// A counter; `None` if this kernel has none of that name.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// The counters of page moves: `pgpromote_*`, `pgdemote_*`, `pgmigrate_*`, `numa_*` and
    /// `thp_migration_*`.
    pub fn of_moves(&self) -> BTreeMap<&str, u64> {
        const PREFIXES: [&str; 5] =
            ["pgpromote_", "pgdemote_", "pgmigrate_", "numa_", "thp_migration_"];
        let wanted = |name: &str| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        let named = self.0.iter().map(|(name, value)| (name.as_str(), *value));
        named.filter(|(name, _)| wanted(name)).collect()
    }

    /// The increase since `before`, without counters that did not change.
    pub fn since(&self, before: &Self) -> BTreeMap<&str, u64> {
        let grown =
            |(name, value): (&'_ String, &u64)| value - before.get(name).unwrap_or(0).min(*value);
        let deltas = self.0.iter().map(|pair| (pair.0.as_str(), grown(pair)));
        deltas.filter(|(_, delta)| *delta > 0).collect()
    }
}

/// One line of a pressure file: shares of time in percent, and a total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stall {
    /// Percent of the last 10 s.
    pub avg10: f64,
    /// Percent of the last 60 s.
    pub avg60: f64,
    /// Percent of the last 300 s.
    pub avg300: f64,
    /// Microseconds since boot.
    pub total_us: u64,
}

/// A resource that tasks wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A processor.
    Cpu,
    /// Memory: its reclaim, and pages that must be read back.
    Memory,
    /// Devices.
    Io,
}

impl Resource {
    /// Its name in pressure files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
        }
    }
}

/// Pressure stall information (PSI): how long tasks waited for a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Pressure {
    /// At least one task waited.
    pub some: Stall,
    /// All tasks waited.
    pub full: Stall,
}

impl Pressure {
    /// The pressure of the machine, from `/proc/pressure`.
    ///
    /// # Errors
    /// `Error::Missing` if the kernel does not measure pressure.
    pub fn of_machine(root: &Root, of: Resource) -> Result<Self> {
        let path = format!("/proc/pressure/{}", of.name());
        match root.read(&path) {
            Ok(text) => Ok(Self::parse(&text)),
            Err(Error::File { source, .. }) => Err(Self::missing(&path, &source)),
            Err(error) => Err(error),
        }
    }

    /// The error of a pressure file that cannot be read: absent without CONFIG_PSI, unreadable without `psi=1`.
    pub(crate) fn missing(path: &str, source: &std::io::Error) -> Error {
        Error::Missing {
            what: "pressure stall information".into(),
            why: format!("cannot read {path}: {source}"),
            hint: "boot with psi=1 (the kernel needs CONFIG_PSI)".into(),
        }
    }

    /// Parses a pressure file.
    pub fn parse(text: &str) -> Self {
        let line = |kind: &str| {
            let found = text.lines().find(|line| line.split_whitespace().next() == Some(kind));
            found.map(stall).unwrap_or_default()
        };
        Self { some: line("some"), full: line("full") }
    }
}

fn stall(line: &str) -> Stall {
    let field = |name: &str| {
        let pairs = line.split_whitespace().filter_map(|word| word.split_once('='));
        pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next().unwrap_or_default()
    };
    let share = |name| field(name).parse().unwrap_or_default();
    Stall {
        avg10: share("avg10"),
        avg60: share("avg60"),
        avg300: share("avg300"),
        total_us: field("total").parse().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;
    use crate::topology::tests::{TWO_NODES, fake};

    #[test]
    fn usable_memory_excludes_the_kernels_reserves() {
        let zone = |node: u16| {
            format!(
                "Node {node}, zone Normal\n  pages free 60000\n high 100\n promo 200\n managed 70000\n"
            )
        };
        let zones = zone(0) + &zone(1);
        let mut files = TWO_NODES.to_vec();
        files.push(("/proc/zoneinfo", zones.as_str()));
        files.push(("/proc/sys/kernel/numa_balancing", "2\n"));
        let meminfo = "/sys/devices/system/node/node1/meminfo";
        let mut text = String::from("Node 1 MemTotal: 2097152 kB\nNode 1 MemFree: 1048576 kB\n");
        text += "Node 1 Inactive(file): 900 kB\nNode 1 Mapped: 500 kB\nNode 1 Shmem: 200 kB\n";
        text += "Node 1 Dirty: 30 kB\nNode 1 Writeback: 20 kB\n";
        files.push((meminfo, text.as_str()));
        let (_dir, root) = fake(&files);
        let machine = Topology::read(&root).expect("topology").tiers(None).expect("tiers");
        let nodes = nodes(&root, &machine).expect("nodes");
        assert_eq!(nodes.iter().map(|node| node.cold_files.0 >> 10).collect::<Vec<_>>(), [0, 550]);
        assert_eq!(nodes[0].free - nodes[0].usable(), Bytes::from_base_pages(200));
        let measured = tiers(&machine, &nodes, |_| Bytes::ZERO);
        assert_eq!((measured.len(), measured[1].free), (2, nodes[1].usable()));
        assert_eq!(measured[0].latency, None);
        let with_cold = tiers(&machine, &nodes, |node| node.cold_files);
        assert_eq!(with_cold[1].free, measured[1].free + nodes[1].cold_files);
        let reserved = nodes[1].free + Bytes(4096);
        let lacking = tiers(&machine, &[NodeMemory { reserved, ..nodes[1] }], |_| Bytes::ZERO);
        assert_eq!((lacking[1].free, lacking[1].lacking), (Bytes::ZERO, Bytes(4096)));
    }

    #[test]
    fn memory_is_read_again_without_the_zones() {
        let zone = "Node 0, zone Normal\n  pages free 60000\n high 100\n managed 70000\n";
        let meminfo = "/sys/devices/system/node/node0/meminfo";
        let mut files = TWO_NODES.to_vec();
        files.push(("/proc/zoneinfo", zone));
        let (_dir, root) = fake(&files);
        let machine = Topology::read(&root).expect("topology").tiers(None).expect("tiers");
        let mut memory = nodes(&root, &machine).expect("nodes");
        assert!(memory[0].reserved > Bytes::ZERO);
        let before = memory[0];
        let text = "Node 0 MemTotal: 2097152 kB\nNode 0 MemFree: 12 kB\nNode 0 MemUsed: 4 kB\n";
        std::fs::write(root.path(meminfo), text).expect("written");
        std::fs::remove_file(root.path("/proc/zoneinfo")).expect("removed");
        read_again(&root, &mut memory).expect("read");
        assert_eq!((memory[0].free, memory[0].reserved), (Bytes(12 << 10), before.reserved));
        std::fs::remove_file(root.path(meminfo)).expect("removed");
        assert!(read_again(&root, &mut memory).is_err());
    }

    #[test]
    fn what_others_allocated_is_not_usable() {
        let mib = |mib: u64| Bytes(mib << 20);
        let meminfo = "Node 0 MemTotal: 1048576 kB\nNode 0 MemFree: 102400 kB\n";
        let (_dir, root) = fake(&[("/sys/devices/system/node/node0/meminfo", meminfo)]);
        let read = |free| {
            let node = node_memory(&root, NodeId(0)).expect("readable");
            let mut nodes = [NodeMemory { free, reserved: mib(80), ..node }];
            subtract_allocated(&root, nodes.iter_mut()).expect("readable");
            (nodes[0].free, nodes[0].usable())
        };
        assert_eq!(read(mib(130)), (mib(100), mib(20)));
        assert_eq!(read(mib(90)), (mib(90), mib(10)), "more is free than expected");
        let node = node_memory(&root, NodeId(0)).expect("readable");
        let (_dir, root) = fake(&[]);
        let mut nodes = [NodeMemory { free: mib(9), ..node }];
        assert!(subtract_allocated(&root, nodes.iter_mut()).is_err());
        assert_eq!(nodes[0].usable(), mib(0));
    }

    #[test]
    fn counters_are_compared() {
        let before =
            KernelCounters::parse("pgpromote_success 5\nnr_free_pages 9\nodd\nnuma_hit x\n");
        let after = KernelCounters::parse("pgpromote_success 7\nnr_free_pages 3\npgdemote_new 1\n");
        assert_eq!(
            after.since(&before),
            BTreeMap::from([("pgpromote_success", 2), ("pgdemote_new", 1)])
        );
        assert_eq!(before.of_moves(), BTreeMap::from([("pgpromote_success", 5)]));
        assert_eq!(before.get("none"), None);
    }

    #[test]
    fn pressure_is_read() {
        let pressure = Pressure::parse(
            "some avg10=1.50 avg60=0.20 avg300=0.00 total=12345\nfull avg10=0.10 avg60=0 avg300=0 total=6\n",
        );
        assert_eq!((pressure.some.avg10, pressure.some.total_us), (1.5, 12345));
        assert_eq!(pressure.full.total_us, 6);
        assert_eq!(Pressure::parse("").some, Stall::default());
    }
}
