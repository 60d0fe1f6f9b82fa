// SPDX-License-Identifier: Apache-2.0
//! One guess at the fixed point: the backlogs of all tiers, and their errors.
//!
//! A backlog `y` implies a latency, latencies imply the throughput of every class, throughputs imply a
//! utilisation `U`. The guess is right if `U` matches the backlog: `g = u(y)/U − 1 = 0`. In this form `g` is
//! close to a straight line from no load to extreme overload, as Newton's method requires.
//!
//! The fixed point is unique: `g` rises with its own tier's backlog, and in terms of latencies its Jacobian is
//! a positive diagonal plus `PᵀDP`, symmetric and positive definite, for any fixed mix of reads and writes.

use super::{Class, LINE_BYTES, Network, PerTier};

/// A guess and its implications.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Point {
    pub latency_ns: PerTier,
    /// Derivative of the latency by the backlog.
    pub slope: PerTier,
    pub read_gb_per_s: PerTier,
    pub write_gb_per_s: PerTier,
}

impl Point {
    /// The latencies for given backlogs.
    pub fn at(network: &Network, backlog: &PerTier) -> Self {
        let mut point = Self::default();
        for (t, queue) in network.tiers.iter().enumerate() {
            (point.latency_ns[t], point.slope[t]) = queue.curve.at_backlog(backlog[t]);
        }
        point
    }

    /// Adds the traffic of the classes at these latencies.
    pub fn add_traffic(&mut self, network: &Network, classes: &[Class], extra_ns: f64) {
        self.read_gb_per_s = PerTier::default();
        self.write_gb_per_s = PerTier::default();
        for class in classes.iter().filter(|class| class.in_flight > 0.0) {
            let rate = class.in_flight / class.round_ns(&self.latency_ns, extra_ns);
            for t in 0..network.tiers.len() {
                self.read_gb_per_s[t] += rate * class.reads[t] * LINE_BYTES;
                self.write_gb_per_s[t] += rate * class.writes[t] * LINE_BYTES;
            }
        }
    }

    /// The utilisation that results from a tier's traffic.
    pub fn utilisation(&self, network: &Network, tier: usize) -> f64 {
        let (read, write) = (self.read_gb_per_s[tier], self.write_gb_per_s[tier]);
        network.tiers[tier].capacity.utilisation(read, write)
    }
}

/// The utilisation that corresponds to a backlog.
pub(super) fn utilisation(backlog: f64) -> f64 {
    backlog / (1.0 + backlog)
}

/// The error of a tier's guess; 0 for a tier without traffic and backlog.
pub(super) fn miss(backlog: f64, implied: f64) -> f64 {
    if implied > 0.0 { utilisation(backlog) / implied - 1.0 } else { backlog }
}
