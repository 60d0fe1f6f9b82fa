// SPDX-License-Identifier: Apache-2.0
//! How much fast memory is enough: slowdown against fast memory under several policies, over several seeds.
//!
//! Slowdown is that of the program that is slowed down most over the whole run, relative to itself alone with all its
//! memory in the fastest tier. Sizes that were not run are interpolated; between two sizes the slowdown is taken to be linear.

use serde::Serialize;
use tierline_core::unit::Bytes;

use crate::error::Result;
use crate::runner::Runner;
use crate::scenario::Scenario;

/// Fast memory as parts of the programs' memory, in sixteenths; the last leaves room for what policies keep free.
const SIXTEENTHS: [u64; 9] = [1, 2, 4, 6, 8, 10, 12, 14, 17];

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The programs and the machine, under any policy.
    pub scenario: &'a Scenario,
    /// The policies; the answer is that of the first.
    pub policies: &'a [String],
    /// Seeds: the scenario's and those after it.
    pub seeds: u64,
    /// The slowdown that is accepted, as a share: 0.05 is 5 %.
    pub slowdown: f64,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// Memory of all programs.
    #[serde(rename = "memory_bytes")]
    pub memory: Bytes,
    /// One curve a policy.
    pub curves: Vec<Curve>,
}

/// Slowdown against fast memory under one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// The policy.
    pub policy: String,
    /// The least fast memory with which no seed exceeds the slowdown, nor with any more memory; `None` if even the
    /// most is too little.
    #[serde(rename = "enough_bytes")]
    pub enough: Option<Bytes>,
    /// The same in the mean of all seeds: its difference shows the uncertainty of the answer.
    #[serde(rename = "enough_in_the_mean_bytes")]
    pub enough_in_the_mean: Option<Bytes>,
    /// By fast memory, least first.
    pub points: Vec<Point>,
}

/// One size of fast memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Fast memory.
    #[serde(rename = "fast_bytes")]
    pub fast: Bytes,
    /// The slowdown as a share: 0 is the speed of fast memory. The least, the mean and the most of all seeds.
    #[serde(rename = "slowdown_share")]
    pub slowdown: [f64; 3],
}

/// Runs every policy with every size and seed. `None` if a run was not made.
///
/// # Errors
/// If the scenario is invalid.
pub fn plan(question: &Question<'_>, runner: &Runner<'_>) -> Result<Option<Answer>> {
    let arrivals = question.scenario.arrivals()?;
    let memory: Bytes = arrivals.iter().map(|arrival| arrival.program.bytes).sum();
    let sizes = SIXTEENTHS.map(|part| Bytes((memory.0 / 16 * part).max(1 << 21)));
    let mut scenarios = Vec::new();
    for policy in question.policies {
        for &fast in &sizes {
            for seed in 0..question.seeds {
                scenarios.push(Scenario {
                    policy: policy.clone(),
                    fast_capacity: Some(fast),
                    ratio: None,
                    grow: true,
                    seed: question.scenario.seed + seed,
                    ..question.scenario.clone()
                });
            }
        }
    }
    let reports = runner.run(&scenarios)?;
    let slowdown = |worst: Option<f64>| worst.unwrap_or(1.0) - 1.0;
    let slowdowns: Option<Vec<f64>> =
        reports.iter().map(|r| Some(slowdown(r.as_ref()?.overall.worst_slowdown))).collect();
    let Some(slowdowns) = slowdowns else { return Ok(None) };
    let mut of_runs = slowdowns.chunks(usize::try_from(question.seeds.max(1)).unwrap_or(1));
    let curve = |policy: &String| {
        let points = sizes.iter().zip(of_runs.by_ref());
        let points = points.map(|(&fast, runs)| Point { fast, slowdown: spread(runs) }).collect();
        Curve::new(policy, points, question.slowdown)
    };
    Ok(Some(Answer { memory, curves: question.policies.iter().map(curve).collect() }))
}

/// The least, the mean and the most.
fn spread(runs: &[f64]) -> [f64; 3] {
    let least = runs.iter().copied().fold(f64::INFINITY, f64::min);
    let most = runs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    [least, crate::arithmetic::mean(runs), most]
}

impl Curve {
    fn new(policy: &str, points: Vec<Point>, slowdown: f64) -> Self {
        Self {
            policy: policy.into(),
            enough: enough(&points, 2, slowdown),
            enough_in_the_mean: enough(&points, 1, slowdown),
            points,
        }
    }
}

/// The least size from which on one of the figures of the points stays at or below the slowdown.
fn enough(points: &[Point], figure: usize, slowdown: f64) -> Option<Bytes> {
    let fits = |point: &&Point| point.slowdown[figure] <= slowdown;
    let first = points.len() - points.iter().rev().take_while(fits).count();
    let upper = points.get(first)?;
    let Some(lower) = first.checked_sub(1).map(|at| &points[at]) else { return Some(upper.fast) };
    let (too_slow, fast_enough) = (lower.slowdown[figure], upper.slowdown[figure]);
    let way = (too_slow - slowdown) / (too_slow - fast_enough);
    Some(between(lower.fast, upper.fast, way))
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part of the bytes of one machine"
)]
fn between(lower: Bytes, upper: Bytes, way: f64) -> Bytes {
    Bytes(lower.0 + ((upper.0 - lower.0) as f64 * way).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::list::written;

    fn points(slowdowns: &[f64]) -> Vec<Point> {
        let point = |(at, &most): (u64, &f64)| Point {
            fast: Bytes((at + 1) << 30),
            slowdown: [0.0, most / 2.0, most],
        };
        (0..).zip(slowdowns).map(point).collect()
    }

    /// From 0.3 at 1 GiB to 0.1 at 2 GiB, 0.2 is half of the way; what is slower again later does not count.
    #[test]
    fn enough_is_where_the_curve_stays_below_the_slowdown() {
        let half = Bytes((1 << 30) + (1 << 29));
        assert_eq!(enough(&points(&[0.3, 0.1, 0.0]), 2, 0.2), Some(half));
        let again = enough(&points(&[0.3, 0.1, 0.4, 0.0]), 2, 0.2);
        assert_eq!(again, Some(half + Bytes(2 << 30)));
        assert_eq!(enough(&points(&[0.1, 0.0]), 2, 0.2), Some(Bytes(1 << 30)));
        assert_eq!(enough(&points(&[0.5, 0.3]), 2, 0.2), None);
        assert!(enough(&points(&[0.5, 0.3]), 1, 0.2).is_some(), "in the mean it is enough");
    }

    /// With one hot GiB of four, the bound needs little more than the hot part, and is nowhere slower than first touch.
    #[test]
    fn the_bound_needs_the_hot_part_and_never_more_than_first_touch() {
        let scenario = Scenario {
            seconds: 2.0,
            workload: vec![written("gups:set=4GiB,hot=1GiB,hot_share=1,threads=1").unwrap()],
            ..Scenario::default()
        };
        let policies = ["bound".to_string(), "first-touch".into()];
        let question =
            Question { scenario: &scenario, policies: &policies, seeds: 1, slowdown: 0.02 };
        let answer = plan(&question, &Runner::on(1)).unwrap().unwrap();
        let [bound, first_touch] = &answer.curves[..] else { panic!("two curves") };
        let gib = |bytes: Option<Bytes>| bytes.unwrap().0 >> 20;
        assert!((900..=1100).contains(&gib(bound.enough)), "{:?}", bound.enough);
        assert!(gib(first_touch.enough) > 2 * gib(bound.enough), "{:?}", first_touch.enough);
        for (least, more) in bound.points.iter().zip(&first_touch.points) {
            assert!(least.slowdown[2] <= more.slowdown[0] + 0.005, "{least:?} {more:?}");
        }
    }
}
