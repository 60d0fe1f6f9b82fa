// SPDX-License-Identifier: Apache-2.0
//! A view for unit tests of parts: pages of one program on a machine with two tiers, and the resulting orders.

use crate::counters::Counters;
use crate::migrator::costs::Costs;
use crate::page::{PageIdx, PageTable};
use crate::policy::view::{Evidence, Machine, Memory, Orders, View};
use crate::port::{
    PageKind, PageSize, Region, SpaceEvent, SpaceId, Spread, Telemetry, TierTelemetry, Vpn,
};
use crate::qos::Limits;
use crate::qos::allowance::Allowance;
use crate::telemetry::hotness::Hotness;
use crate::telemetry::observed_regions::RegionHeat;
use crate::telemetry::{Hit, SpaceHits};
use crate::tier::{NodeId, Tier, TierId, Tiers};
use crate::unit::{Bytes, Nanos};

/// The data that the view borrows.
pub struct Stage {
    pub now: Nanos,
    pub pages: PageTable,
    /// All pages, by address.
    pub all: Vec<PageIdx>,
    pub hits: Vec<Hit>,
    pub panel: Vec<(PageIdx, f32)>,
    pub hits_of: Vec<SpaceHits>,
    pub spreads: Option<Vec<Spread>>,
    pub split: Vec<PageIdx>,
    pub telemetry: Telemetry,
    tiers: Tiers,
    pub hotness: Hotness,
    observed_regions: RegionHeat,
    pub limits: Limits,
    allowance: Allowance,
    ask: Vec<(PageIdx, Nanos)>,
    page_out: Vec<PageIdx>,
    counters: Counters,
    costs: Costs,
}

impl Stage {
    /// `count` base pages, all in one tier.
    pub fn of_base_pages(count: u64, tier: TierId) -> Self {
        Self::of(count, PageSize::Base, tier)
    }

    /// `count` huge pages, all in one tier.
    pub fn of_huge_pages(count: u64, tier: TierId) -> Self {
        Self::of(count, PageSize::Huge, tier)
    }

    /// A huge page and a base page behind it, both in one tier.
    pub fn of_both_sizes(tier: TierId) -> Self {
        let mut stage = Self::of_huge_pages(1, tier);
        let (space, start, kind) =
            (SpaceId(1), Vpn(PageSize::Huge.base_pages()), PageKind::Anonymous);
        let (base_pages, size) = (1, PageSize::Base);
        stage.pages.apply(SpaceEvent::Mapped(Region { space, start, base_pages, size, kind }));
        let base = stage.pages.find(space, start).expect("mapped above");
        stage.pages.set_tier(base, tier);
        stage.all.push(base);
        stage
    }

    /// Tiers of 100 and 200 ns and 1 GiB each, with 16 MiB free.
    fn of(count: u64, size: PageSize, tier: TierId) -> Self {
        let (space, start, kind) = (SpaceId(1), Vpn(0), PageKind::Anonymous);
        let base_pages = count * size.base_pages();
        let mut pages = PageTable::default();
        pages.apply(SpaceEvent::Mapped(Region { space, start, base_pages, size, kind }));
        let find = |i| pages.find(space, Vpn(i * size.base_pages())).expect("mapped above");
        let all: Vec<PageIdx> = (0..count).map(find).collect();
        all.iter().for_each(|&page| pages.set_tier(page, tier));
        let tiers = [100, 200].map(|ns| Tier {
            name: format!("{ns} ns"),
            nodes: vec![NodeId(ns)],
            capacity: Bytes::from_mib(1024),
            latency: Some(Nanos(ns.into())),
            bandwidth: None,
        });
        let free = TierTelemetry { free: Bytes::from_mib(16), ..TierTelemetry::default() };
        Self {
            now: Nanos::from_secs(1),
            pages,
            all,
            hits: Vec::new(),
            panel: Vec::new(),
            hits_of: Vec::new(),
            spreads: None,
            split: Vec::new(),
            telemetry: Telemetry { tiers: vec![free; 2], ..Telemetry::default() },
            tiers: Tiers(tiers.into()),
            hotness: Hotness::default(),
            observed_regions: RegionHeat::default(),
            limits: Limits::default(),
            allowance: Allowance::default(),
            ask: Vec::new(),
            page_out: Vec::new(),
            counters: Counters::default(),
            costs: Costs::default(),
        }
    }

    /// A third tier, of 300 ns, otherwise like the others.
    pub fn add_tier(&mut self) {
        let Tiers(tiers) = &mut self.tiers;
        let below = Tier { name: "300 ns".into(), nodes: vec![NodeId(300)], ..tiers[1].clone() };
        tiers.push(Tier { latency: Some(Nanos(300)), ..below });
        self.telemetry.tiers.push(self.telemetry.tiers[1]);
    }

    /// Sets the access rates of the pages, by address.
    pub fn set_rates(&mut self, rates_per_sec: &[f32]) {
        for (&page, &rate) in self.all.iter().zip(rates_per_sec) {
            let size = if self.pages.is_huge(page) { PageSize::Huge } else { PageSize::Base };
            self.pages.set_heat(page, self.hotness.heat_of_rate(rate, size));
        }
    }

    /// One access to a page.
    pub fn hit(page: PageIdx) -> Hit {
        Hit { page, tier: None, hits: 1.0, exposure: None, write: None, base_page: None }
    }

    /// A view without measured costs, with a budget of 64 MiB.
    pub fn view(&mut self) -> View<'_> {
        self.allowance = Allowance::new(&self.limits, &self.pages.by_tenant(), &self.telemetry);
        View {
            now: self.now,
            evidence: Evidence {
                touched: &[],
                hits: &self.hits,
                panel: &self.panel,
                hits_in: &[],
                hits_of: &self.hits_of,
                watched: Nanos::ZERO,
                fast_untracked: false,
                true_rates: &[],
                observed_regions: &[],
                spreads: self.spreads.as_deref(),
                answers: &[],
                turned_away: &[],
            },
            memory: Memory {
                pages: &mut self.pages,
                hotness: &self.hotness,
                region_heat: &self.observed_regions,
            },
            machine: Machine {
                tiers: &self.tiers,
                telemetry: &self.telemetry,
                limits: &self.limits,
                allowance: &self.allowance,
                budget: Bytes::from_mib(64),
                costs: &self.costs,
            },
            orders: Orders {
                questions: &mut self.ask,
                page_out: &mut self.page_out,
                split: &mut self.split,
                counters: &mut self.counters,
            },
        }
    }
}
