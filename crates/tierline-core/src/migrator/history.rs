// SPDX-License-Identifier: Apache-2.0
//! Which pages moved lately, to notice ping-pong: a page that comes back soon after it was moved away.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::port::{SpaceId, Vpn};
use crate::unit::Nanos;

/// A return within this time is ping-pong. Ours; NeoMem counts any return of a page it demoted.
const SOON: Nanos = Nanos::from_secs(30);

/// The moves of the last half minute.
#[derive(Debug, Default)]
pub struct History {
    /// The latest direction of a page, and when. Looked up, never iterated.
    latest: FxHashMap<(SpaceId, Vpn), (Nanos, bool)>,
    in_order: VecDeque<(Nanos, SpaceId, Vpn)>,
}

impl History {
    /// Notes a move up or down; true where the page came back soon after the opposite move.
    pub fn note(&mut self, now: Nanos, space: SpaceId, vpn: Vpn, up: bool) -> bool {
        self.forget(now);
        let before = self.latest.insert((space, vpn), (now, up));
        self.in_order.push_back((now, space, vpn));
        before.is_some_and(|(_, direction)| direction != up)
    }

    fn forget(&mut self, now: Nanos) {
        while let Some(&(at, space, vpn)) = self.in_order.front() {
            if now.saturating_sub(at) <= SOON {
                break;
            }
            self.in_order.pop_front();
            if self.latest.get(&(space, vpn)).is_some_and(|&(latest, _)| latest == at) {
                self.latest.remove(&(space, vpn));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_quick_return_is_ping_pong() {
        let mut history = History::default();
        let mut note = |s, up| history.note(Nanos::from_secs(s), SpaceId(1), Vpn(5), up);
        assert!(!note(0, true));
        assert!(note(10, false), "down soon after up");
        assert!(note(20, true), "and up again");
        assert!(!note(60, false), "much later it is no return");
    }
}
