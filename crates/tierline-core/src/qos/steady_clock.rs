// SPDX-License-Identifier: Apache-2.0
//! A clock that never goes back: where the caller's jumps back, this one stands still. So nobody waits for a time that
//! the caller reaches in years.

use crate::unit::Nanos;

/// The clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SteadyClock {
    /// The last tick, on this clock.
    last: Option<Nanos>,
    /// By how much the caller's clock is behind this one.
    behind: Nanos,
}

impl SteadyClock {
    /// The caller's `now` on this clock.
    pub(super) fn at(&self, now: Nanos) -> Nanos {
        (now + self.behind).max(self.last.unwrap_or(Nanos::ZERO))
    }

    /// Goes on to the caller's `now`. Returns it on this clock, and the time since the last tick.
    pub(super) fn tick(&mut self, now: Nanos) -> (Nanos, Nanos) {
        let steady = self.at(now);
        let length = steady.saturating_sub(self.last.unwrap_or(steady));
        (self.last, self.behind) = (Some(steady), steady.saturating_sub(now));
        (steady, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_still_where_the_other_jumps_back_and_goes_on_with_it() {
        let mut clock = SteadyClock::default();
        let at = Nanos::from_secs;
        assert_eq!(clock.tick(at(100)), (at(100), Nanos::ZERO));
        assert_eq!(clock.tick(at(101)), (at(101), at(1)));
        assert_eq!(clock.at(at(5)), at(101));
        assert_eq!(clock.tick(at(5)), (at(101), Nanos::ZERO));
        assert_eq!(clock.tick(at(7)), (at(103), at(2)));
        assert_eq!(clock.tick(at(6)), (at(103), Nanos::ZERO), "a second jump");
        assert_eq!(clock.tick(at(9)), (at(106), at(3)));
    }
}
