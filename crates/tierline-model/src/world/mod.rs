// SPDX-License-Identifier: Apache-2.0
//! The world that the core sees: programs run on a machine, quantum by quantum.
//!
//! `observe` lets the machine run until now; `measure` reads its counters; `migrate` moves pages. A
//! quantum costs one fixed point and what trackers saw in it.

mod arrivals;
pub mod books;
pub mod faulty;
pub mod frames;
pub mod job;
pub mod mover;
mod port;
mod quantum;
pub mod shadows;
pub mod transfer;

pub use arrivals::Arrival;

use tierline_core::port::{Allocation, Attention, Observations, SpaceId};
use tierline_core::rng::Rng;
use tierline_core::tier::{TierId, Tiers};
use tierline_core::unit::Nanos;

use crate::load::{Class, Loads, Network};
use crate::machine::Machine;
use crate::tracker::Tracker;
use arrivals::Awaited;
use books::Books;
use frames::Frames;
use job::Job;
use mover::Mover;
use shadows::Shadows;
use transfer::Transfer;

/// How to run a world.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The longest step.
    pub quantum: Nanos,
    /// Who pays for a move: the thread that touched the page (as in TPP, which promotes in the fault), or
    /// a thread of the tiering system.
    pub synchronous: bool,
    /// Where new pages go.
    pub allocation: Allocation,
    /// How pages are moved.
    pub transfer: Transfer,
    /// The seed of all chance in the world.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            quantum: Nanos::from_millis(10),
            synchronous: false,
            allocation: Allocation::FirstTouch,
            transfer: Transfer::default(),
            seed: 1,
        }
    }
}

/// A machine with programs on it.
pub struct ModelWorld {
    machine: Machine,
    network: Network,
    tiers: Tiers,
    settings: Settings,
    now: Nanos,
    arrivals: Vec<Awaited>,
    jobs: Vec<Job>,
    /// When programs end.
    stops: Vec<(SpaceId, Nanos)>,
    next_space: u32,
    frames: Frames,
    /// Base pages of each tier that others hold.
    ballast: Vec<u64>,
    mover: Mover,
    shadows: Shadows,
    tracker: Box<dyn Tracker>,
    rng: Rng,
    attention: Attention,
    books: Books,
    told: Books,
    classes: Vec<Class>,
    solved: Vec<Class>,
    loads: Loads,
    seen: Observations,
}

impl ModelWorld {
    /// An empty machine on which programs arrive in their time.
    pub fn new(
        machine: Machine,
        arrivals: Vec<Arrival>,
        tracker: Box<dyn Tracker>,
        settings: Settings,
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
            books: Books::default(),
            told: Books::default(),
            classes: Vec::new(),
            solved: Vec::new(),
            loads: Loads::default(),
            seen: Observations::default(),
        }
    }

    /// The machine as the core is told of it.
    pub fn tiers(&self) -> &Tiers {
        &self.tiers
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The programs that run now.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// The program in a space.
    pub fn job(&self, space: SpaceId) -> Option<&Job> {
        self.jobs.iter().find(|job| job.space == space)
    }

    /// What went through the machine since the start.
    pub fn books(&self) -> &Books {
        &self.books
    }

    /// The latest fixed point.
    pub fn loads(&self) -> &Loads {
        &self.loads
    }

    /// The frames that promoted pages left behind.
    pub fn shadows(&self) -> &Shadows {
        &self.shadows
    }

    /// What is free and what is taken.
    pub fn frames(&self) -> &Frames {
        &self.frames
    }

    /// Until when the tiering system's thread is busy moving: its next tick comes no sooner.
    pub fn busy_until(&self) -> Nanos {
        self.mover.busy_until()
    }

    /// The name of what watches.
    pub fn tracker(&self) -> &'static str {
        self.tracker.name()
    }

    /// How closely the trackers were told to look.
    pub fn attention(&self) -> Attention {
        self.attention
    }

    /// Somebody who is not managed takes all that is free in a tier, and keeps it.
    pub fn fill(&mut self, tier: TierId) {
        let free = self.frames.free(tier);
        self.frames.take(tier, free);
        self.ballast[tier.index()] += free;
        self.shadows.fit(&self.frames);
    }

    /// Re-derives the books of all programs from their pages. Walks everything: for tests.
    ///
    /// # Panics
    /// Where counts kept along the way differ from what is there.
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
