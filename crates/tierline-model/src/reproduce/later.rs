// SPDX-License-Identifier: Apache-2.0
//! Figures of the other papers, which nothing computes: their policies or workloads are not here.

use super::row::{Kind, ROW, Row};

const NEOMEM: &str = "NeoMem (MICRO'24)";
const MERCURY: &str = "Mercury";

/// The rows, paper by paper.
pub const ROWS: &[Row] = &[
    row(NEOMEM, "N-HW", "NeoProf: area, power (not simulable)", &[5.3, 152.2], "mm2; mW"),
    row(MERCURY, "M-F1a", "latency-sensitive: all CXL over all local", &[2.0], "x"),
    row(MERCURY, "M-F1b", "bandwidth-intensive: all CXL of all local", &[25.0], "%"),
    row(MERCURY, "M-F2", "latency over the other's CXL share falls, then rises", &[], ""),
    row(MERCURY, "M-F4", "latency-sensitive memory moved to CXL gets worse", &[], ""),
    row(MERCURY, "M-F5", "TPP: the colder program loses", &[], ""),
    row(
        MERCURY,
        "M-F6",
        "worst slowdown by a background job: within, between tiers",
        &[50.0, 32.0],
        "%",
    ),
    row(MERCURY, "M-F7", "TPP does nothing, Colloid moves Redis too late", &[], ""),
    row(MERCURY, "M-F10a/b", "latency and bandwidth follow their goals", &[], ""),
    row(
        MERCURY,
        "M-F11",
        "worst slowdown, TPP and Mercury; of VectorDB",
        &[29.0, 12.0, 75.0, 14.0],
        "%",
    ),
    row(MERCURY, "M-F12", "ML under bandwidth interference, better by up to", &[40.0], "%"),
    row(
        MERCURY,
        "M-F13",
        "memory given: Redis, llama, VectorDB; VectorDB's gain",
        &[10.0, 10.0, 20.0, 53.4],
        "GB; %",
    ),
    row(MERCURY, "M-F14", "Redis throughput over TPP, over Colloid", &[14.9, 20.3], "%"),
    row(MERCURY, "M-F15", "llama holds 70 GB/s, Redis does not hold its latency", &[], ""),
    row(
        MERCURY,
        "M-S562",
        "time in which Redis holds its goal, over TPP; throughput",
        &[8.4, 33.21],
        "x; %",
    ),
    row(
        MERCURY,
        "M-PAR",
        "adaptation period; degradation threshold; profiling at most",
        &[200.0, 10.0, 1.0],
        "ms; %",
    ),
];

const fn row(
    source: &'static str,
    id: &'static str,
    title: &'static str,
    published: &'static [f64],
    unit: &'static str,
) -> Row {
    Row { id, title, source, published, unit, kinds: &[Kind::NotYet], ..ROW }
}
