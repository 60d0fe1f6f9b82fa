// SPDX-License-Identifier: Apache-2.0
//! An entry of the list of trackers ([`TRACKERS`]): what it observes, needs and costs.

use serde::Serialize;
use tierline_core::tier::Tiers;

use super::needs::Requirement;
use super::neoprof::DeviceLocation;
use super::{TRACKERS, Tracker};
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::root::Root;

/// The description of a tracker, and how it is opened.
pub struct TrackerEntry {
    /// The name users type.
    pub name: &'static str,
    /// What it observes.
    pub sees: &'static str,
    /// What it costs.
    pub costs: &'static str,
    /// It reports one access per sampling period, which stands for the others.
    pub samples: bool,
    pub(crate) needs: fn(&Root) -> Vec<Requirement>,
    pub(crate) open: fn(&Setup<'_>) -> Result<Box<dyn Tracker>>,
}

/// The machine on which a tracker is opened.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The root of `/proc` and `/sys`.
    pub root: &'a Root,
    /// The journal of changed settings.
    pub journal: &'a Journal,
    /// The tiers.
    pub tiers: &'a Tiers,
    /// The location of NeoProf's registers; `None`: the first PCI device with its ids.
    pub neoprof: Option<&'a DeviceLocation>,
}

/// Whether a machine supports a tracker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Availability {
    /// True if no requirement is missing; it may still fail to start.
    pub available: bool,
    /// What was found, or all missing requirements.
    pub why: String,
}

impl TrackerEntry {
    /// The tracker with this name.
    ///
    /// # Errors
    /// `Error::Missing` with the known names.
    pub fn find(name: &str) -> Result<&'static Self> {
        TRACKERS.iter().find(|entry| entry.name == name).ok_or_else(|| {
            let known: Vec<&str> = TRACKERS.iter().map(|entry| entry.name).collect();
            Error::Missing {
                what: format!("tracker {name:?}"),
                why: "there is no tracker of that name".into(),
                hint: format!("choose one of {}", known.join(", ")),
            }
        })
    }

    /// Checks the requirements without changing anything.
    pub fn probe(&self, root: &Root) -> Availability {
        let needs = (self.needs)(root);
        let missing: Vec<&str> =
            needs.iter().filter(|(there, _)| !there).map(|(_, what)| *what).collect();
        let why = match missing.is_empty() {
            true => "all requirements are met".to_string(),
            false => format!("missing: {}", missing.join(", ")),
        };
        Availability { available: missing.is_empty(), why }
    }

    /// Opens it, ready to watch.
    ///
    /// # Errors
    /// The tracker's own error: a requirement is missing.
    pub fn open(&self, setup: &Setup<'_>) -> Result<Box<dyn Tracker>> {
        (self.open)(setup)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::fake;

    fn probe(root: &Root, name: &str) -> Availability {
        TrackerEntry::find(name).expect(name).probe(root)
    }

    #[test]
    fn names_are_unique_and_every_tracker_has_an_explanation() {
        for (at, entry) in TRACKERS.iter().enumerate() {
            assert!(TRACKERS[..at].iter().all(|other| other.name != entry.name), "{}", entry.name);
            assert!(!entry.sees.is_empty() && !entry.costs.is_empty(), "{}", entry.name);
        }
        let error = TrackerEntry::find("acessed").err().expect("no such tracker");
        let hint = error.hint().expect("a next step");
        assert!(TRACKERS.iter().all(|entry| hint.contains(entry.name)), "{hint}");
    }

    #[test]
    fn an_empty_machine_supports_none_and_reports_what_is_missing() {
        let (_dir, root) = fake(&[]);
        for entry in TRACKERS {
            let found = entry.probe(&root);
            assert!(!found.available && found.why.starts_with("missing"), "{}", entry.name);
        }
    }

    #[test]
    fn a_lab_guest_supports_the_right_trackers() {
        let (_dir, root) = fake(&[
            ("/proc/self/clear_refs", ""),
            ("/proc/kcore", ""),
            ("/sys/kernel/btf/vmlinux", ""),
            ("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "0\n"),
            ("/sys/module/damon_stat/parameters/enabled", "Y\n"),
        ]);
        assert!(probe(&root, "accessed").available, "{}", probe(&root, "accessed").why);
        assert!(probe(&root, "damon").why.contains("damon_stat"));
    }
}
