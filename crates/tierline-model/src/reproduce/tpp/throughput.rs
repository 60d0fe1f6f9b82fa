// SPDX-License-Identifier: Apache-2.0
//! Table 1, and its summary in the abstract.

use super::setup::{App, LINUX, Local, run};
use super::{SETUPS, TPP, autotiering, balancing, sorted, throughput};
use crate::arithmetic::mean;
use crate::reproduce::row::{Found, Kind, ORDER, ROW, Row, Test};
use crate::reproduce::{Experiment, Lab};
use App::{Cache1, Cache2, Warehouse, Web1};
use Local::{Fifth, TwoThirds};

const TABLE_1: &str = "TPP, table 1";
const TITLE: &str =
    "throughput relative to all memory local: Linux, TPP, NUMA balancing, AutoTiering";

/// The rows.
pub const ROWS: &[Row] = &[
    Row {
        id: "T-T1-Web1-21",
        published: &[83.5, 99.5, 82.8, 87.0],
        kinds: FIRST_FITTED,
        find: Some(|lab| table(lab, Web1, TwoThirds)),
        note: "think time is fitted to the first figure; AutoTiering: see T-F19-AT",
        ..TABLE
    },
    Row {
        id: "T-T1-Cache1-21",
        published: &[97.0, 99.9, 93.7, 92.5],
        find: Some(|lab| table(lab, Cache1, TwoThirds)),
        note: "Linux leaves 7.5 % of hot memory in CXL memory, as published (T-F14-Cache1), which costs too little here; the distribution of accesses among kinds of memory was not published",
        ..TABLE
    },
    Row {
        id: "T-T1-Cache1-14",
        published: &[86.0, 99.5, 90.0],
        find: Some(|lab| table(lab, Cache1, Fifth)),
        note: "NUMA balancing: as T-F19-Cache1",
        ..TABLE
    },
    Row {
        id: "T-T1-Cache2-21",
        published: &[98.0, 99.6, 94.2, 94.6],
        kinds: FIRST_FITTED,
        find: Some(|lab| table(lab, Cache2, TwoThirds)),
        note: "the share of a file's latency hidden by prefetching is fitted to the first figure, which remains 1.3 points low",
        ..TABLE
    },
    Row {
        id: "T-T1-Cache2-14",
        published: &[82.0, 95.0, 78.0],
        find: Some(|lab| table(lab, Cache2, Fifth)),
        note: "here, memory that is not local costs too little, as in T-T1-Cache1-21",
        ..TABLE
    },
    Row {
        id: "T-T1-DW-21",
        published: &[99.3, 99.5],
        find: Some(|lab| table(lab, Warehouse, TwoThirds)),
        ..TABLE
    },
    Row {
        id: "T-T1-order",
        title: "table 1: TPP is above Linux and above the others, for all programs and ratios",
        source: TABLE_1,
        find: Some(order),
        ..ORDER
    },
    Row {
        id: "T-head",
        title: "TPP over Linux, maximum gain; TPP below all memory local, maximum loss",
        source: "TPP, abstract and table 1",
        published: &[18.0, 5.0],
        unit: "%",
        test: Test::Points,
        find: Some(head),
        note: "the abstract says \"ideal baseline (<1% gap)\", but Cache2 at 1:4 has 95 % in the paper's own table 1, which counts here",
        ..ROW
    },
    Row {
        id: "T-head-others",
        title: "TPP over NUMA balancing and AutoTiering: minimum, maximum",
        source: "TPP, abstract",
        published: &[5.0, 17.0],
        unit: "points",
        test: Test::Points,
        find: Some(over_others),
        note: "here, AutoTiering promotes nearly all hot memory: see T-F19-AT",
        ..ROW
    },
    Row {
        id: "T-mig",
        title: "moved in the steady state under TPP at 2:1, minimum and maximum of the programs",
        source: "TPP, 7",
        published: &[4.0, 16.0],
        unit: "MB/s",
        find: Some(steady_moves),
        note: "depends on the amount of memory accessed once in minutes, which was not published; the maximum is Cache2, whose hot memory is larger than local memory",
        ..ROW
    },
];

const TABLE: Row = Row { title: TITLE, source: TABLE_1, unit: "%", test: Test::Loss, ..ROW };
/// The program's think time was fitted to the first figure.
const FIRST_FITTED: &[Kind] = &[Kind::Fitted, Kind::Predicted];

/// Linux, TPP, and the other systems if published.
fn table(lab: &Lab, app: App, local: Local) -> Found {
    let both = [LINUX, TPP].map(|system| run(app, local, system));
    let runs = both.into_iter().chain(others(app, local));
    runs.map(|run| throughput(lab, &run)).collect()
}

/// Table 1 has neither system for Data Warehouse, and AutoTiering crashed at 1:4.
fn others(app: App, local: Local) -> Vec<Experiment> {
    let runs = [balancing(app, local), autotiering(app, local)];
    let count = match (app, local) {
        (Warehouse, _) => 0,
        (_, Fifth) => 1,
        _ => 2,
    };
    runs.into_iter().take(count).collect()
}

fn order(lab: &Lab) -> Found {
    let holds = SETUPS.into_iter().all(|(app, local)| {
        let tpp = throughput(lab, &run(app, local, TPP));
        let linux = run(app, local, LINUX);
        // Almost equal is not below.
        others(app, local).into_iter().chain([linux]).all(|run| tpp > throughput(lab, &run) - 0.1)
    });
    Found { ours: Vec::new(), holds }
}

fn head(lab: &Lab) -> Found {
    let gain = |(app, local)| {
        let of = |system| throughput(lab, &run(app, local, system));
        100.0 * (of(TPP) / of(LINUX) - 1.0)
    };
    let up_to = SETUPS.into_iter().map(gain).fold(0.0, f64::max);
    let gap = SETUPS
        .into_iter()
        .map(|(app, local)| 100.0 - throughput(lab, &run(app, local, TPP)))
        .fold(0.0, f64::max);
    vec![up_to, gap].into()
}

/// In points of table 1: the abstract's figures are differences of its entries.
fn over_others(lab: &Lab) -> Found {
    let gains = SETUPS.into_iter().flat_map(|(app, local)| {
        let tpp = throughput(lab, &run(app, local, TPP));
        others(app, local).into_iter().map(move |run| tpp - throughput(lab, &run))
    });
    let [least, most] =
        gains.fold([f64::INFINITY, 0.0], |[least, most], x: f64| [least.min(x), most.max(x)]);
    vec![least, most].into()
}

fn steady_moves(lab: &Lab) -> Found {
    let moved = SETUPS.into_iter().filter(|setup| setup.1 == TwoThirds).map(|(app, local)| {
        let moved = sorted(lab, &run(app, local, TPP), |means| {
            means.promoted_bytes_per_second + means.demoted_bytes_per_second
        });
        mean(&moved) * 1e-6
    });
    let [least, most] =
        moved.fold([f64::INFINITY, 0.0], |[least, most], x| [least.min(x), most.max(x)]);
    vec![least, most].into()
}
