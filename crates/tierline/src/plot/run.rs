// SPDX-License-Identifier: Apache-2.0
//! Runs as charts over time, and as a report in one file.

use anyhow::Result;
use tierline_model::report::{Means, Report};
use tierline_model::reproduce::figures::{Chart, Curve};

use super::{stacked, svg};

/// Throughput, tier latencies, shares and moves over time.
fn charts(runs: &[Report]) -> Vec<Chart> {
    let chart = |title: &str, unit, curves| Chart {
        name: title.into(),
        title: title.into(),
        axes: ["s", unit],
        curves,
    };
    let tiers = runs.first().map_or(0, |run| run.steady.tiers.len());
    let each = |name: &dyn Fn(&Report, usize) -> String,
                of: &dyn Fn(&Means, usize) -> Option<f64>| {
        let curves = runs.iter().flat_map(|run| (0..tiers).map(move |tier| (run, tier)));
        curves.map(|(run, tier)| curve(name(run, tier), run, |means| of(means, tier))).collect()
    };
    let of_tier = |run: &Report, tier: usize| {
        let name = run.steady.tiers.get(tier).map_or("", |tier| tier.name.as_str());
        format!("{}, {name}", run.policy)
    };
    let programs = runs.iter().flat_map(|run| {
        run.steady.programs.iter().map(move |program| {
            curve(format!("{}, {}", run.policy, program.name), run, |means| {
                let now = means.programs.iter().find(|now| now.name == program.name)?;
                Some(now.bytes_per_second * 1e-9)
            })
        })
    });
    let moved = runs.iter().map(|run| {
        curve(run.policy.clone(), run, |means| {
            Some((means.promoted_bytes_per_second + means.demoted_bytes_per_second) * 1e-9)
        })
    });
    vec![
        chart("Throughput, read and written", "GB/s", programs.collect()),
        chart(
            "Loaded latency",
            "ns",
            each(&of_tier, &|means, tier| means.tiers.get(tier)?.latency_ns),
        ),
        chart("Accesses of the first program", "%", {
            each(&of_tier, &|means, tier| Some(100.0 * means.programs.first()?.shares.get(tier)?))
        }),
        chart("Moved", "GB/s", moved.collect()),
    ]
}

fn curve(name: String, run: &Report, of: impl Fn(&Means) -> Option<f64>) -> Curve {
    let points = run.series.iter().filter_map(|row| Some((row.seconds, of(&row.means)?)));
    Curve { name, points: points.collect(), published: false }
}

/// All charts of some runs, stacked vertically, as one SVG.
pub fn picture(runs: &[Report]) -> Result<String> {
    Ok(stacked(&drawn(runs)?))
}

/// A self-contained report: `table` contains the means, the charts show the values over time.
pub fn page(runs: &[Report], table: &str) -> Result<String> {
    let machine = runs.first().map_or("", |run| run.machine.as_str());
    let mut text = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>tierline sim: {machine}</title>\n\
         <style>body {{ font-family: sans-serif; margin: 2em }} pre {{ font-size: 90% }}</style>\n\
         <h1>{}</h1>\n<pre>{}</pre>\n",
        escaped(machine),
        escaped(table),
    );
    for svg in drawn(runs)? {
        text += &svg;
    }
    Ok(text)
}

/// The charts that have data.
fn drawn(runs: &[Report]) -> Result<Vec<String>> {
    let filled = |chart: &Chart| chart.curves.iter().flat_map(|c| &c.points).any(|at| at.1 > 0.0);
    charts(runs).iter().filter(|chart| filled(chart)).map(svg).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
