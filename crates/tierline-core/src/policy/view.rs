// SPDX-License-Identifier: Apache-2.0
//! What a policy may look at in one tick.

use crate::counters::Counters;
use crate::migrator::costs::{Costs, size_index};
use crate::page::{PageIdx, PageTable};
use crate::port::{PageSize, Stretch, Telemetry, TrueRate};
use crate::qos::Limits;
use crate::telemetry::Hit;
use crate::telemetry::hotness::{Estimate, Hotness};
use crate::telemetry::stretches::StretchHeat;
use crate::tier::{TierId, Tiers};
use crate::unit::{Bytes, Nanos};

/// Everything that a policy may read in one tick, and where its orders go.
#[derive(Debug)]
pub struct View<'a> {
    /// The time.
    pub now: Nanos,
    /// What was observed since the last tick.
    pub evidence: Evidence<'a>,
    /// The managed pages and what is believed of them.
    pub memory: Memory<'a>,
    /// The machine and what moving costs on it.
    pub machine: Machine<'a>,
    /// What it asks for besides the moves of its plan.
    pub orders: Orders<'a>,
}

/// What was observed since the last tick.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The pages that were hit or seen in a new place, in order of observation. For policies that rely on the shared
    /// heat, hits on pages that they hold already are left out.
    pub touched: &'a [PageIdx],
    /// Every sign of access, in order, for policies with heat of their own; for those that look into huge pages the
    /// ones that say which base page it was.
    pub hits: &'a [Hit],
    /// Hits by tier.
    pub hits_in: &'a [f64],
    /// The time in which they were observed; zero where nothing was watched.
    pub watched: Nanos,
    /// The tracker sees no access to the fastest tier: which pages are cold there must be asked.
    pub fast_unseen: bool,
    /// The true rates of all pages, in the ticks in which a world that knows them reports them anew.
    pub truth: &'a [TrueRate],
    /// All stretches, in the ticks in which a tracker that watches stretches reports them.
    pub stretches: &'a [Stretch],
    /// Whether the pages asked about in the last tick were accessed; `None` where the world does not know.
    pub answers: &'a [(PageIdx, Option<bool>)],
}

/// The managed pages and what is believed of them.
#[derive(Debug)]
pub struct Memory<'a> {
    /// The pages; a policy may set `queued` and `listed`, which are its own.
    pub pages: &'a mut PageTable,
    /// How to read heat.
    pub hotness: &'a Hotness,
    /// The heat of stretches, where the tracker reports those.
    pub stretch_heat: &'a StretchHeat,
}

/// The machine and what moving costs on it.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// Its tiers.
    pub tiers: &'a Tiers,
    /// What was measured of them.
    pub telemetry: &'a Telemetry,
    /// How much each may be used.
    pub limits: &'a Limits,
    /// Bytes that the migrator can move in this tick; a longer plan is cut there.
    pub budget: Bytes,
    /// What moves cost, as measured.
    pub costs: &'a Costs,
}

/// What a policy asks for besides the moves of its plan.
#[derive(Debug)]
pub struct Orders<'a> {
    /// Pages to ask about before the next tick, and how far back.
    pub ask: &'a mut Vec<(PageIdx, Nanos)>,
    /// Pages to page out, after the moves.
    pub page_out: &'a mut Vec<PageIdx>,
    /// Huge pages to split, after that; those for which there is no time must be named again.
    pub split: &'a mut Vec<PageIdx>,
    /// Counts of what it decided; the migrator counts what became of it.
    pub counters: &'a mut Counters,
}

impl Memory<'_> {
    /// What is believed of a page.
    pub fn estimate(&self, page: PageIdx) -> Estimate {
        let of_stretch = || {
            let at = self.pages.locate(page)?;
            self.stretch_heat.heat(at.space, at.vpn)
        };
        let heat = if self.stretch_heat.is_empty() { None } else { of_stretch() };
        self.hotness.estimate(heat.unwrap_or_else(|| self.pages.heat(page)))
    }
}

impl View<'_> {
    /// What is believed of a page.
    pub fn estimate(&self, page: PageIdx) -> Estimate {
        self.memory.estimate(page)
    }

    /// What moving one page of `size` costs.
    pub fn move_cost(&self, size: PageSize) -> Nanos {
        self.machine.costs.each()[size_index(size)] * size.base_pages()
    }

    /// What moving one page of `size` up or down takes, as measured; before that, at the speed of the slowest
    /// tier, where that is known.
    pub fn move_time(&self, size: PageSize, up: bool) -> Nanos {
        let latency = self.machine.costs.latency();
        let measured = if up { latency.up } else { latency.down };
        let slowest = self.machine.tiers.iter().filter_map(|(_, tier)| tier.bandwidth).min();
        let copying = slowest.map(|rate| Nanos(size.bytes().0 * 1_000_000_000 / rate.0.max(1)));
        measured[size_index(size)].or(copying).unwrap_or_else(|| self.move_cost(size))
    }

    /// Accesses per second that a page of that size gets in the mean in a tier; infinite where that is not measured.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a mean rate")]
    pub fn mean_rate(&self, tier: TierId, size: PageSize) -> f32 {
        let reads =
            self.machine.telemetry.tiers.get(tier.index()).and_then(|tier| tier.reads_per_sec);
        let pages = self.memory.pages.bytes_in(tier).base_pages().max(1) as f64;
        reads.map_or(f32::INFINITY, |reads| (reads / pages) as f32 * size.base_pages_f32())
    }

    /// The rate of a page with that share of all accesses: of what is measured; where nothing is, its
    /// samples stand for it.
    #[expect(clippy::cast_possible_truncation, reason = "rates are f32")]
    pub fn believed_rate(&self, share: f64, samples: f64) -> f32 {
        let measured: Option<f64> =
            self.machine.telemetry.tiers.iter().map(|tier| tier.reads_per_sec).sum();
        measured.map_or(samples, |reads| share * reads) as f32
    }
}
