// SPDX-License-Identifier: Apache-2.0
//! Costs of moving pages: copying in the closed loop with all other traffic, the kernel's own work, shootdowns,
//! and programs that wait for a page being moved.
//!
//! A page counts as moved at once. Its bytes are copied in the following quanta, and the mover is busy for as
//! long as that takes at present latencies. So a burst of moves distorts placement by at most the time of one
//! batch (the migrator's limit is 200 ms).

use tierline_core::port::PageSize;
use tierline_core::tier::TierId;
use tierline_core::unit::Nanos;

use super::job::Job;
use crate::load::{Class, LINE_BYTES, Loads, Network};
use crate::machine::{Costs, Machine, nanos};

/// The copy engine.
#[derive(Clone, Debug)]
pub struct Mover {
    costs: Costs,
    /// Lines still to be copied, by source and destination tier.
    backlog: [[f64; TierId::MAX]; TierId::MAX],
    busy_until: Nanos,
}

/// Costs of one move.
#[derive(Clone, Copy, Debug, Default)]
pub struct Toll {
    /// The mover's time.
    pub mover_ns: f64,
    /// Thread time of the program.
    pub program_ns: f64,
    /// Share of the mover's time for copying.
    pub copy_ns: f64,
    /// Share of the program's time waiting for the page.
    pub waits_ns: f64,
}

impl Mover {
    /// An idle mover.
    pub fn new(costs: Costs) -> Self {
        let backlog = [[0.0; TierId::MAX]; TierId::MAX];
        Self { costs, backlog, busy_until: Nanos::ZERO }
    }

    /// When all its present work will be done.
    pub fn busy_until(&self) -> Nanos {
        self.busy_until
    }

    /// Adds work.
    pub fn work(&mut self, now: Nanos, ns: f64) {
        self.busy_until = self.busy_until.max(now) + nanos(ns);
    }

    /// Adds the bytes of a page of `size` to the backlog and returns the costs of the move. `reads_per_ns` is
    /// the read rate of the page.
    #[expect(clippy::too_many_arguments, reason = "what a move is")]
    pub fn take(
        &mut self,
        job: &Job,
        size: PageSize,
        from: TierId,
        to: TierId,
        reads_per_ns: f64,
        network: &Network,
        loads: &Loads,
    ) -> Toll {
        let costs = &self.costs;
        let (pieces, fixed_ns) = self.fixed(job, size);
        #[expect(clippy::cast_precision_loss, reason = "the bytes of a page")]
        let lines = size.bytes().0 as f64 / LINE_BYTES;
        let extra_ns = 2.0 * (network.path_ns + loads.wait_ns);
        let (read_ns, write_ns) = (loads.latency_ns[from.index()], loads.latency_ns[to.index()]);
        let copy_ns = lines / pieces * (read_ns + write_ns + extra_ns)
            / (costs.copy_in_flight * costs.copy_threads);
        self.backlog[from.index()][to.index()] += lines;
        let away_ns = fixed_ns + copy_ns;
        // A thread that accesses the page during the move waits for it: probability of an access before the
        // copy ends, times half of the time.
        let threads = job.program.threads.max(f64::MIN_POSITIVE);
        let touches = reads_per_ns / pieces * away_ns / threads;
        let waits_ns = threads * touches / (1.0 + touches) * away_ns * 0.5;
        let interrupts_ns = costs.shootdown_victim_ns * threads;
        Toll {
            mover_ns: pieces * (away_ns + costs.shootdown_ns / costs.shootdown_batch),
            program_ns: pieces * (waits_ns + interrupts_ns / costs.shootdown_batch),
            copy_ns: pieces * copy_ns,
            waits_ns: pieces * waits_ns,
        }
    }

    /// The cost of a move if only copying on an idle machine takes time.
    pub fn at_peak(machine: &Machine, size: PageSize, from: TierId, to: TierId) -> Toll {
        let Costs { copy_in_flight, copy_threads, .. } = machine.costs;
        let tier_ns = |tier: TierId| machine.tiers[tier.index()].queue.curve.unloaded_ns;
        let line_ns = tier_ns(from) + tier_ns(to) + 2.0 * machine.cores.path_ns;
        #[expect(clippy::cast_precision_loss, reason = "the bytes of a page")]
        let lines = size.bytes().0 as f64 / LINE_BYTES;
        Toll { mover_ns: lines * line_ns / (copy_in_flight * copy_threads), ..Toll::default() }
    }

    /// Number of kernel moves for one page, and the costs of each without copying.
    fn fixed(&self, job: &Job, size: PageSize) -> (f64, f64) {
        let is_huge = size == PageSize::Huge && !job.program.memory.in_base_pages;
        let fixed_ns = if is_huge { self.costs.move_huge_ns } else { self.costs.move_base_ns };
        (job.pieces(size), fixed_ns)
    }

    /// Costs of mapping a page to an existing copy.
    pub fn remap(&self, job: &Job) -> Toll {
        let costs = &self.costs;
        let (pieces, fixed_ns) = self.fixed(job, job.size);
        let threads = job.program.threads.max(f64::MIN_POSITIVE);
        Toll {
            mover_ns: pieces * (fixed_ns + costs.shootdown_ns / costs.shootdown_batch),
            program_ns: pieces * costs.shootdown_victim_ns * threads / costs.shootdown_batch,
            ..Toll::default()
        }
    }

    /// Costs of splitting a huge page.
    pub fn split(&self, job: &Job) -> Toll {
        let costs = &self.costs;
        Toll {
            mover_ns: costs.split_ns + costs.shootdown_ns,
            program_ns: costs.shootdown_victim_ns * job.program.threads,
            ..Toll::default()
        }
    }

    /// Appends the classes that copy the backlog. The copying threads divide their misses in flight among pairs
    /// of tiers in proportion to the remaining lines.
    pub fn classes(&self, out: &mut Vec<Class>) {
        let total: f64 = self.backlog.iter().flatten().sum();
        if total <= 0.0 {
            return;
        }
        let in_flight = self.costs.copy_in_flight * self.costs.copy_threads;
        for (from, row) in self.backlog.iter().enumerate() {
            for (to, &lines) in row.iter().enumerate().filter(|(_, lines)| **lines > 0.0) {
                out.push(Class::copy(in_flight * lines / total, from, to));
            }
        }
    }

    /// Scales copying classes down if they need less than the quantum; true if any was scaled.
    pub fn fit(&self, copies: &mut [Class], reads_per_ns: &[f64], ns: f64) -> bool {
        let mut cut = false;
        for ((class, rate), left) in copies.iter_mut().zip(reads_per_ns).zip(self.pairs()) {
            let done = rate * ns;
            if done > left * (1.0 + 1e-9) {
                class.in_flight *= left / done;
                cut = true;
            }
        }
        cut
    }

    /// Subtracts the lines copied in a quantum.
    pub fn copied(&mut self, reads_per_ns: &[f64], ns: f64) {
        let left = self.backlog.iter_mut().flatten().filter(|lines| **lines > 0.0);
        for (lines, rate) in left.zip(reads_per_ns) {
            let done = rate * ns;
            // A remainder of less than a line counts as done.
            *lines = if *lines - done < 1.0 { 0.0 } else { *lines - done };
        }
    }

    /// Backlog of every pair that has one, in the order of [`Mover::classes`].
    fn pairs(&self) -> impl Iterator<Item = f64> + '_ {
        self.backlog.iter().flatten().copied().filter(|&lines| lines > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use tierline_core::port::SpaceId;

    use super::*;
    use crate::workload::datacenter::Datacenter;

    /// By hand: 5 us and a 32nd of a shootdown of 4 us; or 512 times 1.5 us plus the shootdowns.
    #[test]
    fn a_page_that_represents_base_pages_costs_as_much_as_they_do() {
        let mover = Mover::new(Costs::default());
        for (in_base_pages, ns) in [(false, 5_125.0), (true, 512.0 * 1_625.0)] {
            let mut program = Datacenter::default().program().unwrap();
            program.memory.in_base_pages = in_base_pages;
            let job = Job::new(SpaceId(1), program, PageSize::Huge, Nanos::ZERO, 1);
            let toll = mover.remap(&job);
            assert!((toll.mover_ns - ns).abs() < 1e-6, "{}", toll.mover_ns);
        }
    }
}
