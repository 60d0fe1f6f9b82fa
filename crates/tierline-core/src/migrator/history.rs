// SPDX-License-Identifier: Apache-2.0
//! Recent moves, to detect ping-pong: a page that moves back soon after the opposite move.

use rustc_hash::FxHashMap;

use crate::port::{SpaceId, Vpn};
use crate::unit::Nanos;

/// A return within this time is ping-pong. Ours; NeoMem counts any return of a page it demoted.
const SOON: Nanos = Nanos::from_secs(30);

/// From this many pages on, old ones are dropped: when the number has doubled since the last time, and every
/// half minute.
const MANY: usize = 1 << 12;

/// The moves of the last half minute, and some older ones.
#[derive(Debug, Default)]
pub struct History {
    /// A page's latest move: its time, and whether it was up.
    latest: FxHashMap<(SpaceId, Vpn), (Nanos, bool)>,
    /// Pages kept at the last cleanup, and its time.
    left: usize,
    forgot: Nanos,
}

impl History {
    /// Whether the latest move of this page was up, and soon before.
    pub fn is_promoted(&self, now: Nanos, space: SpaceId, vpn: Vpn) -> bool {
        let latest = self.latest.get(&(space, vpn));
        latest.is_some_and(|&(at, up)| up && now.saturating_sub(at) <= SOON)
    }

    /// Records a move; true if the page moved the other way soon before.
    pub fn record(&mut self, now: Nanos, space: SpaceId, vpn: Vpn, up: bool) -> bool {
        let is_soon = |at: Nanos| now.saturating_sub(at) <= SOON;
        let known = self.latest.len();
        if known >= MANY && (known >= 2 * self.left || !is_soon(self.forgot)) {
            self.latest.retain(|_, (at, _)| is_soon(*at));
            (self.left, self.forgot) = (self.latest.len(), now);
        }
        let before = self.latest.insert((space, vpn), (now, up));
        before.is_some_and(|(at, direction)| is_soon(at) && direction != up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_early_return_is_ping_pong() {
        let mut history = History::default();
        let mut note = |s, up| history.record(Nanos::from_secs(s), SpaceId(1), Vpn(5), up);
        assert!(!note(0, true));
        assert!(note(10, false), "down soon after up");
        assert!(note(20, true), "and up again");
        assert!(!note(60, false), "40 s later it is no ping-pong");
    }
}
