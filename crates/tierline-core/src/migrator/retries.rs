// SPDX-License-Identifier: Apache-2.0
//! Moves of busy pages, to be tried again later.

use std::collections::BTreeMap;

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
    due: BTreeMap<(Nanos, u64), Attempt>,
    next: u64,
}

impl Retries {
    /// Keeps a move for another try; false if it was the last.
    pub fn keep(&mut self, now: Nanos, (m, tries): Attempt) -> bool {
        debug_assert!(tries < MAX_TRIES, "tried too often: {tries}");
        let again = tries + 1 < MAX_TRIES;
        if again {
            self.next += 1;
            self.due.insert((now + FIRST_RETRY * (1 << tries), self.next), (m, tries + 1));
        }
        again
    }

    /// Takes the moves that are due and whose page still has the tier and size of the order.
    pub fn take_due(&mut self, now: Nanos, pages: &PageTable) -> Vec<Attempt> {
        let later = self.due.split_off(&(now + Nanos(1), 0));
        let due = std::mem::replace(&mut self.due, later);
        debug_assert!(due.keys().all(|&(at, _)| at <= now), "a retry comes too early");
        debug_assert!(self.due.keys().all(|&(at, _)| at > now), "a retry is late");
        let stays = |m: &Move| {
            let page = pages.find(m.space, m.vpn);
            let in_tier = page.filter(|&page| pages.state(page).tier() == Some(m.from));
            in_tier.and_then(|page| pages.locate(page)).is_some_and(|at| at.size == m.size)
        };
        due.into_values().filter(|(m, _)| stays(m)).collect()
    }
}
