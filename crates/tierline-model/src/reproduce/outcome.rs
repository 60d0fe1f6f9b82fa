// SPDX-License-Identifier: Apache-2.0
//! What came of a row.

use serde::Serialize;

use super::row::Kind;

/// A number, or several.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Figure {
    /// One.
    One(f64),
    /// Several.
    Several(Vec<f64>),
}

impl Figure {
    /// A figure where there are numbers.
    pub fn of(numbers: &[f64]) -> Option<Self> {
        match numbers {
            [] => None,
            [one] => Some(Self::One(*one)),
            several => Some(Self::Several(several.to_vec())),
        }
    }

    /// Its numbers.
    pub fn numbers(&self) -> &[f64] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Several(several) => several,
        }
    }
}

/// Ours beside the published figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The row.
    pub id: &'static str,
    /// What it says.
    pub title: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// The published figure; `None` where words were published.
    pub published: Option<Figure>,
    /// Ours; `None` where nothing computes it.
    pub ours: Option<Figure>,
    /// Their unit.
    pub unit: &'static str,
    /// The largest error of its numbers, as a share of the published one; beyond a bound, where a bound
    /// was published.
    pub error: Option<f64>,
    /// How ours came about.
    pub kind: Kind,
    /// Whether it holds.
    pub holds: Option<bool>,
    /// Why it misses, or what to know of it.
    pub note: &'static str,
}
