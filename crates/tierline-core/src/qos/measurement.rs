// SPDX-License-Identifier: Apache-2.0
//! Measures what one application needs while it runs beside the others: carries out the profiler's trials.
//!
//! Mercury profiles in isolation (4.2). Here the application gets exactly what a trial says, by its priority: what more
//! important ones need is not touched, and less important ones give up memory until the measurement ends. Meanwhile
//! nobody is held back for it, nor it for others. Times are ours.

use serde::Serialize;

use super::application::{Refusal, Slo};
use super::need::Need;
use super::profiler::{Profiler, Trial};
use super::rest::Rest;
use super::state::ApplicationState;
use crate::port::TenantId;
use crate::unit::{Bytes, Nanos};

/// Memory must rest for this long if it is where a trial wants it: ten periods, so that averages have settled.
const RESTS: Nanos = Nanos::from_secs(2);
/// The same if it is not: a policy leaves cold pages in slow memory.
const RESTS_ELSEWHERE: Nanos = Nanos::from_secs(5);
/// A trial is not longer, and an application without demand is not waited for longer.
const LONGEST: Nanos = Nanos::from_secs(60);

/// A trial and its result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tried {
    /// What the application was given.
    #[serde(flatten)]
    pub trial: Trial,
    /// Its fast memory at the end of the trial.
    #[serde(rename = "used_fast_bytes")]
    pub used_fast: Bytes,
    /// The mean latency of its accesses.
    pub latency_ns: Option<f64>,
    /// Bytes read and written per second; `None`: not measured.
    #[serde(rename = "bytes_per_second")]
    pub bytes_per_sec: Option<f64>,
    /// Share of its accesses that slower tiers than the fastest serve.
    pub slow_share: f64,
    /// Whether that met its target.
    pub met: bool,
}

/// What a measurement found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The least that meets the target.
    Need(Need),
    /// All that it could have is not enough: the best value.
    Impossible(Slo),
    /// It had nothing to do.
    Idle,
}

/// The measurement of one application.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// The application.
    pub tenant: TenantId,
    /// Its trials so far.
    pub tried: Vec<Tried>,
    /// The result, at the end.
    pub finding: Option<Finding>,
    begins: Nanos,
    profiler: Option<Profiler>,
    /// The time at which the present trial began.
    trial_began: Nanos,
    rest: Rest,
}

impl Measurement {
    /// Of this application, from a time on.
    pub fn new(tenant: TenantId, begins: Nanos) -> Self {
        Self {
            tenant,
            tried: Vec::new(),
            finding: None,
            begins,
            profiler: None,
            trial_began: begins,
            rest: Rest::default(),
        }
    }

    /// What the application is given at present; `None` before and after the measurement.
    pub fn trial(&self) -> Option<Trial> {
        self.profiler.as_ref().filter(|_| self.finding.is_none())?.next()
    }

    /// Ends a period. True if a trial, or the measurement, began or ended with it.
    pub fn step(&mut self, now: Nanos, state: &ApplicationState) -> bool {
        if now < self.begins || self.finding.is_some() {
            return false;
        }
        if self.profiler.is_none() {
            let memory = state.measured.memory();
            let found =
                if memory > Bytes::ZERO { Profiler::new(&state.application, memory) } else { None };
            self.profiler = found;
            (self.trial_began, self.rest) = (now, Rest::default());
            return self.profiler.is_some() || self.give_up_idle(now, self.begins);
        }
        if !state.measured.demand {
            return self.give_up_idle(now, self.trial_began);
        }
        if !self.has_settled(now, state) {
            return false;
        }
        self.record(state);
        (self.trial_began, self.rest) = (now, Rest::default());
        true
    }

    /// Ends without a result if the application has had nothing to do for long.
    fn give_up_idle(&mut self, now: Nanos, since: Nanos) -> bool {
        let is_idle = now.saturating_sub(since) >= LONGEST;
        self.finding = is_idle.then_some(Finding::Idle);
        is_idle
    }

    /// Whether the application's memory rests, or the trial has lasted long enough.
    fn has_settled(&mut self, now: Nanos, state: &ApplicationState) -> bool {
        let needed = if state.is_in_place() { RESTS } else { RESTS_ELSEWHERE };
        self.rest.observe(now, &state.measured.used) >= needed || now >= self.trial_began + LONGEST
    }

    fn record(&mut self, state: &ApplicationState) {
        let Some(profiler) = &mut self.profiler else { return };
        let (Some(trial), measured) = (profiler.next(), &state.measured) else { return };
        self.tried.push(Tried {
            trial,
            used_fast: measured.used[0],
            latency_ns: measured.latency_ns,
            bytes_per_sec: measured.bandwidth_is_measured.then_some(measured.bytes_per_sec),
            slow_share: measured.slow_share(),
            met: profiler.meets(measured),
        });
        profiler.record(measured, state.grant.reserved[0]);
        self.finding = profiler.need().map(|need| match need {
            Ok(need) => Finding::Need(need),
            Err(Refusal::Impossible { best, .. }) => Finding::Impossible(best),
            Err(_) => Finding::Idle,
        });
    }
}

impl Finding {
    /// It as a sentence about an application.
    pub fn sentence(&self, name: &str) -> String {
        match self {
            Self::Need(Need { placement, cpu_share }) if *cpu_share < 1.0 => format!(
                "{name} needs {} of fast memory and {:.0} % of its CPU time",
                placement[0],
                cpu_share * 100.0
            ),
            Self::Need(Need { placement, .. }) => {
                format!("{name} needs {} of fast memory", placement[0])
            }
            Self::Impossible(best) => {
                format!("{name} gets {best} at best with all that it may have")
            }
            Self::Idle => format!("{name} had nothing to do, so its need was not measured"),
        }
    }
}
