// SPDX-License-Identifier: Apache-2.0
//! Figures 9 and 10: a new hot set, an antagonist that starts, and the amount of moves.

use super::setup::{change_seconds, gups};
use super::{SYSTEMS, best_gups};
use crate::reproduce::Experiment;
use crate::reproduce::lab::{Lab, program};
use crate::reproduce::row::{Found, ROW, Row, Test};

/// A throughput this close to the final one counts as equal.
const CLOSE: f64 = 0.05;
/// The last seconds, over which the final throughput is averaged.
const LAST_SECONDS: f64 = 20.0;

/// The rows.
pub const ROWS: &[Row] = &[
    Row {
        id: "C-F9-hot0x",
        title: "new hot set at 0x: HeMem+Colloid converges later than HeMem by",
        source: "Colloid, 5.2",
        published: &[3.0],
        unit: "s",
        find: Some(|lab| {
            let time = |policy| settles(lab, &gups(policy).jump());
            vec![time("hemem+colloid") - time("hemem")].into()
        }),
        note: "both take 5 to 6 s. Far from balance, Colloid selects pages from bins of few samples, sooner than HeMem with its eight; its limit slows it only within the last 3 % of throughput",
        ..ROW
    },
    Row {
        id: "C-F9-hot3x",
        title: "new hot set at 3x: HeMem and HeMem+Colloid converge within; MEMTIS+Colloid is not affected",
        source: "Colloid, 5.2",
        published: &[10.0, 10.0],
        unit: "s",
        test: Test::Own,
        find: Some(jump_under_load),
        note: "HeMem alone: loads are so slow that a hot page gets three samples per second, and counts as hot after eight; a tenth of the hot pages is still not promoted after 10 s",
        ..ROW
    },
    Row {
        id: "C-F9-cont",
        title: "antagonist of 3x starts: time until within 5 % of the final throughput, HeMem, TPP, MEMTIS with Colloid",
        source: "Colloid, 5.2",
        published: &[10.0, 250.0, 25.0],
        unit: "s",
        find: Some(|lab| {
            let time = |system| settles(lab, &contention(system).with_colloid());
            SYSTEMS.map(time).to_vec().into()
        }),
        note: "published figures are approximate, read off curves. HeMem: four copying threads (its public code) move 24 GB in 3 s; MEMTIS: one at 2 GB/s; TPP: passes of 60 s",
        ..ROW
    },
    Row {
        id: "C-F9-cont-best",
        title: "the final throughput, share of the best: HeMem, TPP, MEMTIS with Colloid",
        source: "Colloid, 5.2",
        published: &[97.0, 92.0, 87.0],
        unit: "% at least",
        test: Test::AtLeast,
        find: Some(|lab| {
            let last = |system| {
                let with = contention(system).with_colloid();
                100.0 * reached(lab, &with) / best_gups(lab, 3).1
            };
            SYSTEMS.map(last).to_vec().into()
        }),
        ..ROW
    },
    Row {
        id: "C-F10",
        title: "moves as a share of throughput: HeMem+Colloid in its steady state, peaks of TPP and MEMTIS",
        source: "Colloid, 5.2",
        published: &[0.7, 1.6, 4.5],
        unit: "% at most",
        test: Test::AtMost,
        find: Some(|lab| {
            let jump = |policy| gups(policy).jump();
            let steady = &jump("hemem+colloid");
            let means = &lab.report(steady).steady;
            let moved = means.promoted_bytes_per_second + means.demoted_bytes_per_second;
            let steady = 100.0 * moved / lab.rate(steady);
            vec![steady, peak(lab, &jump("tpp")), peak(lab, &jump("memtis"))].into()
        }),
        note: "the peak of MEMTIS is one second of a copying core at full speed, as its code does not limit the rate; the peak of TPP is one pass of its hint faults",
        ..ROW
    },
];

/// The antagonist starts in the steady state.
pub fn contention(system: &str) -> Experiment {
    gups(system).beside(3).contention()
}

/// Throughput per second.
pub fn series(lab: &Lab, of: &Experiment) -> Vec<(f64, f64)> {
    let rows = lab.report(of).series.iter();
    rows.filter_map(|row| Some((row.seconds, program(&row.means)?.bytes_per_second))).collect()
}

/// The mean throughput of the last seconds.
fn reached(lab: &Lab, of: &Experiment) -> f64 {
    let series = series(lab, of);
    let from = series.last().map_or(0.0, |last| last.0 - LAST_SECONDS);
    let last: Vec<f64> = series.iter().filter(|at| at.0 > from).map(|at| at.1).collect();
    let count = last.iter().map(|_| 1.0).sum::<f64>().max(1.0);
    last.iter().sum::<f64>() / count
}

/// Seconds from the change until throughput stays close to the final one.
fn settles(lab: &Lab, of: &Experiment) -> f64 {
    let (reached, change) = (reached(lab, of), f64::from(change_seconds(of)));
    let far = |at: &(f64, f64)| at.0 > change && (at.1 / reached - 1.0).abs() > CLOSE;
    series(lab, of).into_iter().filter(far).map(|at| at.0 - change).fold(0.0, f64::max)
}

/// Maximum of moves in a second after the change, as a share of throughput, %.
fn peak(lab: &Lab, of: &Experiment) -> f64 {
    let change = f64::from(change_seconds(of));
    let rows = lab.report(of).series.iter().filter(|row| row.seconds > change);
    let moved =
        rows.map(|row| row.means.promoted_bytes_per_second + row.means.demoted_bytes_per_second);
    100.0 * moved.fold(0.0, f64::max) / reached(lab, of)
}

fn jump_under_load(lab: &Lab) -> Found {
    let jump = |policy| gups(policy).beside(3).jump();
    let ours = ["hemem", "hemem+colloid"].map(|policy| settles(lab, &jump(policy))).to_vec();
    let calm = settles(lab, &jump("memtis+colloid")) <= 1.0;
    Found { holds: calm && ours.iter().all(|&seconds| seconds <= 10.0), ours }
}
