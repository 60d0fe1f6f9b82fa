// SPDX-License-Identifier: Apache-2.0
//! The books: what went through every tier, added up as the counters of a CPU would.

use tierline_core::tier::TierId;

use crate::load::{Class, LINE_BYTES, Loads, PerTier};

/// Sums since the start. Whoever wants rates keeps a copy and takes the difference.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Books {
    /// Time, ns.
    pub ns: f64,
    /// Demand reads, a tier: the CHA's inserts.
    pub reads: PerTier,
    /// Demand reads in flight, summed over ns: the CHA's occupancy counter.
    pub occupancy_ns: PerTier,
    /// Bytes read and written, by whomever.
    pub bytes: PerTier,
    /// Utilisation, summed over ns.
    pub utilisation_ns: PerTier,
    /// Bytes that moves copied from each tier to a faster one, and to a slower one.
    pub promoted_bytes: f64,
    /// See `promoted_bytes`.
    pub demoted_bytes: f64,
    /// CPU time of the mover.
    pub mover_ns: f64,
    /// Time in which misses of managed programs were in flight only because they were not in the fastest tier, and
    /// of those that could have been while threads waited for page-ins.
    pub stall_ns: f64,
    /// Of it, the waiting for page-ins.
    pub page_in_ns: f64,
    /// Time in which managed programs had misses in flight or could have had.
    pub slots_ns: f64,
    /// CPU time of the tracker, that of samples in the program's threads included.
    pub tracker_ns: f64,
}

impl Books {
    /// Adds a quantum. The first `programs` classes are programs, the others copy pages: their reads
    /// are no demand reads.
    pub fn add(&mut self, ns: f64, classes: &[Class], programs: usize, loads: &Loads) {
        self.ns += ns;
        let (demand, rates) = (&classes[..programs], &loads.reads_per_ns[..programs]);
        for t in 0..TierId::MAX {
            let reads: f64 = demand.iter().zip(rates).map(|(c, rate)| c.reads[t] * rate).sum();
            self.reads[t] += reads * ns;
            self.occupancy_ns[t] += reads * loads.latency_ns[t] * ns;
            let lines = loads.reads(classes, t) + loads.writes(classes, t);
            self.bytes[t] += lines * LINE_BYTES * ns;
            self.utilisation_ns[t] += loads.utilisation[t] * ns;
        }
    }

    /// What was added since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let less = |a: &PerTier, b: &PerTier| std::array::from_fn(|t| a[t] - b[t]);
        Self {
            ns: self.ns - before.ns,
            reads: less(&self.reads, &before.reads),
            occupancy_ns: less(&self.occupancy_ns, &before.occupancy_ns),
            bytes: less(&self.bytes, &before.bytes),
            utilisation_ns: less(&self.utilisation_ns, &before.utilisation_ns),
            promoted_bytes: self.promoted_bytes - before.promoted_bytes,
            demoted_bytes: self.demoted_bytes - before.demoted_bytes,
            mover_ns: self.mover_ns - before.mover_ns,
            stall_ns: self.stall_ns - before.stall_ns,
            page_in_ns: self.page_in_ns - before.page_in_ns,
            slots_ns: self.slots_ns - before.slots_ns,
            tracker_ns: self.tracker_ns - before.tracker_ns,
        }
    }

    /// Mean loaded latency of a tier by Little's law, where it was read at all.
    pub fn latency_ns(&self, tier: usize) -> Option<f64> {
        (self.reads[tier] > 0.0).then(|| self.occupancy_ns[tier] / self.reads[tier])
    }
}
