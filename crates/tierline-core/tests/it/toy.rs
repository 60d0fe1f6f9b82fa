// SPDX-License-Identifier: Apache-2.0
//! A toy world: pages with access rates, several trackers, counters, and limited memory. It keeps its own
//! counts: each move that would exceed a capacity panics here.

use std::ops::Range;

use tierline_core::engine::Engine;
use tierline_core::port::{
    Allocated, Attention, Capabilities, Capability, Move, Observations, ObservedRegion, Order,
    Outcome, PageAddress, PageKind, PageSize, Question, Region, Residence, Sample, SpaceEvent,
    SpaceId, Telemetry, TenantId, TierTelemetry, Tracking, TrueRate, Vpn, World,
};
use tierline_core::rng::Rng;
use tierline_core::tier::{NodeId, Tier, TierId, Tiers};
use tierline_core::unit::{Bytes, Nanos};

use crate::contract::TICK;

/// The only space.
pub const SPACE: SpaceId = SpaceId(1);
const WINDOW: Nanos = Nanos::from_millis(20);
/// Pages of a region, and samplings of it per tick.
const STRETCH: usize = 16;
const STRETCH_LOOKS: u32 = 20;

/// In the world of a decorator: passes on what it does not change to its `toy`.
macro_rules! pass_on_to_toy {
    () => {
        fn capabilities(&self) -> tierline_core::port::Capabilities {
            self.toy.capabilities()
        }

        fn set_attention(&mut self, attention: tierline_core::port::Attention) {
            self.toy.set_attention(attention);
        }

        fn configure_tracking(&mut self, watch: tierline_core::port::Tracking) -> bool {
            self.toy.configure_tracking(watch)
        }

        fn limit_cpu(&mut self, tenant: tierline_core::port::TenantId, share: f64) {
            self.toy.limit_cpu(tenant, share);
        }
    };
}
pub(crate) use pass_on_to_toy;

/// What a world offers that moves pages and no more, beside its capabilities.
macro_rules! offers_moves_only {
    () => {
        fn configure_tracking(&mut self, _watch: tierline_core::port::Tracking) -> bool {
            false
        }

        fn limit_cpu(&mut self, _: tierline_core::port::TenantId, _: f64) {
            unreachable!("not offered")
        }

        fn check_accessed(
            &mut self,
            _now: Nanos,
            _questions: &[tierline_core::port::Question],
            _out: &mut Vec<bool>,
        ) {
            unreachable!("not offered")
        }
    };
}
pub(crate) use offers_moves_only;

/// A machine of `capacities` base pages, with a latency of 70 ns, and 130 ns more for each further tier.
pub fn machine(capacities: &[u64]) -> Tiers {
    let tier = |(i, &pages): (usize, &u64)| Tier {
        name: format!("t{i}"),
        nodes: vec![NodeId(u16::try_from(i).unwrap())],
        capacity: Bytes::from_base_pages(pages),
        latency: Some(Nanos(70 + 130 * i as u64)),
        bandwidth: None,
    };
    Tiers(capacities.iter().enumerate().map(tier).collect())
}

/// Runs an engine for these ticks of a toy.
pub fn run(engine: &mut Engine, toy: &mut Toy, ticks: Range<u64>) {
    for i in ticks {
        engine.tick(TICK * i, toy);
    }
}

/// A toy world of base pages.
pub struct Toy {
    pub tiers: Tiers,
    /// Accesses per second of each page.
    pub rates: Vec<f64>,
    /// The tier of each page; `None` is unmapped.
    pub place: Vec<Option<TierId>>,
    /// Frames used by others, per tier.
    pub others: Vec<u64>,
    /// Whether others are known to be others.
    pub tells_others: bool,
    pub attention: Attention,
    /// How accesses are tracked; `None`: by accessed bits in windows.
    pub watch: Option<Tracking>,
    /// The kind of all pages.
    pub kind: PageKind,
    /// Changes of the mapping not reported yet.
    pub changes: Vec<SpaceEvent>,
    /// All pages that were paged out.
    pub paged_out: Vec<usize>,
    /// Time of one move.
    pub move_cost: Nanos,
    /// All moves ordered, with their outcomes.
    pub asked: Vec<(Move, Outcome)>,
    rng: Rng,
    announced: bool,
    /// The rates reported last.
    reported: Vec<f64>,
    observed: u64,
    /// When each page was armed, and the scanner's position.
    armed: Vec<Option<Nanos>>,
    scanned: usize,
    last: Nanos,
    /// Hits of every region, and for how long they have been about the same.
    ages: Vec<(u32, Nanos)>,
}

impl Toy {
    /// `rates.len()` pages, all in the slowest tier.
    pub fn new(tiers: Tiers, rates: Vec<f64>, seed: u64) -> Self {
        let place = vec![Some(tiers.slowest()); rates.len()];
        let others = vec![0; tiers.len()];
        let pages = rates.len();
        Self {
            tiers,
            rates,
            place,
            others,
            tells_others: false,
            attention: Attention::Alert,
            watch: None,
            kind: PageKind::Anonymous,
            changes: Vec::new(),
            paged_out: Vec::new(),
            move_cost: Nanos(2_000),
            asked: Vec::new(),
            rng: Rng::new(seed),
            announced: false,
            reported: Vec::new(),
            observed: 0,
            armed: vec![None; pages],
            scanned: 0,
            last: Nanos::ZERO,
            ages: Vec::new(),
        }
    }

    pub fn used(&self, tier: TierId) -> u64 {
        self.place.iter().filter(|&&p| p == Some(tier)).count() as u64 + self.others[tier.index()]
    }

    pub fn free(&self, tier: TierId) -> u64 {
        self.tiers[tier].capacity.base_pages().saturating_sub(self.used(tier))
    }

    /// The share of accesses that the fastest tier serves.
    pub fn fast_share(&self) -> f64 {
        let pages = self.rates.iter().zip(&self.place);
        let fast: f64 = pages.filter(|(_, p)| **p == Some(TierId::FAST)).map(|(r, _)| r).sum();
        fast / self.rates.iter().sum::<f64>()
    }

    fn announce(&mut self, out: &mut Observations) {
        self.announced = true;
        let base_pages = self.rates.len() as u64;
        out.space_events.push(SpaceEvent::Mapped(Region {
            space: SPACE,
            start: Vpn(0),
            base_pages,
            size: PageSize::Base,
            kind: self.kind,
        }));
        for (vpn, place) in (0..).zip(&self.place) {
            if let &Some(tier) = place {
                out.residence.push(Residence { space: SPACE, vpn: Vpn(vpn), base_pages: 1, tier });
            }
        }
    }

    /// The program frees a page and maps another one in its place, in the slowest tier.
    pub fn renew(&mut self, page: usize) {
        let region = Region {
            space: SPACE,
            start: Vpn(page as u64),
            base_pages: 1,
            size: PageSize::Base,
            kind: self.kind,
        };
        self.changes.push(SpaceEvent::Unmapped(SPACE, region.start, 1));
        self.changes.push(SpaceEvent::Mapped(region));
        self.armed[page] = None;
        self.place[page] = None;
        self.place[page] = Some(self.tiers.slowest()).filter(|&tier| self.free(tier) > 0);
    }

    fn page_out(&mut self, at: &PageAddress) -> Outcome {
        let page = usize::try_from(at.vpn.0).unwrap();
        assert_eq!(at.space, SPACE, "only pages of this space are paged out");
        self.paged_out.push(page);
        if self.place[page].take().is_some() { Outcome::Done } else { Outcome::PageGone }
    }

    /// Carries out one move and records it.
    pub fn try_move(&mut self, m: &Move) -> Outcome {
        let outcome = self.move_page(m);
        self.asked.push((*m, outcome));
        outcome
    }

    fn move_page(&mut self, m: &Move) -> Outcome {
        let page = usize::try_from(m.vpn.0).unwrap();
        assert_eq!(m.space, SPACE);
        match self.place[page] {
            None => Outcome::PageGone,
            Some(tier) if tier != m.from => Outcome::Elsewhere(tier),
            Some(_) if self.free(m.to) == 0 => Outcome::NoRoom,
            Some(_) => {
                self.place[page] = Some(m.to);
                Outcome::Done
            }
        }
    }
}

/// Trackers.
impl Toy {
    /// Every page accessed within a window, once.
    fn look(&mut self, out: &mut Observations) {
        if self.attention == Attention::Calm && !self.observed.is_multiple_of(20) {
            return;
        }
        for page in 0..self.rates.len() {
            if self.is_hit(page, WINDOW) {
                out.samples.extend(self.seen(page, None));
            }
        }
        out.watched = WINDOW;
        out.window = Some(WINDOW);
        out.remembered_time = Some(WINDOW * 16);
    }

    /// One access in five: as much evidence as all accesses in a window.
    fn sample(&mut self, out: &mut Observations) {
        for page in 0..self.rates.len() {
            let mut passed = self.next_access(page);
            while passed < WINDOW {
                out.samples.extend(self.seen(page, None));
                passed += self.next_access(page);
            }
        }
        out.watched = WINDOW;
    }

    /// Reports the rates when they have changed.
    fn report_rates(&mut self, out: &mut Observations) {
        if self.reported != self.rates {
            self.reported.clone_from(&self.rates);
            #[expect(clippy::cast_possible_truncation, reason = "rates are f32")]
            out.true_rates.extend((0..).zip(&self.rates).map(|(vpn, &rate)| TrueRate {
                space: SPACE,
                vpn: Vpn(vpn),
                base_pages: 1,
                rate_per_sec: rate as f32,
            }));
        }
    }

    /// Arms a quarter of the pages, and reports armed pages that were accessed since the last tick.
    fn fault(&mut self, now: Nanos, fast_too: bool, out: &mut Observations) {
        for page in 0..self.rates.len() {
            let Some(since) = self.armed[page] else { continue };
            let accessed = self.last.max(since) + self.next_access(page);
            if accessed <= now {
                self.armed[page] = None;
                out.samples.extend(self.seen(page, Some(accessed - since)));
            }
        }
        for _ in 0..self.rates.len() / 4 {
            let page = self.scanned;
            self.scanned = (page + 1) % self.rates.len();
            if fast_too || self.place[page] > Some(TierId::FAST) {
                self.armed[page].get_or_insert(now);
            }
        }
    }

    /// Regions of sixteen pages, sampled by random pages.
    fn report_regions(&mut self, sampling: Nanos, out: &mut Observations) {
        (out.window, out.aggregation) = (Some(sampling), Some(sampling * u64::from(STRETCH_LOOKS)));
        out.watched += sampling * u64::from(STRETCH_LOOKS);
        self.ages.resize(self.rates.len().div_ceil(STRETCH), (0, Nanos::ZERO));
        for observed in 0..self.ages.len() {
            let pages = STRETCH.min(self.rates.len() - observed * STRETCH);
            let mut hits = 0;
            for _ in 0..STRETCH_LOOKS {
                let within = usize::try_from(self.rng.below(pages as u64)).unwrap();
                hits += u32::from(self.is_hit(observed * STRETCH + within, sampling));
            }
            let (last, age) = self.ages[observed];
            let same = last.abs_diff(hits) <= STRETCH_LOOKS / 10;
            let age = if same { age + Nanos::from_millis(100) } else { Nanos::ZERO };
            self.ages[observed] = (hits, age);
            out.observed_regions.push(ObservedRegion {
                space: SPACE,
                vpn: Vpn((observed * STRETCH) as u64),
                base_pages: pages as u64,
                frequency: f64::from(hits) / f64::from(STRETCH_LOOKS),
                age,
            });
        }
    }

    /// Time until the page's next access.
    fn next_access(&mut self, page: usize) -> Nanos {
        match self.rates[page] {
            rate if rate > 0.0 => Nanos::from_secs_f64(self.rng.exponential(rate)),
            _ => Nanos(u64::MAX / 4),
        }
    }

    fn is_hit(&mut self, page: usize, within: Nanos) -> bool {
        self.rates[page] > 0.0 && self.next_access(page) < within
    }

    fn seen(&self, page: usize, exposure: Option<Nanos>) -> Option<Sample> {
        let tier = self.place[page]?;
        Some(Sample {
            space: SPACE,
            vpn: Vpn(page as u64),
            base_pages: 1,
            hits: 1.0,
            exposure,
            tier: Some(tier),
            write: None,
        })
    }
}

impl World for Toy {
    fn observe(&mut self, now: Nanos, out: &mut Observations) {
        if !self.announced {
            self.announce(out);
        }
        self.observed += 1;
        for event in self.changes.drain(..) {
            out.space_events.push(event);
            let SpaceEvent::Mapped(Region { start, .. }) = event else { continue };
            if let Some(tier) = self.place[usize::try_from(start.0).unwrap()] {
                out.residence.push(Residence { space: SPACE, vpn: start, base_pages: 1, tier });
            }
        }
        match self.watch {
            None => self.look(out),
            // There is no device with counters.
            Some(Tracking::Samples { .. } | Tracking::Counters { .. }) => self.sample(out),
            Some(Tracking::HintFaults { fast_too, .. }) => self.fault(now, fast_too, out),
            Some(Tracking::Regions { sampling, .. }) => self.report_regions(sampling, out),
            Some(Tracking::TrueRates) => self.report_rates(out),
        }
        out.fast_untracked =
            matches!(self.watch, Some(Tracking::HintFaults { fast_too: false, .. }));
        self.last = now;
    }

    fn measure(&mut self, now: Nanos) -> Telemetry {
        let measured = |(id, tier): (TierId, &Tier)| {
            let pages = self.rates.iter().zip(&self.place);
            let reads: f64 = pages.filter(|(_, place)| **place == Some(id)).map(|(r, _)| r).sum();
            TierTelemetry {
                free: Bytes::from_base_pages(self.free(id)),
                reads_per_sec: Some(reads),
                occupancy: tier.latency.map(|latency| reads * latency.as_secs_f64()),
                ..TierTelemetry::default()
            }
        };
        let tiers = self.tiers.iter().map(measured).collect();
        let allocated = self.tells_others.then_some(Allocated { total: Bytes::ZERO, read: now });
        Telemetry { tiers, allocated, ..Telemetry::default() }
    }

    fn capabilities(&self) -> Capabilities {
        use Capability::{Answers, KernelTiering, PageOut, TrueRates};
        Capabilities::of([Answers, KernelTiering, PageOut, TrueRates])
    }

    fn act(&mut self, _now: Nanos, orders: &[Order], out: &mut Vec<Outcome>) -> Nanos {
        let mut spent = Nanos::ZERO;
        for order in orders {
            let (outcome, cost) = match order {
                Order::Move(m) | Order::MoveShared(m) => (self.try_move(m), self.move_cost),
                Order::PageOut(at) => (self.page_out(at), Nanos(100_000)),
                Order::Split(at) => unreachable!("not offered: {at:?}"),
            };
            spent += cost;
            out.push(outcome);
        }
        spent
    }

    fn set_attention(&mut self, attention: Attention) {
        self.attention = attention;
    }

    fn configure_tracking(&mut self, watch: Tracking) -> bool {
        self.watch = Some(watch);
        true
    }

    fn limit_cpu(&mut self, _: TenantId, _: f64) {
        unreachable!("not offered")
    }

    fn check_accessed(&mut self, _now: Nanos, questions: &[Question], out: &mut Vec<bool>) {
        for question in questions {
            let page = usize::try_from(question.vpn.0).unwrap();
            out.push(self.is_hit(page, question.within));
        }
    }
}
