// SPDX-License-Identifier: Apache-2.0
//! The list of trackers that the model has, by the names of `tierline_core::tracker`.

use serde::Deserialize;

use super::{Tracker, pebs};
use crate::error::{Error, Result};

/// What trackers can be told.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Knobs {
    /// Reads for one record (pebs, ibs).
    pub sample_period: f64,
    /// Records that fit the ring between two looks (pebs, ibs).
    pub ring: usize,
}

impl Default for Knobs {
    fn default() -> Self {
        // As on Linux: a prime near ten thousand.
        Self { sample_period: 10_007.0, ring: 1 << 20 }
    }
}

/// A kind of tracker.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The name users type.
    pub name: &'static str,
    make: fn(&Knobs) -> Box<dyn Tracker>,
}

/// Every tracker of the model; the first is the default.
pub const TRACKERS: &[Entry] = &[
    Entry {
        name: "pebs",
        make: |knobs| Box::new(pebs::Pebs::new("pebs", knobs.sample_period, knobs.ring)),
    },
    Entry {
        name: "ibs",
        make: |knobs| Box::new(pebs::Pebs::new("ibs", knobs.sample_period, knobs.ring)),
    },
];

impl Entry {
    /// The tracker of that name.
    ///
    /// # Errors
    /// `Error::Unknown` with the names there are.
    pub fn find(name: &str) -> Result<&'static Self> {
        TRACKERS
            .iter()
            .find(|entry| entry.name == name)
            .ok_or_else(|| Error::unknown("tracker", name, TRACKERS.iter().map(|entry| entry.name)))
    }

    /// One with these knobs.
    pub fn open(&self, knobs: &Knobs) -> Box<dyn Tracker> {
        (self.make)(knobs)
    }
}
