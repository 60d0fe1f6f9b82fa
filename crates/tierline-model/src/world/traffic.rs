// SPDX-License-Identifier: Apache-2.0
//! The traffic of one program, as counters per tenant would show it: bytes by tier, and the latency of reads
//! with all queueing.

use crate::load::{Class, LINE_BYTES, Loads, PerTier};

/// Sums since the last measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Time in which the program existed, ns.
    pub ns: f64,
    /// Lines read.
    pub reads: f64,
    /// Latency of these reads from the core: the way to the tier, the shared queue and the tier.
    pub latency_ns: f64,
    /// Bytes read and written by tier.
    pub bytes: PerTier,
    /// Whether it had work, throttled or not.
    pub demand: bool,
}

impl Traffic {
    /// Adds a quantum with this rate of lines read per ns. `path_ns` is the way from a core to the tiers.
    pub fn add(&mut self, ns: f64, class: &Class, rate: f64, loads: &Loads, path_ns: f64) {
        self.ns += ns;
        self.reads += rate * ns;
        for (t, bytes) in self.bytes.iter_mut().enumerate() {
            let tier_ns = loads.latency_ns[t] + loads.wait_ns + path_ns;
            self.latency_ns += rate * ns * class.reads[t] * tier_ns;
            *bytes += rate * ns * (class.reads[t] + class.writes[t]) * LINE_BYTES;
        }
    }

    /// Adds that of another program of the same tenant, measured over the same time.
    pub fn join(&mut self, other: &Self) {
        self.ns = self.ns.max(other.ns);
        self.reads += other.reads;
        self.latency_ns += other.latency_ns;
        self.bytes.iter_mut().zip(&other.bytes).for_each(|(sum, bytes)| *sum += bytes);
        self.demand |= other.demand;
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
        let mut both = traffic;
        both.join(&traffic);
        assert_eq!((both.mean_ns(), both.ns), (traffic.mean_ns(), 1_000.0));
    }
}
