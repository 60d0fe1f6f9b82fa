// SPDX-License-Identifier: Apache-2.0
//! The fixed point on thousands of random machines, up to extreme overload.

use proptest::prelude::*;
use tierline_core::rng::Rng;
use tierline_core::tier::TierId;
use tierline_model::load::{
    Capacity, Class, Curve, LINE_BYTES, Loads, Network, PerTier, Queue, bisect::bisect, solve,
};

fn between(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low + (high - low) * rng.unit()
}

/// A machine of 1 to 4 tiers, with programs and copies up to thousands of cores.
fn random(seed: u64) -> (Network, Vec<Class>) {
    random_of(seed, 4)
}

fn random_of(seed: u64, most_tiers: u64) -> (Network, Vec<Class>) {
    let mut rng = Rng::new(seed);
    let n = 1 + usize::try_from(rng.below(most_tiers)).unwrap();
    let tiers = (0..n).map(|_| random_queue(&mut rng)).collect();
    let shared_queue = (rng.below(4) == 0).then(|| between(&mut rng, 50.0, 1_000.0));
    let network = Network { tiers, path_ns: between(&mut rng, 0.0, 10.0), shared_queue };
    let classes = (0..1 + rng.below(4)).map(|_| random_class(&mut rng, n)).collect();
    (network, classes)
}

fn random_queue(rng: &mut Rng) -> Queue {
    let curve = Curve {
        unloaded_ns: between(rng, 50.0, 500.0),
        linear_ns: between(rng, 0.0, 50.0),
        queue_ns: between(rng, 0.5, 90.0),
    };
    let gb = between(rng, 5.0, 500.0);
    let capacity = match rng.below(2) {
        0 => {
            let turnaround = between(rng, 0.0, 0.2) / gb;
            Capacity::HalfDuplex { read: gb, write: gb * between(rng, 0.3, 1.0), turnaround }
        }
        _ => Capacity::FullDuplex { direction: gb, total: gb * between(rng, 1.0, 2.0) },
    };
    Queue { curve, capacity }
}

fn random_class(rng: &mut Rng, n: usize) -> Class {
    let cores = [1.0, 15.0, 64.0, 5_000.0][usize::try_from(rng.below(4)).unwrap()];
    if rng.below(5) == 0 {
        let at = |rng: &mut Rng| usize::try_from(rng.below(n as u64)).unwrap();
        return Class::copy(between(rng, 1.0, 64.0), at(rng), at(rng));
    }
    let mut shares = PerTier::default();
    let mut left = 1.0;
    for share in shares.iter_mut().take(n - 1) {
        *share = if rng.below(4) == 0 { 0.0 } else { left * rng.unit() };
        left -= *share;
    }
    shares[n - 1] = left;
    let think_ns = [0.0, 24.0, 10_000.0][usize::try_from(rng.below(3)).unwrap()];
    Class::program(cores * between(rng, 1.0, 30.0), think_ns, shares, rng.unit())
}

fn solved(network: &Network, classes: &[Class]) -> Loads {
    let mut loads = Loads::default();
    solve(network, classes, &mut loads);
    loads
}

/// The utilisation that results from a tier's traffic, by the definition of the model.
fn implied(network: &Network, classes: &[Class], loads: &Loads, tier: usize) -> f64 {
    let read = loads.reads(classes, tier) * LINE_BYTES;
    network.tiers[tier].capacity.utilisation(read, loads.writes(classes, tier) * LINE_BYTES)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn the_fixed_point_is_finite_and_consistent(seed: u64) {
        let (network, classes) = random(seed);
        let loads = solved(&network, &classes);
        for (t, queue) in network.tiers.iter().enumerate() {
            let u = loads.utilisation[t];
            prop_assert!((0.0..1.0).contains(&u), "tier {t}: {u}");
            prop_assert!(loads.latency_ns[t].is_finite());
            // An error of latency times the unused share of capacity, as the curve is steep near 1.
            prop_assert!((loads.latency_ns[t] / queue.curve.at(u) - 1.0).abs() < 1e-6);
            prop_assert!((implied(&network, &classes, &loads, t) - u).abs() < 1e-9, "tier {t}");
        }
    }

    /// Little's law for each class: misses in flight equal throughput times the time of an iteration.
    #[test]
    fn littles_law_holds_for_every_class(seed: u64) {
        let (network, classes) = random(seed);
        let loads = solved(&network, &classes);
        for (class, rate) in classes.iter().zip(&loads.reads_per_ns) {
            let extra = network.path_ns + loads.wait_ns;
            let waits = class.waits.iter().zip(&loads.latency_ns);
            let round: f64 = class.think_ns + waits.map(|(w, l)| w * (l + extra)).sum::<f64>();
            prop_assert!((rate * round / class.in_flight - 1.0).abs() < 1e-9);
        }
        if let Some(room) = network.shared_queue {
            let inside: f64 = (0..network.tiers.len()).map(|t| loads.occupancy(&classes, t)).sum();
            prop_assert!(inside <= room * (1.0 + 1e-6), "{inside} in a queue of {room}");
            prop_assert!(loads.wait_ns == 0.0 || inside >= room * (1.0 - 1e-6));
        }
    }

    #[test]
    fn newton_and_bisection_find_the_same_point(seed: u64) {
        let (mut network, classes) = random_of(seed, 2);
        network.shared_queue = None;
        let loads = solved(&network, &classes);
        let backlog = bisect(&network, &classes, network.path_ns);
        for (t, queue) in network.tiers.iter().enumerate() {
            let latency = queue.curve.at(backlog[t] / (1.0 + backlog[t]));
            prop_assert!((loads.latency_ns[t] / latency - 1.0).abs() < 1e-6, "tier {t}: {latency}");
        }
    }

    /// Another program of the same kind slows all programs on its tiers and adds to their traffic.
    #[test]
    fn more_load_never_makes_a_single_tier_faster(seed: u64, more in 1.0f64..4.0) {
        let (mut network, classes) = random(seed);
        network.tiers.truncate(1);
        network.shared_queue = None; // a full one changes the mix of the requests inside
        let only = |c: &Class| {
            let mut reads = PerTier::default();
            reads[0] = 1.0;
            Class::program(c.in_flight, c.think_ns, reads, c.writes[0].min(1.0))
        };
        let mut classes: Vec<Class> = classes.iter().map(only).collect();
        let before = solved(&network, &classes);
        classes[0].in_flight *= more;
        let after = solved(&network, &classes);
        prop_assert!(after.latency_ns[0] >= before.latency_ns[0] * (1.0 - 1e-9));
        for (a, b) in after.reads_per_ns.iter().zip(&before.reads_per_ns).skip(1) {
            prop_assert!(*a <= b * (1.0 + 1e-9));
        }
        prop_assert!(after.reads_per_ns[0] >= before.reads_per_ns[0] * (1.0 - 1e-9));
    }
}

/// Under extreme overload a tier carries its capacity, and requests queue: `L → K·64/C`.
#[test]
fn an_overloaded_tier_carries_its_capacity() {
    let capacity = Capacity::HalfDuplex { read: 100.0, write: 100.0, turnaround: 0.0 };
    let tiers = vec![Queue { curve: Curve::one_slope(80.0, 20.0), capacity }];
    let network = Network { tiers, ..Network::default() };
    let mut all = PerTier::default();
    all[0] = 1.0;
    let classes = [Class::program(50_000.0, 0.0, all, 0.0)];
    let loads = solved(&network, &classes);
    let queue_of_everyone = 50_000.0 * LINE_BYTES / 100.0;
    assert!((loads.latency_ns[0] / queue_of_everyone - 1.0).abs() < 0.01, "{loads:?}");
    assert_eq!(loads.latency_ns[TierId::MAX - 1], 0.0);
}
