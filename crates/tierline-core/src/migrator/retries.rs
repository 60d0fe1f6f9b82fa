// SPDX-License-Identifier: Apache-2.0
//! Moves of busy pages, to be tried again later.

use crate::migrator::due::Due;
use crate::page::PageTable;
use crate::port::Move;
use crate::unit::Nanos;

/// Delay before a busy page is tried again; doubled each time. Ours.
const FIRST_RETRY: Nanos = Nanos::from_millis(100);
/// After this many tries a busy page is given up until a policy orders it again. Ours.
const MAX_TRIES: u32 = 5;

/// A move and the number of tries so far.
pub type Attempt = (Move, u32);

/// Moves by the time at which they are due.
#[derive(Debug, Default)]
pub struct Retries {
    due: Due<Attempt>,
}

impl Retries {
    /// Keeps a move for another try; false if it was the last.
    pub fn keep(&mut self, now: Nanos, (m, tries): Attempt) -> bool {
        debug_assert!(tries < MAX_TRIES, "tried too often: {tries}");
        let again = tries + 1 < MAX_TRIES;
        if again {
            self.due.add(now + FIRST_RETRY * (1 << tries), (m, tries + 1));
        }
        again
    }

    /// Takes the moves that are due and whose page still has the tier and size of the order.
    pub fn take_due(&mut self, now: Nanos, pages: &PageTable) -> Vec<Attempt> {
        let stays = |m: &Move| {
            let page = pages.find(m.space, m.vpn);
            let in_tier = page.filter(|&page| pages.state(page).tier() == Some(m.from));
            in_tier.and_then(|page| pages.locate(page)).is_some_and(|at| at.size == m.size)
        };
        self.due.take(now).filter(|(m, _)| stays(m)).collect()
    }
}
