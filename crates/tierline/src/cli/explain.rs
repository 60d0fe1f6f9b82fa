// SPDX-License-Identifier: Apache-2.0
//! `tierline explain`: one policy or tracker in full.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tierline_core::policy::{Entry, POLICIES};
use tierline_core::tracker::TRACKERS;
use tierline_linux::root::Root;

use super::Globals;
use super::trackers::{here, reports};
use crate::letter::Hinted;
use crate::nearest::suggest;
use crate::print;

/// Explain a policy or a tracker
///
/// What it does, when it helps, when it hurts, its knobs, and where it comes from.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// A name of `tierline policies` or `tierline trackers`
    name: String,
}

#[derive(Serialize)]
struct Report {
    kind: &'static str,
    name: String,
    text: String,
}

impl ExplainArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let name = self.name.clone();
        let report = match (Entry::find(&name), tracker(&name, &globals.root())) {
            (Some(entry), _) => Report { kind: "policy", name, text: entry.explain() },
            (None, Some(text)) => Report { kind: "tracker", name, text },
            (None, None) => return Err(unknown(&name)),
        };
        match globals.json {
            true => print::json(&report)?,
            false => print::out(&report.text)?,
        }
        Ok(0)
    }
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
    Hinted::error(format!("there is no policy and no tracker {name:?}"), suggest(name, names))
}
