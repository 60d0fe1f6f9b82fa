// SPDX-License-Identifier: Apache-2.0
//! Mercury, evaluation: nothing computes it, as its policy is not here.

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
    row("M-F1a", "latency-sensitive: all CXL over all local", &[2.0], "x"),
    row("M-F1b", "bandwidth-intensive: all CXL of all local", &[25.0], "%"),
    row("M-F2", "latency over the other's CXL share falls, then rises", &[], ""),
    row("M-F4", "latency-sensitive memory moved to CXL gets worse", &[], ""),
    row("M-F5", "TPP: the colder program loses", &[], ""),
    row("M-F6", "worst slowdown by a background job: within, between tiers", &[50.0, 32.0], "%"),
    row("M-F7", "TPP does nothing, Colloid moves Redis too late", &[], ""),
    row("M-F10a/b", "latency and bandwidth follow their goals", &[], ""),
    row("M-F11", "worst slowdown, TPP and Mercury; of VectorDB", &[29.0, 12.0, 75.0, 14.0], "%"),
    row("M-F12", "ML under bandwidth interference, better by up to", &[40.0], "%"),
    row(
        "M-F13",
        "memory given: Redis, llama, VectorDB; VectorDB's gain",
        &[10.0, 10.0, 20.0, 53.4],
        "GB; %",
    ),
    row("M-F14", "Redis throughput over TPP, over Colloid", &[14.9, 20.3], "%"),
    row("M-F15", "llama holds 70 GB/s, Redis does not hold its latency", &[], ""),
    row(
        "M-S562",
        "time in which Redis holds its goal, over TPP; throughput",
        &[8.4, 33.21],
        "x; %",
    ),
    row(
        "M-PAR",
        "adaptation period; degradation threshold; profiling at most",
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
