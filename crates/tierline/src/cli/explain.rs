// SPDX-License-Identifier: Apache-2.0
//! `tierline explain`: the full explanation of a policy, tracker, workload or migrator.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tierline_core::policy::{POLICIES, entry::PolicyEntry};
use tierline_linux::root::Root;
use tierline_linux::tracker::TRACKERS;
use tierline_model::workload::list::listed;
use tierline_model::world::transfer::{TRANSFERS, TransferEntry as Transfer};

use super::Globals;
use super::names;
use super::trackers::{here, reports};
use super::{why, workloads};
use crate::nearest::suggest;
use crate::print::{self, row};
use crate::report_error::ErrorWithHint;

/// Explain a policy, a tracker, a workload or a way to move pages; or why pages were moved
///
/// What it does, when it helps, when it hurts, its knobs, and where it comes from.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n\
  \x20 tierline explain hemem\n\
  \x20 tierline explain --why events.ndjson --page 0x7f00deadb000")]
pub struct ExplainArgs {
    /// A name from `tierline policies`, `tierline trackers` or `tierline workloads`, or a value of `--migrator`
    #[arg(required_unless_present = "why", value_parser = names::explained(), hide_possible_values = true)]
    name: Option<String>,
    /// Report why pages were moved, from a file written by `--events FILE`
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    why: Option<PathBuf>,
    /// Every move of the page at this address, as in 0x7f00deadb000
    #[arg(long, value_name = "ADDRESS", requires = "why", value_parser = address)]
    page: Option<u64>,
    /// Every move, not only totals
    #[arg(long, requires = "why")]
    all: bool,
}

#[derive(Serialize)]
struct Report {
    kind: &'static str,
    name: String,
    text: String,
}

#[derive(Serialize)]
struct Moves {
    moves: Vec<why::Moved>,
}

impl ExplainArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        if let Some(file) = &self.why {
            return self.why(file, globals);
        }
        let name = self.name.clone().unwrap_or_default();
        let tracker = tracker(&name, &globals.root());
        let report = if let Some(entry) = PolicyEntry::find(&name) {
            let also = tracker.map_or(String::new(), |text| format!("\n{text}"));
            Report { kind: "policy", name, text: entry.explain() + &knobs(entry) + &also }
        } else if let Some(entry) = listed().find(|entry| entry.name == name) {
            Report { kind: "workload", name, text: workloads::explain(entry) }
        } else if let Ok(entry) = Transfer::find(&name) {
            Report { kind: "migrator", name, text: entry.explain() }
        } else if let Some(text) = tracker {
            Report { kind: "tracker", name, text }
        } else {
            return Err(unknown(&name));
        };
        match globals.json {
            true => print::json(&report)?,
            false => print::out(&report.text)?,
        }
        Ok(0)
    }
}

impl ExplainArgs {
    fn why(&self, file: &Path, globals: &Globals) -> Result<u8> {
        let moves = why::moves(file, self.page)?;
        match (globals.json, self.page.is_some() || self.all) {
            (true, _) => print::json(&Moves { moves })?,
            (false, true) => print::out(&why::sentences(&moves))?,
            (false, false) => print::out(&why::summary(&moves))?,
        }
        Ok(0)
    }
}

/// Parses an address, hexadecimal with 0x or decimal.
fn address(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text} is not an address; expected one as in 0x7f00deadb000"))
}

/// The knobs of a policy; empty if it has none.
fn knobs(entry: &PolicyEntry) -> String {
    let knobs = (entry.make)().knobs();
    let mut rows = vec![row(["knob", "default", "least", "most", "unit", "what it does"])];
    rows.extend(knobs.iter().map(|knob| {
        let [least, most] = knob.range.map(|bound| bound.to_string());
        let about = knob.about.trim_end_matches('.');
        row([knob.name, &knob.default.to_string(), &least, &most, knob.unit, about])
    }));
    if knobs.is_empty() { String::new() } else { format!("\n{}", print::table(&rows)) }
}

fn tracker(name: &str, root: &Root) -> Option<String> {
    let tracker = reports(root).into_iter().find(|tracker| tracker.name == name)?;
    let (here, why) = (here(&tracker), &tracker.why);
    Some(format!(
        "{name}: a tracker.\n\nWhat it sees: {}.\nWhat it costs: {}.\nHere: {here}; {why}.\n",
        tracker.sees, tracker.costs
    ))
}

fn unknown(name: &str) -> anyhow::Error {
    let policies = POLICIES.iter().map(|entry| entry.name);
    let names = policies.chain(TRACKERS.iter().map(|entry| entry.name));
    let names = names.chain(TRANSFERS.iter().map(|entry| entry.name));
    let names = names.chain(listed().map(|entry| entry.name));
    ErrorWithHint::error(
        format!("there is no policy, tracker or workload {name:?}"),
        suggest(name, names),
    )
}
