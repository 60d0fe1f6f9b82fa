// SPDX-License-Identifier: Apache-2.0
//! colloid: balance the tiers' loaded latencies.
//!
//! What it does: measures every tier's loaded latency by Little's law, L = O/R, from its reads in flight and
//! its reads per second, both averaged exponentially. While the upper tier is faster, its policy moves accesses
//! up, else down: as many as halve the interval that contains the point of equal latency (ComputeShift, see
//! shift.rs), and at most the bytes that the shifted accesses would carry in the quantum, Δp·(R_D + R_A)·64·t.
//! With more than two tiers, each is balanced against all those below it. If no tier is measured, it packs.
//!
//! When it helps: when fast memory is loaded enough that its latency exceeds that of slower memory.
//!
//! When it hurts: accesses that are slow for another reason than load (a far socket, prefetching) count as
//! load; and each quantum is judged by averages over about sixteen quanta.
//!
//! Knobs: epsilon (0.01), delta (0.05), weight (1/16 in 10 ms), closed_form (0), idle_reads_per_sec, marginal (0),
//! rest (0).
//!
//! Where it comes from: Colloid (SOSP 2024), sections 3.1 and 3.2, Algorithms 1 and 2. The average's weight is
//! from its public code, as the paper gives none. Ours: the idle floor, the unloaded latency for a tier without
//! reads, and packing without measurements.

use super::shift::{SearchBounds, closed_form};
use super::{Aim, Goal, Shift};
use crate::knob::Knob;
use crate::knobs;
use crate::policy::view::View;
use crate::port::TierTelemetry;
use crate::tier::{TierId, Tiers};
use crate::unit::{Bytes, Nanos};

/// Bytes per read.
const LINE: f64 = 64.0;
/// The interval to which the knob `weight` applies.
const WEIGHT_TIME: Nanos = Nanos::from_millis(10);
/// Below this rate, reads in flight over reads per second is no usable latency.
const FEW_READS_PER_SEC: f64 = 1.0;

knobs! {
    /// The knobs.
    pub struct BalanceKnobs {
        /// Width of the search interval below which it counts as closed.
        epsilon: f64 = 0.01, 0.001, 0.1;
        /// Difference of latencies below which they count as equal, as a share of the upper tier's.
        delta: f64 = 0.05, 0.01, 0.2;
        /// Weight of the newest 10 ms in the averages.
        weight: f64 = 0.0625, 0.01, 1.0;
        /// Use the step of the public HeMem code instead of the paper's search.
        closed_form: bool = false, false, true;
        /// Weight of the excess over the unloaded latency, added as the cost to other accesses.
        marginal: f64 = 0.0, 0.0, 8.0;
        /// Pause before a shift that reverses the one before; 0: none.
        rest: Nanos = Nanos::ZERO, Nanos::ZERO, Nanos::from_secs(10);
        /// Below this many reads per second nothing is balanced.
        idle_reads_per_sec: f64 = 1e4, 0.0, 1e7;
    }
}

/// Reads in flight and reads per second, averaged.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    occupancy: f64,
    reads_per_sec: f64,
    /// The reads per second that were observed of the managed programs.
    own_per_sec: f64,
}

impl Flow {
    /// The flow of a tier from its telemetry; a world that measures latency directly gives no occupancy.
    fn of(tier: &TierTelemetry) -> Option<Self> {
        let reads_per_sec = tier.reads_per_sec?;
        let little = || tier.latency.map(|latency| latency.as_secs_f64() * reads_per_sec);
        let occupancy = tier.occupancy.or_else(little)?;
        let flow = Self { occupancy, reads_per_sec, own_per_sec: 0.0 };
        let sound = |x: f64| x.is_finite() && x >= 0.0;
        (sound(flow.occupancy) && sound(flow.reads_per_sec)).then_some(flow)
    }

    /// Little's law, in nanoseconds; a tier without reads has its unloaded latency.
    fn latency_ns(self, unloaded: f64) -> f64 {
        if self.reads_per_sec < FEW_READS_PER_SEC {
            return unloaded;
        }
        self.occupancy / self.reads_per_sec * 1e9
    }
}

/// The direction of a tier's shifts.
///
/// Moves load the tiers that they balance. Where slow memory has little bandwidth, this load looks like that of
/// programs, and shifts follow each other up and down without end. So a shift that reverses the one before waits until
/// the averages have forgotten the moves. (Ours.)
#[derive(Clone, Copy, Debug, Default)]
struct Direction {
    up: Option<bool>,
    rests_until: Nanos,
}

impl Direction {
    fn rests(&self, now: Nanos) -> bool {
        now < self.rests_until
    }

    /// Whether a shift may begin now; a reversal begins a pause instead.
    fn admits(&mut self, now: Nanos, up: bool, rest: Nanos) -> bool {
        let reverses = self.up.replace(up).is_some_and(|before| before != up);
        if reverses {
            self.rests_until = now + rest;
        }
        !self.rests(now)
    }
}

/// The goal.
#[derive(Debug, Default)]
pub struct Balance {
    knobs: BalanceKnobs,
    flows: Vec<Flow>,
    /// One search per tier, against all those below it.
    searches: Vec<SearchBounds>,
    /// One per tier.
    directions: Vec<Direction>,
    measured_at: Option<Nanos>,
    /// Whether the last measurement covered all tiers.
    current: bool,
}

impl Balance {
    /// Balances the marginal costs of accesses instead of latencies (ours). At equal latencies no single access
    /// gains by moving, but the mean latency is not the least: the tier whose queue grows faster is too full.
    /// In all published curves queueing grows at least with the square of the load; the square is assumed. It rests
    /// after a reversal until its averages have forgotten 96 % ([`Direction`]).
    pub fn of_marginals() -> Self {
        let knobs = BalanceKnobs {
            marginal: 2.0,
            rest: Nanos::from_millis(500),
            idle_reads_per_sec: 0.0,
            ..BalanceKnobs::default()
        };
        Self { knobs, ..Self::default() }
    }

    /// Weight of a measurement made `passed` after the last: the odds w/(1−w) for 10 ms, scaled with time.
    /// Exact for 10 ms, and in basic arithmetic only, so that it is the same on every machine.
    fn weight(&self, passed: Nanos) -> f64 {
        if self.knobs.weight >= 1.0 {
            return 1.0;
        }
        let odds = self.knobs.weight / (1.0 - self.knobs.weight);
        let scaled = odds * (passed.as_secs_f64() / WEIGHT_TIME.as_secs_f64());
        scaled / (1.0 + scaled)
    }

    fn latency_ns(&self, tiers: &Tiers, tier: usize) -> f64 {
        self.flows[tier].latency_ns(unloaded_ns(tiers, tier))
    }

    /// What one more access costs the managed programs: its own latency plus the latency it adds to their other
    /// accesses. With an excess over the unloaded latency of e(R) = c·R^k, the second part is r·de/dR =
    /// k·e·r/R, for r of all R accesses.
    fn cost_ns(&self, flow: Flow, unloaded_ns: f64) -> f64 {
        flow.latency_ns(unloaded_ns) + self.cost_to_others_ns(flow, unloaded_ns)
    }

    fn cost_to_others_ns(&self, flow: Flow, unloaded_ns: f64) -> f64 {
        let own = (flow.own_per_sec / flow.reads_per_sec.max(FEW_READS_PER_SEC)).min(1.0);
        self.knobs.marginal * own * (flow.latency_ns(unloaded_ns) - unloaded_ns).max(0.0)
    }

    /// The mean unloaded latency of the tiers below, weighted by their reads.
    fn unloaded_below_ns(&self, tiers: &Tiers, tier: usize) -> f64 {
        let below = || (tier + 1..self.flows.len()).map(|t| (t, self.flows[t].reads_per_sec));
        let reads: f64 = below().map(|(_, reads)| reads).sum();
        if reads < FEW_READS_PER_SEC {
            return unloaded_ns(tiers, tier + 1);
        }
        below().map(|(t, share)| share * unloaded_ns(tiers, t)).sum::<f64>() / reads
    }

    /// Balances one tier against all those below it.
    fn balance(&mut self, tiers: &Tiers, tier: usize, passed: Nanos) -> Option<Shift> {
        let all: f64 = self.flows.iter().map(|flow| flow.reads_per_sec).sum();
        let (upper, below) = (self.flows[tier], &self.flows[tier + 1..]);
        let lower = below.iter().fold(Flow::default(), |a, b| Flow {
            occupancy: a.occupancy + b.occupancy,
            reads_per_sec: a.reads_per_sec + b.reads_per_sec,
            own_per_sec: a.own_per_sec + b.own_per_sec,
        });
        let reads_per_sec = upper.reads_per_sec + lower.reads_per_sec;
        if reads_per_sec < self.knobs.idle_reads_per_sec.max(FEW_READS_PER_SEC) {
            return None;
        }
        let p = upper.reads_per_sec / reads_per_sec;
        let upper_ns = self.cost_ns(upper, unloaded_ns(tiers, tier));
        let lower_ns = self.cost_ns(lower, self.unloaded_below_ns(tiers, tier));
        let BalanceKnobs { epsilon, delta, .. } = self.knobs;
        let step = match self.knobs.closed_form {
            true => closed_form(p, upper_ns, lower_ns),
            false => self.searches[tier].shift(p, upper_ns, lower_ns, epsilon, delta),
        };
        let up = upper_ns < lower_ns;
        let mut below: Vec<usize> = (tier + 1..self.flows.len()).collect();
        below.sort_by(|&a, &b| {
            let order = self.latency_ns(tiers, a).total_cmp(&self.latency_ns(tiers, b));
            if up { order.reverse() } else { order }
        });
        let carried = step * reads_per_sec * LINE * passed.as_secs_f64();
        let shift = Shift {
            tier: id(tier),
            up,
            below: below.into_iter().map(id).collect(),
            share: step * reads_per_sec / all,
            bytes: bytes(carried),
            reads_per_sec: all,
        };
        (shift.share > 0.0).then_some(shift)
    }
}

impl Goal for Balance {
    fn update(&mut self, view: &View<'_>) {
        let measured: Option<Vec<Flow>> =
            view.machine.telemetry.tiers.iter().map(Flow::of).collect();
        self.current = measured.is_some();
        let Some(measured) = measured else { return };
        let weight = match self.measured_at {
            Some(last) => self.weight(view.now.saturating_sub(last)),
            None => 1.0,
        };
        self.measured_at = Some(view.now);
        self.flows.resize(measured.len(), Flow::default());
        self.searches.resize(measured.len(), SearchBounds::default());
        self.directions.resize(measured.len(), Direction::default());
        for (flow, new) in self.flows.iter_mut().zip(measured) {
            flow.occupancy += weight * (new.occupancy - flow.occupancy);
            flow.reads_per_sec += weight * (new.reads_per_sec - flow.reads_per_sec);
        }
        if view.evidence.watched > Nanos::ZERO {
            let watched = view.evidence.watched.as_secs_f64();
            for (flow, hits) in self.flows.iter_mut().zip(view.evidence.hits_in) {
                flow.own_per_sec += weight * (hits / watched - flow.own_per_sec);
            }
        }
    }

    fn aim(&mut self, view: &View<'_>, passed: Nanos) -> Aim {
        if self.measured_at.is_none() {
            return Aim::Pack;
        }
        let upper_tiers = if self.current { self.flows.len().saturating_sub(1) } else { 0 };
        let shifts = (0..upper_tiers).filter_map(|tier| {
            if self.directions[tier].rests(view.now) {
                return None;
            }
            let shift = self.balance(view.machine.tiers, tier, passed)?;
            self.directions[tier].admits(view.now, shift.up, self.knobs.rest).then_some(shift)
        });
        Aim::Shift(shifts.collect())
    }

    fn queueing_secs(&self, view: &View<'_>, tier: TierId) -> f64 {
        let unloaded = unloaded_ns(view.machine.tiers, tier.index());
        let flow = self.flows.get(tier.index()).copied().unwrap_or_default();
        (self.cost_ns(flow, unloaded) - unloaded) * 1e-9
    }

    fn queueing_of_others_secs(&self, view: &View<'_>, tier: TierId) -> f64 {
        let unloaded = unloaded_ns(view.machine.tiers, tier.index());
        let flow = self.flows.get(tier.index()).copied().unwrap_or_default();
        self.cost_to_others_ns(flow, unloaded) * 1e-9
    }

    fn can_shift(&self) -> bool {
        true
    }

    fn knobs(&self) -> Vec<Knob> {
        BalanceKnobs::table()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        self.knobs.set(knob, value)
    }
}

/// A tier's unloaded latency from the machine, else 100 ns per tier, as in [`Tiers::latency_gain`].
fn unloaded_ns(tiers: &Tiers, tier: usize) -> f64 {
    let known = tiers.0.get(tier).and_then(|tier| tier.latency);
    let steps = id(tier).0;
    known.map_or(100.0 * f64::from(steps + 1), |latency| latency.as_secs_f64() * 1e9)
}

#[expect(clippy::cast_possible_truncation, reason = "at most TierId::MAX tiers")]
fn id(tier: usize) -> TierId {
    TierId(tier as u8)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float to integer cast saturates"
)]
fn bytes(count: f64) -> Bytes {
    Bytes(count as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::Tier;
    use proptest::prelude::*;

    const QUANTUM: Nanos = WEIGHT_TIME;

    /// Tiers with these reads per second and loaded latencies; unloaded: 70, 170, 270 ns.
    fn measured(tiers: &[(f64, f64)]) -> (Tiers, Balance) {
        let tier = |i: u64| Tier {
            name: format!("t{i}"),
            nodes: Vec::new(),
            capacity: Bytes::from_mib(1),
            latency: Some(Nanos(70 + 100 * i)),
            bandwidth: None,
        };
        let flow = |&(reads_per_sec, ns): &(f64, f64)| Flow {
            occupancy: reads_per_sec * ns * 1e-9,
            reads_per_sec,
            own_per_sec: 0.0,
        };
        let balance = Balance {
            flows: tiers.iter().map(flow).collect(),
            searches: vec![SearchBounds::default(); tiers.len()],
            ..Balance::default()
        };
        (Tiers((0..tiers.len() as u64).map(tier).collect()), balance)
    }

    #[test]
    fn a_shift_halves_the_interval_and_its_bytes_are_those_of_its_reads() {
        let (tiers, mut balance) = measured(&[(6e8, 100.0), (4e8, 150.0)]);
        let shift = balance.balance(&tiers, 0, QUANTUM).unwrap();
        assert!(shift.up && (shift.share - 0.2).abs() < 1e-9, "p = 0.6 of 1: {shift:?}");
        // 0.2 of 10^9 reads a second, of 64 bytes, in 10 ms.
        assert!(shift.bytes.0.abs_diff(128_000_000) <= 1, "{shift:?}");
        let (tiers, mut balance) = measured(&[(6e8, 200.0), (4e8, 150.0)]);
        let shift = balance.balance(&tiers, 0, QUANTUM).unwrap();
        assert!(!shift.up && (shift.share - 0.3).abs() < 1e-9, "p = 0.6 of 0.6: {shift:?}");
    }

    #[test]
    fn every_tier_is_balanced_against_all_below_it() {
        let (tiers, mut balance) = measured(&[(5e8, 100.0), (2e8, 120.0), (3e8, 300.0)]);
        let top = balance.balance(&tiers, 0, QUANTUM).unwrap();
        assert!(top.up && (top.share - 0.25).abs() < 1e-9, "{top:?}");
        assert_eq!(top.below, [TierId(2), TierId(1)], "pages come from the slowest first");
        let middle = balance.balance(&tiers, 1, QUANTUM).unwrap();
        // The tiers below serve half of all reads, this one 0.4 of that half; half of the rest is to shift.
        assert!(middle.up && (middle.share - 0.15).abs() < 1e-9, "{middle:?}");
        let (tiers, mut balance) = measured(&[(5e8, 400.0), (2e8, 120.0), (3e8, 300.0)]);
        let down = balance.balance(&tiers, 0, QUANTUM).unwrap();
        assert_eq!(
            (down.up, down.below),
            (false, vec![TierId(1), TierId(2)]),
            "pages go to the fastest first"
        );
    }

    #[test]
    fn equal_latencies_and_idle_machines_are_left_alone() {
        let (tiers, mut balance) = measured(&[(6e8, 150.0), (4e8, 153.0)]);
        assert_eq!(balance.balance(&tiers, 0, QUANTUM), None);
        let (tiers, mut balance) = measured(&[(3e3, 100.0), (2e3, 300.0)]);
        assert_eq!(balance.balance(&tiers, 0, QUANTUM), None);
    }

    /// L_A is its unloaded latency, not 0/0.
    #[test]
    fn a_tier_without_reads_has_its_unloaded_latency() {
        let (tiers, mut balance) = measured(&[(1e9, 300.0), (0.0, f64::NAN)]);
        balance.flows[1].occupancy = 0.0;
        let shift = balance.balance(&tiers, 0, QUANTUM).unwrap();
        assert!(!shift.up && (shift.share - 0.5).abs() < 1e-9, "{shift:?}");
    }

    /// Two tiers whose excess latency grows with the square of their load. On either side of the share with the
    /// least mean latency, marginal costs give the right direction; latencies do not.
    #[test]
    fn marginal_costs_meet_where_the_mean_latency_is_least() {
        let upper = |p: f64| 70.0 + 150.0 * p * p;
        let lower = |p: f64| 170.0 + 30.0 * (1.0 - p) * (1.0 - p);
        let mean = |p: f64| p * upper(p) + (1.0 - p) * lower(p);
        let least =
            (1..1000).map(|i| f64::from(i) / 1000.0).min_by(|a, b| mean(*a).total_cmp(&mean(*b)));
        let least = least.unwrap();
        let wants_up = |p: f64, marginal: f64| {
            let (tiers, mut balance) =
                measured(&[(p * 1e9, upper(p)), ((1.0 - p) * 1e9, lower(p))]);
            balance.knobs = BalanceKnobs { marginal, delta: 0.001, ..BalanceKnobs::default() };
            for flow in &mut balance.flows {
                flow.own_per_sec = flow.reads_per_sec;
            }
            balance.balance(&tiers, 0, QUANTUM).unwrap().up
        };
        assert!(wants_up(least - 0.02, 2.0) && !wants_up(least + 0.02, 2.0), "{least}");
        assert!(wants_up(least + 0.02, 0.0), "by latency alone it would go up");
    }

    /// Queueing of other programs' accesses is not our cost.
    #[test]
    fn only_what_the_managed_programs_add_counts() {
        let (_, mut balance) = measured(&[(1e9, 170.0), (1e8, 170.0)]);
        balance.knobs.marginal = 2.0;
        let flow = Flow { own_per_sec: 1e8, ..balance.flows[0] };
        assert!((balance.cost_ns(flow, 70.0) - (170.0 + 2.0 * 0.1 * 100.0)).abs() < 1e-9);
        let flow = Flow { own_per_sec: 9e9, ..flow };
        assert!(
            (balance.cost_ns(flow, 70.0) - (170.0 + 2.0 * 100.0)).abs() < 1e-9,
            "at most all reads"
        );
    }

    #[test]
    fn a_shift_waits_if_it_reverses_the_one_before() {
        let (at, rest) = (Nanos::from_millis, Nanos::from_millis(500));
        let mut tier = Direction::default();
        assert!(tier.admits(at(0), true, rest), "the first");
        assert!(tier.admits(at(50), true, rest), "the same direction");
        assert!(!tier.admits(at(100), false, rest) && tier.rests(at(599)));
        assert!(!tier.rests(at(600)) && tier.admits(at(600), false, rest));
        assert!(tier.admits(at(650), true, Nanos::ZERO), "the published goal does not wait");
    }

    #[test]
    fn the_average_weighs_ten_milliseconds_as_the_public_code_does() {
        let balance = Balance::default();
        assert!((balance.weight(QUANTUM) - 1.0 / 16.0).abs() < 1e-12);
        // 1 - (15/16)^50 = 0.960 by repeated averaging.
        assert!((0.7..0.97).contains(&balance.weight(QUANTUM * 50)));
    }

    #[test]
    fn impossible_values_count_as_not_measured() {
        let tier = |reads, occupancy| TierTelemetry {
            reads_per_sec: Some(reads),
            occupancy: Some(occupancy),
            ..TierTelemetry::default()
        };
        assert!(Flow::of(&tier(f64::NAN, 1.0)).is_none() && Flow::of(&tier(1.0, -1.0)).is_none());
        assert!(Flow::of(&TierTelemetry::default()).is_none());
        let by_latency = TierTelemetry {
            reads_per_sec: Some(1e8),
            latency: Some(Nanos(120)),
            ..TierTelemetry::default()
        };
        assert!((Flow::of(&by_latency).unwrap().latency_ns(0.0) - 120.0).abs() < 1e-9);
    }

    proptest! {
        /// At most all accesses, and at most the bytes that they carry.
        #[test]
        fn limits_hold(
            flows in prop::collection::vec((0.0f64..2e9, 20.0f64..2_000.0), 2..5),
            closed_form: bool,
            ms in 1u64..1_000,
        ) {
            let (tiers, mut balance) = measured(&flows);
            balance.knobs.closed_form = closed_form;
            let passed = Nanos::from_millis(ms);
            for tier in 0..flows.len() - 1 {
                let Some(shift) = balance.balance(&tiers, tier, passed) else { continue };
                prop_assert!((0.0..=1.0).contains(&shift.share), "{:?}", shift);
                let carried = shift.share * shift.reads_per_sec * LINE * passed.as_secs_f64();
                prop_assert!(shift.bytes <= bytes(carried * 1.000_001 + 1.0));
                prop_assert_eq!(shift.below.len(), flows.len() - 1 - tier);
            }
        }
    }
}
