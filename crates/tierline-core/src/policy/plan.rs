// SPDX-License-Identifier: Apache-2.0
//! A plan: the moves that a policy wants now, and those that exceed a tenant's limit.

use std::ops::{Deref, DerefMut};

use crate::event::Event;
use crate::port::Move;
use crate::tier::TierId;
use crate::unit::{BASE_PER_HUGE, Bytes};

/// Moves over a limit that are kept; more would be useless in one tick.
const MAX_OVER_LIMIT: usize = 1 << 12;

/// The moves, most wanted first.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    moves: Vec<Move>,
    over_limit: Vec<Move>,
}

impl Plan {
    /// Records a move that its tenant's limit forbids. It is carried out if another page of the same tenant is
    /// demoted for it ([`crate::qos::enforcer`]).
    pub fn push_over_limit(&mut self, m: Move) {
        if self.over_limit.len() < MAX_OVER_LIMIT {
            self.over_limit.push(m);
        }
    }

    /// Takes the moves over limits, most wanted first.
    pub fn take_over_limit(&mut self) -> Vec<Move> {
        std::mem::take(&mut self.over_limit)
    }

    /// Bytes to be moved.
    pub fn bytes(&self) -> Bytes {
        self.moves.iter().map(|m| m.size.bytes()).sum()
    }

    /// Whether most of a budget is planned: more moves may wait.
    pub fn nearly_fills(&self, budget: Bytes) -> bool {
        self.bytes().0 > budget.0 / 4 * 3
    }

    /// How much is rearranged: the number of moves, or the base pages by which they fill the fastest tier, if these are
    /// more. A few huge pages fill much of it; exchanges count by number, as some go on among pages that are equally hot. The
    /// base pages of huge pages that were split in this tick count, too, as their heat is unknown.
    pub fn rearranged(&self, events: &[Event]) -> u64 {
        let bytes = |counts: fn(&Move) -> bool| -> Bytes {
            self.moves.iter().filter(|m| counts(m)).map(|m| m.size.bytes()).sum()
        };
        let filled =
            bytes(|m| m.to == TierId::FAST).saturating_sub(bytes(|m| m.from == TierId::FAST));
        let split = events.iter().filter(|event| event.is_split()).count() as u64 * BASE_PER_HUGE;
        filled.base_pages().max(self.moves.len() as u64) + split
    }

    /// Clears the plan.
    pub fn reset(&mut self) {
        self.moves.clear();
        self.over_limit.clear();
    }
}

impl Deref for Plan {
    type Target = Vec<Move>;

    fn deref(&self) -> &Vec<Move> {
        &self.moves
    }
}

impl DerefMut for Plan {
    fn deref_mut(&mut self) -> &mut Vec<Move> {
        &mut self.moves
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{Outcome, PageAddress, PageSize, Reason, SpaceId, Vpn};
    use crate::unit::Nanos;

    /// Each row: size, promotions, demotions.
    #[test]
    fn huge_pages_that_fill_fast_memory_count_by_their_base_pages() {
        let rearranged = |size, up, down| {
            let mut plan = Plan::default();
            for i in 0..up + down {
                let (space, vpn) = (SpaceId(1), Vpn(i * 512));
                let reason = Reason::Hot { rate_per_sec: 1.0 };
                let [from, to] =
                    if i < up { [TierId(1), TierId::FAST] } else { [TierId::FAST, TierId(1)] };
                plan.push(Move { space, vpn, size, from, to, reason });
            }
            plan.rearranged(&[])
        };
        assert_eq!(rearranged(PageSize::Huge, 3, 0), 1_536);
        assert_eq!(rearranged(PageSize::Huge, 3, 2), 512);
        assert_eq!(rearranged(PageSize::Huge, 3, 3), 6);
        assert_eq!(rearranged(PageSize::Base, 10, 2), 12);
        let (at, space, vpn, size) = (Nanos::ZERO, SpaceId(1), Vpn(512), PageSize::Huge);
        let page = PageAddress { space, vpn, size };
        let split = |outcome| Event::Split { at, page, outcome };
        let events = [split(Outcome::Done), split(Outcome::Done), split(Outcome::Busy)];
        assert_eq!(Plan::default().rearranged(&events), 1_024, "two were split");
    }
}
