// SPDX-License-Identifier: Apache-2.0
//! NeoMem's figures 12, 14, 15 and 16 as curves.

use super::setup::{self, App, System, bench, interval, longer, sketch, threshold};
use super::{PEBS, first_minute, over_at};
use crate::reproduce::figures::{Chart, Curve};
use crate::reproduce::{Experiment, Lab};

/// All figures.
pub fn charts(lab: &Lab) -> Vec<Chart> {
    let mut charts = vec![ratios(lab), thresholds(lab)];
    charts.extend(sensitivity(lab));
    charts.push(jump(lab));
    charts
}

fn chart(name: &str, title: &str, axes: [&'static str; 2], curves: Vec<Curve>) -> Chart {
    Chart { name: format!("neomem-{name}"), title: title.into(), axes, curves }
}

fn ratios(lab: &Lab) -> Chart {
    let curve = |(name, app)| {
        let at = |ratio: u8| (ratio.into(), over_at(lab, app, PEBS, ratio));
        Curve::ours(name, [2, 4, 8].map(at))
    };
    let apps = [
        ("PageRank", App::PageRank),
        ("Btree", App::Btree),
        ("GUPS", App::Gups),
        ("XSBench", App::XsBench),
    ];
    let axes = ["slow over fast memory", "times"];
    chart("figure-12", "NeoMem over PEBS", axes, apps.map(curve).to_vec())
}

/// The program's rate over time, in 10⁹ per second, from a time after the start.
fn over_time(lab: &Lab, name: String, bench: &Experiment, zero: f64) -> Curve {
    let rows = lab.report(bench).series.iter();
    let rate =
        |row: &crate::report::Interval| row.means.programs.first().map_or(0.0, |p| p.throughput);
    Curve::ours(name, rows.map(|row| (row.seconds - zero, rate(row) * 1e-9)))
}

fn thresholds(lab: &Lab) -> Chart {
    let fixed = [100, 200, 300, 400].map(|count| (format!("{count}"), threshold(count)));
    let dynamic = ("dynamic".into(), bench(App::PageRank, System::NeoMem));
    let all = [dynamic].into_iter().chain(fixed);
    let curves = all.map(|(name, bench)| over_time(lab, name, &bench, 0.0));
    let axes = ["s", "10⁹ lines/s"];
    chart("figure-14a", "PageRank by threshold", axes, curves.collect())
}

fn sensitivity(lab: &Lab) -> Vec<Chart> {
    let one = |name: &str, title: &str, axis, all: &[(f64, Experiment)]| {
        let at = |(x, gups): &(f64, Experiment)| (*x, first_minute(lab, gups));
        let curve = Curve::ours("neomem", all.iter().map(at));
        chart(name, title, [axis, "10⁹ updates/s"], vec![curve])
    };
    let intervals =
        [(1.0, longer()), (2.0, interval(100)), (3.0, interval(1_000)), (3.7, interval(5_000))];
    let widths = [(15.0, sketch(15, 2)), (17.0, sketch(17, 2)), (19.0, longer())];
    vec![
        one("figure-15a", "GUPS by migration interval", "log10 of ms", &intervals),
        one("figure-15d", "GUPS by width of the sketch", "log2 of counters", &widths),
    ]
}

fn jump(lab: &Lab) -> Chart {
    let systems = [
        ("neomem", System::NeoMem),
        ("pebs", System::Pebs(397)),
        ("tpp", System::Tpp),
        ("pte scan", System::PteScan),
    ];
    let curve = |(name, system): (&str, System)| {
        let jumps_at = setup::jumps_at(system).into();
        let mut curve = over_time(lab, name.into(), &setup::jump(system), jumps_at);
        curve.points.retain(|(s, _)| *s >= -25.0);
        curve
    };
    let axes = ["s after the hot set moved", "10⁹ updates/s"];
    chart("figure-16", "GUPS when its hot set moves", axes, systems.map(curve).to_vec())
}
