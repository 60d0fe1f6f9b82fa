// SPDX-License-Identifier: Apache-2.0
//! A row: published figures, and how ours are computed.

use serde::Serialize;

use super::Lab;
use super::outcome::Outcome;

/// How one of our figures was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Figures of the machine or the program were fitted to it.
    Fitted,
    /// It follows from the machine, the workload and the policy.
    Predicted,
    /// Only the ranking is compared.
    Order,
    /// An input: a parameter of the paper, or a fact from which a program is built. It cannot miss.
    Given,
    /// Not computed.
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

/// The condition under which a row holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Test {
    /// Every figure is within the relative error that its kind allows.
    Near,
    /// The same for each figure's difference from 100 %; one point is also allowed.
    Loss,
    /// The same for figures that are differences themselves, in points or per cent.
    Points,
    /// Ratios of speeds: every figure is within the relative error that its kind allows, and within half of the published
    /// gain, so that no gain at all does not hold. The error of a fit is always allowed.
    Gain,
    /// No figure is above the published one.
    AtMost,
    /// No figure is below the published one.
    AtLeast,
    /// The row's own verdict.
    Own,
}

/// A difference below this, in points, is within the spread of runs. Ours: the spread was not published.
const POINT: f64 = 1.0;
/// Share of a published gain by which ours may differ. Ours.
const HALF: f64 = 0.5;

/// The result of computing a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Our figures, in the order of the published ones.
    pub ours: Vec<f64>,
    /// The verdict for [`Test::Own`].
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

/// The published figures of one measurement.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its id.
    pub id: &'static str,
    /// Title: what was measured, and the order of the figures.
    pub title: &'static str,
    /// Place of publication.
    pub source: &'static str,
    /// The figures; empty if only a statement was published.
    pub published: &'static [f64],
    /// Their unit.
    pub unit: &'static str,
    /// How each of our figures was obtained; the last entry applies to all further figures.
    pub kinds: &'static [Kind],
    /// The condition under which it holds.
    pub test: Test,
    /// Why it misses, or how to read it.
    pub note: &'static str,
    /// Whether computing it takes hours.
    pub long: bool,
    /// Computes our figures.
    pub find: Option<fn(&Lab) -> Found>,
}

/// A row of predictions, as a base for struct updates.
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
/// A row of which only the ranking is compared.
pub const ORDER: Row = Row { kinds: &[Kind::Order], test: Test::Own, ..ROW };
/// A row of inputs.
pub const GIVEN: Row = Row { kinds: &[Kind::Given], ..ROW };

impl Row {
    /// The row; without its computation if it is long and `long` is not set.
    pub(super) fn unless_long(self, long: bool) -> Self {
        Self { find: self.find.filter(|_| long || !self.long), ..self }
    }

    /// The kind of a figure.
    pub fn kind(&self, at: usize) -> Kind {
        let last = self.kinds.last().copied().unwrap_or(Kind::Predicted);
        self.kinds.get(at).copied().unwrap_or(last)
    }

    /// The kind of each figure; one kind if there are no figures.
    pub fn kinds(&self) -> Vec<Kind> {
        (0..self.published.len().max(1)).map(|at| self.kind(at)).collect()
    }

    /// Our figures beside the published ones, from the runs that the lab has so far.
    pub(super) fn outcome(&self, lab: &Lab) -> Outcome {
        let found = self.find.and_then(|find| lab.complete(find));
        // There is no result if a policy of the row is not in the list.
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
    /// The two compared quantities.
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
            Test::Near => far <= self.kind.share() * published.abs(),
            Test::Loss | Test::Points => far <= POINT.max(self.kind.share() * published.abs()),
            Test::Gain => {
                let of_gain = HALF * (published - 1.0).abs();
                far <= (self.kind.share() * published)
                    .min(of_gain.max(Kind::Fitted.share() * published))
            }
            Test::AtMost => ours <= published,
            Test::AtLeast => ours >= published,
            Test::Own => true,
        }
    }

    /// The error relative to the published figure; if a bound was published, only the part beyond it.
    fn error(&self, test: Test) -> Option<f64> {
        let [published, ours] = self.compared(test);
        let error = ours / published - 1.0;
        let in_points = matches!(test, Test::Loss | Test::Points);
        let least = if in_points { POINT } else { f64::MIN_POSITIVE };
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

    /// An error of 4 % is too much for a fit and allowed for a prediction.
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

    /// At 90 %, a tenth of the loss is one point; at 99.9 %, one point is also allowed.
    #[test]
    fn a_loss_is_judged_by_the_loss() {
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
    fn bounds_are_one_sided() {
        let find: Option<fn(&Lab) -> Found> = Some(|_| vec![2.0].into());
        let row = |published, test| outcome(Row { published, test, find, ..ROW });
        assert_eq!(row(&[3.0], Test::AtMost).holds, Some(true));
        assert_eq!(row(&[3.0], Test::AtMost).error, Some(0.0));
        assert_eq!(row(&[3.0], Test::AtLeast).holds, Some(false));
    }

    /// By hand: a gain of 1.1 allows 0.05, of 1.0 and 1.02 the 3 % of a fit, of 2.0 a tenth.
    #[test]
    fn no_gain_is_not_close_to_a_small_gain() {
        let holds = |published, ours: fn(&Lab) -> Found| {
            outcome(Row { published, test: Test::Gain, find: Some(ours), ..ROW }).holds
                == Some(true)
        };
        assert!(holds(&[1.1], |_| vec![1.06].into()));
        assert!(!holds(&[1.1], |_| vec![1.0].into()), "a tenth less, and no gain");
        assert!(holds(&[1.0, 1.02], |_| vec![1.02, 1.0].into()));
        assert!(!holds(&[1.0], |_| vec![1.04].into()));
        assert!(holds(&[2.0], |_| vec![1.81].into()));
        assert!(!holds(&[2.0], |_| vec![1.79].into()));
    }

    #[test]
    fn a_difference_may_be_one_point_off() {
        let holds = |published, ours: fn(&Lab) -> Found| {
            outcome(Row { published, test: Test::Points, find: Some(ours), ..ROW }).holds
        };
        assert_eq!(holds(&[4.0, -20.0], |_| vec![4.9, -18.1].into()), Some(true));
        assert_eq!(holds(&[4.0], |_| vec![5.1].into()), Some(false));
        assert_eq!(holds(&[-20.0], |_| vec![-17.9].into()), Some(false));
    }

    #[test]
    fn a_row_that_was_not_computed_has_no_verdict() {
        let row = Row { published: &[1.0], long: true, find: Some(|_| vec![1.0].into()), ..ROW };
        let left_out = outcome(row.unless_long(false));
        assert_eq!((left_out.holds, left_out.ours.len()), (None, 0));
        assert_eq!(left_out.kinds, [Kind::Predicted]);
        assert_eq!(outcome(row.unless_long(true)).holds, Some(true));
    }
}
