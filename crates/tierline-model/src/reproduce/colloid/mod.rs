// SPDX-License-Identifier: Apache-2.0
//! Colloid (SOSP'24), evaluation: every figure, computed.

pub mod balance;
pub mod change;
mod contention;
mod figures;
pub mod objects;
mod programs;
pub mod setup;

use super::Experiment;
use super::Paper;
use super::lab::Lab;
use setup::placed;

/// The paper.
pub const PAPER: Paper = Paper {
    prefix: "C-",
    name: "Colloid (SOSP 2024)",
    about: "Balances loaded latencies; on HeMem, TPP and MEMTIS.",
    rows: &[contention::ROWS, balance::ROWS, objects::ROWS, change::ROWS, programs::ROWS],
    charts: Some(figures::charts),
    tables: None,
};

/// The systems, in the order of published triples.
pub const SYSTEMS: [&str; 3] = ["hemem", "tpp", "memtis"];

/// The intensities above 0.
pub const LOADED: [u8; 3] = [1, 2, 3];

/// The fixed placement of GUPS with the highest throughput (2.1): tenths of the hot set in the default tier, and bytes
/// per second.
pub fn best_gups(lab: &Lab, intensity: u8) -> (u8, f64) {
    let at = |tenths| (tenths, lab.rate(&placed(tenths).beside(intensity)));
    (0..=10).map(at).fold((0, 0.0), |best, one| if one.1 > best.1 { one } else { best })
}

/// Throughput with Colloid divided by that without.
pub fn gain(lab: &Lab, without: &Experiment) -> f64 {
    lab.rate(&without.with_colloid()) / lab.rate(without)
}

/// Minimum and maximum.
fn range(numbers: impl Iterator<Item = f64>) -> [f64; 2] {
    numbers.fold([f64::INFINITY, 0.0], |[least, most], x| [least.min(x), most.max(x)])
}
