// SPDX-License-Identifier: Apache-2.0
//! fixed: puts a fixed share of the hot set into the fastest tier.
//!
//! What it does: the model reports how often every page is accessed. Pages above the mean rate are the hot set.
//! The given share of it goes to the fastest tier, the rest below, and the other pages fill the room left in
//! the fastest tier.
//!
//! When it helps: in a sweep over the share, whose best result is the papers' "best case": the bound for a
//! perfect policy whose moves cost nothing, whatever its goal.
//!
//! When it hurts: no single share fits another machine; and without known true rates it does nothing.
//!
//! Knobs: hot_share (1), to be swept from 0 to 1 in steps of a tenth.
//!
//! Where it comes from: Colloid section 2.1, "best-case memory placement". There the cold pages are chosen at
//! random, here by rate.

use super::interface::{HeatEstimate, Policy, Wants};
use super::parts::placement::{Placement, RateRun, capacities, fill, ranked, true_rate_runs};
use crate::knob::Knob;
use crate::knobs;
use crate::page::PageIdx;
use crate::policy::plan::Plan;
use crate::policy::view::{Memory, View};
use crate::port::{Allocation, Capability, Tracking, Vpn};

knobs! {
    /// The knobs.
    pub struct FixedKnobs {
        /// Share of the hot set in the fastest tier.
        hot_share: f64 = 1.0, 0.0, 1.0;
    }
}

/// The policy.
#[derive(Debug, Default)]
pub struct Fixed {
    knobs: FixedKnobs,
    placement: Placement,
}

impl Fixed {
    /// The runs for the fastest tier, in order of placement, and the hot runs for the tiers below.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "page counts are far below 2^52, and a share is within one"
    )]
    fn split(&self, true_rate_runs: &[RateRun]) -> [Vec<RateRun>; 2] {
        let ranked = ranked(true_rate_runs);
        let pages: u64 = ranked.iter().map(|run| run.base_pages).sum();
        let all: f64 = ranked.iter().map(|run| run.rate_per_sec * run.base_pages as f64).sum();
        let mean = all / pages.max(1) as f64;
        let (hot, cold): (Vec<RateRun>, Vec<RateRun>) =
            ranked.into_iter().partition(|run| run.rate_per_sec > mean);
        let hot_pages: u64 = hot.iter().map(|run| run.base_pages).sum();
        let mut left = (hot_pages as f64 * self.knobs.hot_share) as u64 / 512 * 512;
        let (mut fast, mut slow) = (Vec::new(), Vec::new());
        for run in hot {
            let taken = run.base_pages.min(left);
            left -= taken;
            fast.push(RateRun { base_pages: taken, ..run });
            let rest = run.base_pages - taken;
            slow.push(RateRun { vpn: Vpn(run.vpn.0 + taken), base_pages: rest, ..run });
        }
        fast.extend(cold);
        [fast, slow].map(|runs| runs.into_iter().filter(|run| run.base_pages > 0).collect())
    }

    fn place(&self, view: &View<'_>) -> Placement {
        let [fast, slow] = self.split(&true_rate_runs(view));
        let capacities = capacities(view);
        let only_fast = capacities.iter().take(1).copied().collect();
        let (mut placed, left) = fill(fast, only_fast, 0);
        placed.extend(fill(ranked(slow.iter().chain(&left)), capacities, 1).0);
        Placement::of(placed)
    }
}

impl Policy for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn plan(&mut self, view: &mut View<'_>, plan: &mut Plan) {
        if !view.evidence.true_rates.is_empty() {
            self.placement = self.place(view);
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
            ..Wants::default()
        }
    }

    fn knobs(&self) -> Vec<Knob> {
        FixedKnobs::table()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        self.knobs.set(knob, value)
    }
}
