// SPDX-License-Identifier: Apache-2.0
//! The outcome of a row.

use serde::Serialize;

use super::row::Kind;

/// Our figures beside the published ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Id of the row.
    pub id: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Place of publication.
    pub source: &'static str,
    /// The published figures; empty if only a statement was published.
    pub published: Vec<f64>,
    /// Our figures; empty if nothing computes them, or if they were not run.
    pub ours: Vec<f64>,
    /// Their unit.
    pub unit: &'static str,
    /// How each of our figures was obtained.
    pub kinds: Vec<Kind>,
    /// The largest error of its figures, relative to the published one. For some tests: relative to the loss, or the
    /// part beyond the bound.
    pub error: Option<f64>,
    /// Whether it holds; `None` if it was not computed.
    pub holds: Option<bool>,
    /// Why it misses, or how to read it.
    pub note: &'static str,
}

impl Outcome {
    /// Whether it can miss. A row of inputs cannot, so it is no evidence.
    pub fn counts(&self) -> bool {
        self.holds.is_some() && self.kinds.iter().any(|&kind| kind != Kind::Given)
    }

    /// Whether it can be computed.
    pub fn is_computable(&self) -> bool {
        !self.kinds.contains(&Kind::NotYet)
    }
}
