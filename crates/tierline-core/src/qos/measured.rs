// SPDX-License-Identifier: Apache-2.0
//! What was measured of an application in an adaptation period.
//!
//! Ticks are averaged over the period, periods by an exponential average with weight 0.5, as in Mercury's
//! public monitor (section 7.7 of our notes).

use serde::Serialize;

use super::heat_curve::{TierBytes, as_f64};
use crate::port::{LatencySource, TenantTelemetry};
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

/// Weight of the last period.
const ALPHA: f64 = 0.5;

/// Measurements of one application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Bytes in each tier, fastest first.
    #[serde(rename = "used_bytes_by_tier")]
    pub used: TierBytes,
    /// Mean latency of an access that misses the caches, queueing included.
    pub latency_ns: Option<f64>,
    /// Where the latency comes from.
    pub latency_source: Option<LatencySource>,
    /// The number of samples that the latency rests on.
    pub latency_samples: u64,
    /// Bytes read and written per second.
    #[serde(rename = "bytes_per_second")]
    pub bytes_per_sec: f64,
    /// Whether bytes per second are measured at all.
    pub bandwidth_is_measured: bool,
    /// Whether the shares are estimated from observed pages, as bytes per second of tiers are not measured.
    pub shares_are_estimated: bool,
    /// Share of its accesses served by each tier.
    pub shares: [f64; TierId::MAX],
    /// Whether it had work; true if unknown.
    pub demand: bool,
}

impl Measured {
    /// All its memory.
    pub fn memory(&self) -> Bytes {
        self.used.iter().copied().sum()
    }

    /// Share of accesses that slower tiers than the fastest serve.
    pub fn slow_share(&self) -> f64 {
        (1.0 - self.shares[0]).max(0.0)
    }

    /// Whether it is known which tiers serve its accesses.
    pub fn knows_shares(&self) -> bool {
        self.bytes_per_sec > 0.0 || self.shares_are_estimated
    }

    /// Without a measured latency, predicts it: the shares of tiers times their latencies.
    pub fn predict(&mut self, tier_ns: &[f64; TierId::MAX]) {
        if self.latency_ns.is_none() && self.shares_are_estimated {
            let mean = self.shares.iter().zip(tier_ns).map(|(share, ns)| share * ns).sum();
            (self.latency_ns, self.latency_source) = (Some(mean), Some(LatencySource::Predicted));
        }
    }

    /// Bytes per second of a tier.
    pub fn bytes_per_sec_in(&self, tier: usize) -> f64 {
        self.bytes_per_sec * self.shares[tier]
    }
}

/// Sums of the ticks of a period.
#[derive(Clone, Debug, Default)]
pub struct PeriodSums {
    used: TierBytes,
    bytes: [f64; TierId::MAX],
    accesses: Vec<f64>,
    latency_weight: f64,
    latency_ns: f64,
    latency_source: Option<LatencySource>,
    latency_samples: u64,
    seconds: f64,
    seen: bool,
    bandwidth_is_measured: bool,
    demand: bool,
    last: Measured,
}

impl PeriodSums {
    /// Adds a tick of this length.
    pub fn add(&mut self, length: Nanos, tenant: &TenantTelemetry) {
        let seconds = length.as_secs_f64();
        for (used, now) in self.used.iter_mut().zip(&tenant.used) {
            *used = now.unwrap_or(*used);
        }
        let mut all = 0.0;
        for (bytes, &rate) in self.bytes.iter_mut().zip(&tenant.bandwidth) {
            let moved = as_f64(Bytes(rate.0)) * seconds;
            *bytes += moved;
            all += moved;
        }
        // The first tick has no length, so it measures no rate.
        self.bandwidth_is_measured |= !tenant.bandwidth.is_empty() && seconds > 0.0;
        if !tenant.accesses_per_sec.is_empty() {
            self.accesses.clone_from(&tenant.accesses_per_sec);
        }
        let weight = if tenant.bandwidth.is_empty() { seconds } else { all };
        if let Some(latency) = tenant.latency.filter(|_| weight > 0.0) {
            self.latency_ns += latency.mean_ns * weight;
            self.latency_weight += weight;
            self.latency_source = Some(latency.source);
            self.latency_samples = latency.samples;
        }
        (self.seconds, self.seen) = (self.seconds + seconds, true);
        self.demand |= tenant.demand.unwrap_or(true);
    }

    /// Ends the period. A tenant that was not measured at all has no memory: its programs have ended.
    pub fn close(&mut self) -> Measured {
        let all: f64 = self.bytes.iter().sum();
        let rate = if self.seconds > 0.0 { all / self.seconds } else { 0.0 };
        let fresh = !self.last.demand || !self.last.knows_shares();
        let smooth = |last: f64, now: f64| match fresh {
            true => now,
            false => last + ALPHA * (now - last),
        };
        let last = self.last;
        let latency = (self.latency_weight > 0.0).then(|| self.latency_ns / self.latency_weight);
        let estimated: f64 = self.accesses.iter().sum();
        let shares_are_estimated = estimated > 0.0;
        let (parts, all) = if shares_are_estimated {
            (&self.accesses[..], estimated)
        } else {
            (&self.bytes[..], all)
        };
        let mut shares = last.shares;
        if all > 0.0 {
            for (share, part) in shares.iter_mut().zip(parts) {
                *share = smooth(*share, part / all);
            }
        }
        // A prediction is no measurement, so none is averaged into one.
        let last_ns =
            last.latency_ns.filter(|_| last.latency_source != Some(LatencySource::Predicted));
        let measured = Measured {
            used: if self.seen { self.used } else { TierBytes::default() },
            latency_ns: latency.map(|ns| smooth(last_ns.unwrap_or(ns), ns)),
            latency_source: self.latency_source,
            latency_samples: self.latency_samples,
            bandwidth_is_measured: self.bandwidth_is_measured,
            shares_are_estimated,
            bytes_per_sec: smooth(last.bytes_per_sec, rate),
            shares,
            demand: self.demand,
        };
        *self = Self { used: self.used, last: measured, ..Self::default() };
        measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{LatencySource, MeasuredLatency};
    use crate::unit::BytesPerSec;

    fn tick(mean_ns: f64, rates: [u64; 2]) -> TenantTelemetry {
        TenantTelemetry {
            used: vec![Some(Bytes(4096)), None],
            latency: Some(MeasuredLatency { mean_ns, source: LatencySource::Model, samples: 1 }),
            bandwidth: rates.map(BytesPerSec).into(),
            demand: Some(rates[0] + rates[1] > 0),
            ..TenantTelemetry::default()
        }
    }

    #[test]
    fn a_period_weights_latency_by_traffic_and_the_next_counts_half() {
        let mut window = PeriodSums::default();
        window.add(Nanos::from_millis(100), &tick(100.0, [3_000, 0]));
        window.add(Nanos::from_millis(100), &tick(200.0, [0, 1_000]));
        let first = window.close();
        assert_eq!(first.latency_ns, Some(125.0));
        assert!((first.bytes_per_sec - 2_000.0).abs() < 1e-6, "{first:?}");
        assert!((first.shares[0] - 0.75).abs() < 1e-9 && (first.slow_share() - 0.25).abs() < 1e-9);
        assert_eq!(first.memory(), Bytes(4096));
        window.add(Nanos::from_millis(200), &tick(225.0, [2_000, 2_000]));
        let second = window.close();
        assert_eq!(second.latency_ns, Some(175.0));
        assert!((second.bytes_per_sec - 3_000.0).abs() < 1e-6, "{second:?}");
        let gone = window.close();
        assert_eq!((gone.memory(), gone.demand), (Bytes::ZERO, false));
    }

    /// Without a bandwidth, observed pages give the shares, and the shares a latency, which is marked.
    #[test]
    fn estimated_accesses_give_shares_and_a_predicted_latency() {
        let estimate = |fast, slow| TenantTelemetry {
            used: vec![Some(Bytes(4096)), Some(Bytes(4096))],
            accesses_per_sec: vec![fast, slow],
            ..TenantTelemetry::default()
        };
        let period = Nanos::from_millis(200);
        let mut tier_ns = [0.0; TierId::MAX];
        (tier_ns[0], tier_ns[1]) = (100.0, 300.0);
        let mut window = PeriodSums::default();
        window.add(period, &estimate(30.0, 10.0));
        let mut first = window.close();
        first.predict(&tier_ns);
        assert!((first.slow_share() - 0.25).abs() < 1e-9, "{first:?}");
        assert_eq!(
            (first.latency_ns, first.latency_source),
            (Some(150.0), Some(LatencySource::Predicted))
        );
        assert!(first.knows_shares() && !first.bandwidth_is_measured);
        let latency =
            MeasuredLatency { mean_ns: 500.0, source: LatencySource::Application, samples: 9 };
        window.add(period, &TenantTelemetry { latency: Some(latency), ..estimate(0.0, 10.0) });
        let mut told = window.close();
        told.predict(&tier_ns);
        assert_eq!(
            (told.latency_ns, told.latency_samples),
            (Some(500.0), 9),
            "a report is not averaged with a prediction"
        );
        assert!((told.slow_share() - 0.625).abs() < 1e-9, "{told:?}");
        window.add(period, &TenantTelemetry { accesses_per_sec: Vec::new(), ..estimate(0.0, 0.0) });
        let mut unknown = window.close();
        unknown.predict(&tier_ns);
        assert_eq!(unknown.latency_ns, None);
    }

    #[test]
    fn a_period_without_length_measures_no_bandwidth() {
        let mut window = PeriodSums::default();
        window.add(Nanos::ZERO, &tick(100.0, [3_000, 0]));
        assert!(!window.close().bandwidth_is_measured);
        window.add(Nanos::from_millis(200), &tick(100.0, [3_000, 0]));
        assert!(window.close().bandwidth_is_measured);
    }

    #[test]
    fn after_an_idle_period_the_next_counts_alone() {
        let mut window = PeriodSums::default();
        window.add(Nanos::from_millis(200), &tick(100.0, [0, 0]));
        assert!(!window.close().demand);
        window.add(Nanos::from_millis(200), &tick(300.0, [500, 0]));
        let measured = window.close();
        assert_eq!((measured.latency_ns, measured.demand), (Some(300.0), true));
        assert!((measured.bytes_per_sec - 500.0).abs() < 1e-6, "{measured:?}");
    }
}
