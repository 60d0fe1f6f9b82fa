// SPDX-License-Identifier: Apache-2.0
//! Goals of placement. A policy knows which pages are hot; its goal says whether to pack them, or how many
//! accesses to shift between which tiers.

pub mod balance;
pub mod pack;
pub mod shift;
pub mod shift_progress;

use std::fmt;

use super::view::View;
use crate::knob::Knob;
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

/// What a goal requests for one quantum.
#[derive(Clone, Debug, PartialEq)]
pub enum Aim {
    /// The hottest pages into the fastest tier.
    Pack,
    /// Accesses shifted between tiers; an empty list shifts nothing.
    Shift(Vec<Shift>),
}

/// Accesses to be shifted between a tier and those below it.
#[derive(Clone, Debug, PartialEq)]
pub struct Shift {
    /// The tier.
    pub tier: TierId,
    /// Up into the tier, or down from it.
    pub up: bool,
    /// The tiers below it, ordered by loaded latency: slowest first as sources of pages, fastest first as
    /// targets.
    pub below: Vec<TierId>,
    /// Share of all accesses to be shifted, at most.
    pub share: f64,
    /// Bytes to be moved for this, at most.
    pub bytes: Bytes,
    /// Reads per second of the whole machine.
    pub reads_per_sec: f64,
}

/// A goal of placement.
pub trait Goal: fmt::Debug + Send {
    /// Takes in measurements; called every tick.
    fn update(&mut self, view: &View<'_>);

    /// The aim for the next quantum, `passed` after the last call.
    fn aim(&mut self, view: &View<'_>, passed: Nanos) -> Aim;

    /// The cost of an access to `tier` above the tier's unloaded latency, in seconds; 0 if not measured.
    fn queueing_secs(&self, _view: &View<'_>, _tier: TierId) -> f64 {
        0.0
    }

    /// The part of [`Goal::queueing_secs`] that other accesses wait.
    fn queueing_of_others_secs(&self, _view: &View<'_>, _tier: TierId) -> f64 {
        0.0
    }

    /// True if it can request shifts, not only packing.
    fn can_shift(&self) -> bool;

    /// Its knobs.
    fn knobs(&self) -> Vec<Knob>;

    /// Sets the knob of that name; false if there is none.
    fn set(&mut self, knob: &str, value: f64) -> bool;
}

/// What remains of a shift while pages are selected for it.
#[derive(Clone, Copy, Debug)]
pub struct ShiftQuota {
    share: f64,
    bytes: Bytes,
}

impl ShiftQuota {
    /// The whole shift.
    pub fn of(shift: &Shift) -> Self {
        Self::new(shift.share, shift.bytes)
    }

    /// This share of the accesses, and this many bytes.
    pub fn new(share: f64, bytes: Bytes) -> Self {
        Self { share, bytes }
    }

    /// Whether a page with that share of the accesses and that size still fits.
    pub fn admits(&self, share: f64, bytes: Bytes) -> bool {
        share > 0.0 && share <= self.share && bytes <= self.bytes
    }

    /// Whether nothing more fits.
    pub fn is_spent(&self) -> bool {
        self.share <= 0.0 || self.bytes == Bytes::ZERO
    }

    /// Deducts a planned page.
    pub fn charge(&mut self, share: f64, bytes: Bytes) {
        self.share -= share;
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}
