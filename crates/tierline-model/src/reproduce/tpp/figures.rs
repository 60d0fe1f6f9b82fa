// SPDX-License-Identifier: Apache-2.0
//! TPP's figures 14, 15, 17 and 18 as curves.

use super::components::{cache1, coupled, unfiltered};
use super::setup::{App, LINUX, Local, run};
use super::{SETUPS, TPP};
use crate::report::Means;
use crate::reproduce::figures::{Chart, Curve};
use crate::reproduce::{Experiment, Lab};

/// All figures.
pub fn charts(lab: &Lab) -> Vec<Chart> {
    [placement(lab), components(lab)].concat()
}

fn curve(lab: &Lab, name: &str, run: &Experiment, of: impl Fn(&Means) -> f64) -> Curve {
    let rows = lab.report(run).series.iter();
    Curve::ours(name, rows.map(|row| (row.seconds, of(&row.means))))
}

fn chart(name: &str, title: &str, unit: &'static str, curves: Vec<Curve>) -> Chart {
    Chart { name: format!("tpp-{name}"), title: title.into(), axes: ["s", unit], curves }
}

fn local(means: &Means) -> f64 {
    means.programs.first().map_or(0.0, |program| 100.0 * program.shares[0])
}

/// Figures 14 and 15.
fn placement(lab: &Lab) -> Vec<Chart> {
    let one = |(app, of): (App, Local)| {
        let ratio = if of == Local::Fifth { (15, "1:4") } else { (14, "2:1") };
        let curves = [("linux", LINUX), ("tpp", TPP)]
            .map(|(name, system)| curve(lab, name, &run(app, of, system), local));
        let (name, title) = match app {
            App::Web1 => ("web1", "Web1"),
            App::Cache1 => ("cache1", "Cache1"),
            App::Cache2 => ("cache2", "Cache2"),
            App::Warehouse => ("warehouse", "Data Warehouse"),
        };
        let title = format!("{title} at {}: accesses to local memory", ratio.1);
        chart(&format!("figure-{}-{name}", ratio.0), &title, "%", curves.to_vec())
    };
    SETUPS.into_iter().map(one).collect()
}

/// Figures 17 and 18.
fn components(lab: &Lab) -> Vec<Chart> {
    let pair = |other: (&str, &Experiment), of: fn(&Means) -> f64| {
        vec![curve(lab, "tpp", &cache1(), of), curve(lab, other.0, other.1, of)]
    };
    let allocated = |means: &Means| {
        means.tiers.first().map_or(0.0, |tier| tier.allocated_bytes_per_second * 1e-6)
    };
    let promoted = |means: &Means| means.promoted_bytes_per_second * 1e-6;
    let not_decoupled = ("not decoupled", &coupled());
    let no_filter = ("every fault promotes", &unfiltered());
    vec![
        chart("figure-17a", "Allocation in local memory", "MB/s", pair(not_decoupled, allocated)),
        chart("figure-17b", "Promotion", "MB/s", pair(not_decoupled, promoted)),
        chart("figure-18a", "Promotion", "MB/s", pair(no_filter, promoted)),
        chart("figure-18b", "Accesses to local memory", "%", pair(no_filter, local)),
    ]
}
