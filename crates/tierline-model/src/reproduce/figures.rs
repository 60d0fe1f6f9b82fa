// SPDX-License-Identifier: Apache-2.0
//! The papers' figures as curves, with the published points where numbers were published.

use super::lab::Lab;
use super::{arms, colloid, neomem, tpp};
use crate::error::Result;
use crate::parallel::Progress;

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

/// The figures of a paper.
type Figures = fn(&Lab) -> Vec<Chart>;

/// The papers: how their rows begin, and their figures.
const PAPERS: [(&str, Figures); 4] = [
    ("C-", colloid::figures::charts),
    ("T-", tpp::figures::charts),
    ("A-", arms::figures::charts),
    ("N-", neomem::figures::charts),
];

/// All figures of the papers that rows of such ids are of.
///
/// # Errors
/// Where a scenario cannot be made.
pub fn charts(
    ids: &[&str],
    lab: &mut Lab,
    threads: usize,
    said: Progress<'_>,
) -> Result<Vec<Chart>> {
    let asked = |paper: &str| ids.iter().any(|id| id.starts_with(paper));
    loop {
        let papers = PAPERS.iter().filter(|(paper, _)| asked(paper));
        let charts = papers.flat_map(|(_, charts)| charts(lab)).collect();
        if !lab.run_what_was_asked(threads, said)? {
            return Ok(charts);
        }
    }
}
