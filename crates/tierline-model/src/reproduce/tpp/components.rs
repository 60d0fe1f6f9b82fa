// SPDX-License-Identifier: Apache-2.0
//! Figures 17 and 18 and table 2: TPP without one of its parts, or with its optional part.

use super::setup::{App, Local, run};
use super::{TPP, count, local, moves, over, percentile, sorted, throughput};
use crate::arithmetic::mean;
use crate::reproduce::row::{Found, ROW, Row};
use crate::reproduce::{Experiment, Lab};
use App::{Cache1, Cache2, Web1};
use Local::{Fifth, TwoThirds};

/// The rows.
pub const ROWS: &[Row] = &[
    Row {
        id: "T-F17",
        title: "Cache1 at 1:4: p95 of local allocation, decoupled over not decoupled; not decoupled: CXL accesses, throughput lost",
        source: "TPP, figure 17 and 6.2",
        published: &[1.6, 55.0, 12.0],
        unit: "x; %",
        find: Some(decoupling),
        note: "depends on allocation bursts, of which only the lifetime was published",
        ..ROW
    },
    Row {
        id: "T-F17b",
        title: "Cache1 at 1:4, promoted: mean, p99",
        source: "TPP, figure 17b",
        published: &[50.0, 1_200.0],
        unit: "KB/s",
        find: Some(|lab| {
            let promoted = sorted(lab, &cache1(), |means| means.promoted_bytes_per_second * 1e-3);
            vec![mean(&promoted), percentile(&promoted, 99)].into()
        }),
        note: "a page of the model is 2 MiB; also, the paper's steady 4 to 16 MB/s (7) are a hundred times its 50 KB/s",
        ..ROW
    },
    Row {
        id: "T-F18",
        title: "active-LRU filter, change of: promotions, pages demoted and promoted again, demotions",
        source: "TPP, figure 18 and 6.2",
        published: &[-91.0, -50.0, -4.0],
        unit: "%",
        find: Some(|lab| {
            let change = |of: &dyn Fn(&Experiment) -> f64| {
                100.0 * (over(of(&cache1()), of(&unfiltered())) - 1.0)
            };
            let tiering = |run: &Experiment| moves(lab, run).tiering;
            vec![
                change(&|run| count(tiering(run).promoted())),
                change(&|run| count(tiering(run).promote_candidate_demoted)),
                change(&|run| count(tiering(run).demoted())),
            ]
            .into()
        }),
        note: "without the filter, every page accessed within a minute is promoted; the number of such pages was not published",
        ..ROW
    },
    Row {
        id: "T-F18-gain",
        title: "active-LRU filter, change of: promotions that succeed, local accesses, throughput",
        source: "TPP, 6.2",
        published: &[48.0, 4.0, 2.4],
        unit: "%",
        find: Some(|lab| {
            let succeeds = |run: &Experiment| {
                let tiering = moves(lab, run).tiering;
                over(count(tiering.promoted()), count(tiering.promote_tried))
            };
            let change = |of: &dyn Fn(&Experiment) -> f64| {
                100.0 * (over(of(&cache1()), of(&unfiltered())) - 1.0)
            };
            vec![
                change(&succeeds),
                change(&|run| local(lab, run)),
                change(&|run| throughput(lab, run)),
            ]
            .into()
        }),
        note: "promotions rarely fail here, with or without the filter, as a copying thread cannot fill 2 % of headroom; without the filter, pages accessed once a minute become local sooner, and no hotter page is displaced",
        ..ROW
    },
    Row {
        id: "T-T2",
        title: "files and tmpfs allocated in CXL memory: local accesses and throughput, Web1 2:1, Cache1 1:4, Cache2 1:4",
        source: "TPP, table 2",
        published: &[97.0, 99.5, 85.0, 99.8, 72.0, 98.5],
        unit: "%",
        find: Some(|lab| {
            let setups = [(Web1, TwoThirds), (Cache1, Fifth), (Cache2, Fifth)];
            let both = setups.map(|(app, of)| {
                let run = run(app, of, TPP).knob("by_type", true);
                [local(lab, &run), throughput(lab, &run)]
            });
            both.concat().into()
        }),
        note: "Cache2: the files that fit are not hotter than those that do not, and ours serves as many of them locally as without the switch",
        ..ROW
    },
];

/// The case study of 6.2.
pub(super) fn cache1() -> Experiment {
    run(Cache1, Fifth, TPP)
}

pub(super) fn coupled() -> Experiment {
    cache1().knob("decoupled", false)
}

pub(super) fn unfiltered() -> Experiment {
    cache1().knob("active_lru", false)
}

/// New pages in local memory, bytes per second, sorted.
fn allocated(lab: &Lab, run: &Experiment) -> Vec<f64> {
    sorted(lab, run, |means| means.tiers[0].allocated_bytes_per_second)
}

fn decoupling(lab: &Lab) -> Found {
    let p95 = |run: &Experiment| percentile(&allocated(lab, run), 95);
    let cxl = 100.0 - local(lab, &coupled());
    let lost = 100.0 - throughput(lab, &coupled());
    vec![over(p95(&cache1()), p95(&coupled())), cxl, lost].into()
}
