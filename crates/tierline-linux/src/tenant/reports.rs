// SPDX-License-Identifier: Apache-2.0
//! Figures that applications report about themselves: the most trustworthy ones.

use std::collections::BTreeMap;

use tierline_core::port::{LatencySource, MeasuredLatency, TenantTelemetry};
use tierline_core::unit::{BytesPerSec, Nanos};

/// A report counts for this long. Ours: monitors report every few seconds.
pub const VALID: Nanos = Nanos::from_secs(10);

/// What an application reports. What it leaves out is measured otherwise, as far as possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Its latency, in the meaning of its target.
    pub latency: Option<Nanos>,
    /// The number of samples of this latency.
    pub samples: u64,
    /// Bytes that it reads and writes per second, of all tiers together.
    pub bandwidth: Option<BytesPerSec>,
}

/// The last report of each tenant, by index.
#[derive(Debug, Default)]
pub struct Reports(BTreeMap<usize, (Nanos, Report)>);

impl Reports {
    /// Takes in a report.
    pub fn put(&mut self, now: Nanos, tenant: usize, report: Report) {
        self.0.insert(tenant, (now, report));
    }

    /// Forgets a tenant.
    pub fn forget(&mut self, tenant: usize) {
        self.0.remove(&tenant);
    }

    /// Writes a tenant's report into its telemetry, while it counts.
    pub fn fill(&self, now: Nanos, tenant: usize, out: &mut TenantTelemetry) {
        let recent = self.0.get(&tenant).filter(|(at, _)| now < *at + VALID);
        let Some((_, report)) = recent else { return };
        #[expect(clippy::cast_precision_loss, reason = "a latency")]
        let latency = report.latency.map(|latency| MeasuredLatency {
            mean_ns: latency.0 as f64,
            source: LatencySource::Application,
            samples: report.samples,
        });
        out.latency = latency.or(out.latency);
        if let Some(bandwidth) = report.bandwidth {
            out.bandwidth = vec![bandwidth];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_counts_for_ten_seconds() {
        let mut reports = Reports::default();
        let bandwidth = Some(BytesPerSec(5));
        reports.put(
            Nanos::from_secs(1),
            3,
            Report { latency: Some(Nanos(180)), samples: 7, bandwidth },
        );
        let at = |seconds, tenant| {
            let mut out = TenantTelemetry::default();
            reports.fill(Nanos::from_secs(seconds), tenant, &mut out);
            out
        };
        let latency = at(10, 3).latency.expect("a latency");
        assert_eq!(
            (latency.mean_ns, latency.source, latency.samples),
            (180.0, LatencySource::Application, 7)
        );
        assert_eq!(at(10, 3).bandwidth, [BytesPerSec(5)]);
        assert_eq!(at(11, 3), TenantTelemetry::default());
        assert_eq!(at(2, 4), TenantTelemetry::default());
    }
}
