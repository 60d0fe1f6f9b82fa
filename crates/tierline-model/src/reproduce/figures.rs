// SPDX-License-Identifier: Apache-2.0
//! The papers' figures as curves, with the published points where numbers were published.

use super::PAPERS;
use super::lab::Lab;
use crate::error::Result;
use crate::runner::Runner;

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

impl Curve {
    /// What was computed.
    pub fn ours(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.into(), points: points.into_iter().collect(), published: false }
    }

    /// Published points.
    pub fn published(name: &str, points: &[(f64, f64)]) -> Self {
        Self { name: format!("{name}, published"), points: points.to_vec(), published: true }
    }
}

/// All figures of the papers that rows of such ids are of; without those of a paper whose runs were not all made.
///
/// # Errors
/// Where a scenario cannot be made.
pub fn charts(ids: &[&str], lab: &mut Lab, runner: &Runner<'_>) -> Result<Vec<Chart>> {
    let asked = |paper: &str| ids.iter().any(|id| id.starts_with(paper));
    loop {
        let papers = PAPERS.iter().filter(|paper| asked(paper.prefix));
        let all = papers.filter_map(|paper| lab.complete(paper.charts?));
        let charts = all.flatten().collect();
        if !lab.run_what_was_asked(runner)? {
            return Ok(charts);
        }
    }
}
