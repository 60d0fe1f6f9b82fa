// SPDX-License-Identifier: Apache-2.0
//! NeoMem (MICRO 2024), evaluation: the figures that can be computed with stand-ins for its programs.
//!
//! Runs are simulated until the steady state, which is extrapolated to the rest of a program's time.

mod figures;
mod pagerank;
mod rows;
pub mod setup;

use super::Experiment;
use super::Paper;
use super::lab::Lab;
use crate::report::Means;
use setup::{APPS, App, System, bench_at};

/// The paper.
pub const PAPER: Paper = Paper {
    prefix: "N-",
    name: "NeoMem (MICRO 2024)",
    about: "A device that counts accesses; with stand-ins for its programs.",
    rows: &[rows::ROWS, pagerank::ROWS],
    charts: Some(figures::charts),
    tables: None,
};

/// Sampling period in misses (the artifact's baseline; table V: 200 to 5000).
const PEBS: System = System::Pebs(997);
/// The five baselines (VI-A).
const BASELINES: [System; 5] =
    [PEBS, System::PteScan, System::AutoNuma, System::Tpp, System::FirstTouch];
/// Relative distance within which speeds are equal: the 3 % of fitted rows.
const ALIKE: f64 = 0.97;

/// A mean over a program's whole time: the simulated part, and the rest as at its end.
fn mean(lab: &Lab, app: App, bench: &Experiment, of: impl Fn(&Means) -> f64) -> f64 {
    let report = lab.report(bench);
    let [all, simulated] = [f64::from(app.length()), report.seconds];
    let rest = (all - simulated).max(0.0);
    (simulated * of(&report.overall) + rest * of(&report.steady)) / (simulated + rest)
}

/// Operations per second; for PageRank, whose parts differ, the share of the whole program per second.
fn speed(lab: &Lab, app: App, bench: &Experiment) -> f64 {
    if app == App::PageRank {
        return 1.0 / pagerank::total(lab, bench);
    }
    mean(lab, app, bench, |means| means.programs.first().map_or(1.0, |program| program.throughput))
}

/// NeoMem's speed divided by another's.
fn over(lab: &Lab, app: App, system: System) -> f64 {
    over_at(lab, app, system, 2)
}

/// NeoMem's speed divided by another's at a ratio of slow to fast memory.
fn over_at(lab: &Lab, app: App, system: System, ratio: u8) -> f64 {
    let of = |system| speed(lab, app, &bench_at(app, system, ratio));
    of(System::NeoMem) / of(system)
}

/// NeoMem's speed divided by another's, for all programs.
fn gains(lab: &Lab, system: System) -> Vec<f64> {
    APPS.map(|app| over(lab, app, system)).to_vec()
}

/// GUPS' updates per second in its first minute, in 10⁹, including convergence.
fn first_minute(lab: &Lab, gups: &Experiment) -> f64 {
    let report = lab.report(gups);
    report.overall.programs.first().map_or(1.0, |program| program.throughput * 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bench_is_a_scenario() {
        for app in APPS {
            for system in BASELINES.into_iter().chain([System::NeoMem, System::Memtis]) {
                let bench = setup::bench(app, system);
                bench.scenario().unwrap().world().unwrap();
                assert!(bench.seconds() <= app.length().into());
            }
        }
        for varied in [setup::threshold(100), setup::sketch(15, 2), setup::jump(System::Tpp)] {
            varied.scenario().unwrap().world().unwrap();
        }
    }
}
