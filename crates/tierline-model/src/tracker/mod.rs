// SPDX-License-Identifier: Apache-2.0
//! Trackers: what a sampler, a scanner or a fault handler would have seen of a quantum, and what its
//! looking costs the program and the machine. Names are those of `tierline_core::tracker`.

pub mod accessed;
pub mod damon;
pub mod hint_faults;
pub mod list;
pub mod neoprof;
pub mod pebs;
pub mod truth;

use tierline_core::port::{Attention, Counted, Observations, Watch};
use tierline_core::rng::Rng;
use tierline_core::unit::Nanos;

use crate::machine::Costs;
use crate::world::job::Job;

/// A quantum that is just over.
#[derive(Clone, Copy, Debug)]
pub struct Quantum {
    /// When it began.
    pub start: Nanos,
    /// How long it was, ns.
    pub ns: f64,
}

impl Quantum {
    /// When it ended.
    pub fn end(&self) -> Nanos {
        self.start + crate::machine::nanos(self.ns)
    }
}

/// A source of signs of access in the model.
pub trait Tracker {
    /// The name users know it by.
    fn name(&self) -> &'static str;

    /// Appends what was to be seen in a quantum, and charges the programs for it. Returns the CPU time
    /// of the tracker's own threads, ns.
    fn watch(
        &mut self,
        quantum: Quantum,
        jobs: &mut [Job],
        costs: &Costs,
        rng: &mut Rng,
        out: &mut Observations,
    ) -> f64;

    /// Hears how to look from now on, where a policy changed its mind.
    fn rewatch(&mut self, _watch: Watch) -> bool {
        false
    }

    /// False where it sees nothing of the fastest tier: silence there says nothing then.
    fn sees_fast_memory(&self) -> bool {
        true
    }

    /// What a device that counts has to say since it was last asked.
    fn counted(&mut self) -> Option<Counted> {
        None
    }

    /// Hears how closely to look.
    fn attend(&mut self, _attention: Attention) {}
}
