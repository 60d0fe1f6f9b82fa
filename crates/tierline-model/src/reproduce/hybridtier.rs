// SPDX-License-Identifier: Apache-2.0
//! HybridTier (ASPLOS 2025): the figures of its abstract and its artifact that can be computed with stand-ins.

use tierline_core::telemetry::sketch::{COUNTERS_PER_PAGE, Sketch};

use super::row::{Found, GIVEN, ROW, Row, Test};
use super::{Experiment, Lab, Paper};
use crate::arithmetic::geometric_mean;

/// The paper.
pub const PAPER: Paper = Paper {
    prefix: "HT-",
    name: "HybridTier (ASPLOS 2025)",
    about: "Counts in small filters; with stand-ins for its programs.",
    rows: &[ROWS],
    charts: None,
    tables: None,
};

const ROWS: &[Row] = &[
    Row {
        id: "HT-bytes",
        title: "frequency filter, for each page of fast memory",
        source: "HybridTier, artifact",
        published: &[10.2],
        unit: "bytes",
        find: Some(|_| vec![COUNTERS_PER_PAGE / 2.0].into()),
        note: "before the size is rounded up to a power of two",
        ..GIVEN
    },
    Row {
        id: "HT-false",
        title: "pages without an access that have a count, in a filter filled as intended: at most",
        source: "HybridTier, artifact",
        published: &[0.1],
        unit: "%",
        test: Test::AtMost,
        find: Some(|_| vec![false_counts()].into()),
        note: "the size is that of a filter whose four counters may lie anywhere; in one cache line they meet more often",
        ..ROW
    },
    Row {
        id: "HT-gain",
        title: "over prior systems, geomean",
        source: "HybridTier, abstract",
        published: &[1.19],
        unit: "x",
        test: Test::Gain,
        find: Some(gain),
        note: "over MEMTIS, TPP and AutoNUMA; stand-ins for CacheLib, GAP and Silo, 1:4 and 1:16, 60 s, on a machine with CXL memory. The paper's machine and systems are not known to us",
        ..ROW
    },
];

/// Stand-ins for CacheLib, GAP and Silo.
const PROGRAMS: [&str; 3] =
    ["kv:set=40GiB,drift=16MiB/s", "graph:set=38GiB,build=5s", "kv:set=40GiB,skew=0.5"];
const PRIOR: [&str; 3] = ["memtis", "tpp", "autonuma"];
const MIB: u64 = 40 << 10;

fn gain(lab: &Lab) -> Found {
    let mut gains = Vec::new();
    for program in PROGRAMS {
        for slow in [4, 16] {
            let trial = Experiment::new("ddr5-cxl-asic", "hybridtier", 60)
                .but(|scenario| scenario.grow = true)
                .program(program)
                .fast_mib(MIB / (1 + slow));
            let speed = |trial: &Experiment| {
                lab.report(trial).overall.programs.first().map_or(1.0, |of| of.throughput)
            };
            gains.extend(PRIOR.map(|prior| speed(&trial) / speed(&trial.under(prior))));
        }
    }
    vec![geometric_mean(&gains)].into()
}

/// Per cent of absent pages with a count, in a filter that its pages fill.
fn false_counts() -> f64 {
    const LINES: f64 = 4096.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    let pages = (LINES * 128.0 / COUNTERS_PER_PAGE) as u64;
    let mut sketch = Sketch::of_pages(pages);
    (0..pages).for_each(|page| sketch.add(page, 1));
    let absent = pages..11 * pages;
    let all: f64 = absent.clone().map(|_| 1.0).sum();
    absent.filter(|&page| sketch.count(page) > 0).map(|_| 100.0).sum::<f64>() / all
}
