// SPDX-License-Identifier: Apache-2.0
//! Policies: which pages should move, and why. A policy never performs a move.
//!
//! A policy reads what is believed (page heat, tier telemetry) and writes a plan. Its cost must grow
//! with what happened, samples and moves, never with how much memory is managed: it is told which
//! pages were touched and may keep lists of its own, but it never walks the page table.

pub mod arms;
pub mod autonuma;
pub mod autotiering;
pub mod damon;
pub mod first_touch;
pub mod fixed;
pub mod goal;
pub mod hemem;
pub mod hold;
pub mod kernel;
pub mod linux;
pub mod list;
pub mod memtis;
pub mod neomem;
pub mod oracle;
pub mod paging;
pub mod parts;
pub mod tierline;
pub mod tmo;
pub mod tpp;
pub mod view;

use self::view::View;
use crate::knob::Knob;
use crate::port::{Allocation, Move, Watch};
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

/// Decides.
pub trait Policy {
    /// The name users know it by.
    fn name(&self) -> &'static str;

    /// Appends the moves it wants now, most wanted first, demotions ahead of the promotions that need
    /// their room.
    fn plan(&mut self, view: &mut View<'_>, plan: &mut Vec<Move>);

    /// How it wants to be served.
    fn wants(&self) -> Wants {
        Wants::default()
    }

    /// The settings under which the Linux kernel is to move pages in this policy's place; such a policy
    /// plans nothing, and exists on Linux only.
    fn kernel(&self) -> Option<&kernel::Kernel> {
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
