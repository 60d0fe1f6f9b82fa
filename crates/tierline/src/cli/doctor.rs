// SPDX-License-Identifier: Apache-2.0
//! `tierline doctor`: reports what prevents tiering on this machine.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tierline_linux::conflicts::{Finding, Severity};
use tierline_linux::doctor::examine;

use super::{FOUND, Globals};
use crate::print;

/// Find out why nothing moves
///
/// Examines the machine without changing it, and reports what is missing, why it matters, and what to do.
/// Exit status 1 if there is a warning or a problem.
#[derive(Debug, Args)]
#[command(after_help = "Example: tierline doctor --json")]
pub struct DoctorArgs {}

#[derive(Serialize)]
struct Report<'a> {
    findings: &'a [Finding],
}

impl DoctorArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let findings = examine(&globals.root());
        match globals.json {
            true => print::json(&Report { findings: &findings })?,
            false => print::out(&describe(&findings))?,
        }
        let serious = findings.iter().any(|finding| finding.severity >= Severity::Warning);
        Ok(if serious { FOUND } else { 0 })
    }
}

fn describe(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "no problem found\n".into();
    }
    let one = |finding: &Finding| {
        let severity = match finding.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Problem => "problem",
        };
        format!(
            "{severity}: {} [{}]\n  why:  {}\n  next: {}\n",
            finding.what, finding.id, finding.why_it_matters, finding.next_step
        )
    };
    findings.iter().map(one).collect::<Vec<_>>().join("\n")
}
