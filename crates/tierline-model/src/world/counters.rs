// SPDX-License-Identifier: Apache-2.0
//! Counters of the machine, as a CPU's performance counters would provide them.

use tierline_core::tier::TierId;

use crate::load::{Class, LINE_BYTES, Loads, PerTier};

/// Sums since the start. For rates, keep a copy and take the difference.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MachineCounters {
    /// Time, ns.
    pub ns: f64,
    /// Demand reads by tier: the CHA's inserts.
    pub reads: PerTier,
    /// Demand reads in flight, summed over ns: the CHA's occupancy counter.
    pub occupancy_ns: PerTier,
    /// Bytes read and written, by all programs.
    pub bytes: PerTier,
    /// Utilisation, summed over ns.
    pub utilisation_ns: PerTier,
    /// Bytes copied by moves from each tier to a faster one, and to a slower one.
    pub promoted_bytes: f64,
    /// See `promoted_bytes`.
    pub demoted_bytes: f64,
    /// CPU time of the mover.
    pub mover_ns: f64,
    /// Miss slots times ns that managed programs lose because memory is not in the fastest tier: misses in
    /// flight for longer, and slots idle while threads wait for page-ins.
    pub stall_ns: f64,
    /// Of these, the wait for page-ins.
    pub page_in_ns: f64,
    /// Miss slots times ns of managed programs, in use or idle because of page-ins.
    pub slots_ns: f64,
    /// CPU time of the tracker, including samples taken in the program's threads.
    pub tracker_ns: f64,
}

impl MachineCounters {
    /// Adds a quantum. The first `programs` classes are programs; the others copy pages, and their reads are
    /// not demand reads.
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

    /// The difference to `before`.
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

    /// Mean loaded latency of a tier by Little's law, if there were reads.
    pub fn latency_ns(&self, tier: usize) -> Option<f64> {
        (self.reads[tier] > 0.0).then(|| self.occupancy_ns[tier] / self.reads[tier])
    }
}
