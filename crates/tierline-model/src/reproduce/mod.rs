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
mod later;
pub mod neomem;
pub mod outcome;
pub mod row;
pub mod tpp;

pub use experiment::Experiment;
pub use lab::{Archive, Lab};
pub use outcome::Outcome;
pub use row::{Found, Kind, Row, Test};

use crate::error::{Error, Result};
use crate::parallel::Progress;

/// Every row: those that are computed first.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    let papers = [colloid::ROWS, tpp::ROWS, arms::ROWS, neomem::ROWS];
    papers.into_iter().flatten().copied().flatten().chain(later::ROWS)
}

/// The rows whose ids begin with one of `ids`; all where there are none. A row that takes hours is left
/// out unless `long` is set.
///
/// # Errors
/// `Error::Unknown` for a beginning that no row has.
pub fn select(ids: &[String], long: bool) -> Result<Vec<Row>> {
    for id in ids {
        if !rows().any(|row| row.id.starts_with(id.as_str())) {
            return Err(Error::unknown("row", id, rows().map(|row| row.id)));
        }
    }
    let named = |row: &&Row| ids.is_empty() || ids.iter().any(|id| row.id.starts_with(id.as_str()));
    Ok(rows().filter(named).map(|row| row.unless_long(long)).collect())
}

/// Computes rows, with scenarios on so many threads. `said` hears how many runs are done, of how many.
///
/// # Errors
/// Where a scenario cannot be made.
pub fn compute(
    rows: &[Row],
    lab: &mut Lab,
    threads: usize,
    said: Progress<'_>,
) -> Result<Vec<Outcome>> {
    loop {
        let outcomes = rows.iter().map(|row| row.outcome(lab)).collect();
        if !lab.run_what_was_asked(threads, said)? {
            return Ok(outcomes);
        }
    }
}
