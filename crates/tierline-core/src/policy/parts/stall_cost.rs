// SPDX-License-Identifier: Apache-2.0
//! What an access costs its program, by how long it stalls the program's threads.
//!
//! A program with many reads in flight hardly waits for any one of them. By how much one more second of latency a second
//! slows a program down is the cost of its accesses; the access rates of pages are weighted with it, so that what is
//! compared is the speed that programs gain. Each program counts the same, however many threads it has.
//!
//! The cost comes from two sources:
//!
//! - the cores' counters of stalls, where there are such ([`crate::port::SpaceStalls`]); they can be wrong by some factor;
//! - what was observed: the time between two accesses of a program grows with the mean latency of its accesses, and the
//!   slope of this line is the cost. It is known once placement or load have changed the latency by more than the
//!   noise of samples, as they do when the policy moves pages. So wrong counters correct themselves by the moves that
//!   they cause.
//!
//! Both come with bounds, and of the weights within them the one nearest to one is used. So a difference that is in doubt
//! changes nothing, nor does a program of which nothing is known. One program alone has the weight one.
//!
//! An access also delays others, by the queue that it stands in. A weight is what an access gains by being served in fast
//! memory, its own latency at its cost and that of others at theirs, over the same of an access of mean cost.
//!
//! Source: rates weighted by stalls follow PACT (ASPLOS 2026) and Soar (OSDI 2025). Ours: the cost per program,
//! its slope as observed, and the bounds.

use std::collections::{BTreeMap, BTreeSet};

use crate::page::PageIdx;
use crate::policy::goal::Goal;
use crate::policy::view::{Memory, View};
use crate::port::{PageSize, SpaceId};
use crate::tier::TierId;
use crate::unit::Nanos;

/// Time in which one point of the line is observed.
const POINT: Nanos = Nanos::from_millis(500);
/// Points remembered: half a minute. Points before a slope is believed.
const POINTS: [f64; 2] = [60.0, 5.0];
/// The factor by which the counters of two programs may be wrong in opposite directions.
const COUNTED: f64 = 2.0;
/// A slope is believed up to this relative deviation, and never more closely than the other.
const BELIEVED: [f64; 2] = [0.3, 0.05];
/// Deviations from the slope to its bounds.
const DEVIATIONS: f64 = 2.0;
/// The variance of latencies by places must be this many times that by chance.
const CLEAR: f64 = 8.0;
/// The least cost, as a part of what it would be if the program did nothing but wait.
const LEAST: f64 = 0.02;
/// The factor that a weight is, or is over, at most.
const MOST: f64 = 32.0;
/// Samples of a point, at least.
const SAMPLES: f64 = 20.0;

/// The weights of all programs; empty while all count the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weights(BTreeMap<SpaceId, f32>);

impl Weights {
    /// All programs count the same.
    pub const EQUAL: Self = Self(BTreeMap::new());

    /// Whether all programs count the same.
    pub fn are_equal(&self) -> bool {
        self.0.is_empty()
    }

    /// Multiplies the weight of a program.
    #[expect(clippy::cast_possible_truncation, reason = "weights are f32, as rates")]
    pub fn multiply(&mut self, space: SpaceId, factor: f64) {
        *self.0.entry(space).or_insert(1.0) *= factor as f32;
    }

    /// The factor on the access rate of a page.
    pub fn of(&self, memory: &Memory<'_>, page: PageIdx) -> f32 {
        if self.are_equal() {
            return 1.0;
        }
        let Some(at) = memory.pages.locate(page) else { return 1.0 };
        self.0.get(&at.space).copied().unwrap_or(1.0)
    }
}

/// A cost with its bounds, in seconds of the program's time per second of latency.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    likely: f64,
    /// The factor to either bound.
    within: f64,
}

/// The line of time between accesses over their latency, exponentially weighted.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    points: f64,
    latency: f64,
    time: f64,
    latency_variance: f64,
    time_variance: f64,
    covariance: f64,
    /// Variance of the latency by the chance of samples.
    noise: f64,
}

impl Line {
    fn add(&mut self, latency: f64, time: f64, noise: f64) {
        self.points = (self.points + 1.0).min(POINTS[0]);
        let weight = 1.0 / self.points;
        let (x, y) = (latency - self.latency, time - self.time);
        self.latency += weight * x;
        self.time += weight * y;
        let rest = 1.0 - weight;
        self.latency_variance = rest * (self.latency_variance + weight * x * x);
        self.time_variance = rest * (self.time_variance + weight * y * y);
        self.covariance = rest * (self.covariance + weight * x * y);
        self.noise += weight * (noise - self.noise);
    }

    /// The slope, if it is clear.
    fn cost(&self) -> Option<Cost> {
        let variance = self.latency_variance - self.noise;
        if self.points < POINTS[1] || self.latency_variance < CLEAR * self.noise || variance <= 0.0
        {
            return None;
        }
        let most = self.time / self.latency;
        let slope = (self.covariance / variance).clamp(LEAST * most, most);
        let unexplained = (self.time_variance - slope * self.covariance).max(0.0);
        let deviation = (unexplained / (variance * (self.points - 2.0))).sqrt() / slope;
        let deviation = deviation.max(BELIEVED[1]);
        (deviation <= BELIEVED[0])
            .then_some(Cost { likely: slope, within: 1.0 + DEVIATIONS * deviation })
    }
}

/// One program, as an address space.
#[derive(Clone, Copy, Debug)]
struct Program {
    space: SpaceId,
    line: Line,
    /// The cost by counters, averaged; zero without counters.
    counted: f64,
    /// Accesses per second, by tier.
    rates: [f64; TierId::MAX],
    /// Since the last point.
    samples: [f64; TierId::MAX],
    /// The sum of their latencies, and of the variances of these by chance.
    sums: [f64; 2],
}

impl Program {
    fn new(space: SpaceId) -> Self {
        let none = [0.0; TierId::MAX];
        Self {
            space,
            line: Line::default(),
            counted: 0.0,
            rates: none,
            samples: none,
            sums: [0.0; 2],
        }
    }

    fn rate(&self) -> f64 {
        self.rates.iter().sum()
    }

    fn cost(&self) -> Option<Cost> {
        let counted =
            || (self.counted > 0.0).then_some(Cost { likely: self.counted, within: COUNTED });
        self.line.cost().or_else(counted)
    }
}

/// The costs of all programs.
#[derive(Clone, Debug, Default)]
pub struct StallCosts {
    /// By address space.
    programs: Vec<Program>,
    watched: f64,
    began: Nanos,
    weights: Weights,
}

impl StallCosts {
    /// The weights.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Takes in one tick.
    pub fn update(&mut self, view: &View<'_>, goal: &dyn Goal) {
        self.take_samples(view);
        if view.now.saturating_sub(self.began) < POINT {
            return;
        }
        self.began = view.now;
        let watched = std::mem::take(&mut self.watched);
        for program in &mut self.programs {
            let [latency, noise] = std::mem::take(&mut program.sums);
            let by_tier = std::mem::take(&mut program.samples);
            let samples: f64 = by_tier.iter().sum();
            if watched > 0.0 {
                program.rates = by_tier.map(|samples| samples / watched);
            }
            if samples >= SAMPLES && latency > 0.0 {
                program.line.add(latency / samples, watched / samples, noise / (samples * samples));
            }
        }
        self.take_counters(view);
        let managed: BTreeSet<SpaceId> = view.memory.pages.spaces().collect();
        self.programs.retain(|program| managed.contains(&program.space));
        self.weights = weights(&self.programs, |tier_costs| Exchange::of(view, goal, tier_costs));
    }

    /// Adds the samples of a tick. Scans see a page at most once, so they do not tell how often it was accessed.
    fn take_samples(&mut self, view: &View<'_>) {
        let hotness = view.memory.hotness;
        if view.evidence.watched == Nanos::ZERO
            || hotness.is_timed()
            || hotness.ceiling_per_sec(PageSize::Base).is_finite()
        {
            return;
        }
        let latency = |tier: &crate::port::TierTelemetry| tier.latency.map(|it| it.as_secs_f64());
        self.watched += view.evidence.watched.as_secs_f64();
        for of in view.evidence.hits_of {
            let program = self.program(of.space);
            let (mut hits, mut mean, mut square) = (0.0, 0.0, 0.0);
            for (t, &in_tier) in of.by_tier.iter().enumerate().filter(|(_, hits)| **hits > 0.0) {
                hits += in_tier;
                program.samples[t] += in_tier;
                let Some(seconds) = view.machine.telemetry.tiers.get(t).and_then(latency) else {
                    continue;
                };
                mean += in_tier * seconds;
                square += in_tier * seconds * seconds;
            }
            let variance = (square - mean * mean / hits.max(1.0)).max(0.0);
            program.sums[0] += mean;
            program.sums[1] += variance;
        }
    }

    fn take_counters(&mut self, view: &View<'_>) {
        for of in &view.machine.telemetry.stalls {
            let Some(cost) = of.cost() else { continue };
            let program = self.program(of.space);
            let weight = if program.counted > 0.0 { 0.2 } else { 1.0 };
            program.counted += weight * (cost - program.counted);
            if program.rate() == 0.0 {
                program.rates[TierId::FAST.index()] = of.reads_per_sec;
            }
        }
    }

    fn program(&mut self, space: SpaceId) -> &mut Program {
        let known = self.programs.binary_search_by_key(&space, |program| program.space);
        let at = known.unwrap_or_else(|at| {
            self.programs.insert(at, Program::new(space));
            at
        });
        &mut self.programs[at]
    }
}

/// What an access gains in the fastest tier instead of those below, in seconds of the mean cost.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    /// By its own latency.
    own: f64,
    /// By the latency that it adds to other accesses.
    others: f64,
}

impl Exchange {
    /// Of the tiers below, each counts by its reads. `costs` is the mean cost of the accesses to each tier.
    fn of(view: &View<'_>, goal: &dyn Goal, costs: &[f64; TierId::MAX]) -> Option<Self> {
        let of = |tier: TierId| {
            let measured = view.machine.telemetry.tiers.get(tier.index())?;
            let others = goal.queueing_of_others_secs(view, tier) * costs[tier.index()];
            Some((measured.reads_per_sec?, measured.latency?.as_secs_f64(), others))
        };
        let (_, latency, others) = of(TierId::FAST)?;
        let mut below = [0.0; 3];
        for tier in (1..=view.machine.tiers.slowest().0).map(TierId) {
            let Some((reads, latency, others)) = of(tier) else { continue };
            below = [below[0] + reads, below[1] + reads * latency, below[2] + reads * others];
        }
        let [reads, below, of_others] = below;
        (reads > 0.0)
            .then(|| Self { own: below / reads - latency, others: of_others / reads - others })
    }

    /// The factor on the rate of a program whose accesses cost this much, relative to the mean.
    fn weight(self, cost: f64) -> f64 {
        let (gain, mean) = (cost * self.own + self.others, self.own + self.others);
        let more = |part: f64, whole: f64| (part / whole).clamp(1.0 / MOST, MOST);
        if mean > 0.0 { more(gain, mean) } else { 1.0 / more(-gain, -mean) }
    }
}

/// The weights: what an access of a program gains in fast memory, relative to an access of mean cost.
#[expect(clippy::cast_possible_truncation, reason = "weights are f32, as rates")]
fn weights(
    programs: &[Program],
    exchange: impl Fn(&[f64; TierId::MAX]) -> Option<Exchange>,
) -> Weights {
    let known = programs.iter().filter_map(|program| Some((program, program.cost()?)));
    let known: Vec<(&Program, Cost)> = known.filter(|(program, _)| program.rate() > 0.0).collect();
    if known.len() < 2 {
        return Weights::default();
    }
    let all: f64 = known.iter().map(|(program, _)| program.rate()).sum();
    let mean = known.iter().map(|(program, cost)| program.rate() * cost.likely).sum::<f64>() / all;
    let costs =
        known.iter().map(|(program, cost)| (program, nearest(cost.likely / mean, cost.within)));
    let costs: Vec<(&&Program, f64)> = costs.collect();
    let of_tier = |tier: usize| {
        let both = costs.iter().map(|(program, cost)| (program.rates[tier], cost));
        let (all, sum) =
            both.fold((0.0, 0.0), |(all, sum), (rate, cost)| (all + rate, sum + rate * cost));
        if all > 0.0 { sum / all } else { 1.0 }
    };
    let Some(exchange) = exchange(&std::array::from_fn(of_tier)) else { return Weights::default() };
    let weighted =
        costs.iter().map(|(program, cost)| (program.space, exchange.weight(*cost) as f32));
    Weights(weighted.filter(|(_, weight)| *weight != 1.0).collect())
}

/// The weight within its bounds that is nearest to one: a difference that is in doubt changes nothing.
fn nearest(likely: f64, within: f64) -> f64 {
    1.0f64.clamp(likely / within, likely * within)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn program(space: u32, places: f64, think_ns: f64, latencies_ns: &[f64]) -> Program {
        let mut line = Line::default();
        for &latency_ns in latencies_ns {
            let time_ns = (think_ns + latency_ns) / places;
            line.add(latency_ns * 1e-9, time_ns * 1e-9, 0.0);
        }
        let mut program = Program { line, ..Program::new(SpaceId(space)) };
        program.rates[0] = 1.0 / line.time;
        program
    }

    const FALLING: [f64; 6] = [240.0, 220.0, 200.0, 180.0, 160.0, 140.0];

    proptest! {
        /// A closed loop: the time between reads is (think + latency)/places, so a read costs one over its places.
        #[test]
        fn the_cost_is_one_over_the_places(places in 1.0f64..40.0, think_ns in 0.0f64..2000.0) {
            let cost = program(1, places, think_ns, &FALLING).cost().unwrap();
            prop_assert!((cost.likely * places - 1.0).abs() < 1e-6, "{cost:?}");
        }
    }

    #[test]
    fn a_constant_latency_says_nothing_and_counters_stand_in() {
        let mut still = program(1, 4.0, 100.0, &[200.0; 8]);
        assert_eq!(still.cost(), None);
        still.counted = 0.25;
        assert_eq!(still.cost(), Some(Cost { likely: 0.25, within: COUNTED }));
    }

    /// Counters wrong by four are overruled by what was observed.
    #[test]
    fn what_was_observed_overrules_counters() {
        let mut moved = program(1, 4.0, 100.0, &FALLING);
        moved.counted = 1.0;
        assert!((moved.cost().unwrap().likely - 0.25).abs() < 1e-6);
    }

    /// Equal rates; the costs are 1 and 0.1, their mean 0.55.
    #[test]
    fn weights_are_relative_to_the_mean_and_within_their_bounds() {
        let (chaser, stream) = (program(1, 1.0, 0.0, &FALLING), program(2, 10.0, 1710.0, &FALLING));
        assert!((chaser.rate() / stream.rate() - 1.0).abs() < 1e-9);
        let alone = |_: &[f64; TierId::MAX]| Some(Exchange { own: 1e-7, others: 0.0 });
        let both = weights(&[chaser, stream], alone);
        let weights_of: Vec<f32> = both.0.values().copied().collect();
        // Their slopes are exact, and believed to five per cent, twice.
        let expected = [1.0 / 0.55 / 1.1, 0.1 / 0.55 * 1.1];
        assert!(weights_of.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4), "{both:?}");
        assert!(weights(&[chaser], alone).are_equal(), "one program alone");
        let unknown = program(3, 2.0, 0.0, &[200.0; 8]);
        assert!(weights(&[chaser, unknown], alone).are_equal(), "nothing is known of the other");
    }

    /// The more an access delays others, the less its own wait counts. While accesses gain by leaving fast memory, those
    /// that hardly wait leave first.
    #[test]
    fn a_weight_is_the_gain_over_that_of_a_mean_access() {
        let of = |own, others| [2.0, 0.1].map(|cost| Exchange { own, others }.weight(cost));
        let near = |of: [f64; 2], expected: [f64; 2]| {
            assert!((of[0] - expected[0]).abs() + (of[1] - expected[1]).abs() < 1e-9, "{of:?}");
        };
        near(of(1.0, 0.0), [2.0, 0.1]);
        near(of(1.0, 1.0), [1.5, 0.55]);
        near(of(1.0, -1.5), [MOST, 1.0 / 2.8]);
    }
}
