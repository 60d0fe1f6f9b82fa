// SPDX-License-Identifier: Apache-2.0
//! Figures 1 and 2: the effect of contention on systems that pack.

use super::setup::{antagonist, gups, placed};
use super::{LOADED, SYSTEMS, best_gups};
use crate::reproduce::lab::Lab;
use crate::reproduce::row::{FITTED, Found, ROW, Row, Test};

/// Theoretical bandwidth of the default tier, bytes per second.
const THEORETICAL: f64 = 205e9;
/// Unloaded latency at the CHA, where tier latencies are measured: 70 ns minus 5.
const UNLOADED_NS: f64 = 65.0;
const PAPER_21: &str = "Colloid, 2.1";

/// The rows.
pub const ROWS: &[Row] = &[
    Row {
        id: "C-BW",
        title: "antagonist alone on 5, 10, 15 cores, of 205 GB/s",
        source: PAPER_21,
        published: &[51.0, 65.0, 70.0],
        unit: "%",
        find: Some(antagonist_alone),
        ..FITTED
    },
    Row {
        id: "C-F1-0x",
        title: "throughput at 0x, share of the best: HeMem, TPP, MEMTIS",
        source: "Colloid, figure 1",
        published: &[98.5, 95.4, 89.9],
        unit: "% of best",
        test: Test::Loss,
        find: Some(|lab| each(|system| 100.0 / best_over(lab, system, 0))),
        note: "MEMTIS: the paper explains its 10 % by huge pages split before the steady state. Ours has too few samples to decide within 100 s. Starting at the full sampling rate, as the kernel does (sampler_settled = false), it splits 1475 and keeps 94 % fast: base pages cost no TLB misses here",
        ..ROW
    },
    Row {
        id: "C-F1-1x",
        title: "best over HeMem at 1x",
        source: "Colloid, figure 1",
        published: &[1.21],
        unit: "x",
        find: Some(|lab| vec![best_over(lab, "hemem", 1)].into()),
        ..FITTED
    },
    Row {
        id: "C-F1-1x-others",
        title: "best over TPP and MEMTIS at 1x",
        source: "Colloid, figure 1",
        published: &[1.35, 1.41],
        unit: "x",
        test: Test::Gain,
        find: Some(|lab| vec![best_over(lab, "tpp", 1), best_over(lab, "memtis", 1)].into()),
        note: "ours serve 94 % of accesses from fast memory, the published TPP 75 % and MEMTIS 85 % (C-F2b-sys): here, locks are not contended, and the huge pages that MEMTIS splits at full sampling rate do not lower its share (C-F1-0x)",
        ..ROW
    },
    Row {
        id: "C-F1-2x-HeMem",
        title: "best over HeMem at 2x",
        source: "Colloid, artifact: 1.652 with Colloid, which is within 3 % of best",
        published: &[1.675],
        unit: "x",
        find: Some(|lab| vec![best_over(lab, "hemem", 2)].into()),
        ..FITTED
    },
    Row {
        id: "C-F1-3x",
        title: "best over HeMem at 3x",
        source: "Colloid, figure 1",
        published: &[2.3],
        unit: "x",
        find: Some(|lab| vec![best_over(lab, "hemem", 3)].into()),
        ..FITTED
    },
    Row {
        id: "C-F1-3x-others",
        title: "best over TPP and MEMTIS at 3x",
        source: "Colloid, figure 1",
        published: &[2.36, 2.46],
        unit: "x",
        test: Test::Gain,
        find: Some(|lab| vec![best_over(lab, "tpp", 3), best_over(lab, "memtis", 3)].into()),
        ..ROW
    },
    Row {
        id: "C-F1-GUPS0x",
        title: "HeMem+Colloid at 0x: bandwidth, reads and writes",
        source: "Colloid, artifact: 6.07e8 updates/s of 128 B",
        published: &[77.7],
        unit: "GB/s",
        find: Some(|lab| vec![lab.rate(&gups("hemem+colloid")) * 1e-9].into()),
        ..FITTED
    },
    Row {
        id: "C-F2a-unl",
        title: "default tier's loaded over unloaded latency, HeMem at 1x, 2x, 3x",
        source: "Colloid, figure 2a",
        published: &[2.5, 3.8, 5.0],
        unit: "x",
        find: Some(|lab| loaded(|x| packed(lab, x)[0] / UNLOADED_NS)),
        ..FITTED
    },
    Row {
        id: "C-F2a-alt",
        title: "default tier's latency over the alternate's, HeMem at 1x, 2x, 3x",
        source: "Colloid, figure 2a",
        published: &[1.2, 1.8, 2.4],
        unit: "x",
        find: Some(|lab| loaded(|x| packed(lab, x)[0] / packed(lab, x)[1])),
        ..ROW
    },
    Row {
        id: "C-F2a-0x3x",
        title: "default tier's latency, 3x over 0x, HeMem",
        source: PAPER_21,
        published: &[3.5],
        unit: "x",
        find: Some(|lab| vec![packed(lab, 3)[0] / packed(lab, 0)[0]].into()),
        ..ROW
    },
    Row {
        id: "C-F2a-log",
        title: "latencies at the CHA at 0x: default, alternate",
        source: "Colloid, artifact: an example log, by Little's law at p = 0.934",
        published: &[94.0, 121.0],
        unit: "ns",
        find: Some(|lab| packed(lab, 0).to_vec().into()),
        note: "the alternate tier in the log is faster than the paper's unloaded latency of 130 ns at the CHA",
        ..ROW
    },
    Row {
        id: "C-F2b-best",
        title: "default tier's share of GUPS at the best placement, 1x, 2x, 3x",
        source: "Colloid, figure 2b",
        published: &[25.0, 4.5, 4.0],
        unit: "%",
        find: Some(|lab| {
            loaded(|x| {
                let best = placed(best_gups(lab, x).0).beside(x);
                100.0 * lab.program(&best).shares[0]
            })
        }),
        note: "placements change in steps of a tenth of the hot set, which has 9 % of accesses",
        ..ROW
    },
    Row {
        id: "C-F2b-sys",
        title: "default tier's share of GUPS, minimum over all loads: HeMem, TPP, MEMTIS",
        source: "Colloid, figure 2b",
        published: &[90.0, 75.0, 85.0],
        unit: "%",
        test: Test::AtLeast,
        find: Some(|lab| {
            each(|system| {
                let share = |x| lab.program(&gups(system).beside(x)).shares[0];
                100.0 * (0..=3).map(share).fold(1.0, f64::min)
            })
        }),
        ..ROW
    },
    Row {
        id: "C-T-drop",
        title: "throughput at 0x over that at 3x: HeMem, TPP, MEMTIS",
        source: PAPER_21,
        published: &[3.42, 3.39, 3.29],
        unit: "x",
        find: Some(|lab| {
            each(|system| lab.rate(&gups(system)) / lab.rate(&gups(system).beside(3)))
        }),
        ..ROW
    },
];

/// One figure per system.
fn each(of: impl Fn(&'static str) -> f64) -> Found {
    SYSTEMS.into_iter().map(of).collect()
}

/// One figure per intensity.
fn loaded(of: impl Fn(u8) -> f64) -> Found {
    LOADED.into_iter().map(of).collect()
}

/// Latencies of both tiers under HeMem.
fn packed(lab: &Lab, intensity: u8) -> [f64; 2] {
    lab.latencies(&gups("hemem").beside(intensity))
}

fn best_over(lab: &Lab, system: &'static str, intensity: u8) -> f64 {
    best_gups(lab, intensity).1 / lab.rate(&gups(system).beside(intensity))
}

fn antagonist_alone(lab: &Lab) -> Found {
    loaded(|x| {
        let report = lab.report(&antagonist(x));
        let bytes = report.steady.programs.first().map_or(1.0, |program| program.bytes_per_second);
        100.0 * bytes / THEORETICAL
    })
}
