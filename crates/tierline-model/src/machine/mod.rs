// SPDX-License-Identifier: Apache-2.0
//! Machines: tiers, cores and what the operating system's work costs. One TOML is one machine, and
//! names the source of every figure in it.

pub mod costs;
pub mod file;
pub mod fit;
pub mod list;
pub mod table;
mod write;

use tierline_core::tier::{NodeId, Tier, TierId, Tiers};
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};

pub use costs::Costs;

use crate::load::{Capacity, Network, Queue};

/// A machine, ready to be loaded.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The name users type.
    pub name: String,
    /// What it is, in a sentence.
    pub about: String,
    /// Its tiers, fastest first.
    pub tiers: Vec<MemoryTier>,
    /// Its cores.
    pub cores: Cores,
    /// Reads in flight that the socket can hold, where that is known.
    pub shared_queue: Option<f64>,
    /// Whether its slow memory counts its accesses itself (NeoProf).
    pub neoprof: bool,
    /// What faults, samples and moves cost.
    pub costs: Costs,
}

/// One class of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryTier {
    /// Its name.
    pub name: String,
    /// Its size.
    pub capacity: Bytes,
    /// How it answers.
    pub queue: Queue,
}

/// What a core can have in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cores {
    /// How many there are.
    pub count: f64,
    /// From the core to where tier latencies are measured, ns.
    pub path_ns: f64,
    /// Misses in flight of a core that reads lines at random.
    pub in_flight_random: f64,
    /// Misses in flight of a core that streams, prefetches included.
    pub in_flight_stream: f64,
    /// Think time a miss slot of a streaming core, ns.
    pub stream_think_ns: f64,
    /// By how much a core that reads whole pages at random has more in flight than one that reads
    /// lines: the hardware prefetcher's share.
    pub prefetch_gain: f64,
}

impl Cores {
    /// Misses in flight of a core that reads objects of so many lines at random places. A prefetcher
    /// can run ahead for all lines but the first; ours is the straight line in their share.
    pub fn in_flight_objects(&self, lines: f64) -> f64 {
        let ahead = |lines: f64| 1.0 - 1.0 / lines;
        let gain = (self.prefetch_gain - 1.0) * ahead(lines) / ahead(64.0);
        self.in_flight_random * (1.0 + gain)
    }
}

impl Machine {
    /// The machine as queues.
    pub fn network(&self) -> Network {
        Network {
            tiers: self.tiers.iter().map(|tier| tier.queue).collect(),
            path_ns: self.cores.path_ns,
            shared_queue: self.shared_queue,
        }
    }

    /// The machine as the core is told of it: unloaded latencies from the core, read bandwidths.
    pub fn describe(&self) -> Tiers {
        let tier = |(node, tier): (u16, &MemoryTier)| Tier {
            name: tier.name.clone(),
            nodes: vec![NodeId(node)],
            capacity: tier.capacity,
            latency: Some(nanos(self.cores.path_ns + tier.queue.curve.unloaded_ns)),
            bandwidth: Some(bytes_per_sec(tier.queue.capacity.gb_per_s(0.0))),
        };
        Tiers((0..).zip(&self.tiers).map(tier).collect())
    }

    /// What is wrong with it, in words that name the figure.
    pub(crate) fn problem(&self) -> Option<String> {
        if self.tiers.is_empty() || self.tiers.len() > TierId::MAX {
            return Some(format!("a machine has 1 to {} tiers", TierId::MAX));
        }
        for MemoryTier { name, capacity, queue } in &self.tiers {
            let curve = queue.curve;
            if *capacity == Bytes::ZERO {
                return Some(format!("tier {name}: capacity is zero"));
            }
            if !(curve.unloaded_ns > 0.0 && curve.queue_ns > 0.0 && curve.linear_ns >= 0.0) {
                return Some(format!("tier {name}: unloaded_ns and queue_ns are positive"));
            }
            if !queue.capacity.is_sound() {
                return Some(format!(
                    "tier {name}: more traffic must mean more use: {:?}",
                    queue.capacity
                ));
            }
        }
        None
    }
}

/// Nanoseconds to the nearest whole one.
pub(crate) fn nanos(ns: f64) -> Nanos {
    Nanos::from_secs_f64((ns + 0.5) * 1e-9)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a bandwidth in GB/s is far below 2^52 bytes"
)]
fn bytes_per_sec(gb_per_s: f64) -> BytesPerSec {
    BytesPerSec((gb_per_s * 1e9) as u64)
}

/// The capacity law that a machine file states.
pub(crate) fn capacity(half: Option<[f64; 3]>, full: Option<[f64; 2]>) -> Option<Capacity> {
    match (half, full) {
        (Some([read, write, even]), None) => Some(Capacity::half_duplex(read, write, even)),
        (None, Some([direction, total])) => Some(Capacity::FullDuplex { direction, total }),
        _ => None,
    }
}
