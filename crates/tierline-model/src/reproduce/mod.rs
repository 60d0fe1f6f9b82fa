// SPDX-License-Identifier: Apache-2.0
//! The scoreboard: published figures, and what the model comes to with the same set-up.
//!
//! ```text
//!   rows         what was published, and how ours is computed from experiments
//!     │
//!   experiment   one run of a paper's set-up: a scenario, put together step by step
//!     │
//!   lab          runs the experiments that rows ask for, each once, on all cores
//!     │
//!   outcome      ours beside the published figures: the error, and whether the row holds
//! ```
//!
//! A machine's figures are fitted to the figures that say so, and to no others; nothing here can change them.
//! [`Test`] says what a row is held against; a row that misses stays, with a line on the cause.

pub mod arms;
pub mod colloid;
pub mod experiment;
pub mod figures;
pub mod lab;
mod mercury;
pub mod neomem;
pub mod outcome;
pub mod row;
pub mod tpp;

pub use experiment::Experiment;
use figures::Chart;
pub use lab::Lab;
pub use outcome::Outcome;
pub use row::{Found, Kind, Row, Test};

use crate::error::{Error, Result};
use crate::runner::Runner;

/// A paper whose figures are held against ours.
#[derive(Clone, Copy)]
pub struct Paper {
    /// How the ids of its rows begin.
    pub prefix: &'static str,
    /// Its name, and where it was published.
    pub name: &'static str,
    /// What it is about, and what ours are computed with.
    pub about: &'static str,
    rows: &'static [&'static [Row]],
    charts: Option<fn(&Lab) -> Vec<Chart>>,
}

/// The papers, in the order of rows.
pub const PAPERS: [Paper; 5] =
    [colloid::PAPER, tpp::PAPER, arms::PAPER, neomem::PAPER, mercury::PAPER];

/// Every row.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    PAPERS.iter().flat_map(|paper| paper.rows.iter().copied().flatten())
}

/// The rows of these ids; `C-F7*` stands for all that begin so. All rows where there are no ids. A row that takes hours
/// is not computed unless `long` is set.
///
/// # Errors
/// `Error::Unknown` for an id that no row has.
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

/// What begins as rows do was probably meant for all of them.
fn unknown(id: &str) -> Error {
    let pattern = format!("{id}*");
    match rows().any(|row| matches(row, &pattern)) {
        true => Error::unknown("row", id, [pattern.as_str()]),
        false => Error::unknown("row", id, rows().map(|row| row.id)),
    }
}

/// Computes rows. Those of which a run was not made have no figures.
///
/// # Errors
/// Where a scenario cannot be made.
pub fn compute(rows: &[Row], lab: &mut Lab, runner: &Runner<'_>) -> Result<Vec<Outcome>> {
    loop {
        let outcomes = rows.iter().map(|row| row.outcome(lab)).collect();
        if !lab.run_what_was_asked(runner)? {
            return Ok(outcomes);
        }
    }
}
