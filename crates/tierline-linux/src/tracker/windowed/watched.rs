// SPDX-License-Identifier: Apache-2.0
//! A process that is watched, and what watching it costs. A sparse one, of which page tables are far from full, rests in most
//! scans.

use std::collections::BTreeMap;

use tierline_core::port::SpaceId;
use tierline_core::unit::Nanos;

use crate::tracker::moment::Moment;

/// A process is sparse if an entry of its page tables costs more than this many of the others', and all of it more than this.
/// Ours: page tables are usually full. A huge page is one entry, so a process in base pages beside one in huge pages is not sparse.
const SPARSE: u64 = 8;
const COSTLY: Nanos = Nanos::from_millis(20);
/// The most scans in which a sparse process rests.
const MOST_RESTS: u64 = 1 << 12;

pub struct Watched<S> {
    pub kept: S,
    /// The moment of the last arming, until it is read.
    pub armed: Option<Moment>,
    /// CPU time of its last arming.
    pub arming: Nanos,
    /// CPU time of its last scan in which it was not skipped, and the pages and the entries that it found.
    pub cost: Nanos,
    pub present: u64,
    pub entries: u64,
    /// Scans since, and whether it is left out of the present one.
    pub rests: u64,
    pub is_resting: bool,
}

impl<S> Watched<S> {
    /// Not scanned yet.
    pub fn new(kept: S) -> Self {
        let (arming, cost) = (Nanos::ZERO, Nanos::ZERO);
        let (present, entries, rests) = (0, 0, 0);
        Self { kept, armed: None, arming, cost, present, entries, rests, is_resting: false }
    }

    /// How much more it costs than all other processes together, which with it cost `all` and have these entries: zero
    /// unless it is sparse. Such a process is watched so rarely that it costs as much as they, and delays no window of them.
    pub fn excess(&self, all: Nanos, entries: u64) -> Nanos {
        let others = all.saturating_sub(self.cost);
        let of_others = entries.saturating_sub(self.entries);
        let per_entry = u128::from(self.cost.0) * u128::from(of_others);
        let is_sparse = per_entry > u128::from(others.0) * u128::from(SPARSE * self.entries);
        if is_sparse && self.cost > COSTLY { self.cost.saturating_sub(others) } else { Nanos::ZERO }
    }

    /// Decides whether it rests in the next scan.
    pub fn rest(&mut self, all: Nanos, entries: u64) {
        let excess = self.excess(all, entries);
        let others = all.saturating_sub(self.cost);
        let most = excess.0.checked_div(others.0).unwrap_or(0).min(MOST_RESTS);
        self.is_resting = self.rests < most;
        self.rests = if self.is_resting { self.rests + 1 } else { 0 };
    }
}

/// The cost and the entries of all processes, each at its last scan.
pub fn sum<S>(spaces: &BTreeMap<SpaceId, Watched<S>>) -> (Nanos, u64) {
    let all = spaces.values().map(|watched| watched.cost).sum();
    (all, spaces.values().map(|watched| watched.entries).sum())
}
