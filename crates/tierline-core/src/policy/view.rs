// SPDX-License-Identifier: Apache-2.0
//! A policy's view of one tick.

use crate::counters::Counters;
use crate::migrator::costs::{Costs, size_index};
use crate::page::{PageIdx, PageTable};
use crate::port::{ObservedRegion, PageSize, Spread, Telemetry, TrueRate};
use crate::qos::Limits;
use crate::qos::allowance::Allowance;
use crate::telemetry::estimate::Estimate;
use crate::telemetry::hotness::Hotness;
use crate::telemetry::observed_regions::RegionHeat;
use crate::telemetry::{Hit, SpaceHits};
use crate::tier::{TierId, Tiers};
use crate::unit::{Bytes, Nanos};

/// Everything that a policy may read in one tick, and the place for its orders.
#[derive(Debug)]
pub struct View<'a> {
    /// The time.
    pub now: Nanos,
    /// What was observed since the last tick.
    pub evidence: Evidence<'a>,
    /// The managed pages and their estimates.
    pub memory: Memory<'a>,
    /// The machine and the cost of moves.
    pub machine: Machine<'a>,
    /// Requests besides the moves of the plan.
    pub orders: Orders<'a>,
}

/// What was observed since the last tick.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The pages that were hit or found in another tier, in order of observation. For policies with the shared
    /// heat, hits on pages that they already hold are left out.
    pub touched: &'a [PageIdx],
    /// Every single hit, in order, for policies with their own heat; for those that look into huge pages, the
    /// hits of these.
    pub hits: &'a [Hit],
    /// The hits of the panel ([`crate::telemetry::is_on_panel`]), where accesses are sampled, for policies that want them.
    pub panel: &'a [(PageIdx, f32)],
    /// Hits by tier.
    pub hits_in: &'a [f64],
    /// The same by address space.
    pub hits_of: &'a [SpaceHits],
    /// The watched time of these hits; zero if nothing was watched.
    pub watched: Nanos,
    /// The tracker sees no access to the fastest tier: cold pages there are found only by questions.
    pub fast_untracked: bool,
    /// The true rates of all pages, in ticks in which a world that knows them reports new ones.
    pub true_rates: &'a [TrueRate],
    /// All regions, in ticks in which a tracker of regions reports them.
    pub observed_regions: &'a [ObservedRegion],
    /// Huge pages that were just split, and how their accesses are spread; `None` if the world does not look into them.
    pub spreads: Option<&'a [Spread]>,
    /// Whether the pages asked about in the last tick were accessed; `None` if the world does not know.
    pub answers: &'a [(PageIdx, Option<bool>)],
    /// Pages whose promotion found no room a moment ago.
    pub turned_away: &'a [PageIdx],
}

/// The managed pages and their estimates.
#[derive(Debug)]
pub struct Memory<'a> {
    /// The pages; a policy may set the flags `queued` and `listed`.
    pub pages: &'a mut PageTable,
    /// The estimator that reads heat.
    pub hotness: &'a Hotness,
    /// The heat of regions, where the tracker reports regions.
    pub region_heat: &'a RegionHeat,
}

/// The machine and the cost of moves.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// Its tiers.
    pub tiers: &'a Tiers,
    /// Measurements of the tiers.
    pub telemetry: &'a Telemetry,
    /// The tenants' limits.
    pub limits: &'a Limits,
    /// What remains of them before the plan.
    pub allowance: &'a Allowance,
    /// Bytes that the migrator can move in this tick; a longer plan is cut there.
    pub budget: Bytes,
    /// Measured costs of moves.
    pub costs: &'a Costs,
}

/// Requests besides the moves of the plan.
#[derive(Debug)]
pub struct Orders<'a> {
    /// Pages to ask about before the next tick, each with the time that the answer covers.
    pub questions: &'a mut Vec<(PageIdx, Nanos)>,
    /// Pages to page out, after the moves.
    pub page_out: &'a mut Vec<PageIdx>,
    /// Huge pages to split, after that; those that do not fit into the tick must be requested again.
    pub split: &'a mut Vec<PageIdx>,
    /// Counts of its decisions; the migrator adds the outcomes.
    pub counters: &'a mut Counters,
}

impl Memory<'_> {
    /// The estimate of a page's rate.
    pub fn estimate(&self, page: PageIdx) -> Estimate {
        let of_stretch = || {
            let at = self.pages.locate(page)?;
            self.region_heat.heat(at.space, at.vpn)
        };
        let heat = if self.region_heat.is_empty() { None } else { of_stretch() };
        // Without windows by page size, the lookup of the size is not needed.
        let is_huge = self.hotness.separates_sizes() && self.pages.is_huge(page);
        let size = if is_huge { PageSize::Huge } else { PageSize::Base };
        self.hotness.estimate(heat.unwrap_or_else(|| self.pages.heat(page)), size)
    }
}

impl View<'_> {
    /// The estimate of a page's rate.
    pub fn estimate(&self, page: PageIdx) -> Estimate {
        self.memory.estimate(page)
    }

    /// The cost of moving one page of `size`.
    pub fn move_cost(&self, size: PageSize) -> Nanos {
        self.machine.costs.per_base_page()[size_index(size)] * size.base_pages()
    }

    /// The time of moving one page of `size` up or down, as measured; before that, from the bandwidth of the
    /// slowest tier, if known.
    pub fn move_time(&self, size: PageSize, up: bool) -> Nanos {
        let latency = self.machine.costs.latency();
        let measured = if up { latency.up } else { latency.down };
        let slowest = self.machine.tiers.iter().filter_map(|(_, tier)| tier.bandwidth).min();
        let copying = slowest.map(|rate| Nanos(size.bytes().0 * 1_000_000_000 / rate.0.max(1)));
        measured[size_index(size)].or(copying).unwrap_or_else(|| self.move_cost(size))
    }

    /// Mean accesses per second of a page of that size in a tier; infinite if not measured.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a mean rate")]
    pub fn mean_rate(&self, tier: TierId, size: PageSize) -> f32 {
        let reads =
            self.machine.telemetry.tiers.get(tier.index()).and_then(|tier| tier.reads_per_sec);
        let pages = self.memory.pages.bytes_in(tier).base_pages().max(1) as f64;
        reads.map_or(f32::INFINITY, |reads| (reads / pages) as f32 * size.base_pages_f32())
    }

    /// The rate of a page with that share of all accesses, if they are measured; otherwise its samples.
    #[expect(clippy::cast_possible_truncation, reason = "rates are f32")]
    pub fn estimated_rate(&self, share: f64, samples: f64) -> f32 {
        let measured: Option<f64> =
            self.machine.telemetry.tiers.iter().map(|tier| tier.reads_per_sec).sum();
        measured.map_or(samples, |reads| share * reads) as f32
    }
}
