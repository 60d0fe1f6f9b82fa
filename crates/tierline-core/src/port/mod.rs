// SPDX-License-Identifier: Apache-2.0
//! The border between the core and a world: what a world reports, and what it is asked to do.
//!
//! A world is a machine model or a running Linux. It observes, measures and acts; it never decides. The core decides;
//! it never observes, measures or acts by itself.

mod address;
mod capability;
mod observations;
mod order;
mod requests;
mod telemetry;

pub use self::address::{PageAt, PageKind, PageSize, Region, SpaceId, Vpn};
pub use self::capability::{Capabilities, Capability};
pub use self::observations::{
    Observations, Question, Residence, Sample, SpaceEvent, Stretch, TrueRate,
};
pub use self::order::{Move, Order, Outcome, Reason};
pub use self::requests::{Allocation, Attention, Watch};
pub use self::telemetry::{Counted, Telemetry, TierTelemetry};
use crate::unit::Nanos;

/// A machine whose pages can be observed and moved.
pub trait World {
    /// What this world can do.
    fn capabilities(&self) -> Capabilities;

    /// Appends what was observed since the last call.
    fn observe(&mut self, now: Nanos, out: &mut Observations);

    /// Measures the tiers.
    fn measure(&mut self, now: Nanos) -> Telemetry;

    /// Carries out orders, in the given order, and appends one outcome an order, in the same order. Returns the time
    /// that this took. Orders that [`World::capabilities`] excludes are never given.
    fn act(&mut self, now: Nanos, orders: &[Order], out: &mut Vec<Outcome>) -> Nanos;

    /// Sets how closely trackers observe from now on.
    fn attend(&mut self, attention: Attention);

    /// Reconfigures access tracking, when a policy asks for other settings than before. False where the tracker does
    /// not support them: it goes on with those that it has.
    fn watch(&mut self, watch: Watch) -> bool;

    /// Reports of single pages whether they were accessed lately, as a reclaimer reads it from the accessed bits of
    /// pages that it is about to take, and appends one answer a question. Asked only of a world that offers
    /// [`Capability::Answers`].
    fn accessed(&mut self, now: Nanos, questions: &[Question], out: &mut Vec<bool>);
}
