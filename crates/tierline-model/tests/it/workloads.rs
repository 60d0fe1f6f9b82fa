// SPDX-License-Identifier: Apache-2.0
//! Every workload of the list, alone and with others that start and stop.

use tierline_core::engine::Engine;
use tierline_core::policy::entry::PolicyEntry as Policy;
use tierline_core::qos::Limits;
use tierline_core::unit::{Bytes, Nanos};
use tierline_model::scenario::Scenario;
use tierline_model::workload::WORKLOADS;
use tierline_model::workload::list::{WorkloadEntry, listed, written};

/// Runs for `seconds` with the default policy and checks all accounts on the way.
fn run(text: &str, seconds: u64) -> tierline_model::world::ModelWorld {
    let scenario = Scenario::parse("test", text).unwrap();
    let mut world = scenario.world().unwrap();
    let policy = (Policy::find("tierline").unwrap().make)();
    let tiers = world.tiers().clone();
    let mut engine = Engine::new(tiers, Limits::default(), policy, scenario.max_rate);
    for tick in 0..seconds * 10 {
        engine.tick(Nanos::from_millis(100) * tick, &mut world);
        if tick % 16 == 0 {
            world.check();
            engine.pages().check();
        }
    }
    world
}

#[test]
fn every_workload_runs_with_consistent_accounts() {
    for entry in WORKLOADS {
        let text = format!(
            "tracker_knobs = {{ sample_period = 100003 }}\n[[workload]]\nkind = \"{}\"",
            entry.name
        );
        let world = run(&text, 12);
        let job = &world.jobs()[0];
        assert!(job.reads > 1e8, "{}: {}", entry.name, job.reads);
        let sum: f64 = job.census.shares(&job.pattern).iter().sum();
        assert!((sum - 1.0).abs() < 1e-9, "{}: {sum}", entry.name);
    }
}

#[test]
fn every_workload_documents_what_it_does_and_its_source() {
    for entry in listed() {
        let text = entry.explain();
        assert!(text.starts_with(entry.name), "{text}");
        for heading in ["What it does:", "Where it comes from:"] {
            assert!(text.contains(heading), "{} lacks {heading:?}", entry.name);
        }
    }
}

/// Names of knobs are in backquotes; so are file names, which contain a dot.
#[test]
fn documentation_and_table_agree_on_the_knobs() {
    for entry in listed() {
        let knobs = (entry.knobs)();
        assert!(!knobs.is_empty(), "{}", entry.name);
        for knob in &knobs {
            assert!(knob.about.len() > 5 && !knob.range.is_empty(), "{}: {knob:?}", entry.name);
        }
        let text = entry.explain();
        for word in text.split('`').skip(1).step_by(2).filter(|word| !word.contains('.')) {
            assert!(knobs.iter().any(|knob| knob.name == word), "{}: {word}", entry.name);
        }
        let named = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        for word in named.filter(|word| word.contains('_')) {
            assert!(knobs.iter().any(|knob| knob.name == word), "{}: {word}", entry.name);
        }
    }
}

/// Values that are set reach the program, and an explicit default changes nothing.
#[test]
fn an_explicit_default_makes_the_same_program() {
    for entry in WORKLOADS {
        let set: Vec<_> = (entry.knobs)()
            .iter()
            .filter(|knob| knob.default != "none")
            .map(|knob| format!("{}={}", knob.name, knob.default))
            .collect();
        let line = format!("{}:{}", entry.name, set.join(","));
        let mut table = written(&line).unwrap();
        table.remove("kind");
        let plain = entry.program(&toml::Table::new()).unwrap();
        assert_eq!(entry.program(&table).unwrap(), plain, "{line}");
    }
}

#[test]
fn programs_start_and_exit_and_all_their_memory_is_freed() {
    let text = r#"
        [[workload]]
        kind = "gups"
        set = "8GiB"
        hot = "2GiB"
        start = "1s"
        stop = "3s"
        [[workload]]
        kind = "kv"
        set = "4GiB"
        start = "2s"
    "#;
    let world = run(text, 2);
    assert_eq!(world.jobs().len(), 1, "the second program starts at 2 s");
    let world = run(text, 5);
    assert_eq!(world.jobs().len(), 1, "the first program has exited");
    let used: u64 = world
        .tiers()
        .iter()
        .map(|(id, tier)| tier.capacity.0 - world.frames().free_bytes(id).0)
        .sum();
    assert_eq!(Bytes(used), Bytes::from_mib(4 << 10));
}

/// The list of edges is freed once the rows are filled, and the rows once they are copied.
#[test]
fn memory_freed_by_pagerank_is_free() {
    let text = r#"
        [[workload]]
        kind = "pagerank"
        scale = 20
        generate = "1s"
        build = "1s"
        squish = "1s"
        pages = "base"
    "#;
    for (seconds, a_vertex) in
        [(1, 8 * 16 + 4), (2, 8 * 16 + 4 + 8 + 8 + 8 * 16), (4, 8 + 8 * 16 + 8)]
    {
        let world = run(text, seconds);
        let used = world
            .tiers()
            .iter()
            .map(|(id, tier)| tier.capacity.0 - world.frames().free_bytes(id).0);
        assert_eq!(used.sum::<u64>() >> 20, a_vertex, "after {seconds} s");
    }
}

#[test]
fn an_unknown_knob_is_named() {
    let error = WorkloadEntry::find("gups").unwrap().program(&written("gups:hott=1GiB").unwrap());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("workload gups") && error.contains("hott"), "{error}");
    let scenario = Scenario::parse("f.toml", "sedonds = 3").unwrap_err().to_string();
    assert!(scenario.contains("f.toml") && scenario.contains("sedonds"), "{scenario}");
}

#[test]
fn invalid_workloads_are_refused_and_zero_threads_are_valid() {
    for (text, why) in [
        ("gups:threads=-1", "threads"),
        ("gups:set=0B,hot=0B", "hot"),
        ("gups:hot_share=1.5", "share"),
        ("antagonist:intensity=-1", "intensity"),
        ("antagonist:buffer=0B", "buffer"),
        ("liblinear:phase=0s", "phase"),
    ] {
        let table = written(text).unwrap();
        let scenario = Scenario { workload: vec![table], ..Scenario::default() };
        let error = scenario.arrivals().map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    let text = "seconds = 1\n[[workload]]\nkind = \"antagonist\"\nintensity = 0";
    let report = tierline_model::run::run(&Scenario::parse("0x", text).unwrap()).unwrap();
    assert_eq!(report.steady.programs[0].throughput.to_bits(), 0);
    let still = Scenario { interval: Some(Nanos::ZERO), ..Scenario::default() };
    assert!(still.world().is_err_and(|error| error.to_string().contains("interval")));
}

/// The scenarios that come with Tierline are valid and can be started.
#[test]
fn every_scenario_starts() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let mut folders = vec![std::path::PathBuf::from(folder)];
    let mut scenarios = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is = |name: &str| path.ends_with(name);
            if path.is_dir() && !is("machines") {
                folders.push(path);
                continue;
            }
            // Machines are no scenarios, and one scenario is there to be refused.
            if is("machines") || is("04-impossible-target.toml") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let mut scenario = Scenario::parse(&path.display().to_string(), &text).unwrap();
            scenario.seconds = 0.2;
            if scenario.machine.ends_with(".toml") {
                let file = path.parent().unwrap().join(&scenario.machine);
                scenario.machine_text = Some(std::fs::read_to_string(file).unwrap());
            }
            let report = tierline_model::run::run(&scenario).unwrap();
            assert!(!report.overall.programs.is_empty(), "{}", path.display());
            scenarios += 1;
        }
    }
    assert!(scenarios >= 4);
}
