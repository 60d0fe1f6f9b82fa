// SPDX-License-Identifier: Apache-2.0
//! A row: a published figure, and how ours is found.

use serde::Serialize;

use super::Lab;
use super::outcome::{Figure, Outcome};

/// How our figure came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The machine's or the program's figures were fitted to it, or to the part of it that the note names.
    Fitted,
    /// It follows from the machine, the workload and the policy.
    Predicted,
    /// Only the order is claimed.
    Order,
    /// Nothing computes it.
    #[serde(rename = "not yet")]
    NotYet,
}

/// What it takes for a row to hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Test {
    /// Every figure within this share of the published one.
    Near(f64),
    /// Every figure within so much of the published one, in the row's unit.
    Within(f64),
    /// No figure above the published one.
    AtMost,
    /// No figure below the published one.
    AtLeast,
    /// What the row itself found.
    Own,
}

/// What fitted rows promise.
pub const FITTED: Test = Test::Near(0.03);
/// What predicted rows promise; twice the spread of published runs.
pub const PREDICTED: Test = Test::Near(0.10);

/// What a row found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Our figures, in the order of the published ones.
    pub ours: Vec<f64>,
    /// For [`Test::Own`].
    pub holds: bool,
}

impl From<Vec<f64>> for Found {
    fn from(ours: Vec<f64>) -> Self {
        Self { ours, holds: false }
    }
}

impl FromIterator<f64> for Found {
    fn from_iter<T: IntoIterator<Item = f64>>(ours: T) -> Self {
        ours.into_iter().collect::<Vec<_>>().into()
    }
}

/// A published figure.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its id in the list of targets.
    pub id: &'static str,
    /// What it says, and the order of its figures.
    pub title: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// The figures; none where words were published.
    pub published: &'static [f64],
    /// Their unit.
    pub unit: &'static str,
    /// How ours came about.
    pub kind: Kind,
    /// What it takes to hold.
    pub test: Test,
    /// Why it misses, or what to know of it.
    pub note: &'static str,
    /// Whether it takes hours.
    pub long: bool,
    /// Finds ours.
    pub find: Option<fn(&Lab) -> Found>,
}

/// A row to build on.
pub const ROW: Row = Row {
    id: "",
    title: "",
    source: "",
    published: &[],
    unit: "",
    kind: Kind::Predicted,
    test: PREDICTED,
    note: "",
    long: false,
    find: None,
};

impl Row {
    /// The row, or where it is long and that is not wanted, one that only says so.
    pub(super) fn unless_long(self, long: bool) -> Self {
        match self.long && !long {
            true => Self { kind: Kind::NotYet, find: None, ..self },
            false => self,
        }
    }

    /// Ours beside the published figure, by what the lab has run so far.
    pub(super) fn outcome(&self, lab: &Lab) -> Outcome {
        // Nothing is found where a policy that it takes is not in the list.
        let found = self.find.map(|find| find(lab));
        let found = found.filter(|found| self.published.is_empty() || !found.ours.is_empty());
        let pairs = || {
            let ours = found.iter().flat_map(|found| &found.ours);
            self.published.iter().copied().zip(ours.copied())
        };
        let most = |errors: &mut dyn Iterator<Item = f64>| {
            errors.reduce(|most, error| if error.abs() > most.abs() { error } else { most })
        };
        let relative = |(published, ours): (f64, f64)| ours / published - 1.0;
        let error = most(&mut pairs().filter(|pair| pair.0 != 0.0).map(|pair| match self.test {
            Test::AtMost => relative(pair).max(0.0),
            Test::AtLeast => relative(pair).min(0.0),
            _ => relative(pair),
        }));
        let holds = found.as_ref().map(|found| match self.test {
            Test::Near(share) => pairs().all(|pair| relative(pair).abs() <= share),
            Test::Within(much) => pairs().all(|(published, ours)| (ours - published).abs() <= much),
            Test::AtMost => pairs().all(|(published, ours)| ours <= published),
            Test::AtLeast => pairs().all(|(published, ours)| ours >= published),
            Test::Own => found.holds,
        });
        Outcome {
            id: self.id,
            title: self.title,
            source: self.source,
            published: Figure::of(self.published),
            ours: found.and_then(|found| Figure::of(&found.ours)),
            unit: self.unit,
            error,
            kind: if holds.is_some() { self.kind } else { Kind::NotYet },
            holds,
            note: self.note,
        }
    }
}
