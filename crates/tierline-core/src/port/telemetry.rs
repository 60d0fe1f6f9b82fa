// SPDX-License-Identifier: Apache-2.0
//! What a world measures of the machine.

use serde::Serialize;

use crate::unit::{Bytes, BytesPerSec, Nanos};

/// What is measured of one tier. What cannot be known is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TierTelemetry {
    /// Bytes free in the tier's nodes, the kernel's own reserves taken off.
    pub free: Bytes,
    /// Bytes of the tier that the managed programs use.
    pub managed: Bytes,
    /// New pages were put elsewhere since this was last asked, as less than the kernel's low watermark was
    /// free: its reclaimer is awake. False where it cannot be known.
    pub turned_away: bool,
    /// Loaded latency of a demand read.
    pub latency: Option<Nanos>,
    /// Demand reads in flight, averaged over the quantum (Little's law: latency = occupancy / rate).
    pub occupancy: Option<f64>,
    /// Demand reads per second.
    pub reads_per_sec: Option<f64>,
    /// Bandwidth in use.
    pub bandwidth: Option<BytesPerSec>,
}

/// What a memory device that counts its accesses says of them: NeoProf's histogram and its state monitor.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Counted {
    /// Its counters by what they counted since they were cleared: the least count of a bin, and how many counters
    /// are in it, lowest bin first.
    pub histogram: Vec<(u32, u32)>,
    /// By how much a count may exceed the true one.
    pub error_bound: u32,
    /// Share of its cycles that carried data since this was last told, 0 to 1.
    pub utilisation: f64,
}

/// What is measured of the machine in one quantum.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Telemetry {
    /// One entry a tier, fastest first.
    pub tiers: Vec<TierTelemetry>,
    /// Share of the managed programs' time that memory costs them by not being in the fastest tier, 0 to 1:
    /// what loads from slower tiers take longer, and bringing back what is out.
    pub stall: Option<f64>,
    /// Of it, what memory costs them that is out altogether: all that a kernel's pressure stall information knows.
    pub page_in_stall: Option<f64>,
    /// What a counting device says, whenever it was asked anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
}
