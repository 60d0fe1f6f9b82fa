// SPDX-License-Identifier: Apache-2.0
//! The port between the core and a world: what a world reports, and what it is asked to do.
//!
//! A world is a machine model or a running Linux. It observes, measures and acts, and never decides. The core
//! decides, and never observes, measures or acts by itself.

mod address;
mod capability;
mod observations;
mod order;
mod requests;
mod telemetry;

pub use self::address::{PageAddress, PageKind, PageSize, Region, SpaceId, TenantId, Vpn};
pub use self::capability::{Capabilities, Capability};
pub use self::observations::{
    Observations, ObservedRegion, PartBits, Question, Residence, Sample, SampledHits, SlowFound,
    SpaceEvent, Spread, TrueRate,
};
pub use self::order::{Move, Order, Outcome, Reason};
pub use self::requests::{Allocation, Attention, Tracking};
pub use self::telemetry::{
    Allocated, DeviceCounts, LatencySource, MeasuredLatency, SpaceStalls, Telemetry,
    TenantTelemetry, TierTelemetry,
};
use crate::unit::Nanos;

/// A machine whose pages can be observed and moved.
pub trait World {
    /// What this world can do.
    fn capabilities(&self) -> Capabilities;

    /// Appends what was observed since the last call.
    fn observe(&mut self, now: Nanos, out: &mut Observations);

    /// Measures the tiers.
    fn measure(&mut self, now: Nanos) -> Telemetry;

    /// Carries out orders in the given order, and appends one outcome per order, in the same order. Returns the
    /// time that this took. Never gets orders that [`World::capabilities`] excludes.
    fn act(&mut self, now: Nanos, orders: &[Order], out: &mut Vec<Outcome>) -> Nanos;

    /// Sets how closely trackers observe from now on.
    fn set_attention(&mut self, attention: Attention);

    /// Reconfigures access tracking when a policy's request has changed. False if the tracker does not support
    /// it: it keeps its settings.
    fn configure_tracking(&mut self, watch: Tracking) -> bool;

    /// Limits a tenant to this share of its CPU time; 1 lifts the limit. Called only for a world that offers
    /// [`Capability::CpuShares`].
    fn limit_cpu(&mut self, tenant: TenantId, share: f64);

    /// Reports whether single pages were accessed recently, as a reclaimer reads it from their accessed bits;
    /// appends one answer per question. Called only for a world that offers [`Capability::Answers`].
    fn check_accessed(&mut self, now: Nanos, questions: &[Question], out: &mut Vec<bool>);
}
