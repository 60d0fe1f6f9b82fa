// SPDX-License-Identifier: Apache-2.0
//! The scoreboard: published figures, and the model's results for the same set-up.
//!
//! ```text
//!   rows         published figures, and how ours are computed from experiments
//!     │
//!   experiment   one run of a paper's set-up: a scenario, built step by step
//!     │
//!   lab          runs the experiments requested by rows, each once, on all cores
//!     │
//!   outcome      our figures beside the published ones: the error, and whether the row holds
//! ```
//!
//! A machine file lists the published figures to which it was fitted; nothing here can change it. [`Test`] is the
//! condition under which a row holds. A row that misses stays in the list, with a note on the cause.

mod alto;
pub mod arms;
pub mod colloid;
pub mod experiment;
pub mod figures;
mod hybridtier;
pub mod lab;
mod mercury;
pub mod neomem;
pub mod outcome;
mod pact;
pub mod row;
pub mod tables;
pub mod tpp;

pub use experiment::Experiment;
use figures::Chart;
pub use lab::Lab;
pub use outcome::Outcome;
pub use row::{Found, Kind, Row, Test};
use tables::Table;

use crate::error::{Error, Result};
use crate::runner::Runner;

/// A paper whose figures are compared with ours.
#[derive(Clone, Copy)]
pub struct Paper {
    /// Prefix of its rows' ids.
    pub prefix: &'static str,
    /// Its name and place of publication.
    pub name: &'static str,
    /// Its subject, and what our figures are computed with.
    pub about: &'static str,
    rows: &'static [&'static [Row]],
    charts: Option<fn(&Lab) -> Vec<Chart>>,
    tables: Option<fn(&Lab) -> Vec<Table>>,
}

/// The papers, in the order of rows.
pub const PAPERS: [Paper; 8] = [
    colloid::PAPER,
    tpp::PAPER,
    arms::PAPER,
    neomem::PAPER,
    mercury::PAPER,
    hybridtier::PAPER,
    alto::PAPER,
    pact::PAPER,
];

/// Every row.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    PAPERS.iter().flat_map(|paper| paper.rows.iter().copied().flatten())
}

/// The rows of these ids; `C-F7*` selects all ids with this prefix. Without ids, all rows. A row that takes hours is not
/// computed unless `long` is set.
///
/// # Errors
/// `Error::Unknown` for an unknown id.
pub fn select(ids: &[String], long: bool) -> Result<Vec<Row>> {
    for id in ids {
        if !rows().any(|row| matches(row, id)) {
            return Err(unknown(id));
        }
    }
    let named = |row: &&Row| ids.is_empty() || ids.iter().any(|id| matches(row, id));
    Ok(rows().filter(named).map(|row| row.unless_long(long)).collect())
}

fn matches(row: &Row, id: &str) -> bool {
    match id.strip_suffix('*') {
        Some(beginning) => row.id.starts_with(beginning),
        None => row.id == id,
    }
}

/// The error for an unknown id. A prefix of known ids was probably meant for all rows that begin with it.
fn unknown(id: &str) -> Error {
    let pattern = format!("{id}*");
    match rows().any(|row| matches(row, &pattern)) {
        true => Error::unknown("row", id, [pattern.as_str()]),
        false => Error::unknown("row", id, rows().map(|row| row.id)),
    }
}

/// Computes rows. A row with a run that was not made has no figures.
///
/// # Errors
/// If a scenario is invalid.
pub fn compute(rows: &[Row], lab: &mut Lab, runner: &Runner<'_>) -> Result<Vec<Outcome>> {
    loop {
        let outcomes = rows.iter().map(|row| row.outcome(lab)).collect();
        if !lab.run_what_was_asked(runner)? {
            return Ok(outcomes);
        }
    }
}
