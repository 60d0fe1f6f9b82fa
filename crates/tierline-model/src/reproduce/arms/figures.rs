// SPDX-License-Identifier: Apache-2.0
//! ARMS' figures 8, 12 and 13 as curves.

use super::setup::{App, trial, trial_at};
use super::{ARMS, over};
use crate::reproduce::Lab;
use crate::reproduce::figures::{Chart, Curve};

const HEMEM: &str = "hemem";

/// All figures.
pub fn charts(lab: &Lab) -> Vec<Chart> {
    let bandwidth = |policy| {
        let rows = lab.report(&trial(App::Graph, policy)).series.iter();
        let fast = |row: &crate::report::Interval| {
            row.means.tiers.first().map_or(0.0, |tier| tier.bytes_per_second)
        };
        Curve::ours(policy, rows.map(|row| (row.seconds, fast(row) * 1e-9)))
    };
    let apps = [("GUPS", App::Gups), ("graph", App::Graph)];
    let threads = |(name, app)| {
        let gain = |threads| over(lab, &trial(app, ARMS).threads(threads), HEMEM);
        Curve::ours(name, [4, 8, 16, 20].map(|threads| (threads.into(), gain(threads))))
    };
    let ratios = |(name, app)| {
        let gain = |slow| over(lab, &trial_at(app, ARMS, [1, slow]), HEMEM);
        Curve::ours(name, [1, 4, 8, 16].map(|slow| (slow.into(), gain(slow))))
    };
    let chart = |name: &str, title: &str, axes, curves: [Curve; 2]| Chart {
        name: format!("arms-{name}"),
        title: title.into(),
        axes,
        curves: curves.into(),
    };
    let over_hemem = "ARMS over HeMem";
    vec![
        chart("figure-8", "Bandwidth of fast memory", ["s", "GB/s"], [ARMS, HEMEM].map(bandwidth)),
        chart("figure-12", over_hemem, ["threads", "times"], apps.map(threads)),
        chart("figure-13", over_hemem, ["slow over fast memory", "times"], apps.map(ratios)),
    ]
}
