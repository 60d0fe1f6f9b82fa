// SPDX-License-Identifier: Apache-2.0
//! Goals: what a system's placement is for. The system knows which pages are hot; its goal says whether
//! to pack them, and if not, how much of the accesses is to shift between which tiers.

pub mod balance;
pub mod lane;
pub mod pack;
pub mod shift;

use std::fmt;

use super::view::View;
use crate::knob::Knob;
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

/// What a goal asks for in one quantum.
#[derive(Clone, Debug, PartialEq)]
pub enum Aim {
    /// The hottest pages into the fastest tier.
    Pack,
    /// Accesses shifted between tiers; none at all where the list is empty.
    Shift(Vec<Shift>),
}

/// Accesses to be shifted between a tier and those below it.
#[derive(Clone, Debug, PartialEq)]
pub struct Shift {
    /// The tier.
    pub tier: TierId,
    /// Up into it, or down from it.
    pub up: bool,
    /// The tiers below it: to take pages from, slowest first, or to give pages to, fastest first, by
    /// their loaded latencies.
    pub below: Vec<TierId>,
    /// Share of all accesses to be shifted, at most.
    pub share: f64,
    /// Bytes to be moved for it, at most.
    pub bytes: Bytes,
    /// Reads per second of the whole machine.
    pub reads_per_sec: f64,
}

/// What a system's placement is for.
pub trait Goal: fmt::Debug + Send {
    /// Takes in what was measured; called every tick.
    fn listen(&mut self, view: &View<'_>);

    /// What is to be done now, `passed` after it was last asked; called every quantum.
    fn aim(&mut self, view: &View<'_>, passed: Nanos) -> Aim;

    /// What an access to `tier` costs above the tier's unloaded latency, in seconds; 0 where that is not
    /// measured.
    fn queueing(&self, _view: &View<'_>, _tier: TierId) -> f64 {
        0.0
    }

    /// True where it asks for more than packing.
    fn shifts(&self) -> bool;

    /// The numbers that may be set.
    fn knobs(&self) -> Vec<Knob>;

    /// Sets the knob of that name; false where there is none.
    fn set(&mut self, knob: &str, value: f64) -> bool;
}

/// What is left of a shift while pages are found for it.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    share: f64,
    bytes: Bytes,
}

impl Quota {
    /// All of it.
    pub fn of(shift: &Shift) -> Self {
        Self::new(shift.share, shift.bytes)
    }

    /// So much of the accesses, and so many bytes.
    pub fn new(share: f64, bytes: Bytes) -> Self {
        Self { share, bytes }
    }

    /// Whether a page with that share of the accesses and that size still fits.
    pub fn admits(&self, share: f64, bytes: Bytes) -> bool {
        share > 0.0 && share <= self.share && bytes <= self.bytes
    }

    /// Whether nothing fits any more.
    pub fn is_spent(&self) -> bool {
        self.share <= 0.0 || self.bytes == Bytes::ZERO
    }

    /// Takes off what was planned.
    pub fn charge(&mut self, share: f64, bytes: Bytes) {
        self.share -= share;
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}
