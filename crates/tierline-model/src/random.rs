// SPDX-License-Identifier: Apache-2.0
//! Cells that no one developed on: machine, programs, sizes, skews and ratios are drawn at random.
//!
//! The default policy is improved on the cells of one seed and judged on those of another.

use tierline_core::rng::Rng;

use crate::cell::{Cell, Ratio};
use crate::matrix::MACHINES;

/// Memory of a program, GiB.
const SET_GIB: [f64; 2] = [4.0, 48.0];
/// The hot part of it.
const HOT: [f64; 2] = [0.02, 0.5];
/// Threads; with the fewest a program hardly loads a tier.
const THREADS: [f64; 2] = [0.5, 16.0];
/// Slow memory for one part of fast memory.
const SLOW: [f64; 2] = [1.0, 16.0];
/// The exponent of Zipf's law: MEMTIS' Silo has 0.5, YCSB 0.99.
const SKEW: [f64; 2] = [0.3, 1.2];
/// Share of accesses that go to the hot part.
const SHARE: [f64; 2] = [0.3, 0.95];
/// Drift of popularity, MiB/s.
const DRIFT_MIB: [f64; 2] = [8.0, 256.0];
/// Part of the run after which something changes.
const CHANGE: [f64; 2] = [0.1, 0.6];
/// Programs per cell, and the share of cells with other programs in fast memory that are not managed.
const MOST_PROGRAMS: u64 = 3;
const WITH_ANTAGONIST: f64 = 0.25;

/// This many cells drawn from a seed, otherwise as `like`. The first cells of a seed are the same for any count.
pub fn cells(count: usize, seed: u64, like: &Cell) -> Vec<Cell> {
    let seconds = like.seconds.unwrap_or(crate::scenario::Scenario::default().seconds);
    let one = |at: u64| {
        // One generator a cell, so that a longer list begins with the shorter one.
        let mut draw = Draw(Rng::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(at)));
        draw.cell(seconds, like)
    };
    (0..count as u64).map(one).collect()
}

/// Random parts of cells.
struct Draw(Rng);

impl Draw {
    fn cell(&mut self, seconds: f64, like: &Cell) -> Cell {
        let mut machines: Vec<&str> = MACHINES.iter().map(|(machine, _)| *machine).collect();
        machines.dedup();
        let machine = *self.one_of(&machines);
        let programs = self.0.below(MOST_PROGRAMS) + 1;
        let mut programs: Vec<String> = (0..programs).map(|_| self.program(seconds)).collect();
        if self.0.unit() < WITH_ANTAGONIST {
            programs.push(format!("antagonist:intensity={}", self.0.below(3) + 1));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "up to 16")]
        let slow = self.between(SLOW).round() as u32;
        Cell {
            machine: Some(machine.into()),
            programs,
            ratio: Some(Ratio::from((1, slow))),
            ..like.clone()
        }
    }

    fn program(&mut self, seconds: f64) -> String {
        let set = self.between(SET_GIB);
        let hot = set * self.between(HOT);
        let threads = self.between(THREADS);
        let all = format!("set={},threads={threads:.1}", mib(set));
        let when = seconds * self.between(CHANGE);
        let (skew, share) = (self.uniform(SKEW), self.uniform(SHARE));
        match self.0.below(8) {
            0 => format!("gups:{all},hot={}", mib(hot)),
            1 => format!("gups:{all},hot={},jump={:.0}ms", mib(hot.min(set / 2.0)), when * 1e3),
            2 => format!("kv:{all},skew={skew:.2}"),
            3 => format!("kv:{all},skew={skew:.2},drift={:.0}MiB/s", self.between(DRIFT_MIB)),
            4 => format!("xsbench:{all},index={},index_share={share:.2}", mib(hot)),
            // It has four working sets.
            5 => {
                let active = mib(hot.min(set / 4.0));
                format!("liblinear:{all},active={active},phase={:.0}ms", when * 1e3)
            }
            6 => {
                let (from, fresh) = (mib(set / 2.0), mib(hot));
                let rate = set / 2.0 * 1024.0 / seconds;
                format!("latest:{all},start_set={from},fresh={fresh},growth={rate:.0}MiB/s")
            }
            _ => format!("scan:{all},start={:.0}ms", when * 1e3),
        }
    }

    fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        #[expect(clippy::cast_possible_truncation, reason = "below the length")]
        let at = self.0.below(of.len() as u64) as usize;
        &of[at]
    }

    fn uniform(&mut self, [least, most]: [f64; 2]) -> f64 {
        least + (most - least) * self.0.unit()
    }

    /// All factors are alike: as many cells between 4 and 8 as between 8 and 16.
    fn between(&mut self, [least, most]: [f64; 2]) -> f64 {
        least * crate::arithmetic::pow(most / least, self.0.unit())
    }
}

/// A size of whole MiB.
fn mib(gib: f64) -> String {
    format!("{:.0}MiB", gib * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::NoFiles;

    #[test]
    fn every_cell_can_be_made_and_no_two_are_alike() {
        let cells = cells(300, 7, &Cell::default());
        for (at, cell) in cells.iter().enumerate() {
            let scenario = cell.scenario(&NoFiles).unwrap();
            let arrivals = scenario.arrivals();
            assert!(arrivals.is_ok(), "{}: {:?}", cell.name(), arrivals.err());
            assert!(scenario.machine().is_ok() && !cells[..at].contains(cell), "{}", cell.name());
        }
        let parts = |part: &str| cells.iter().filter(|cell| cell.name().contains(part)).count();
        for (part, least) in [("+", 150), ("antagonist", 40), ("drift", 40), ("jump", 40)] {
            assert!(parts(part) > least, "{part}: {}", parts(part));
        }
    }

    #[test]
    fn a_longer_list_begins_with_the_shorter_and_another_seed_gives_others() {
        let like = Cell { seconds: Some(20.0), ..Cell::default() };
        let (short, long) = (cells(5, 1, &like), cells(9, 1, &like));
        assert_eq!(short, long[..5]);
        assert!(cells(5, 2, &like).iter().all(|cell| !long.contains(cell)));
        assert!(short.iter().all(|cell| cell.seconds == Some(20.0)));
    }
}
