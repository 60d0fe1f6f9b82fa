// SPDX-License-Identifier: Apache-2.0
//! Hint faults: pages are armed, one part of memory at a time; the next access to an armed page faults.
//!
//! The number of the program's accesses until a fault is exponentially distributed; its mean is one over the
//! page's share. So it is drawn once, on the clock of accesses, and remains valid when the load changes. Only a
//! new phase of the program requires new draws. A fault reports the time since its page was armed, and costs
//! the faulting thread time.

use std::collections::BTreeMap;

use tierline_core::port::{Observations, Sample, Tracking};
use tierline_core::rng::Rng;
use tierline_core::tier::TierId;
use tierline_core::unit::{Bytes, Nanos};

use super::entry::TrackerEntry;
use super::{Quantum, Tracker};
use crate::arithmetic::exponential;
use crate::due::{DueQueue, whole};
use crate::machine::{Costs, nanos};
use crate::workload::program::pages_of;
use crate::world::job::Job;

/// Older evidence is discarded, as on Linux (`tierline_linux::tracker::hint_faults`).
const MEMORY: Nanos = Nanos::from_millis(500);

/// Entry in the list of trackers.
pub const HINT_FAULTS: TrackerEntry = TrackerEntry {
    name: "hint_faults",
    open: |knobs| Box::new(HintFaults::new(knobs.scan_period, knobs.scan_part, knobs.scan_fast)),
};

/// The scanner and its armed pages.
#[derive(Clone, Debug)]
pub struct HintFaults {
    watch: Tracking,
    armed: BTreeMap<u32, Armed>,
}

/// The armed pages of a program.
#[derive(Clone, Debug, Default)]
struct Armed {
    version: u64,
    /// Time of arming the next part.
    next_part: Nanos,
    cursor: u32,
    /// One bit per page.
    bits: Vec<u64>,
    /// On the program's clock of accesses: page, and the time at which it was armed.
    faults: DueQueue<(u32, Nanos)>,
    /// Faults of one quantum.
    due: Vec<(u64, (u32, Nanos))>,
}

impl HintFaults {
    /// A scanner that arms `part` of each program's memory every `period`; pages of the fastest tier only if
    /// requested (as Colloid does on TPP).
    pub fn new(period: Nanos, part: Bytes, fast_too: bool) -> Self {
        // A pass in no time: rounds as close as permitted.
        Self::of(Tracking::HintFaults { pass: Nanos::ZERO, bytes: part, floor: period, fast_too })
    }

    /// A scanner with this configuration; configurations of other trackers arm nothing.
    pub fn of(watch: Tracking) -> Self {
        Self { watch, armed: BTreeMap::new() }
    }
}

impl Tracker for HintFaults {
    fn name(&self) -> &'static str {
        HINT_FAULTS.name
    }

    fn watch(
        &mut self,
        quantum: Quantum,
        jobs: &mut [Job],
        costs: &Costs,
        rng: &mut Rng,
        out: &mut Observations,
    ) -> f64 {
        self.armed.retain(|space, _| jobs.iter().any(|job| job.space.0 == *space));
        let mut cpu_ns = 0.0;
        for job in jobs.iter_mut().filter(|job| job.program.managed) {
            let armed = self.armed.entry(job.space.0).or_default();
            armed.keep_up(job, rng);
            job.freed.iter().for_each(|&page| _ = armed.disarm(page));
            let faults = armed.take_faults(job, quantum, out);
            let pieces = job.pieces(job.size);
            job.stall_ns += f64::from(faults) * pieces * costs.hint_fault_ns;
            let memory = Bytes(u64::from(job.live()) * job.size.bytes().0);
            if let Tracking::HintFaults { bytes, fast_too, .. } = self.watch
                && let Some(round) = self.watch.round(memory)
                && quantum.end() >= armed.next_part
            {
                armed.next_part = quantum.end() + round;
                let pages = pages_of(bytes, job.size).min(job.live());
                armed.arm(job, pages, fast_too, quantum.end(), rng);
                cpu_ns += f64::from(pages) * pieces * costs.scan_ns;
            }
        }
        out.remembered_time = Some(MEMORY);
        cpu_ns
    }

    fn reconfigure(&mut self, watch: Tracking) -> bool {
        let can = matches!(watch, Tracking::HintFaults { .. });
        if can {
            self.watch = watch;
        }
        can
    }

    fn observes_fast_memory(&self) -> bool {
        matches!(self.watch, Tracking::HintFaults { fast_too: true, .. })
    }
}

impl Armed {
    /// Draws all faults again if the program's pattern has changed.
    fn keep_up(&mut self, job: &Job, rng: &mut Rng) {
        self.bits.resize(job.places.pages().div_ceil(64) as usize, 0);
        if self.version == job.version {
            return;
        }
        self.version = job.version;
        for (_, (page, at)) in self.faults.take_all().into_iter().rev() {
            let due = fault_at(job, page, job.reads - job.reads_in_quantum, rng);
            self.faults.push(due, (page, at));
        }
    }

    /// False if the page was not armed.
    fn disarm(&mut self, page: u32) -> bool {
        let (word, mask) = (&mut self.bits[page as usize / 64], 1 << (page % 64));
        let was = *word & mask != 0;
        *word &= !mask;
        was
    }

    fn take_faults(&mut self, job: &Job, quantum: Quantum, out: &mut Observations) -> u32 {
        let before = job.reads - job.reads_in_quantum;
        let mut taken = 0;
        let mut due = std::mem::take(&mut self.due);
        self.faults.take(whole(job.reads), &mut due);
        for (at, (page, armed_at)) in due.drain(..) {
            #[expect(clippy::cast_precision_loss, reason = "a clock of accesses below 2^52")]
            let at = at as f64;
            let tier = job.tier_at(page, job.vpn(page));
            if !self.disarm(page) || tier.is_none() {
                continue; // freed or paged out meanwhile
            }
            let part = ((at - before) / job.reads_in_quantum.max(1.0)).clamp(0.0, 1.0);
            let when = quantum.start + nanos(quantum.ns * part);
            out.samples.push(Sample {
                space: job.space,
                vpn: job.vpn(page),
                base_pages: 1,
                hits: 1.0,
                exposure: Some(when.saturating_sub(armed_at).max(Nanos(1))),
                tier,
                write: None,
            });
            taken += 1;
        }
        self.due = due;
        taken
    }

    fn arm(&mut self, job: &Job, pages: u32, fast_too: bool, now: Nanos, rng: &mut Rng) {
        for _ in 0..pages {
            let page = self.cursor % job.live();
            self.cursor = page + 1;
            let mask = 1 << (page % 64);
            let tier = job.tier_at(page, job.vpn(page));
            let there = tier.is_some_and(|tier| fast_too || tier > TierId::FAST);
            if !there || self.bits[page as usize / 64] & mask != 0 {
                continue;
            }
            self.bits[page as usize / 64] |= mask;
            self.faults.push(fault_at(job, page, job.reads, rng), (page, now));
        }
    }
}

/// Time, on the program's clock of accesses, of the next access to a page armed at `from`.
fn fault_at(job: &Job, page: u32, from: f64, rng: &mut Rng) -> u64 {
    let share = job.pattern.density(job.pattern.band(page));
    whole(from + exponential(rng) / share)
}
