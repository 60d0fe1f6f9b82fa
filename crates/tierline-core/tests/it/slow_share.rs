// SPDX-License-Identifier: Apache-2.0
//! A program with a target in slow accesses, observed in short windows: a scan finds one in thirty of its hot pages, all in
//! slow memory, and a few pages in fast memory each time. So it was with SQLite in the lab, beside a program that fills
//! the windows.

use tierline_core::engine::Engine;
use tierline_core::policy::tierline::Tierline;
use tierline_core::port::{
    Attention, Capabilities, Observations, Order, Outcome, PageKind, PageSize, Region, Residence,
    Sample, SpaceEvent, SpaceId, Telemetry, TenantId, TierTelemetry, Vpn, World,
};
use tierline_core::qos::Limits;
use tierline_core::qos::application::{Application, Slo};
use tierline_core::qos::need::ApplicationProfile;
use tierline_core::rng::Rng;
use tierline_core::tier::TierId;
use tierline_core::unit::{Bytes, Nanos};

use crate::contract::RATE;
use crate::toy::{machine, offers_moves_only};

const SPACE: SpaceId = SpaceId(1);
const TENANT: TenantId = TenantId(1);
const WINDOW: Nanos = Nanos::from_millis(10);
/// Time between two scans.
const TICK: Nanos = Nanos::from_millis(200);
/// Pages that every scan finds, in fast memory.
const ALWAYS: usize = 64;
/// Hot pages, and the share of them that a scan finds.
const HOT: usize = 2_000;
const FOUND: f64 = 1.0 / 30.0;
/// Pages without an access.
const COLD: usize = 500;
const PAGES: usize = ALWAYS + HOT + COLD;

struct Sparse {
    place: Vec<TierId>,
    /// Whether pages can be moved.
    moves: bool,
    announced: bool,
    rng: Rng,
}

impl Sparse {
    fn new(moves: bool, seed: u64) -> Self {
        let at = |page| if page < ALWAYS { TierId::FAST } else { TierId(1) };
        let place = (0..PAGES).map(at).collect();
        Self { place, moves, announced: false, rng: Rng::new(seed) }
    }

    fn fast(&self, pages: std::ops::Range<usize>) -> usize {
        self.place[pages].iter().filter(|&&at| at == TierId::FAST).count()
    }

    fn free(&self) -> usize {
        PAGES - self.fast(0..PAGES)
    }

    fn announce(&mut self, out: &mut Observations) {
        let (space, kind, size) = (SPACE, PageKind::Anonymous, PageSize::Base);
        let region = Region { space, start: Vpn(0), base_pages: PAGES as u64, size, kind };
        out.space_events.push(SpaceEvent::Owned(SPACE, TENANT));
        out.space_events.push(SpaceEvent::Mapped(region));
        for (vpn, &tier) in (0..).map(Vpn).zip(&self.place) {
            out.residence.push(Residence { space, vpn, base_pages: 1, tier });
        }
        self.announced = true;
    }
}

impl World for Sparse {
    fn observe(&mut self, _now: Nanos, out: &mut Observations) {
        if !self.announced {
            self.announce(out);
        }
        for page in 0..ALWAYS + HOT {
            if page < ALWAYS || self.rng.unit() < FOUND {
                let (tier, vpn) = (Some(self.place[page]), Vpn(page as u64));
                let (hits, exposure, write) = (1.0, None, None);
                let (space, base_pages) = (SPACE, 1);
                out.samples.push(Sample { space, vpn, base_pages, hits, exposure, tier, write });
            }
        }
        (out.watched, out.window) = (WINDOW, Some(WINDOW));
        out.remembered_time = Some(WINDOW * 16);
    }

    fn measure(&mut self, _now: Nanos) -> Telemetry {
        let free = |pages: usize| TierTelemetry {
            free: Bytes::from_base_pages(pages as u64),
            ..TierTelemetry::default()
        };
        Telemetry { tiers: vec![free(self.free()), free(PAGES)], ..Telemetry::default() }
    }

    fn act(&mut self, _now: Nanos, orders: &[Order], out: &mut Vec<Outcome>) -> Nanos {
        for order in orders.iter().map(|order| order.as_move().expect("only moves are offered")) {
            assert!(order.to != TierId::FAST || self.free() > 0, "there is room");
            if self.moves {
                self.place[usize::try_from(order.vpn.0).unwrap()] = order.to;
            }
            out.push(if self.moves { Outcome::Done } else { Outcome::Busy });
        }
        Nanos(70_000) * orders.len() as u64
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::of([])
    }

    fn set_attention(&mut self, _attention: Attention) {}

    offers_moves_only!();
}

/// The program with a target of 5 %, observed in so many scans.
fn run(world: &mut Sparse, scans: u64) -> Engine {
    let tiers = machine(&[PAGES as u64; 2]);
    let policy = Box::new(Tierline::default());
    let mut engine = Engine::new(tiers.clone(), Limits::default(), policy, RATE);
    let memory = Bytes::from_base_pages(PAGES as u64);
    let slo = Some(Slo::SlowShare(0.05));
    let application =
        Application { tenant: TENANT, slo, priority: 1, weight: 1.0, cores: 1.0, memory };
    let profile = ApplicationProfile::unknown(memory);
    engine.qos.admit(Nanos::ZERO, application, &profile, &tiers).expect("nothing else runs");
    for scan in 1..=scans {
        engine.tick(TICK * scan, world);
    }
    engine
}

/// By hand: 2,000 / 30 = 67 pages in slow memory, 64 in fast memory. No page can be moved.
#[test]
fn the_slow_share_is_that_of_the_pages_which_scans_find() {
    for seed in 0..4 {
        let engine = run(&mut Sparse::new(false, seed), 40);
        let standing = engine.qos.report(TENANT).expect("it was admitted");
        let share = standing.measured.slow_share();
        assert!((share - 67.0 / 131.0).abs() < 0.06, "seed {seed}: {share}");
        assert!(standing.error.is_some_and(|error| error > 1.0), "{standing:?}");
    }
}

/// By hand: of 60 scans each page is found in two, so 87 % are found at all.
#[test]
fn one_hit_promotes_a_page_of_a_program_that_misses_its_target() {
    for seed in 0..4 {
        let mut world = Sparse::new(true, seed);
        run(&mut world, 60);
        let (hot, cold) = (world.fast(ALWAYS..ALWAYS + HOT), world.fast(ALWAYS + HOT..PAGES));
        assert!(hot > HOT * 8 / 10, "seed {seed}: {hot} of {HOT}");
        assert_eq!(cold, 0, "seed {seed}: pages without an access");
    }
}
