// SPDX-License-Identifier: Apache-2.0
//! `tierline workloads`: lists the model's workloads.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tierline_model::workload::knob::Knob;
use tierline_model::workload::list::{COMMON, WorkloadEntry, listed};

use super::Globals;
use crate::print::{self, row};

/// List the workloads of the model
#[derive(Debug, Args)]
#[command(after_help = "Example: tierline workloads")]
pub struct WorkloadsArgs {}

#[derive(Serialize)]
struct Report {
    workloads: Vec<WorkloadReport>,
}

#[derive(Serialize)]
struct WorkloadReport {
    name: &'static str,
    summary: String,
    knobs: Vec<KnobReport>,
    text: String,
}

#[derive(Serialize)]
struct KnobReport {
    name: &'static str,
    about: &'static str,
    unit: &'static str,
    range: String,
    default: String,
}

impl From<Knob> for KnobReport {
    fn from(Knob { name, about, unit, range, default }: Knob) -> Self {
        Self { name, about, unit, range, default }
    }
}

impl WorkloadsArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        if globals.json {
            let report = |entry: &WorkloadEntry| WorkloadReport {
                name: entry.name,
                summary: entry.summary(),
                knobs: (entry.knobs)().into_iter().map(KnobReport::from).collect(),
                text: entry.explain(),
            };
            print::json(&Report { workloads: listed().map(report).collect() })?;
            return Ok(0);
        }
        let mut rows = vec![row(["workload", "what it is"])];
        rows.extend(listed().map(|entry| row([entry.name, &entry.summary()])));
        let more = "\nKnobs and sources of one: tierline explain NAME\n";
        print::out(&(print::table(&rows) + more))?;
        Ok(0)
    }
}

/// The explanation of a workload: its head, its knobs, and those of every workload.
pub fn explain(entry: &WorkloadEntry) -> String {
    let mut rows = vec![row(["knob", "default", "range", "unit", "what it does"])];
    rows.extend((entry.knobs)().iter().map(|knob| {
        row([knob.name, &knob.default, &knob.range, knob.unit, knob.about.trim_end_matches('.')])
    }));
    let mut common = vec![row(["key", "what it does"])];
    common.extend(COMMON.map(|(key, about)| row([key, about])));
    let (knobs, common) = (print::table(&rows), print::table(&common));
    format!("{}\n{knobs}\nEvery workload also takes:\n\n{common}", entry.explain())
}
