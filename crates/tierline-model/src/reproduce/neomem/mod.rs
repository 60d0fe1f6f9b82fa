// SPDX-License-Identifier: Apache-2.0
//! NeoMem (MICRO 2024), evaluation: what can be computed with stand-ins for its programs. The rest is in
//! [`super::later`].
//!
//! Runs are simulated until a system has settled, and what holds then is taken to hold for the rest of a program's time.

pub mod figures;
mod pagerank;
mod rows;
pub mod setup;

use super::lab::Lab;
use super::row::{Kind, ROW, Row, Test};
use crate::report::Means;
use setup::{APPS, App, Bench, System, Varied};

/// The rows, in the paper's order.
pub const ROWS: &[&[Row]] = &[rows::ROWS, pagerank::ROWS];

const ORDER: Row = Row { kind: Kind::Order, test: Test::Own, ..ROW };
/// One load in so many misses (the artifact's baseline; table V: 200 to 5000).
const PEBS: System = System::Pebs(997);
/// The five baselines (VI-A).
const BASELINES: [System; 5] =
    [PEBS, System::PteScan, System::AutoNuma, System::Tpp, System::FirstTouch];
/// As fast as another: within the 3 % that fitted rows promise.
const ALIKE: f64 = 0.97;

/// A mean over all of the program's time: what was simulated, and the rest as it was at last.
fn mean(lab: &Lab, bench: Bench, of: impl Fn(&Means) -> f64) -> f64 {
    let report = lab.report(&bench);
    let [all, simulated] = [f64::from(bench.length()), report.seconds];
    let rest = (all - simulated).max(0.0);
    (simulated * of(&report.overall) + rest * of(&report.steady)) / (simulated + rest)
}

/// Operations a second; of PageRank, whose parts differ in what they do, how much of all of it.
fn speed(lab: &Lab, bench: Bench) -> f64 {
    if bench.app == App::PageRank {
        return 1.0 / pagerank::total(lab, bench);
    }
    mean(lab, bench, |means| means.programs.first().map_or(1.0, |program| program.throughput))
}

/// A system's speed over another's.
fn over(lab: &Lab, bench: Bench, system: System) -> f64 {
    speed(lab, bench) / speed(lab, Bench { system, ..bench })
}

/// NeoMem's speed over another's on all programs.
fn gains(lab: &Lab, system: System) -> Vec<f64> {
    APPS.map(|app| over(lab, Bench::of(app, System::NeoMem), system)).to_vec()
}

fn gups(system: System) -> Bench {
    Bench::of(App::Gups, system)
}

/// GUPS' updates a second in its first minute, in 10⁹: getting there counts.
fn first_minute(lab: &Lab, varied: Varied) -> f64 {
    let report = lab.report(&Bench { varied, ..gups(System::NeoMem) });
    report.overall.programs.first().map_or(1.0, |program| program.throughput * 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bench_is_a_scenario() {
        for app in APPS {
            for system in BASELINES.into_iter().chain([System::NeoMem, System::Memtis]) {
                let bench = Bench::of(app, system);
                bench.scenario().unwrap().world().unwrap();
                assert!(bench.seconds() <= bench.length());
            }
        }
        let varied =
            [Varied::Threshold(100), Varied::AllFast(true), Varied::Sampled(10), Varied::Huge];
        for varied in varied {
            let bench = Bench { varied, ..Bench::of(App::PageRank, System::NeoMem) };
            bench.scenario().unwrap().world().unwrap();
        }
    }
}
