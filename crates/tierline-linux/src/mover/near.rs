// SPDX-License-Identifier: Apache-2.0
//! Which node of a tier a page goes to, on a machine with several sockets.
//!
//! A promoted page goes near the processors that access it: where its process runs, if it runs on one socket, as the
//! kernel promotes to the node of the processor that faults. Else it goes to the node under the least pressure (TPP,
//! 5.3). A demoted page goes to the node nearest to where it is (TPP, 5.1).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tierline_core::tier::NodeId;
use tierline_core::unit::Bytes;

use crate::process::stat::Stat;
use crate::root::Root;
use crate::topology::{Node, Topology};

/// A process runs on one socket if its threads spent this part of their time there. Ours.
const MOST: f64 = 0.75;
/// How long the answer is valid. Ours.
const VALID: Duration = Duration::from_secs(1);
/// Threads looked at: each costs a file read. Ours.
const THREADS: usize = 64;

/// The distances of nodes, and where processes run.
#[derive(Debug, Default)]
pub struct Near {
    root: Root,
    nodes: Vec<Node>,
    homes: BTreeMap<u32, (Instant, Option<NodeId>)>,
}

impl Near {
    /// Reads the machine's nodes. Without them, no node is nearer than another.
    pub fn read(root: &Root) -> Self {
        let nodes = Topology::read(root).map(|topology| topology.nodes).unwrap_or_default();
        Self { root: root.clone(), nodes, homes: BTreeMap::new() }
    }

    /// The node on whose processors a process runs; `None` if the machine has one socket, or the process runs on several.
    pub fn home(&mut self, pid: u32) -> Option<NodeId> {
        if self.nodes.iter().filter(|node| !node.cpus.is_empty()).count() < 2 {
            return None;
        }
        let now = Instant::now();
        if let Some(&(at, home)) = self.homes.get(&pid)
            && now.duration_since(at) < VALID
        {
            return home;
        }
        self.homes.retain(|_, (at, _)| now.duration_since(*at) < VALID);
        let home = self.root.process(pid).and_then(|process| {
            let threads = process.numbers("task").into_iter().take(THREADS);
            let stat =
                |thread| Stat::parse(&process.read_text(&format!("task/{thread}/stat")).ok()?);
            self.runs_on(threads.filter_map(stat))
        });
        self.homes.insert(pid, (now, home));
        home
    }

    /// Threads count by their CPU time, each for the processor that it ran on last.
    fn runs_on(&self, threads: impl Iterator<Item = Stat>) -> Option<NodeId> {
        let mut ran: BTreeMap<NodeId, u64> = BTreeMap::new();
        for thread in threads {
            if let Some(node) = self.nodes.iter().find(|node| node.cpus.contains(&thread.cpu)) {
                // A thread that has just started counts, too.
                *ran.entry(node.id).or_default() += thread.ran.max(1);
            }
        }
        let all: u64 = ran.values().sum();
        let (node, most) = ran.into_iter().max_by_key(|(_, ran)| *ran)?;
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        (most as f64 >= MOST * all as f64).then_some(node)
    }

    fn distance(&self, from: NodeId, to: NodeId) -> u32 {
        let from = self.nodes.iter().find(|node| node.id == from);
        let known = from.and_then(|node| node.distance.iter().find(|(id, _)| *id == to));
        known.map_or(u32::MAX, |(_, distance)| *distance)
    }
}

/// Memory that can be used in the nodes of a tier.
#[derive(Debug)]
pub struct Rooms {
    /// In the order in which they are used where none is nearer.
    nodes: Vec<(NodeId, Bytes)>,
    /// The same, nearest first, by where pages should be near.
    nearest: BTreeMap<NodeId, Vec<usize>>,
}

impl Rooms {
    /// Of these nodes.
    pub fn new(nodes: Vec<(NodeId, Bytes)>) -> Self {
        Self { nodes, nearest: BTreeMap::new() }
    }

    /// Takes room for a page in the nearest node that has it.
    pub fn take(&mut self, near: &Near, to: Option<NodeId>, size: Bytes) -> Option<NodeId> {
        let Self { nodes, nearest } = self;
        let order = to.filter(|_| nodes.len() > 1).map(|to| {
            &*nearest.entry(to).or_insert_with(|| {
                let mut order: Vec<usize> = (0..nodes.len()).collect();
                order.sort_by_key(|&at| near.distance(to, nodes[at].0));
                order
            })
        });
        let has_room = |&at: &usize| nodes[at].1 >= size;
        let at = match order {
            Some(order) => order.iter().copied().find(has_room),
            None => (0..nodes.len()).find(has_room),
        }?;
        nodes[at].1 -= size;
        Some(nodes[at].0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::stat::tests::text;

    const MIB: Bytes = Bytes(1 << 20);

    /// Two sockets with a fast and a slow node each: 0 and 2, 1 and 3.
    fn machine() -> Near {
        let node = |id: u16, cpus: &[u32], distance: [u32; 4]| Node {
            id: NodeId(id),
            cpus: cpus.to_vec(),
            distance: (0..).map(NodeId).zip(distance).collect(),
            ..Node::default()
        };
        let nodes = vec![
            node(0, &[0, 1], [10, 21, 24, 34]),
            node(1, &[2, 3], [21, 10, 34, 24]),
            node(2, &[], [24, 34, 10, 44]),
            node(3, &[], [34, 24, 44, 10]),
        ];
        Near { root: Root::default(), nodes, homes: BTreeMap::new() }
    }

    /// The processor and the CPU time of each thread.
    fn home_of(threads: &[(u32, u64)]) -> Option<u16> {
        let own = Stat::parse(&text(7, "it", 1, 1, 1, 1)).expect("a stat");
        let threads = threads.iter().map(|&(cpu, ran)| Stat { cpu, ran, ..own.clone() });
        machine().runs_on(threads).map(|node| node.0)
    }

    #[test]
    fn a_process_is_at_home_where_its_busy_threads_run() {
        assert_eq!(home_of(&[(2, 100)]), Some(1));
        assert_eq!(home_of(&[(0, 0), (2, 50), (3, 50)]), Some(1));
        assert_eq!(home_of(&[(1, 500), (2, 500)]), None);
        assert_eq!(home_of(&[(0, 0)]), Some(0));
        assert_eq!(home_of(&[]), None);
    }

    #[test]
    fn home_is_read_from_the_threads_of_a_process_and_not_on_one_socket() {
        let mut near = machine();
        near.nodes[1].cpus = (0..4096).collect(); // whatever processors this machine has
        near.nodes[0].cpus = vec![4096];
        assert_eq!(near.home(std::process::id()), Some(NodeId(1)));
        near.nodes[0].cpus.clear();
        assert_eq!(near.home(std::process::id()), None, "one socket");
    }

    #[test]
    fn room_is_taken_from_the_nearest_node_that_has_it() {
        let near = machine();
        let mut slow = Rooms::new(vec![(NodeId(2), MIB * 2), (NodeId(3), MIB)]);
        let mut take = |from| slow.take(&near, from, MIB).map(|node| node.0);
        assert_eq!(take(Some(NodeId(1))), Some(3));
        assert_eq!(take(Some(NodeId(1))), Some(2), "node 3 is full");
        assert_eq!(take(None), Some(2));
        assert_eq!(take(Some(NodeId(0))), None);
    }
}
