// SPDX-License-Identifier: Apache-2.0
//! Figures 14 to 16: accesses and pages in local and CXL memory.

use super::setup::{App, LINUX, Local, run};
use super::{TPP, all_bytes, hot_bytes, is_anon, local, over, reclaim_rate, resident, throughput};
use crate::reproduce::row::{Found, GIVEN, Kind, ROW, Row, Test};
use crate::reproduce::{Experiment, Lab};
use App::{Cache1, Cache2, Warehouse, Web1};
use Local::{Fifth, TwoThirds};

/// The first figure is a fact from which the program is built.
const FIRST_GIVEN: &[Kind] = &[Kind::Given, Kind::Predicted];
const LATENCIES_NS: [u16; 3] = [131, 156, 181];

/// The rows.
pub const ROWS: &[Row] = &[
    Row {
        id: "T-F14-Web1",
        title: "local accesses, Linux and TPP; private memory local, TPP",
        source: "TPP, figure 14a and 6.1.1",
        published: &[22.0, 90.0, 92.0],
        unit: "%",
        kinds: FIRST_GIVEN,
        find: Some(|lab| {
            let [linux, tpp] = pair(Web1, TwoThirds);
            let anon = resident(lab, &tpp, is_anon, all_bytes);
            vec![local(lab, &linux), local(lab, &tpp), anon].into()
        }),
        note: "the first is a fact from which the program is built. Reclaim takes only files while there are many, and there are more than CXL memory holds, so here all private memory is local, and with it all hot memory; the paper does not explain its other 10 %",
        ..ROW
    },
    Row {
        id: "T-F14-Web1-reclaim",
        title: "rate of freeing local memory, TPP over Linux",
        source: "TPP, 6.1.1",
        published: &[44.0],
        unit: "x",
        find: Some(|lab| {
            let [linux, tpp] = pair(Web1, TwoThirds);
            vec![over(reclaim_rate(lab, &tpp), reclaim_rate(lab, &linux))].into()
        }),
        note: "ours is 100 us for writing a base page to flash, over the time for moving one; the paper does not name its devices",
        ..ROW
    },
    Row {
        id: "T-F14-Cache1",
        title: "hot memory trapped in CXL memory, Linux",
        source: "TPP, 6.1.1",
        published: &[8.0],
        unit: "%",
        test: Test::Points,
        find: Some(|lab| {
            let [linux, _] = pair(Cache1, TwoThirds);
            vec![100.0 - resident(lab, &linux, |part| part.name != "fresh", hot_bytes)].into()
        }),
        note: "a fact from which the program is built",
        ..GIVEN
    },
    Row {
        id: "T-F14-Cache2",
        title: "local accesses: Linux, TPP",
        source: "TPP, figure 14c",
        published: &[78.0, 91.0],
        unit: "%",
        test: Test::Loss,
        find: Some(|lab| pair(Cache2, TwoThirds).map(|run| local(lab, &run)).to_vec().into()),
        note: "all hot memory fits into local memory, so ours serves all accesses there",
        ..ROW
    },
    Row {
        id: "T-F14-DW",
        title: "private memory local, Linux and TPP",
        source: "TPP, 6.1.1",
        published: &[67.0, 94.0],
        unit: "%",
        find: Some(|lab| {
            let of = |run| resident(lab, &run, is_anon, all_bytes);
            pair(Warehouse, TwoThirds).map(of).to_vec().into()
        }),
        note: "85 % of 95 % of memory is private (3.4), and two thirds of memory are local, so at most 82 % fit",
        ..ROW
    },
    Row {
        id: "T-F14-DW-local",
        title: "gain in local accesses with TPP",
        source: "TPP, figure 14d",
        published: &[4.0],
        unit: "% of all",
        test: Test::Points,
        find: Some(|lab| {
            let [linux, tpp] = pair(Warehouse, TwoThirds).map(|run| local(lab, &run));
            vec![tpp - linux].into()
        }),
        ..ROW
    },
    Row {
        id: "T-F15-Cache1",
        title: "1:4: private memory trapped, Linux; hot private memory local, TPP; local accesses, TPP",
        source: "TPP, figure 15a and 6.1.2",
        published: &[85.0, 97.0, 85.0],
        unit: "%",
        kinds: FIRST_GIVEN,
        find: Some(|lab| {
            let [linux, tpp] = pair(Cache1, Fifth);
            let trapped = 100.0 - resident(lab, &linux, is_anon, all_bytes);
            vec![trapped, resident(lab, &tpp, is_anon, hot_bytes), local(lab, &tpp)].into()
        }),
        note: "the first is a fact from which the program is built. A quarter of the hot pages is accessed once a minute and is demoted, which affects hardly any accesses",
        ..ROW
    },
    Row {
        id: "T-F15-Cache2",
        title: "1:4: private memory local, Linux and TPP; accesses to CXL memory, TPP",
        source: "TPP, figure 15b and 6.1.2",
        published: &[14.0, 80.0, 41.0],
        unit: "%",
        kinds: FIRST_GIVEN,
        find: Some(|lab| {
            let [linux, tpp] = pair(Cache2, Fifth);
            let of = |run| resident(lab, run, is_anon, all_bytes);
            vec![of(&linux), of(&tpp), 100.0 - local(lab, &tpp)].into()
        }),
        note: "the first is a fact from which the program is built. Ours keeps often accessed memory local, but not the cold quarter of private memory nor the fifth that is accessed once a minute",
        ..ROW
    },
    Row {
        id: "T-F16",
        title: "Cache2 at 2:1 and CXL memory of +50, +75, +100 ns: accesses to it, TPP minimum and maximum, Linux minimum and maximum",
        source: "TPP, 6.1.3",
        published: &[4.0, 5.0, 22.0, 25.0],
        unit: "%",
        find: Some(|lab| {
            let range = |system| {
                let shares = LATENCIES_NS.map(|ns| 100.0 - local(lab, &slower(system, ns)));
                [shares.into_iter().fold(100.0, f64::min), shares.into_iter().fold(0.0, f64::max)]
            };
            [range(TPP), range(LINUX)].concat().into()
        }),
        note: "ours serves all hot memory locally. The paper's latencies are only in its figure, and its figure 14c shows 9 % for TPP",
        ..ROW
    },
    Row {
        id: "T-F16-loss",
        title: "added latency, Linux over TPP, maximum; throughput lost, Linux over TPP, minimum and maximum",
        source: "TPP, 6.1.3",
        published: &[7.0, 2.2, 2.8],
        unit: "x",
        find: Some(losses),
        note: "here, TPP adds and loses almost nothing, so the ratios are unbounded",
        ..ROW
    },
];

/// Under Linux and under TPP.
fn pair(app: App, local: Local) -> [Experiment; 2] {
    [LINUX, TPP].map(|system| run(app, local, system))
}

fn slower(system: &'static str, cxl_ns: u16) -> Experiment {
    run(Cache2, TwoThirds, system).cxl_ns(cxl_ns)
}

fn losses(lab: &Lab) -> Found {
    let latency = |run: &Experiment| {
        let ([near, far], shares) = (lab.latencies(run), &lab.program(run).shares);
        shares[0] * near + shares[1] * far
    };
    let (mut most_added, mut least, mut most) = (0.0_f64, f64::INFINITY, 0.0_f64);
    for ns in LATENCIES_NS {
        let [linux, tpp] = [LINUX, TPP].map(|system| slower(system, ns));
        let idle = lab.latencies(&linux.baseline())[0];
        most_added = most_added.max(over(latency(&linux) - idle, latency(&tpp) - idle));
        let lost = over(100.0 - throughput(lab, &linux), 100.0 - throughput(lab, &tpp));
        (least, most) = (least.min(lost), most.max(lost));
    }
    vec![most_added, least, most].into()
}
