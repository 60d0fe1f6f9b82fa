// SPDX-License-Identifier: Apache-2.0
//! Properties of every policy on the model, under any failure: accounts are consistent, no tier overflows, the
//! migrator keeps to its rate, an exited space is forgotten, and nothing panics.

use tierline_core::engine::Engine;
use tierline_core::event::Event;
use tierline_core::policy::Policy;
use tierline_core::policy::{POLICIES, entry::PolicyEntry};
use tierline_core::port::Outcome;
use tierline_core::qos::Limits;
use tierline_core::tier::TierId;
use tierline_core::unit::Nanos;
use tierline_model::scenario::Scenario;
use tierline_model::world::faulty::{Faults, Faulty};

const TICK: Nanos = Nanos::from_millis(50);

fn scenario() -> Scenario {
    let text = r#"
        fast_capacity = "1GiB"
        max_rate = "1GiB/s"
        tracker_knobs = { sample_period = 50021 }
        [[workload]]
        kind = "gups"
        set = "2GiB"
        hot = "512MiB"
        jump = "4s"
        [[workload]]
        kind = "kv"
        set = "512MiB"
        threads = 2
    "#;
    Scenario::parse("test", text).unwrap()
}

fn faults() -> Vec<(&'static str, Faults)> {
    let none = Faults::default();
    vec![
        ("nothing", none),
        ("busy pages", Faults { busy: 0.3, ..none }),
        ("no memory", Faults { no_memory: 0.3, ..none }),
        ("pages that are written to", Faults { dirtied: 0.3, ..none }),
        ("shared pages", Faults { shared: 0.3, ..none }),
        ("lost samples", Faults { lost_samples: 0.5, ..none }),
        ("stalled counters", Faults { stalled_counters: 0.8, ..none }),
        ("an exit in mid-move", Faults { exit_at_move: Some(40), ..none }),
        ("a full tier", Faults { full: Some((Nanos::from_secs(1), TierId::FAST)), ..none }),
        (
            "all of it",
            Faults {
                busy: 0.1,
                no_memory: 0.1,
                dirtied: 0.1,
                shared: 0.1,
                lost_samples: 0.3,
                stalled_counters: 0.3,
                exit_at_move: Some(200),
                full: Some((Nanos::from_secs(3), TierId(1))),
            },
        ),
    ]
}

/// Runs a policy for 8 s. Returns the final engine and world.
fn run(entry: &PolicyEntry, faults: Faults) -> (Engine, Faulty) {
    run_in(&scenario(), (entry.make)(), faults)
}

fn run_in(scenario: &Scenario, policy: Box<dyn Policy>, faults: Faults) -> (Engine, Faulty) {
    let mut world = Faulty::new(scenario.world().unwrap(), faults, 7);
    let tiers = world.world.tiers().clone();
    let name = policy.name();
    let mut engine = Engine::new(tiers, Limits::default(), policy, scenario.max_rate);
    let mut moved = 0;
    for tick in 0..160 {
        let events = engine.tick(TICK * tick, &mut world);
        for event in events {
            if let Event::Move { moved: m, outcome: Outcome::Done, .. } = event {
                moved += m.size.bytes().0;
            }
        }
        let allowed = scenario.max_rate.0 / 20 * tick + scenario.max_rate.0 / 4;
        assert!(moved <= allowed, "{name}: {moved} bytes by tick {tick}");
        world.world.check();
        engine.pages().check();
    }
    (engine, world)
}

#[test]
fn every_policy_survives_every_fault_with_consistent_accounts() {
    for entry in POLICIES {
        for (what, faults) in faults() {
            let (engine, world) = run(entry, faults);
            page_table_agrees(&engine, &world, &format!("{}, {what}", entry.name));
        }
    }
}

fn page_table_agrees(engine: &Engine, world: &Faulty, what: &str) {
    for space in engine.pages().spaces() {
        let runs = world.world.job(space).is_some();
        assert!(runs, "{what}: {space} has exited and is still managed");
    }
    for (tier, _) in world.world.tiers().iter() {
        let believed = engine.pages().bytes_in(tier);
        let jobs = world.world.jobs().iter();
        let there = jobs.map(|job| job.bytes_in(tier)).sum();
        // A failed move leaves the page's recorded tier unchanged; all other tiers are known exactly.
        assert_eq!(believed, there, "{what}: {tier}");
    }
}

/// MEMTIS on a small machine, with shorter periods, and memory that drifts, is allocated and is freed.
#[test]
fn huge_pages_are_split_under_every_fault_with_consistent_accounts() {
    let text = r#"
        fast_capacity = "256MiB"
        max_rate = "1GiB/s"
        tracker_knobs = { sample_period = 2003 }
        [[workload]]
        kind = "gups"
        set = "1GiB"
        hot = "192MiB"
        jump = "2s"
        [[workload]]
        kind = "kv"
        set = "64MiB"
        drift = "16MiB/s"
        threads = 2
    "#;
    let scenario = Scenario::parse("test", text).unwrap();
    for ((what, faults), transfer) in faults().into_iter().zip(["exclusive", "nomad"].repeat(5)) {
        let mut policy = (PolicyEntry::find("memtis").unwrap().make)();
        for (knob, value) in [("adaptation_period", 10_000.0), ("cooling_period", 50_000.0)] {
            assert!(policy.set(knob, value), "{knob}");
        }
        let scenario = Scenario { migrator: transfer.into(), ..scenario.clone() };
        let (engine, world) = run_in(&scenario, policy, faults);
        page_table_agrees(&engine, &world, what);
        if faults.exit_at_move.is_some() {
            continue; // exited with the program whose pages are split
        }
        let jobs = world.world.jobs().iter();
        let split: usize =
            jobs.map(|job| (0..job.live()).filter(|&page| job.places.is_split(page)).count()).sum();
        let counted = &engine.migrator().counts;
        assert_eq!(counted.split, split as u64, "{what}, {transfer}");
        assert!(split > 0, "{what}, {transfer}");
        assert_eq!(counted.split_failed > 0, faults.busy > 0.0, "{what}, {transfer}");
    }
}

#[test]
fn a_program_that_finds_no_memory_does_nothing_and_disturbs_nobody() {
    let mut scenario = scenario();
    let late = &mut scenario.workload[1];
    late.insert("start".into(), "2s".into());
    let mut world = Faulty::new(scenario.world().unwrap(), Faults::default(), 7);
    let policy = (PolicyEntry::find("tierline").unwrap().make)();
    let tiers = world.world.tiers().clone();
    let mut engine = Engine::new(tiers, Limits::default(), policy, scenario.max_rate);
    for tick in 0..80 {
        if tick == 20 {
            world.world.fill(TierId::FAST);
            world.world.fill(TierId(1));
        }
        engine.tick(TICK * tick, &mut world);
    }
    let reads = world.world.jobs().iter().map(|job| job.reads).collect::<Vec<_>>();
    assert!(reads[0] > 1e6 && reads[0].is_finite(), "{reads:?}");
    assert_eq!(reads[1], 0.0);
    let all = world.world.counters().reads.iter().sum::<f64>();
    assert!((all / reads[0] - 1.0).abs() < 1e-9, "{all}, {reads:?}");
    world.world.check();
}

#[test]
fn one_seed_one_fingerprint_for_every_policy_also_in_another_thread() {
    for entry in POLICIES {
        let all = faults().pop().unwrap().1;
        let here = run(entry, all).0.fingerprint();
        let there = std::thread::scope(|scope| {
            let runs: Vec<_> =
                (0..2).map(|_| scope.spawn(move || run(entry, all).0.fingerprint())).collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(there, [here, here], "{}", entry.name);
    }
}

/// A fiftieth of a server with short-lived pages, and an unmanaged program, on a machine whose slow tier fills
/// up. The bystander must keep all its pages, whatever a policy pages out.
fn full_machine(policy: &str) -> Scenario {
    let machine = include_str!("../../../../machines/tpp.toml")
        .replace("\"64GiB\"", "\"1GiB\"")
        .replace("\"32GiB\"", "\"800MiB\"");
    let text = format!(
        r#"
        policy = "{policy}"
        max_rate = "1GiB/s"
        quantum = "50ms"
        tracker_knobs = {{ sample_period = 200003 }}
        [[workload]]
        kind = "antagonist"
        intensity = 0.1
        buffer = "200MiB"
        tier = 1
        [[workload]]
        kind = "datacenter"
        app = "web1"
        scale = 0.02
        threads = 1
        "#
    );
    let scenario = Scenario::parse("test", &text).unwrap();
    Scenario { machine_text: Some(machine), ..scenario }
}

#[test]
fn short_lived_pages_and_a_full_slow_tier_leave_policies_consistent_and_bystanders_intact() {
    for entry in POLICIES.iter().filter(|entry| (entry.make)().kernel().is_none()) {
        let scenario = full_machine(entry.name);
        let mut world = scenario.world().unwrap();
        let (policy, tiers) = ((entry.make)(), world.tiers().clone());
        let mut engine = Engine::new(tiers, Limits::default(), policy, scenario.max_rate);
        let mut out = 0;
        for tick in 0..4_000 {
            let events = engine.tick(TICK * tick, &mut world);
            out += events
                .iter()
                .filter(|e| matches!(e, Event::PageOut { outcome: Outcome::Done, .. }))
                .count();
            if tick % 50 == 0 {
                world.check();
                engine.pages().check();
            }
        }
        let bystander = &world.jobs()[0];
        assert_eq!(bystander.bytes_in(TierId(1)), bystander.program.bytes, "{}", entry.name);
        for (tier, _) in world.tiers().iter() {
            let managed = world.jobs().iter().filter(|job| job.program.managed);
            let there = managed.map(|job| job.bytes_in(tier)).sum();
            assert_eq!(engine.pages().bytes_in(tier), there, "{}: {tier}", entry.name);
        }
        let counted = engine.migrator().counts.tiering;
        assert_eq!(counted.page_out_anon, 0, "{}: there is no swap", entry.name);
        assert_eq!(counted.page_out_file, out as u64 * 512, "{}", entry.name);
        if entry.name == "paging" {
            assert!(out > 0, "the kernel pages files out where memory is short");
        }
    }
}
