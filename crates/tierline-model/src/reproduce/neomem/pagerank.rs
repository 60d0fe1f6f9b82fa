// SPDX-License-Identifier: Apache-2.0
//! The rows of PageRank.

use super::ORDER;
use super::setup::{App, BUILT, Bench, GENERATED, QUICKLY_BUILT, System, Varied};
use crate::reproduce::Lab;
use crate::reproduce::row::{Found, ROW, Row};

/// Table VI's columns.
const COLUMNS: [(System, bool); 4] =
    [(System::NeoMem, true), (System::Tpp, true), (System::NeoMem, false), (System::Tpp, false)];
/// GAPBS runs PageRank so many times.
const TRIALS: f64 = 16.0;
/// A trial of TPP in base pages, s (table VI).
const TRIAL: f64 = 3.32;

/// The rows.
pub const ROWS: &[Row] = &[
    Row {
        id: "N-F14",
        title: "PageRank: a dynamic threshold over 100, 200, 300, 400: above 1 (ours: over all iterations)",
        source: "NeoMem, figure 14",
        unit: "x",
        find: Some(thresholds),
        note: "as N-T6: nothing is promoted, whatever the threshold",
        ..ORDER
    },
    Row {
        id: "N-T6",
        title: "PageRank, total: NeoMem THP, TPP THP, NeoMem 4K, TPP 4K",
        source: "NeoMem, table VI",
        published: &[76.28, 105.31, 81.39, 99.39],
        unit: "s",
        find: Some(|lab| {
            COLUMNS
                .map(|column| times(lab, column))
                .map(|[a, b, c]| a + b + TRIALS * c)
                .to_vec()
                .into()
        }),
        note: "TPP in base pages is fitted, the others by their rates over its. Edges are drawn at random here, where the program streams them: no fast page is idle for long, the reclaimer finds nothing to demote, and while it iterates nothing is promoted",
        ..ROW
    },
    Row {
        id: "N-T6b",
        title: "of it generate, build, a trial, each for the four",
        source: "NeoMem, table VI",
        published: &[7.61, 10.96, 8.63, 10.67, 23.9, 36.9, 25.58, 35.67, 2.8, 3.59, 2.95, 3.32],
        unit: "s",
        find: Some(|lab| {
            let times = COLUMNS.map(|column| times(lab, column));
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
        note: "all memory is huge pages where any is; else as N-T6: what is promoted here is the sweep of the build",
        ..ROW
    },
];

fn bench(varied: Varied) -> Bench {
    Bench { varied, ..Bench::of(App::PageRank, System::NeoMem) }
}

/// The mean rate between two times of a run.
fn between(lab: &Lab, bench: Bench, from: f64, until: f64) -> f64 {
    let (mut sum, mut at) = (0.0, 0.0);
    for row in &lab.report(&bench).series {
        let program = row.means.programs.first();
        let within = row.seconds.min(until) - f64::max(at, from);
        sum += program.map_or(0.0, |program| program.throughput) * within.max(0.0);
        at = row.seconds;
    }
    (sum / (until - from)).max(1.0)
}

fn thresholds(lab: &Lab) -> Found {
    let iterations = |varied| {
        let bench = bench(varied);
        between(lab, bench, QUICKLY_BUILT.into(), bench.seconds().into())
    };
    let dynamic = iterations(Varied::Nothing);
    let fixed = [100, 200, 300, 400].map(Varied::Threshold);
    let ours = fixed.map(|varied| dynamic / iterations(varied)).to_vec();
    Found { holds: ours.iter().all(|&gain| gain > 1.0), ours }
}

fn whole((system, huge): (System, bool)) -> Bench {
    Bench { system, ..bench(Varied::Whole { huge }) }
}

/// Generation, build and a trial, s: as long as published for TPP in base pages, and for another by its rate over
/// that of TPP.
fn times(lab: &Lab, column: (System, bool)) -> [f64; 3] {
    let end = f64::from(whole(column).seconds());
    let phases =
        [(0.0, GENERATED, GENERATED), (GENERATED, BUILT, BUILT - GENERATED), (BUILT, end, TRIAL)];
    phases.map(|(from, until, published)| {
        let of = |column| between(lab, whole(column), from, until);
        published * of((System::Tpp, false)) / of(column)
    })
}

#[expect(clippy::cast_precision_loss, reason = "pages of one run")]
fn promoted(lab: &Lab) -> Found {
    let of = |column| lab.report(&whole(column)).moves.promoted_pages as f64 * 4096e-9;
    let [neomem_huge, tpp_huge, neomem, tpp] = COLUMNS.map(of);
    vec![0.0, 0.0, neomem, tpp, neomem_huge, tpp_huge].into()
}
