// SPDX-License-Identifier: Apache-2.0
//! What a world measures of the machine.

use std::collections::BTreeMap;

use serde::Serialize;

use super::address::{SpaceId, TenantId};
use crate::unit::{Bytes, BytesPerSec, Nanos};

/// Measurements of one tier. Unknown values are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TierTelemetry {
    /// Bytes free in the tier's nodes, without the kernel's own reserves, and those that give way when room is needed.
    pub free: Bytes,
    /// If none are free, the bytes that are missing from these reserves: they come before any page that moves in.
    pub lacking: Bytes,
    /// Since the last call, new pages were placed elsewhere because less than the kernel's low watermark was
    /// free, so its reclaimer is awake. False if unknown.
    pub failed_allocations: bool,
    /// Loaded latency of a demand read.
    pub latency: Option<Nanos>,
    /// Demand reads in flight, averaged over the quantum (Little's law: latency = occupancy / rate).
    pub occupancy: Option<f64>,
    /// Demand reads per second.
    pub reads_per_sec: Option<f64>,
    /// Bandwidth in use.
    pub bandwidth: Option<BytesPerSec>,
}

/// What a memory device with access counters reports: NeoProf's histogram and its state monitor.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceCounts {
    /// Its counters by their value since the last clearing: the least count of each bin, and the number of
    /// counters in it, lowest bin first.
    pub histogram: Vec<(u32, u32)>,
    /// By how much a count may exceed the true one.
    pub error_bound: u32,
    /// Share of its cycles that carried data since the last report, 0 to 1.
    pub utilisation: f64,
}

/// What the managed programs allocated, as far as others did not allocate as much at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Allocated {
    /// The sum since the start, whether it was freed again or not.
    pub total: Bytes,
    /// When that was read.
    pub read: Nanos,
}

/// Measurements of the machine in one quantum.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Telemetry {
    /// One entry per tier, fastest first.
    pub tiers: Vec<TierTelemetry>,
    /// What the managed programs allocated; if it is unknown, they allocated whatever is no longer free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated: Option<Allocated>,
    /// Share of the managed programs' time lost because memory is not in the fastest tier, 0 to 1: the longer
    /// loads from slower tiers, and paging in.
    pub stall: Option<f64>,
    /// The part of `stall` due to paged-out memory: all that a kernel's pressure stall information covers.
    pub page_in_stall: Option<f64>,
    /// Measurements of tenants; tenants not in the list were not measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantTelemetry>,
    /// How reads stall the threads of address spaces; spaces not in the list were not measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stalls: Vec<SpaceStalls>,
    /// The report of a counting device, in ticks in which there is a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<DeviceCounts>,
}

impl Telemetry {
    /// The measurements by tenant.
    pub fn by_tenant(&self) -> BTreeMap<TenantId, &TenantTelemetry> {
        self.tenants.iter().map(|measured| (measured.tenant, measured)).collect()
    }
}

/// How the reads of one address space stall its threads, as four counters of the cores show it.
///
/// With reads A, cycles with a read in flight B, reads in flight summed over cycles C and stalled cycles S: the latency is
/// C/A, the overlap C/B, and B/A is the amortised latency (Soar and Alto, OSDI 2025).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SpaceStalls {
    /// The space.
    pub space: SpaceId,
    /// Reads per second, of all its threads.
    pub reads_per_sec: f64,
    /// Mean latency of a read.
    pub latency_ns: f64,
    /// Mean reads in flight on a core while there is one.
    pub overlap: f64,
    /// Share of its threads' time in which they wait for these reads, 0 to 1.
    pub stalled: f64,
}

impl SpaceStalls {
    /// Latency per read, where the latencies of overlapping reads count once.
    pub fn amortised_ns(&self) -> f64 {
        self.latency_ns / self.overlap.max(1.0)
    }

    /// The part of the program's time that a read costs per second of its latency: by how much one more second of
    /// latency a second slows the program down.
    pub fn cost(&self) -> Option<f64> {
        let waited = self.reads_per_sec * self.latency_ns * 1e-9;
        (waited > 0.0 && self.stalled > 0.0).then(|| self.stalled / waited)
    }
}

/// Where a latency comes from, most trustworthy first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencySource {
    /// A model knows it.
    Model,
    /// The application reports it.
    Application,
    /// Sampled loads (PEBS, IBS).
    Samples,
    /// Cycles with a miss outstanding, per miss: a trend.
    Cycles,
    /// The share of slow accesses times the latency of tiers: a prediction.
    Predicted,
}

/// A latency, its source, and what it rests on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeasuredLatency {
    /// Mean latency of an access that misses the caches, queueing included.
    pub mean_ns: f64,
    /// Its source.
    pub source: LatencySource,
    /// Number of samples.
    pub samples: u64,
}

/// Measurements of one tenant. Unknown values are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TenantTelemetry {
    /// The tenant.
    pub tenant: TenantId,
    /// Bytes that it uses in each tier, fastest first.
    pub used: Vec<Option<Bytes>>,
    /// Of these, files and shared memory. It may map others, which count as another's use; empty if that is not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub used_files: Vec<Bytes>,
    /// Latency of its accesses since the last call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<MeasuredLatency>,
    /// Bytes per second that it reads from and writes to each tier; one figure if only the total is known; empty if
    /// unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bandwidth: Vec<BytesPerSec>,
    /// Accesses per second to each tier, estimated from the accesses that trackers see of its pages; empty if unknown. They stand in
    /// for bandwidths by tier that are not measured: only their proportion counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accesses_per_sec: Vec<f64>,
    /// Whether it has work, throttled or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demand: Option<bool>,
}
