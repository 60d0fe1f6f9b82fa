// SPDX-License-Identifier: Apache-2.0
//! PEBS and IBS: one in so many reads from memory, with its page and tier.
//!
//! The counter is exact, as in hardware: every P-th read of a program makes a record, and the page is
//! drawn from the distribution of its accesses. A record costs the thread it interrupts; where the ring
//! is full, records are lost and counted.

use tierline_core::policy::Watch;
use tierline_core::port::{Observations, Sample, Vpn};
use tierline_core::rng::Rng;
use tierline_core::unit::Nanos;

use super::{Quantum, Tracker};
use crate::machine::{Costs, nanos};
use crate::world::job::Job;

/// Evidence older than this is forgotten, as on Linux (`tierline_linux::tracker::pmu`).
const MEMORY_NS: f64 = 10e9;

/// The longest period of a sampler that may only cost so much (MEMTIS, its list of load periods).
const LONGEST: f64 = 19_997.0;

/// The sampler.
#[derive(Clone, Debug)]
pub struct Pebs {
    name: &'static str,
    period: f64,
    /// Of a core, what records may cost.
    most: Option<f64>,
    /// Records that fit the ring between two looks.
    ring: usize,
    /// Reads of each program since its last record.
    since: Vec<(u32, f64)>,
    drawn: Vec<(u32, Vpn)>,
}

impl Pebs {
    /// A sampler of one read in `period`, whose ring holds so many records a quantum.
    pub fn new(name: &'static str, period: f64, ring: usize) -> Self {
        Self::within(name, period, None, ring)
    }

    /// Likewise, but of fewer where its records would take more than `permille` of a core.
    pub fn within(name: &'static str, period: f64, permille: Option<u32>, ring: usize) -> Self {
        let most = permille.map(|permille| f64::from(permille) * 1e-3);
        Self { name, period: period.max(1.0), most, ring, since: Vec::new(), drawn: Vec::new() }
    }

    /// The period at which the programs' reads of this quantum cost what they may. MEMTIS steps through a
    /// list of periods every 15 s until its share of a core is right; here it is right at once, and the
    /// longest of its periods is the longest here.
    fn period(&self, quantum: Quantum, jobs: &[Job], costs: &Costs) -> f64 {
        let Some(most) = self.most else { return self.period };
        let managed = jobs.iter().filter(|job| job.program.managed);
        let reads: f64 = managed.map(|job| job.reads_in_quantum).sum();
        (reads * costs.sample_ns / (most * quantum.ns)).clamp(self.period, LONGEST.max(self.period))
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
            // First all pages, then their tiers: misses of the cache that do not wait for each other overlap.
            self.drawn.clear();
            self.drawn.extend((0..kept).map(|_| job.draw(rng)));
            for &(page, vpn) in &self.drawn {
                out.samples.push(Sample {
                    space: job.space,
                    vpn,
                    base_pages: 1,
                    hits: 1.0,
                    exposure: None,
                    tier: job.tier(page),
                    write: Some(false),
                });
            }
            #[expect(clippy::cast_precision_loss, reason = "records of a quantum")]
            let cost = records as f64 * costs.sample_ns;
            job.stall_ns += cost;
            cpu_ns += cost;
        }
        out.watched += nanos(quantum.ns / period);
        out.memory = Some(Nanos::from_secs_f64(MEMORY_NS / period * 1e-9));
        cpu_ns
    }

    fn rewatch(&mut self, watch: Watch) {
        if let Watch::Samples { loads, cpu_permille, .. } = watch {
            let since = std::mem::take(&mut self.since);
            #[expect(clippy::cast_precision_loss, reason = "a sampling period")]
            let period = loads as f64;
            *self = Self { since, ..Self::within(self.name, period, cpu_permille, self.ring) };
        }
    }
}
