// SPDX-License-Identifier: Apache-2.0
//! Truth: the exact rate of every page, reported every second, and when it changes. For oracles; no real machine has it.
//! Like any tracker it does not fall silent about a page that is accessed: policies drop pages that do not pay at present,
//! and wait for the next report of them.
//!
//! Rates use the program's throughput at the time of the report; for policies only their ratios matter.

use std::collections::BTreeMap;

use tierline_core::port::{Observations, TrueRate};
use tierline_core::rng::Rng;
use tierline_core::unit::Nanos;

use super::entry::TrackerEntry;
use super::{Quantum, Tracker};
use crate::machine::Costs;
use crate::world::job::Job;

/// Entry in the list of trackers.
pub const TRUTH: TrackerEntry = TrackerEntry { name: "truth", open: |_| Box::<Truth>::default() };

/// Time between two reports of the same rates, at most.
const AGAIN: Nanos = Nanos::from_secs(1);

/// The source for the oracle.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// Version and drift of each program at its last report, and the second of it.
    reported: BTreeMap<u32, (u64, u64, u64)>,
}

impl Tracker for Truth {
    fn name(&self) -> &'static str {
        TRUTH.name
    }

    fn watch(
        &mut self,
        quantum: Quantum,
        jobs: &mut [Job],
        _costs: &Costs,
        _rng: &mut Rng,
        out: &mut Observations,
    ) -> f64 {
        self.reported.retain(|space, _| jobs.iter().any(|job| job.space.0 == *space));
        for job in jobs.iter().filter(|job| job.program.managed) {
            let now = (job.version, job.drifted, quantum.end().0 / AGAIN.0);
            let due = self.reported.get(&job.space.0) != Some(&now);
            if due && job.reads_in_quantum > 0.0 {
                self.reported.insert(job.space.0, now);
                // The last report before a tick counts.
                out.true_rates.retain(|rate| rate.space != job.space);
                report(job, out);
                // Known rates do not decay.
                out.remembered_time = Some(Nanos::from_secs(1_000));
            }
        }
        0.0
    }
}

fn report(job: &Job, out: &mut Observations) {
    for run in job.pattern.runs() {
        let rate = job.reads_per_ns * 1e9 * job.pattern.density(run.band);
        #[expect(clippy::cast_possible_truncation, reason = "rates are f32 in the core")]
        let rate_per_sec = rate as f32;
        let base_pages = u64::from(run.pages.end - run.pages.start) * job.unit();
        out.true_rates.push(TrueRate {
            space: job.space,
            vpn: job.vpn(run.pages.start),
            base_pages: u32::try_from(base_pages).unwrap_or(u32::MAX),
            rate_per_sec,
        });
    }
}
