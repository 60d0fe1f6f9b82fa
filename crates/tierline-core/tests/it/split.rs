// SPDX-License-Identifier: Apache-2.0
//! Splitting of huge pages: a world with a few hot base pages in each huge page, and more huge pages than fit.

use tierline_core::engine::Engine;
use tierline_core::policy::Policy;
use tierline_core::policy::entry::PolicyEntry;
use tierline_core::port::{
    Attention, Capabilities, Capability, Move, Observations, Order, Outcome, PageAddress, PageKind,
    PageSize, Region, Residence, Sample, SpaceEvent, SpaceId, Telemetry, TierTelemetry, Vpn, World,
};
use tierline_core::qos::Limits;
use tierline_core::rng::Rng;
use tierline_core::tier::TierId;
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};

use crate::toy::{machine, offers_moves_only};

const SPACE: SpaceId = SpaceId(1);
const HUGE: u64 = 64;
/// Hot base pages of each huge page, which get nine of ten accesses.
const HOT: u64 = 16;
/// Room for 8 of the 64 huge pages, or for all hot base pages and more.
const FAST: u64 = 8 * 512;
const TICK: Nanos = Nanos::from_millis(100);
const SAMPLES: u64 = 2_000;

/// The tier of every base page, and which huge pages are not split.
struct Huges {
    place: Vec<TierId>,
    whole: Vec<bool>,
    /// Hot base pages of each huge page.
    hot: u64,
    /// `None`: it cannot split; otherwise one of this many splits fails.
    splits: Option<u64>,
    asked: u64,
    rng: Rng,
    reported: bool,
}

impl Huges {
    fn new(splits: Option<u64>) -> Self {
        let pages = usize::try_from(HUGE * 512).unwrap();
        Self {
            place: vec![TierId(1); pages],
            whole: vec![true; usize::try_from(HUGE).unwrap()],
            hot: HOT,
            splits,
            asked: 0,
            rng: Rng::new(3),
            reported: false,
        }
    }

    fn in_fast(&self) -> u64 {
        self.place.iter().filter(|&&tier| tier == TierId::FAST).count() as u64
    }

    /// The share of accesses that the fastest tier serves.
    fn fast_share(&self) -> f64 {
        let is_hot = |vpn: u64| (vpn % 512).is_multiple_of(512 / self.hot);
        let fast = (0..).zip(&self.place).filter(|(_, tier)| **tier == TierId::FAST);
        let (hot, all) =
            fast.fold((0u32, 0u32), |(hot, all), (vpn, _)| (hot + u32::from(is_hot(vpn)), all + 1));
        let of = |pages: u32, of: u64| f64::from(pages) / of as f64;
        0.9 * of(hot, HUGE * self.hot) + 0.1 * of(all, HUGE * 512)
    }

    fn access(&mut self) -> Vpn {
        let huge = self.rng.below(HUGE) * 512;
        let within = match self.rng.below(10) {
            0 => self.rng.below(512),
            _ => self.rng.below(self.hot) * (512 / self.hot),
        };
        Vpn(huge + within)
    }
}

impl Huges {
    fn move_page(&mut self, m: &Move) -> Outcome {
        let first = usize::try_from(m.vpn.0).unwrap();
        assert_eq!(self.whole[first / 512], m.size == PageSize::Huge, "of one size: {m:?}");
        let pages = usize::try_from(m.size.base_pages()).unwrap();
        self.place[first..first + pages].fill(m.to);
        assert!(self.in_fast() <= FAST);
        Outcome::Done
    }

    fn split_page(&mut self, at: &PageAddress) -> Outcome {
        self.asked += 1;
        let whole = &mut self.whole[usize::try_from(at.vpn.0 / 512).unwrap()];
        assert!(*whole && at.size == PageSize::Huge, "{at:?}");
        *whole = self.splits.is_some_and(|fails| self.asked.is_multiple_of(fails));
        if *whole { Outcome::Busy } else { Outcome::Done }
    }
}

impl World for Huges {
    fn observe(&mut self, _now: Nanos, out: &mut Observations) {
        if !std::mem::replace(&mut self.reported, true) {
            out.space_events.push(SpaceEvent::Mapped(Region {
                space: SPACE,
                start: Vpn(0),
                base_pages: HUGE * 512,
                size: PageSize::Huge,
                kind: PageKind::Anonymous,
            }));
            let base_pages = u32::try_from(HUGE * 512).unwrap();
            let tier = TierId(1);
            out.residence.push(Residence { space: SPACE, vpn: Vpn(0), base_pages, tier });
        }
        for _ in 0..SAMPLES {
            let vpn = self.access();
            out.samples.push(Sample {
                space: SPACE,
                vpn,
                base_pages: 1,
                hits: 1.0,
                exposure: None,
                tier: Some(self.place[usize::try_from(vpn.0).unwrap()]),
                write: None,
            });
        }
    }

    fn measure(&mut self, _now: Nanos) -> Telemetry {
        let fast = Bytes::from_base_pages(FAST - self.in_fast());
        let tiers = [fast, Bytes::from_base_pages(HUGE * 512)];
        let tiers = tiers.map(|free| TierTelemetry { free, ..TierTelemetry::default() });
        Telemetry { tiers: tiers.into(), ..Telemetry::default() }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with(Capability::Split, self.splits.is_some())
    }

    fn act(&mut self, _now: Nanos, orders: &[Order], out: &mut Vec<Outcome>) -> Nanos {
        let mut spent = Nanos::ZERO;
        for order in orders {
            let (outcome, cost) = match order {
                Order::Move(m) | Order::MoveShared(m) => (self.move_page(m), Nanos(2_000)),
                Order::Split(at) => (self.split_page(at), Nanos(100_000)),
                Order::PageOut(at) => unreachable!("not offered: {at:?}"),
            };
            spent += cost;
            out.push(outcome);
        }
        spent
    }

    fn set_attention(&mut self, _attention: Attention) {}

    offers_moves_only!();
}

/// MEMTIS with cooling 200 times as frequent as its default, for this much smaller world.
fn memtis(split: f64) -> Box<dyn Policy> {
    let mut policy = (PolicyEntry::find("memtis").unwrap().make)();
    for (knob, value) in
        [("adaptation_period", 1_000.0), ("cooling_period", 20_000.0), ("split", split)]
    {
        assert!(policy.set(knob, value), "{knob}");
    }
    policy
}

fn run(world: &mut Huges, split: f64) -> Engine {
    run_with(world, memtis(split))
}

fn run_with(world: &mut Huges, policy: Box<dyn Policy>) -> Engine {
    let rate = BytesPerSec(1 << 30);
    let tiers = machine(&[FAST, HUGE * 512]);
    let mut engine = Engine::new(tiers, Limits::default(), policy, rate);
    for tick in 0..600 {
        engine.tick(TICK * tick, world);
        if tick % 10 == 0 {
            engine.pages().check();
            assert_eq!(engine.pages().bytes_in(TierId::FAST).base_pages(), world.in_fast());
        }
    }
    engine
}

/// With huge pages, fast memory can serve 8 of 64 parts of the accesses; with base pages, all hot ones.
#[test]
fn memtis_splits_huge_pages_with_hot_spots_and_packs_the_spots() {
    let mut whole = Huges::new(Some(1_000));
    let engine = run(&mut whole, 0.0);
    assert_eq!(engine.migrator().counts.split, 0);
    assert!(whole.fast_share() < 0.13, "{}", whole.fast_share());

    let mut split = Huges::new(Some(1_000));
    let engine = run(&mut split, 1.0);
    let counts = &engine.migrator().counts;
    let apart = split.whole.iter().filter(|whole| !**whole).count();
    assert_eq!(counts.split, apart as u64);
    assert!(apart > 8, "{apart}");
    assert!(split.fast_share() > 0.5, "{} with {apart} split", split.fast_share());
}

/// If accesses are spread evenly over a huge page, nothing is gained, and nothing is split.
#[test]
fn the_default_splits_only_huge_pages_with_hot_spots() {
    let default = || (PolicyEntry::find("tierline").unwrap().make)();
    let run = |hot, splits| {
        let mut world = Huges { hot, ..Huges::new(splits) };
        let engine = run_with(&mut world, default());
        (world.fast_share(), engine.migrator().counts.split)
    };
    for hot in [1, HOT] {
        let (whole, none) = run(hot, None);
        assert!(none == 0 && whole < 0.14, "{whole}");
        let (apart, split) = run(hot, Some(1_000));
        assert!(split > 56, "{split} of {HUGE}, of which 8 would fit unsplit");
        println!("{hot}: {whole} {apart} {split}");
        assert!(apart > 0.9, "{apart} with {split} split");
    }
    let (_, even) = run(512, Some(1_000));
    assert_eq!(even, 0);
}

#[test]
fn failed_splits_are_counted_and_leave_the_page_unsplit() {
    let mut sometimes = Huges::new(Some(3));
    let counts = run(&mut sometimes, 1.0).migrator().counts.clone();
    assert_eq!(counts.split + counts.split_failed, sometimes.asked);
    assert_eq!(counts.split_failed, sometimes.asked / 3);
    let mut never = Huges::new(None);
    let counts = run(&mut never, 1.0).migrator().counts.clone();
    assert!(counts.split == 0 && counts.split_failed > 0);
    assert!(never.whole.iter().all(|whole| *whole));
}
