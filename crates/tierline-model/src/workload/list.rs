// SPDX-License-Identifier: Apache-2.0
//! Entries of the list of workloads, and their notation on the command line.

use toml::{Table, Value};

use super::WORKLOADS;
use super::knob::{Knob, ProgramKnobs};
use super::program::Program;
use super::replay::Replay;
use crate::error::{Error, Result};

/// A kind of workload.
#[derive(Clone, Copy)]
pub struct WorkloadEntry {
    /// Name on the command line.
    pub name: &'static str,
    /// The documentation at the start of its file.
    pub doc: &'static str,
    /// Its knobs.
    pub knobs: fn() -> Vec<Knob>,
    /// Builds its program; the first argument names the source of the knobs.
    pub(super) make: fn(&str, &Table) -> Result<Program>,
}

/// Recorded programs. They need a file, so they are not in the list.
pub const TRACE: WorkloadEntry = WorkloadEntry {
    name: "trace",
    doc: include_str!("replay.rs"),
    knobs: Replay::table,
    make: |place, _| Err(Error::Figure { place: place.into(), why: "expected trace:FILE".into() }),
};

/// Keys that every workload of a scenario accepts in addition to its knobs, with descriptions.
pub const COMMON: [(&str, &str); 8] = [
    ("name", "name in reports; default: its kind"),
    ("tenant", "the [[tenant]] to which it belongs; default: none"),
    ("start", "start, after the scenario's start; default: 0s"),
    ("stop", "exit; default: never"),
    ("pages", "huge or base; default: huge"),
    (
        "hot_share_fast",
        "fixed placement: this share of its hot memory is in fast memory and stays there",
    ),
    ("overlap", "misses that a core keeps in flight; default: as its kind and the machine permit"),
    ("think", "time between two misses in the same place; default with overlap: 0s"),
];

/// All workloads in help and documents: those of [`WORKLOADS`], and recordings.
pub fn listed() -> impl Iterator<Item = &'static WorkloadEntry> {
    WORKLOADS.iter().chain([&TRACE])
}

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
    /// Names the workload and the knob.
    pub fn program(&self, knobs: &Table) -> Result<Program> {
        (self.make)(&format!("workload {}", self.name), knobs)
    }

    /// The documentation at the start of its file, as plain text.
    pub fn explain(&self) -> String {
        let lines = self.doc.lines().skip(1).take_while(|line| line.starts_with("//!"));
        lines.map(|line| line.trim_start_matches("//!").trim_start().to_string() + "\n").collect()
    }

    /// Summary in one line: the first line of its documentation, without the name.
    pub fn summary(&self) -> String {
        let text = self.explain();
        let line = text.lines().next().unwrap_or_default();
        line.split_once(": ").map_or(line, |(_, rest)| rest).trim_end_matches('.').to_string()
    }
}
