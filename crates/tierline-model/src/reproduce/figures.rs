// SPDX-License-Identifier: Apache-2.0
//! The papers' figures as curves, with published points if numbers were published.

use super::PAPERS;
use super::lab::Lab;
use crate::error::Result;
use crate::runner::Runner;

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Name of its file, without extension.
    pub name: String,
    /// Title.
    pub title: String,
    /// Labels of the axes.
    pub axes: [&'static str; 2],
    /// Its curves.
    pub curves: Vec<Curve>,
}

/// A computed curve, or published points.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
    /// Whether these are published points.
    pub published: bool,
}

impl Curve {
    /// A computed curve.
    pub fn ours(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.into(), points: points.into_iter().collect(), published: false }
    }

    /// Published points.
    pub fn published(name: &str, points: &[(f64, f64)]) -> Self {
        Self { name: format!("{name}, published"), points: points.to_vec(), published: true }
    }
}

/// All figures of the papers to which rows with these ids belong. A paper is left out if some of its runs were not made.
///
/// # Errors
/// If a scenario is invalid.
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
