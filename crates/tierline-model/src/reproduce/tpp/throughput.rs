// SPDX-License-Identifier: Apache-2.0
//! Table 1 and what the abstract makes of it.

use super::setup::{App, LINUX, Local, Run};
use super::{AUTOTIERING, BALANCING, SETUPS, TPP, known, sorted, throughput};
use crate::reproduce::Lab;
use crate::reproduce::row::{Found, Kind, ROW, Row, Test};
use App::{Cache1, Cache2, Warehouse, Web1};
use Local::{Fifth, TwoThirds};

const TABLE_1: &str = "TPP, table 1";
const TITLE: &str = "throughput of all local: Linux, TPP, NUMA balancing, AutoTiering";

/// The rows.
pub const ROWS: &[Row] = &[
    Row {
        id: "T-T1-Web1-21",
        published: &[83.5, 99.5, 82.8, 87.0],
        find: Some(|lab| table(lab, Web1, TwoThirds)),
        note: "think time is fitted to the first figure",
        ..TABLE
    },
    Row {
        id: "T-T1-Cache1-21",
        published: &[97.0, 99.9, 93.7, 92.5],
        find: Some(|lab| table(lab, Cache1, TwoThirds)),
        ..TABLE
    },
    Row {
        id: "T-T1-Cache1-14",
        published: &[86.0, 99.5, 90.0],
        find: Some(|lab| table(lab, Cache1, Fifth)),
        ..TABLE
    },
    Row {
        id: "T-T1-Cache2-21",
        published: &[98.0, 99.6, 94.2, 94.6],
        find: Some(|lab| table(lab, Cache2, TwoThirds)),
        note: "how much of a file's latency prefetching hides is fitted to the first figure",
        ..TABLE
    },
    Row {
        id: "T-T1-Cache2-14",
        published: &[82.0, 95.0, 78.0],
        find: Some(|lab| table(lab, Cache2, Fifth)),
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
        title: "table 1: TPP above Linux, and above the others, everywhere",
        source: TABLE_1,
        kind: Kind::Order,
        test: Test::Own,
        find: Some(order),
        ..ROW
    },
    Row {
        id: "T-head",
        title: "TPP over Linux, up to; below all local, by no more than, but for Cache2 at 1:4",
        source: "TPP, abstract",
        published: &[18.0, 1.0],
        unit: "%",
        test: Test::Within(5.0),
        find: Some(head),
        ..ROW
    },
    Row {
        id: "T-head-others",
        title: "TPP over NUMA balancing and AutoTiering: least, most",
        source: "TPP, abstract",
        published: &[5.0, 17.0],
        unit: "%",
        test: Test::Within(5.0),
        find: Some(over_others),
        ..ROW
    },
    Row {
        id: "T-mig",
        title: "moved in the steady state under TPP at 2:1, least and most of the programs",
        source: "TPP, 7",
        published: &[4.0, 16.0],
        unit: "MB/s",
        find: Some(steady_moves),
        note: "follows from how much memory is touched once in minutes, which was not published",
        ..ROW
    },
];

const TABLE: Row = Row { title: TITLE, source: TABLE_1, unit: "%", ..ROW };

/// Linux and TPP, and the others in their order as far as they are there.
fn table(lab: &Lab, app: App, local: Local) -> Found {
    let systems = [Some(LINUX), Some(TPP), known(BALANCING), known(AUTOTIERING)];
    let there = systems.into_iter().map_while(|system| system);
    there.map(|system| throughput(lab, Run::of(app, local, system))).collect::<Vec<_>>().into()
}

fn order(lab: &Lab) -> Found {
    let holds = SETUPS.into_iter().all(|(app, local)| {
        let of = |system| throughput(lab, Run::of(app, local, system));
        let others = [Some(LINUX), known(BALANCING), known(AUTOTIERING)];
        // As good as equal is not below.
        others.into_iter().flatten().all(|other| of(TPP) > of(other) - 0.1)
    });
    Found { ours: Vec::new(), holds }
}

fn gains<'a>(lab: &'a Lab, other: &'static str) -> impl Iterator<Item = f64> + 'a {
    SETUPS.into_iter().map(move |(app, local)| {
        let of = |system| throughput(lab, Run::of(app, local, system));
        100.0 * (of(TPP) / of(other) - 1.0)
    })
}

fn head(lab: &Lab) -> Found {
    let up_to = gains(lab, LINUX).fold(0.0, f64::max);
    let gap = SETUPS
        .into_iter()
        .filter(|setup| *setup != (Cache2, Fifth))
        .map(|(app, local)| 100.0 - throughput(lab, Run::of(app, local, TPP)))
        .fold(0.0, f64::max);
    vec![up_to, gap].into()
}

fn over_others(lab: &Lab) -> Found {
    let there: Vec<&str> = [BALANCING, AUTOTIERING].into_iter().filter_map(known).collect();
    let gains = there.into_iter().flat_map(|other| gains(lab, other));
    let [least, most] =
        gains.fold([f64::INFINITY, 0.0], |[least, most], x: f64| [least.min(x), most.max(x)]);
    if most > 0.0 { vec![least, most].into() } else { Found::default() }
}

fn steady_moves(lab: &Lab) -> Found {
    let moved = SETUPS.into_iter().filter(|setup| setup.1 == TwoThirds).map(|(app, local)| {
        let run = Run::of(app, local, TPP);
        let moved = sorted(lab, run, |means| {
            means.promoted_bytes_per_second + means.demoted_bytes_per_second
        });
        super::mean(&moved) * 1e-6
    });
    let [least, most] =
        moved.fold([f64::INFINITY, 0.0], |[least, most], x| [least.min(x), most.max(x)]);
    vec![least, most].into()
}
