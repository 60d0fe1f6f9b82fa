// SPDX-License-Identifier: Apache-2.0
//! The rows of PageRank.

use tierline_core::unit::Nanos;

use super::setup::{App, System, bench, threshold};
use crate::reproduce::row::{Found, Kind, ORDER, ROW, Row};
use crate::reproduce::{Experiment, Lab};
use crate::workload::pagerank::PageRank;

/// Table VI's columns.
const COLUMNS: [(System, bool); 4] =
    [(System::NeoMem, true), (System::Tpp, true), (System::NeoMem, false), (System::Tpp, false)];
/// The last column, from which the others are computed.
const COLUMN_KINDS: [Kind; 4] = [Kind::Predicted, Kind::Predicted, Kind::Predicted, Kind::Given];
const COLUMN_KINDS_BY_PHASE: [[Kind; 4]; 3] = [COLUMN_KINDS; 3];
/// Number of PageRank trials in GAPBS.
const TRIALS: u8 = 16;
/// A trial of TPP in base pages, s (table VI).
const TRIAL: f64 = 3.32;

/// The rows.
pub const ROWS: &[Row] = &[
    Row {
        id: "N-F14",
        title: "PageRank: a dynamic threshold over 100, 200, 300, 400, minimum of 16 trials: above 1",
        source: "NeoMem, figure 14",
        unit: "x",
        find: Some(thresholds),
        note: "trials do not differ: with any threshold, the graph is built where the list was freed, in fast memory, and the rest of it is streamed, with hardly any waiting. While rows are filled, fixed thresholds promote three times as much",
        ..ORDER
    },
    Row {
        id: "N-T6",
        title: "PageRank, total: NeoMem THP, TPP THP, NeoMem 4K, TPP 4K",
        source: "NeoMem, table VI",
        published: &[76.28, 105.31, 81.39, 99.39],
        unit: "s",
        kinds: &COLUMN_KINDS,
        find: Some(|lab| COLUMNS.map(|at| total(lab, &column(at))).to_vec().into()),
        note: "TPP in base pages is given; the others are computed from their rates relative to it, part by part. The list fills fast memory, so the other data for building is in slow memory. NeoMem promotes it into the room of list pages that were already read. TPP promotes nothing, as it needs two faults a minute apart",
        ..ROW
    },
    Row {
        id: "N-T6b",
        title: "parts of it: generate, build, a trial, each for the four",
        source: "NeoMem, table VI",
        published: &[7.61, 10.96, 8.63, 10.67, 23.9, 36.9, 25.58, 35.67, 2.8, 3.59, 2.95, 3.32],
        unit: "s",
        kinds: COLUMN_KINDS_BY_PHASE.as_flattened(),
        find: Some(|lab| {
            let times = COLUMNS.map(|at| times(lab, &column(at)));
            (0..3).flat_map(|phase| times.map(|times| times[phase])).collect()
        }),
        note: "as N-T6",
        ..ROW
    },
    Row {
        id: "N-T6c",
        title: "promoted in base pages by the four; in huge pages by two",
        source: "NeoMem, table VI",
        published: &[11.53, 2.7, 14.9, 2.01, 7.02, 0.74],
        unit: "GB",
        find: Some(promoted),
        note: "in a run with huge pages, all memory is in huge pages. NeoMem promotes rows while they are filled and the graph during iterations, whole huge pages for one hot base page",
        ..ROW
    },
];

/// The mean rate between two times of a run.
fn between(lab: &Lab, bench: &Experiment, from: f64, until: f64) -> f64 {
    let (mut sum, mut at) = (0.0, 0.0);
    for row in &lab.report(bench).series {
        let program = row.means.programs.first();
        let within = row.seconds.min(until) - f64::max(at, from);
        sum += program.map_or(0.0, |program| program.throughput) * within.max(0.0);
        at = row.seconds;
    }
    (sum / (until - from)).max(1.0)
}

/// Minimum over trials of the dynamic threshold's gain over each fixed one.
fn thresholds(lab: &Lab) -> Found {
    let start = PageRank::default().ends().squished.as_secs_f64();
    let gain = |count| {
        let trial = |at: u8| {
            let [from, until] = [at, at + 1].map(|at| start + TRIAL * f64::from(at));
            let of = |bench| between(lab, &bench, from, until);
            of(bench(App::PageRank, System::NeoMem)) / of(threshold(count))
        };
        (0..TRIALS).map(trial).fold(f64::INFINITY, f64::min)
    };
    let ours = [100, 200, 300, 400].map(gain).to_vec();
    Found { holds: ours.iter().all(|&gain| gain > 1.0), ours }
}

fn column((system, huge): (System, bool)) -> Experiment {
    let base = bench(App::PageRank, system);
    if huge { base.with("pages", "huge") } else { base }
}

/// Generation, build and a trial, s. For TPP in base pages the published times; for others scaled by their rate relative
/// to TPP's, part by part.
fn times(lab: &Lab, run: &Experiment) -> [f64; 3] {
    let ends = PageRank::default().ends();
    let squished = ends.squished.as_secs_f64();
    let took = |from: f64, until: f64| {
        let of = |bench: &Experiment| between(lab, bench, from, until);
        (until - from) * of(&bench(App::PageRank, System::Tpp)) / of(run)
    };
    let parts = |ends: &[Nanos]| {
        let parts = ends.windows(2).map(|ends| took(ends[0].as_secs_f64(), ends[1].as_secs_f64()));
        parts.sum()
    };
    let trials = f64::from(TRIALS);
    [
        parts(&[Nanos::ZERO, ends.drawn, ends.shuffled, ends.generated]),
        parts(&[ends.generated, ends.counted, ends.built]),
        took(squished, squished + TRIAL * trials) / trials,
    ]
}

/// The whole program, s, without the parts that GAPBS does not time.
pub fn total(lab: &Lab, run: &Experiment) -> f64 {
    let [generate, build, trial] = times(lab, run);
    generate + build + f64::from(TRIALS) * trial
}

#[expect(clippy::cast_precision_loss, reason = "pages of one run")]
fn promoted(lab: &Lab) -> Found {
    let of = |at| lab.report(&column(at)).moves.promoted_pages as f64 * 4096e-9;
    let [neomem_huge, tpp_huge, neomem, tpp] = COLUMNS.map(of);
    vec![0.0, 0.0, neomem, tpp, neomem_huge, tpp_huge].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_as_long_as_all_its_trials() {
        let made = PageRank::default().ends().squished.as_secs_f64();
        let end = made + TRIAL * f64::from(TRIALS);
        assert!((0.0..1.0).contains(&(column(COLUMNS[0]).seconds() - end)), "{end}");
    }
}
