// SPDX-License-Identifier: Apache-2.0
//! Figure 19 and section 6.3: beside NUMA balancing, AutoTiering and TMO.

use super::setup::{App, Local, Run};
use super::{
    AUTOTIERING, BALANCING, TPP, count, known, local, moves, over, reclaim_rate, throughput,
};
use crate::reproduce::Lab;
use crate::reproduce::row::{Found, Kind, ROW, Row, Test};
use App::{Cache1, Warehouse, Web1};
use Local::{Fifth, TwoThirds};

/// The rows.
pub const ROWS: &[Row] = &[
    Row {
        id: "T-F19-Web1",
        title: "NUMA balancing: local accesses, throughput lost; reclaim and promotion slower than TPP's by",
        source: "TPP, figure 19a and 6.3.1",
        published: &[20.0, 17.2, 42.0, 11.0],
        unit: "%; x",
        find: Some(balancing_web),
        ..ROW
    },
    Row {
        id: "T-F19-AT",
        title: "AutoTiering, Web1: accesses to CXL memory, throughput lost",
        source: "TPP, 6.3.1",
        published: &[70.0, 13.0],
        unit: "%",
        find: Some(|lab| {
            let Some(system) = known(AUTOTIERING) else { return Found::default() };
            let run = Run::of(Web1, TwoThirds, system);
            vec![100.0 - local(lab, run), 100.0 - throughput(lab, run)].into()
        }),
        ..ROW
    },
    Row {
        id: "T-F19-Cache1",
        title: "NUMA balancing at 1:4: local accesses, throughput lost; TPP at 1:4 over AutoTiering at 2:1: local accesses, throughput",
        source: "TPP, figure 19b and 6.3.1",
        published: &[46.0, 10.0, 10.0, 7.0],
        unit: "%",
        find: Some(cache1),
        ..ROW
    },
    Row {
        id: "T-S632",
        title: "CXL memory in use, TPP: Web1, Cache1, Data Warehouse",
        source: "TPP, 6.3.2",
        published: &[83.0, 92.0, 87.0],
        unit: "%",
        find: Some(|lab| {
            [Web1, Cache1, Warehouse]
                .map(|app| cxl_used(lab, Run::of(app, TwoThirds, TPP)))
                .to_vec()
                .into()
        }),
        ..ROW
    },
    Row {
        id: "T-S632-TMO",
        title: "CXL memory in use as TMO's swap device: Web1, Cache1, Data Warehouse",
        source: "TPP, 6.3.2",
        published: &[45.0, 61.0, 7.0],
        unit: "%",
        kind: Kind::NotYet,
        ..ROW
    },
    Row {
        id: "T-T3/T4",
        title: "TMO with TPP: failures, CXL traffic, stall, memory saved, each before and after",
        source: "TPP, tables 3 and 4",
        published: &[20.0, 5.0, 3.1, 2.7, 70.0, 40.0, 13.5, 16.5],
        kind: Kind::NotYet,
        ..ROW
    },
    Row {
        id: "T-counters",
        title: "every attempt to promote is a success or has a cause, in every set-up of table 1",
        source: "TPP, 5.5",
        kind: Kind::Order,
        test: Test::Own,
        find: Some(counters),
        ..ROW
    },
];

fn balancing_web(lab: &Lab) -> Found {
    let Some(system) = known(BALANCING) else { return Found::default() };
    let [balancing, tpp] = [system, TPP].map(|system| Run::of(Web1, TwoThirds, system));
    let promoted = |run| count(moves(lab, run).tiering.promoted());
    vec![
        local(lab, balancing),
        100.0 - throughput(lab, balancing),
        over(reclaim_rate(lab, tpp), reclaim_rate(lab, balancing)),
        over(promoted(tpp), promoted(balancing)),
    ]
    .into()
}

fn cache1(lab: &Lab) -> Found {
    let Some(balancing) = known(BALANCING) else { return Found::default() };
    let balancing = Run::of(Cache1, Fifth, balancing);
    let mut ours = vec![local(lab, balancing), 100.0 - throughput(lab, balancing)];
    if let Some(autotiering) = known(AUTOTIERING) {
        let autotiering = Run::of(Cache1, TwoThirds, autotiering);
        let tpp = Run::of(Cache1, Fifth, TPP);
        ours.push(local(lab, tpp) - local(lab, autotiering));
        ours.push(throughput(lab, tpp) - throughput(lab, autotiering));
    }
    ours.into()
}

/// Of CXL memory, what is not free, %.
#[expect(clippy::cast_precision_loss, reason = "the bytes of one machine")]
fn cxl_used(lab: &Lab, run: Run) -> f64 {
    let report = lab.report(&run);
    let free = report.steady.tiers.get(1).map_or(0.0, |tier| tier.free_bytes.0 as f64);
    100.0 * (1.0 - free / f64::from(32 << 10) / f64::from(1 << 20))
}

fn counters(lab: &Lab) -> Found {
    let holds = super::SETUPS.into_iter().all(|(app, local)| {
        let c = moves(lab, Run::of(app, local, TPP)).tiering;
        let failed = c.promote_fail_low_memory
            + c.promote_fail_system_low
            + c.promote_fail_references
            + c.promote_fail_gone;
        // What the budget cut is tried again at the next fault, and counted then.
        c.promoted() + failed <= c.promote_tried && c.promote_tried <= c.promote_candidate
    });
    Found { ours: Vec::new(), holds }
}
