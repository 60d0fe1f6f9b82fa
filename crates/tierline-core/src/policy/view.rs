// SPDX-License-Identifier: Apache-2.0
//! What a policy may look at in one tick.

use crate::counters::Counters;
use crate::migrator::costs::{Latencies, size_index};
use crate::page::{PageIdx, PageTable};
use crate::port::{PageSize, Stretch, Telemetry, TrueRate};
use crate::qos::Limits;
use crate::telemetry::Hit;
use crate::telemetry::hotness::{Estimate, Hotness};
use crate::telemetry::stretches::StretchHeat;
use crate::tier::{TierId, Tiers};
use crate::unit::{Bytes, Nanos};

/// All that a policy may look at in one tick.
#[derive(Debug)]
pub struct View<'a> {
    /// The time.
    pub now: Nanos,
    /// The pages; a policy may set `queued` and `listed`, which are its own.
    pub pages: &'a mut PageTable,
    /// How to read heat.
    pub hotness: &'a Hotness,
    /// The heat of stretches, where a tracker tells of those.
    pub stretch_heat: &'a StretchHeat,
    /// The machine.
    pub tiers: &'a Tiers,
    /// What was measured of it.
    pub telemetry: &'a Telemetry,
    /// Who may use how much.
    pub limits: &'a Limits,
    /// Bytes that the migrator can take this tick; a longer plan is cut there.
    pub budget: Bytes,
    /// What moving one base page costs, as measured, alone and as part of a huge page.
    pub move_costs: [Nanos; 2],
    /// What moving one page took of late, by direction.
    pub move_latency: Latencies,
    /// The pages that were hit or seen in a new place since the last tick, in order of observation. To
    /// policies that rely on the shared heat, a hit on a page that they hold is no news.
    pub touched: &'a [PageIdx],
    /// Every sign of access since the last tick, in order, for policies with heat of their own; for those that look
    /// into huge pages the ones that tell which base page it was.
    pub hits: &'a [Hit],
    /// Hits by tier since the last tick.
    pub hits_in: &'a [f64],
    /// The time in which they were seen; zero where nobody watched.
    pub watched: Nanos,
    /// Whether nobody sees accesses to the fastest tier: what is cold there must be asked for.
    pub fast_unseen: bool,
    /// The true rates of all pages, in the ticks in which a world that knows them tells them anew.
    pub truth: &'a [TrueRate],
    /// All stretches, in the ticks in which a tracker that watches stretches tells of them.
    pub stretches: &'a [Stretch],
    /// Whether the pages asked after in the last tick were accessed; `None` where the world cannot tell.
    pub answers: &'a [(PageIdx, Option<bool>)],
    /// Pages to ask after before the next tick, and how far back.
    pub ask: &'a mut Vec<(PageIdx, Nanos)>,
    /// Pages to be paged out, after what is planned.
    pub page_out: &'a mut Vec<PageIdx>,
    /// Huge pages to be split, after that; those for which there is no time are to be named again.
    pub split: &'a mut Vec<PageIdx>,
    /// What it counts of what it decided; the migrator counts what became of it.
    pub counters: &'a mut Counters,
}

impl View<'_> {
    /// The same, with other answers: for a policy that is not alone in asking.
    pub fn with_answers<'b>(&'b mut self, answers: &'b [(PageIdx, Option<bool>)]) -> View<'b> {
        View {
            now: self.now,
            pages: &mut *self.pages,
            hotness: self.hotness,
            stretch_heat: self.stretch_heat,
            tiers: self.tiers,
            telemetry: self.telemetry,
            limits: self.limits,
            budget: self.budget,
            move_costs: self.move_costs,
            move_latency: self.move_latency,
            touched: self.touched,
            hits: self.hits,
            hits_in: self.hits_in,
            watched: self.watched,
            fast_unseen: self.fast_unseen,
            truth: self.truth,
            stretches: self.stretches,
            answers,
            ask: &mut *self.ask,
            page_out: &mut *self.page_out,
            split: &mut *self.split,
            counters: &mut *self.counters,
        }
    }

    /// What is believed of a page.
    pub fn estimate(&self, page: PageIdx) -> Estimate {
        let of_stretch = || {
            let at = self.pages.locate(page)?;
            self.stretch_heat.heat(at.space, at.vpn)
        };
        let heat = if self.stretch_heat.is_empty() { None } else { of_stretch() };
        self.hotness.estimate(heat.unwrap_or_else(|| self.pages.heat(page)))
    }

    /// What moving one page of `size` costs.
    pub fn move_cost(&self, size: PageSize) -> Nanos {
        self.move_costs[size_index(size)] * size.base_pages()
    }

    /// What moving one page of `size` up or down takes, as measured; before that, at the speed of the slowest
    /// tier, where that is known.
    pub fn move_time(&self, size: PageSize, up: bool) -> Nanos {
        let measured = if up { self.move_latency.up } else { self.move_latency.down };
        let slowest = self.tiers.iter().filter_map(|(_, tier)| tier.bandwidth).min();
        let copying = slowest.map(|rate| Nanos(size.bytes().0 * 1_000_000_000 / rate.0.max(1)));
        measured[size_index(size)].or(copying).unwrap_or_else(|| self.move_cost(size))
    }

    /// Accesses per second that a page of that size gets in the mean in a tier; infinite where that is not measured.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a mean rate")]
    pub fn mean_rate(&self, tier: TierId, size: PageSize) -> f32 {
        let reads = self.telemetry.tiers.get(tier.index()).and_then(|tier| tier.reads_per_sec);
        let pages = self.pages.bytes_in(tier).base_pages().max(1) as f64;
        reads.map_or(f32::INFINITY, |reads| (reads / pages) as f32 * size.base_pages_f32())
    }

    /// The rate of a page with that share of all accesses: of what is measured; where nothing is, its
    /// samples stand for it.
    #[expect(clippy::cast_possible_truncation, reason = "rates are f32")]
    pub fn believed_rate(&self, share: f64, samples: f64) -> f32 {
        let measured: Option<f64> =
            self.telemetry.tiers.iter().map(|tier| tier.reads_per_sec).sum();
        measured.map_or(samples, |reads| share * reads) as f32
    }
}
