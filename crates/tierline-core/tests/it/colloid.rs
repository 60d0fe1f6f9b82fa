// SPDX-License-Identifier: Apache-2.0
//! The effect of goals: packing fills fast memory with the hot pages whatever its load, balancing stops when
//! the latencies are equal.

use tierline_core::engine::Engine;
use tierline_core::policy::entry::PolicyEntry;
use tierline_core::qos::Limits;
use tierline_core::unit::Nanos;

use crate::closed_loop::{ClosedLoop, PAGES, RATE};

const TICK: Nanos = Nanos::from_millis(10);

struct Run {
    world: ClosedLoop,
    engine: Engine,
    ticks: u64,
}

impl Run {
    fn new(policy: &str, hot_from: usize, intensity: f64) -> Self {
        Self::with(policy, hot_from, intensity, &[])
    }

    fn with(policy: &str, hot_from: usize, intensity: f64, knobs: &[(&str, f64)]) -> Self {
        let mut policy = (PolicyEntry::find(policy).expect("a policy of that name").make)();
        for (knob, value) in knobs {
            assert!(policy.set(knob, *value), "{} has no knob {knob}", policy.name());
        }
        let mut world = ClosedLoop::new(policy.wants().tracking, hot_from, 1);
        world.intensity = intensity;
        world.solve();
        let engine = Engine::new(world.tiers.clone(), Limits::default(), policy, RATE);
        Self { world, engine, ticks: 0 }
    }

    fn seconds(&mut self, seconds: u64) -> &ClosedLoop {
        for _ in 0..seconds * 100 {
            self.engine.tick(TICK * self.ticks, &mut self.world);
            self.ticks += 1;
        }
        self.engine.pages().check();
        &self.world
    }
}

/// The difference of the latencies, as a share of the fast tier's.
fn gap(world: &ClosedLoop) -> f64 {
    let [fast, slow] = world.latency_ns;
    (fast - slow) / fast
}

#[test]
fn hemem_packs_the_hot_pages_whatever_the_load() {
    for intensity in [0.0, 1.0, 3.0] {
        let mut run = Run::new("hemem", PAGES / 2, intensity);
        let world = run.seconds(20);
        assert!(world.hot_share() > 0.97, "{intensity}x: {}", world.hot_share());
    }
}

#[test]
fn colloid_packs_while_fast_memory_stays_faster() {
    let mut run = Run::new("hemem+colloid", PAGES / 2, 0.0);
    let world = run.seconds(30);
    assert!(world.hot_share() > 0.95, "{}", world.hot_share());
}

#[test]
fn colloid_stops_at_equal_latencies_from_both_sides() {
    for hot_from in [0, PAGES / 2] {
        let mut run = Run::new("hemem+colloid", hot_from, 1.0);
        let world = run.seconds(20);
        assert!(gap(world).abs() < 0.07, "{} from {hot_from}", gap(world));
        assert!((0.1..0.5).contains(&world.fast_share()), "{}", world.fast_share());
        let before = world.moved;
        let moved = run.seconds(10).moved - before;
        assert!(moved < 100, "{moved} moves in ten settled seconds");
    }
}

#[test]
fn colloid_demotes_all_hot_pages_if_fast_memory_stays_slower() {
    let mut run = Run::new("hemem+colloid", 0, 3.0);
    let world = run.seconds(20);
    assert!(world.hot_share() < 0.05, "{}", world.hot_share());
}

#[test]
fn colloid_follows_a_load_that_comes_and_goes() {
    let mut run = Run::new("hemem+colloid", 0, 0.0);
    let packed = run.seconds(20).program_reads;
    run.world.intensity = 3.0;
    let world = run.seconds(10);
    assert!(world.hot_share() < 0.1, "{}", world.hot_share());
    run.world.intensity = 0.0;
    let world = run.seconds(20);
    assert!(world.program_reads > 0.97 * packed, "{} of {packed}", world.program_reads);
}

#[test]
fn memtis_packs_and_with_colloid_it_balances() {
    // A third of the samples, so that the test does not count millions.
    let knobs = [("period", 597.0)];
    let mut run = Run::with("memtis", PAGES / 2, 1.0, &knobs);
    let world = run.seconds(20);
    assert!(world.hot_share() > 0.97, "{}", world.hot_share());
    assert!(gap(world) > 0.15, "{}", gap(world));
    for hot_from in [0, PAGES / 2] {
        let mut run = Run::with("memtis+colloid", hot_from, 1.0, &knobs);
        let world = run.seconds(25);
        assert!(gap(world).abs() < 0.07, "{}", gap(world));
    }
}

/// The scanner arms all memory every three seconds, so that the test does not run for minutes.
fn scanning(policy: &str, hot_from: usize, intensity: f64) -> Run {
    Run::with(policy, hot_from, intensity, &[("scan_period_min", 3.0), ("scan_period_max", 3.0)])
}

#[test]
fn tpp_and_linux_pack_pages_that_fault_soon() {
    for policy in ["tpp", "linux"] {
        let mut run = scanning(policy, PAGES / 2, 1.0);
        let world = run.seconds(120);
        assert!(world.hot_share() > 0.25, "{policy}: {}", world.hot_share());
        assert!(gap(world) > 0.0, "{policy} packs although fast memory is slower");
    }
}

#[test]
fn tpp_and_linux_balance_with_colloid() {
    for policy in ["tpp+colloid", "linux+colloid"] {
        let mut run = scanning(policy, 0, 1.0);
        let before = gap(&run.world);
        let world = run.seconds(60);
        assert!(before > 0.2 && gap(world).abs() < 0.07, "{policy}: {before} to {}", gap(world));
        let before = world.moved;
        let moved = run.seconds(20).moved - before;
        assert!(moved < 100, "{policy}: {moved} moves in twenty settled seconds");
        run.world.intensity = 3.0;
        let world = run.seconds(60);
        assert!(world.hot_share() < 0.05, "{policy}: {}", world.hot_share());
    }
}

/// With a fixed placement: the share of the hot set in fast memory with the best throughput is at equal
/// latencies, and packing is best only without load.
#[test]
fn the_best_fixed_placement_moves_down_with_load() {
    let reads = |share: f64, intensity: f64| {
        let mut run = Run::with("fixed", PAGES / 2, intensity, &[("hot_share", share)]);
        let world = run.seconds(5);
        assert!((world.hot_share() - share).abs() < 0.02, "{share}: {}", world.hot_share());
        world.program_reads
    };
    let best = |intensity: f64| {
        let shares: Vec<f64> = (0..=10).map(|tenth| f64::from(tenth) / 10.0).collect();
        shares.into_iter().max_by(|&a, &b| reads(a, intensity).total_cmp(&reads(b, intensity)))
    };
    assert!(best(0.0) > Some(0.7));
    assert!(best(1.0) > Some(0.05) && best(1.0) < Some(0.5), "{:?}", best(1.0));
    assert_eq!(best(3.0), Some(0.0));
    let mut run = Run::new("oracle", PAGES / 2, 3.0);
    assert!(run.seconds(5).hot_share() > 0.99, "the oracle packs");
}
