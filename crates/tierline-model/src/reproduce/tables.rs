// SPDX-License-Identifier: Apache-2.0
//! Tables of our own runs on a paper's machine, which no row contains.

use serde::Serialize;

use super::PAPERS;
use super::lab::Lab;
use crate::error::Result;
use crate::runner::Runner;

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Its title.
    pub title: &'static str,
    /// How to read it.
    pub about: &'static str,
    /// Its lines; the first is the head.
    pub lines: Vec<Vec<String>>,
}

/// All tables of the papers to which rows with these ids belong. A paper is left out if some of its runs were not made.
///
/// # Errors
/// If a scenario is invalid.
pub fn tables(ids: &[&str], lab: &mut Lab, runner: &Runner<'_>) -> Result<Vec<Table>> {
    let asked = |paper: &str| ids.iter().any(|id| id.starts_with(paper));
    loop {
        let papers = PAPERS.iter().filter(|paper| asked(paper.prefix));
        let all = papers.filter_map(|paper| lab.complete(paper.tables?));
        let tables = all.flatten().collect();
        if !lab.run_what_was_asked(runner)? {
            return Ok(tables);
        }
    }
}
