// SPDX-License-Identifier: Apache-2.0
//! PEBS and IBS: one record per P reads from memory, with page and tier.
//!
//! The counter is exact, as in hardware: every P-th read of a program makes a record, whose page is drawn from
//! the distribution of its accesses. A record costs the interrupted thread time. If the ring is full, records
//! are lost and counted.

use tierline_core::port::{Observations, Sample, Tracking, Vpn};
use tierline_core::rng::Rng;
use tierline_core::unit::Nanos;

use super::entry::TrackerEntry;
use super::{Quantum, Tracker};
use crate::machine::{Costs, nanos};
use crate::world::job::Job;

/// Older evidence is discarded, as on Linux (`tierline_linux::tracker::pmu`).
const MEMORY_NS: f64 = 10e9;

/// A sampler with a cost limit: its periods, the time between two steps, and the tolerated deviation as a share
/// of a core. From MEMTIS, `ksamplingd` (`pebs_period_list`).
const PERIODS: [u16; 30] = [
    199, 293, 401, 499, 599, 701, 797, 907, 997, 1201, 1399, 1601, 1801, 1999, 2503, 3001, 3499,
    4001, 4507, 4999, 6007, 7001, 7993, 9001, 10_007, 12_007, 13_999, 16_001, 17_989, 19_997,
];
const STEP_NS: f64 = 15e9;
const SLACK: f64 = 0.005;

/// Entry of PEBS in the list of trackers.
pub const PEBS: TrackerEntry = TrackerEntry {
    name: "pebs",
    open: |knobs| Box::new(Pebs::new(PEBS.name, knobs.sample_period, knobs.ring)),
};
/// Entry of IBS.
pub const IBS: TrackerEntry = TrackerEntry {
    name: "ibs",
    open: |knobs| Box::new(Pebs::new(IBS.name, knobs.sample_period, knobs.ring)),
};

/// The sampler.
#[derive(Clone, Debug)]
pub struct Pebs {
    name: &'static str,
    period: f64,
    /// Cost limit of records, if any.
    quota: Option<Quota>,
    /// Whether it starts at the period to which it would converge.
    settled: bool,
    /// Records that fit into the ring between two readings.
    ring: usize,
    /// Reads of each program since its last record.
    since: Vec<(u32, f64)>,
    drawn: Vec<(u32, Vpn)>,
}

impl Pebs {
    /// A sampler of one read in `period`, whose ring holds `ring` records per quantum.
    pub fn new(name: &'static str, period: f64, ring: usize) -> Self {
        Self::within(name, period, None, true, ring)
    }

    /// The same, but with fewer records if these would take more than `permille` of a core: at once if
    /// `settled`, else step by step.
    pub fn within(
        name: &'static str,
        period: f64,
        permille: Option<u32>,
        settled: bool,
        ring: usize,
    ) -> Self {
        let quota = permille.map(|permille| Quota::of(f64::from(permille) * 1e-3, settled));
        let (since, drawn) = (Vec::new(), Vec::new());
        Self { name, period: period.max(1.0), quota, settled, ring, since, drawn }
    }

    /// The period of this quantum.
    fn period(&mut self, quantum: Quantum, jobs: &[Job], costs: &Costs) -> f64 {
        let Some(quota) = &mut self.quota else { return self.period };
        let managed = jobs.iter().filter(|job| job.program.managed);
        let reads: f64 = managed.map(|job| job.reads_in_quantum).sum();
        quota.period(self.period, reads * costs.sample_ns, quantum.ns)
    }

    /// Records of a program in this quantum.
    fn records(&mut self, job: &Job, period: f64) -> u64 {
        let known = self.since.iter().position(|(space, _)| *space == job.space.0);
        let at = known.unwrap_or_else(|| {
            self.since.push((job.space.0, 0.0));
            self.since.len() - 1
        });
        let reads = self.since[at].1 + job.reads_in_quantum;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "records of a quantum; the cast saturates"
        )]
        let records = (reads / period) as u64;
        #[expect(clippy::cast_precision_loss, reason = "records of a quantum")]
        let counted = records as f64 * period;
        self.since[at].1 = reads - counted;
        records
    }
}

impl Tracker for Pebs {
    fn name(&self) -> &'static str {
        self.name
    }

    fn watch(
        &mut self,
        quantum: Quantum,
        jobs: &mut [Job],
        costs: &Costs,
        rng: &mut Rng,
        out: &mut Observations,
    ) -> f64 {
        let mut cpu_ns = 0.0;
        let period = self.period(quantum, jobs, costs);
        for job in jobs.iter_mut().filter(|job| job.program.managed) {
            let records = self.records(job, period);
            let room = self.ring.saturating_sub(out.samples.len()) as u64;
            let kept = records.min(room);
            out.lost += records - kept;
            // First all pages, then their tiers, so that independent cache misses overlap.
            self.drawn.clear();
            self.drawn.extend((0..kept).map(|_| job.draw(rng)));
            for &(page, vpn) in &self.drawn {
                out.samples.push(Sample {
                    space: job.space,
                    vpn,
                    base_pages: 1,
                    hits: 1.0,
                    exposure: None,
                    tier: job.tier_at(page, vpn),
                    write: Some(false),
                });
            }
            #[expect(clippy::cast_precision_loss, reason = "records of a quantum")]
            let cost = records as f64 * costs.sample_ns;
            job.stall_ns += cost;
            cpu_ns += cost;
        }
        out.watched += nanos(quantum.ns / period);
        out.remembered_time = Some(Nanos::from_secs_f64(MEMORY_NS / period * 1e-9));
        cpu_ns
    }

    fn reconfigure(&mut self, watch: Tracking) -> bool {
        let Tracking::Samples { loads, cpu_permille, .. } = watch else { return false };
        let since = std::mem::take(&mut self.since);
        #[expect(clippy::cast_precision_loss, reason = "a sampling period")]
        let period = loads as f64;
        let renewed = Self::within(self.name, period, cpu_permille, self.settled, self.ring);
        *self = Self { since, ..renewed };
        true
    }
}

/// Cost limit of records, as a share of a core. If they took more in the last 15 s, the next longer period of
/// the list is used; if less, the next shorter one. It starts with the shortest period, or, if settled, with
/// the shortest one within the limit, as if it had been running for long (ours).
#[derive(Clone, Debug)]
struct Quota {
    most: f64,
    settled: bool,
    /// 0 before the first read.
    period: f64,
    /// Time since the last step, and time spent on records in it, ns.
    passed_ns: f64,
    spent_ns: f64,
}

impl Quota {
    fn of(most: f64, settled: bool) -> Self {
        Self { most, settled, period: 0.0, passed_ns: 0.0, spent_ns: 0.0 }
    }

    /// The period for the next `ns`, at least `shortest`, given the cost `all_ns` of recording every read.
    fn period(&mut self, shortest: f64, all_ns: f64, ns: f64) -> f64 {
        let mut list = PERIODS.into_iter().map(f64::from).filter(|&period| period >= shortest);
        if self.period <= 0.0 {
            if all_ns <= 0.0 {
                return shortest;
            }
            let fits = |&period: &f64| all_ns / period <= (self.most + SLACK) * ns;
            let first = if self.settled {
                list.clone().find(fits).or(list.next_back())
            } else {
                list.next()
            };
            self.period = first.unwrap_or(shortest);
            return self.period;
        }
        (self.passed_ns, self.spent_ns) =
            (self.passed_ns + ns, self.spent_ns + all_ns / self.period);
        if self.passed_ns >= STEP_NS {
            let over = self.spent_ns / self.passed_ns - self.most;
            let now = self.period;
            let next = match over {
                SLACK.. => list.clone().find(|&longer| longer > now),
                _ if over < -SLACK => list.clone().rfind(|&shorter| shorter < now),
                _ => None,
            };
            *self = Self { period: next.unwrap_or(now), ..Self::of(self.most, self.settled) };
        }
        self.period
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand, for 3 % of a core and 300 ns per record. 100 M reads per second cost 30 cores with a record for
    /// each read, and 3.5 % at 857, so 907 is the first period that fits. From 150 M on, 4.2 % is too much,
    /// until 1399. Back at 100 M, 2.1 % is too little, until 1201, whose 2.498 % is also too little; 997 has
    /// 3.009 %.
    #[test]
    fn the_period_follows_the_load_a_step_every_15_s() {
        let mut quota = Quota::of(0.03, true);
        let mut after = |million: f64, seconds: u32| {
            let periods = (0..seconds).map(|_| quota.period(199.0, million * 1e6 * 300.0, 1e9));
            periods.last().unwrap_or(0.0)
        };
        assert_eq!(after(0.0, 5), 199.0, "nothing to sample");
        assert_eq!(after(100.0, 1), 907.0);
        assert_eq!(after(100.0, 90), 907.0, "3.3 % are within the slack");
        assert_eq!(after(150.0, 30), 1201.0, "two steps");
        assert_eq!(after(150.0, 90), 1399.0, "3.2 %");
        assert_eq!(after(100.0, 15), 1201.0);
        assert_eq!(after(100.0, 90), 997.0);
        assert_eq!(after(1e4, 3600), 19_997.0, "the longest there is");
        assert_eq!(after(0.001, 3600), 199.0);
    }

    /// As in the kernel: seven steps from 199 to 907.
    #[test]
    fn a_sampler_that_is_not_settled_begins_with_the_shortest_period() {
        let mut quota = Quota::of(0.03, false);
        let mut after = |seconds: u32| {
            let periods = (0..seconds).map(|_| quota.period(199.0, 100e6 * 300.0, 1e9));
            periods.last().unwrap_or(0.0)
        };
        assert_eq!(after(15), 199.0);
        assert_eq!(after(15), 293.0);
        assert_eq!(after(6 * 15), 907.0);
        assert_eq!(after(900), 907.0);
    }
}
