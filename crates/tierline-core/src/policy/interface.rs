// SPDX-License-Identifier: Apache-2.0
//! What a policy is: it reads evidence, memory and machine, and writes a plan.
//!
//! Its cost must grow with events (samples, moves), never with the size of the managed memory: it gets the touched pages
//! and may keep lists of its own, but it never walks the page table.

use super::kernel::Kernel;
use super::plan::Plan;
use super::view::{Memory, View};
use crate::knob::Knob;
use crate::page::PageIdx;
use crate::port::{Allocation, Capabilities, Capability, Watch};
use crate::unit::Nanos;

/// How a policy wants to be served. A world comes as close as it can; `None` leaves it to the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// How often it decides; ticks in between are for listening.
    pub quantum: Option<Nanos>,
    /// How accesses are to be seen.
    pub watch: Option<Watch>,
    /// Where new pages go.
    pub allocation: Option<Allocation>,
    /// Threads that copy a page together; Linux copies with one, whatever is asked for.
    pub copy_threads: Option<u32>,
    /// It pages out, also from the slowest tier: so it is told of pages that are seen there, too.
    pub pages_out: bool,
    /// It keeps the heat of pages in a form of its own and reads single hits; the shared estimator is
    /// left out.
    pub own_heat: bool,
    /// It looks into huge pages: single hits of their base pages are told, too.
    pub within: bool,
}

/// Decides which pages move.
pub trait Policy: Send {
    /// The name users know it by.
    fn name(&self) -> &'static str;

    /// Appends the moves it wants now, most wanted first, demotions ahead of the promotions that need
    /// their room.
    fn plan(&mut self, view: &mut View<'_>, plan: &mut Plan);

    /// How hot it believes a page to be: for choosing among the pages of one tenant.
    fn heat(&self, memory: &Memory<'_>, page: PageIdx) -> Believed {
        let estimate = memory.estimate(page);
        Believed { surely: estimate.at_least_per_sec(), likely: estimate.rate_per_sec() }
    }

    /// How it wants to be served.
    fn wants(&self) -> Wants {
        Wants::default()
    }

    /// What it cannot work without. A world that does not offer it is refused ([`fits`]).
    fn needs(&self) -> &'static [Capability] {
        &[]
    }

    /// The settings under which the Linux kernel is to move pages in this policy's place; such a policy
    /// plans nothing, and exists on Linux only.
    fn kernel(&self) -> Option<&Kernel> {
        None
    }

    /// The numbers that may be set.
    fn knobs(&self) -> Vec<Knob> {
        Vec::new()
    }

    /// Sets the knob of that name, before the first plan; false where there is none.
    fn set(&mut self, _knob: &str, _value: f64) -> bool {
        false
    }
}

/// How hot a page is believed to be, in any unit that orders a policy's pages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Believed {
    /// What it surely is.
    pub surely: f32,
    /// What it most likely is.
    pub likely: f32,
}

impl Believed {
    /// Where no bound is known.
    pub fn exactly(heat: f32) -> Self {
        Self { surely: heat, likely: heat }
    }
}

/// A policy needs what a world does not offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("policy {policy} needs {missing}")]
pub struct Unfit {
    /// The policy's name.
    pub policy: &'static str,
    /// What is missing.
    pub missing: Capability,
}

/// Whether a world that offers `offers` can serve a policy.
///
/// # Errors
/// The first need that the world does not meet.
pub fn fits(policy: &dyn Policy, offers: Capabilities) -> Result<(), Unfit> {
    let missing = policy.needs().iter().find(|&&need| !offers.has(need));
    missing.map_or(Ok(()), |&missing| Err(Unfit { policy: policy.name(), missing }))
}
