// SPDX-License-Identifier: Apache-2.0
//! A row: a published figure, and how ours is found.

use serde::Serialize;

use super::Lab;
use super::outcome::Outcome;

/// How one of our figures came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The machine's or the program's figures were fitted to it.
    Fitted,
    /// It follows from the machine, the workload and the policy.
    Predicted,
    /// Only the order is claimed.
    Order,
    /// It is an input: a parameter of the paper, or a fact that a program is made from. It cannot miss.
    Given,
    /// Nothing computes it.
    #[serde(rename = "not yet")]
    NotYet,
}

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fitted => "fitted",
            Self::Predicted => "predicted",
            Self::Order => "order",
            Self::Given => "given",
            Self::NotYet => "not yet",
        }
    }

    /// The relative error within which it holds. Predictions: twice the spread of published runs.
    fn share(self) -> f64 {
        if self == Self::Fitted { 0.03 } else { 0.10 }
    }
}

/// What it takes for a row to hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Test {
    /// Every figure within the share that its kind allows.
    Near,
    /// What every figure lacks to 100 % within that share, or within a point.
    Loss,
    /// Every figure within so much of the published one, in the row's unit.
    Within(f64),
    /// No figure above the published one.
    AtMost,
    /// No figure below the published one.
    AtLeast,
    /// What the row itself found.
    Own,
}

/// A loss below this, in points, is within the spread of runs. Ours: the spread was not published.
const POINT: f64 = 1.0;

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

/// Published figures of one kind of measurement.
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
    /// How each of ours came about; the last one holds for those that follow.
    pub kinds: &'static [Kind],
    /// What it takes to hold.
    pub test: Test,
    /// Why it misses, or what to know of it.
    pub note: &'static str,
    /// Whether it takes hours.
    pub long: bool,
    /// Finds ours.
    pub find: Option<fn(&Lab) -> Found>,
}

/// A row of predictions, to build on.
pub const ROW: Row = Row {
    id: "",
    title: "",
    source: "",
    published: &[],
    unit: "",
    kinds: &[Kind::Predicted],
    test: Test::Near,
    note: "",
    long: false,
    find: None,
};
/// A row to which figures were fitted.
pub const FITTED: Row = Row { kinds: &[Kind::Fitted], ..ROW };
/// A row of which only the order is claimed.
pub const ORDER: Row = Row { kinds: &[Kind::Order], test: Test::Own, ..ROW };
/// A row of inputs.
pub const GIVEN: Row = Row { kinds: &[Kind::Given], ..ROW };

impl Row {
    /// The row; if it is long and that is not wanted, without the computation.
    pub(super) fn unless_long(self, long: bool) -> Self {
        Self { find: self.find.filter(|_| long || !self.long), ..self }
    }

    /// The kind of a figure.
    pub fn kind(&self, at: usize) -> Kind {
        let last = self.kinds.last().copied().unwrap_or(Kind::Predicted);
        self.kinds.get(at).copied().unwrap_or(last)
    }

    /// The kind of each figure; one where there are none.
    pub fn kinds(&self) -> Vec<Kind> {
        (0..self.published.len().max(1)).map(|at| self.kind(at)).collect()
    }

    /// Ours beside the published figures, by what the lab has run so far.
    pub(super) fn outcome(&self, lab: &Lab) -> Outcome {
        let found = self.find.and_then(|find| lab.complete(find));
        // Nothing is found where a policy that it takes is not in the list.
        let found = found.filter(|found| self.published.is_empty() || !found.ours.is_empty());
        let pairs: Vec<Pair> = match &found {
            Some(found) => {
                let both = self.published.iter().zip(&found.ours).enumerate();
                let pair =
                    |(at, (&published, &ours))| Pair { published, ours, kind: self.kind(at) };
                both.map(pair).collect()
            }
            None => Vec::new(),
        };
        let errors = pairs.iter().filter_map(|pair| pair.error(self.test));
        let error =
            errors.reduce(|most, error| if error.abs() > most.abs() { error } else { most });
        let holds = found.as_ref().map(|found| match self.test {
            Test::Own => found.holds,
            test => pairs.iter().all(|pair| pair.holds(test)),
        });
        let ours = found.map_or_else(Vec::new, |found| found.ours);
        Outcome {
            id: self.id,
            title: self.title,
            source: self.source,
            published: self.published.to_vec(),
            kinds: (0..self.published.len().max(ours.len()).max(1))
                .map(|at| self.kind(at))
                .collect(),
            ours,
            unit: self.unit,
            error,
            holds,
            note: self.note,
        }
    }
}

/// A published figure and ours.
struct Pair {
    published: f64,
    ours: f64,
    kind: Kind,
}

impl Pair {
    /// What is compared with what.
    fn compared(&self, test: Test) -> [f64; 2] {
        match test {
            Test::Loss => [100.0 - self.published, 100.0 - self.ours],
            _ => [self.published, self.ours],
        }
    }

    fn holds(&self, test: Test) -> bool {
        let [published, ours] = self.compared(test);
        let far = (ours - published).abs();
        match test {
            Test::Near => (ours / published - 1.0).abs() <= self.kind.share(),
            Test::Loss => far <= POINT.max(self.kind.share() * published),
            Test::Within(much) => far <= much,
            Test::AtMost => ours <= published,
            Test::AtLeast => ours >= published,
            Test::Own => true,
        }
    }

    /// As a share of the published figure, if that is none; beyond a bound, where a bound was published.
    fn error(&self, test: Test) -> Option<f64> {
        let [published, ours] = self.compared(test);
        let error = ours / published - 1.0;
        let least = if test == Test::Loss { POINT } else { f64::MIN_POSITIVE };
        (published.abs() >= least).then_some(match test {
            Test::AtMost => error.max(0.0),
            Test::AtLeast => error.min(0.0),
            _ => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(row: Row) -> Outcome {
        row.outcome(&Lab::default())
    }

    /// 4 % off: too far for a fit, near enough for a prediction.
    #[test]
    fn each_figure_is_judged_by_its_own_kind() {
        let find: Option<fn(&Lab) -> Found> = Some(|_| vec![100.0, 104.0].into());
        let row = Row { published: &[100.0, 100.0], find, ..ROW };
        assert_eq!(outcome(row).holds, Some(true));
        assert_eq!(outcome(Row { kinds: &[Kind::Fitted], ..row }).holds, Some(false));
        let mixed = outcome(Row { kinds: &[Kind::Fitted, Kind::Predicted], ..row });
        assert_eq!(mixed.holds, Some(true));
        assert_eq!(mixed.kinds, [Kind::Fitted, Kind::Predicted]);
        assert!(mixed.error.is_some_and(|error| (error - 0.04).abs() < 1e-9));
    }

    /// Of 90 %, a tenth of what is lost is one point; of 99.9 %, a point is allowed too.
    #[test]
    fn a_loss_is_judged_and_not_what_is_left() {
        let row = |ours: fn(&Lab) -> Found| Row {
            published: &[80.0, 99.9],
            test: Test::Loss,
            find: Some(ours),
            ..ROW
        };
        let near = outcome(row(|_| vec![81.9, 99.0].into()));
        assert_eq!(near.holds, Some(true));
        assert!(near.error.is_some_and(|error| (error + 0.095).abs() < 1e-9), "{near:?}");
        assert_eq!(outcome(row(|_| vec![82.1, 99.9].into())).holds, Some(false));
        assert_eq!(outcome(row(|_| vec![80.0, 98.8].into())).holds, Some(false));
    }

    #[test]
    fn bounds_are_held_on_their_side_alone() {
        let find: Option<fn(&Lab) -> Found> = Some(|_| vec![2.0].into());
        let row = |published, test| outcome(Row { published, test, find, ..ROW });
        assert_eq!(row(&[3.0], Test::AtMost).holds, Some(true));
        assert_eq!(row(&[3.0], Test::AtMost).error, Some(0.0));
        assert_eq!(row(&[3.0], Test::AtLeast).holds, Some(false));
        assert_eq!(row(&[1.5], Test::Within(0.5)).holds, Some(true));
        assert_eq!(row(&[1.4], Test::Within(0.5)).holds, Some(false));
    }

    #[test]
    fn a_row_that_was_not_computed_does_neither_hold_nor_miss() {
        let row = Row { published: &[1.0], long: true, find: Some(|_| vec![1.0].into()), ..ROW };
        let left_out = outcome(row.unless_long(false));
        assert_eq!((left_out.holds, left_out.ours.len()), (None, 0));
        assert_eq!(left_out.kinds, [Kind::Predicted]);
        assert_eq!(outcome(row.unless_long(true)).holds, Some(true));
    }
}
