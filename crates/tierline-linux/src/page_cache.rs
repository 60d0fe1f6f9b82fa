// SPDX-License-Identifier: Apache-2.0
//! Cold pages of files that no program maps give way to pages that programs use.
//!
//! On a machine that has run for a while such pages fill all memory. No tracker sees them, as they are in no page table, and
//! in fast memory the kernel alone would keep them: as long as slow memory is free, it reclaims nothing there. So they count
//! as free, and when room is needed, the kernel is asked to take those that it considers oldest: to move them to slower
//! memory, or, in the slowest, to drop them as for any allocation. `demotion_enabled` is on while it moves. While programs
//! allocate, some room is made ahead: new pages, which tend to be hot, would otherwise start in slow memory.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use tierline_core::policy::parts::headroom::Headroom;
use tierline_core::port::Allocated;
use tierline_core::tier::{NodeId, Tiers};
use tierline_core::unit::{Bytes, Nanos};

use crate::conflicts::DEMOTION;
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::root::Root;
use crate::topology::{Node, Topology};

/// MGLRU's generations of every control group and node; debugfs.
const GENERATIONS: &str = "/sys/kernel/debug/lru_gen";
/// MGLRU takes no pages of its youngest generations (the kernel's `MIN_NR_GENS`).
const YOUNGEST: u64 = 2;

/// The least that is asked for at once, so that it costs little per page, and the most: some 40 ms. Ours.
const LEAST: Bytes = Bytes(4 << 20);
const MOST: Bytes = Bytes(32 << 20);
/// Part of what is free below a node that its pages may use: what finds no room there is dropped. Ours.
const OF_BELOW: u64 = 2;
/// Part of fast memory that is kept free at most while programs allocate: 2 % (TPP, section 5.1).
const HEADROOM_OF: u64 = 50;
/// Time for which a node counts as having no such pages, after less than half of what was asked for was freed, or after
/// that took too long. Ours.
const PAUSE: Nanos = Nanos::from_secs(10);
/// The longest time that asking may take, more than ten times what the largest lot takes. Ours.
const LONGEST: Duration = Duration::from_millis(500);

/// How the kernel is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The node's `reclaim` (since Linux 6.17).
    Node,
    /// The debug interface of MGLRU.
    Generations,
}

/// The nodes whose cold pages of files can be taken.
pub struct PageCache {
    root: Root,
    journal: Journal,
    way: Way,
    nodes: BTreeMap<NodeId, OfNode>,
    headroom: Headroom,
}

#[derive(Clone, Copy)]
struct OfNode {
    /// Whether its pages move to slower memory.
    moves: bool,
    /// It is left alone until then.
    rests_until: Nanos,
}

impl PageCache {
    /// Of a machine; the setting that it changes is recorded in `journal`.
    ///
    /// # Errors
    /// `Error::Missing` if the kernel cannot be asked for such pages.
    pub fn open(
        root: &Root,
        topology: &Topology,
        tiers: &Tiers,
        journal: &Journal,
    ) -> Result<Self> {
        let of_node = |node: &Node| {
            let tier = tiers.of_node(node.id)?;
            let slower = |to: &NodeId| tiers.of_node(*to) > Some(tier);
            let moves = topology.demotion_enabled.is_some()
                && !node.demotes_to.is_empty()
                && node.demotes_to.iter().all(slower);
            let serves = moves || tier == tiers.slowest();
            serves.then_some((node.id, OfNode { moves, rests_until: Nanos::ZERO }))
        };
        let nodes: BTreeMap<_, _> = topology.nodes.iter().filter_map(of_node).collect();
        let way = if nodes.keys().all(|node| root.exists(reclaim_path(*node))) {
            Way::Node
        } else if root.read(GENERATIONS).is_ok_and(|text| !text.is_empty()) {
            Way::Generations
        } else {
            return Err(missing(
                "there is neither a node's reclaim file nor MGLRU's lru_gen",
                "Linux 6.17 or later, or MGLRU (/sys/kernel/mm/lru_gen/enabled) and debugfs; or drop them now and then: \
                 sysctl vm.drop_caches=1",
            ));
        };
        if !nodes.values().any(|node| node.moves) {
            return Err(missing(
                "the kernel knows no slower memory to move them to",
                "Linux 6.1 or later with CONFIG_MIGRATION, and a node that the kernel itself considers slower \
                 (/sys/devices/virtual/memory_tiering); or drop them now and then: sysctl vm.drop_caches=1",
            ));
        }
        Ok(Self {
            root: root.clone(),
            journal: journal.clone(),
            way,
            nodes,
            headroom: Headroom::default(),
        })
    }

    /// What can be made free in `node` at `now`, of `cold` bytes. `below` bytes are free, or can be made free, in slower memory.
    pub fn may_free(&self, node: NodeId, cold: Bytes, below: Bytes, now: Nanos) -> Bytes {
        match self.nodes.get(&node) {
            Some(own) if now < own.rests_until => Bytes::ZERO,
            Some(own) if own.moves => cold.min(Bytes(below.0 / OF_BELOW)),
            Some(_) => cold,
            None => Bytes::ZERO,
        }
    }

    /// Takes cold pages of files out of `node`, about `wanted` of `available` bytes. Returns how many were asked for.
    ///
    /// # Errors
    /// `Error::File` if the kernel refuses; the node is left alone for a while then.
    pub fn make_room(
        &mut self,
        node: NodeId,
        wanted: Bytes,
        available: Bytes,
        now: Nanos,
    ) -> Result<Bytes> {
        let bytes = lot(wanted, available);
        let moves = self.nodes.get(&node).is_some_and(|own| own.moves);
        if moves {
            self.journal.set(&self.root, DEMOTION, "1")?;
        }
        let began = Instant::now();
        let done = match self.way {
            Way::Node => self.reclaim(node, bytes),
            Way::Generations => self.evict(node, bytes),
        };
        if moves {
            self.journal.set(&self.root, DEMOTION, "0")?;
        }
        if done.is_err() || began.elapsed() > LONGEST {
            self.leave_alone(node, now);
        }
        done.map(|()| bytes)
    }

    /// How much of fast memory of `capacity` is to be free for new pages of programs that `allocated` so much until now.
    pub fn headroom(&mut self, allocated: Allocated, capacity: Bytes) -> Bytes {
        let most = Bytes(capacity.0 / HEADROOM_OF);
        self.headroom.update(allocated, most);
        self.headroom.within(most)
    }

    /// Leaves a node alone for a while: what it was asked for was not freed.
    pub fn leave_alone(&mut self, node: NodeId, now: Nanos) {
        self.nodes.entry(node).and_modify(|own| own.rests_until = now + PAUSE);
    }

    fn reclaim(&self, node: NodeId, bytes: Bytes) -> Result<()> {
        // Without swappiness the kernel takes programs' pages, too.
        let done = self.root.write(reclaim_path(node), &format!("{} swappiness=0", bytes.0));
        match done {
            // It has freed less than it was asked for.
            Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::WouldBlock => Ok(()),
            done => done,
        }
    }

    fn evict(&self, node: NodeId, bytes: Bytes) -> Result<()> {
        let mut groups = cold_files(&self.root.read(GENERATIONS)?, node);
        groups.sort_by_key(|group| std::cmp::Reverse(group.pages));
        let mut left = bytes.base_pages();
        for Cold { group, generation, pages } in groups {
            let part = pages.min(left);
            if part == 0 {
                break;
            }
            let order = format!("- {group} {} {generation} 0 {part}", node.0);
            match self.root.write(GENERATIONS, &order) {
                // The group has ended, or its pages have become younger.
                Err(Error::File { source, .. }) if source.raw_os_error() == Some(libc::EINVAL) => {}
                done => done?,
            }
            left -= part;
        }
        Ok(())
    }
}

/// How much is asked for at once.
pub fn lot(wanted: Bytes, available: Bytes) -> Bytes {
    wanted.max(LEAST).min(MOST).min(available)
}

/// Files' pages of a control group that MGLRU may take in one node.
#[derive(Debug, PartialEq, Eq)]
struct Cold {
    group: u64,
    /// The youngest generation that it may take.
    generation: u64,
    pages: u64,
}

/// Parses MGLRU's generations: of each group and node a line each, with number, age, pages of programs and of files.
fn cold_files(text: &str, node: NodeId) -> Vec<Cold> {
    let (mut group, mut is_here) = (None, false);
    let mut found: Vec<(u64, Vec<(u64, u64)>)> = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.nth(1)) {
            (Some("memcg"), Some(id), _) => (group, is_here) = (id.parse().ok(), false),
            (Some("node"), Some(id), _) => {
                is_here = id.parse() == Ok(node.0);
                found.extend(group.filter(|_| is_here).map(|group| (group, Vec::new())));
            }
            (Some(number), Some(_), Some(files)) if is_here => {
                // An `x` marks pages that are counted in another generation.
                let files = files.trim_end_matches('x').parse().unwrap_or(0);
                if let (Ok(number), Some((_, own))) = (number.parse(), found.last_mut()) {
                    own.push((number, files));
                }
            }
            _ => {}
        }
    }
    let cold = |(group, generations): (u64, Vec<(u64, u64)>)| {
        let generation = generations.last()?.0.checked_sub(YOUNGEST)?;
        let old = generations.iter().filter(|(number, _)| *number <= generation);
        Some(Cold { group, generation, pages: old.map(|(_, files)| files).sum() })
    };
    found.into_iter().filter_map(cold).filter(|cold| cold.pages > 0).collect()
}

fn reclaim_path(node: NodeId) -> String {
    format!("/sys/devices/system/node/node{}/reclaim", node.0)
}

fn missing(why: &str, hint: &str) -> Error {
    Error::Missing {
        what: "making room in memory full of files".into(),
        why: why.into(),
        hint: hint.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::{TWO_NODES, fake};

    const FAST: NodeId = NodeId(0);
    const SLOW: NodeId = NodeId(1);
    const MIB: Bytes = Bytes(1 << 20);
    const NOW: Nanos = Nanos::from_secs(100);

    /// Control groups of two nodes, as MGLRU shows them: number, age, pages of programs, of files.
    const GROUPS: &str = "memcg     1 /
 node     0
          5      90000          0        3x
          6      80000         10      1000
          7      70000         20       500
          8      60000         30        99
 node     1
          0      90000          0      7000
          1      80000          0       8000
          2      80000          0       9000
memcg    25 /system.slice
 node     0
          1      90000          0      4000
          2      80000          0      2000
          3      70000          0      1000
          4      60000          0         0
memcg    26 /empty
 node     0
          0      90000          0         0
          1      80000          0         0
          2      70000          0        10
";

    fn opened(root: &Root, journal: &Journal) -> Result<PageCache> {
        let topology = Topology::read(root).expect("a topology");
        let tiers = topology.tiers(None).expect("two tiers");
        PageCache::open(root, &topology, &tiers, journal)
    }

    fn with_reclaim() -> Vec<(&'static str, &'static str)> {
        let nodes =
            ["/sys/devices/system/node/node0/reclaim", "/sys/devices/system/node/node1/reclaim"];
        [TWO_NODES.to_vec(), nodes.map(|path| (path, "")).to_vec()].concat()
    }

    #[test]
    fn the_kernel_is_asked_for_files_alone_and_demotes_only_meanwhile() {
        let (dir, root) = fake(&with_reclaim());
        let journal = Journal::open(dir.path().join("run")).expect("a journal");
        let mut cache = opened(&root, &journal).expect("usable");
        let wanted = Bytes(10 << 20);
        let asked = cache.make_room(FAST, wanted, Bytes(100 << 20), NOW).expect("asked");
        assert_eq!(asked, wanted);
        assert_eq!(root.read(reclaim_path(FAST)).expect("read"), "10485760 swappiness=0");
        assert_eq!(root.read(DEMOTION).expect("read").trim(), "0");
        let [change] = &journal.changes()[..] else { panic!("one setting") };
        assert_eq!((change.path.as_str(), change.original.as_str()), (DEMOTION, "false"));
        journal.put_back(&root, DEMOTION).expect("restored");
        cache.make_room(SLOW, wanted, Bytes(100 << 20), NOW).expect("asked");
        assert_eq!(root.read(reclaim_path(SLOW)).expect("read"), "10485760 swappiness=0");
        assert!(journal.changes().is_empty(), "the slowest tier's pages move nowhere");
    }

    #[test]
    fn a_kernel_that_refuses_is_left_alone_for_a_while_with_demotion_off() {
        let (dir, root) = fake(&with_reclaim());
        let journal = Journal::open(dir.path().join("run")).expect("a journal");
        let mut cache = opened(&root, &journal).expect("usable");
        std::fs::remove_file(root.path(reclaim_path(FAST))).expect("removed");
        std::fs::create_dir(root.path(reclaim_path(FAST))).expect("not writable");
        assert!(cache.make_room(FAST, MIB, MIB, NOW).is_err());
        assert_eq!(root.read(DEMOTION).expect("read").trim(), "0");
        let cold = Bytes(64 << 20);
        assert_eq!(cache.may_free(FAST, cold, cold, NOW), Bytes::ZERO);
        assert_eq!(cache.may_free(SLOW, cold, Bytes::ZERO, NOW), cold);
        assert_eq!(cache.may_free(FAST, cold, Bytes(10 << 30), NOW + PAUSE), cold);
    }

    #[test]
    fn what_moves_needs_room_below() {
        let (dir, root) = fake(&with_reclaim());
        let journal = Journal::open(dir.path().join("run")).expect("a journal");
        let cache = opened(&root, &journal).expect("usable");
        let may_free = |below| cache.may_free(FAST, Bytes(64 << 20), Bytes(below), NOW);
        assert_eq!(may_free(0), Bytes::ZERO);
        assert!(may_free(32 << 20) < Bytes(32 << 20), "others need room there, too");
        assert_eq!(may_free(1 << 30), Bytes(64 << 20), "not more than there is");
        assert_eq!(cache.may_free(NodeId(7), MIB, MIB, NOW), Bytes::ZERO, "no node of a tier");
    }

    #[test]
    fn room_is_made_ahead_for_what_programs_allocate() {
        let (dir, root) = fake(&with_reclaim());
        let journal = Journal::open(dir.path().join("run")).expect("a journal");
        let mut cache = opened(&root, &journal).expect("usable");
        let mut headroom = |seconds: u64, allocated_mib: u64| {
            let total = Bytes(allocated_mib << 20);
            let allocated = Allocated { total, read: Nanos::from_secs(seconds) };
            cache.headroom(allocated, Bytes(1000 << 20)).0 >> 20
        };
        assert_eq!(headroom(0, 0), 20, "nothing is known yet: all that is ever kept");
        assert_eq!(headroom(20, 0), 0);
        assert_eq!(headroom(21, 10), 10, "as much again until the next reading");
        assert_eq!(headroom(40, 10), 0);
    }

    #[test]
    fn a_kernel_without_reclaim_of_a_node_or_with_nowhere_to_move_is_refused_with_a_hint() {
        let (dir, root) = fake(TWO_NODES);
        let journal = Journal::open(dir.path().join("run")).expect("a journal");
        let error = opened(&root, &journal).err().expect("refused");
        assert!(error.to_string().contains("lru_gen"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("6.17")), "{error}");
        let (dir, root) = fake(&with_reclaim());
        let journal = Journal::open(dir.path().join("run")).expect("a journal");
        std::fs::remove_file(root.path(DEMOTION)).expect("a kernel without demotion");
        let error = opened(&root, &journal).err().expect("refused").to_string();
        assert!(error.contains("no slower memory"), "{error}");
    }

    #[test]
    fn generations_that_may_be_taken_are_counted_by_group() {
        let cold = |group, generation, pages| Cold { group, generation, pages };
        // Of four generations the two oldest, of three the oldest; what is marked `x` counts too.
        assert_eq!(cold_files(GROUPS, FAST), [cold(1, 6, 1003), cold(25, 2, 6000)]);
        assert_eq!(cold_files(GROUPS, SLOW), [cold(1, 0, 7000)]);
        assert_eq!(cold_files("", FAST), []);
        assert_eq!(cold_files("memcg x\n node 0\n 1\n 2 3", FAST), []);
    }

    #[test]
    fn without_reclaim_of_a_node_the_generations_of_the_largest_group_are_taken() {
        let mut files = TWO_NODES.to_vec();
        files.push((GENERATIONS, GROUPS));
        let (dir, root) = fake(&files);
        let journal = Journal::open(dir.path().join("run")).expect("a journal");
        let mut cache = opened(&root, &journal).expect("usable");
        let asked = cache.make_room(FAST, MIB, Bytes(8 << 20), NOW).expect("asked");
        assert_eq!(asked, LEAST);
        assert_eq!(root.read(GENERATIONS).expect("read"), "- 25 0 2 0 1024");
        assert_eq!(root.read(DEMOTION).expect("read").trim(), "0");
    }

    #[test]
    fn lots_are_worth_their_cost_and_no_more_than_there_is() {
        let lot = |wanted: u64, available: u64| lot(Bytes(wanted << 20), Bytes(available << 20));
        assert_eq!(
            [lot(1, 100), lot(20, 100), lot(200, 100), lot(200, 5)],
            [LEAST, Bytes(20 << 20), MOST, Bytes(5 << 20)]
        );
    }
}
