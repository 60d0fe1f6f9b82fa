// SPDX-License-Identifier: Apache-2.0
//! The scan period as NUMA balancing adapts it to the location of faults.
//!
//! After each scan of memory the period changes by tenths of itself. If private faults, or else local ones, are
//! seven tenths or more, it grows by their excess in tenths, at least one; otherwise it shrinks by the deficit
//! of the greater of the two. If a page could not be migrated, it doubles.
//!
//! Source: Linux 6.3, kernel/sched/fair.c (`update_task_scan_period`). No tracker reports the faulting thread,
//! so the share of private faults is a knob.

use super::on_fault::hint_faults;
use crate::knobs;
use crate::policy::interface::Wants;
use crate::port::{Allocation, Tracking};
use crate::unit::{Bytes, Nanos};

knobs! {
    /// The knobs of the scanner.
    pub struct ScanPeriodKnobs {
        /// Time in which all memory is armed once, at least.
        scan_period_min: Nanos = Nanos::from_secs(1), Nanos::from_millis(100), Nanos::from_secs(60);
        /// Time in which all memory is armed once, at most.
        scan_period_max: Nanos = Nanos::from_secs(60), Nanos::from_secs(1), Nanos::from_secs(600);
        /// Memory armed per round.
        scan_size: Bytes = Bytes::from_mib(256), Bytes::from_mib(16), Bytes::from_mib(16 << 10);
        /// Share of faults by the thread of the page's last fault; 0: many threads share all memory.
        private_share: f64 = 0.0, 0.0, 1.0;
    }
}

/// Tenths.
const SLOTS: u64 = 10;
/// From this many tenths on, scan more slowly.
const ENOUGH: u64 = 7;

/// The period, and the faults of the present scan.
#[derive(Clone, Debug, Default)]
pub struct ScanPeriod {
    /// The knobs.
    pub knobs: ScanPeriodKnobs,
    /// `None`: the shortest, the initial value.
    period: Option<Nanos>,
    began: Option<Nanos>,
    local: u64,
    remote: u64,
    failed: bool,
}

impl ScanPeriod {
    /// The time in which all memory is armed once.
    pub fn period(&self) -> Nanos {
        self.period.unwrap_or(self.knobs.scan_period_min)
    }

    /// How this scanner arms memory, that of the fastest tier only if requested.
    pub fn tracking(&self, fast_too: bool) -> Tracking {
        hint_faults(self.period(), self.knobs.scan_size, fast_too)
    }

    /// What a system with this scanner requests: faults in all memory, and the kernel's allocation.
    pub fn wants(&self) -> Wants {
        Wants {
            tracking: Some(self.tracking(true)),
            allocation: Some(Allocation::Kernel { coupled: true, by_type: false }),
            own_heat: true,
            ..Wants::default()
        }
    }

    /// Counts a fault in memory that is local to the processors, or remote; at the end of a scan, adapts the
    /// period.
    pub fn fault(&mut self, now: Nanos, local: bool) {
        let began = *self.began.get_or_insert(now);
        *(if local { &mut self.local } else { &mut self.remote }) += 1;
        if now.saturating_sub(began) < self.period() {
            return;
        }
        let ScanPeriodKnobs { scan_period_min, scan_period_max, .. } = self.knobs;
        let next = self.next().clamp(scan_period_min, scan_period_max.max(scan_period_min));
        *self = Self { knobs: self.knobs, period: Some(next), began: Some(now), ..Self::default() };
    }

    /// Records that a page could not be migrated.
    pub fn failed(&mut self) {
        self.failed = true;
    }

    fn next(&self) -> Nanos {
        let period = self.period();
        if self.failed {
            return period * 2;
        }
        let slot = Nanos(period.0.div_ceil(SLOTS));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 10")]
        let private = (self.knobs.private_share * 10.0) as u64;
        let local = self.local * SLOTS / (self.local + self.remote).max(1);
        match (private >= ENOUGH, local >= ENOUGH) {
            (true, _) => period + slot * (private - ENOUGH).max(1),
            (false, true) => period + slot * (local - ENOUGH).max(1),
            (false, false) => period.saturating_sub(slot * (ENOUGH - private.max(local))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The period after a scan of 10 s with these faults.
    fn after(local: u64, remote: u64, private_share: f64, failed: bool) -> Nanos {
        let mut scan = ScanPeriod { period: Some(Nanos::from_secs(10)), ..ScanPeriod::default() };
        scan.knobs.private_share = private_share;
        (0..local).for_each(|_| scan.fault(Nanos::from_secs(5), true));
        (0..remote - 1).for_each(|_| scan.fault(Nanos::from_secs(6), false));
        if failed {
            scan.failed();
        }
        scan.fault(Nanos::from_secs(15), false);
        scan.period()
    }

    /// By hand, in tenths of 10 s: 2 of 10 local faults are 5 short, 7 and 8 of 10 exceed by 0 and 1, 9 by 2.
    #[test]
    fn the_period_follows_the_share_of_local_and_of_private_faults() {
        assert_eq!(after(2, 8, 0.0, false), Nanos::from_secs(5));
        assert_eq!(after(7, 3, 0.0, false), Nanos::from_secs(11));
        assert_eq!(after(8, 2, 0.0, false), Nanos::from_secs(11));
        assert_eq!(after(9, 1, 0.0, false), Nanos::from_secs(12));
        assert_eq!(after(2, 8, 1.0, false), Nanos::from_secs(13), "private faults slow the scan");
        assert_eq!(after(2, 8, 0.5, false), Nanos::from_secs(8), "the greater of both counts");
    }

    #[test]
    fn a_failed_migration_doubles_it_within_its_bounds() {
        assert_eq!(after(2, 8, 0.0, true), Nanos::from_secs(20));
        let mut scan = ScanPeriod::default();
        for second in 0..600 {
            scan.failed();
            scan.fault(Nanos::from_secs(second), false);
        }
        assert_eq!(scan.period(), Nanos::from_secs(60));
    }
}
