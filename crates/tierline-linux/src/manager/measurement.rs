// SPDX-License-Identifier: Apache-2.0
//! The measurement of an application's need, as a manager reports it.

use serde::{Deserialize, Serialize};
use tierline_core::qos::measurement::{Finding, Measurement, Tried};
use tierline_core::unit::{Bytes, Nanos};

use super::Manager;
use crate::error::Result;
use crate::tenant::id;

/// A measurement, at its end or before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasurementStatus {
    /// The trials so far.
    pub trials: Vec<TrialStatus>,
    /// What it found, as a sentence; `None` before its end.
    pub finding: Option<String>,
    /// The fast memory that the target needs, if that was found.
    pub fast_bytes: Option<Bytes>,
    /// The share of its CPU time that the target needs, if that was found.
    pub cpu_share: Option<f64>,
}

/// One trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialStatus {
    /// The most fast memory that it could have.
    pub fast_bytes: Bytes,
    /// The fast memory that it had at the end.
    pub used_fast_bytes: Bytes,
    /// Its share of CPU time.
    pub cpu_share: f64,
    /// The mean latency of its accesses.
    pub latency_ns: Option<f64>,
    /// Bytes read and written per second; `None`: not measured.
    pub bandwidth_bytes_per_second: Option<f64>,
    /// Share of its accesses that slower tiers than the fastest served.
    pub slow_share: f64,
    /// Whether that met the target.
    pub met: bool,
}

impl Manager {
    /// Begins to measure what an application needs. It gets more and less fast memory for a minute or two; less important
    /// ones give up memory for it meanwhile.
    ///
    /// # Errors
    /// `Error::Refused` if there is none of this name, if it has no target, or while another one is measured.
    pub fn measure_need(&mut self, now: Nanos, name: &str) -> Result<()> {
        let (tenant, _) = self.find(name)?;
        let began = self.engine.qos.measure(now, id(tenant));
        began.map_err(|refusal| self.refusal(name, refusal))
    }

    /// The last measurement, if it is of this application.
    ///
    /// # Errors
    /// `Error::Refused` if there is none of this name.
    pub fn measurement(&self, name: &str) -> Result<Option<MeasurementStatus>> {
        let (tenant, _) = self.find(name)?;
        let own = self.engine.qos.measurement().filter(|one| one.tenant == id(tenant));
        Ok(own.map(|one| MeasurementStatus::of(one, name)))
    }
}

impl MeasurementStatus {
    fn of(measurement: &Measurement, name: &str) -> Self {
        let need = match measurement.finding {
            Some(Finding::Need(need)) => Some(need),
            _ => None,
        };
        Self {
            trials: measurement.tried.iter().map(TrialStatus::of).collect(),
            finding: measurement.finding.map(|finding| finding.sentence(name)),
            fast_bytes: need.map(|need| need.placement[0]),
            cpu_share: need.map(|need| need.cpu_share),
        }
    }
}

impl TrialStatus {
    fn of(tried: &Tried) -> Self {
        Self {
            fast_bytes: tried.trial.fast,
            used_fast_bytes: tried.used_fast,
            cpu_share: tried.trial.cpu_share,
            latency_ns: tried.latency_ns,
            bandwidth_bytes_per_second: tried.bytes_per_sec,
            slow_share: tried.slow_share,
            met: tried.met,
        }
    }
}
