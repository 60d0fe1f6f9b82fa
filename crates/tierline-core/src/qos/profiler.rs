// SPDX-License-Identifier: Apache-2.0
//! Finds by measurement the least resources with which one application meets its SLO.
//!
//! As Mercury (4.2): all memory in the fastest tier and all CPU time; then less fast memory until the target is
//! just met; a BI application that meets it without fast memory gets less CPU time. Mercury gives no steps;
//! here the interval is halved until [`RESOLUTION`] (ours). Each measurement also becomes a point of the
//! application's need curve. Who drives it sets the limits, lets the memory settle, and records the result.

use serde::Serialize;

use super::application::{Application, Refusal, Slo};
use super::heat_curve::{HeatCurve, TierBytes, as_f64};
use super::measured::Measured;
use super::need::{ApplicationProfile, CPU_FLOOR, Need, as_ns};
use crate::unit::{Bytes, BytesPerSec, Nanos};

/// The interval is halved to this part of all memory, or of all CPU time: 1.6 %, six halvings. Ours.
const RESOLUTION: f64 = 1.0 / 64.0;

/// What to try next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// Limit in the fastest tier.
    #[serde(rename = "fast_bytes")]
    pub fast: Bytes,
    /// Share of its CPU time.
    pub cpu_share: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Everything it can have.
    All,
    /// The least fast memory is between these shares of its memory; the target is met at the second.
    Memory(f64, f64),
    /// The least CPU time is between these shares; the target is met at the second.
    Cpu(f64, f64),
    Done(Result<Need, Refusal>),
}

/// The profiler of one application.
#[derive(Clone, Debug)]
pub struct Profiler {
    slo: Slo,
    memory: Bytes,
    phase: Phase,
    curve: HeatCurve,
    bandwidth: Option<BytesPerSec>,
}

impl Profiler {
    /// For an application with this memory; `None` if it has no SLO, as there is nothing to find.
    pub fn new(application: &Application, memory: Bytes) -> Option<Self> {
        Some(Self {
            slo: application.slo?,
            memory,
            phase: Phase::All,
            curve: HeatCurve::uniform(memory),
            bandwidth: None,
        })
    }

    /// What to measure next; `None` at the end.
    pub fn next(&self) -> Option<Trial> {
        let trial = |share: f64, cpu_share| Trial { fast: self.memory.part(share), cpu_share };
        match self.phase {
            Phase::All => Some(trial(1.0, 1.0)),
            Phase::Memory(low, high) if low < 0.0 => Some(trial(low.max(0.0).min(high), 1.0)),
            Phase::Memory(low, high) => Some(trial(0.5 * (low + high), 1.0)),
            Phase::Cpu(low, high) => Some(trial(0.0, 0.5 * (low + high))),
            Phase::Done(_) => None,
        }
    }

    /// Records the measurement of the last trial. `granted` is the fast memory that it could have: less than all if the
    /// tier is smaller, or others need it more.
    pub fn record(&mut self, measured: &Measured, granted: Bytes) {
        let most = (as_f64(granted) / as_f64(self.memory).max(1.0)).min(1.0);
        self.curve.learn(measured.used[0], measured.shares[0]);
        let meets = self.meets(measured);
        self.phase = match self.phase {
            Phase::All if !meets => Phase::Done(Err(self.impossible(measured))),
            Phase::All => {
                self.bandwidth = Some(bandwidth(measured));
                Phase::Memory(-1.0, most) // without fast memory first
            }
            Phase::Memory(low, high) if low < 0.0 => match (meets, self.slo.is_bandwidth()) {
                (true, true) => Phase::Cpu(CPU_FLOOR, 1.0),
                (true, false) => self.done(0.0, 1.0),
                (false, _) => Phase::Memory(0.0, high),
            },
            Phase::Memory(low, high) => {
                let (low, high) = halve(low, high, meets);
                let found = high - low <= RESOLUTION;
                if found { self.done(high, 1.0) } else { Phase::Memory(low, high) }
            }
            Phase::Cpu(low, high) => {
                let (low, high) = halve(low, high, meets);
                let found = high - low <= RESOLUTION;
                if found { self.done(0.0, high) } else { Phase::Cpu(low, high) }
            }
            done @ Phase::Done(_) => done,
        };
    }

    /// The least resources, at the end.
    pub fn need(&self) -> Option<Result<Need, Refusal>> {
        if let Phase::Done(need) = self.phase { Some(need) } else { None }
    }

    /// The profile so far.
    pub fn profile(&self) -> ApplicationProfile {
        ApplicationProfile { curve: self.curve.clone(), bandwidth: self.bandwidth }
    }

    fn done(&self, share: f64, cpu_share: f64) -> Phase {
        let mut placement = TierBytes::default();
        placement[0] = self.memory.part(share);
        Phase::Done(Ok(Need { placement, cpu_share }))
    }

    /// Whether a measurement meets the target.
    pub fn meets(&self, measured: &Measured) -> bool {
        match self.slo {
            Slo::Latency(at_most) => measured.latency_ns.is_some_and(|ns| ns <= as_ns(at_most)),
            Slo::SlowShare(at_most) => measured.slow_share() <= at_most,
            Slo::Bandwidth(at_least) => measured.bytes_per_sec >= as_f64(Bytes(at_least.0)),
        }
    }

    fn impossible(&self, measured: &Measured) -> Refusal {
        let best = match self.slo {
            Slo::Latency(_) => {
                let ns = measured.latency_ns.unwrap_or_default();
                Slo::Latency(Nanos::from_secs_f64((ns + 0.5) * 1e-9))
            }
            Slo::SlowShare(_) => Slo::SlowShare(measured.slow_share()),
            Slo::Bandwidth(_) => Slo::Bandwidth(bandwidth(measured)),
        };
        Refusal::Impossible { slo: self.slo, best }
    }
}

/// The half of an interval in which the least sufficient value is.
fn halve(low: f64, high: f64, meets: bool) -> (f64, f64) {
    let middle = 0.5 * (low + high);
    if meets { (low, middle) } else { (middle, high) }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a bandwidth is positive, and the cast saturates"
)]
fn bandwidth(measured: &Measured) -> BytesPerSec {
    BytesPerSec(measured.bytes_per_sec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::TenantId;

    const GB: u64 = 1 << 30;

    fn application(slo: Slo) -> Application {
        let memory = Bytes(20 * GB);
        Application {
            tenant: TenantId(1),
            slo: Some(slo),
            priority: 1,
            weight: 1.0,
            cores: 1.0,
            memory,
        }
    }

    /// A uniform program on 100 and 250 ns; 80 GB/s if all is fast.
    fn run(trial: Trial) -> Measured {
        let fast = as_f64(trial.fast) / as_f64(Bytes(20 * GB));
        let ns = 100.0 * fast + 250.0 * (1.0 - fast);
        let mut measured = Measured {
            latency_ns: Some(ns),
            bytes_per_sec: 80e9 * 100.0 / ns * trial.cpu_share,
            demand: true,
            ..Measured::default()
        };
        measured.used[0] = trial.fast;
        measured.used[1] = Bytes(20 * GB) - trial.fast;
        (measured.shares[0], measured.shares[1]) = (fast, 1.0 - fast);
        measured
    }

    fn profile(slo: Slo) -> (Result<Need, Refusal>, usize) {
        let mut profiler = Profiler::new(&application(slo), Bytes(20 * GB)).unwrap();
        let mut trials = 0;
        while let Some(trial) = profiler.next() {
            profiler.record(&run(trial), trial.fast);
            trials += 1;
            assert!(trials < 20, "it ends");
        }
        (profiler.need().unwrap(), trials)
    }

    #[test]
    fn the_least_memory_is_found_in_eight_trials() {
        let (need, trials) = profile(Slo::Latency(Nanos(160)));
        let gb = as_f64(need.unwrap().placement[0]) / as_f64(Bytes(GB));
        assert!((12.0..12.0 + 20.0 * RESOLUTION).contains(&gb), "{gb}");
        assert_eq!(trials, 8);
        let (need, trials) = profile(Slo::Latency(Nanos(250)));
        assert_eq!((need.unwrap().placement[0], trials), (Bytes::ZERO, 2));
    }

    #[test]
    fn a_bandwidth_target_below_that_of_slow_memory_takes_cpu_time() {
        let (need, _) = profile(Slo::Bandwidth(BytesPerSec(16_000_000_000)));
        let need = need.unwrap();
        assert_eq!(need.placement[0], Bytes::ZERO);
        assert!((0.5..0.5 + RESOLUTION).contains(&need.cpu_share), "{need:?}");
        let (need, _) = profile(Slo::Bandwidth(BytesPerSec(40_000_000_000)));
        let need = need.unwrap();
        let share = as_f64(need.placement[0]) / as_f64(Bytes(20 * GB));
        assert!((1.0 / 3.0..1.0 / 3.0 + RESOLUTION).contains(&share), "{share}");
        assert_eq!(need.cpu_share, 1.0);
    }

    #[test]
    fn an_impossible_target_ends_after_one_trial() {
        let (need, trials) = profile(Slo::Latency(Nanos(90)));
        let best = Slo::Latency(Nanos(100));
        let slo = Slo::Latency(Nanos(90));
        assert_eq!((need, trials), (Err(Refusal::Impossible { slo, best }), 1));
    }

    #[test]
    fn a_profile_predicts_another_target() {
        let mut profiler =
            Profiler::new(&application(Slo::Latency(Nanos(160))), Bytes(20 * GB)).unwrap();
        while let Some(trial) = profiler.next() {
            profiler.record(&run(trial), trial.fast);
        }
        let curve = profiler.profile().curve;
        assert!((curve.share(Bytes(5 * GB)) - 0.25).abs() < 0.02, "{curve:?}");
        assert_eq!(profiler.profile().bandwidth, Some(BytesPerSec(80_000_000_000)));
    }
}
