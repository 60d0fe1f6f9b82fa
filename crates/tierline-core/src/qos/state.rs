// SPDX-License-Identifier: Apache-2.0
//! What the controller knows about one application: its need, and how it is revised by measurement.
//!
//! The need is computed anew each period in which it may change: the least placement that meets the target, from the
//! need curve and the loaded latencies. It rises if the application misses its SLO for a second although its memory rests. It
//! falls if less was enough for all of [`PATIENCE`]. So a load that swings around the target leaves the need at
//! its peak, and no limit moves back and forth. While hot memory is elsewhere after a jump, all of that waits.
//! All of this is ours; Mercury moves one step per period (4.3.2).

use super::allocation::{Claim, Grant};
use super::application::{Application, Slo};
use super::bracket::Bracket;
use super::heat_curve::{HeatCurve, TierBytes, as_f64};
use super::measured::{Measured, PeriodSums};
use super::need::{CPU_FLOOR, Need, as_ns, least};
use super::profiler::Trial;
use super::rest::Rest;
use super::squeeze::Squeeze;
use crate::port::LatencySource;
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

/// A target counts as missed beyond this relative error.
pub const MISSED: f64 = 0.01;
/// A target is met with room to spare from this relative error on.
pub const SPARE: f64 = 0.05;
/// Placements aim this far below the target.
const AIM: f64 = 0.005;
/// Time for which less must have been enough before the need falls.
pub const PATIENCE: Nanos = Nanos::from_secs(30);
/// The same if nothing is lent: then a need that is too high is paid for in idle memory.
pub const PATIENCE_UNLENT: Nanos = Nanos::from_secs(2);
/// A need that is lower by less than this part is the same.
const SAME: f64 = 0.02;
/// Memory must rest for this long in its place before the need rises: averages have settled.
const SETTLES: Nanos = Nanos::from_secs(1);
/// The same elsewhere: others' moves, or room that a policy keeps free, hold it up.
const SETTLES_ELSEWHERE: Nanos = Nanos::from_secs(3);
/// Fast memory that serves fewer accesses by this share has lost its hot pages. Ours.
const ELSEWHERE: f64 = 0.05;
/// They are back if fewer than this are missing.
const BACK: f64 = 0.01;
/// Time for the policy to bring them back, or for the next [`ELSEWHERE`] of them. The default policy takes half of it on a
/// machine that moves gigabytes a second. Ours.
const CATCHES_UP: Nanos = Nanos::from_secs(10);
/// This part of what it may have is in place.
const IN_PLACE: f64 = 0.98;
/// The rest may be this much, or this part of it.
const NEARLY: Bytes = Bytes::from_mib(64);
const NEARLY_PART: f64 = 0.1;
/// A bandwidth that was measured, and has not been for this long, will not be: nothing is reserved for it any more. Ours.
const UNMEASURED: Nanos = Nanos::from_secs(2);
/// Below this share of slow accesses, more fast memory hardly helps.
const HARDLY_SLOW: f64 = 0.05;

/// The machine in a period.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineLoad {
    /// Size of each tier.
    pub capacity: Vec<Bytes>,
    /// Loaded latency of each tier.
    pub tier_ns: [f64; TierId::MAX],
    /// Bytes per second of each tier.
    pub bytes_per_sec: [f64; TierId::MAX],
}

impl MachineLoad {
    /// Traffic of all tiers but the fastest.
    pub fn slow_traffic(&self) -> f64 {
        self.bytes_per_sec[1..].iter().sum()
    }
}

/// One application.
#[derive(Clone, Debug)]
pub struct ApplicationState {
    /// As submitted.
    pub application: Application,
    /// Its need curve.
    pub curve: HeatCurve,
    /// What it needs at present.
    pub need: Need,
    /// Placements that missed and met.
    bracket: Bracket,
    /// Less has been enough since.
    enough_since: Nanos,
    /// The target has been missed since.
    missed_since: Option<Nanos>,
    rest: Rest,
    /// Since when it has had work and a bandwidth target, and nobody measures its bandwidth.
    unmeasured_since: Option<Nanos>,
    /// Whether that has lasted, or its bandwidth was never measured, so that nothing is reserved for it.
    pub is_unmeasured: bool,
    /// Since when its hot memory has been elsewhere, without progress, and what fast memory served then.
    elsewhere: Option<(Nanos, f64)>,
    /// Sums of the present period.
    pub window: PeriodSums,
    /// The last period.
    pub measured: Measured,
    /// How far it is held back.
    pub squeeze: Squeeze,
    /// What it is given while its need is measured.
    pub trial: Option<Trial>,
    /// CPU share that was set.
    pub cpu_share: f64,
    /// What it has.
    pub grant: Grant,
}

impl ApplicationState {
    /// An application that was just admitted.
    pub fn new(now: Nanos, application: Application, curve: HeatCurve, need: Need) -> Self {
        let tenant = application.tenant;
        let nothing = TierBytes::default();
        Self {
            application,
            curve,
            need,
            bracket: Bracket::default(),
            enough_since: now,
            missed_since: None,
            rest: Rest::default(),
            unmeasured_since: None,
            is_unmeasured: false,
            elsewhere: None,
            window: PeriodSums::default(),
            measured: Measured::default(),
            squeeze: Squeeze::default(),
            trial: None,
            cpu_share: 1.0,
            grant: Grant { tenant, reserved: nothing, lent: nothing, short: Bytes::ZERO },
        }
    }

    /// Ends a period: what was measured becomes a point of the need curve.
    pub fn close(&mut self, now: Nanos) {
        let ran = self.measured.memory() > Bytes::ZERO;
        self.measured = self.window.close();
        self.note_unmeasured(now);
        let memory = self.measured.memory();
        if memory > Bytes::ZERO {
            if !ran && self.curve.memory() > Bytes::ZERO {
                // Its size may differ from the submitted one; until it was measured, its need is in proportion.
                let factor = as_f64(memory) / as_f64(self.curve.memory());
                self.need.placement = self.need.placement.map(|bytes| bytes.part(factor));
            }
            self.curve.resize(memory);
        }
        if self.measured.demand && self.measured.knows_shares() && !self.catches_up(now) {
            let (mut bytes, mut share) = (Bytes::ZERO, 0.0);
            for tier in 0..TierId::MAX {
                bytes += self.measured.used[tier];
                share += self.measured.shares[tier];
                self.curve.learn(bytes, share);
            }
        }
    }

    /// Without a measured bandwidth nothing shows whether memory helps its target, so what it needs is a guess, which would
    /// take memory from targets that can be met.
    fn note_unmeasured(&mut self, now: Nanos) {
        if self.knows_bandwidth() {
            (self.unmeasured_since, self.is_unmeasured) = (None, false);
        } else if self.measured.demand {
            let since = *self.unmeasured_since.get_or_insert(now);
            self.is_unmeasured |= now.saturating_sub(since) >= UNMEASURED;
        }
    }

    /// Whether its bandwidth is measured, if it has a target for that.
    pub fn knows_bandwidth(&self) -> bool {
        !self.application.is_bandwidth() || self.measured.bandwidth_is_measured
    }

    /// Whether fast memory serves clearly fewer accesses than as much of it did before. Then the program uses other
    /// memory now, as in its next phase. The policy brings that to fast memory, so the need curve stays. Only if nothing
    /// gets better for [`CATCHES_UP`], it is wrong.
    fn catches_up(&mut self, now: Nanos) -> bool {
        let (fast, share) = (self.measured.used[0], self.measured.shares[0]);
        let missing = if self.elsewhere.is_some() { BACK } else { ELSEWHERE };
        let is_all = fast >= self.measured.memory();
        if is_all || !self.curve.is_known(fast) || share > self.curve.share(fast) - missing {
            self.elsewhere = None;
            return false;
        }
        let better = |&(_, before): &(Nanos, f64)| share < before + ELSEWHERE;
        let (since, _) =
            *self.elsewhere.insert(self.elsewhere.filter(better).unwrap_or((now, share)));
        let in_time = now.saturating_sub(since) < CATCHES_UP;
        if !in_time {
            self.elsewhere = None;
        }
        in_time
    }

    /// The relative error of its SLO: above 0 it is missed. `None` without an SLO, without demand, or if nothing
    /// was measured: an application that has nothing to do misses nothing.
    pub fn error(&self) -> Option<f64> {
        let measured = Some(&self.measured).filter(|measured| measured.demand)?;
        Some(match self.application.slo? {
            Slo::Latency(at_most) => measured.latency_ns? / as_ns(at_most) - 1.0,
            Slo::SlowShare(_) if !measured.knows_shares() => return None,
            Slo::SlowShare(at_most) => (measured.slow_share() - at_most) / at_most.max(0.05),
            Slo::Bandwidth(_) if !measured.bandwidth_is_measured => return None,
            Slo::Bandwidth(at_least) => {
                let target = as_f64(Bytes(at_least.0));
                (target / measured.bytes_per_sec.max(target / 2.0)) - 1.0
            }
        })
    }

    /// Whether it misses its SLO.
    pub fn misses(&self) -> bool {
        self.error().is_some_and(|error| error > MISSED)
    }

    /// Whether it misses its SLO, and more of its memory may be in the fastest tier than is there.
    pub fn lacks_fast_memory(&self) -> bool {
        let granted = self.grant.limit(TierId::FAST).min(self.measured.memory());
        self.misses() && self.measured.used[0] < granted.part(IN_PLACE)
    }

    /// Whether it misses its SLO by its own report although hardly any of its accesses are slow. Then more memory cannot
    /// help, so it is disturbed by others. A prediction cannot show that. Ours.
    pub fn is_disturbed(&self) -> bool {
        let measured = &self.measured;
        let reported = matches!(
            measured.latency_source,
            Some(LatencySource::Application | LatencySource::Samples)
        );
        let hardly_slow = measured.knows_shares() && measured.slow_share() <= HARDLY_SLOW
            || is_enough(measured.used[0], measured.memory());
        reported && self.misses() && hardly_slow
    }

    /// Whether others can profit if it is held back: it is a BI application at work, and not being measured.
    pub fn can_be_held_back(&self) -> bool {
        self.application.is_bandwidth() && self.measured.demand && self.trial.is_none()
    }

    /// Whether nothing needs to be done for it: its SLO is met with room to spare, or it has no demand.
    pub fn has_slack(&self) -> bool {
        self.error().is_none_or(|error| error < -SPARE)
    }

    /// The largest part of its speed that may be taken at a time: while its target is met with room to spare, no more than that.
    pub fn spare(&self) -> f64 {
        let spare = self.error().map(|error| -error).filter(|_| self.has_slack());
        spare.unwrap_or(f64::INFINITY)
    }

    /// Whether the memory that it may have is in place, and no more.
    pub fn is_in_place(&self) -> bool {
        let (limit, fast) = (self.grant.limit(TierId::FAST), self.measured.used[0]);
        is_enough(fast, limit.min(self.measured.memory())) && is_enough(limit, fast)
    }

    /// Revises what it needs. `may_rise` is false while something else must be tried first.
    pub fn revise(&mut self, now: Nanos, machine: &MachineLoad, may_rise: bool, patience: Nanos) {
        let (Some(slo), Some(error), None) = (self.application.slo, self.error(), self.trial)
        else {
            return;
        };
        let settles = if self.is_in_place() { SETTLES } else { SETTLES_ELSEWHERE };
        let settled = self.rest.observe(now, &self.measured.used) >= settles;
        let speed = |placement: &TierBytes| weighted_bytes(placement, machine.capacity.len());
        let needed = speed(&self.need.placement);
        let missed_since = self.missed_since.filter(|_| error > MISSED).unwrap_or(now);
        self.missed_since = (error > MISSED).then_some(missed_since);
        if error > MISSED {
            let lasts = now.saturating_sub(missed_since) >= SETTLES;
            let counts = lasts && self.elsewhere.is_none();
            self.enough_since = if counts { now } else { self.enough_since };
            if may_rise && settled && lasts {
                let found = self.least(slo, machine);
                let fast = speed(&found);
                if fast > needed {
                    let to = self.bracket.rise(now, needed, error, fast);
                    let part = (to - needed) / (fast - needed);
                    self.change_need(between(&self.need.placement, &found, part));
                }
            }
            return;
        }
        let found = self.least(slo, machine);
        let fast = speed(&found);
        if fast >= needed * (1.0 - SAME) {
            self.enough_since = now;
        } else if now.saturating_sub(self.enough_since) >= patience {
            self.enough_since = now;
            let to = self.bracket.fall(now, needed, error, fast);
            if to < needed * (1.0 - SAME) {
                let part = (to - needed) / (fast - needed);
                self.change_need(between(&self.need.placement, &found, part));
            }
        }
    }

    /// Takes over a need that was measured.
    pub fn learn_need(&mut self, now: Nanos, need: Need) {
        (self.bracket, self.enough_since) = (Bracket::default(), now);
        self.change_need(need.placement);
    }

    /// Changes the need; what is measured until its memory rests where it wants it says nothing about it.
    fn change_need(&mut self, placement: TierBytes) {
        (self.need.placement, self.rest) = (placement, Rest::default());
    }

    /// The least placement that meets the target under the present load.
    fn least(&self, slo: Slo, machine: &MachineLoad) -> TierBytes {
        let measured = &self.measured;
        let present = |tier_ns: &[f64; TierId::MAX]| -> f64 {
            measured.shares.iter().zip(tier_ns).map(|(share, ns)| share * ns).sum()
        };
        let known = present(&machine.tier_ns);
        let mean = measured.latency_ns.unwrap_or(known);
        let extra = mean - known; // the way to the tiers, and queues before them
        let cost = |placement: &TierBytes| match slo {
            Slo::SlowShare(_) => 1.0 - self.curve.shares(placement)[0],
            _ => extra + self.curve.mean_ns(placement, &machine.tier_ns),
        };
        let target = match slo {
            Slo::Latency(at_most) => as_ns(at_most),
            Slo::SlowShare(at_most) => at_most,
            // A closed loop: bandwidth times latency is constant. It is throttled for its own sake only while it has more
            // than it needs. CPU time that others took does not come back as long as they need that.
            Slo::Bandwidth(at_least) => {
                let own = self.cpu_share / self.squeeze.cpu_share;
                mean * measured.bytes_per_sec / own.min(1.0) / as_f64(Bytes(at_least.0))
            }
        };
        least(measured.memory(), &machine.capacity, cost, target * (1.0 - AIM))
    }

    /// The CPU share that just meets a bandwidth target, for an application that needs no fast memory. Only if
    /// nothing is lent, as an application that may have more is not throttled for its own sake.
    pub fn own_cpu_share(&self, lend: bool) -> f64 {
        if let Some(trial) = self.trial {
            return trial.cpu_share;
        }
        let target = self.application.slo.filter(|slo| slo.is_bandwidth());
        let (Some(Slo::Bandwidth(at_least)), false) = (target, lend) else { return 1.0 };
        if !self.measured.demand || self.measured.bytes_per_sec == 0.0 {
            return 1.0;
        }
        let ratio = as_f64(Bytes(at_least.0)) / self.measured.bytes_per_sec * (1.0 + AIM);
        let is_all_slow = self.measured.used[0] <= NEARLY;
        match self.cpu_share < 1.0 || is_all_slow {
            true if (ratio - 1.0).abs() > MISSED => (self.cpu_share * ratio).clamp(CPU_FLOOR, 1.0),
            true => self.cpu_share,
            false => 1.0,
        }
    }

    /// What it asks for.
    pub fn claim(&self) -> Claim<'_> {
        let Application { tenant, priority, weight, slo, .. } = self.application;
        Claim {
            tenant,
            priority,
            weight,
            has_slo: slo.is_some(),
            is_bandwidth: self.application.is_bandwidth(),
            memory: self.measured.memory(),
            curve: &self.curve,
            need: self.need_now(),
            fast_cap: self.fast_cap(),
        }
    }

    fn fast_cap(&self) -> Option<Bytes> {
        self.trial.map_or(self.squeeze.fast_cap, |trial| Some(trial.fast))
    }

    /// The most fast memory that it may have; a higher limit never stays, as who waits for a cap would wait for ever.
    pub fn most_fast(&self) -> Bytes {
        self.fast_cap().unwrap_or(Bytes(u64::MAX))
    }

    /// What it needs, or is given for a trial; nothing while it has no memory, or no measured bandwidth.
    fn need_now(&self) -> TierBytes {
        let mut needed = TierBytes::default();
        match (self.measured.memory() > Bytes::ZERO, self.trial) {
            (true, Some(trial)) => needed[0] = trial.fast,
            (true, None) if !self.is_unmeasured => needed = self.need.placement,
            _ => {}
        }
        needed
    }
}

/// Whether all but little of some memory is in place.
fn is_enough(used: Bytes, of: Bytes) -> bool {
    used + NEARLY.min(of.part(NEARLY_PART)) >= of.part(IN_PLACE)
}

/// How much fast memory a placement takes: a byte counts once for every tier below it.
fn weighted_bytes(placement: &TierBytes, tiers: usize) -> f64 {
    let below = (0..tiers).rev();
    placement.iter().zip(below).map(|(&bytes, below)| as_f64(bytes) * below as f64).sum()
}

/// The placement at this part of the way from one to another.
fn between(one: &TierBytes, other: &TierBytes, part: f64) -> TierBytes {
    let part = part.clamp(0.0, 1.0);
    std::array::from_fn(|tier| one[tier].part(1.0 - part) + other[tier].part(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::TenantId;
    use crate::unit::BytesPerSec;

    const GB: u64 = 1 << 30;

    const SLO: Slo = Slo::Bandwidth(BytesPerSec(50_000_000_000));

    /// At work with 40 of 50 GB/s, and 40 GiB.
    fn bandwidth_of_50_gb() -> ApplicationState {
        let (tenant, memory) = (TenantId(1), Bytes(40 * GB));
        let application =
            Application { tenant, slo: Some(SLO), priority: 1, weight: 1.0, cores: 1.0, memory };
        let curve = HeatCurve::uniform(memory);
        let mut state = ApplicationState::new(Nanos::ZERO, application, curve, Need::NOTHING);
        state.measured = Measured {
            latency_ns: Some(300.0),
            bytes_per_sec: 40e9,
            bandwidth_is_measured: true,
            demand: true,
            ..Measured::default()
        };
        state
    }

    /// All its memory is slow, and half of its CPU time gives it 40 of 50 GB/s.
    fn held_back(squeeze: f64) -> Bytes {
        let (mut state, memory) = (bandwidth_of_50_gb(), Bytes(40 * GB));
        (state.measured.used[1], state.measured.shares[1]) = (memory, 1.0);
        (state.squeeze.cpu_share, state.cpu_share) = (squeeze, 0.5);
        let mut machine = MachineLoad {
            capacity: vec![memory; 2],
            tier_ns: [0.0; TierId::MAX],
            bytes_per_sec: [0.0; TierId::MAX],
        };
        (machine.tier_ns[0], machine.tier_ns[1]) = (100.0, 300.0);
        state.least(SLO, &machine)[0]
    }

    /// 240 ns give it 50 GB/s, which three tenths in fast memory do.
    #[test]
    fn who_is_held_back_needs_memory_for_the_cpu_time_that_is_left() {
        let needed = as_f64(held_back(0.5)) / as_f64(Bytes(GB));
        assert!((12.0..12.4).contains(&needed), "{needed}");
        assert_eq!(held_back(1.0), Bytes::ZERO, "its own limit ends when it needs more");
    }

    /// A target of 50 GB/s: 62.5 is a quarter more, so a fifth of that is spare; of 51 and of 40 nothing is kept back.
    #[test]
    fn what_may_be_taken_at_a_time_ends_at_a_target_that_is_met() {
        let spare = |bytes_per_sec| {
            let mut state = bandwidth_of_50_gb();
            state.measured.bytes_per_sec = bytes_per_sec;
            state.spare()
        };
        assert!((spare(62.5e9) - 0.2).abs() < 1e-9, "{}", spare(62.5e9));
        assert_eq!([51e9, 40e9].map(spare), [f64::INFINITY; 2], "nothing to spare");
    }

    /// Half of 40 GiB is fast, and a target of 5 % slow accesses is missed. More may be fast, whether kept or lent.
    #[test]
    fn memory_that_is_lent_may_be_used_to_reach_the_target() {
        let lacks = |reserved: u64, lent: u64| {
            let slo = Some(Slo::SlowShare(0.05));
            let (tenant, memory) = (TenantId(1), Bytes(40 * GB));
            let application =
                Application { tenant, slo, priority: 1, weight: 1.0, cores: 1.0, memory };
            let curve = HeatCurve::uniform(memory);
            let mut state = ApplicationState::new(Nanos::ZERO, application, curve, Need::NOTHING);
            state.measured.demand = true;
            state.measured.shares_are_estimated = true;
            (state.measured.used[0], state.measured.used[1]) = (Bytes(20 * GB), Bytes(20 * GB));
            (state.measured.shares[0], state.measured.shares[1]) = (0.5, 0.5);
            (state.grant.reserved[0], state.grant.lent[0]) =
                (Bytes(reserved * GB), Bytes(lent * GB));
            state.lacks_fast_memory()
        };
        assert!(lacks(30, 0) && lacks(10, 20));
        assert!(!lacks(20, 0) && !lacks(10, 10), "it has what it may have");
    }
}
