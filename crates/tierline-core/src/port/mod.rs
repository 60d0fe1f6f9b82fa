// SPDX-License-Identifier: Apache-2.0
//! The border between the core and a world: what a world tells, and what it is asked to do.
//!
//! A world is a machine model or a running Linux. It looks (`observe`), measures (`measure`) and acts
//! (`migrate`); it never decides. The core decides; it never looks, measures or acts by itself.

mod address;
mod observations;
mod order;
mod requests;
mod telemetry;

pub use self::address::{PageAt, PageKind, PageSize, Region, SpaceId, Vpn};
pub use self::observations::{
    Observations, Question, Residence, Sample, SpaceEvent, Stretch, TrueRate,
};
pub use self::order::{Move, Outcome, Reason};
pub use self::requests::{Allocation, Attention, Watch};
pub use self::telemetry::{Counted, Telemetry, TierTelemetry};
use crate::unit::Nanos;

/// A machine whose pages can be watched and moved.
pub trait World {
    /// Appends what was seen since the last call.
    fn observe(&mut self, now: Nanos, out: &mut Observations);

    /// Measures the tiers.
    fn measure(&mut self, now: Nanos) -> Telemetry;

    /// Moves pages, in the given order, and appends one outcome a move, in the same order.
    /// Returns the time the moving took.
    fn migrate(&mut self, now: Nanos, moves: &[Move], out: &mut Vec<Outcome>) -> Nanos;

    /// Hears how closely to look from now on.
    fn attend(&mut self, attention: Attention);

    /// Pages out: what they hold is written to where it is kept (the file, the swap device) and their memory is
    /// free; the next access brings a page back, wherever new pages go then. Appends one outcome a page,
    /// in the given order: whether it is out. Returns the time it took. A world that cannot appends nothing.
    fn page_out(&mut self, _now: Nanos, _pages: &[PageAt], _out: &mut Vec<bool>) -> Nanos {
        Nanos::ZERO
    }

    /// Splits huge pages into base pages, which stay where they are; whether and when they are made whole
    /// again is up to the world, which tells of it as of any region that takes another page size. Appends one
    /// outcome a page, in the given order: whether it is split. Returns the time it took. A world that cannot
    /// appends nothing.
    fn split(&mut self, _now: Nanos, _pages: &[PageAt], _out: &mut Vec<bool>) -> Nanos {
        Nanos::ZERO
    }

    /// Hears how accesses are to be seen from now on, when a policy wishes for it otherwise than before:
    /// a scanner with another period. A world whose tracker cannot goes on as it did.
    fn watch(&mut self, _watch: Watch) {}

    /// Says of single pages whether they were accessed lately, as a reclaimer reads it from the accessed
    /// bits of pages that it is about to take, and appends one answer a question. A world that cannot
    /// appends nothing.
    fn accessed(&mut self, _now: Nanos, _questions: &[Question], _out: &mut Vec<bool>) {}
}
