// SPDX-License-Identifier: Apache-2.0
//! Mercury, evaluation: every figure for which numbers or an order are published.

mod adaptation;
mod figures;
mod interference;
mod memory;
mod mixes;
mod scenarios;
pub mod setup;

use super::Paper;
use super::lab::Lab;
use super::tables::Table;

/// The paper.
pub const PAPER: Paper = Paper {
    prefix: "M-",
    name: "Mercury",
    about: "Quality of service on tiered memory; our controller, over tpp as published.",
    rows: &[memory::ROWS, interference::ROWS, adaptation::ROWS],
    charts: Some(figures::charts),
    tables: Some(tables),
};

/// The twelve scenarios, the reaction, and the mixes.
fn tables(lab: &Lab) -> Vec<Table> {
    let mut tables = scenarios::tables(lab);
    tables.extend(mixes::tables(lab));
    tables
}
