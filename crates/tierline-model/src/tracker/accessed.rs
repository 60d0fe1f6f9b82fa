// SPDX-License-Identifier: Apache-2.0
//! Accessed bits: every page accessed within a window, in every tier.
//!
//! A page with rate r is accessed in a window w with probability `1 − exp(−r·w)`. For pages in a run of one
//! band, the gaps between accessed pages are drawn, so the cost in the model grows with accessed pages. The
//! scanner's charged cost is that of all pages, as on Linux. When calm, it scans rarely.

use tierline_core::port::{Attention, Observations, Sample};
use tierline_core::rng::Rng;
use tierline_core::unit::Nanos;

use super::entry::TrackerEntry;
use super::{Quantum, Tracker};
use crate::arithmetic::{exp, ln};
use crate::machine::Costs;
use crate::world::job::Job;

/// Number of windows remembered, as on Linux (`tierline_linux::tracker::windowed`).
const WINDOWS_REMEMBERED: u64 = 16;
/// Factor by which the period grows when calm.
const CALM: u64 = 10;
/// A run whose pages are almost certainly accessed is reported as one sample.
const SURE: f64 = 1.0 - 1e-9;

/// Entry of the tracker that reads page tables.
pub const ACCESSED: TrackerEntry = TrackerEntry {
    name: "accessed",
    open: |knobs| Box::new(Accessed::new(ACCESSED.name, knobs.window, knobs.window_period)),
};
/// Entry of idle page tracking.
pub const PAGE_IDLE: TrackerEntry = TrackerEntry {
    name: "page_idle",
    open: |knobs| Box::new(Accessed::new(PAGE_IDLE.name, knobs.window, knobs.window_period)),
};

/// The scanner.
#[derive(Clone, Debug)]
pub struct Accessed {
    name: &'static str,
    window: Nanos,
    period: Nanos,
    last: Nanos,
    calm: bool,
}

impl Accessed {
    /// A scanner with a window of `window` every `period`.
    pub fn new(name: &'static str, window: Nanos, period: Nanos) -> Self {
        Self { name, window, period, last: Nanos::ZERO, calm: false }
    }

    fn scan(&self, job: &Job, rng: &mut Rng, out: &mut Observations) {
        let window_ns = self.window.as_secs_f64() * 1e9;
        for run in job.pattern.runs() {
            let rate = job.reads_per_ns * job.pattern.density(run.band);
            let untouched = exp(-rate * window_ns);
            if 1.0 - untouched >= SURE {
                whole(job, run.pages, out);
            } else if untouched < 1.0 {
                some(job, run.pages, untouched, rng, out);
            }
        }
    }
}

impl Tracker for Accessed {
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
        let pause = match (self.last, self.calm) {
            (Nanos::ZERO, _) => Nanos::ZERO,
            (_, true) => self.period * CALM,
            (_, false) => self.period,
        };
        if quantum.end() < self.last + pause + self.window {
            return 0.0;
        }
        self.last = quantum.end();
        let mut cpu_ns = 0.0;
        for job in jobs.iter().filter(|job| job.program.managed) {
            self.scan(job, rng, out);
            cpu_ns += f64::from(job.live()) * job.pieces(job.size) * costs.scan_ns;
        }
        out.watched += self.window;
        out.window = Some(self.window);
        out.remembered_time = Some(self.window * WINDOWS_REMEMBERED);
        cpu_ns
    }

    fn set_attention(&mut self, attention: Attention) {
        self.calm = attention == Attention::Calm;
    }
}

/// All pages of a run, one sample for each part in one tier.
fn whole(job: &Job, pages: std::ops::Range<u32>, out: &mut Observations) {
    let mut start = pages.start;
    for page in pages.clone() {
        let ends = page + 1 == pages.end
            || !job.places.are_alike(start, page + 1)
            || u64::from(page - start) * job.unit() > 1 << 30;
        if ends {
            push(job, start, page + 1 - start, out);
            start = page + 1;
        }
    }
}

/// Pages of a run, each accessed with the same probability: the gaps are geometric.
fn some(
    job: &Job,
    pages: std::ops::Range<u32>,
    untouched: f64,
    rng: &mut Rng,
    out: &mut Observations,
) {
    let scale = 1.0 / ln(untouched);
    let mut page = pages.start;
    loop {
        let gap = ln(1.0 - rng.unit()) * scale;
        if gap >= f64::from(pages.end - page) {
            return;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "below a page count"
        )]
        let gap = gap as u32;
        page += gap;
        push(job, page, 1, out);
        page += 1;
        if page >= pages.end {
            return;
        }
    }
}

fn push(job: &Job, page: u32, pages: u32, out: &mut Observations) {
    let base_pages = u32::try_from(u64::from(pages) * job.unit()).unwrap_or(u32::MAX);
    out.samples.push(Sample {
        space: job.space,
        vpn: job.vpn(page),
        base_pages,
        hits: 1.0,
        exposure: None,
        tier: job.tier(page),
        write: None,
    });
}
