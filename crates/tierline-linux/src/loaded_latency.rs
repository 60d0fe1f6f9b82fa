// SPDX-License-Identifier: Apache-2.0
//! The loaded latency of each tier: by Little's law where the CPU counts, else by a probe where asked.

use tierline_core::port::TierTelemetry;
use tierline_core::tier::Tiers;
use tierline_core::unit::Nanos;

use crate::latency_probe::LatencyProbe;

/// Time between rounds of the probe: 512 loads each, far below a thousandth of a CPU.
const PROBE_EVERY: Nanos = Nanos::from_millis(500);

/// Where loaded latencies come from.
#[derive(Debug, Default)]
pub struct LoadedLatency {
    /// One probe a tier, on its first node.
    probes: Vec<Option<LatencyProbe>>,
    last: Vec<Option<Nanos>>,
    due: Nanos,
}

impl LoadedLatency {
    /// No latencies: the telemetry's stay unknown.
    pub fn none() -> Self {
        Self::default()
    }

    /// Probes on the first node of each tier; 4 MiB of memory each. Tiers that cannot be probed stay
    /// unknown.
    pub fn probes(tiers: &Tiers) -> Self {
        let probe = |node| LatencyProbe::new(node).ok();
        let probes: Vec<_> =
            tiers.0.iter().map(|tier| tier.nodes.first().copied().and_then(probe)).collect();
        let last = vec![None; probes.len()];
        Self { probes, last, due: Nanos::ZERO }
    }

    /// Writes the latest latencies into the telemetry, measuring anew when that is due.
    pub fn fill(&mut self, now: Nanos, tiers: &mut [TierTelemetry]) {
        if now >= self.due {
            self.due = now + PROBE_EVERY;
            for (probe, last) in self.probes.iter_mut().zip(&mut self.last) {
                *last = probe.as_mut().map(LatencyProbe::round);
            }
        }
        for (tier, last) in tiers.iter_mut().zip(&self.last) {
            tier.latency = *last;
        }
    }
}
