// SPDX-License-Identifier: Apache-2.0
//! How far a bandwidth-intensive application is held back, because its traffic hurts a more important one.
//!
//! As Mercury (4.3.1): first its fast memory shrinks, so that its traffic leaves the fastest tier; once slow
//! tiers are near the harmful traffic, its CPU time shrinks instead. Near a tier's capacity one of both costs the
//! held-back program much more for the same effect. So each step has a [`Price`], and the cheaper kind is taken
//! (ours). Steps are proportional to the miss, and none is taken before the last one has had its effect. It is
//! loosened in the opposite order, one step per patience; patience doubles each time that loosening caused a miss.
//! Steps, limits and patience are ours: Mercury gives none.

use serde::Serialize;

use super::heat_curve::as_f64;
use super::measured::Measured;
use super::need::CPU_FLOOR;
use crate::port::TenantId;
use crate::unit::{Bytes, Nanos};

/// A step takes this part, at least and at most.
const STEP: [f64; 2] = [0.05, 0.25];
/// Time until a step that was carried out shows in the measurements: three periods.
const SETTLES: Nanos = Nanos::from_millis(600);
/// Fast memory above its cap by less than this part has moved.
const MOVED: f64 = 0.02;
/// Less fast memory than this is none.
const NEGLIGIBLE: Bytes = Bytes::from_mib(64);
/// Time between two steps of loosening, at least and at most.
const PATIENCE: [Nanos; 2] = [Nanos::from_secs(2), Nanos::from_secs(300)];
/// A miss this soon after loosening was caused by it.
const BLAMED: Nanos = Nanos::from_secs(10);

/// Relief by less than this part counts as this part, as it may be noise. Ours.
const RELIEF: f64 = 0.005;
/// No price is higher, so that what is dear is tried again after three steps of the other kind. Ours.
const DEAREST: f64 = 8.0;

/// One kind of step is much dearer than the other by this factor. Ours.
const DEARER: f64 = 2.0;

/// What can be taken from a program that is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    Memory,
    Cpu,
}

/// What the last step of a kind cost: the part of its bandwidth that the held-back program lost, over the part by
/// which that relieved the other one. `None`: not measured.
type Price = Option<f64>;

/// A step whose effect is not known yet, and what was measured before it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    means: Means,
    by: TenantId,
    miss: f64,
    bytes_per_sec: f64,
}

/// The result of an attempt to tighten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tightened {
    /// One step further.
    Stepped,
    /// The last step has not had its effect yet.
    Underway,
    /// No further step is possible.
    AtFloor,
}

/// How far one application is held back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Squeeze {
    /// Upper limit on its fast memory.
    #[serde(rename = "fast_cap_bytes")]
    pub fast_cap: Option<Bytes>,
    /// Share of its CPU time.
    pub cpu_share: f64,
    /// The application for which it is held back.
    pub by: Option<TenantId>,
    #[serde(skip)]
    patience: Nanos,
    /// The time at which the last step had been carried out.
    #[serde(skip)]
    tightened: Nanos,
    #[serde(skip)]
    loosened: Option<Nanos>,
    #[serde(skip)]
    step: Option<Step>,
    #[serde(skip)]
    price_of_memory: Price,
    #[serde(skip)]
    price_of_cpu: Price,
}

impl Default for Squeeze {
    fn default() -> Self {
        Self {
            fast_cap: None,
            cpu_share: 1.0,
            by: None,
            patience: PATIENCE[0],
            tightened: Nanos::ZERO,
            loosened: None,
            step: None,
            price_of_memory: None,
            price_of_cpu: None,
        }
    }
}

impl Squeeze {
    /// Whether it is held back.
    pub fn is_active(&self) -> bool {
        self.by.is_some()
    }

    /// Takes a step for an application that misses its target by the relative error `miss`. `slow_room` is the
    /// traffic that slow tiers can still take without harm, `most` the largest part of its speed that may be taken.
    pub fn tighten(
        &mut self,
        now: Nanos,
        by: TenantId,
        miss: f64,
        victim: &Measured,
        slow_room: f64,
        most: f64,
    ) -> Tightened {
        let part = miss.clamp(STEP[0], STEP[1]).min(most);
        let moving = self.fast_cap.is_some_and(|cap| {
            as_f64(victim.used[0]) > as_f64(cap) * (1.0 + MOVED) + as_f64(NEGLIGIBLE)
        });
        if moving || self.is_settling(now) {
            self.tightened = if moving { now } else { self.tightened };
            return Tightened::Underway;
        }
        let last = self.step.map(|step| step.means);
        self.learn_price(now, by, miss, victim);
        let fast_traffic = victim.bytes_per_sec_in(0);
        let fits = if fast_traffic > 0.0 { slow_room / fast_traffic } else { 0.0 };
        let memory = part.min(fits);
        let has_memory = victim.used[0] > NEGLIGIBLE && memory >= STEP[0] / 2.0;
        let has_cpu = self.cpu_share > CPU_FLOOR;
        let means = match (has_memory, has_cpu) {
            (true, true) => self.cheaper(last),
            (true, false) => Means::Memory,
            (false, true) => Means::Cpu,
            (false, false) => return Tightened::AtFloor,
        };
        match means {
            Means::Memory => {
                let cap = victim.used[0].part(1.0 - memory);
                self.fast_cap = Some(if cap > NEGLIGIBLE { cap } else { Bytes::ZERO });
            }
            Means::Cpu => {
                let part = if has_memory { STEP[0] } else { part };
                self.cpu_share = (self.cpu_share * (1.0 - part)).max(CPU_FLOOR);
            }
        }
        let bytes_per_sec = victim.bytes_per_sec;
        self.step = Some(Step { means, by, miss, bytes_per_sec });
        if self.loosened.take().is_some_and(|at| now.saturating_sub(at) < BLAMED) {
            self.patience = Nanos(self.patience.0 * 2).min(PATIENCE[1]);
        }
        (self.by, self.tightened) = (Some(by), now);
        debug_assert!((CPU_FLOOR..=1.0).contains(&self.cpu_share), "{self:?}");
        Tightened::Stepped
    }

    /// Takes a step back: CPU time first, then memory. Returns whether something changed. While it is idle, it
    /// stays as it is: it loses nothing, and its next wave of work starts where the last one had settled.
    pub fn loosen(&mut self, now: Nanos, victim: &Measured) -> bool {
        if !victim.demand {
            self.patience = PATIENCE[0];
            return false;
        }
        let since = now.saturating_sub(self.loosened.unwrap_or(self.tightened));
        if !self.is_active() || since < self.patience {
            return false;
        }
        self.loosened = Some(now);
        if self.cpu_share < 1.0 {
            self.cpu_share = (self.cpu_share * (1.0 + 2.0 * STEP[0])).min(1.0);
        } else if let Some(cap) = self.fast_cap {
            let more = cap + victim.memory().part(STEP[0]).max(NEGLIGIBLE);
            self.fast_cap = (more < victim.memory()).then_some(more);
        }
        if self.cpu_share >= 1.0 && self.fast_cap.is_none() {
            *self = Self::default();
        }
        true
    }

    /// Records what the last step has cost, if that was measured soon after it.
    fn learn_price(&mut self, now: Nanos, by: TenantId, miss: f64, victim: &Measured) {
        let Some(step) = self.step.take() else { return };
        let soon = now.saturating_sub(self.tightened) < BLAMED;
        if step.by != by || !soon || step.bytes_per_sec <= 0.0 {
            return;
        }
        let lost = (1.0 - victim.bytes_per_sec / step.bytes_per_sec).max(0.0);
        let relieved = 1.0 - (1.0 + miss) / (1.0 + step.miss);
        let price = (lost / relieved.max(RELIEF)).min(DEAREST);
        *match step.means {
            Means::Memory => &mut self.price_of_memory,
            Means::Cpu => &mut self.price_of_cpu,
        } = Some(price);
    }

    /// What to take next: memory while that costs nothing, as Mercury. Then both in turn, as each changes the price of the
    /// other, unless one is known to be much dearer. What is passed over is tried again: its price is halved.
    fn cheaper(&mut self, last: Option<Means>) -> Means {
        let Some(memory) = self.price_of_memory.filter(|&price| price > 0.0) else {
            return Means::Memory;
        };
        let cpu = self.price_of_cpu.unwrap_or(0.0);
        match last {
            Some(Means::Memory) if cpu > memory * DEARER => {
                self.price_of_cpu = Some(cpu / 2.0);
                Means::Memory
            }
            Some(Means::Cpu) if memory > cpu * DEARER => {
                self.price_of_memory = Some(memory / 2.0);
                Means::Cpu
            }
            Some(Means::Cpu) => Means::Memory,
            Some(Means::Memory) | None => Means::Cpu,
        }
    }

    fn is_settling(&self, now: Nanos) -> bool {
        self.is_active() && now.saturating_sub(self.tightened) < SETTLES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: Bytes = Bytes(1 << 30);
    const ALL: f64 = f64::INFINITY;
    const BY: TenantId = TenantId(9);

    fn hog(fast: u64, rate: f64) -> Measured {
        let mut hog = Measured { bytes_per_sec: rate, demand: true, ..Measured::default() };
        (hog.used[0], hog.used[1]) = (GB * fast, GB * (40 - fast));
        (hog.shares[0], hog.shares[1]) = (0.5, 0.5);
        hog
    }

    #[test]
    fn memory_goes_first_and_cpu_time_once_slow_memory_is_full() {
        let mut squeeze = Squeeze::default();
        let second = Nanos::from_secs(1);
        assert_eq!(
            squeeze.tighten(second, BY, 0.1, &hog(20, 100.0), 40.0, ALL),
            Tightened::Stepped
        );
        assert_eq!(squeeze.fast_cap, Some((GB * 20).part(0.9)));
        let late = second * 9;
        assert_eq!(squeeze.tighten(late, BY, 0.1, &hog(20, 90.0), 40.0, ALL), Tightened::Underway);
        let late = late + second;
        assert_eq!(squeeze.tighten(late, BY, 0.1, &hog(18, 90.0), 0.5, ALL), Tightened::Stepped);
        assert_eq!((squeeze.fast_cap, squeeze.cpu_share), (Some((GB * 20).part(0.9)), 0.9));
        let mut now = late;
        let mut result = Tightened::Stepped;
        for _ in 0..100 {
            now += second;
            result = squeeze.tighten(now, BY, 9.0, &hog(18, 90.0), -1.0, ALL);
        }
        assert_eq!((result, squeeze.cpu_share), (Tightened::AtFloor, CPU_FLOOR));
    }

    /// A program whose fast memory is where it should be, after a step.
    fn after(squeeze: &Squeeze, rate: f64) -> Measured {
        let mut hog = hog(40, rate);
        hog.used[0] = squeeze.fast_cap.unwrap_or(GB * 40);
        hog
    }

    #[test]
    fn what_costs_its_bandwidth_least_is_taken() {
        let mut squeeze = Squeeze::default();
        let mut now = Nanos::ZERO;
        let mut took = |rate: f64, miss: f64| {
            now += Nanos::from_secs(1);
            let before = squeeze;
            let victim = after(&squeeze, rate);
            assert_eq!(squeeze.tighten(now, BY, miss, &victim, 1e9, ALL), Tightened::Stepped);
            if squeeze.cpu_share < before.cpu_share { Means::Cpu } else { Means::Memory }
        };
        assert_eq!(took(100.0, 0.60), Means::Memory);
        assert_eq!(took(101.0, 0.40), Means::Memory, "it costs nothing");
        assert_eq!(took(90.0, 0.35), Means::Cpu, "it costs 11 % for 4 %");
        assert_eq!(took(90.0, 0.30), Means::Cpu, "it costs nothing");
        assert_eq!(took(80.0, 0.28), Means::Memory, "it costs 11 % for 2 %");
        assert_eq!(took(80.0, 0.28), Means::Memory, "it costs nothing");
    }

    #[test]
    fn a_small_room_in_slow_memory_is_not_exceeded() {
        let mut squeeze = Squeeze::default();
        squeeze.tighten(Nanos::from_secs(1), BY, 0.25, &hog(20, 100.0), 5.0, ALL);
        assert_eq!(squeeze.fast_cap, Some((GB * 20).part(0.9)), "5 of its 50 bytes per second");
    }

    #[test]
    fn it_is_lifted_in_steps_and_a_miss_doubles_the_patience() {
        let mut squeeze = Squeeze::default();
        let at = |seconds| Nanos::from_secs(seconds);
        squeeze.tighten(at(0), BY, 0.25, &hog(0, 100.0), 0.0, ALL);
        assert_eq!(squeeze.cpu_share, 0.75);
        assert!(!squeeze.loosen(at(1), &hog(0, 75.0)));
        assert!(squeeze.loosen(at(2), &hog(0, 75.0)));
        assert!((squeeze.cpu_share - 0.825).abs() < 1e-9);
        squeeze.tighten(at(3), BY, 0.05, &hog(0, 82.0), 0.0, ALL);
        assert!(!squeeze.loosen(at(6), &hog(0, 75.0)));
        assert!(squeeze.loosen(at(7), &hog(0, 75.0)));
        for second in 0..20 {
            squeeze.loosen(at(11 + 4 * second), &hog(0, 90.0));
        }
        assert_eq!(squeeze, Squeeze::default());
    }

    /// Otherwise each wave of its work would hurt until it is held back again.
    #[test]
    fn it_stays_while_the_application_is_idle() {
        let mut squeeze = Squeeze::default();
        squeeze.tighten(Nanos::from_secs(1), BY, 0.25, &hog(0, 100.0), 0.0, ALL);
        let idle = Measured { demand: false, ..hog(0, 0.0) };
        assert!((2..500).all(|second| !squeeze.loosen(Nanos::from_secs(second), &idle)));
        assert_eq!(squeeze.cpu_share, 0.75);
        assert!(squeeze.loosen(Nanos::from_secs(500), &hog(0, 75.0)));
    }

    /// It misses by a quarter, but of its own speed only a tenth may be taken.
    #[test]
    fn no_more_is_taken_at_a_time_than_a_target_leaves() {
        let mut squeeze = Squeeze::default();
        squeeze.tighten(Nanos::from_secs(1), BY, 0.25, &hog(0, 100.0), 0.0, 0.1);
        assert!((squeeze.cpu_share - 0.9).abs() < 1e-9, "{squeeze:?}");
    }
}
