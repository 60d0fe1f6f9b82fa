// SPDX-License-Identifier: Apache-2.0
//! Alto (OSDI 2025): its steps, and its losses.

use tierline_core::policy::alto::passes;

use super::row::{Found, GIVEN, ROW, Row, Test};
use super::{Experiment, Lab, Paper};

/// The paper.
pub const PAPER: Paper = Paper {
    prefix: "AL-",
    name: "Soar and Alto (OSDI 2025)",
    about: "Fewer promotions where misses overlap; with stand-ins for its programs.",
    rows: &[ROWS],
    charts: None,
    tables: None,
};

const ROWS: &[Row] = &[
    Row {
        id: "AL-steps",
        title: "promotions of ten that pass, at an amortised latency of 40, 50, 60, 80, 100 and more cycles",
        source: "Alto, artifact",
        published: &[0.0, 1.0, 1.0, 3.0, 5.0, 10.0],
        unit: "of 10",
        find: Some(|_| {
            [40.0, 50.0, 60.0, 80.0, 100.0, 200.0]
                .map(|cycles| f64::from(passes(400.0, cycles)))
                .to_vec()
                .into()
        }),
        ..GIVEN
    },
    Row {
        id: "AL-worst",
        title: "largest loss of a program by Alto above TPP",
        source: "Soar and Alto, abstract",
        published: &[3.0],
        unit: "%",
        test: Test::AtMost,
        find: Some(worst),
        note: "stand-ins for GAP, GPT-2 and Redis, alone at 1:4 for 60 s on a machine with CXL memory",
        ..ROW
    },
];

/// Stand-ins for GAP, GPT-2's weights and Redis.
const PROGRAMS: [&str; 3] = ["graph:set=38GiB,build=5s", "scan:set=40GiB", "kv:set=40GiB"];

fn worst(lab: &Lab) -> Found {
    let loss = |program: &str| {
        let trial = Experiment::new("ddr5-cxl-asic", "tpp+alto", 60)
            .but(|scenario| scenario.grow = true)
            .program(program)
            .fast_mib((40 << 10) / 5);
        let speed = |trial: &Experiment| {
            lab.report(trial).overall.programs.first().map_or(1.0, |of| of.throughput)
        };
        100.0 * (1.0 - speed(&trial) / speed(&trial.under("tpp")))
    };
    vec![PROGRAMS.map(loss).into_iter().fold(0.0, f64::max)].into()
}
