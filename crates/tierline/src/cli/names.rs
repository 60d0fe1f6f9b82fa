// SPDX-License-Identifier: Apache-2.0
//! Names for shell completion. They are not checked here: the verb does that, and suggests the nearest name.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Command};
use tierline_core::policy::POLICIES;
use tierline_linux::tracker::TRACKERS;
use tierline_model::machine::list::MACHINES;
use tierline_model::workload::list::listed;
use tierline_model::world::transfer::TRANSFERS;

/// A name from a list; other values are accepted as well.
#[derive(Clone)]
pub struct Names(fn() -> Vec<&'static str>);

impl TypedValueParser for Names {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

/// A policy.
pub fn policy() -> Names {
    Names(|| POLICIES.iter().map(|policy| policy.name).collect())
}

/// A tracker.
pub fn tracker() -> Names {
    Names(|| TRACKERS.iter().map(|tracker| tracker.name).collect())
}

/// A tracker of the model.
pub fn modelled_tracker() -> Names {
    Names(|| tierline_model::tracker::TRACKERS.iter().map(|tracker| tracker.name).collect())
}

/// A modelled machine.
pub fn machine() -> Names {
    Names(|| MACHINES.iter().map(|machine| machine.name).collect())
}

/// A workload of the model.
pub fn workload() -> Names {
    Names(|| listed().map(|workload| workload.name).collect())
}

/// A way to move pages.
pub fn migrator() -> Names {
    Names(|| TRANSFERS.iter().map(|transfer| transfer.name).collect())
}

/// Any name that `tierline explain` accepts.
pub fn explained() -> Names {
    Names(|| {
        [policy(), tracker(), workload(), migrator()].iter().flat_map(|names| (names.0)()).collect()
    })
}
