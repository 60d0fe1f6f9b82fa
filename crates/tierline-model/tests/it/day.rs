// SPDX-License-Identifier: Apache-2.0
//! A day under all faults: programs come, change and go while moves fail, samples are lost, counters stall, a program exits in the
//! middle of moves and others fill the tiers.

use std::fmt::Write as _;

use tierline_core::engine::Engine;
use tierline_core::policy::{POLICIES, entry::PolicyEntry};
use tierline_core::qos::Limits;
use tierline_core::rng::Rng;
use tierline_core::tier::TierId;
use tierline_core::unit::{Bytes, Nanos};
use tierline_model::scenario::Scenario;
use tierline_model::world::faulty::{Faults, Faulty};

const TICK: Nanos = Nanos::from_millis(50);
const TICKS_PER_MINUTE: u64 = 60 * 20;

/// A program starts every 20 minutes and runs for an hour; its hot set changes after half of it. Three at a time have 576 MiB of hot
/// memory.
fn scenario(hours: u64) -> Scenario {
    let mut text = String::from(
        r#"
        fast_capacity = "1GiB"
        max_rate = "1GiB/s"
        quantum = "50ms"
        tracker_knobs = { sample_period = 200003 }
        "#,
    );
    for start in (0..hours * 60).step_by(20) {
        let (start, stop) = (start * 60, (start + 60) * 60);
        let program = format!(
            r#"
            [[workload]]
            kind = "gups"
            set = "600MiB"
            hot = "192MiB"
            threads = 2
            jump = "1800s"
            start = "{start}s"
            stop = "{stop}s"
            "#
        );
        text.write_str(&program).unwrap();
    }
    Scenario::parse("day", &text).unwrap()
}

/// The faults of a minute: all kinds, each with a frequency of its own. The last quarter of an hour is without any.
fn faults(minute: u64, rng: &mut Rng, exit_at_move: Option<u64>) -> Faults {
    if minute % 60 >= 45 {
        return Faults::default();
    }
    let mut share = |most: f64| most * rng.unit().powi(2);
    Faults {
        busy: share(0.5),
        no_memory: share(0.3),
        dirtied: share(0.5),
        shared: share(0.3),
        lost_samples: share(0.9),
        stalled_counters: share(0.9),
        exit_at_move,
        full: None,
    }
}

/// The reads of all programs from fast memory, and from all.
fn reads(world: &Faulty) -> [f64; 2] {
    let reads = &world.world.counters().reads;
    [reads[0], reads.iter().sum()]
}

/// What a run of some hours showed.
struct Found {
    /// Share of reads from fast memory in the last ten minutes of each hour.
    shares: Vec<f64>,
    /// Programs that exited while their pages were moved.
    exits: u64,
    /// Bytes of metadata at the end of each hour.
    metadata: Vec<usize>,
    engine: Engine,
}

fn run(policy: &PolicyEntry, hours: u64) -> Found {
    let scenario = scenario(hours);
    let mut world = Faulty::new(scenario.world().unwrap(), Faults::default(), 7);
    let tiers = world.world.tiers().clone();
    let mut engine = Engine::new(tiers, Limits::default(), (policy.make)(), scenario.max_rate);
    let mut rng = Rng::new(24);
    let (mut shares, mut metadata) = (Vec::new(), Vec::new());
    let (mut exits, mut exit, mut before) = (0, 0, [0.0; 2]);
    for minute in 0..hours * 60 {
        let what = format!("{}, minute {minute}", policy.name);
        if minute % 60 == 30 {
            exit = world.moves() + 20;
        }
        world.faults = faults(minute, &mut rng, Some(exit));
        // Others take all free memory of a tier at times, for ten minutes.
        let filled = TierId(u8::from(minute / 60 % 2 == 1));
        match minute % 60 {
            15 => world.faults.full = Some((Nanos::ZERO, filled)),
            25 => world.world.empty(filled),
            50 => before = reads(&world),
            _ => {}
        }
        for tick in 0..TICKS_PER_MINUTE {
            engine.tick(TICK * (minute * TICKS_PER_MINUTE + tick), &mut world);
        }
        exits += u64::from(minute % 60 == 44 && exit <= world.moves());
        world.world.check();
        engine.pages().check();
        let mut spaces = engine.pages().spaces();
        assert!(spaces.all(|space| world.world.job(space).is_some()), "{what}: it has exited");
        for (tier, _) in world.world.tiers().iter() {
            let there: Bytes = world.world.jobs().iter().map(|job| job.bytes_in(tier)).sum();
            assert_eq!(engine.pages().bytes_in(tier), there, "{what}: {tier}");
        }
        if minute % 60 == 59 {
            let now = reads(&world);
            shares.push((now[0] - before[0]) / (now[1] - before[1]));
            metadata.push(engine.pages().metadata_bytes());
        }
    }
    Found { shares, exits, metadata, engine }
}

#[test]
#[ignore = "minutes of CPU time, optimised: ./test --long runs it"]
fn day_long_all_faults_leave_accounts_consistent_and_the_default_at_work() {
    let found = run(PolicyEntry::find("tierline").unwrap(), 24);
    let failed = &found.engine.migrator().counts.failed;
    for outcome in ["busy", "no_room", "dirtied", "shared"] {
        assert!(failed.get(outcome).is_some_and(|&times| times > 100), "{outcome}: {failed:?}");
    }
    assert!(found.exits > 12, "{} programs exited while pages were moved", found.exits);
    let (earlier, later) = found.metadata.split_at(12);
    assert!(earlier.iter().max() >= later.iter().max(), "{earlier:?}, then {later:?}");
    assert!(found.shares.iter().all(|&share| share > 0.9), "{:?}", found.shares);
}

#[test]
#[ignore = "minutes of CPU time, optimised: ./test --long runs it"]
fn day_long_two_hours_of_all_faults_leave_the_accounts_of_every_policy_consistent() {
    for entry in POLICIES {
        let found = run(entry, 2);
        assert_eq!(found.shares.len(), 2, "{}", entry.name);
    }
}
