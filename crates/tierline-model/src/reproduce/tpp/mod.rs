// SPDX-License-Identifier: Apache-2.0
//! TPP (ASPLOS'23), evaluation: every figure, computed with programs reconstructed from published facts on Meta's
//! ([`crate::workload::datacenter`]).
//!
//! The default kernel is the policy `paging`. NUMA balancing is the version of that time, which migrates at the first
//! fault. AutoTiering demotes in the background and keeps a reserve, as the paper describes it.

mod components;
mod figures;
mod others;
mod placement;
mod profiler;
pub mod setup;
mod throughput;

use super::Experiment;
use super::Paper;
use super::lab::Lab;
use crate::report::{MemoryMeans, Moves};
use setup::{App, Local, run};

/// The paper.
pub const PAPER: Paper = Paper {
    prefix: "T-",
    name: "TPP (ASPLOS 2023)",
    about: "Promotion at the second touch and early demotion, in the kernel; with programs reconstructed from published facts on Meta's.",
    rows: &[throughput::ROWS, placement::ROWS, components::ROWS, others::ROWS, profiler::ROWS],
    charts: Some(figures::charts),
    tables: None,
};

const TPP: &str = "tpp";

/// NUMA balancing of kernels before 5.18.
fn balancing(app: App, local: Local) -> Experiment {
    run(app, local, "autonuma").knob("two_faults", false)
}

/// AutoTiering, with its reserve (6.3.1).
fn autotiering(app: App, local: Local) -> Experiment {
    run(app, local, "autotiering").knob("background_demotion", true)
}

/// Throughput, % of that with all memory local.
fn throughput(lab: &Lab, run: &Experiment) -> f64 {
    let rate = |run: &Experiment| lab.program(run).throughput;
    100.0 * rate(run) / rate(&run.baseline())
}

/// Share of accesses served by local memory, %.
fn local(lab: &Lab, run: &Experiment) -> f64 {
    100.0 * lab.program(run).shares[0]
}

/// Share of a part of a program's memory that is local, %.
fn resident(
    lab: &Lab,
    run: &Experiment,
    of: impl Fn(&MemoryMeans) -> bool,
    bytes: impl Fn(&MemoryMeans) -> Vec<f64>,
) -> f64 {
    let parts = || lab.program(run).memory.iter().filter(|part| of(part)).map(&bytes);
    let here: f64 = parts().filter_map(|bytes| bytes.first().copied()).sum();
    let all: f64 = parts().flatten().sum();
    if all > 0.0 { 100.0 * here / all } else { 0.0 }
}

/// Private memory, without short-lived pages.
fn is_anon(part: &MemoryMeans) -> bool {
    part.name.starts_with("anon")
}

#[expect(clippy::cast_precision_loss, reason = "the bytes of one machine")]
fn all_bytes(part: &MemoryMeans) -> Vec<f64> {
    part.bytes.iter().map(|bytes| bytes.0 as f64).collect()
}

#[expect(clippy::cast_precision_loss, reason = "the bytes of one machine")]
fn hot_bytes(part: &MemoryMeans) -> Vec<f64> {
    part.hot_bytes.iter().map(|bytes| bytes.0 as f64).collect()
}

/// Counters of tiering in a run.
fn moves<'a>(lab: &'a Lab, run: &Experiment) -> &'a Moves {
    &lab.report(run).moves
}

/// A count of pages.
#[expect(clippy::cast_precision_loss, reason = "pages of one run")]
fn count(pages: u64) -> f64 {
    pages as f64
}

/// A ratio; 0 if the denominator is 0.
fn over(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

/// Local pages freed per second of the reclaimer's time, by moving or by paging out.
fn reclaim_rate(lab: &Lab, run: &Experiment) -> f64 {
    let moves = moves(lab, run);
    let moved = count(moves.promoted_pages + moves.demoted_pages);
    match moves.tiering.page_out_file {
        0 => over(moved, moves.mover_seconds),
        out => over(count(out), moves.paging_seconds),
    }
}

/// One value per second of the last three quarters of a run, sorted.
fn sorted(lab: &Lab, run: &Experiment, of: impl Fn(&crate::report::Means) -> f64) -> Vec<f64> {
    let series = &lab.report(run).series;
    let from = series.last().map_or(0.0, |row| row.seconds) * 0.25;
    let late = series.iter().filter(|row| row.seconds >= from);
    let mut values: Vec<f64> = late.map(|row| of(&row.means)).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// A percentile of sorted values.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let at = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(at).copied().unwrap_or(0.0)
}

/// Every program and ratio of table 1.
const SETUPS: [(App, Local); 6] = [
    (App::Web1, Local::TwoThirds),
    (App::Cache1, Local::TwoThirds),
    (App::Cache1, Local::Fifth),
    (App::Cache2, Local::TwoThirds),
    (App::Cache2, Local::Fifth),
    (App::Warehouse, Local::TwoThirds),
];
