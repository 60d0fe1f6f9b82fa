// SPDX-License-Identifier: Apache-2.0
//! Mercury's figures 13 to 15, and the long experiment, over time.

use super::adaptation::long;
use super::interference::requests;
use super::memory::mixed;
use super::setup::{gib, series};
use crate::report::TenantMeans;
use crate::reproduce::Experiment;
use crate::reproduce::Lab;
use crate::reproduce::figures::{Chart, Curve};

/// All figures.
pub fn charts(lab: &Lab) -> Vec<Chart> {
    let above = requests().but(|scenario| scenario.tenant[1].priority = Some(3));
    let all = [
        ("13", mixed(), &["redis", "llama", "vectordb"][..]),
        ("14", requests(), &["redis", "llama"]),
        ("14-tpp", requests().without_targets("tpp"), &["redis", "llama"]),
        ("14-colloid", requests().without_targets("tpp+colloid"), &["redis", "llama"]),
        ("15", above, &["redis", "llama"]),
        ("long", long(), &["redis", "llama", "vectordb"]),
        ("long-tpp", long().without_targets("tpp"), &["redis", "llama", "vectordb"]),
    ];
    all.into_iter().flat_map(|(name, of, tenants)| over_time(lab, name, &of, tenants)).collect()
}

/// Latency, bandwidth, local memory and CPU share of tenants.
fn over_time(lab: &Lab, figure: &str, of: &Experiment, tenants: &[&str]) -> Vec<Chart> {
    let chart = |what: &str, unit, value: fn(&TenantMeans) -> Option<f64>| {
        let curve = |name: &&str| {
            let points = series(lab, of, name).into_iter();
            Curve::ours(*name, points.filter_map(|(s, means)| Some((s, value(means)?))))
        };
        Chart {
            name: format!("figure-{figure}-{}", what.replace(' ', "-")),
            title: format!("Figure {figure}: {what}"),
            axes: ["s", unit],
            curves: tenants.iter().map(curve).collect(),
        }
    };
    vec![
        chart("latency", "ns", |means| means.latency_ns),
        chart("bandwidth", "GB/s", |means| Some(means.bytes_per_second * 1e-9)),
        chart("local memory", "GiB", |means| means.used_bytes.first().map(|&bytes| gib(bytes))),
        chart("CPU share", "%", |means| Some(means.cpu_share * 100.0)),
    ]
}
