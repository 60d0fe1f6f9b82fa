// SPDX-License-Identifier: Apache-2.0
//! oracle: packs the pages with the highest true rates.
//!
//! What it does: the model reports how often every page is accessed, in every tick. The hottest pages fill the fastest
//! tier, the next hottest the next tier, and so on. It pays for its moves as every policy does.
//!
//! When it helps: to see what packing by heat reaches without errors of observation. It is no bound: see `bound`.
//!
//! When it hurts: if fast memory is the bottleneck, as it packs whatever the load; if pages are hot for a short time, as
//! it moves them whether that repays or not; on a real machine, where true rates are unknown, it does nothing.
//!
//! Knobs: none.
//!
//! Where it comes from: the ideal case of every paper in the field; its form is ours.

use super::interface::{HeatEstimate, Policy, Wants};
use super::parts::placement::{Placement, capacities, fill, ranked, true_rate_runs};
use crate::page::PageIdx;
use crate::policy::plan::Plan;
use crate::policy::view::{Memory, View};
use crate::port::{Allocation, Capability, Tracking};

/// Those of the default policy.
const COPY_THREADS: u32 = 4;

/// The policy.
#[derive(Debug, Default)]
pub struct Oracle {
    placement: Placement,
}

impl Policy for Oracle {
    fn name(&self) -> &'static str {
        "oracle"
    }

    fn plan(&mut self, view: &mut View<'_>, plan: &mut Plan) {
        if !view.evidence.true_rates.is_empty() {
            self.placement =
                Placement::of(fill(ranked(&true_rate_runs(view)), capacities(view), 0).0);
        }
        self.placement.plan_moves(view, plan);
    }

    fn heat(&self, memory: &Memory<'_>, page: PageIdx) -> HeatEstimate {
        HeatEstimate::exactly(self.placement.rate_of(memory.pages, page))
    }

    fn needs(&self) -> &'static [Capability] {
        &[Capability::TrueRates]
    }

    fn wants(&self) -> Wants {
        Wants {
            tracking: Some(Tracking::TrueRates),
            allocation: Some(Allocation::FirstTouch),
            own_heat: true,
            copy_threads: Some(COPY_THREADS),
            ..Wants::default()
        }
    }
}
