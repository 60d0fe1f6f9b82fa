// SPDX-License-Identifier: Apache-2.0
//! NeoMem's figures 12, 14, 15 and 16 as curves.

use super::setup::{App, Bench, System, Varied};
use super::{PEBS, first_minute, gups, over};
use crate::reproduce::Lab;
use crate::reproduce::figures::{Chart, Curve};

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
        let at = |ratio| {
            let bench = Bench { ratio, ..Bench::of(app, System::NeoMem) };
            (ratio.into(), over(lab, bench, PEBS))
        };
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

/// The program's rate over time, in 10⁹ a second, from so long after the start.
fn over_time(lab: &Lab, name: String, bench: Bench, zero: f64) -> Curve {
    let rows = lab.report(&bench).series.iter();
    let rate =
        |row: &crate::report::Interval| row.means.programs.first().map_or(0.0, |p| p.throughput);
    Curve::ours(name, rows.map(|row| (row.seconds - zero, rate(row) * 1e-9)))
}

fn pagerank(varied: Varied) -> Bench {
    Bench { varied, ..Bench::of(App::PageRank, System::NeoMem) }
}

fn thresholds(lab: &Lab) -> Chart {
    let fixed = [100, 200, 300, 400].map(|count| (format!("{count}"), Varied::Threshold(count)));
    let all = [("dynamic".into(), Varied::Nothing)].into_iter().chain(fixed);
    let curves = all.map(|(name, varied)| over_time(lab, name, pagerank(varied), 0.0));
    let axes = ["s", "10⁹ lines/s"];
    chart("figure-14a", "PageRank by threshold", axes, curves.collect())
}

fn sensitivity(lab: &Lab) -> Vec<Chart> {
    let one = |name: &str, title: &str, axis, all: &[(f64, Varied)]| {
        let at = |&(x, varied): &(f64, Varied)| (x, first_minute(lab, varied));
        let curve = Curve::ours("neomem", all.iter().map(at));
        chart(name, title, [axis, "10⁹ updates/s"], vec![curve])
    };
    let intervals = [
        (1.0, Varied::Longer),
        (2.0, Varied::Interval(100)),
        (3.0, Varied::Interval(1_000)),
        (3.7, Varied::Interval(5_000)),
    ];
    let widths =
        [(15.0, Varied::Sketch(15, 2)), (17.0, Varied::Sketch(17, 2)), (19.0, Varied::Longer)];
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
        let bench = Bench { varied: Varied::Jump, ..gups(system) };
        let mut curve = over_time(lab, name.into(), bench, bench.jumps_at().into());
        curve.points.retain(|(s, _)| *s >= -25.0);
        curve
    };
    let axes = ["s after the hot set moved", "10⁹ updates/s"];
    chart("figure-16", "GUPS when its hot set moves", axes, systems.map(curve).to_vec())
}
