// SPDX-License-Identifier: Apache-2.0
//! Showback: what each tenant has used of each tier, and an estimate of what slower tiers and a lack of CPU time
//! have cost it.
//!
//! The slowdown is relative to all memory in the fastest tier under the same load. Of each second, a tenant loses
//!
//! ```text
//!   slow hits · latency gap / max(misses in flight, CPUs)
//! ```
//!
//! With one miss in flight per CPU at most, that is slow hits times the latency gap over its CPU time. With more, the
//! waits overlap, and the misses in flight (Little's law: rate times latency) take the place of the CPUs. Where the
//! number of CPUs is unknown, the tenant counts as always waiting for memory, so the estimate is an upper bound. All
//! of this is ours.

use std::collections::BTreeMap;

use super::heat_curve::{TierBytes, as_f64};
use super::need::unloaded_ns;
use crate::page::UseByTenant;
use crate::port::{Telemetry, TenantId, TenantTelemetry};
use crate::tier::{TierId, Tiers};
use crate::unit::{Bytes, Nanos};

/// Bytes of one access: a cache line.
const LINE: f64 = 64.0;

/// The CPU time that a tenant may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpu {
    /// CPUs that it uses without a limit; 0 if unknown.
    pub count: f64,
    /// Share of them that it may use.
    pub share: f64,
}

/// What one tenant has used since it was first seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Bytes times seconds, by tier, fastest first.
    pub byte_seconds: [f64; TierId::MAX],
    /// Time in which it had work.
    busy_seconds: f64,
    /// The same work without slower tiers and with all CPU time.
    ideal_seconds: f64,
}

impl Usage {
    /// How many times as long its work took; `None` before its first traffic.
    pub fn slowdown(&self) -> Option<f64> {
        (self.ideal_seconds > 0.0).then(|| self.busy_seconds / self.ideal_seconds)
    }

    /// The difference to an earlier state.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            byte_seconds: std::array::from_fn(|t| self.byte_seconds[t] - before.byte_seconds[t]),
            busy_seconds: self.busy_seconds - before.busy_seconds,
            ideal_seconds: self.ideal_seconds - before.ideal_seconds,
        }
    }

    fn add(&mut self, seconds: f64, used: &TierBytes, lost: Option<f64>, cpu_share: f64) {
        for (sum, &bytes) in self.byte_seconds.iter_mut().zip(used) {
            *sum += as_f64(bytes) * seconds;
        }
        if let Some(lost) = lost {
            debug_assert!((0.0..1.0).contains(&lost), "{lost} of its time lost");
            self.busy_seconds += seconds;
            self.ideal_seconds += seconds * (1.0 - lost) * cpu_share;
        }
    }
}

/// The usage of all tenants.
#[derive(Clone, Debug, Default)]
pub struct Showback {
    usage: BTreeMap<TenantId, Usage>,
    last: Option<Nanos>,
}

impl Showback {
    /// Adds the time since the last call. `known` is each tenant's memory by the page table, which stands in where
    /// telemetry measures none.
    pub fn add(
        &mut self,
        now: Nanos,
        telemetry: &Telemetry,
        tiers: &Tiers,
        known: &UseByTenant,
        cpu: impl Fn(TenantId) -> Cpu,
    ) {
        let seconds = now.saturating_sub(self.last.unwrap_or(now)).as_secs_f64();
        self.last = Some(now);
        let mut ns = unloaded_ns(tiers);
        for (ns, tier) in ns.iter_mut().zip(&telemetry.tiers) {
            *ns = tier.latency.map_or(*ns, |latency| latency.as_secs_f64() * 1e9);
        }
        let measured = telemetry.by_tenant();
        let unknown = telemetry.tenants.iter().filter(|one| !known.contains_key(&one.tenant));
        let all = known.keys().copied().chain(unknown.map(|one| one.tenant));
        for tenant in all.filter(|&tenant| tenant != TenantId::NOBODY) {
            let (measured, Cpu { count, share }) = (measured.get(&tenant), cpu(tenant));
            let mut used = known.get(&tenant).copied().unwrap_or_default();
            for (used, now) in used.iter_mut().zip(measured.into_iter().flat_map(|one| &one.used)) {
                *used = now.unwrap_or(*used);
            }
            let lost = measured.and_then(|one| lost(one, &ns, count * share));
            self.usage.entry(tenant).or_default().add(seconds, &used, lost, share);
        }
    }

    /// Forgets a tenant.
    pub fn forget(&mut self, tenant: TenantId) {
        self.usage.remove(&tenant);
    }

    /// What a tenant has used; nothing if it was never seen.
    pub fn of(&self, tenant: TenantId) -> Usage {
        self.usage.get(&tenant).copied().unwrap_or_default()
    }
}

/// The share of its time that a tenant waits for slower tiers longer than for the fastest; `None` without traffic.
fn lost(tenant: &TenantTelemetry, ns: &[f64; TierId::MAX], cpus: f64) -> Option<f64> {
    let per_ns = |tier: usize| {
        tenant.bandwidth.get(tier).map_or(0.0, |rate| as_f64(Bytes(rate.0)) / LINE * 1e-9)
    };
    let sum = |of: &dyn Fn(usize) -> f64| (0..TierId::MAX).map(|t| per_ns(t) * of(t)).sum::<f64>();
    let rate = sum(&|_| 1.0);
    if rate <= 0.0 {
        return None;
    }
    let in_flight = tenant.latency.map_or_else(|| sum(&|t| ns[t]), |mean| rate * mean.mean_ns);
    let waits = sum(&|t| (ns[t] - ns[0]).max(0.0));
    Some((waits / in_flight.max(cpus).max(1e-9)).min(0.999))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{LatencySource, MeasuredLatency, TierTelemetry};
    use crate::tier::Tier;
    use crate::unit::BytesPerSec;

    const A: TenantId = TenantId(1);
    const GIB: Bytes = Bytes(1 << 30);

    fn tiers() -> Tiers {
        let tier = |ns| Tier {
            name: format!("{ns}"),
            nodes: Vec::new(),
            capacity: GIB * 40,
            latency: Some(Nanos(ns)),
            bandwidth: None,
        };
        Tiers(vec![tier(100), tier(250)])
    }

    /// Lines per us in each tier, 3 GiB fast and 1 GiB slow.
    fn reads(fast: u64, slow: u64, mean_ns: f64) -> Telemetry {
        let tenant = TenantTelemetry {
            tenant: A,
            used: vec![Some(GIB * 3), Some(GIB)],
            latency: Some(MeasuredLatency { mean_ns, source: LatencySource::Model, samples: 1 }),
            bandwidth: [fast, slow].map(|lines| BytesPerSec(lines * 64_000_000)).into(),
            ..TenantTelemetry::default()
        };
        let tiers = vec![TierTelemetry::default(); 2];
        Telemetry { tiers, tenants: vec![tenant], ..Telemetry::default() }
    }

    fn usage(telemetry: &Telemetry, cpu: Cpu) -> Usage {
        let mut showback = Showback::default();
        for second in [5, 7, 15] {
            let now = Nanos::from_secs(second);
            showback.add(now, telemetry, &tiers(), &BTreeMap::new(), |_| cpu);
        }
        showback.of(A)
    }

    #[test]
    fn memory_counts_for_as_long_as_it_is_held() {
        let usage = usage(&reads(0, 0, 100.0), Cpu { count: 0.0, share: 1.0 });
        assert_eq!(usage.byte_seconds[..2], [3.0, 1.0].map(|gib| gib * 10.0 * as_f64(GIB)));
        assert_eq!(usage.slowdown(), None, "without traffic nothing is lost");
    }

    /// Half its reads take 250 ns instead of 100: 175 on average. With 20 reads per us, 3.5 are in flight.
    #[test]
    fn waits_that_overlap_count_once() {
        let telemetry = reads(10, 10, 175.0);
        let bound = usage(&telemetry, Cpu { count: 2.0, share: 1.0 });
        assert!((bound.slowdown().unwrap() - 1.75).abs() < 1e-9, "{bound:?}");
        // On six CPUs, 1.5 of six wait: slow hits times the gap over CPU time.
        let computes = usage(&telemetry, Cpu { count: 6.0, share: 1.0 });
        assert!((computes.slowdown().unwrap() - 6.0 / 4.5).abs() < 1e-9, "{computes:?}");
    }

    #[test]
    fn a_limit_on_cpu_time_is_a_slowdown_too() {
        let usage = usage(&reads(20, 0, 100.0), Cpu { count: 1.0, share: 0.5 });
        assert!((usage.slowdown().unwrap() - 2.0).abs() < 1e-9, "{usage:?}");
    }
}
