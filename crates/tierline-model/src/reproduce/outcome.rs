// SPDX-License-Identifier: Apache-2.0
//! What came of a row.

use serde::Serialize;

use super::row::Kind;

/// Ours beside the published figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The row.
    pub id: &'static str,
    /// What it says.
    pub title: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// The published figures; none where words were published.
    pub published: Vec<f64>,
    /// Ours; none where nothing computes them, or they were not run.
    pub ours: Vec<f64>,
    /// Their unit.
    pub unit: &'static str,
    /// How each of ours came about.
    pub kinds: Vec<Kind>,
    /// The largest error of its figures, as a share of the published one; of what is lost or beyond a bound, where
    /// that is judged.
    pub error: Option<f64>,
    /// Whether it holds; `None` where it was not computed.
    pub holds: Option<bool>,
    /// Why it misses, or what to know of it.
    pub note: &'static str,
}

impl Outcome {
    /// Whether it can miss: a row of inputs is no evidence.
    pub fn counts(&self) -> bool {
        self.holds.is_some() && self.kinds.iter().any(|&kind| kind != Kind::Given)
    }

    /// Whether anything computes it.
    pub fn is_computable(&self) -> bool {
        !self.kinds.contains(&Kind::NotYet)
    }
}
