// SPDX-License-Identifier: Apache-2.0
//! The memory of this machine: nodes, their speed according to the firmware, CXL and DAX devices.

pub mod nodelist;
pub mod spec;
pub mod tiers;
pub mod zones;

use serde::Serialize;
use tierline_core::tier::{NodeId, Tiers};
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};

use crate::error::{Error, Result};
use crate::root::Root;
use nodelist::parse_ids;
pub use spec::TierSpec;
pub use zones::Zone;

const NODES: &str = "/sys/devices/system/node";
const MEMORY_TIERS: &str = "/sys/devices/virtual/memory_tiering";
const CXL: &str = "/sys/bus/cxl/devices";
const DAX: &str = "/sys/bus/dax/devices";

/// The speed of a node from its nearest initiators, according to the firmware (HMAT, CDAT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Access {
    /// Unloaded read latency.
    pub read_latency: Option<Nanos>,
    /// Unloaded write latency.
    pub write_latency: Option<Nanos>,
    /// Peak read bandwidth.
    pub read_bandwidth: Option<BytesPerSec>,
    /// Peak write bandwidth.
    pub write_bandwidth: Option<BytesPerSec>,
}

/// One NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its number.
    pub id: NodeId,
    /// Bytes of memory; zero for an empty node.
    pub capacity: Bytes,
    /// Free bytes, including the kernel's reserves.
    pub free: Bytes,
    /// Its CPUs; none for a memory expander.
    pub cpus: Vec<u32>,
    /// Distance (SLIT) to each online node, 10 = itself.
    pub distance: Vec<(NodeId, u32)>,
    /// Speed from the nearest CPUs; `None` without HMAT.
    pub access: Option<Access>,
    /// The kernel's memory tier (`memory_tierN`): the lower, the faster.
    pub memory_tier: Option<u32>,
    /// The nodes that the kernel demotes to from here; computed as in the kernel, which does not show them.
    pub demotes_to: Vec<NodeId>,
    /// The zones with memory.
    pub zones: Vec<Zone>,
}

/// A CXL memory region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CxlRegion {
    /// `region0`.
    pub name: String,
    /// Its size.
    pub size: Bytes,
    /// True if its decoders are committed.
    pub committed: bool,
    /// True if a driver is bound to it.
    pub bound: bool,
}

/// A DAX device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dax {
    /// `dax0.0`.
    pub name: String,
    /// Its size.
    pub size: Bytes,
    /// The present or future node of its memory; `None` if the kernel names none.
    pub target_node: Option<NodeId>,
    /// `kmem` if it serves as system memory, `device_dax` if programs map it.
    pub driver: Option<String>,
}

/// A machine's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// Online nodes, by number.
    pub nodes: Vec<Node>,
    /// True if the kernel demotes under pressure; `None` if it cannot.
    pub demotion_enabled: Option<bool>,
    /// CXL memory devices (`mem0`).
    pub cxl_memdevs: Vec<String>,
    /// CXL regions.
    pub cxl_regions: Vec<CxlRegion>,
    /// DAX devices.
    pub dax: Vec<Dax>,
}

impl Topology {
    /// Reads `/sys` and `/proc/zoneinfo`. Needs no privilege.
    ///
    /// # Errors
    /// `Error::Missing` if the kernel shows no nodes (CONFIG_NUMA off), `Error::File` and `Error::Format` if a
    /// node's files cannot be read or parsed.
    pub fn read(root: &Root) -> Result<Self> {
        let online = root.read(format!("{NODES}/online")).map_err(|_| Error::Missing {
            what: "NUMA".into(),
            why: format!("there is no {NODES}/online"),
            hint: "use a kernel with CONFIG_NUMA".into(),
        })?;
        let ids = node_ids(root, "online", &online)?;
        let zones = zones::read(root).unwrap_or_default();
        let tiers = memory_tiers(root);
        let mut nodes = Vec::with_capacity(ids.len());
        for &id in &ids {
            let mut node = read_node(root, id, &ids)?;
            node.zones = zones.iter().filter(|zone| zone.node == id).cloned().collect();
            node.memory_tier =
                tiers.iter().find(|(_, ids)| ids.contains(&id)).map(|(tier, _)| *tier);
            nodes.push(node);
        }
        tiers::compute_demotion_targets(&mut nodes);
        Ok(Self {
            nodes,
            demotion_enabled: root
                .read("/sys/kernel/mm/numa/demotion_enabled")
                .ok()
                .map(|text| matches!(text.trim(), "true" | "1" | "Y")),
            cxl_memdevs: devices(root, CXL, "mem"),
            cxl_regions: devices(root, CXL, "region")
                .into_iter()
                .map(|n| region(root, n))
                .collect(),
            dax: devices(root, DAX, "dax").into_iter().map(|name| dax(root, name)).collect(),
        })
    }

    /// The tiers of this machine, fastest first: those of `spec` if given, otherwise derived from the kernel's
    /// memory tiers, otherwise from HMAT, otherwise from which nodes have CPUs.
    ///
    /// # Errors
    /// `Error::OneTier` if the nodes cannot be divided into tiers, `Error::Input` if `spec` does not fit the
    /// machine.
    pub fn tiers(&self, spec: Option<&TierSpec>) -> Result<Tiers> {
        tiers::derive(self, spec)
    }

    /// The node with number `id`.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The nodes that have memory.
    pub fn with_memory(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.capacity > Bytes::ZERO)
    }

    /// The smallest distance from `node` to a node with CPUs; 10 if it has CPUs itself.
    pub fn distance_to_cpus(&self, node: &Node) -> u32 {
        if !node.cpus.is_empty() {
            return 10;
        }
        let has_cpus = |id: NodeId| self.node(id).is_some_and(|other| !other.cpus.is_empty());
        let near = node.distance.iter().filter(|(id, _)| has_cpus(*id));
        near.map(|(_, distance)| *distance).min().unwrap_or(u32::MAX)
    }
}

fn node_ids(root: &Root, file: &str, text: &str) -> Result<Vec<NodeId>> {
    let format = || Error::Format {
        path: root.path(format!("{NODES}/{file}")),
        found: text.into(),
        expected: "a node list, as in 0,2-3",
    };
    let ids = parse_ids(text).ok_or_else(format)?;
    ids.into_iter().map(|id| u16::try_from(id).map(NodeId).map_err(|_| format())).collect()
}

fn read_node(root: &Root, id: NodeId, online: &[NodeId]) -> Result<Node> {
    let folder = format!("{NODES}/node{}", id.0);
    let meminfo = root.read(format!("{folder}/meminfo"))?;
    let capacity = meminfo_field(&meminfo, "MemTotal").ok_or_else(|| Error::Format {
        path: root.path(format!("{folder}/meminfo")),
        found: meminfo.lines().next().unwrap_or_default().into(),
        expected: "a line with MemTotal",
    })?;
    let distances = root.read(format!("{folder}/distance")).unwrap_or_default();
    let distances = distances.split_whitespace().filter_map(|word| word.parse().ok());
    Ok(Node {
        id,
        capacity,
        free: meminfo_field(&meminfo, "MemFree").unwrap_or_default(),
        cpus: root
            .read(format!("{folder}/cpulist"))
            .ok()
            .and_then(|t| parse_ids(&t))
            .unwrap_or_default(),
        distance: online.iter().copied().zip(distances).collect(),
        access: read_access(root, &folder),
        ..Node::default()
    })
}

/// A field of a node's meminfo, as in `Node 0 MemFree:  3530504 kB`.
pub(crate) fn meminfo_field(text: &str, name: &str) -> Option<Bytes> {
    let (_, value) = text.split_once(&format!(" {name}:"))?;
    let kib: u64 = value.split_ascii_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024).map(Bytes)
}

/// Class 1 is the access from the nearest *CPUs*; class 0 may be that from a nearer accelerator.
fn read_access(root: &Root, folder: &str) -> Option<Access> {
    ["access1", "access0"].iter().find_map(|class| {
        let folder = format!("{folder}/{class}/initiators");
        let number = |name: &str| {
            root.read_number(format!("{folder}/{name}")).ok().filter(|&value| value > 0)
        };
        // The kernel's units are nanoseconds and MB/s.
        let rate = |name: &str| Some(BytesPerSec(number(name)?.checked_mul(1_000_000)?));
        let access = Access {
            read_latency: number("read_latency").map(Nanos),
            write_latency: number("write_latency").map(Nanos),
            read_bandwidth: rate("read_bandwidth"),
            write_bandwidth: rate("write_bandwidth"),
        };
        (access != Access::default()).then_some(access)
    })
}

fn memory_tiers(root: &Root) -> Vec<(u32, Vec<NodeId>)> {
    let tier = |name: String| {
        let number = name.strip_prefix("memory_tier")?.parse().ok()?;
        let list = root.read(format!("{MEMORY_TIERS}/{name}/nodelist")).ok()?;
        let ids = parse_ids(&list)?.into_iter().filter_map(|id| u16::try_from(id).ok());
        Some((number, ids.map(NodeId).collect()))
    };
    root.list(MEMORY_TIERS).into_iter().filter_map(tier).collect()
}

/// The entries of `folder` named `prefix` plus a number (or `N.M`).
fn devices(root: &Root, folder: &str, prefix: &str) -> Vec<String> {
    let numbered = |name: &String| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    root.list(folder).into_iter().filter(numbered).collect()
}

/// A number in sysfs format: decimal, or hexadecimal after `0x`.
fn sysfs_number(root: &Root, path: &str) -> Option<u64> {
    let text = root.read(path).ok()?;
    match text.trim().strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.trim().parse().ok(),
    }
}

fn region(root: &Root, name: String) -> CxlRegion {
    let folder = format!("{CXL}/{name}");
    CxlRegion {
        size: Bytes(sysfs_number(root, &format!("{folder}/size")).unwrap_or(0)),
        committed: sysfs_number(root, &format!("{folder}/commit")) == Some(1),
        bound: root.exists(format!("{folder}/driver")),
        name,
    }
}

fn dax(root: &Root, name: String) -> Dax {
    let folder = format!("{DAX}/{name}");
    let driver = std::fs::read_link(root.path(format!("{folder}/driver"))).ok();
    Dax {
        size: Bytes(sysfs_number(root, &format!("{folder}/size")).unwrap_or(0)),
        target_node: sysfs_number(root, &format!("{folder}/target_node"))
            .and_then(|id| u16::try_from(id).ok())
            .map(NodeId),
        driver: driver.and_then(|link| Some(link.file_name()?.to_str()?.to_string())),
        name,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;

    /// A fake root with the given files.
    pub(crate) fn fake(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let root = Root::at(dir.path());
        for (path, text) in files {
            let real = root.path(path);
            fs::create_dir_all(real.parent().expect("a parent")).expect("a folder");
            fs::write(real, text).expect("a file");
        }
        (dir, root)
    }

    pub(crate) const TWO_NODES: &[(&str, &str)] = &[
        ("/sys/devices/system/node/online", "0-1\n"),
        (
            "/sys/devices/system/node/node0/meminfo",
            "Node 0 MemTotal:  1048576 kB\nNode 0 MemFree:  524288 kB\n",
        ),
        ("/sys/devices/system/node/node0/cpulist", "0-1\n"),
        ("/sys/devices/system/node/node0/distance", "10 20\n"),
        (
            "/sys/devices/system/node/node1/meminfo",
            "Node 1 MemTotal:  2097152 kB\nNode 1 MemFree:  2097152 kB\n",
        ),
        ("/sys/devices/system/node/node1/cpulist", "\n"),
        ("/sys/devices/system/node/node1/distance", "20 10\n"),
        ("/sys/devices/system/node/node1/access0/initiators/read_latency", "200\n"),
        ("/sys/devices/system/node/node1/access0/initiators/read_bandwidth", "50000\n"),
        ("/sys/devices/virtual/memory_tiering/memory_tier4/nodelist", "0\n"),
        ("/sys/devices/virtual/memory_tiering/memory_tier51/nodelist", "1\n"),
        ("/sys/kernel/mm/numa/demotion_enabled", "false\n"),
    ];

    #[test]
    fn a_two_tier_guest_is_read() {
        let (_dir, root) = fake(TWO_NODES);
        let topology = Topology::read(&root).expect("a topology");
        let slow = topology.node(NodeId(1)).expect("node 1");
        assert_eq!(slow.capacity, Bytes(2 << 30));
        assert_eq!(slow.memory_tier, Some(51));
        assert_eq!(slow.access.and_then(|a| a.read_latency), Some(Nanos(200)));
        assert_eq!(slow.access.and_then(|a| a.read_bandwidth), Some(BytesPerSec(50_000_000_000)));
        assert_eq!(topology.nodes[0].cpus, [0, 1]);
        assert_eq!(topology.nodes[0].demotes_to, [NodeId(1)]);
        assert_eq!(topology.distance_to_cpus(slow), 20);
        assert_eq!(topology.demotion_enabled, Some(false));
    }

    #[test]
    fn cxl_and_dax_devices_are_listed() {
        let (_dir, root) = fake(&[
            ("/sys/devices/system/node/online", "0\n"),
            ("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 4 kB\n"),
            ("/sys/bus/cxl/devices/mem0/serial", "0x1\n"),
            ("/sys/bus/cxl/devices/region0/size", "0x40000000\n"),
            ("/sys/bus/cxl/devices/region0/commit", "1\n"),
            ("/sys/bus/dax/devices/dax0.0/size", "1073741824\n"),
            ("/sys/bus/dax/devices/dax0.0/target_node", "1\n"),
        ]);
        let topology = Topology::read(&root).expect("a topology");
        assert_eq!(topology.cxl_memdevs, ["mem0"]);
        assert_eq!(topology.cxl_regions[0].size, Bytes(1 << 30));
        assert!(topology.cxl_regions[0].committed && !topology.cxl_regions[0].bound);
        assert_eq!(topology.dax[0].target_node, Some(NodeId(1)));
        assert_eq!(topology.dax[0].driver, None);
    }

    #[test]
    fn malformed_kernel_files_are_an_error_not_a_panic() {
        let (_dir, root) = fake(&[("/sys/devices/system/node/online", "0-\n")]);
        assert!(matches!(Topology::read(&root), Err(Error::Format { .. })));
        let (_dir, root) = fake(&[]);
        assert!(matches!(Topology::read(&root), Err(Error::Missing { .. })));
        assert_eq!(meminfo_field("Node 0 MemTotal: x kB", "MemTotal"), None);
    }
}
