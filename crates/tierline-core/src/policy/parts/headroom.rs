// SPDX-License-Identifier: Apache-2.0
//! Headroom: fast memory kept free for new pages, sized by the allocation rate.
//!
//! While programs allocate, room must be made ahead; otherwise new pages, which tend to be hot, start in slow
//! memory. While they do not allocate, headroom is unused fast memory. So headroom is the allocation expected
//! between two decisions, at the latest rate; it grows at once, shrinks slowly, and stops at a share of the
//! tier.
//!
//! Source: TPP (sections 5.1 and 5.2), where a fixed 2 % is free. Following the allocation rate is ours.

use crate::policy::view::View;
use crate::unit::{Bytes, Nanos};

/// The longest time between two decisions: a tick and a batch of moves. Ours.
const AHEAD: Nanos = Nanos::from_millis(250);
/// Time in which headroom shrinks by two thirds without allocation. Ours.
const SHRINKS: Nanos = Nanos::from_secs(10);
/// The shortest interval for measuring the rate. Ours.
const SHORTEST: Nanos = Nanos::from_millis(1);

/// The headroom at present.
#[derive(Clone, Debug, Default)]
pub struct Headroom {
    kept: Bytes,
    /// Free bytes in all tiers at the last reading, and its time.
    free: Option<Bytes>,
    last: Nanos,
}

impl Headroom {
    /// Takes in the allocations since the last reading of free memory, by any program; no tier will keep more than `most`.
    pub fn observe(&mut self, view: &View<'_>, most: Bytes) {
        let telemetry = view.machine.telemetry;
        // Moves from tier to tier do not change the sum.
        let free = telemetry.tiers.iter().map(|tier| tier.free).sum();
        self.update(telemetry.free_read.unwrap_or(view.now), free, most);
    }

    /// Takes in that `free` bytes are free in all tiers at `now`.
    pub fn update(&mut self, now: Nanos, free: Bytes, most: Bytes) {
        let passed = now.saturating_sub(std::mem::replace(&mut self.last, now));
        let grown = self.free.replace(free).map_or(most, |before| before.saturating_sub(free));
        let part = |bytes: Bytes, of: Nanos, whole: Nanos| {
            let part = u128::from(bytes.0) * u128::from(of.0) / u128::from(whole.0);
            Bytes(u64::try_from(part).unwrap_or(u64::MAX))
        };
        let left = part(self.kept, SHRINKS.saturating_sub(passed), SHRINKS);
        self.kept = part(grown, AHEAD, passed.max(SHORTEST)).max(left).min(most);
    }

    /// The headroom of a tier that keeps at most `most`.
    pub fn within(&self, most: Bytes) -> Bytes {
        self.kept.min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::parts::stage::Stage;
    use crate::tier::TierId;

    const MOST: Bytes = Bytes::from_mib(100);

    fn at(headroom: &mut Headroom, ms: u64, free_mib: u64) -> u64 {
        headroom.update(Nanos::from_millis(ms), Bytes::from_mib(free_mib), MOST);
        headroom.within(MOST).0 >> 20
    }

    /// 2 MiB in 50 ms are 10 MiB in 250 ms.
    #[test]
    fn headroom_follows_the_allocation_rate_and_shrinks_without_allocation() {
        let mut headroom = Headroom::default();
        assert_eq!(at(&mut headroom, 0, 9_000), 100, "nothing is known yet");
        for tick in 1..=1_000 {
            at(&mut headroom, 50 * tick, 9_000 - 2 * tick);
        }
        assert_eq!(at(&mut headroom, 50_050, 6_998), 10);
        assert_eq!(at(&mut headroom, 50_100, 6_000), 100, "a burst, up to the maximum");
        assert_eq!(at(&mut headroom, 50_150, 6_000), 99, "it shrinks slowly");
        for tick in 0..200 {
            at(&mut headroom, 50_200 + 50 * tick, 6_000);
        }
        assert!((34..39).contains(&at(&mut headroom, 60_200, 6_000)), "a third in ten seconds");
    }

    /// Half a second passes from one reading to the next, and is one step of the clock: 2 MiB are 1 MiB in 250 ms.
    #[test]
    fn allocation_is_counted_from_reading_to_reading() {
        let mut stage = Stage::of_base_pages(1, TierId::FAST);
        let mut headroom = Headroom::default();
        let mut kept = |read_ms: u64, free_mib: u64| {
            stage.telemetry.free_read = Some(Nanos::from_millis(read_ms));
            stage.telemetry.tiers[1].free = Bytes::from_mib(free_mib);
            headroom.observe(&stage.view(), MOST);
            headroom.within(MOST).0 >> 20
        };
        kept(0, 16);
        (0..10).for_each(|_| _ = kept(60_000, 16));
        assert_eq!(kept(60_500, 14), 1);
    }
}
