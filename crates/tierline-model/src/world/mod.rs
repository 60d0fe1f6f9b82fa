// SPDX-License-Identifier: Apache-2.0
//! The model's world: programs run on a machine, quantum by quantum.
//!
//! `observe` runs the machine until now; `measure` reads its counters; `act` moves pages. A quantum costs one
//! fixed point and the work of the trackers.

mod arrivals;
mod bound;
pub mod counters;
pub mod faulty;
pub mod frames;
pub mod job;
pub mod mover;
mod port;
mod quantum;
pub mod shadows;
mod stalls;
pub mod traffic;
pub mod transfer;

pub use arrivals::Arrival;

use std::collections::BTreeMap;

use tierline_core::policy::interface::Ideal;
use tierline_core::port::{Allocation, Attention, Observations, SpaceId, SpaceStalls, TenantId};
use tierline_core::rng::Rng;
use tierline_core::tier::{TierId, Tiers};
use tierline_core::unit::Nanos;

use crate::load::{Class, Loads, Network};
use crate::machine::Machine;
use crate::tracker::Tracker;
use arrivals::Awaited;
use bound::Search;
use counters::MachineCounters;
use frames::Frames;
use job::Job;
use mover::Mover;
use shadows::Shadows;
use traffic::Traffic;
use transfer::Transfer;

/// Settings of a world.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelSettings {
    /// Maximum step.
    pub quantum: Nanos,
    /// Which thread performs a promotion: the one that accessed the page (as in TPP, which promotes in the
    /// fault), or one of the tiering system.
    pub synchronous: bool,
    /// Placement of new pages.
    pub allocation: Allocation,
    /// How pages are moved.
    pub transfer: Transfer,
    /// Accesses are placed, not pages.
    pub ideal: Option<Ideal>,
    /// The factor by which the counters of stalls are wrong: up for the first program, down for the next, and so on.
    /// `None`: there are no such counters.
    pub stall_error: Option<f64>,
    /// Seed of all random numbers of the world.
    pub seed: u64,
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self {
            quantum: Nanos::from_millis(10),
            synchronous: false,
            allocation: Allocation::FirstTouch,
            transfer: Transfer::default(),
            ideal: None,
            stall_error: Some(1.0),
            seed: 1,
        }
    }
}

/// A machine with running programs.
pub struct ModelWorld {
    machine: Machine,
    network: Network,
    tiers: Tiers,
    settings: ModelSettings,
    now: Nanos,
    arrivals: Vec<Awaited>,
    jobs: Vec<Job>,
    /// End times of programs.
    stops: Vec<(SpaceId, Nanos)>,
    next_space: u32,
    frames: Frames,
    /// Base pages of each tier that unmanaged programs occupy.
    ballast: Vec<u64>,
    mover: Mover,
    shadows: Shadows,
    tracker: Box<dyn Tracker>,
    rng: Rng,
    attention: Attention,
    /// Shares of CPU time of the tenants that are limited.
    cpu_shares: BTreeMap<TenantId, f64>,
    counters: MachineCounters,
    reported: MachineCounters,
    /// Traffic of each tenant, and as it was last measured.
    traffic: BTreeMap<TenantId, Traffic>,
    reported_traffic: BTreeMap<TenantId, Traffic>,
    classes: Vec<Class>,
    solved: Vec<Class>,
    loads: Loads,
    search: Search,
    /// What the counters of stalls showed in the last step.
    stalls: Vec<SpaceStalls>,
    seen: Observations,
}

impl ModelWorld {
    /// An empty machine, and programs with their start times.
    pub fn new(
        machine: Machine,
        arrivals: Vec<Arrival>,
        tracker: Box<dyn Tracker>,
        settings: ModelSettings,
    ) -> Self {
        let mut frames = Frames::new(&machine, settings.allocation);
        let arrivals = arrivals.into_iter().map(|one| Awaited::new(one, &mut frames)).collect();
        Self {
            network: machine.network(),
            tiers: machine.describe(),
            frames,
            ballast: vec![0; machine.tiers.len()],
            mover: Mover::new(machine.costs),
            shadows: Shadows::default(),
            machine,
            settings,
            now: Nanos::ZERO,
            arrivals,
            jobs: Vec::new(),
            stops: Vec::new(),
            next_space: 1,
            tracker,
            rng: Rng::new(settings.seed),
            attention: Attention::default(),
            cpu_shares: BTreeMap::new(),
            counters: MachineCounters::default(),
            reported: MachineCounters::default(),
            traffic: BTreeMap::new(),
            reported_traffic: BTreeMap::new(),
            classes: Vec::new(),
            solved: Vec::new(),
            loads: Loads::default(),
            search: Search::default(),
            stalls: Vec::new(),
            seen: Observations::default(),
        }
    }

    /// The machine as described to the core.
    pub fn tiers(&self) -> &Tiers {
        &self.tiers
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The running programs.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// The program of a space.
    pub fn job(&self, space: SpaceId) -> Option<&Job> {
        self.jobs.iter().find(|job| job.space == space)
    }

    /// Counters of the machine since the start.
    pub fn counters(&self) -> &MachineCounters {
        &self.counters
    }

    /// Traffic of a tenant's programs since the start.
    pub fn traffic(&self, tenant: TenantId) -> Traffic {
        self.traffic.get(&tenant).copied().unwrap_or_default()
    }

    /// The same of all tenants.
    pub fn all_traffic(&self) -> &BTreeMap<TenantId, Traffic> {
        &self.traffic
    }

    /// The last fixed point.
    pub fn loads(&self) -> &Loads {
        &self.loads
    }

    /// The shadows of promoted pages.
    pub fn shadows(&self) -> &Shadows {
        &self.shadows
    }

    /// Free and used memory.
    pub fn frames(&self) -> &Frames {
        &self.frames
    }

    /// Time until which the tiering system's thread is busy moving; its next tick is not earlier.
    pub fn busy_until(&self) -> Nanos {
        self.mover.busy_until()
    }

    /// A tenant's share of its CPU time.
    pub fn cpu_share(&self, tenant: TenantId) -> f64 {
        self.cpu_shares.get(&tenant).copied().unwrap_or(1.0)
    }

    /// Name of the tracker.
    pub fn tracker(&self) -> &'static str {
        self.tracker.name()
    }

    /// How closely the trackers were requested to observe.
    pub fn attention(&self) -> Attention {
        self.attention
    }

    /// An unmanaged program occupies all free memory of a tier.
    pub fn fill(&mut self, tier: TierId) {
        let free = self.frames.free(tier);
        self.frames.take(tier, free);
        self.ballast[tier.index()] += free;
        self.shadows.fit(&self.frames);
    }

    /// The unmanaged program that occupied a tier ends.
    pub fn empty(&mut self, tier: TierId) {
        let freed = std::mem::take(&mut self.ballast[tier.index()]);
        self.frames.give(tier, freed);
    }

    /// Recomputes the accounts of all programs from their pages. Visits every page: for tests.
    ///
    /// # Panics
    /// If an incrementally maintained count is wrong.
    pub fn check(&self) {
        use crate::workload::pattern::Census;
        use crate::workload::places::NOWHERE;
        self.shadows.check(&self.frames, &self.jobs);
        let mut used = self.ballast.clone();
        for job in &self.jobs {
            assert_eq!(job.census, Census::take(&job.pattern, &job.places), "{}", job.program.name);
            let parts = (0..job.places.pages()).flat_map(|page| job.places.parts(page));
            for (tier, base_pages) in parts.filter(|part| part.0 != NOWHERE) {
                used[usize::from(tier)] += base_pages;
            }
        }
        for (tier, base_pages) in self.arrivals.iter().filter_map(Awaited::kept) {
            used[tier.index()] += base_pages;
        }
        for ((tier, of), used) in self.tiers.iter().zip(used) {
            let free = self.frames.free(tier);
            assert_eq!(free + used, of.capacity.base_pages(), "{tier}");
        }
    }
}
