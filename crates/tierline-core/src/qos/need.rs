// SPDX-License-Identifier: Apache-2.0
//! The least memory that meets a target: of the fastest tier first, then of the next.
//!
//! So an application that the second tier satisfies takes nothing of the first. If no placement meets the
//! target, more memory is taken while it helps: until the cost is within [`HELPS`] of the best. Both are ours;
//! Mercury has two tiers and lowers one limit until the target is just met (4.2).

use serde::Serialize;

use super::application::{Refusal, Slo};
use super::heat_curve::{HeatCurve, TierBytes, as_f64};
use crate::tier::{TierId, Tiers};
use crate::unit::{Bytes, BytesPerSec, Nanos};

/// Resolution of a placement: a huge page.
const STEP: Bytes = Bytes(2 << 20);
/// Memory that lowers the cost by less than this share of it does not help.
const HELPS: f64 = 0.01;
/// The least CPU share. Source: section 7.6 of our notes on Mercury; the paper names none.
pub const CPU_FLOOR: f64 = 0.05;

/// The placement that keeps `cost` at `target` or below with the least fast memory, within `room`.
pub fn least(
    memory: Bytes,
    room: &[Bytes],
    cost: impl Fn(&TierBytes) -> f64,
    target: f64,
) -> TierBytes {
    let Some(slowest) = room.len().checked_sub(1) else { return TierBytes::default() };
    let mut placement = fill(memory, room, 0, &TierBytes::default());
    let best = cost(&placement);
    let target = if best > target { best * (1.0 + HELPS) } else { target };
    for tier in 0..slowest {
        let meets = |bytes: u64| {
            let mut with = placement;
            with[tier] = Bytes(bytes);
            cost(&fill(memory, room, tier + 1, &with)) <= target
        };
        let most = placement[tier].0;
        let steps = lowest(most.div_ceil(STEP.0), |steps| meets((steps * STEP.0).min(most)));
        placement[tier] = Bytes((steps * STEP.0).min(most));
        placement = fill(memory, room, tier + 1, &placement);
    }
    debug_assert!(placement.iter().copied().sum::<Bytes>() <= memory, "{placement:?}");
    placement
}

/// Keeps the placement in tiers above `from`, and fills the others in order. What has no room is left out.
fn fill(memory: Bytes, room: &[Bytes], from: usize, placement: &TierBytes) -> TierBytes {
    let mut filled = TierBytes::default();
    filled[..from].copy_from_slice(&placement[..from]);
    let mut left = memory.saturating_sub(filled.iter().copied().sum());
    for tier in from..room.len() {
        filled[tier] = left.min(room[tier]);
        left -= filled[tier];
    }
    filled
}

/// The lowest number for which `holds`, up to `most`; `holds` never becomes false again.
fn lowest(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// What a profile found about an application in isolation.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplicationProfile {
    /// Its accesses by memory.
    pub curve: HeatCurve,
    /// Its bandwidth with all memory in the fastest tier and all its CPU time, if it was measured.
    pub bandwidth: Option<BytesPerSec>,
}

/// The least resources that meet an SLO in isolation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Need {
    /// Memory by tier; what is not listed can be in the slowest.
    #[serde(rename = "bytes_by_tier")]
    pub placement: TierBytes,
    /// Share of its CPU time; below 1 only for BI applications that need no fast memory.
    pub cpu_share: f64,
}

impl Need {
    /// No fast memory, and all CPU time.
    pub const NOTHING: Self = Self { placement: [Bytes::ZERO; TierId::MAX], cpu_share: 1.0 };
}

impl ApplicationProfile {
    /// A profile without any measurement: all memory is equally hot.
    pub fn unknown(memory: Bytes) -> Self {
        Self { curve: HeatCurve::uniform(memory), bandwidth: None }
    }

    /// The least resources that meet an SLO on these tiers, unloaded.
    ///
    /// # Errors
    /// [`Refusal::Impossible`] if all of the fastest tier is not enough (Mercury, 4.2).
    pub fn need(&self, slo: Option<Slo>, tiers: &Tiers) -> Result<Need, Refusal> {
        let Some(slo) = slo else { return Ok(Need::NOTHING) };
        let ns = unloaded_ns(tiers);
        let room: Vec<Bytes> = tiers.iter().map(|(_, tier)| tier.capacity).collect();
        let memory = self.curve.memory();
        let cost = |placement: &TierBytes| match slo {
            Slo::SlowShare(_) => 1.0 - self.curve.shares(placement)[0],
            _ => self.curve.mean_ns(placement, &ns),
        };
        let best = cost(&fill(memory, &room, 0, &TierBytes::default()));
        let target = self.target(slo, &ns, best)?;
        let need = |cpu_share| Need { placement: least(memory, &room, cost, target), cpu_share };
        let all_slow = fill(memory, &room, room.len().saturating_sub(1), &TierBytes::default());
        let spare = if slo.is_bandwidth() { target / cost(&all_slow).max(1.0) } else { 1.0 };
        // All in the slowest tier, its bandwidth is the target times `spare`.
        Ok(need(if spare > 1.0 { (1.0 / spare).max(CPU_FLOOR) } else { 1.0 }))
    }

    /// The cost at which the SLO is just met; `best` is the least possible cost.
    fn target(&self, slo: Slo, ns: &[f64; TierId::MAX], best: f64) -> Result<f64, Refusal> {
        let impossible = |best| Err(Refusal::Impossible { slo, best });
        // An application that has no memory yet has no mean latency.
        let best_ns = best.max(ns[0]);
        match slo {
            Slo::Latency(at_most) if as_ns(at_most) < best_ns => {
                impossible(Slo::Latency(Nanos::from_secs_f64((best_ns + 0.5) * 1e-9)))
            }
            Slo::Latency(at_most) => Ok(as_ns(at_most)),
            Slo::SlowShare(at_most) if at_most < best => impossible(Slo::SlowShare(best)),
            Slo::SlowShare(at_most) => Ok(at_most),
            Slo::Bandwidth(at_least) => {
                // A closed loop: bandwidth times latency is constant. Unknown: all fast just meets the target.
                let most = self.bandwidth.unwrap_or(at_least);
                match most < at_least {
                    true => impossible(Slo::Bandwidth(most)),
                    false => Ok(ns[0] * as_f64(Bytes(most.0)) / as_f64(Bytes(at_least.0))),
                }
            }
        }
    }
}

/// The unloaded latency of each tier; unknown ones are 100 ns slower than the tier before. Ours.
pub fn unloaded_ns(tiers: &Tiers) -> [f64; TierId::MAX] {
    let (mut ns, mut last) = ([0.0; TierId::MAX], 0.0);
    for (id, tier) in tiers.iter() {
        last = tier.latency.map_or(last + 100.0, as_ns);
        ns[id.index()] = last;
    }
    ns
}

pub(super) fn as_ns(time: Nanos) -> f64 {
    time.as_secs_f64() * 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::Tier;

    const GB: u64 = 1 << 30;

    fn tiers(list: &[(u64, u64)]) -> Tiers {
        let tier = |&(gb, ns): &(u64, u64)| Tier {
            name: format!("{ns}"),
            nodes: Vec::new(),
            capacity: Bytes(gb * GB),
            latency: Some(Nanos(ns)),
            bandwidth: None,
        };
        Tiers(list.iter().map(tier).collect())
    }

    fn gb(bytes: Bytes) -> f64 {
        as_f64(bytes) / as_f64(Bytes(GB))
    }

    fn uniform(gb: u64) -> ApplicationProfile {
        ApplicationProfile::unknown(Bytes(gb * GB))
    }

    /// The formula of the twelve scenarios: WSS (250 - SLO) / 150.
    #[test]
    fn a_uniform_program_needs_memory_in_proportion_to_the_gap() {
        let machine = tiers(&[(40, 100), (200, 250)]);
        for (set, slo, expected) in [(20, 160, 12.0), (30, 175, 15.0), (30, 250, 0.0)] {
            let need = uniform(set).need(Some(Slo::Latency(Nanos(slo))), &machine).unwrap();
            assert!((gb(need.placement[0]) - expected).abs() < 0.01, "{set}, {slo}: {need:?}");
            assert_eq!(need.cpu_share, 1.0);
        }
        let need = uniform(20).need(Some(Slo::SlowShare(0.25)), &machine).unwrap();
        assert!((gb(need.placement[0]) - 15.0).abs() < 0.01, "{need:?}");
    }

    #[test]
    fn an_impossible_target_is_refused_with_the_best_possible_value() {
        let machine = tiers(&[(40, 100), (200, 250)]);
        let refused =
            |profile: ApplicationProfile, slo| profile.need(Some(slo), &machine).unwrap_err();
        for memory in [20, 0] {
            let error = refused(uniform(memory), Slo::Latency(Nanos(90))).to_string();
            assert!(error.contains("90 ns") && error.contains("100 ns at best"), "{error}");
        }
        let measured = ApplicationProfile { bandwidth: Some(BytesPerSec(60 << 30)), ..uniform(20) };
        let error = refused(measured, Slo::Bandwidth(BytesPerSec(70 << 30))).to_string();
        assert!(error.contains("64.4 GB/s at best"), "{error}");
        // Of 80 GB, 40 fit into fast memory.
        let error = refused(uniform(80), Slo::Latency(Nanos(150))).to_string();
        assert!(error.contains("175 ns at best"), "{error}");
    }

    /// 100 GB/s all fast, 40 GB/s all slow; half as much latency is twice as much bandwidth.
    #[test]
    fn a_bandwidth_target_takes_memory_and_then_cpu_time() {
        let machine = tiers(&[(40, 100), (200, 250)]);
        let profile = ApplicationProfile { bandwidth: Some(BytesPerSec(100)), ..uniform(30) };
        let need = |target| profile.need(Some(Slo::Bandwidth(BytesPerSec(target))), &machine);
        let half = need(50).unwrap();
        // 200 ns on average: a third is fast.
        assert!((gb(half.placement[0]) - 10.0).abs() < 0.01, "{half:?}");
        assert_eq!(half.cpu_share, 1.0);
        let little = need(20).unwrap();
        assert_eq!(little.placement[0], Bytes::ZERO);
        assert!((little.cpu_share - 0.5).abs() < 1e-6, "{little:?}");
    }

    #[test]
    fn what_the_second_tier_satisfies_takes_nothing_of_the_first() {
        let machine = tiers(&[(8, 80), (40, 120), (200, 300)]);
        let need = |slo| uniform(20).need(Some(Slo::Latency(Nanos(slo))), &machine).unwrap();
        let second = need(150).placement;
        assert_eq!(second[0], Bytes::ZERO);
        // 150 = 120 x + 300 (1 - x): x is 5/6 of 20 GB.
        assert!((gb(second[1]) - 16.67).abs() < 0.01, "{second:?}");
        let first = need(110).placement;
        // 110 = 80 x + 120 (1 - x): x is a quarter.
        assert!((gb(first[0]) - 5.0).abs() < 0.01 && (gb(first[1]) - 15.0).abs() < 0.01);
    }

    #[test]
    fn without_a_reachable_target_memory_is_taken_while_it_helps() {
        let room = [Bytes(40 * GB), Bytes(200 * GB)];
        let hot = (Bytes(2 * GB), 998.0);
        let cold = (Bytes(18 * GB), 2.0);
        let curve = HeatCurve::of_parts(vec![hot, cold]);
        let mut ns = [0.0; TierId::MAX];
        (ns[0], ns[1]) = (100.0, 250.0);
        let cost = |placement: &TierBytes| 60.0 + curve.mean_ns(placement, &ns);
        let taken = least(Bytes(20 * GB), &room, cost, 120.0);
        assert!((1.9..2.1).contains(&gb(taken[0])), "{taken:?}");
    }
}
