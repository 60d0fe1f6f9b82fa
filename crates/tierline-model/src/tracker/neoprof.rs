// SPDX-License-Identifier: Apache-2.0
//! NeoProf: slow memory counts its accesses itself, in the reference model of that hardware (crate `neoprof`).
//!
//! The device's access stream is drawn from the programs' distributions, thinned: a draw stands for as many
//! accesses in a row to one page as it takes for all draws together to be all accesses, and only draws that slow memory
//! serves reach it. So a counter's expectation is that of the device, its spread that of the fewer draws; a quantum
//! costs draws. A page's number on the device is that in its program, plus where the program's memory begins: it
//! keeps it when it is moved, and with it what was counted. Copying pages is not seen. One unit stands for those of
//! all slower tiers.

use neoprof::histogram::bin_start;
use neoprof::rates::{self, Reading};
use neoprof::{Config, LANES_MAX, NeoProf, State};
use tierline_core::port::{Counted, Observations, Sample, SpaceId, Vpn, Watch};
use tierline_core::rng::Rng;
use tierline_core::tier::TierId;
use tierline_core::unit::Nanos;

use super::list::Knobs;
use super::{Quantum, Tracker};
use crate::machine::{Costs, nanos};
use crate::world::job::Job;

/// Draws per ns (ours): a thousand pages are drawn a thousand times a second each.
const DRAWS_PER_NS: f64 = 1e-3;
/// The device's clock (NeoMem, table III: 400 MHz), of which a cycle takes one access.
const CYCLES_PER_NS: f64 = 0.4;
/// An uncached read of a register across the bus (ours), which is all that the host does.
const REGISTER_NS: f64 = 1_000.0;
/// How it is watched where nobody says, as on Linux.
const WATCH: Watch = Watch::Counters {
    threshold: rates::LEAST,
    read: Nanos::from_millis(10),
    update: Nanos(rates::INTERVAL_NS),
    clear: Nanos(rates::INTERVAL_NS),
};

/// The device, and who reads it.
#[derive(Clone, Debug)]
pub struct Device {
    unit: NeoProf,
    watch: Watch,
    /// Whether θ follows the counters, as nobody says how it is watched.
    adaptive: bool,
    /// Where each program's memory begins on the device and how long it is, in base pages.
    spaces: Vec<(u32, u32, SpaceId)>,
    next: u32,
    /// When hot pages and counters were last read, and counters cleared.
    read: Nanos,
    updated: Nanos,
    cleared: Nanos,
    /// The last reading of hot pages since then.
    reading: Reading,
    told: State,
    counted: Option<Counted>,
    /// Parts of reads, of writes and of cycles that are still to come.
    carry: [f64; 3],
    drawn: Vec<(u32, Vpn)>,
}

impl Device {
    /// A device that is watched as is best for what it tells.
    pub fn new(knobs: &Knobs) -> Self {
        Self { adaptive: true, ..Self::of(WATCH, knobs) }
    }

    /// A device that is watched so, with a sketch as the knobs say, or the nearest that there is.
    pub fn of(watch: Watch, knobs: &Knobs) -> Self {
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
            told: State::default(),
            counted: None,
            carry: [0.0; 3],
            drawn: Vec::new(),
        };
        device.rewatch(watch);
        device
    }

    /// Where a program's memory begins on the device; `None` once 16 TiB have come and gone.
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

    /// Lets the device see a program's accesses of a quantum, in `draws` draws at most; returns how many it saw.
    fn see(&mut self, job: &Job, draws: f64, rng: &mut Rng) -> u64 {
        let Some(start) = self.start(job) else { return 0 };
        let reads = whole(&mut self.carry[0], job.reads_in_quantum);
        let draws = whole(&mut 0.0, draws + 1.0).min(reads);
        if draws == 0 {
            return 0;
        }
        let (each, more) = (reads / draws, reads % draws);
        // First all pages, then their tiers: misses of the cache that do not wait for each other overlap.
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

    /// The hits of a page that was named at some time since the last reading. Where nobody says how the device is
    /// watched, they are those of all the interval; `None` where they tell nothing.
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

    /// Reads all hot pages that wait. Returns how many.
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

    /// Reads the histogram, which θ follows where nobody sets it, and the state monitor.
    fn update(&mut self) {
        let state = self.unit.state();
        let utilisation = state.since(&self.told).utilisation().unwrap_or(0.0);
        self.told = state;
        let counters = self.unit.histogram();
        if self.adaptive {
            self.unit.set_threshold(rates::threshold(&counters));
        }
        let histogram = (0..).map(bin_start).zip(counters.bins).collect();
        self.counted =
            Some(Counted { histogram, error_bound: self.unit.error_bound(), utilisation });
    }
}

impl Tracker for Device {
    fn name(&self) -> &'static str {
        "neoprof"
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

        let Watch::Counters { read, update, clear, .. } = self.watch else { return 0.0 };
        let now = quantum.end();
        let mut registers = 0;
        if now >= self.read + read {
            self.read = now;
            registers += 1 + u32::from(self.adaptive) + self.read_hot(now, jobs, out);
        }
        if now >= self.updated + update {
            self.updated = now;
            self.update();
            registers += 5 + 64; // the state monitor's three, the trigger, how many bins there are, the bins
        }
        out.watched += nanos(quantum.ns);
        if now >= self.cleared + clear {
            (self.cleared, self.reading) = (now, Reading::default());
            self.unit.reset();
            self.told = State::default();
            registers += 1;
        }
        out.memory = Some(clear);
        f64::from(registers) * REGISTER_NS
    }

    fn rewatch(&mut self, watch: Watch) -> bool {
        let Watch::Counters { threshold, .. } = watch else { return false };
        self.unit.set_threshold(threshold);
        (self.watch, self.adaptive) = (watch, false);
        true
    }

    fn sees_fast_memory(&self) -> bool {
        false
    }

    fn counted(&mut self) -> Option<Counted> {
        self.counted.take()
    }
}

/// Adds to what is carried, and takes the whole part of it.
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
