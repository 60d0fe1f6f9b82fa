// SPDX-License-Identifier: Apache-2.0
//! PACT (ASPLOS 2026): how it weighs misses. No headline figure of it is known to us.

use tierline_core::policy::pact::stall_ns;

use super::Paper;
use super::row::{GIVEN, Row};

/// The paper.
pub const PAPER: Paper = Paper {
    prefix: "PA-",
    name: "PACT (ASPLOS 2026)",
    about: "Pages by how long they stall.",
    rows: &[ROWS],
    charts: None,
    tables: None,
};

const ROWS: &[Row] = &[Row {
    id: "PA-weight",
    title: "equal misses with one and with ten reads in flight: their stalls",
    source: "PACT, code",
    published: &[10.0],
    unit: "x",
    find: Some(|_| vec![stall_ns(200.0, 0.0, 16.0) / stall_ns(200.0, 9.0, 16.0)].into()),
    note: "follows from its formula",
    ..GIVEN
}];
