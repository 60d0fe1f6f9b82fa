// SPDX-License-Identifier: Apache-2.0
//! Colloid's figures 1, 2 and 5 to 10 as curves.

use super::balance::{LATENCIES_NS, ROWS as BALANCE};
use super::change::{contention, series};
use super::objects::OBJECTS;
use super::setup::{gups, objects, placed};
use super::{LOADED, SYSTEMS, best_gups, gain};
use crate::reproduce::Experiment;
use crate::reproduce::Lab;
use crate::reproduce::figures::{Chart, Curve};

/// The systems with Colloid.
const WITH: [&str; 3] = ["hemem+colloid", "tpp+colloid", "memtis+colloid"];
const INTENSITY: &str = "intensity of contention";

/// All figures.
pub fn charts(lab: &Lab) -> Vec<Chart> {
    [contended(lab), gains(lab), over_time(lab)].concat()
}

fn by_intensity(of: impl Fn(u8) -> f64) -> Vec<(f64, f64)> {
    (0..=3).map(|x| (f64::from(x), of(x))).collect()
}

/// Figures 1, 2, 5 and 6.
fn contended(lab: &Lab) -> Vec<Chart> {
    let at = |policy: &str, x| gups(policy).beside(x);
    let best = || Curve::ours("best", by_intensity(|x| best_gups(lab, x).1 * 1e-9));
    let rate =
        |policy: &str| Curve::ours(policy, by_intensity(|x| lab.rate(&at(policy, x)) * 1e-9));
    let latency = |policy: &str, tier: usize| {
        let name = format!("{policy}, {}", ["default", "alternate"][tier]);
        Curve::ours(name, by_intensity(|x| lab.latencies(&at(policy, x))[tier]))
    };
    let share = |policy: &str| {
        Curve::ours(policy, by_intensity(|x| 100.0 * lab.program(&at(policy, x)).shares[0]))
    };
    let placed =
        by_intensity(|x| 100.0 * lab.program(&placed(best_gups(lab, x).0).beside(x)).shares[0]);
    let chart = |name: &str, title: &str, unit, curves| Chart {
        name: name.into(),
        title: title.into(),
        axes: [INTENSITY, unit],
        curves,
    };
    vec![
        chart("figure-1", "GUPS, reads and writes", "GB/s", {
            [vec![best()], SYSTEMS.map(rate).to_vec()].concat()
        }),
        chart("figure-2a", "Loaded latency under HeMem", "ns", {
            let points = [(1.0, 162.5), (2.0, 247.0), (3.0, 325.0)];
            vec![latency("hemem", 0), Curve::published("default", &points), latency("hemem", 1)]
        }),
        chart("figure-2b", "Default tier's share of GUPS", "%", {
            let points = [(1.0, 25.0), (2.0, 4.5), (3.0, 4.0)];
            let best = vec![Curve::ours("best", placed.clone()), Curve::published("best", &points)];
            [best, SYSTEMS.map(share).to_vec()].concat()
        }),
        chart("figure-5", "GUPS with and without Colloid, reads and writes", "GB/s", {
            [
                vec![best()],
                SYSTEMS.into_iter().zip(WITH).flat_map(|(a, b)| [rate(a), rate(b)]).collect(),
            ]
            .concat()
        }),
        chart("figure-6a", "Default tier's share of GUPS with Colloid", "%", {
            [vec![Curve::ours("best", placed)], WITH.map(share).into()].concat()
        }),
        chart("figure-6b", "Loaded latencies with Colloid", "ns", {
            WITH.into_iter().flat_map(|policy| [latency(policy, 0), latency(policy, 1)]).collect()
        }),
    ]
}

/// Figures 7 and 8.
fn gains(lab: &Lab) -> Vec<Chart> {
    let cells = |id: &str| BALANCE.iter().find(|row| row.id == id).map_or(&[][..], |r| r.published);
    let chart = |figure: u8, system: &str, x, curves| Chart {
        name: format!("figure-{figure}-{system}"),
        title: format!("{system} with Colloid over without"),
        axes: [x, "times"],
        curves,
    };
    let mut charts = Vec::new();
    for system in SYSTEMS {
        let known = match system {
            "hemem" => cells("C-F7-cells-HeMem"),
            "tpp" => cells("C-F7-cells-TPP"),
            _ => &[],
        };
        let slower = LATENCIES_NS.into_iter().enumerate().flat_map(|(at, ns)| {
            let without = gups(system).alternate(ns);
            let name = format!("{ns} ns");
            let points: Vec<(f64, f64)> =
                known.iter().skip(at * 4).take(4).zip(0u8..).map(|(y, x)| (x.into(), *y)).collect();
            let curve = Curve::ours(name.clone(), by_intensity(|x| gain(lab, &without.beside(x))));
            [Some(curve), (!points.is_empty()).then(|| Curve::published(&name, &points))]
        });
        charts.push(chart(7, system, INTENSITY, slower.flatten().collect()));
        let larger = (0..=3).map(|x| {
            let points = OBJECTS.into_iter().zip(6u8..);
            let points =
                points.map(|(b, log)| (f64::from(log), gain(lab, &objects(system, b).beside(x))));
            Curve::ours(format!("{x}x"), points)
        });
        charts.push(chart(8, system, "log2 of the object size in bytes", larger.collect()));
    }
    charts
}

/// Figures 9 and 10.
fn over_time(lab: &Lab) -> Vec<Chart> {
    let mut charts = Vec::new();
    let pair = |without: &Experiment| [without.clone(), without.with_colloid()];
    for system in SYSTEMS {
        let jump = gups(system).jump();
        let columns = [
            ("hot-set-0x", "new hot set, no contention", jump.clone()),
            ("hot-set-3x", "new hot set under contention", jump.beside(LOADED[2])),
            ("contention", "contention starts", contention(system)),
        ];
        for (name, title, without) in columns {
            let curve = |of: Experiment| {
                let points = series(lab, &of).into_iter().map(|(s, y)| (s, y * 1e-9));
                Curve::ours(of.scenario.policy, points)
            };
            charts.push(Chart {
                name: format!("figure-9-{system}-{name}"),
                title: format!("{system}: {title}"),
                axes: ["s", "GB/s, reads and writes"],
                curves: pair(&without).map(curve).to_vec(),
            });
        }
    }
    let moved = |of: Experiment| {
        let rows = lab.report(&of).series.iter().map(|row| {
            let moved = row.means.promoted_bytes_per_second + row.means.demoted_bytes_per_second;
            (row.seconds, moved * 1e-9)
        });
        Curve::ours(of.scenario.policy, rows)
    };
    for (name, without) in [
        ("hot-set-0x", gups("hemem").jump()),
        ("hot-set-3x", gups("hemem").jump().beside(LOADED[2])),
        ("contention", contention("hemem")),
    ] {
        charts.push(Chart {
            name: format!("figure-10-{name}"),
            title: "Moved by HeMem, with Colloid and without".into(),
            axes: ["s", "GB/s"],
            curves: pair(&without).map(moved).to_vec(),
        });
    }
    charts
}
