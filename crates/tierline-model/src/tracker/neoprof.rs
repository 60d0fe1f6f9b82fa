// SPDX-License-Identifier: Apache-2.0
//! NeoProf: slow memory counts its accesses itself, by the reference model of that hardware (crate `neoprof`).
//!
//! The device's access stream is drawn from the programs' distributions, thinned: a draw represents several
//! consecutive accesses to one page, such that all draws together represent all accesses. Only draws served by
//! slow memory reach the device. So a counter has the right expectation, with the larger variance of fewer
//! draws, and the cost of a quantum grows with the draws. A page's number on the device is its number in the
//! program plus the start of the program's memory. It keeps this number, and its count, when it moves. Page
//! copies are not counted. One unit represents those of all slower tiers.

use neoprof::histogram::bin_start;
use neoprof::rates::{self, Reading};
use neoprof::{Config, LANES_MAX, NeoProf, State};
use tierline_core::port::{DeviceCounts, Observations, Sample, SpaceId, Tracking, Vpn};
use tierline_core::rng::Rng;
use tierline_core::tier::TierId;
use tierline_core::unit::Nanos;

use super::entry::{TrackerEntry, TrackerKnobs};
use super::{Quantum, Tracker};
use crate::machine::{Costs, nanos};
use crate::world::job::Job;

/// Entry in the list of trackers.
pub const NEOPROF: TrackerEntry =
    TrackerEntry { name: "neoprof", open: |knobs| Box::new(Device::new(knobs)) };

/// Draws per ns (ours): a thousand draws per second for each of a thousand pages.
const DRAWS_PER_NS: f64 = 1e-3;
/// The device's clock (NeoMem, table III: 400 MHz); each access takes one cycle.
const CYCLES_PER_NS: f64 = 0.4;
/// An uncached register read across the bus (ours), the only cost for the host.
const REGISTER_NS: f64 = 1_000.0;
/// Configuration if the policy requests none, as on Linux.
const WATCH: Tracking = Tracking::Counters {
    threshold: rates::LEAST,
    read: Nanos::from_millis(10),
    update: Nanos(rates::INTERVAL_NS),
    clear: Nanos(rates::INTERVAL_NS),
};

/// The device, and its reader.
#[derive(Clone, Debug)]
pub struct Device {
    unit: NeoProf,
    watch: Tracking,
    /// Whether θ follows the counters, as no configuration was requested.
    adaptive: bool,
    /// Start of each program's memory on the device, and its length, in base pages.
    spaces: Vec<(u32, u32, SpaceId)>,
    next: u32,
    /// Times of the last reading of hot pages, the last reading of counters, and the last clearing.
    read: Nanos,
    updated: Nanos,
    cleared: Nanos,
    /// The last reading of hot pages since the clearing.
    reading: Reading,
    last_state: State,
    counted: Option<DeviceCounts>,
    /// Fractions of reads, writes and cycles, carried over.
    carry: [f64; 3],
    drawn: Vec<(u32, Vpn)>,
}

impl Device {
    /// A device with the default configuration.
    pub fn new(knobs: &TrackerKnobs) -> Self {
        Self { adaptive: true, ..Self::of(WATCH, knobs) }
    }

    /// A device with this configuration; the sketch's dimensions come from the knobs, limited to valid values.
    pub fn of(watch: Tracking, knobs: &TrackerKnobs) -> Self {
        let config = Config {
            width_log2: knobs.sketch_width_log2.clamp(6, 24),
            depth: knobs.sketch_depth.clamp(1, LANES_MAX),
            ..Config::default()
        };
        let mut device = Self {
            unit: NeoProf::new(config),
            watch,
            adaptive: false,
            spaces: Vec::new(),
            next: 0,
            read: Nanos::ZERO,
            updated: Nanos::ZERO,
            cleared: Nanos::ZERO,
            reading: Reading::default(),
            last_state: State::default(),
            counted: None,
            carry: [0.0; 3],
            drawn: Vec::new(),
        };
        device.reconfigure(watch);
        device
    }

    /// Start of a program's memory on the device; `None` after 16 TiB have been assigned.
    fn start(&mut self, job: &Job) -> Option<u32> {
        let known = self.spaces.iter().find(|(_, _, space)| *space == job.space);
        if let Some(&(start, ..)) = known {
            return Some(start);
        }
        let length = u32::try_from(u64::from(job.places.pages()) * job.unit()).ok()?;
        let start = self.next;
        self.next = start.checked_add(length)?;
        self.spaces.push((start, length, job.space));
        Some(start)
    }

    /// Feeds a program's accesses of a quantum to the device, in at most `draws` draws. Returns the number of
    /// accesses.
    fn see(&mut self, job: &Job, draws: f64, rng: &mut Rng) -> u64 {
        let Some(start) = self.start(job) else { return 0 };
        let reads = whole(&mut self.carry[0], job.reads_in_quantum);
        let draws = whole(&mut 0.0, draws + 1.0).min(reads);
        if draws == 0 {
            return 0;
        }
        let (each, more) = (reads / draws, reads % draws);
        // First all pages, then their tiers, so that independent cache misses overlap.
        self.drawn.clear();
        self.drawn.extend((0..draws).map(|_| job.draw(rng)));
        let mut seen = 0;
        for (draw, &(page, vpn)) in (0..).zip(&self.drawn) {
            if job.tier_at(page, vpn).is_none_or(|tier| tier == TierId::FAST) {
                continue;
            }
            let reads = each + u64::from(draw < more);
            let writes = whole(&mut self.carry[1], as_f64(reads) * job.program.writes_per_read);
            let at = start + u32::try_from(vpn.0).unwrap_or(0);
            for (accesses, write) in [(reads, false), (writes, true)] {
                self.unit.accesses(at, write, u32::try_from(accesses).unwrap_or(u32::MAX));
            }
            seen += reads + writes;
        }
        seen
    }

    /// Hits of a page that was reported since the last reading. Without a requested configuration they are the
    /// hits of a whole interval; `None` if the count is not significant.
    #[expect(clippy::cast_precision_loss, reason = "a threshold of 16 bits")]
    fn hits(&mut self, now: Nanos) -> Option<f32> {
        let ns = now.saturating_sub(self.cleared).0;
        let reading = Reading { ns, accesses: self.unit.counted_accesses() };
        let last = std::mem::replace(&mut self.reading, reading);
        let count = self.unit.theta() + 1;
        if !self.adaptive {
            return Some(count as f32);
        }
        let width = u32::try_from(self.unit.config().width()).unwrap_or(u32::MAX);
        rates::in_interval(count, width, last, reading)
    }

    /// Reads all queued hot pages. Returns their number.
    fn read_hot(&mut self, now: Nanos, jobs: &[Job], out: &mut Observations) -> u32 {
        let mut read = 0;
        let hits = self.hits(now);
        while let Some(page) = self.unit.pop_hot() {
            read += 1;
            let Some(hits) = hits else { continue };
            let holds = |(start, length, _): &&(u32, u32, SpaceId)| {
                (*start..start + length).contains(&page)
            };
            let Some(&(start, _, space)) = self.spaces.iter().find(holds) else { continue };
            let mut managed = jobs.iter().filter(|job| job.program.managed);
            let Some(job) = managed.find(|job| job.space == space) else { continue };
            let vpn = Vpn((page - start).into());
            let Some(page) = job.page_at(vpn) else { continue };
            let Some(tier) = job.tier_at(page, vpn) else { continue };
            out.samples.push(Sample {
                space,
                vpn,
                base_pages: 1,
                hits,
                exposure: None,
                tier: Some(tier),
                write: None,
            });
        }
        read
    }

    /// Reads the histogram, from which θ is set if no policy sets it, and the state monitor.
    fn update(&mut self) {
        let state = self.unit.state();
        let utilisation = state.since(&self.last_state).utilisation().unwrap_or(0.0);
        self.last_state = state;
        let counters = self.unit.histogram();
        if self.adaptive {
            self.unit.set_threshold(rates::threshold(&counters));
        }
        let histogram = (0..).map(bin_start).zip(counters.bins).collect();
        self.counted =
            Some(DeviceCounts { histogram, error_bound: self.unit.error_bound(), utilisation });
    }
}

impl Tracker for Device {
    fn name(&self) -> &'static str {
        NEOPROF.name
    }

    fn watch(
        &mut self,
        quantum: Quantum,
        jobs: &mut [Job],
        _costs: &Costs,
        rng: &mut Rng,
        out: &mut Observations,
    ) -> f64 {
        self.spaces.retain(|(_, _, space)| jobs.iter().any(|job| job.space == *space));
        let all: f64 = jobs.iter().map(|job| job.reads_in_quantum).sum();
        let mut seen = 0;
        for job in jobs.iter() {
            let share = if all > 0.0 { job.reads_in_quantum / all } else { 0.0 };
            seen += self.see(job, quantum.ns * DRAWS_PER_NS * share, rng);
        }
        let cycles = whole(&mut self.carry[2], quantum.ns * CYCLES_PER_NS);
        self.unit.idle(cycles.saturating_sub(seen));

        let Tracking::Counters { read, update, clear, .. } = self.watch else { return 0.0 };
        let now = quantum.end();
        let mut registers = 0;
        if now >= self.read + read {
            self.read = now;
            registers += 1 + u32::from(self.adaptive) + self.read_hot(now, jobs, out);
        }
        if now >= self.updated + update {
            self.updated = now;
            self.update();
            registers += 5 + 64; // the state monitor's three, the trigger, the number of bins, the bins
        }
        out.watched += nanos(quantum.ns);
        if now >= self.cleared + clear {
            (self.cleared, self.reading) = (now, Reading::default());
            self.unit.reset();
            self.last_state = State::default();
            registers += 1;
        }
        (out.remembered_time, out.report_interval) = (Some(clear), Some(clear));
        f64::from(registers) * REGISTER_NS
    }

    fn reconfigure(&mut self, watch: Tracking) -> bool {
        let Tracking::Counters { threshold, .. } = watch else { return false };
        self.unit.set_threshold(threshold);
        (self.watch, self.adaptive) = (watch, false);
        true
    }

    fn observes_fast_memory(&self) -> bool {
        false
    }

    fn take_device_counts(&mut self) -> Option<DeviceCounts> {
        self.counted.take()
    }
}

/// Adds to a carry and returns its whole part.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "accesses and cycles of a quantum; the cast saturates"
)]
fn whole(carry: &mut f64, more: f64) -> u64 {
    let sum = *carry + more;
    let whole = sum as u64;
    *carry = sum - as_f64(whole);
    whole
}

#[expect(clippy::cast_precision_loss, reason = "accesses and cycles of a quantum")]
fn as_f64(count: u64) -> f64 {
    count as f64
}
