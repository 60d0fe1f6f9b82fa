// SPDX-License-Identifier: Apache-2.0
//! The loaded latency of each tier: by Little's law if the CPU has counters, otherwise by a probe on request.

use tierline_core::port::TierTelemetry;
use tierline_core::tier::Tiers;
use tierline_core::unit::Nanos;

use crate::cha::Cha;
use crate::latency_probe::LatencyProbe;
use crate::root::Root;
use crate::topology::Topology;

/// Time between rounds of the probe. A round is 512 loads, far below a thousandth of a CPU.
const PROBE_EVERY: Nanos = Nanos::from_millis(500);

/// The source of loaded latencies.
#[derive(Default)]
pub enum LoadedLatency {
    /// None: loaded latencies stay unknown.
    #[default]
    Unknown,
    /// The CPU's counters of requests in flight and of new requests.
    Counters(Cha),
    /// One probe per tier, on its first node; 4 MiB of memory each.
    Probes(Probes),
}

/// Probes of all tiers with their latest results. Tiers that cannot be probed stay unknown.
#[derive(Debug)]
pub struct Probes {
    probes: Vec<Option<LatencyProbe>>,
    last: Vec<Option<Nanos>>,
    due: Nanos,
}

impl LoadedLatency {
    /// Counters if this CPU has them, otherwise probes if `probe` is true.
    pub fn open(root: &Root, tiers: &Tiers, topology: &Topology, probe: bool) -> Self {
        match Cha::open(root, tiers, topology) {
            Ok(counters) => Self::Counters(counters),
            Err(_) if probe => Self::Probes(Probes::new(tiers)),
            Err(_) => Self::Unknown,
        }
    }

    /// Writes the latest latencies into the telemetry; measures again when due.
    pub fn update(&mut self, now: Nanos, tiers: &mut [TierTelemetry]) {
        match self {
            Self::Unknown => {}
            Self::Counters(counters) => {
                for (tier, loaded) in tiers.iter_mut().zip(counters.read().unwrap_or_default()) {
                    tier.latency = loaded.latency;
                    tier.occupancy = Some(loaded.occupancy);
                    tier.reads_per_sec = Some(loaded.reads_per_sec);
                }
            }
            Self::Probes(probes) => probes.update(now, tiers),
        }
    }
}

impl Probes {
    fn new(tiers: &Tiers) -> Self {
        let probe = |node| LatencyProbe::new(node).ok();
        let probes: Vec<_> =
            tiers.0.iter().map(|tier| tier.nodes.first().copied().and_then(probe)).collect();
        let last = vec![None; probes.len()];
        Self { probes, last, due: Nanos::ZERO }
    }

    fn update(&mut self, now: Nanos, tiers: &mut [TierTelemetry]) {
        if now >= self.due {
            self.due = now + PROBE_EVERY;
            for (probe, last) in self.probes.iter_mut().zip(&mut self.last) {
                *last = probe.as_mut().map(LatencyProbe::measure);
            }
        }
        for (tier, last) in tiers.iter_mut().zip(&self.last) {
            tier.latency = *last;
        }
    }
}
