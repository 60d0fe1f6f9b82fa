// SPDX-License-Identifier: Apache-2.0
//! The list of workloads. Help, documents, scenarios and tests use it.

use serde::Deserialize;
use toml::{Table, Value};

use super::program::Program;
use super::{antagonist, datacenter, graph, gups, kv, latest, liblinear, pagerank, scan, xsbench};
use crate::error::{Error, Result};

/// A kind of workload.
#[derive(Clone, Copy)]
pub struct WorkloadEntry {
    /// Name on the command line.
    pub name: &'static str,
    /// The documentation at the start of its file.
    pub doc: &'static str,
    make: fn(Table) -> Result<Program, String>,
}

/// Parses the knobs of a workload and builds its program.
fn make<'de, K: Deserialize<'de>>(
    knobs: Table,
    program: impl Fn(K) -> Result<Program, String>,
) -> Result<Program, String> {
    let knobs = K::deserialize(knobs).map_err(|error| error.to_string().trim_end().to_string())?;
    program(knobs)
}

/// All workloads; the first is the default.
pub const WORKLOADS: &[WorkloadEntry] = &[
    WorkloadEntry {
        name: "gups",
        doc: include_str!("gups.rs"),
        make: |knobs| make(knobs, gups::Gups::program),
    },
    WorkloadEntry {
        name: "kv",
        doc: include_str!("kv.rs"),
        make: |knobs| make(knobs, kv::Kv::program),
    },
    WorkloadEntry {
        name: "scan",
        doc: include_str!("scan.rs"),
        make: |knobs| make(knobs, scan::Scan::program),
    },
    WorkloadEntry {
        name: "xsbench",
        doc: include_str!("xsbench.rs"),
        make: |knobs| make(knobs, xsbench::XsBench::program),
    },
    WorkloadEntry {
        name: "graph",
        doc: include_str!("graph.rs"),
        make: |knobs| make(knobs, graph::Graph::program),
    },
    WorkloadEntry {
        name: "pagerank",
        doc: include_str!("pagerank.rs"),
        make: |knobs| make(knobs, pagerank::PageRank::program),
    },
    WorkloadEntry {
        name: "liblinear",
        doc: include_str!("liblinear.rs"),
        make: |knobs| make(knobs, liblinear::Liblinear::program),
    },
    WorkloadEntry {
        name: "latest",
        doc: include_str!("latest.rs"),
        make: |knobs| make(knobs, latest::Latest::program),
    },
    WorkloadEntry {
        name: "datacenter",
        doc: include_str!("datacenter.rs"),
        make: |knobs| make(knobs, datacenter::Datacenter::program),
    },
    WorkloadEntry {
        name: "antagonist",
        doc: include_str!("antagonist.rs"),
        make: |knobs| make(knobs, antagonist::Antagonist::program),
    },
];

/// Parses a workload on the command line, `kind:key=value,key=value` or `trace:FILE,key=value`, into a table of
/// a scenario.
///
/// # Errors
/// `Error::Figure` for a knob without a value.
pub fn written(text: &str) -> Result<Table> {
    let (kind, knobs) = text.split_once(':').unwrap_or((text, ""));
    let mut table = Table::new();
    let mut knobs = knobs;
    if kind == "trace" {
        let (file, rest) = knobs.split_once(',').unwrap_or((knobs, ""));
        table.insert("trace".into(), file.into());
        knobs = rest;
    } else {
        table.insert("kind".into(), kind.into());
    }
    for knob in knobs.split(',').filter(|knob| !knob.is_empty()) {
        let (key, value) = knob.split_once('=').ok_or_else(|| Error::Figure {
            place: format!("workload {text}"),
            why: format!("{knob}: expected key=value"),
        })?;
        let number = value.parse::<i64>().map(Value::from);
        let number = number.or_else(|_| value.parse::<f64>().map(Value::from));
        let other = || value.parse::<bool>().map_or_else(|_| Value::from(value), Value::from);
        table.insert(key.into(), number.unwrap_or_else(|_| other()));
    }
    Ok(table)
}

impl WorkloadEntry {
    /// The workload of that name.
    ///
    /// # Errors
    /// `Error::Unknown` with the known names.
    pub fn find(name: &str) -> Result<&'static Self> {
        WORKLOADS.iter().find(|entry| entry.name == name).ok_or_else(|| {
            Error::unknown("workload", name, WORKLOADS.iter().map(|entry| entry.name))
        })
    }

    /// The program for these knobs; missing knobs have their defaults.
    ///
    /// # Errors
    /// `Error::Figure` naming the workload and the knob.
    pub fn program(&self, knobs: Table) -> Result<Program> {
        let checked = (self.make)(knobs).and_then(|program| match program.problem() {
            Some(why) => Err(why),
            None => Ok(program),
        });
        checked.map_err(|why| Error::Figure { place: format!("workload {}", self.name), why })
    }

    /// The documentation at the start of its file, as plain text.
    pub fn explain(&self) -> String {
        let lines = self.doc.lines().skip(1).take_while(|line| line.starts_with("//!"));
        lines.map(|line| line.trim_start_matches("//!").trim_start().to_string() + "\n").collect()
    }
}
