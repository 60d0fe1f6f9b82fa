// SPDX-License-Identifier: Apache-2.0
//! Counters of the cores: how the reads of each address space stall its threads.
//!
//! A core has `k` places for misses. Each is idle for the think time and then waits for its read. So the stalled share of
//! the time is the share in which a place waits, and a core has a read in flight unless all its places are idle.

use tierline_core::port::SpaceStalls;

use super::job::Job;
use crate::arithmetic::pow;
use crate::load::{Class, Loads};
use crate::machine::Cores;
use crate::workload::program::Program;

/// The threads of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Threads {
    /// Their number.
    pub threads: f64,
    /// Places for misses of each.
    pub places: f64,
}

impl Threads {
    pub fn of(program: &Program, cores: &Cores) -> Self {
        Self { threads: program.threads, places: program.reach.of(cores).0 }
    }
}

/// A program's load, and the machine's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running<'a> {
    pub class: &'a Class,
    pub reads_per_ns: f64,
    pub loads: &'a Loads,
    pub path_ns: f64,
}

impl Running<'_> {
    /// The sum over tiers of a part of the reads, times the latency of each.
    fn latency_ns(&self, parts: &[f64]) -> f64 {
        let extra_ns = self.loads.wait_ns + self.path_ns;
        let tiers = parts.iter().zip(&self.loads.latency_ns);
        tiers.map(|(part, latency_ns)| part * (latency_ns + extra_ns)).sum()
    }
}

/// Adds the counters of a program's managed memory: one entry for each of its spaces.
pub(super) fn count(
    group: &[Job],
    threads: Threads,
    running: &Running<'_>,
    out: &mut Vec<SpaceStalls>,
) {
    let Threads { threads, places } = threads;
    let in_flight = threads * places;
    if in_flight <= 0.0 || running.reads_per_ns <= 0.0 {
        return;
    }
    let all = Job::weights(group);
    let latency_ns = running.latency_ns(&running.class.reads);
    let reads_in_flight = running.reads_per_ns * latency_ns / threads;
    let overlap = overlap(reads_in_flight, places);
    for job in group.iter().filter(|job| job.program.managed) {
        let reads_per_ns = running.reads_per_ns * job.weight() / all;
        let exposed = job.program.memory.exposed;
        out.push(SpaceStalls {
            space: job.space,
            reads_per_sec: reads_per_ns * 1e9,
            latency_ns,
            overlap,
            stalled: (reads_per_ns * latency_ns * exposed / in_flight).min(1.0),
        });
    }
}

/// Mean reads in flight on a core while there is one, of so many on average in so many places. Prefetches take further
/// places.
fn overlap(reads_in_flight: f64, places: f64) -> f64 {
    let places = places.max(1.0).max(reads_in_flight);
    let idle = 1.0 - reads_in_flight / places;
    let any = if idle > 0.0 { 1.0 - pow(idle, places) } else { 1.0 };
    if any > 0.0 { (reads_in_flight / any).max(1.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: ten places that are always busy; one place that is busy for half of the time; two places, each busy for
    /// half: one read on average, and one in flight in three quarters of the time.
    #[test]
    fn overlap_is_counted_only_while_a_read_is_in_flight() {
        for (reads, places, expected) in
            [(10.0, 10.0, 10.0), (0.5, 1.0, 1.0), (1.0, 2.0, 4.0 / 3.0)]
        {
            let found = overlap(reads, places);
            assert!((found - expected).abs() < 1e-9, "{reads} in {places}: {found}");
        }
    }
}
