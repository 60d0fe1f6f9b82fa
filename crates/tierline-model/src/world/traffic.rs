// SPDX-License-Identifier: Apache-2.0
//! The traffic of one program or tenant, as counters would show it: reads and bytes by tier, and the latency of reads with
//! all queueing.

use crate::load::{Class, LINE_BYTES, Loads, PerTier};

/// Sums since the start. For rates, keep a copy and take the difference.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Lines read.
    pub reads: f64,
    /// Of these, from each tier.
    pub served: PerTier,
    /// Latency of these reads from the core: the way to the tier, the shared queue and the tier.
    pub latency_ns: f64,
    /// Bytes read and written by tier.
    pub bytes: PerTier,
    /// Time in which it had work, throttled or not, ns.
    pub demand_ns: f64,
}

impl Traffic {
    /// Adds a quantum with this rate of lines read per ns. `path_ns` is the way from a core to the tiers.
    pub fn add(&mut self, ns: f64, class: &Class, rate: f64, loads: &Loads, path_ns: f64) {
        self.reads += rate * ns;
        self.demand_ns += if class.in_flight > 0.0 { ns } else { 0.0 };
        for (t, bytes) in self.bytes.iter_mut().enumerate() {
            let tier_ns = loads.latency_ns[t] + loads.wait_ns + path_ns;
            self.served[t] += rate * ns * class.reads[t];
            self.latency_ns += rate * ns * class.reads[t] * tier_ns;
            *bytes += rate * ns * (class.reads[t] + class.writes[t]) * LINE_BYTES;
        }
    }

    /// The difference to `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            reads: self.reads - before.reads,
            latency_ns: self.latency_ns - before.latency_ns,
            served: std::array::from_fn(|t| self.served[t] - before.served[t]),
            bytes: std::array::from_fn(|t| self.bytes[t] - before.bytes[t]),
            demand_ns: self.demand_ns - before.demand_ns,
        }
    }

    /// Share of reads that each tier served, if there was one.
    pub fn shares(&self) -> Option<PerTier> {
        let all: f64 = self.served.iter().sum();
        (all > 0.0).then(|| self.served.map(|served| served / all))
    }

    /// Mean latency of a read, if there was one.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.reads > 0.0).then(|| self.latency_ns / self.reads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Curve, Network, Queue, capacity::Capacity, solve};

    /// Little's law: misses in flight are the rate times the latency, whatever the load.
    #[test]
    fn latency_with_all_queues_obeys_littles_law() {
        let queue = |ns| Queue {
            curve: Curve::one_slope(ns, 10.0),
            capacity: Capacity::FullDuplex { direction: 40.0, total: 60.0 },
        };
        let tiers = vec![queue(80.0), queue(200.0)];
        let network = Network { tiers, path_ns: 5.0, shared_queue: Some(60.0) };
        let mut shares = PerTier::default();
        (shares[0], shares[1]) = (0.4, 0.6);
        let class = Class::program(300.0, 0.0, shares, 0.5);
        let mut loads = Loads::default();
        solve(&network, &[class], &mut loads);
        let (rate, mut traffic) = (loads.reads_per_ns[0], Traffic::default());
        traffic.add(1_000.0, &class, rate, &loads, network.path_ns);
        assert!(loads.wait_ns > 0.0, "the shared queue is full");
        let in_flight = rate * traffic.mean_ns().unwrap();
        assert!((in_flight / 300.0 - 1.0).abs() < 1e-9, "{in_flight}");
        let bytes: f64 = traffic.bytes.iter().sum();
        assert!((bytes / (traffic.reads * 1.5 * LINE_BYTES) - 1.0).abs() < 1e-9);
        let mut later = traffic;
        later.add(500.0, &class, rate, &loads, network.path_ns);
        let since = later.since(&traffic);
        assert!((since.reads / traffic.reads - 0.5).abs() < 1e-9, "{since:?}");
        assert!((since.demand_ns - 500.0).abs() < 1e-9, "{since:?}");
    }
}
