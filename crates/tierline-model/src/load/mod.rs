// SPDX-License-Identifier: Apache-2.0
//! Load: the latency of every tier, and the throughput of every program.
//!
//! Programs are classes in a closed loop ([`class`]). Tiers are queues with a capacity ([`capacity`]) and a
//! latency that rises with utilisation ([`curve`]). [`solve`](solve()) finds the point at which both agree.

pub mod bisect;
pub mod capacity;
pub mod class;
pub mod curve;
mod point;
pub mod solve;

pub use capacity::Capacity;
pub use class::{Class, LINE_BYTES, PerTier};
pub use curve::Curve;
pub use solve::solve;

/// One tier as a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// Its latency as a function of utilisation.
    pub curve: Curve,
    /// The traffic that it can carry.
    pub capacity: Capacity,
}

/// The machine as a network of queues.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// One queue per tier, fastest first.
    pub tiers: Vec<Queue>,
    /// Time from a core to the point at which tier latencies are measured (Intel: the CHA), ns.
    pub path_ns: f64,
    /// Capacity of the socket's shared queue: reads in flight to all tiers. If there would be more, every
    /// request waits for a place, whatever its tier. So slow tiers delay requests to fast ones (Mercury,
    /// figures 1 to 4). `None`: unlimited.
    pub shared_queue: Option<f64>,
}

/// The fixed point: the state of the machine under given programs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loads {
    /// Loaded latency of a read by tier, measured at the CHA, without the wait for the shared queue.
    pub latency_ns: PerTier,
    /// Utilisation of the tier's capacity, 0 to just below 1.
    pub utilisation: PerTier,
    /// The wait for the shared queue.
    pub wait_ns: f64,
    /// Reads per ns, by class.
    pub reads_per_ns: Vec<f64>,
}

impl Loads {
    /// Reads in flight at a tier. Little's law holds by construction.
    pub fn occupancy(&self, classes: &[Class], tier: usize) -> f64 {
        self.reads(classes, tier) * self.latency_ns[tier]
    }

    /// Reads per ns at a tier.
    pub fn reads(&self, classes: &[Class], tier: usize) -> f64 {
        classes.iter().zip(&self.reads_per_ns).map(|(class, rate)| class.reads[tier] * rate).sum()
    }

    /// Writes per ns at a tier.
    pub fn writes(&self, classes: &[Class], tier: usize) -> f64 {
        classes.iter().zip(&self.reads_per_ns).map(|(class, rate)| class.writes[tier] * rate).sum()
    }
}
