// SPDX-License-Identifier: Apache-2.0
//! Mercury, evaluation. Not computed: its policy is not implemented.

use super::Paper;
use super::row::{Kind, ROW, Row};

/// The paper.
pub const PAPER: Paper = Paper {
    prefix: "M-",
    name: "Mercury",
    rows: &[ROWS],
    charts: None,
    about: "Quality of service on tiered memory.",
};

/// The rows.
const ROWS: &[Row] = &[
    row(
        "M-F1a",
        "latency-sensitive program: latency with all memory on CXL over all local",
        &[2.0],
        "x",
    ),
    row(
        "M-F1b",
        "bandwidth-intensive program: bandwidth with all memory on CXL, of all local",
        &[25.0],
        "%",
    ),
    row("M-F2", "as the other program's CXL share grows, latency falls, then rises", &[], ""),
    row(
        "M-F4",
        "moving the latency-sensitive program's memory to CXL increases its latency",
        &[],
        "",
    ),
    row("M-F5", "TPP: the program with colder memory loses fast memory", &[], ""),
    row(
        "M-F6",
        "worst slowdown by a background job: in the same tier, in another tier",
        &[50.0, 32.0],
        "%",
    ),
    row("M-F7", "TPP does not react, Colloid moves Redis too late", &[], ""),
    row("M-F10a/b", "latency and bandwidth follow their targets", &[], ""),
    row(
        "M-F11",
        "worst slowdown, TPP and Mercury; the same for VectorDB",
        &[29.0, 12.0, 75.0, 14.0],
        "%",
    ),
    row("M-F12", "ML under bandwidth interference: improvement, up to", &[40.0], "%"),
    row(
        "M-F13",
        "memory given: Redis, llama, VectorDB; VectorDB's gain",
        &[10.0, 10.0, 20.0, 53.4],
        "GB; %",
    ),
    row("M-F14", "Redis throughput over TPP, over Colloid", &[14.9, 20.3], "%"),
    row("M-F15", "llama keeps 70 GB/s, Redis does not keep its latency target", &[], ""),
    row(
        "M-S562",
        "time in which Redis meets its target, over TPP; throughput",
        &[8.4, 33.21],
        "x; %",
    ),
    row(
        "M-PAR",
        "adaptation period; degradation threshold; profiling time, at most",
        &[200.0, 10.0, 1.0],
        "ms; %",
    ),
];

const fn row(
    id: &'static str,
    title: &'static str,
    published: &'static [f64],
    unit: &'static str,
) -> Row {
    Row { id, title, source: "Mercury", published, unit, kinds: &[Kind::NotYet], ..ROW }
}
