// SPDX-License-Identifier: Apache-2.0
//! The tuning study (3): HeMem with the settings found by `python/studies/arms.py`, and a grid of its two thresholds.

use std::collections::BTreeMap;

use super::setup::{APPS, App, trial, tuned};
use super::{ARMS, delay, moved_gib, speed};
use crate::arithmetic::geometric_mean;
use crate::error::{Error, Result};
use crate::reproduce::row::{Found, ORDER, ROW, Row, Test};
use crate::reproduce::{Experiment, Lab};

const HEMEM: &str = "hemem";
const FOUND: &str = include_str!("tuned.toml");
/// The grid of figure 2: values around the defaults, 8 and 18, and the published best values.
const HOT_READS: [u8; 5] = [1, 4, 8, 10, 16];
const COOL_ABOVE: [u8; 5] = [4, 10, 18, 24, 40];

/// The rows.
pub const ROWS: &[Row] = &[
    Row {
        id: "A-F2",
        title: "best thresholds (read_hot, cooling): GUPS, Silo; holds if they differ",
        source: "ARMS, figure 2",
        published: &[10.0, 4.0, 24.0, 1.0],
        unit: "samples",
        find: Some(best_thresholds),
        note: "of a grid of 5 by 5. The same counts are compared with both thresholds, so with the published pairs no page could become hot before all counts are halved, unless the pairs are (cooling, read_hot)",
        ..ORDER
    },
    Row {
        id: "A-F3",
        title: "tuned HeMem over its defaults on every workload: minimum and maximum gain",
        source: "ARMS, figure 3",
        unit: "x",
        find: Some(gains),
        note: "with the settings of tuned.toml, from 30 trials per program; the minimum is on XSBench and Btree, where the defaults reach 0.999 of the oracle",
        ..ORDER
    },
    Row {
        id: "A-T2",
        title: "tuned HeMem over its defaults: mean time until promotion on graph, Silo, GUPS; moved on XSBench",
        source: "ARMS, table 2",
        unit: "x",
        find: Some(reasons),
        note: "only the reasons were published: early and accurate detection, and fewer wasteful migrations on XSBench; holds if all are below 1. On graph and Silo, tuned HeMem serves 0.50 and 0.77 of the accesses from fast memory instead of 0.41 and 0.34, and takes longer to reach this; on XSBench neither moves anything here",
        ..ORDER
    },
    Row {
        id: "A-F5-tuned",
        title: "mean time until promotion, default and tuned HeMem: GUPS, then Silo",
        source: "ARMS, figure 5",
        unit: "s",
        find: Some(delays),
        note: "published as bars; holds if the tuned time is shorter on both. Averaged over accesses in half a run, as A-F5. Tuned, more of Silo's memory becomes fast, the last part of it later",
        ..ORDER
    },
    Row {
        id: "A-F7-tuned",
        title: "behind tuned HeMem, geomean",
        source: "ARMS, figure 7",
        published: &[3.0],
        unit: "%",
        test: Test::AtMost,
        find: Some(behind),
        note: "with the settings of tuned.toml. ARMS is 31 and 38 % behind on GUPS and Silo TPC-C, where tuned HeMem takes about 40 times the samples of ARMS; on the others it is between 4 % behind and 15 % ahead",
        ..ROW
    },
];

/// HeMem's settings by program.
///
/// # Errors
/// If the file cannot be parsed.
pub fn settings() -> Result<BTreeMap<App, BTreeMap<String, f64>>> {
    toml::from_str(FOUND).map_err(|error| Error::file("tuned.toml", &error))
}

fn best_thresholds(lab: &Lab) -> Found {
    let grid = || HOT_READS.iter().flat_map(|&hot| COOL_ABOVE.iter().map(move |&cool| (hot, cool)));
    let best = |app| {
        let at = |(hot_reads, cool_above)| {
            let hemem = trial(app, HEMEM).knob("hot_reads", hot_reads);
            speed(lab, &hemem.knob("cool_above", cool_above))
        };
        let best = grid().max_by(|&a, &b| at(a).total_cmp(&at(b))).unwrap_or_default();
        [best.0, best.1].map(f64::from)
    };
    let ours = [App::Gups, App::SiloYcsb].map(best);
    Found { holds: ours[0] != ours[1], ours: ours.concat() }
}

fn gains(lab: &Lab) -> Found {
    let gains = APPS.map(|app| speed(lab, &tuned(app)) / speed(lab, &trial(app, HEMEM)));
    let least = gains.into_iter().fold(f64::INFINITY, f64::min);
    let most = gains.into_iter().fold(0.0, f64::max);
    Found { holds: least > 1.0, ours: vec![least, most] }
}

/// A trial with HeMem's defaults, and one with tuned HeMem.
fn both(app: App) -> [Experiment; 2] {
    [trial(app, HEMEM), tuned(app)]
}

fn reasons(lab: &Lab) -> Found {
    let over_default = |app, of: fn(&Lab, &Experiment) -> f64| {
        let [default, tuned] = both(app).map(|trial| of(lab, &trial));
        if default > 0.0 { tuned / default } else { 1.0 }
    };
    let mut ours =
        [App::Graph, App::SiloYcsb, App::Gups].map(|app| over_default(app, delay)).to_vec();
    ours.push(over_default(App::XsBench, moved_gib));
    Found { holds: ours.iter().all(|&ratio| ratio < 1.0), ours }
}

fn delays(lab: &Lab) -> Found {
    let of = |app| both(app).map(|trial| delay(lab, &trial));
    let [gups, silo] = [App::Gups, App::SiloYcsb].map(of);
    Found {
        holds: [gups, silo].iter().all(|[default, tuned]| tuned < default),
        ours: [gups, silo].concat(),
    }
}

fn behind(lab: &Lab) -> Found {
    let of_tuned = |app| speed(lab, &trial(app, ARMS)) / speed(lab, &tuned(app));
    let of_tuned = geometric_mean(&APPS.map(of_tuned));
    vec![100.0 * (1.0 - of_tuned)].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_settings_and_they_are_hemems() {
        let settings = settings().unwrap();
        for app in APPS {
            assert!(!settings[&app].is_empty(), "{app:?}");
            tuned(app).scenario().unwrap().policy_set().unwrap();
        }
    }
}
