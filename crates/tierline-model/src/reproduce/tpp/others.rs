// SPDX-License-Identifier: Apache-2.0
//! Figure 19 and section 6.3: comparison with NUMA balancing, AutoTiering and TMO.

use tierline_core::port::PageKind;

use super::setup::{App, LINUX, Local, SECONDS, run};
use super::{
    TPP, all_bytes, autotiering, balancing, count, local, moves, over, reclaim_rate, throughput,
};
use crate::reproduce::row::{Found, ORDER, ROW, Row};
use crate::reproduce::{Experiment, Lab};
use App::{Cache1, Warehouse, Web1};
use Local::{Fifth, TwoThirds};

/// TMO's threshold, as a share of time (TMO, 3.3): `stall_threshold`.
const THRESHOLD: f64 = 0.001;
/// The rows.
pub const ROWS: &[Row] = &[
    Row {
        id: "T-F19-Web1",
        title: "NUMA balancing: local accesses, throughput lost; reclaim and promotion slower than TPP's by",
        source: "TPP, figure 19a and 6.3.1",
        published: &[20.0, 17.2, 42.0, 11.0],
        unit: "%; x",
        find: Some(balancing_web),
        note: "here, paging out makes some room, which NUMA balancing fills; this gains more than its faults cost. What else uses such room in the paper was not published. Under TPP nearly all hot memory was allocated locally and is never promoted; reclaim as T-F14-Web1-reclaim",
        ..ROW
    },
    Row {
        id: "T-F19-AT",
        title: "AutoTiering, Web1: accesses to CXL memory, throughput lost",
        source: "TPP, 6.3.1",
        published: &[70.0, 13.0],
        unit: "%",
        find: Some(|lab| {
            let run = autotiering(Web1, TwoThirds);
            vec![100.0 - local(lab, &run), 100.0 - throughput(lab, &run)].into()
        }),
        note: "new pages are slow until they fault, and all hot memory faults. Here, demotion refills the reserve as fast as a thread copies, so it is never empty for long; how long it was empty in the paper was not published",
        ..ROW
    },
    Row {
        id: "T-F19-Cache1",
        title: "NUMA balancing at 1:4: local accesses, throughput lost; TPP at 1:4 over AutoTiering at 2:1: local accesses, throughput",
        source: "TPP, figure 19b and 6.3.1",
        published: &[46.0, 10.0, 10.0, 7.0],
        unit: "%",
        find: Some(cache1),
        note: "at 1:4, local memory holds tmpfs and private pages, which cannot be paged out without swap, so nothing is promoted; AutoTiering as T-F19-AT",
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
                .map(|app| cxl_used(lab, &run(app, TwoThirds, TPP)))
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
        find: Some(|lab| [Web1, Cache1, Warehouse].map(|app| swapped(lab, app)).to_vec().into()),
        note: "programs as large as the local node, which is then all their memory (3.2); four hours of TMO. Files are dropped and need no swap, and two thirds of Web1 are files. In the paper, most of Data Warehouse's private memory is newly allocated within ten minutes (3.6), at unpublished rates; here it is allocated once, so most of it becomes cold",
        ..ROW
    },
    Row {
        id: "T-T3",
        title: "TMO above TPP, Web1: failed promotions, without and with TMO; accesses to CXL memory, without and with TMO",
        source: "TPP, table 3",
        published: &[20.0, 5.0, 3.1, 2.7],
        unit: "pages/s; %",
        find: Some(with_tmo),
        note: "here, 2 % of headroom is never used up, so no promotion fails without TMO either; and all hot memory is local",
        ..ROW
    },
    Row {
        id: "T-T4",
        title: "TMO alone and above TPP, Web1: stall over threshold, memory saved",
        source: "TPP, table 4",
        published: &[70.0, 40.0, 13.5, 16.5],
        unit: "%",
        find: Some(tmo_saves),
        note: "four hours. Alone, TMO takes pages of all memory; above TPP only those of CXL memory, a third of it. So above TPP it causes less pressure, as published, and also saves less; what limited TMO alone in the paper was not published",
        ..ROW
    },
    Row {
        id: "T-counters",
        title: "every attempt to promote succeeds or has a counted cause of failure, in every set-up of table 1",
        source: "TPP, 5.5",
        find: Some(counters),
        ..ORDER
    },
];

fn balancing_web(lab: &Lab) -> Found {
    let [balancing, tpp] = [balancing(Web1, TwoThirds), run(Web1, TwoThirds, TPP)];
    let promoted = |run: &Experiment| count(moves(lab, run).tiering.promoted());
    vec![
        local(lab, &balancing),
        100.0 - throughput(lab, &balancing),
        over(reclaim_rate(lab, &tpp), reclaim_rate(lab, &balancing)),
        over(promoted(&tpp), promoted(&balancing)),
    ]
    .into()
}

fn cache1(lab: &Lab) -> Found {
    let (balancing, autotiering) = (balancing(Cache1, Fifth), autotiering(Cache1, TwoThirds));
    let tpp = run(Cache1, Fifth, TPP);
    vec![
        local(lab, &balancing),
        100.0 - throughput(lab, &balancing),
        local(lab, &tpp) - local(lab, &autotiering),
        throughput(lab, &tpp) - throughput(lab, &autotiering),
    ]
    .into()
}

/// Failed promotions in base pages per second, and the remaining accesses to CXL memory.
fn with_tmo(lab: &Lab) -> Found {
    let both = [run(Web1, TwoThirds, TPP), run(Web1, TwoThirds, "tpp+tmo").knob("swap", true)];
    let fails = both
        .each_ref()
        .map(|run| count(moves(lab, run).tiering.promote_failed()) / f64::from(SECONDS));
    let cxl = both.map(|run| 100.0 - local(lab, &run));
    [fails, cxl].concat().into()
}

/// Time lost to page-ins relative to TMO's threshold; and the memory saved, as a share of the memory in use without TMO.
fn tmo_saves(lab: &Lab) -> Found {
    let pairs = [(LINUX, "paging+tmo"), (TPP, "tpp+tmo")].map(|(below, with)| {
        let run = |policy| run(Web1, TwoThirds, policy).for_hours();
        (run(below), run(with).knob("swap", true))
    });
    let stall = |tmo: &Experiment| 100.0 * lab.report(tmo).steady.page_in_stall / THRESHOLD;
    let stall = pairs.each_ref().map(|(_, tmo)| stall(tmo));
    let saved =
        pairs.map(|(without, tmo)| 100.0 * (1.0 - over(used(lab, &tmo), used(lab, &without))));
    [stall, saved].concat().into()
}

/// Memory in use, GiB of the 96.
#[expect(clippy::cast_precision_loss, reason = "the bytes of one machine")]
fn used(lab: &Lab, run: &Experiment) -> f64 {
    let tiers = &lab.report(run).steady.tiers;
    96.0 - tiers.iter().map(|tier| tier.free_bytes.0 as f64).sum::<f64>() / f64::from(1 << 30)
}

/// Share of CXL memory in use, %.
#[expect(clippy::cast_precision_loss, reason = "the bytes of one machine")]
fn cxl_used(lab: &Lab, run: &Experiment) -> f64 {
    let report = lab.report(run);
    let free = report.steady.tiers.get(1).map_or(0.0, |tier| tier.free_bytes.0 as f64);
    100.0 * (1.0 - free / f64::from(32 << 10) / f64::from(1 << 20))
}

/// Share of CXL memory, as a swap device, that four hours of TMO fill: paged-out private memory and tmpfs. Files are
/// dropped.
fn swapped(lab: &Lab, app: App) -> f64 {
    let there = |run: &Experiment| -> f64 {
        let parts = lab.program(run).memory.iter().filter(|part| part.kind != PageKind::File);
        parts.flat_map(all_bytes).sum()
    };
    let without = run(app, Local::Swap, LINUX);
    let with = run(app, Local::Swap, "paging+tmo").knob("swap", true).for_hours();
    100.0 * (there(&without) - there(&with)) / f64::from(32 << 10) / f64::from(1 << 20)
}

fn counters(lab: &Lab) -> Found {
    let holds = super::SETUPS.into_iter().all(|(app, local)| {
        let c = moves(lab, &run(app, local, TPP)).tiering;
        // Promotions cut by the budget are retried and counted at the next fault.
        c.promoted() + c.promote_failed() <= c.promote_tried
            && c.promote_tried <= c.promote_candidate
    });
    Found { ours: Vec::new(), holds }
}
