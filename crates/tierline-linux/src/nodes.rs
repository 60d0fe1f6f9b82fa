// SPDX-License-Identifier: Apache-2.0
//! The node of a page frame: from the memory blocks that sysfs lists under each node, limited to the
//! spans of the node's zones, as a block (128 MiB to 2 GiB) may contain the border between two nodes.

use std::cell::Cell;
use std::ops::Range;

use tierline_core::tier::{NodeId, TierId, Tiers};

use crate::error::{Error, Result};
use crate::root::Root;

const NODES: &str = "/sys/devices/system/node";
const ZONES: &str = "/proc/zoneinfo";
const BLOCK_SIZE: &str = "/sys/devices/system/memory/block_size_bytes";

/// A range of frames of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameRun {
    start: u64,
    end: u64,
    node: NodeId,
}

/// The nodes of all frames, as sorted ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    runs: Vec<FrameRun>,
}

/// The tiers of all frames: [`Nodes`] by tier. The last range found is cached.
///
/// Neighbouring pages tend to be in one range, so most lookups cost two comparisons.
#[derive(Clone, Debug)]
pub struct FrameTiers {
    runs: Vec<(u64, u64, Option<TierId>)>,
    last: Cell<usize>,
}

impl Nodes {
    /// Reads the map of this machine; read it again after memory was added or removed.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Format`] if the size of a block cannot be read.
    pub fn read(root: &Root) -> Result<Self> {
        let text = root.read(BLOCK_SIZE)?;
        let block = u64::from_str_radix(text.trim().trim_start_matches("0x"), 16)
            .ok()
            .map(|bytes| bytes / 4096)
            .filter(|pages| *pages > 0)
            .ok_or_else(|| Error::Format {
                path: root.path(BLOCK_SIZE),
                found: text.clone(),
                expected: "a size in hexadecimal",
            })?;
        let mut runs = Vec::new();
        for name in root.list(NODES) {
            let Some(node) = number(&name, "node").and_then(|n| u16::try_from(n).ok()) else {
                continue;
            };
            for entry in root.list(format!("{NODES}/{name}")) {
                if let Some(at) = number(&entry, "memory") {
                    let start = at.saturating_mul(block);
                    runs.push(FrameRun {
                        start,
                        end: start.saturating_add(block),
                        node: NodeId(node),
                    });
                }
            }
        }
        if let Ok(text) = root.read(ZONES) {
            runs = cut(&runs, &spans(&text));
        }
        Ok(Self { runs: merged(runs) })
    }

    /// The node of frame `pfn`.
    pub fn node_of(&self, pfn: u64) -> Option<NodeId> {
        let at = self.runs.partition_point(|run| run.end <= pfn);
        self.runs.get(at).filter(|run| run.start <= pfn).map(|run| run.node)
    }

    /// From the first frame of a node to its last, holes included.
    pub fn span(&self, node: NodeId) -> Option<Range<u64>> {
        let mut runs = self.runs.iter().filter(|run| run.node == node);
        let first = runs.next()?;
        Some(first.start..runs.next_back().unwrap_or(first).end)
    }

    /// The same map by tier.
    pub fn by_tier(&self, tiers: &Tiers) -> FrameTiers {
        let runs =
            self.runs.iter().map(|run| (run.start, run.end, tiers.of_node(run.node))).collect();
        FrameTiers { runs, last: Cell::new(0) }
    }
}

impl FrameTiers {
    /// The tier of frame `pfn`; `None` if it is not RAM, or in no tier.
    #[inline]
    pub fn tier_of(&self, pfn: u64) -> Option<TierId> {
        if let Some((start, end, tier)) = self.runs.get(self.last.get())
            && (*start..*end).contains(&pfn)
        {
            return *tier;
        }
        let at = self.runs.partition_point(|(_, end, _)| *end <= pfn);
        let (_, _, tier) = self.runs.get(at).filter(|(start, _, _)| *start <= pfn)?;
        self.last.set(at);
        *tier
    }
}

#[cfg(test)]
impl FrameTiers {
    /// All frames in one tier.
    pub(crate) fn all_in(tier: TierId) -> Self {
        Self { runs: vec![(0, u64::MAX, Some(tier))], last: Cell::new(0) }
    }
}

/// The frames that each zone spans, holes included.
fn spans(zoneinfo: &str) -> Vec<FrameRun> {
    let mut spans = Vec::new();
    let (mut node, mut length) = (None, 0);
    for line in zoneinfo.lines() {
        let mut words = line.split_ascii_whitespace();
        match (words.next(), words.next()) {
            (Some("Node"), Some(id)) => {
                node = id.trim_end_matches(',').parse().ok().map(NodeId);
                length = 0;
            }
            (Some("spanned"), Some(pages)) => length = pages.parse().unwrap_or(0),
            (Some("start_pfn:"), Some(at)) => {
                if let (Some(node), Ok(start)) = (node, at.parse::<u64>()) {
                    spans.push(FrameRun { start, end: start.saturating_add(length), node });
                }
            }
            _ => {}
        }
    }
    spans
}

/// The parts of `runs` that are in a span of their own node.
fn cut(runs: &[FrameRun], spans: &[FrameRun]) -> Vec<FrameRun> {
    let parts = runs.iter().flat_map(|run| {
        spans.iter().filter(|span| span.node == run.node).map(|span| FrameRun {
            start: run.start.max(span.start),
            end: run.end.min(span.end),
            node: run.node,
        })
    });
    parts.filter(|part| part.start < part.end).collect()
}

/// The number N in a name such as `memoryN`, after `prefix`.
fn number(name: &str, prefix: &str) -> Option<u64> {
    name.strip_prefix(prefix)?.parse().ok()
}

/// Sorts and joins neighbouring ranges of one node.
fn merged(mut runs: Vec<FrameRun>) -> Vec<FrameRun> {
    runs.sort_by_key(|run| (run.start, run.node));
    runs.dedup_by_key(|run| run.start);
    let mut out: Vec<FrameRun> = Vec::new();
    for run in runs {
        match out.last_mut() {
            Some(last) if last.node == run.node && last.end == run.start => last.end = run.end,
            _ => out.push(run),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierline_core::tier::Tier;
    use tierline_core::unit::Bytes;

    fn root(blocks: &[(u16, u64)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (node, block) in blocks {
            let path = format!("sys/devices/system/node/node{node}/memory{block}");
            std::fs::create_dir_all(folder.path().join(path)).expect("a folder");
        }
        std::fs::create_dir_all(folder.path().join("sys/devices/system/memory")).expect("a folder");
        std::fs::write(folder.path().join(&BLOCK_SIZE[1..]), "8000000\n").expect("a file");
        let root = Root::at(folder.path());
        (folder, root)
    }

    /// 128 MiB in frames.
    const BLOCK: u64 = 0x8000;

    #[test]
    fn frames_find_their_node_and_holes_have_none() {
        let (_folder, root) = root(&[(0, 0), (0, 1), (1, 2), (1, 10), (0, 9)]);
        let nodes = Nodes::read(&root).expect("readable");
        assert_eq!(nodes.runs.len(), 4);
        let of = |block: u64, into: u64| nodes.node_of(block * BLOCK + into).map(|n| n.0);
        assert_eq!((of(0, 0), of(1, BLOCK - 1), of(2, 0)), (Some(0), Some(0), Some(1)));
        assert_eq!((of(3, 0), of(8, BLOCK - 1), of(9, 0)), (None, None, Some(0)));
        assert_eq!((of(10, 5), of(11, 0), nodes.node_of(u64::MAX)), (Some(1), None, None));
        assert_eq!(nodes.span(NodeId(1)), Some(2 * BLOCK..11 * BLOCK));
        assert_eq!(nodes.span(NodeId(2)), None);
    }

    #[test]
    fn a_block_with_two_nodes_is_cut_where_their_zones_meet() {
        let (folder, root) = root(&[(0, 0), (0, 1), (1, 1), (1, 2)]);
        std::fs::create_dir_all(folder.path().join("proc")).expect("a folder");
        let zones = "Node 0, zone DMA\n  pages free 5\n        spanned  4095\n  start_pfn: 1\n\
                     Node 0, zone DMA32\n        spanned  45056\n  start_pfn: 4096\n\
                     Node 1, zone DMA32\n        spanned  49152\n  start_pfn: 49152\n";
        std::fs::write(folder.path().join("proc/zoneinfo"), zones).expect("a file");
        let nodes = Nodes::read(&root).expect("readable");
        let of = |pfn| nodes.node_of(pfn).map(|n| n.0);
        assert_eq!((of(1), of(4096), of(49_151)), (Some(0), Some(0), Some(0)));
        assert_eq!((of(49_152), of(98_303), of(98_304)), (Some(1), Some(1), None));
    }

    #[test]
    fn frames_find_their_tier_in_any_order() {
        let (_folder, root) = root(&[(0, 0), (1, 1), (2, 2)]);
        let tier = |node| Tier {
            name: String::new(),
            nodes: vec![NodeId(node)],
            capacity: Bytes::ZERO,
            latency: None,
            bandwidth: None,
        };
        let tiers = Nodes::read(&root).expect("readable").by_tier(&Tiers(vec![tier(1), tier(0)]));
        for _ in 0..2 {
            assert_eq!(tiers.tier_of(BLOCK), Some(TierId(0)));
            assert_eq!(tiers.tier_of(3), Some(TierId(1)));
            assert_eq!(tiers.tier_of(2 * BLOCK), None, "node 2 is in no tier");
            assert_eq!(tiers.tier_of(3 * BLOCK), None, "no memory there");
        }
    }
}
