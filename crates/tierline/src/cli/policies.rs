// SPDX-License-Identifier: Apache-2.0
//! `tierline policies`: lists the core's policies.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tierline_core::policy::{POLICIES, entry::PolicyEntry};

use super::Globals;
use crate::print::{self, row};

/// List the policies
#[derive(Debug, Args)]
#[command(after_help = "Example: tierline policies")]
pub struct PoliciesArgs {}

#[derive(Serialize)]
struct Report {
    policies: Vec<PolicyReport>,
}

#[derive(Serialize)]
struct PolicyReport {
    name: &'static str,
    default: bool,
    summary: String,
    text: String,
}

impl PoliciesArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        if globals.json {
            print::json(&Report { policies: POLICIES.iter().map(report).collect() })?;
            return Ok(0);
        }
        let mut rows = vec![row(["policy", "what it is"])];
        rows.extend(POLICIES.iter().map(|entry| row([entry.name, &summary(entry)])));
        print::out(&(print::table(&rows) + "\nMore on one: tierline explain NAME\n"))?;
        Ok(0)
    }
}

fn report(entry: &PolicyEntry) -> PolicyReport {
    let default = POLICIES.first().is_some_and(|first| first.name == entry.name);
    PolicyReport { name: entry.name, default, summary: summary(entry), text: entry.explain() }
}

/// The first line of its explanation, which starts with the name.
fn summary(entry: &PolicyEntry) -> String {
    let text = entry.explain();
    let line = text.lines().next().unwrap_or_default();
    line.split_once(": ").map_or(line, |(_, rest)| rest).trim_end_matches('.').to_string()
}
