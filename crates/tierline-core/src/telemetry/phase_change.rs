// SPDX-License-Identifier: Apache-2.0
//! A phase change, and whether placement has improved since.

use crate::unit::Nanos;

/// A phase change.
#[derive(Clone, Copy, Debug)]
pub struct PhaseChange {
    /// When it was reported.
    pub at: Nanos,
    /// The ratio of slow to fast hits that signalled it.
    pub odds: f64,
    /// Hits since then, on slow tiers and on the fastest.
    pub since: [f64; 2],
}

impl PhaseChange {
    /// Whether the ratio of slow to fast hits has fallen by a factor since.
    pub fn improved_by(&self, factor: f64) -> bool {
        let [slow, fast] = self.since;
        slow * factor <= fast * self.odds
    }
}
