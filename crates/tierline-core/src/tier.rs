// SPDX-License-Identifier: Apache-2.0
//! Tiers and nodes: the classes of memory of a machine, fastest first.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::unit::{Bytes, BytesPerSec, Nanos};

/// A class of memory. `t0` is the fastest.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct TierId(pub u8);

/// A NUMA node, by the kernel's number.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct NodeId(pub u16);

impl TierId {
    /// The fastest tier.
    pub const FAST: Self = Self(0);
    /// Most tiers of a machine: the page table packs a tier into three bits, and one value means unknown.
    pub const MAX: usize = 7;

    /// This tier's index in a table of tiers.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for TierId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// One tier of a machine. Unknown values are `None`, never zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tier {
    /// The name users know it by: `fast`, `slow`, or one of their own.
    pub name: String,
    /// Its nodes, nearest to the CPUs first.
    pub nodes: Vec<NodeId>,
    /// Bytes of memory in all its nodes.
    pub capacity: Bytes,
    /// Unloaded read latency.
    pub latency: Option<Nanos>,
    /// Peak read bandwidth.
    pub bandwidth: Option<BytesPerSec>,
}

/// The tiers of a machine, fastest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tiers(pub Vec<Tier>);

impl Tiers {
    /// Number of tiers.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tier that `node` belongs to.
    pub fn of_node(&self, node: NodeId) -> Option<TierId> {
        let at = self.0.iter().position(|tier| tier.nodes.contains(&node))?;
        u8::try_from(at).ok().map(TierId)
    }

    /// Every tier with its id, fastest first.
    pub fn iter(&self) -> impl Iterator<Item = (TierId, &Tier)> {
        (0u8..).map(TierId).zip(self.0.iter())
    }

    /// The slowest tier.
    #[expect(clippy::cast_possible_truncation, reason = "at most TierId::MAX tiers")]
    pub fn slowest(&self) -> TierId {
        TierId(self.0.len().saturating_sub(1) as u8)
    }

    /// The latency that one access saves if its page is in `fast` instead of `slow`. Without known latencies:
    /// 100 ns per tier, about one NUMA hop (ours).
    pub fn latency_gain(&self, slow: TierId, fast: TierId) -> Nanos {
        let latency = |t: TierId| self.0.get(t.index()).and_then(|tier| tier.latency);
        match (latency(slow), latency(fast)) {
            (Some(s), Some(f)) => s.saturating_sub(f),
            _ => Nanos(100) * u64::from(slow.0.saturating_sub(fast.0)),
        }
    }

    /// The same in seconds; negative if `slow` is faster while neither is loaded, as DDR is than HBM.
    pub fn latency_gain_secs(&self, slow: TierId, fast: TierId) -> f64 {
        self.latency_gain(slow, fast).as_secs_f64() - self.latency_gain(fast, slow).as_secs_f64()
    }
}

impl std::ops::Index<TierId> for Tiers {
    type Output = Tier;
    fn index(&self, id: TierId) -> &Tier {
        &self.0[id.index()]
    }
}
