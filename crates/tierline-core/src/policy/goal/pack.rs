// SPDX-License-Identifier: Apache-2.0
//! Pack the hottest pages into the fastest tier, whatever its load: the goal of all systems before Colloid.

use super::{Aim, Goal};
use crate::knob::Knob;
use crate::policy::view::View;
use crate::unit::Nanos;

/// The goal.
#[derive(Clone, Copy, Debug)]
pub struct Pack;

impl Goal for Pack {
    fn update(&mut self, _view: &View<'_>) {}

    fn aim(&mut self, _view: &View<'_>, _passed: Nanos) -> Aim {
        Aim::Pack
    }

    fn can_shift(&self) -> bool {
        false
    }

    fn knobs(&self) -> Vec<Knob> {
        Vec::new()
    }

    fn set(&mut self, _knob: &str, _value: f64) -> bool {
        false
    }
}
