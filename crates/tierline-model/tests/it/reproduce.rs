// SPDX-License-Identifier: Apache-2.0
//! The scoreboard and comparisons.

use std::collections::BTreeSet;

use tierline_core::unit::Nanos;
use tierline_model::cell::{Cell, NoFiles, Ratio};
use tierline_model::compare::{ComparedRun, OpenCell, compare, product};
use tierline_model::error::Error;
use tierline_model::parallel::Observer;
use tierline_model::reproduce::{Kind, Lab, Outcome, compute, rows, select};
use tierline_model::runner::Runner;

fn outcomes(ids: &[&str], threads: usize) -> Vec<Outcome> {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    compute(&select(&ids, false).unwrap(), &mut Lab::default(), &Runner::on(threads)).unwrap()
}

#[test]
fn every_row_of_the_targets_is_listed_once() {
    let ids: BTreeSet<&str> = rows().map(|row| row.id).collect();
    assert_eq!(ids.len(), rows().count(), "an id is given twice");
    for (paper, count) in [("C-", 31), ("N-", 20), ("A-", 16), ("T-", 26), ("M-", 15)] {
        let listed = ids.iter().filter(|id| id.starts_with(paper)).count();
        assert!(listed >= count, "{paper}: {listed} of {count}");
    }
    for row in rows() {
        assert_eq!(row.find.is_none(), row.kinds == [Kind::NotYet], "{}", row.id);
        assert!(row.kinds.len() <= row.published.len().max(1), "{}: kinds of no figure", row.id);
        let complete = ["C-", "M-"].iter().any(|paper| row.id.starts_with(paper));
        assert!(row.find.is_some() || !complete, "{}", row.id);
    }
}

/// The antagonist alone is fitted; the parameters are those of the paper.
#[test]
fn rows_fitted_to_bandwidth_and_given_rows_hold() {
    let outcomes = outcomes(&["C-BW", "C-PAR"], 1);
    assert_eq!(outcomes.len(), 2);
    for outcome in outcomes {
        assert_eq!(outcome.holds, Some(true), "{outcome:?}");
        assert!(outcome.error.is_some_and(|error| error.abs() < 0.03), "{outcome:?}");
        assert_eq!(outcome.counts(), outcome.id == "C-BW", "inputs are no evidence");
    }
}

#[test]
fn rows_are_the_same_on_one_and_on_two_threads() {
    let rows = ["C-BW", "N-F3a", "M-F2"];
    assert_eq!(outcomes(&rows, 1), outcomes(&rows, 2));
}

#[test]
fn a_row_that_is_not_computed_says_so_and_an_unknown_row_is_refused() {
    let [row] = &outcomes(&["N-HW"], 1)[..] else { panic!("one row") };
    assert_eq!((&row.kinds[..], row.holds), (&[Kind::NotYet; 2][..], None));
    assert!(row.ours.is_empty());
    assert!(!row.is_computable() && !row.counts());
    let error = select(&["C-F77".into()], false).unwrap_err().to_string();
    assert!(error.contains("C-F77"), "{error}");
}

#[test]
fn an_id_selects_one_row_and_with_a_star_all_with_that_prefix() {
    let ids = |id: &str| {
        let rows = select(&[id.into()], false);
        rows.map(|rows| rows.iter().map(|row| row.id).collect::<Vec<_>>())
    };
    assert_eq!(ids("C-F10").unwrap(), ["C-F10"]);
    assert_eq!(ids("C-F10*").unwrap(), ["C-F10"]);
    assert_eq!(ids("C-F11b*").unwrap(), ["C-F11b", "C-F11b-AE"]);
    assert_eq!(ids("C-F1-1x").unwrap(), ["C-F1-1x"], "and not C-F1-1x-others");
    let Err(Error::Unknown { known, .. }) = ids("C-F1") else { panic!("there is no such row") };
    assert_eq!(known, ["C-F1*"]);
    assert!(ids("C-F55*").is_err());
}

/// A row without runs has no figures; a row with stored runs needs none.
#[test]
fn a_row_without_its_runs_has_no_figures() {
    struct Stop;
    impl Observer for Stop {
        fn begin(&self, runs: usize, cpu: Nanos) {
            assert!(runs > 0 && cpu > Nanos::ZERO);
        }
        fn done(&self, _: usize, _: usize) {
            panic!("a run began");
        }
        fn stops(&self) -> bool {
            true
        }
    }
    let rows = select(&["C-BW".into(), "C-PAR".into()], false).unwrap();
    let runner = Runner { observer: &Stop, ..Runner::on(2) };
    let outcomes = compute(&rows, &mut Lab::default(), &runner).unwrap();
    assert_eq!((outcomes[0].holds, outcomes[0].ours.len()), (None, 0));
    assert!(outcomes[0].is_computable());
    assert_eq!(outcomes[1].holds, Some(true), "it needs no run");
}

/// Rows that hold, and whose runs take a minute or two in total.
const QUICK: &[&str] = &[
    "C-BW",
    "C-F1-1x",
    "C-F1-2x-HeMem",
    "C-F1-3x",
    "C-F1-GUPS0x",
    "C-F2a-unl",
    "C-F2a-0x3x",
    "C-F8-mlp",
    "T-T1-DW-21",
    "T-S632",
    "A-F8",
    "A-ovh",
];

/// The other rows that hold; they take an hour of CPU time in total.
const SLOW: &[&str] = &["A-F1", "A-F11", "A-F2", "A-F3", "T-T1-order", "T-head", "T-counters"];

#[test]
fn every_fitted_row_is_guarded() {
    let guarded: Vec<&str> = [QUICK, SLOW].concat();
    let distinct: BTreeSet<&&str> = guarded.iter().collect();
    assert_eq!(distinct.len(), guarded.len(), "a row is listed twice");
    for id in &guarded {
        assert!(rows().any(|row| row.id == *id && row.find.is_some()), "{id}");
    }
    for row in rows().filter(|row| row.kinds().iter().all(|&kind| kind == Kind::Fitted)) {
        assert!(guarded.contains(&row.id), "{}", row.id);
    }
}

#[test]
#[ignore = "a minute or two: ./test runs it, optimised"]
fn scoreboard_quick_rows_hold() {
    for outcome in outcomes(QUICK, 2) {
        assert_eq!(outcome.holds, Some(true), "{outcome:?}");
    }
}

/// A row that no longer holds, or that holds now, requires a change in a list above.
#[test]
#[ignore = "an hour of CPU time: ./test --long runs it, optimised"]
fn scoreboard_rows_hold_and_miss_as_listed() {
    let mut wrong = Vec::new();
    for outcome in outcomes(&[], 2).into_iter().filter(Outcome::counts) {
        let listed = QUICK.contains(&outcome.id) || SLOW.contains(&outcome.id);
        println!("{:18} {:?} {:?}", outcome.id, outcome.error, outcome.holds);
        if outcome.holds != Some(listed) {
            wrong.push(outcome);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn entries(threads: usize) -> Vec<ComparedRun> {
    let names = |names: [&str; 2]| names.map(String::from);
    let like = Cell { seconds: Some(8.0), seed: Some(3), ..Cell::default() };
    let cells = product(
        &names(["colloid-icx", "ddr5-cxl-asic"]),
        &names(["gups:set=3GiB,hot=1GiB,jump=3s", "kv:set=2GiB"]),
        &[(1, 1), (1, 2)].map(Ratio::from),
        &like,
    );
    let cells = OpenCell::all(cells, &NoFiles).unwrap();
    compare(&names(["first-touch", "oracle"]), &cells, &Runner::on(threads)).unwrap()
}

#[test]
fn a_comparison_is_the_same_on_two_threads_and_marks_one_best_per_field() {
    let all = entries(1);
    assert_eq!(all, entries(2));
    assert_eq!(all.len(), 2 * 2 * 2 * 2);
    for field in all.chunks(2) {
        let [first, oracle] = field else { panic!("two policies") };
        assert_eq!((first.policy.as_str(), oracle.policy.as_str()), ("first-touch", "oracle"));
        assert!(oracle.fast_share > first.fast_share, "{field:?}");
        assert_eq!(first.relative_to_best, 1.0, "references are not counted: {field:?}");
        assert!(first.migrated_bytes == 0 && oracle.migrated_bytes > 0, "{field:?}");
        let jumps = first.workload.contains("jump");
        assert_eq!(oracle.recovery_seconds.is_some(), jumps, "{oracle:?}");
    }
    let slow = &all[2];
    assert_eq!(slow.ratio.as_deref(), Some("1:2"));
    assert!(slow.fast_share < all[0].fast_share, "less fast memory serves less");
}

/// Every managed program counts, and so does its share of what a placement can gain.
#[test]
fn the_gain_is_that_of_all_programs_and_the_bound_has_all_of_it() {
    let workload = "gups:set=1GiB,hot=256MiB,threads=2+gups:set=3GiB,hot=512MiB,threads=12";
    let like = Cell { seconds: Some(4.0), ratio: Some(Ratio::from((1, 1))), ..Cell::default() };
    let cell = Cell { programs: Cell::new(None, workload).programs, ..like };
    let cells = OpenCell::all(vec![cell], &NoFiles).unwrap();
    let policies = ["first-touch", "tierline", "bound"].map(String::from);
    let ran = compare(&policies, &cells, &Runner::on(1)).unwrap();
    let [first_touch, default, bound] = &ran[..] else { panic!("three policies") };
    assert_eq!((first_touch.share_of_gain, bound.share_of_gain), (Some(0.0), Some(1.0)));
    let gain = (default.progress - first_touch.progress) / (bound.progress - first_touch.progress);
    assert!(default.share_of_gain.is_some_and(|share| (share - gain).abs() < 1e-9), "{default:?}");
    assert!(gain > 0.1 && gain <= 1.005, "{gain}");
    // Two programs that are managed all the time: their speed-ups add up to the progress.
    assert!((default.weighted_speedup - default.progress).abs() < 1e-6, "{default:?}");
    assert!((1.0..2.01).contains(&bound.progress), "{bound:?}");
}
