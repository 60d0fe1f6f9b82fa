// SPDX-License-Identifier: Apache-2.0
//! `tierline trackers`: lists the trackers, and which of them this kernel supports.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tierline_linux::root::Root;
use tierline_linux::tracker::{TRACKERS, TrackerEntry};

use super::Globals;
use crate::print::{self, row};

/// List the trackers, and which this kernel supports
///
/// The best comes first; the first available one is used.
#[derive(Debug, Args)]
#[command(after_help = "Example: tierline trackers")]
pub struct TrackersArgs {}

#[derive(Serialize)]
struct Report {
    trackers: Vec<TrackerReport>,
}

/// A tracker, and whether this machine supports it.
#[derive(Serialize)]
pub struct TrackerReport {
    /// The name users type.
    pub name: &'static str,
    /// True if no requirement is missing.
    pub available: bool,
    /// What was found, or what is missing.
    pub why: String,
    /// What it observes.
    pub sees: &'static str,
    /// What it costs.
    pub costs: &'static str,
}

impl TrackersArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let trackers = reports(&globals.root());
        if globals.json {
            print::json(&Report { trackers })?;
            return Ok(0);
        }
        let mut rows = vec![row(["tracker", "here", "sees", "why"])];
        rows.extend(trackers.iter().map(|t| row([t.name, here(t), t.sees, &t.why])));
        print::out(&print::table(&rows))?;
        Ok(0)
    }
}

/// Every tracker of the list with its availability on the machine.
pub fn reports(root: &Root) -> Vec<TrackerReport> {
    let report = |entry: &TrackerEntry| {
        let found = entry.probe(root);
        let TrackerEntry { name, sees, costs, .. } = *entry;
        TrackerReport { name, available: found.available, why: found.why, sees, costs }
    };
    TRACKERS.iter().map(report).collect()
}

/// `yes` or `no`.
pub fn here(tracker: &TrackerReport) -> &'static str {
    if tracker.available { "yes" } else { "no" }
}
