// SPDX-License-Identifier: Apache-2.0
//! A shift of accesses that takes several ticks, and its remaining quota.

use super::{Shift, ShiftQuota};
use crate::page::PageIdx;
use crate::policy::view::View;
use crate::port::Move;
use crate::unit::Bytes;

/// The shift and what remains of it.
#[derive(Debug)]
pub struct ShiftProgress {
    /// The shift.
    pub shift: Shift,
    /// What remains of it.
    pub quota: ShiftQuota,
}

impl ShiftProgress {
    /// All of a shift. Upwards its bytes are not limited: while the upper tier is faster, the migrator's budget
    /// suffices as a limit.
    pub fn of(shift: Shift) -> Self {
        let bytes = if shift.up { Bytes(u64::MAX) } else { shift.bytes };
        Self { quota: ShiftQuota::new(shift.share, bytes), shift }
    }

    /// The estimated share of all accesses that go to a page.
    pub fn share(&self, view: &View<'_>, page: PageIdx) -> f64 {
        let believed = view.estimate(page);
        let place = view.memory.pages.state(page).tier().zip(view.memory.pages.locate(page));
        let rate = match place.filter(|_| view.memory.hotness.is_timed()) {
            Some((tier, at)) => believed.expected_per_sec(view.mean_rate(tier, at.size)),
            None => believed.rate_per_sec(),
        };
        f64::from(rate) / self.shift.reads_per_sec
    }

    /// Deducts a page's share, and the bytes of all moves planned for it.
    pub fn charge(&mut self, share: f64, moves: &[Move]) {
        self.quota.charge(share, moves.iter().map(|m| m.size.bytes()).sum());
    }
}
