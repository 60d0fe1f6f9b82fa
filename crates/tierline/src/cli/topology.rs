// SPDX-License-Identifier: Apache-2.0
//! `tierline topology`: shows nodes and tiers.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tierline_core::tier::{NodeId, Tier, Tiers};
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};
use tierline_linux::topology::{Node, TierSpec, Topology};

use super::Globals;
use crate::config::value::OrAuto;
use crate::print::{self, or_dash, row};
use crate::report_error;

/// Show nodes and tiers of this machine
#[derive(Debug, Args)]
#[command(after_help = "Example: tierline topology --tiers fast=0,slow=1")]
pub struct TopologyArgs {
    /// Tiers given by hand, as in fast=0,slow=1 [default: from the machine's own description]
    #[arg(long, value_name = "TIERS", default_value = "auto", hide_default_value = true)]
    tiers: OrAuto<TierSpec>,
}

#[derive(Serialize)]
struct Report {
    tiers: Vec<TierReport>,
    /// Why there are no tiers.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_tiers: Option<String>,
    nodes: Vec<NodeReport>,
    demotion_enabled: Option<bool>,
    cxl_memdevs: Vec<String>,
    cxl_regions: Vec<RegionReport>,
    dax: Vec<DaxReport>,
}

#[derive(Serialize)]
struct TierReport {
    name: String,
    nodes: Vec<NodeId>,
    capacity_bytes: Bytes,
    latency_ns: Option<Nanos>,
    bandwidth_bytes_per_second: Option<BytesPerSec>,
}

#[derive(Serialize)]
struct NodeReport {
    node: NodeId,
    capacity_bytes: Bytes,
    free_bytes: Bytes,
    cpus: Vec<u32>,
    distances: Vec<(NodeId, u32)>,
    read_latency_ns: Option<Nanos>,
    write_latency_ns: Option<Nanos>,
    read_bandwidth_bytes_per_second: Option<BytesPerSec>,
    write_bandwidth_bytes_per_second: Option<BytesPerSec>,
    memory_tier: Option<u32>,
    demotes_to: Vec<NodeId>,
    zones: Vec<String>,
}

#[derive(Serialize)]
struct RegionReport {
    name: String,
    size_bytes: Bytes,
    committed: bool,
    bound: bool,
}

#[derive(Serialize)]
struct DaxReport {
    name: String,
    size_bytes: Bytes,
    target_node: Option<NodeId>,
    driver: Option<String>,
}

impl TopologyArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let topology = Topology::read(&globals.root())?;
        let tiers = topology.tiers(self.tiers.0.as_ref()).map_err(anyhow::Error::from);
        if self.tiers.0.is_some() && tiers.is_err() {
            tiers?;
            return Ok(0);
        }
        match globals.json {
            true => print::json(&report(&topology, tiers.as_ref()))?,
            false => print::out(&describe(&topology, tiers.as_ref()))?,
        }
        Ok(0)
    }
}

fn report(topology: &Topology, tiers: Result<&Tiers, &anyhow::Error>) -> Report {
    Report {
        tiers: tiers.ok().into_iter().flat_map(|tiers| tiers.0.iter().map(tier_report)).collect(),
        no_tiers: tiers.err().map(report_error::text),
        nodes: topology.nodes.iter().map(node_report).collect(),
        demotion_enabled: topology.demotion_enabled,
        cxl_memdevs: topology.cxl_memdevs.clone(),
        cxl_regions: topology
            .cxl_regions
            .iter()
            .map(|region| RegionReport {
                name: region.name.clone(),
                size_bytes: region.size,
                committed: region.committed,
                bound: region.bound,
            })
            .collect(),
        dax: topology
            .dax
            .iter()
            .map(|dax| DaxReport {
                name: dax.name.clone(),
                size_bytes: dax.size,
                target_node: dax.target_node,
                driver: dax.driver.clone(),
            })
            .collect(),
    }
}

fn tier_report(tier: &Tier) -> TierReport {
    TierReport {
        name: tier.name.clone(),
        nodes: tier.nodes.clone(),
        capacity_bytes: tier.capacity,
        latency_ns: tier.latency,
        bandwidth_bytes_per_second: tier.bandwidth,
    }
}

fn node_report(node: &Node) -> NodeReport {
    let access = node.access.unwrap_or_default();
    NodeReport {
        node: node.id,
        capacity_bytes: node.capacity,
        free_bytes: node.free,
        cpus: node.cpus.clone(),
        distances: node.distance.clone(),
        read_latency_ns: access.read_latency,
        write_latency_ns: access.write_latency,
        read_bandwidth_bytes_per_second: access.read_bandwidth,
        write_bandwidth_bytes_per_second: access.write_bandwidth,
        memory_tier: node.memory_tier,
        demotes_to: node.demotes_to.clone(),
        zones: node.zones.iter().map(|zone| zone.name.clone()).collect(),
    }
}

fn describe(topology: &Topology, tiers: Result<&Tiers, &anyhow::Error>) -> String {
    let mut text = match tiers {
        Ok(tiers) => tier_table(tiers),
        Err(error) => no_tiers(error),
    };
    text.push('\n');
    text += &node_table(topology);
    for region in &topology.cxl_regions {
        let state = if region.bound { "in use" } else { "not in use" };
        text += &format!("CXL {}: {}, {state}\n", region.name, region.size);
    }
    for dax in &topology.dax {
        let driver = dax.driver.as_deref().unwrap_or("no driver");
        text += &format!("DAX {}: {}, {driver}\n", dax.name, dax.size);
    }
    text
}

fn no_tiers(error: &anyhow::Error) -> String {
    let hint = report_error::hint(error).map(|hint| format!("  {hint}\n")).unwrap_or_default();
    format!("{}\n{hint}", report_error::text(error))
}

fn tier_table(tiers: &Tiers) -> String {
    let mut rows = vec![row(["tier", "nodes", "capacity", "latency", "bandwidth"])];
    rows.extend(tiers.0.iter().map(|tier| {
        let (capacity, latency) = (tier.capacity.to_string(), or_dash(tier.latency));
        row([&tier.name, &ids(&tier.nodes), &capacity, &latency, &or_dash(tier.bandwidth)])
    }));
    print::table(&rows)
}

fn node_table(topology: &Topology) -> String {
    let head = ["node", "capacity", "free", "CPUs", "latency", "memory tier", "demotes to"];
    let mut rows = vec![row(head)];
    rows.extend(topology.nodes.iter().map(|node| {
        let latency = node.access.and_then(|access| access.read_latency);
        row([
            &node.id.0.to_string(),
            &node.capacity.to_string(),
            &node.free.to_string(),
            &node.cpus.len().to_string(),
            &or_dash(latency),
            &or_dash(node.memory_tier),
            &ids(&node.demotes_to),
        ])
    }));
    print::table(&rows)
}

fn ids(nodes: &[NodeId]) -> String {
    let ids: Vec<String> = nodes.iter().map(|node| node.0.to_string()).collect();
    if ids.is_empty() { "-".into() } else { ids.join(",") }
}
