// SPDX-License-Identifier: Apache-2.0
//! Machines: tiers, cores, and costs of the operating system. One TOML file describes one machine and names the
//! source of every figure.

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

/// A modelled machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Name on the command line.
    pub name: String,
    /// Description, in one sentence.
    pub about: String,
    /// Its tiers, fastest first.
    pub tiers: Vec<MemoryTier>,
    /// Its cores.
    pub cores: Cores,
    /// Reads in flight that the socket can hold, if known.
    pub shared_queue: Option<f64>,
    /// Whether its slow memory counts accesses (NeoProf).
    pub neoprof: bool,
    /// Costs of faults, samples and moves.
    pub costs: Costs,
}

/// One class of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryTier {
    /// Its name.
    pub name: String,
    /// Its size.
    pub capacity: Bytes,
    /// Its queue: latency and capacity.
    pub queue: Queue,
}

/// Memory-level parallelism of the cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cores {
    /// Number of cores.
    pub count: f64,
    /// Time from a core to the point at which tier latencies are measured, ns.
    pub path_ns: f64,
    /// Misses in flight of a core that reads random lines.
    pub in_flight_random: f64,
    /// Misses in flight of a core that streams, including prefetches.
    pub in_flight_stream: f64,
    /// Think time per miss slot of a streaming core, ns.
    pub stream_think_ns: f64,
    /// Gain in misses in flight of a core that reads random whole pages instead of random lines: the effect of
    /// the hardware prefetcher.
    pub prefetch_gain: f64,
}

impl Cores {
    /// Misses in flight of a core that reads objects of `lines` lines at random places. A prefetcher can fetch
    /// all lines but the first; we interpolate linearly in their share.
    pub fn in_flight_objects(&self, lines: f64) -> f64 {
        let ahead = |lines: f64| 1.0 - 1.0 / lines;
        let gain = (self.prefetch_gain - 1.0) * ahead(lines) / ahead(64.0);
        self.in_flight_random * (1.0 + gain)
    }
}

impl Machine {
    /// The machine as a network of queues.
    pub fn network(&self) -> Network {
        Network {
            tiers: self.tiers.iter().map(|tier| tier.queue).collect(),
            path_ns: self.cores.path_ns,
            shared_queue: self.shared_queue,
        }
    }

    /// The machine as described to the core: unloaded latencies from the core, and read bandwidths.
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

    /// The problem of an invalid machine, naming the figure.
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
                return Some(format!("tier {name}: unloaded_ns and queue_ns must be positive"));
            }
            if !queue.capacity.is_sound() {
                return Some(format!(
                    "tier {name}: utilisation must rise with traffic: {:?}",
                    queue.capacity
                ));
            }
        }
        None
    }
}

/// Rounds to whole nanoseconds.
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

/// The capacity law in a machine file.
pub(crate) fn capacity(half: Option<[f64; 3]>, full: Option<[f64; 2]>) -> Option<Capacity> {
    match (half, full) {
        (Some([read, write, even]), None) => Some(Capacity::half_duplex(read, write, even)),
        (None, Some([direction, total])) => Some(Capacity::FullDuplex { direction, total }),
        _ => None,
    }
}
