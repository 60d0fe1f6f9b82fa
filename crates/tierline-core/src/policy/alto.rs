// SPDX-License-Identifier: Apache-2.0
//! alto: lets fewer promotions pass for programs whose misses overlap.
//!
//! What it does: runs above any policy, which plans as before. Once a second it computes each program's amortised latency:
//! the latency of a read divided by the reads in flight together. Of every ten pages that the policy wants to
//! promote, only the first k pass; k is 0 for an amortised latency up to 40 cycles, then 1, 1, 3 and 5 up to 50, 60, 80 and
//! 100 cycles, and 10 above. If reads take less than 100 cycles, or nothing was measured, all pass. Demotions that
//! only make room for what does not pass are dropped, too.
//!
//! When it helps: programs that stream through memory beside others that wait for each access: their pages are as hot, and
//! gain less.
//!
//! When it hurts: a program with both kinds of access is throttled as a whole. With k = 0 nothing of it is promoted, also if
//! that would pay. The limits were measured on one processor.
//!
//! Knobs: alto_interval (1 s), alto_ghz (2.2), and those of the policy below.
//!
//! Where it comes from: Alto (OSDI 2025) and its artifact, from whose patch of TPP the k of ten are taken; the limits
//! were measured on Skylake at 2.2 GHz. Ours: the promotions of a plan are counted, by address space; in the
//! artifact the faults of a task.

use std::collections::BTreeMap;

use super::interface::{HeatEstimate, Policy, Wants};
use super::parts::quantum::Quantum;
use crate::knob::Knob;
use crate::knobs;
use crate::page::PageIdx;
use crate::policy::plan::Plan;
use crate::policy::view::{Memory, View};
use crate::port::{Capability, Move, Reason, SpaceId};
use crate::unit::Nanos;

knobs! {
    /// The knobs, without those of the policy below.
    pub struct AltoKnobs {
        /// Time between two measurements.
        alto_interval: Nanos = Nanos::from_secs(1), Nanos::from_millis(100), Nanos::from_secs(60);
        /// Clock rate of the processor whose cycles the limits are in.
        alto_ghz: f64 = 2.2, 0.5, 6.0;
    }
}

/// Promotions of ten that pass, by the amortised latency in cycles up to which this holds.
pub const STEPS: [(f64, u32); 5] = [(40.0, 0), (50.0, 1), (60.0, 1), (80.0, 3), (100.0, 5)];
/// Of as many promotions.
const OF: u32 = 10;
/// Latency of a read in cycles up to which all pass.
const IDLE_CYCLES: f64 = 100.0;

/// Promotions of ten that pass.
pub fn passes(latency_cycles: f64, amortised_cycles: f64) -> u32 {
    if latency_cycles <= IDLE_CYCLES {
        return OF;
    }
    STEPS.iter().find(|(until, _)| amortised_cycles <= *until).map_or(OF, |&(_, passes)| passes)
}

/// The throttle of one address space.
#[derive(Clone, Copy, Debug)]
struct Throttle {
    passes: u32,
    /// Promotions since the last that began a ten.
    seen: u32,
    /// Sums since the last measurement: latency, amortised latency, and their number.
    sums: [f64; 3],
}

impl Default for Throttle {
    fn default() -> Self {
        Self { passes: OF, seen: 0, sums: [0.0; 3] }
    }
}

impl Throttle {
    fn admit(&mut self) -> bool {
        let admitted = self.seen < self.passes;
        self.seen = (self.seen + 1) % OF;
        admitted
    }
}

/// The filter above a policy.
pub struct Alto {
    name: &'static str,
    knobs: AltoKnobs,
    below: Box<dyn Policy>,
    spaces: BTreeMap<SpaceId, Throttle>,
    round: Quantum,
}

impl Alto {
    /// The filter above a policy, under one name for both.
    pub fn over(name: &'static str, below: Box<dyn Policy>) -> Self {
        let (knobs, spaces, round) = (AltoKnobs::default(), BTreeMap::new(), Quantum::default());
        Self { name, knobs, below, spaces, round }
    }

    fn measure(&mut self, view: &View<'_>) {
        for of in &view.machine.telemetry.stalls {
            let sums = &mut self.spaces.entry(of.space).or_default().sums;
            let cycles = [of.latency_ns, of.amortised_ns()].map(|ns| ns * self.knobs.alto_ghz);
            *sums = [sums[0] + cycles[0], sums[1] + cycles[1], sums[2] + 1.0];
        }
        if self.round.due(view.now, self.knobs.alto_interval).is_none() {
            return;
        }
        // A program that ended, or is not measured any more, is not throttled.
        self.spaces.retain(|_, throttle| throttle.sums[2] > 0.0);
        for throttle in self.spaces.values_mut() {
            let [latency, amortised, count] = std::mem::take(&mut throttle.sums);
            throttle.passes = passes(latency / count, amortised / count);
        }
    }

    fn admit(&mut self, m: &Move) -> bool {
        self.spaces.get_mut(&m.space).is_none_or(Throttle::admit)
    }

    /// Drops promotions that do not pass from the plan after its first `before` moves, and room that nothing needs.
    fn filter(&mut self, before: usize, plan: &mut Plan) {
        let mut room = Vec::new();
        for m in plan.split_off(before) {
            if matches!(m.reason, Reason::MakeRoom { .. }) {
                room.push(m);
            } else if m.to > m.from {
                plan.push(m);
            } else if self.admit(&m) {
                plan.append(&mut room);
                plan.push(m);
            }
        }
        for m in plan.take_over_limit() {
            if m.to > m.from || self.admit(&m) {
                plan.push_over_limit(m);
            }
        }
    }
}

impl Policy for Alto {
    fn name(&self) -> &'static str {
        self.name
    }

    fn plan(&mut self, view: &mut View<'_>, plan: &mut Plan) {
        let before = plan.len();
        self.measure(view);
        self.below.plan(view, plan);
        if self.spaces.values().any(|throttle| throttle.passes < OF) {
            self.filter(before, plan);
        }
    }

    fn heat(&self, memory: &Memory<'_>, page: PageIdx) -> HeatEstimate {
        self.below.heat(memory, page)
    }

    fn needs(&self) -> &'static [Capability] {
        self.below.needs()
    }

    fn wants(&self) -> Wants {
        self.below.wants()
    }

    fn knobs(&self) -> Vec<Knob> {
        [self.below.knobs(), AltoKnobs::table()].concat()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        self.below.set(knob, value) || self.knobs.set(knob, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::first_touch::FirstTouch;
    use crate::port::{PageSize, Vpn};
    use crate::tier::TierId;

    /// The table of the artifact.
    #[test]
    fn the_published_steps() {
        let of = |cycles: f64| passes(400.0, cycles);
        assert_eq!([40.0, 50.0, 60.0, 80.0, 100.0, 101.0].map(of), [0, 1, 1, 3, 5, 10]);
        assert_eq!(passes(100.0, 10.0), 10, "the caches serve nearly everything");
    }

    #[test]
    fn the_first_of_ten_promotions_pass_with_the_room_that_they_need() {
        let mut alto = Alto::over("first-touch+alto", Box::new(FirstTouch));
        alto.spaces.insert(SpaceId(1), Throttle { passes: 3, ..Throttle::default() });
        let (fast, slow) = (TierId(0), TierId(1));
        let moving = |vpn, from, to, reason| {
            let (space, vpn, size) = (SpaceId(1), Vpn(vpn), PageSize::Base);
            Move { space, vpn, size, from, to, reason }
        };
        let mut plan = Plan::default();
        for vpn in 0..10 {
            plan.push(moving(100 + vpn, fast, slow, Reason::MakeRoom { rate_per_sec: 1.0 }));
            plan.push(moving(vpn, slow, fast, Reason::Hot { rate_per_sec: 2.0 }));
        }
        alto.filter(0, &mut plan);
        let kept: Vec<u64> = plan.iter().map(|m| m.vpn.0).collect();
        assert_eq!(kept, [100, 0, 101, 1, 102, 2]);
    }
}
