// SPDX-License-Identifier: Apache-2.0
//! NeoMem (MICRO 2024), evaluation: what can be computed with stand-ins for its programs. The rest is in
//! [`super::later`].

mod rows;
pub mod setup;

use super::lab::Lab;
use super::row::Row;
use setup::Bench;

/// The rows, in the paper's order.
pub const ROWS: &[&[Row]] = &[rows::ROWS];

/// Operations a second, over the last quarter of a run.
fn speed(lab: &Lab, bench: Bench) -> f64 {
    lab.program(&bench).throughput
}

#[cfg(test)]
mod tests {
    use super::setup::{App, Bench, System};

    #[test]
    fn every_bench_is_a_scenario() {
        for app in [App::Gups, App::XsBench, App::PageRank] {
            for system in [
                System::NeoMem,
                System::Pebs(997),
                System::PteScan,
                System::Tpp,
                System::AutoNuma,
                System::FirstTouch,
                System::Memtis,
            ] {
                Bench::of(app, system).scenario().unwrap().world().unwrap();
            }
        }
    }
}
