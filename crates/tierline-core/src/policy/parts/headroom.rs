// SPDX-License-Identifier: Apache-2.0
//! Headroom: fast memory kept free for new pages, sized by the allocation rate.
//!
//! While programs allocate, room must be made ahead; otherwise new pages, which tend to be hot, start in slow
//! memory. While they do not allocate, headroom is unused fast memory. So headroom is the allocation expected
//! between two decisions, at the latest rate; it grows at once, shrinks slowly, and stops at a share of the
//! tier. Only the managed programs' allocations count: for others, one page after the other would be demoted
//! until none of the managed programs' is fast.
//!
//! Source: TPP (sections 5.1 and 5.2), where a fixed 2 % is free. Following the allocation rate is ours.

use crate::policy::view::View;
use crate::port::Allocated;
use crate::unit::{Bytes, Nanos};

/// The longest time between two decisions, if readings of what was allocated are no further apart: a tick and a batch of
/// moves. Ours.
const AHEAD: Nanos = Nanos::from_millis(250);
/// Time in which headroom shrinks by two thirds without allocation. Ours.
const SHRINKS: Nanos = Nanos::from_secs(10);
/// The shortest interval for measuring the rate. Ours.
const SHORTEST: Nanos = Nanos::from_millis(1);

/// The headroom at present.
#[derive(Clone, Debug, Default)]
pub struct Headroom {
    kept: Bytes,
    /// All that was allocated until the last reading, and its time.
    allocated: Option<Bytes>,
    last: Nanos,
}

impl Headroom {
    /// Takes in the allocations since the last reading; no tier will keep more than `most`.
    pub fn observe(&mut self, view: &View<'_>, most: Bytes) {
        let telemetry = view.machine.telemetry;
        // Moves from tier to tier do not change the sum.
        let free: Bytes = telemetry.tiers.iter().map(|tier| tier.free).sum();
        let no_longer_free = Allocated { total: Bytes(u64::MAX - free.0), read: view.now };
        self.update(telemetry.allocated.unwrap_or(no_longer_free), most);
    }

    /// Takes in a reading of what was allocated.
    pub fn update(&mut self, Allocated { total, read }: Allocated, most: Bytes) {
        let passed = read.saturating_sub(std::mem::replace(&mut self.last, read));
        let before = self.allocated.replace(total);
        let grown = before.map_or(most, |before| total.saturating_sub(before));
        let part = |bytes: Bytes, of: Nanos, whole: Nanos| {
            let part = u128::from(bytes.0) * u128::from(of.0) / u128::from(whole.0);
            Bytes(u64::try_from(part).unwrap_or(u64::MAX))
        };
        let left = part(self.kept, SHRINKS.saturating_sub(passed), SHRINKS);
        self.kept = part(grown, AHEAD.max(passed), passed.max(SHORTEST)).max(left).min(most);
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

    fn at(headroom: &mut Headroom, ms: u64, allocated_mib: u64) -> u64 {
        let total = Bytes::from_mib(allocated_mib);
        headroom.update(Allocated { total, read: Nanos::from_millis(ms) }, MOST);
        headroom.within(MOST).0 >> 20
    }

    /// 2 MiB in 50 ms are 10 MiB in 250 ms.
    #[test]
    fn headroom_follows_the_allocation_rate_and_shrinks_without_allocation() {
        let mut headroom = Headroom::default();
        assert_eq!(at(&mut headroom, 0, 0), 100, "nothing is known yet");
        for tick in 1..=1_000 {
            at(&mut headroom, 50 * tick, 2 * tick);
        }
        assert_eq!(at(&mut headroom, 50_050, 2_002), 10);
        assert_eq!(at(&mut headroom, 50_100, 3_000), 100, "a burst, up to the maximum");
        assert_eq!(at(&mut headroom, 50_150, 3_000), 99, "it shrinks slowly");
        for tick in 0..200 {
            at(&mut headroom, 50_200 + 50 * tick, 3_000);
        }
        assert!((34..39).contains(&at(&mut headroom, 60_200, 3_000)), "a third in ten seconds");
    }

    /// What is kept after one minute without allocations, and half a second in which 2 MiB become less free.
    fn kept_after(allocated_mib: Option<u64>) -> u64 {
        let mut stage = Stage::of_base_pages(1, TierId::FAST);
        let mut headroom = Headroom::default();
        let mut observe = |read_ms: u64, free_mib: u64, allocated_mib: Option<u64>| {
            let read = Nanos::from_millis(read_ms);
            let allocated = |mib| Allocated { total: Bytes::from_mib(mib), read };
            stage.telemetry.allocated = allocated_mib.map(allocated);
            stage.telemetry.tiers[1].free = Bytes::from_mib(free_mib);
            let mut view = stage.view();
            // Where allocations are read, the time of that counts.
            view.now = if allocated_mib.is_some() { view.now } else { read };
            headroom.observe(&view, MOST);
            headroom.within(MOST).0 >> 20
        };
        let none = allocated_mib.map(|_| 0);
        observe(0, 16, none);
        (0..10).for_each(|_| _ = observe(60_000, 16, none));
        observe(60_500, 14, allocated_mib)
    }

    /// 2 MiB in the half second between two readings.
    #[test]
    fn only_what_managed_programs_allocate_counts_where_that_is_known() {
        assert_eq!(kept_after(None), 2, "unknown: all that is no longer free");
        assert_eq!(kept_after(Some(0)), 0, "another program's");
        assert_eq!(kept_after(Some(2)), 2);
    }
}
