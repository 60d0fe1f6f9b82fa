// SPDX-License-Identifier: Apache-2.0
//! Options of commands that name runs of the model: length, seed, and the rate of moves.

use clap::Args;
use tierline_core::unit::BytesPerSec;
use tierline_model::cell::Cell;

/// The same for every run of a command.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Simulated time [default: 60, or the scenario's]
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Seed of all random numbers [default: 1, or the scenario's]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Maximum rate of moves, as in 1GB/s [default: 10GiB/s, or the scenario's]
    #[arg(long, value_name = "RATE")]
    max_rate: Option<BytesPerSec>,
}

impl RunArgs {
    /// A cell with these, and nothing else.
    pub fn cell(&self) -> Cell {
        let &Self { seconds, seed, max_rate } = self;
        Cell { seconds, seed, max_rate, ..Cell::default() }
    }
}

/// The names of recorded programs, as workloads.
pub fn recorded(traces: &[String]) -> impl Iterator<Item = String> {
    traces.iter().map(|file| format!("trace:{file}"))
}
