// SPDX-License-Identifier: Apache-2.0
//! A program in huge pages whose hot set changes, at the rates of the lab: a hot page has 94,000 accesses a second, a
//! cold one 1,700, and moving one takes 9 ms. A window of one millisecond finds nearly all of them accessed.

use std::ops::Range;

use tierline_core::engine::Engine;
use tierline_core::policy::tierline::Tierline;
use tierline_core::port::{
    Attention, Capabilities, Observations, Order, Outcome, PageKind, PageSize, Region, Residence,
    Sample, SpaceEvent, SpaceId, Telemetry, TierTelemetry, Vpn, World,
};
use tierline_core::qos::Limits;
use tierline_core::rng::Rng;
use tierline_core::tier::TierId;
use tierline_core::unit::{BASE_PER_HUGE, Bytes, Nanos};

use crate::contract::{RATE, TICK};
use crate::toy::{machine, offers_moves_only};

const SPACE: SpaceId = SpaceId(1);
const WINDOW: Nanos = Nanos::from_millis(1);
const PAGES: usize = 300;
const ROOM: usize = 180;
const HOT: usize = 48;

/// Huge pages, observed in windows.
struct HugePages {
    hot: Range<usize>,
    huge_window: Option<Nanos>,
    place: [TierId; PAGES],
    promoted: usize,
    attention: Attention,
    observed: u64,
    rng: Rng,
}

impl HugePages {
    fn new(huge_window: Option<Nanos>, seed: u64) -> Self {
        Self {
            hot: 100..100 + HOT,
            huge_window,
            place: [TierId(1); PAGES],
            promoted: 0,
            attention: Attention::Alert,
            observed: 0,
            rng: Rng::new(seed),
        }
    }

    fn free(&self, tier: TierId) -> Bytes {
        let used = self.place.iter().filter(|&&at| at == tier).count();
        Bytes::from_base_pages(
            (if tier == TierId::FAST { ROOM } else { PAGES } - used) as u64 * BASE_PER_HUGE,
        )
    }

    fn hot_share(&self) -> f64 {
        let fast = self.place[self.hot.clone()].iter().filter(|&&at| at == TierId::FAST).count();
        fast as f64 / HOT as f64
    }
}

impl World for HugePages {
    fn observe(&mut self, _now: Nanos, out: &mut Observations) {
        let (space, kind, size) = (SPACE, PageKind::Anonymous, PageSize::Huge);
        self.observed += 1;
        if self.observed == 1 {
            let (start, base_pages) = (Vpn(0), PAGES as u64 * BASE_PER_HUGE);
            out.space_events.push(SpaceEvent::Mapped(Region {
                space,
                start,
                base_pages,
                size,
                kind,
            }));
            let base_pages = 512 * u32::try_from(PAGES).unwrap();
            out.residence.push(Residence { space, vpn: start, base_pages, tier: TierId(1) });
        }
        if self.attention == Attention::Calm && !self.observed.is_multiple_of(10) {
            return;
        }
        for (page, &tier) in self.place.iter().enumerate() {
            let rate = if self.hot.contains(&page) { 94_000.0 } else { 1_700.0 };
            let seconds = self.huge_window.unwrap_or(WINDOW).as_secs_f64();
            if self.rng.exponential(rate) < seconds {
                let (vpn, tier) = (Vpn(page as u64 * BASE_PER_HUGE), Some(tier));
                let (hits, exposure, write) = (1.0, None, None);
                out.samples.push(Sample {
                    space,
                    vpn,
                    base_pages: 512,
                    hits,
                    exposure,
                    tier,
                    write,
                });
            }
        }
        (out.watched, out.window) = (WINDOW, Some(WINDOW));
        (out.huge_window, out.remembered_time) = (self.huge_window, Some(WINDOW * 16));
    }

    fn measure(&mut self, _now: Nanos) -> Telemetry {
        let measured = |tier| TierTelemetry { free: self.free(tier), ..TierTelemetry::default() };
        Telemetry { tiers: [0, 1].map(|i| measured(TierId(i))).into(), ..Telemetry::default() }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::of([])
    }

    fn act(&mut self, _now: Nanos, orders: &[Order], out: &mut Vec<Outcome>) -> Nanos {
        for order in orders.iter().map(|order| order.as_move().expect("only moves are offered")) {
            assert_eq!(order.size, PageSize::Huge, "no page is moved with the wrong size");
            assert!(self.free(order.to) > Bytes::ZERO, "there is room");
            self.place[usize::try_from(order.vpn.0 / BASE_PER_HUGE).unwrap()] = order.to;
            self.promoted += usize::from(order.to == TierId::FAST);
            out.push(Outcome::Done);
        }
        Nanos(9_000_000) * orders.len() as u64
    }

    fn set_attention(&mut self, attention: Attention) {
        self.attention = attention;
    }

    offers_moves_only!();
}

/// The share of the hot set that is fast before and after it changes, and the pages promoted.
fn run(huge_window: Option<Nanos>, seed: u64) -> (f64, f64, usize) {
    let tiers = machine(&[ROOM as u64 * BASE_PER_HUGE, PAGES as u64 * BASE_PER_HUGE]);
    let mut world = HugePages::new(huge_window, seed);
    let mut engine = Engine::new(tiers, Limits::default(), Box::<Tierline>::default(), RATE);
    let mut ticks = |world: &mut HugePages, ticks: Range<u64>| {
        for i in ticks {
            engine.tick(TICK * i, world);
        }
        world.hot_share()
    };
    let before = ticks(&mut world, 0..150);
    world.hot = 200..200 + HOT;
    let after = ticks(&mut world, 150..230);
    (before, after, world.promoted)
}

#[test]
fn a_new_hot_set_of_huge_pages_is_found_in_a_window_of_their_own() {
    for seed in 1..=8 {
        let (before, after, promoted) = run(Some(Nanos(50_000)), seed);
        assert!(before >= 0.9 && after >= 0.9, "seed {seed}: {before} {after}");
        assert!(promoted * 2 <= 3 * 2 * HOT, "seed {seed}: {promoted} promoted");
    }
    let (_, after, _) = run(None, 1);
    assert!(after < 0.8, "a window of a millisecond does not separate them: {after}");
}

/// All pages are equally hot, so each looks hotter than others by chance now and then.
#[test]
fn equally_hot_huge_pages_fill_fast_memory_and_then_placement_settles() {
    for seed in 1..=8 {
        let tiers = machine(&[ROOM as u64 * BASE_PER_HUGE, PAGES as u64 * BASE_PER_HUGE]);
        let mut world = HugePages::new(Some(Nanos(5_000)), seed);
        world.hot = 0..PAGES;
        let mut engine = Engine::new(tiers, Limits::default(), Box::<Tierline>::default(), RATE);
        (0..150).for_each(|i| _ = engine.tick(TICK * i, &mut world));
        let fast = world.place.iter().filter(|&&tier| tier == TierId::FAST).count();
        assert!(fast * 20 >= ROOM * 19, "seed {seed}: {fast} pages are fast");
        assert!(world.promoted * 4 <= ROOM * 5, "seed {seed}: {} promotions", world.promoted);
        assert_eq!(world.attention, Attention::Calm, "seed {seed}");
    }
}
