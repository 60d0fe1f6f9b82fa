// SPDX-License-Identifier: Apache-2.0
//! What a policy is: it reads evidence, memory and machine, and writes a plan.
//!
//! Its cost must grow with events (samples, moves), never with the size of the managed memory: it gets the touched pages
//! and may keep lists of its own, but it never walks the page table.

use super::kernel::KernelKnobs;
use super::plan::Plan;
use super::view::{Memory, View};
use crate::knob::Knob;
use crate::page::PageIdx;
use crate::port::{Allocation, Capabilities, Capability, Tracking};
use crate::unit::Nanos;

/// What a policy requests of a world. A world follows it as closely as it can; `None` leaves the choice to the
/// world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Time between decisions; other ticks only take in observations.
    pub quantum: Option<Nanos>,
    /// How accesses are tracked.
    pub tracking: Option<Tracking>,
    /// Where new pages go.
    pub allocation: Option<Allocation>,
    /// Threads that copy a page together; Linux always uses one.
    pub copy_threads: Option<u32>,
    /// The thread that faults promotes the page and waits for it, as in the kernel's tiering. Otherwise other threads
    /// move pages; on Linux always.
    pub promotes_in_fault: bool,
    /// It pages out, also from the slowest tier: it needs the pages observed there, too.
    pub pages_out: bool,
    /// It keeps its own form of page heat and reads single hits; the shared estimator is not used.
    pub own_heat: bool,
    /// It looks into huge pages: it needs their single hits, too.
    pub huge_page_hits: bool,
    /// It needs the hits of the panel ([`crate::telemetry::is_on_panel`]), where accesses are sampled.
    pub panel_hits: bool,
    /// Accesses are placed without pages: a bound, which only a model can compute.
    pub ideal: Option<Ideal>,
}

/// Which placements a bound considers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ideal {
    /// All that fit.
    Placed,
    /// Those that moves without cost can reach.
    Moved,
}

/// Decides which pages move.
pub trait Policy: Send {
    /// The name users type.
    fn name(&self) -> &'static str;

    /// Appends the moves it wants now, most wanted first, demotions before the promotions that need their room.
    fn plan(&mut self, view: &mut View<'_>, plan: &mut Plan);

    /// Its estimate of a page's heat, to compare pages of one tenant.
    fn heat(&self, memory: &Memory<'_>, page: PageIdx) -> HeatEstimate {
        let estimate = memory.estimate(page);
        HeatEstimate {
            at_least: estimate.at_least_per_sec(),
            likely: estimate.rate_per_sec(),
            at_most: estimate.at_most_per_sec(),
        }
    }

    /// What it requests of the world.
    fn wants(&self) -> Wants {
        Wants::default()
    }

    /// What it cannot work without. The engine refuses a world that lacks it ([`check_capabilities`]).
    fn needs(&self) -> &'static [Capability] {
        &[]
    }

    /// The settings for the Linux kernel's tiering, if the kernel is to move pages instead of this policy. Such
    /// a policy plans nothing, and exists on Linux only.
    fn kernel(&self) -> Option<&KernelKnobs> {
        None
    }

    /// Its knobs.
    fn knobs(&self) -> Vec<Knob> {
        Vec::new()
    }

    /// Sets the knob of that name, before the first plan; false if there is none.
    fn set(&mut self, _knob: &str, _value: f64) -> bool {
        false
    }
}

/// An estimate of a page's heat, in any unit that orders a policy's pages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeatEstimate {
    /// Lower bound.
    pub at_least: f32,
    /// Most likely value.
    pub likely: f32,
    /// Upper bound.
    pub at_most: f32,
}

impl HeatEstimate {
    /// A value without a known bound.
    pub fn exactly(heat: f32) -> Self {
        Self { at_least: heat, likely: heat, at_most: heat }
    }
}

/// A policy needs something that a world does not offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("policy {policy} needs {missing}")]
pub struct MissingCapability {
    /// The policy's name.
    pub policy: &'static str,
    /// What is missing.
    pub missing: Capability,
}

/// Checks whether a world that offers `offers` can serve a policy.
///
/// # Errors
/// The first need that is not met.
pub fn check_capabilities(
    policy: &dyn Policy,
    offers: Capabilities,
) -> Result<(), MissingCapability> {
    let missing = policy.needs().iter().find(|&&need| !offers.has(need));
    missing.map_or(Ok(()), |&missing| Err(MissingCapability { policy: policy.name(), missing }))
}
