// SPDX-License-Identifier: Apache-2.0
//! Load: what latency every tier answers with, and what throughput every program gets from it.
//!
//! Programs are classes in a closed loop ([`class`]), tiers are queues with a capacity ([`capacity`])
//! and a latency that rises with its use ([`curve`]). [`solve`](solve()) finds the point at which the two agree.

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
    /// Its latency by utilisation.
    pub curve: Curve,
    /// What it can carry.
    pub capacity: Capacity,
}

/// The machine as a network of queues.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// One queue a tier, fastest first.
    pub tiers: Vec<Queue>,
    /// From a core to the point where tier latencies are measured (Intel: the CHA), ns.
    pub path_ns: f64,
    /// Reads in flight that the socket's shared queue holds for all tiers together. Where they would be
    /// more, every request waits before it gets in, whichever tier it is for: so slow tiers delay
    /// requests to fast ones (Mercury, figures 1 to 4). `None`: never full.
    pub shared_queue: Option<f64>,
}

/// The fixed point: everything that follows from who accesses what.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loads {
    /// Loaded latency of a read, a tier, as counted at the CHA; the wait for the shared queue is not in it.
    pub latency_ns: PerTier,
    /// Use of the tier's capacity, 0 to just below 1.
    pub utilisation: PerTier,
    /// The wait for the shared queue.
    pub wait_ns: f64,
    /// Reads completed per ns, a class.
    pub reads_per_ns: Vec<f64>,
}

impl Loads {
    /// Reads in flight at a tier: Little's law holds by construction.
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
