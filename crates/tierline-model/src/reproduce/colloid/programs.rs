// SPDX-License-Identifier: Apache-2.0
//! Figure 11 with the most similar workloads of the model; the costs and parameters of Colloid.

use tierline_core::policy::entry::PolicyEntry;

use super::setup::{App, cachelib, gups, pagerank, silo};
use super::{SYSTEMS, gain, range};
use crate::reproduce::Experiment;
use crate::reproduce::lab::Lab;
use crate::reproduce::row::{Found, GIVEN, ORDER, ROW, Row, Test};

/// Cores of the testbed's socket.
const CORES: f64 = 32.0;
/// A gain below this is a loss.
const NO_LOSS: f64 = 0.97;
const OF_ORDER: &str = "the model's program only has cache misses, the real one also computes: only the ranking is compared";

/// The rows.
pub const ROWS: &[Row] = &[
    Row {
        id: "C-F11a",
        title: "GAPBS PageRank, gain, minimum and maximum of 0x to 3x: HeMem, TPP, MEMTIS",
        source: "Colloid, figure 11a",
        published: &[1.05, 1.92, 1.05, 1.48, 1.12, 2.12],
        unit: "x",
        find: Some(|lab| grows(lab, pagerank, &[0, 1, 2, 3])),
        note: OF_ORDER,
        ..ORDER
    },
    Row {
        id: "C-F11b",
        title: "Silo YCSB-C, gain, minimum and maximum of 2x to 3x: HeMem, TPP, MEMTIS",
        source: "Colloid, figure 11b",
        published: &[1.13, 1.25, 1.09, 1.17, 1.08, 1.17],
        unit: "x",
        find: Some(|lab| grows(lab, silo, &[2, 3])),
        note: OF_ORDER,
        ..ORDER
    },
    Row {
        id: "C-F11b-AE",
        title: "Silo YCSB-C, gain of TPP with huge pages at 0x, 1x, 2x, 3x",
        source: "Colloid, artifact",
        published: &[1.0, 1.027, 1.106, 1.185],
        unit: "x",
        find: Some(|lab| {
            let at = |x| gain(lab, &silo("tpp").beside(x));
            let ours: Vec<f64> = (0..=3).map(at).collect();
            Found { holds: rises(&ours), ours }
        }),
        note: OF_ORDER,
        ..ORDER
    },
    Row {
        id: "C-F11c",
        title: "CacheLib, gain, minimum and maximum of 2x to 3x: HeMem, TPP, MEMTIS",
        source: "Colloid, figure 11c",
        published: &[1.37, 1.74, 1.42, 1.79, 1.48, 1.93],
        unit: "x",
        find: Some(|lab| grows(lab, cachelib, &[2, 3])),
        note: OF_ORDER,
        ..ORDER
    },
    Row {
        id: "C-PAR",
        title: "epsilon, delta; quantum of HeMem and of MEMTIS, ms; HeMem's bins",
        source: "Colloid, 4 and 5",
        published: &[0.01, 0.05, 10.0, 500.0, 5.0],
        unit: "",
        find: Some(|_| parameters()),
        ..GIVEN
    },
    Row {
        id: "C-CPU",
        title: "CPU time of tracking and moving added by Colloid, maximum of 0x to 3x: HeMem, TPP, MEMTIS",
        source: "Colloid, 5.1",
        published: &[2.0, 6.5, 2.0],
        unit: "% at most",
        test: Test::AtMost,
        find: Some(|lab| {
            let most = |system| {
                let added = |x| overhead(lab, &gups(system).beside(x));
                (0..=3).map(added).fold(f64::NEG_INFINITY, f64::max)
            };
            SYSTEMS.into_iter().map(most).collect()
        }),
        note: "share of the socket's cores. Reading the counters and deciding take no simulated time, and no core polls",
        ..ROW
    },
];

/// Gains over `loads`. Holds if there is no loss without load and gains rise with load.
fn grows(lab: &Lab, app: App, loads: &[u8]) -> Found {
    let at = |system, x| gain(lab, &app(system).beside(x));
    let ours = SYSTEMS.into_iter().flat_map(|s| range(loads.iter().map(|&x| at(s, x))));
    let ours = ours.collect();
    let holds = SYSTEMS.into_iter().all(|system| {
        let gains: Vec<f64> = [0, 1, 2, 3].into_iter().map(|x| at(system, x)).collect();
        rises(&gains)
    });
    Found { ours, holds }
}

/// No loss at first, no decrease beyond noise, and a gain at the end.
fn rises(gains: &[f64]) -> bool {
    let first = gains.first().is_some_and(|&gain| gain >= NO_LOSS);
    let last = gains.last().is_some_and(|&gain| gain > 1.0);
    first && last && gains.windows(2).all(|pair| pair[1] >= pair[0] * NO_LOSS)
}

fn parameters() -> Found {
    let knob = |policy, name| {
        let knobs =
            PolicyEntry::find(policy).map(|entry| (entry.make)().knobs()).unwrap_or_default();
        knobs.iter().find(|knob| knob.name == name).map_or(f64::NAN, |knob| knob.default)
    };
    vec![
        knob("hemem+colloid", "epsilon"),
        knob("hemem+colloid", "delta"),
        knob("hemem+colloid", "quantum") * 1e3,
        knob("memtis+colloid", "quantum") * 1e3,
        f64::from(tierline_core::policy::hemem::BINS),
    ]
    .into()
}

/// CPU time added by Colloid, as a share of the socket's time, %.
fn overhead(lab: &Lab, without: &Experiment) -> f64 {
    let share = |of: &Experiment| {
        let report = lab.report(of);
        let busy = report.moves.mover_seconds + report.moves.tracker_seconds;
        100.0 * busy / (of.seconds() * CORES)
    };
    share(&without.with_colloid()) - share(without)
}
