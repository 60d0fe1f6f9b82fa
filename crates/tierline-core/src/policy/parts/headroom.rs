// SPDX-License-Identifier: Apache-2.0
//! Headroom: fast memory kept free for pages to come, as much as programs allocate.
//!
//! While they allocate, room must be made ahead, or new pages, which tend to be hot, begin in slow memory. While they
//! do not, what is kept free is fast memory that serves nobody. So headroom is what would be allocated between two
//! decisions at the rate of the last one; it grows at once, shrinks slowly, and stops at a share of the tier.
//!
//! Source: TPP (sections 5.1 and 5.2), where a fixed 2 % is free. That it follows the rate is ours.

use crate::policy::view::View;
use crate::unit::{Bytes, Nanos};

/// The longest time between two decisions: a tick and a batch of moves.
const AHEAD: Nanos = Nanos::from_millis(250);
/// Time in which headroom shrinks by two thirds where nothing is allocated.
const SHRINKS: Nanos = Nanos::from_secs(10);
/// The shortest time that a rate is taken over.
const SHORTEST: Nanos = Nanos::from_millis(1);

/// How much is to be free.
#[derive(Clone, Debug, Default)]
pub struct Headroom {
    kept: Bytes,
    /// Bytes that were free in all tiers, and when.
    free: Option<Bytes>,
    last: Nanos,
}

impl Headroom {
    /// Takes in what was allocated since the last tick, by whomever; no tier will keep more than `most`.
    pub fn listen(&mut self, view: &View<'_>, most: Bytes) {
        // Moves from tier to tier do not change the sum.
        self.update(view.now, view.telemetry.tiers.iter().map(|tier| tier.free).sum(), most);
    }

    fn update(&mut self, now: Nanos, free: Bytes, most: Bytes) {
        let passed = now.saturating_sub(std::mem::replace(&mut self.last, now));
        let grown = self.free.replace(free).map_or(most, |before| before.saturating_sub(free));
        let part = |bytes: Bytes, of: Nanos, whole: Nanos| {
            let part = u128::from(bytes.0) * u128::from(of.0) / u128::from(whole.0);
            Bytes(u64::try_from(part).unwrap_or(u64::MAX))
        };
        let left = part(self.kept, SHRINKS.saturating_sub(passed), SHRINKS);
        self.kept = part(grown, AHEAD, passed.max(SHORTEST)).max(left).min(most);
    }

    /// What a tier keeps that keeps `most` at most.
    pub fn within(&self, most: Bytes) -> Bytes {
        self.kept.min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Bytes = Bytes::from_mib(100);

    fn at(headroom: &mut Headroom, ms: u64, free_mib: u64) -> u64 {
        headroom.update(Nanos::from_millis(ms), Bytes::from_mib(free_mib), MOST);
        headroom.within(MOST).0 >> 20
    }

    /// 2 MiB in 50 ms are 10 in 250.
    #[test]
    fn it_follows_what_is_allocated_and_is_given_back_when_nothing_is() {
        let mut headroom = Headroom::default();
        assert_eq!(at(&mut headroom, 0, 9_000), 100, "nothing is known yet");
        for tick in 1..=1_000 {
            at(&mut headroom, 50 * tick, 9_000 - 2 * tick);
        }
        assert_eq!(at(&mut headroom, 50_050, 6_998), 10);
        assert_eq!(at(&mut headroom, 50_100, 6_000), 100, "a burst, up to the most");
        assert_eq!(at(&mut headroom, 50_150, 6_000), 99, "not at once");
        for tick in 0..200 {
            at(&mut headroom, 50_200 + 50 * tick, 6_000);
        }
        assert!((34..39).contains(&at(&mut headroom, 60_200, 6_000)), "a third in ten seconds");
    }
}
