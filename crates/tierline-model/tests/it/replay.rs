// SPDX-License-Identifier: Apache-2.0
//! Replay of a recorded program in closed loop.

use std::sync::Arc;

use tierline_core::port::{PageSize, World};
use tierline_core::unit::{Bytes, Nanos};
use tierline_model::report::Report;
use tierline_model::run::run;
use tierline_model::scenario::{Scenario, Traces};
use tierline_model::workload::list::written;
use tierline_model::workload::replay::{Epochs, Recorded, Recording};

/// A recording in memory.
struct Memory {
    pages: u32,
    epochs: Vec<Recorded>,
}

struct Next(Vec<Recorded>);

impl Recording for Memory {
    fn pages(&self, _: PageSize) -> u32 {
        self.pages
    }
    fn size(&self) -> PageSize {
        PageSize::Base
    }
    fn open(&self, _: PageSize) -> Box<dyn Epochs> {
        Box::new(Next(self.epochs.iter().rev().cloned().collect()))
    }
}

impl Epochs for Next {
    fn next(&mut self, epoch: &mut Recorded) -> bool {
        self.0.pop().is_some_and(|next| {
            *epoch = next;
            true
        })
    }
}

/// Half of the pages get nine tenths of the reads; in the next epoch the other half.
fn swap(counted: bool) -> Memory {
    let half = |hot: u32| {
        let count = |page: u32| if page / 1000 == hot { 90.0 } else { 10.0 };
        let pages = (0..2000).map(|page| (page, count(page), 0.0)).collect();
        Recorded { ns: 20e6, counted, pages }
    };
    let idle = Recorded { ns: 10e6, counted, pages: Vec::new() };
    Memory { pages: 2000, epochs: vec![half(0), idle, half(1)] }
}

fn scenario(memory: Memory, workloads: &[&str]) -> Scenario {
    let mut traces = Traces::default();
    traces.0.insert("t".into(), Arc::new(memory));
    Scenario {
        policy: "first-touch".into(),
        seconds: 5.0,
        workload: workloads.iter().map(|text| written(text).unwrap()).collect(),
        traces,
        ..Scenario::default()
    }
}

fn throughput(report: &Report) -> f64 {
    report.overall.programs[0].throughput
}

/// 200,000 accesses in 50 ms. On idle fast memory a trace takes its recorded time, including its idle epoch.
#[test]
fn fast_memory_takes_the_recorded_time() {
    let report = run(&scenario(swap(true), &["trace:t"])).unwrap();
    assert!((throughput(&report) - 1.0).abs() < 0.01, "{}", throughput(&report));
    let lines = report.overall.programs[0].bytes_per_second / 64.0;
    assert!((lines / (200_000.0 / 0.05) - 1.0).abs() < 0.01, "{lines}");
    assert_eq!(report.overall.programs[0].shares[0], 1.0);
}

/// Epochs without a length and without accesses take a little time, so that the clock goes on.
#[test]
fn a_trace_of_empty_epochs_without_a_length_ends() {
    let empty = Recorded { ns: 0.0, counted: true, pages: Vec::new() };
    let memory = Memory { pages: 1, epochs: vec![empty.clone(), empty] };
    let short = Scenario { seconds: 0.01, ..scenario(memory, &["trace:t"]) };
    assert_eq!(throughput(&run(&short).unwrap()).max(1.0), 1.0);
}

/// In the closed loop, a read from the slow tier takes longer by the difference of latencies: 200,000 reads,
/// one in flight, in addition to the recorded 50 ms.
#[test]
fn slow_memory_takes_longer_by_its_latency() {
    let slow = Scenario {
        fast_capacity: Some(Bytes::from_base_pages(1)),
        ..scenario(swap(true), &["trace:t"])
    };
    let tiers = slow.machine().unwrap().describe();
    let [a, b] = [0, 1].map(|at| tiers.0[at].latency.unwrap().as_secs_f64());
    let expected = 0.05 / (0.05 + 200_000.0 * (b - a));
    let slow = run(&slow).unwrap();
    assert!((throughput(&slow) / expected - 1.0).abs() < 0.02, "{} {expected}", throughput(&slow));
}

/// Other programs slow a trace down, and several run at once.
#[test]
fn a_loaded_machine_slows_a_trace_down() {
    let alone = run(&scenario(swap(true), &["trace:t"])).unwrap();
    let beside =
        run(&scenario(swap(true), &["trace:t", "antagonist:intensity=3", "trace:t,in_flight=4"]));
    let beside = beside.unwrap();
    assert_eq!(beside.overall.programs.len(), 3);
    assert!(throughput(&beside) < 0.9 * throughput(&alone), "{beside:?}");
}

/// A trace of touched pages has the amount of work that `bound` implies.
#[test]
fn the_work_of_a_trace_of_touched_pages_is_estimated() {
    let report = run(&scenario(swap(false), &["trace:t,bound=0.25,in_flight=2"])).unwrap();
    let machine = scenario(swap(false), &[]).machine().unwrap();
    let latency = machine.describe().0[0].latency.unwrap().as_secs_f64();
    let expected = 0.25 * 2.0 / latency * 0.04 / 0.05;
    let lines = report.overall.programs[0].bytes_per_second / 64.0;
    assert!((lines / expected - 1.0).abs() < 0.01, "{lines} {expected}");
}

/// Accounts are consistent at every epoch, pages are allocated at their first access, and the seed determines
/// the run.
#[test]
fn accounts_are_consistent_and_pages_are_allocated_when_touched() {
    let late = Recorded { ns: 20e6, counted: true, pages: vec![(7, 9.0, 1.0)] };
    let first = Recorded { ns: 20e6, counted: true, pages: vec![(3, 5.0, 0.0), (4, 5.0, 0.0)] };
    let memory = Memory { pages: 9, epochs: vec![first, late] };
    let mut world = scenario(memory, &["trace:t"]).world().unwrap();
    let placed = |world: &tierline_model::world::ModelWorld| {
        (0..9).filter(|&page| world.jobs()[0].tier(page).is_some()).collect::<Vec<_>>()
    };
    let mut seen = Default::default();
    world.observe(Nanos::from_millis(1), &mut seen);
    assert_eq!(placed(&world), [3, 4]);
    for ms in 2..100 {
        world.observe(Nanos::from_millis(ms), &mut seen);
        world.check();
    }
    assert_eq!(placed(&world), [3, 4, 7]);
}

#[test]
fn same_seed_same_fingerprint() {
    let policy = |seed| {
        let scenario = Scenario {
            policy: "tierline".into(),
            fast_capacity: Some(Bytes::from_base_pages(1200)),
            seed,
            ..scenario(swap(true), &["trace:t"])
        };
        run(&scenario).unwrap().fingerprint
    };
    assert_eq!(policy(3), policy(3));
}

#[test]
fn a_missing_trace_is_named() {
    let error = run(&scenario(swap(true), &["trace:other"])).unwrap_err().to_string();
    assert!(error.contains("trace") && error.contains("other"), "{error}");
}
