// SPDX-License-Identifier: Apache-2.0
//! bound: what no placement of pages can exceed. No policy: the model computes it.
//!
//! What it does: the model places accesses instead of pages. At every moment it finds the shares of accesses by tier that
//! maximise the progress of the managed programs, with true rates, within the memory of each tier, under the load that
//! results. There is no copying and no stall. Progress is the sum of the programs' speeds, each relative to the program
//! alone in the fastest tier. `bound+moves` is limited to placements that moves can reach: hottest pages first, at the
//! rate at which an idle machine copies pages.
//!
//! When it helps: beside a policy, whose share of the possible gain is (x - first touch) / (bound - first touch).
//!
//! When it hurts: with recordings, whose epochs end sooner in a faster run: there it bounds progress over the whole run
//! only. With several programs it bounds their progress, not each program. Stalls slow a program down, which helps its
//! neighbours; the bound has none. `bound+moves` is an estimate: moves in another order can be better.
//!
//! Knobs: none.
//!
//! Where it comes from: ours. Balanced placement under load is Colloid's (section 3).

use super::interface::{HeatEstimate, Ideal, Policy, Wants};
use super::oracle::Oracle;
use crate::page::PageIdx;
use crate::policy::plan::Plan;
use crate::policy::view::{Memory, View};
use crate::port::{Allocation, Capability, Tracking};

/// A bound.
#[derive(Debug)]
pub struct Bound {
    name: &'static str,
    ideal: Ideal,
    moves: Oracle,
}

impl Bound {
    /// Of any placement.
    pub fn of_placement() -> Self {
        Self { name: "bound", ideal: Ideal::Placed, moves: Oracle::default() }
    }

    /// Of placements that moves reach.
    pub fn of_moves() -> Self {
        Self { name: "bound+moves", ideal: Ideal::Moved, moves: Oracle::default() }
    }
}

impl Policy for Bound {
    fn name(&self) -> &'static str {
        self.name
    }

    fn plan(&mut self, view: &mut View<'_>, plan: &mut Plan) {
        if self.ideal == Ideal::Moved {
            self.moves.plan(view, plan);
        }
    }

    fn heat(&self, memory: &Memory<'_>, page: PageIdx) -> HeatEstimate {
        self.moves.heat(memory, page)
    }

    fn needs(&self) -> &'static [Capability] {
        &[Capability::TrueRates]
    }

    fn wants(&self) -> Wants {
        Wants {
            tracking: Some(Tracking::TrueRates),
            allocation: Some(Allocation::FirstTouch),
            own_heat: true,
            ideal: Some(self.ideal),
            ..self.moves.wants()
        }
    }
}
