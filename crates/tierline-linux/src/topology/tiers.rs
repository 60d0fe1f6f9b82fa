// SPDX-License-Identifier: Apache-2.0
//! Derives tiers from nodes, without node numbers from the user.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use tierline_core::tier::{NodeId, Tier, TierId, Tiers};
use tierline_core::unit::BytesPerSec;

use super::{Access, Node, TierSpec, Topology};
use crate::error::{Error, Result};

/// Nodes whose speed differs by less than this factor are one tier. Ours: the kernel's granularity is an
/// eighth of DRAM's speed; a quarter keeps the sockets of one machine together.
const SAME_SPEED: f64 = 1.25;

/// See [`Topology::tiers`].
pub(super) fn derive(topology: &Topology, spec: Option<&TierSpec>) -> Result<Tiers> {
    if let Some(spec) = spec {
        return by_hand(topology, spec);
    }
    let groups = [by_memory_tier, by_speed, by_cpus].iter().map(|by| by(topology));
    let Some(mut groups) = groups.into_iter().find(|groups| groups.len() > 1) else {
        return Err(Error::OneTier { found: describe(topology) });
    };
    while groups.len() > TierId::MAX {
        let slowest = groups.pop().unwrap_or_default();
        groups.last_mut().into_iter().for_each(|last| last.extend_from_slice(&slowest));
    }
    let names = names(groups.len());
    let tiers = names.into_iter().zip(groups).map(|(name, ids)| tier(topology, name, ids));
    Ok(Tiers(tiers.collect()))
}

/// Sets each node's `demotes_to` as the kernel does: the nearest nodes of the next slower memory tier that
/// has nodes.
pub(super) fn compute_demotion_targets(nodes: &mut [Node]) {
    let tiers: Vec<(NodeId, u32)> =
        nodes.iter().filter_map(|node| Some((node.id, node.memory_tier?))).collect();
    for node in nodes {
        let Some(own) = node.memory_tier else { continue };
        let next = tiers.iter().map(|(_, tier)| *tier).filter(|tier| *tier > own).min();
        let below: Vec<(u32, NodeId)> = node
            .distance
            .iter()
            .filter(|(id, _)| tiers.iter().any(|(other, tier)| other == id && Some(*tier) == next))
            .map(|(id, distance)| (*distance, *id))
            .collect();
        let nearest = below.iter().map(|(distance, _)| *distance).min();
        let chosen = below.iter().filter(|(distance, _)| Some(*distance) == nearest);
        node.demotes_to = chosen.map(|(_, id)| *id).collect();
    }
}

fn by_memory_tier(topology: &Topology) -> Vec<Vec<NodeId>> {
    let mut tiers: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
    for node in topology.with_memory() {
        let Some(tier) = node.memory_tier else { return Vec::new() };
        tiers.entry(tier).or_default().push(node.id);
    }
    tiers.into_values().collect()
}

/// Groups nodes by HMAT; empty if a node has no entry.
fn by_speed(topology: &Topology) -> Vec<Vec<NodeId>> {
    let mut slowness: Vec<(f64, NodeId)> = Vec::new();
    for node in topology.with_memory() {
        let Some(value) = node.access.as_ref().and_then(slowness_of) else { return Vec::new() };
        slowness.push((value, node.id));
    }
    slowness.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal));
    let clusters = slowness.chunk_by(|a, b| b.0 < a.0 * SAME_SPEED);
    clusters.map(|cluster| cluster.iter().map(|(_, id)| *id).collect()).collect()
}

/// Latency divided by bandwidth, the kernel's own measure (`mt_perf_to_adistance`): HBM, whose latency is a
/// little worse and whose bandwidth is far better than DRAM's, counts as faster.
#[expect(clippy::cast_precision_loss, reason = "nanoseconds and bytes per second of hardware")]
fn slowness_of(access: &Access) -> Option<f64> {
    let latency = access.read_latency?.0 as f64;
    let bandwidth = access.read_bandwidth.map_or(1e9, |rate| rate.0 as f64);
    (latency > 0.0 && bandwidth > 0.0).then_some(latency / bandwidth)
}

/// Nodes with CPUs are the fastest; the others follow by their distance from the nearest CPUs.
fn by_cpus(topology: &Topology) -> Vec<Vec<NodeId>> {
    let mut rings: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
    for node in topology.with_memory() {
        rings.entry(topology.distance_to_cpus(node)).or_default().push(node.id);
    }
    rings.into_values().collect()
}

fn by_hand(topology: &Topology, spec: &TierSpec) -> Result<Tiers> {
    let wrong = |why: String| Error::Input { what: "tiers", found: spec.to_string(), why };
    let present: Vec<NodeId> = topology.with_memory().map(|node| node.id).collect();
    let mut taken: Vec<NodeId> = Vec::new();
    let mut tiers = Vec::new();
    for (name, list) in &spec.0 {
        let ids = list.resolve(&present).map_err(|absent| {
            wrong(format!("no memory on {absent:?}; nodes with memory: {}", show(&present)))
        })?;
        if ids.is_empty() {
            return Err(wrong(format!("the tier {name} has no node")));
        }
        if let Some(twice) = ids.iter().find(|id| taken.contains(id)) {
            return Err(wrong(format!("node {} is in two tiers", twice.0)));
        }
        taken.extend_from_slice(&ids);
        tiers.push(tier(topology, name.clone(), ids));
    }
    Ok(Tiers(tiers))
}

fn names(count: usize) -> Vec<String> {
    let middle = |at: usize| match count {
        3 => "middle".to_string(),
        _ => format!("middle{at}"),
    };
    let name = |at: usize| match at {
        0 => "fast".to_string(),
        _ if at + 1 == count => "slow".to_string(),
        _ => middle(at),
    };
    (0..count).map(name).collect()
}

fn tier(topology: &Topology, name: String, mut ids: Vec<NodeId>) -> Tier {
    ids.sort_by_key(|id| (topology.node(*id).map(|node| topology.distance_to_cpus(node)), *id));
    let nodes: Vec<&Node> = ids.iter().filter_map(|id| topology.node(*id)).collect();
    let accesses = || nodes.iter().filter_map(|node| node.access);
    let rates: Vec<u64> = accesses().filter_map(|a| a.read_bandwidth).map(|rate| rate.0).collect();
    Tier {
        name,
        capacity: nodes.iter().map(|node| node.capacity).sum(),
        latency: accesses().filter_map(|a| a.read_latency).min(),
        bandwidth: (!rates.is_empty()).then(|| BytesPerSec(rates.iter().sum())),
        nodes: ids,
    }
}

fn show(ids: &[NodeId]) -> String {
    ids.iter().map(|id| id.0.to_string()).collect::<Vec<_>>().join(",")
}

fn describe(topology: &Topology) -> String {
    let nodes: Vec<&Node> = topology.with_memory().collect();
    let ids: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
    match nodes[..] {
        [] => "no node has memory".into(),
        [one] => format!("the only node with memory is node {} ({})", one.id.0, one.capacity),
        _ => format!(
            "nodes {} are in one memory tier, are equally fast by HMAT or have no HMAT, and all have CPUs",
            show(&ids)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::{TWO_NODES, fake};
    use tierline_core::unit::{Bytes, Nanos};

    fn node(id: u16, cpus: u32, distance: &[u32]) -> Node {
        let distance = distance.iter().enumerate();
        Node {
            id: NodeId(id),
            capacity: Bytes(1 << 30),
            cpus: (0..cpus).collect(),
            distance: distance
                .map(|(at, d)| (NodeId(u16::try_from(at).expect("few")), *d))
                .collect(),
            ..Node::default()
        }
    }

    fn access(latency: u64, bandwidth: u64) -> Option<Access> {
        Some(Access {
            read_latency: Some(Nanos(latency)),
            read_bandwidth: Some(BytesPerSec(bandwidth)),
            ..Access::default()
        })
    }

    fn machine(nodes: Vec<Node>) -> Topology {
        Topology { nodes, ..Topology::default() }
    }

    fn ids(tiers: &Tiers) -> Vec<Vec<u16>> {
        tiers.0.iter().map(|tier| tier.nodes.iter().map(|id| id.0).collect()).collect()
    }

    #[test]
    fn memory_tiers_come_first() {
        let (_dir, root) = fake(TWO_NODES);
        let tiers = Topology::read(&root).expect("read").tiers(None).expect("tiers");
        assert_eq!(ids(&tiers), [[0], [1]]);
        assert_eq!((tiers.0[0].name.as_str(), tiers.0[1].name.as_str()), ("fast", "slow"));
        assert_eq!(tiers.0[1].latency, Some(Nanos(200)));
        assert_eq!(tiers.0[1].capacity, Bytes(2 << 30));
    }

    #[test]
    fn hbm_is_above_dram_and_cxl_below_by_hmat() {
        let mut nodes = vec![
            node(0, 4, &[10, 21, 13, 30]),
            node(1, 4, &[21, 10, 23, 30]),
            node(2, 0, &[13, 23, 10, 30]),
            node(3, 0, &[30, 30, 30, 10]),
        ];
        nodes[0].access = access(100, 200);
        nodes[1].access = access(105, 200);
        nodes[2].access = access(120, 800);
        nodes[3].access = access(250, 50);
        nodes.iter_mut().for_each(|node| node.memory_tier = Some(4));
        assert_eq!(
            ids(&machine(nodes).tiers(None).expect("tiers")),
            [vec![2], vec![0, 1], vec![3]]
        );
    }

    #[test]
    fn without_any_table_distance_from_cpus_decides_and_empty_nodes_are_skipped() {
        let mut nodes = vec![
            node(0, 4, &[10, 17, 28, 28]),
            node(1, 0, &[17, 10, 28, 28]),
            node(2, 0, &[28, 28, 10, 28]),
            node(3, 0, &[28, 28, 28, 10]),
        ];
        nodes[3].capacity = Bytes::ZERO;
        let tiers = machine(nodes).tiers(None).expect("tiers");
        assert_eq!(ids(&tiers), [[0], [1], [2]]);
        assert_eq!(tiers.0[1].name, "middle");
    }

    #[test]
    fn a_machine_with_one_tier_is_an_error() {
        let error = machine(vec![node(0, 2, &[10])]).tiers(None).expect_err("one node");
        assert!(matches!(error, Error::OneTier { .. }));
        assert!(error.hint().expect("a hint").contains("tierline doctor"));
        let two = machine(vec![node(0, 2, &[10, 20]), node(1, 2, &[20, 10])]);
        assert!(matches!(two.tiers(None), Err(Error::OneTier { .. })));
        let spec = "fast=0,slow=1".parse().expect("a spec");
        assert_eq!(ids(&two.tiers(Some(&spec)).expect("by hand")), [[0], [1]]);
    }

    #[test]
    fn a_spec_that_does_not_fit_is_explained() {
        let two = machine(vec![node(0, 2, &[10, 20]), node(1, 0, &[20, 10])]);
        for (text, part) in [
            ("fast=0,slow=7", "[7]"),
            ("fast=0,slow=all", "two tiers"),
            ("fast=all,slow=!0,1", "no node"),
        ] {
            let spec = text.parse().expect("a spec");
            let error = two.tiers(Some(&spec)).expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
        let spec = "slow=!0,fast=0".parse().expect("a spec");
        assert_eq!(ids(&two.tiers(Some(&spec)).expect("by hand")), [[1], [0]]);
    }

    #[test]
    fn the_kernels_demotion_targets_are_the_nearest_below() {
        let mut nodes = vec![
            node(0, 2, &[10, 21, 17, 28]),
            node(1, 2, &[21, 10, 28, 17]),
            node(2, 0, &[17, 28, 10, 28]),
            node(3, 0, &[28, 17, 28, 10]),
        ];
        for (node, tier) in nodes.iter_mut().zip([4, 4, 22, 22]) {
            node.memory_tier = Some(tier);
        }
        compute_demotion_targets(&mut nodes);
        let targets: Vec<_> = nodes.iter().map(|node| node.demotes_to.clone()).collect();
        assert_eq!(targets, [vec![NodeId(2)], vec![NodeId(3)], vec![], vec![]]);
    }
}
