// SPDX-License-Identifier: Apache-2.0
//! The papers' figures as curves; and those of Colloid, with the published points where numbers were published.

use super::colloid::balance::{LATENCIES_NS, ROWS as BALANCE};
use super::colloid::change::{contention, series};
use super::colloid::objects::{OBJECTS, of};
use super::colloid::{LOADED, SYSTEMS, best_gups, gain};
use super::lab::Lab;
use super::setup::{Change, Setup};
use super::{arms, neomem, tpp};
use crate::error::Result;
use crate::parallel::Said;

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// The name of its file, without an ending.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// What its axes are.
    pub axes: [&'static str; 2],
    /// Its curves.
    pub curves: Vec<Curve>,
}

/// A curve, or published points.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// Where it goes.
    pub points: Vec<(f64, f64)>,
    /// Published points are drawn as such.
    pub published: bool,
}

const INTENSITY: &str = "intensity of contention";

impl Curve {
    /// What was computed.
    pub fn ours(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.into(), points: points.into_iter().collect(), published: false }
    }
}

/// The figures of a paper.
type Figures = fn(&Lab) -> Vec<Chart>;

/// The papers: how their rows begin, and their figures.
const PAPERS: [(&str, Figures); 4] = [
    ("C-", colloid),
    ("T-", tpp::figures::charts),
    ("A-", arms::figures::charts),
    ("N-", neomem::figures::charts),
];

/// All figures of the papers that rows of such ids are of.
///
/// # Errors
/// Where a scenario cannot be made.
pub fn charts(ids: &[&str], lab: &mut Lab, threads: usize, said: Said<'_>) -> Result<Vec<Chart>> {
    let asked = |paper: &str| ids.iter().any(|id| id.starts_with(paper));
    loop {
        let papers = PAPERS.iter().filter(|(paper, _)| asked(paper));
        let charts = papers.flat_map(|(_, charts)| charts(lab)).collect();
        if !lab.run_what_was_asked(threads, said)? {
            return Ok(charts);
        }
    }
}

fn colloid(lab: &Lab) -> Vec<Chart> {
    [contended(lab), gains(lab), over_time(lab)].concat()
}

fn published(name: &str, points: &[(f64, f64)]) -> Curve {
    Curve { name: format!("{name}, published"), points: points.to_vec(), published: true }
}

fn by_intensity(of: impl Fn(u8) -> f64) -> Vec<(f64, f64)> {
    (0..=3).map(|x| (f64::from(x), of(x))).collect()
}

/// Figures 1, 2, 5 and 6.
fn contended(lab: &Lab) -> Vec<Chart> {
    let all: Vec<&str> =
        SYSTEMS.into_iter().flat_map(|s| [s, Setup::gups(s).with_colloid().policy]).collect();
    let setup = |policy: &'static str, x| Setup::gups(policy).beside(x);
    let best = || Curve::ours("best", by_intensity(|x| best_gups(lab, x).1 * 1e-9));
    let rate = |policy| Curve::ours(policy, by_intensity(|x| lab.rate(&setup(policy, x)) * 1e-9));
    let latency = |policy: &'static str, tier: usize| {
        let name = format!("{policy}, {}", ["default", "alternate"][tier]);
        Curve::ours(name, by_intensity(|x| lab.latencies(&setup(policy, x))[tier]))
    };
    let share = |policy| {
        Curve::ours(policy, by_intensity(|x| 100.0 * lab.program(&setup(policy, x)).shares[0]))
    };
    let placed = by_intensity(|x| {
        100.0 * lab.program(&Setup::placed(best_gups(lab, x).0).beside(x)).shares[0]
    });
    let chart = |name: &str, title: &str, unit, curves| Chart {
        name: name.into(),
        title: title.into(),
        axes: [INTENSITY, unit],
        curves,
    };
    let with = all.iter().skip(1).step_by(2).copied();
    vec![
        chart("figure-1", "GUPS, read and written", "GB/s", {
            [vec![best()], SYSTEMS.map(rate).to_vec()].concat()
        }),
        chart("figure-2a", "Loaded latency under HeMem", "ns", {
            let points = [(1.0, 162.5), (2.0, 247.0), (3.0, 325.0)];
            vec![latency("hemem", 0), published("default", &points), latency("hemem", 1)]
        }),
        chart("figure-2b", "Default tier's share of GUPS", "%", {
            let points = [(1.0, 25.0), (2.0, 4.5), (3.0, 4.0)];
            let best = vec![Curve::ours("best", placed.clone()), published("best", &points)];
            [best, SYSTEMS.map(share).to_vec()].concat()
        }),
        chart("figure-5", "GUPS with and without Colloid, read and written", "GB/s", {
            [vec![best()], all.iter().map(|policy| rate(policy)).collect()].concat()
        }),
        chart("figure-6a", "Default tier's share of GUPS with Colloid", "%", {
            [vec![Curve::ours("best", placed)], with.clone().map(share).collect()].concat()
        }),
        chart("figure-6b", "Loaded latencies with Colloid", "ns", {
            with.flat_map(|policy| [latency(policy, 0), latency(policy, 1)]).collect()
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
            let setup = Setup::gups(system).alternate(ns);
            let name = format!("{ns} ns");
            let points: Vec<(f64, f64)> =
                known.iter().skip(at * 4).take(4).zip(0u8..).map(|(y, x)| (x.into(), *y)).collect();
            let curve = Curve::ours(name.clone(), by_intensity(|x| gain(lab, setup.beside(x))));
            [Some(curve), (!points.is_empty()).then(|| published(&name, &points))]
        });
        charts.push(chart(7, system, INTENSITY, slower.flatten().collect()));
        let larger = (0..=3).map(|x| {
            let points = OBJECTS.into_iter().zip(6u8..);
            let points =
                points.map(|(b, log)| (f64::from(log), gain(lab, of(system, b).beside(x))));
            Curve::ours(format!("{x}x"), points)
        });
        charts.push(chart(8, system, "log2 of the object's bytes", larger.collect()));
    }
    charts
}

/// Figures 9 and 10.
fn over_time(lab: &Lab) -> Vec<Chart> {
    let mut charts = Vec::new();
    let pair = |setup: Setup| [setup, setup.with_colloid()];
    for system in SYSTEMS {
        let jump = Setup::gups(system).change(Change::Jump);
        let columns = [
            ("hot-set-0x", "new hot set, no contention", jump),
            ("hot-set-3x", "new hot set under contention", jump.beside(LOADED[2])),
            ("contention", "contention comes", contention(system)),
        ];
        for (name, title, setup) in columns {
            let curve = |setup: Setup| {
                let points = series(lab, &setup).into_iter().map(|(s, y)| (s, y * 1e-9));
                Curve::ours(setup.policy, points)
            };
            charts.push(Chart {
                name: format!("figure-9-{system}-{name}"),
                title: format!("{system}: {title}"),
                axes: ["s", "GB/s read and written"],
                curves: pair(setup).map(curve).to_vec(),
            });
        }
    }
    let moved = |setup: Setup| {
        let rows = lab.report(&setup).series.iter().map(|row| {
            let moved = row.means.promoted_bytes_per_second + row.means.demoted_bytes_per_second;
            (row.seconds, moved * 1e-9)
        });
        Curve::ours(setup.policy, rows)
    };
    for (name, setup) in [
        ("hot-set-0x", Setup::gups("hemem").change(Change::Jump)),
        ("hot-set-3x", Setup::gups("hemem").change(Change::Jump).beside(LOADED[2])),
        ("contention", contention("hemem")),
    ] {
        charts.push(Chart {
            name: format!("figure-10-{name}"),
            title: "Moved by HeMem, with Colloid and without".into(),
            axes: ["s", "GB/s"],
            curves: pair(setup).map(moved).to_vec(),
        });
    }
    charts
}
