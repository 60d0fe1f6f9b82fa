// SPDX-License-Identifier: Apache-2.0
//! The machine's two thresholds: the traffic of the fastest tier that is still healthy, and the traffic of
//! slower tiers at which the fastest one suffers.
//!
//! As Mercury (4.2): an LS micro-benchmark (random reads of 4 GB) runs in the fastest tier beside a BI
//! micro-benchmark (128 MB a core). For the first threshold the BI benchmark is in the fastest tier too and
//! grows; for the second its share in slow memory grows. Each is where the LS benchmark is 10 % slower. Mercury
//! counts hint faults for the second; here it is bytes per second, which does not depend on how often pages are
//! armed (ours). As the LS benchmark first gains when traffic leaves its tier, the second is relative to the
//! least latency of the sweep (ours). Whoever runs the benchmarks passes the points in.

use serde::{Deserialize, Serialize};

use super::heat_curve::as_f64;
use crate::unit::{Bytes, BytesPerSec};

/// Degradation that counts as interference (Mercury, 4.2).
pub const DEGRADED: f64 = 0.10;

/// The thresholds; unknown ones are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thresholds {
    /// Healthy traffic of the fastest tier, at most.
    #[serde(rename = "fast_bytes_per_second")]
    pub fast: Option<BytesPerSec>,
    /// Traffic of all slower tiers at which the fastest suffers.
    #[serde(rename = "slow_bytes_per_second")]
    pub slow: Option<BytesPerSec>,
}

/// One point of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SweepPoint {
    /// Latency of the LS benchmark.
    pub latency_ns: f64,
    /// Traffic of the fastest tier.
    pub fast: BytesPerSec,
    /// Traffic of all slower tiers.
    pub slow: BytesPerSec,
}

impl Thresholds {
    /// From two sweeps, each in ascending order of load or of the slow share. `alone_ns` is the latency of the
    /// LS benchmark alone. A threshold that the sweep does not reach is `None`: there is no such interference.
    pub fn calibrate(alone_ns: f64, load: &[SweepPoint], slow_share: &[SweepPoint]) -> Self {
        let least = |a: &SweepPoint, b: &SweepPoint| a.latency_ns.total_cmp(&b.latency_ns);
        let best = (0..slow_share.len()).min_by(|&a, &b| least(&slow_share[a], &slow_share[b]));
        let after = &slow_share[best.unwrap_or(0)..];
        let best_ns = after.first().map_or(alone_ns, |point| point.latency_ns);
        Self {
            fast: crossing(load, alone_ns * (1.0 + DEGRADED), |point| point.fast),
            slow: crossing(after, best_ns * (1.0 + DEGRADED), |point| point.slow),
        }
    }

    /// Whether the traffic of the fastest tier is above its threshold.
    pub fn fast_is_loaded(&self, bytes_per_sec: f64) -> bool {
        self.fast.is_some_and(|healthy| bytes_per_sec > as_f64(Bytes(healthy.0)))
    }

    /// Traffic that slow tiers can still take without harm; infinite without a threshold.
    pub fn slow_room(&self, bytes_per_sec: f64) -> f64 {
        self.slow.map_or(f64::INFINITY, |most| as_f64(Bytes(most.0)) - bytes_per_sec)
    }
}

/// The traffic at which latency first exceeds `limit_ns`, on a straight line between two points.
fn crossing(
    points: &[SweepPoint],
    limit_ns: f64,
    of: impl Fn(&SweepPoint) -> BytesPerSec,
) -> Option<BytesPerSec> {
    let above = points.iter().position(|point| point.latency_ns > limit_ns)?;
    let rate = |point: &SweepPoint| as_f64(Bytes(of(point).0));
    let high = &points[above];
    let low =
        above.checked_sub(1).map_or(SweepPoint { latency_ns: limit_ns, ..*high }, |at| points[at]);
    let part = (limit_ns - low.latency_ns) / (high.latency_ns - low.latency_ns);
    let at = rate(&low) + part * (rate(high) - rate(&low));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between two rates"
    )]
    Some(BytesPerSec(at as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(latency_ns: f64, fast: u64, slow: u64) -> SweepPoint {
        SweepPoint { latency_ns, fast: BytesPerSec(fast), slow: BytesPerSec(slow) }
    }

    #[test]
    fn thresholds_are_where_the_benchmark_is_a_tenth_slower() {
        let load = [point(100.0, 10, 0), point(105.0, 40, 0), point(115.0, 60, 0)];
        let share = [point(150.0, 90, 0), point(100.0, 50, 20), point(120.0, 0, 40)];
        let found = Thresholds::calibrate(100.0, &load, &share);
        assert_eq!(found.fast, Some(BytesPerSec(50)));
        assert_eq!(found.slow, Some(BytesPerSec(30)));
        assert!(found.fast_is_loaded(51.0) && !found.fast_is_loaded(49.0));
        assert!((found.slow_room(25.0) - 5.0).abs() < 1e-9);
    }

    #[test]
    fn a_threshold_that_is_not_reached_is_none() {
        let found = Thresholds::calibrate(100.0, &[point(105.0, 90, 0)], &[]);
        assert_eq!(found, Thresholds::default());
        assert!(!found.fast_is_loaded(1e12));
        assert_eq!(found.slow_room(1e12), f64::INFINITY);
    }
}
