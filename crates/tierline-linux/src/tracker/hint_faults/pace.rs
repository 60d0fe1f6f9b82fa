// SPDX-License-Identifier: Apache-2.0
//! How much memory the kernel arms at a time, so that the faults stay within a budget.
//!
//! The kernel limits the time of arming, not the time of the faults. A program that spends its time in
//! faults accesses its hot pages later, so they look warm. Therefore the slice starts small, doubles while
//! the faults are below the budget and halves above it; an excess is compensated by arming nothing for a
//! while.

use tierline_core::unit::Nanos;

/// Time between two checks of the rate: longer than the kernel's usual period, so that a check includes the
/// effect of the last change.
const WINDOW: Nanos = Nanos::from_millis(250);

/// The size of the slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceSize {
    /// Megabytes armed at a time; 0: nothing is armed.
    pub mb: u32,
    heard: Nanos,
    /// Faults above the budget that are not yet compensated.
    debt: u64,
    /// Faults since `window_start`.
    faults: u64,
    window_start: Nanos,
    /// Consecutive windows below the budget.
    quiet: u32,
}

impl SliceSize {
    /// Starts with one megabyte at `now`.
    pub const fn new(now: Nanos) -> Self {
        Self { mb: 1, heard: now, debt: 0, faults: 0, window_start: now, quiet: 0 }
    }

    /// Records `faults` since the last call, with a `budget` of faults a second, and adjusts the slice within
    /// `limit_mb`. True if it changed.
    pub fn record_faults(&mut self, now: Nanos, faults: u64, budget: u64, limit_mb: u32) -> bool {
        let before = self.mb;
        let earned = allowance(budget, now.saturating_sub(self.heard));
        self.heard = now;
        self.debt = (self.debt + faults).saturating_sub(earned);
        self.faults += faults;
        if self.debt > allowance(budget, WINDOW) {
            // At once: armed pages will fault for a while.
            self.mb = 0;
        } else if self.mb == 0 && self.debt == 0 {
            self.mb = 1;
            self.open_window(now);
        } else if now.saturating_sub(self.window_start) >= WINDOW {
            let allowed = allowance(budget, now - self.window_start);
            self.mb = self.next_slice(allowed);
            self.open_window(now);
        }
        self.mb = self.mb.min(limit_mb.max(1));
        self.mb != before
    }

    const fn open_window(&mut self, now: Nanos) {
        self.faults = 0;
        self.window_start = now;
    }

    const fn next_slice(&mut self, allowed: u64) -> u32 {
        let room = self.faults * 2 < allowed && self.debt == 0;
        self.quiet = if room { self.quiet + 1 } else { 0 };
        if self.mb > 1 && self.faults > allowed {
            return self.mb / 2;
        }
        // Pages fault some time after they were armed: two windows show the effect of a slice.
        if self.quiet >= 2 {
            self.quiet = 0;
            return self.mb * 2;
        }
        self.mb
    }
}

/// Faults allowed in `time` by a budget per second.
const fn allowance(budget: u64, time: Nanos) -> u64 {
    budget.saturating_mul(time.0 / 1_000_000) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slice after each window of 250 ms with the given faults, at 4000 a second and 64 MB.
    fn run(faults: &[u64]) -> Vec<u32> {
        let mut now = Nanos::from_secs(10);
        let mut pace = SliceSize::new(now);
        let step = |faults: &u64| {
            now += WINDOW;
            pace.record_faults(now, *faults, 4000, 64);
            pace.mb
        };
        faults.iter().map(step).collect()
    }

    #[test]
    fn the_slice_grows_while_there_is_room_and_shrinks_above_the_budget() {
        let slices = run(&[0; 14]);
        assert_eq!(slices, [1, 2, 2, 4, 4, 8, 8, 16, 16, 32, 32, 64, 64, 64]);
        assert_eq!(run(&[0, 0, 0, 0, 1400, 600, 1500]), [1, 2, 2, 4, 2, 2, 1]);
        assert_eq!(run(&[700, 700, 700]), [1, 1, 1], "no room to grow, no need to shrink");
    }

    #[test]
    fn faults_above_the_budget_are_compensated() {
        assert_eq!(run(&[4500, 0, 0, 0, 0, 0]), [0, 0, 0, 0, 1, 1]);
    }

    #[test]
    fn a_late_poll_is_judged_by_the_time_that_passed() {
        let mut pace = SliceSize::new(Nanos::from_secs(1));
        assert!(!pace.record_faults(Nanos::from_secs(3), 6000, 4000, 64), "3000 a second");
        assert!(!pace.record_faults(Nanos::from_millis(3100), 600, 4000, 64), "within the window");
        assert_eq!(pace.mb, 1);
    }

    #[test]
    fn a_burst_stops_the_arming_before_the_window_ends() {
        let mut pace = SliceSize::new(Nanos::from_secs(1));
        assert!(pace.record_faults(Nanos::from_millis(1025), 2000, 4000, 64));
        assert_eq!(pace.mb, 0);
        assert!(!pace.record_faults(Nanos::from_millis(1300), 0, 4000, 64), "800 to compensate");
        assert!(pace.record_faults(Nanos::from_millis(1525), 0, 4000, 64));
        assert_eq!(pace.mb, 1);
    }

    #[test]
    fn the_limit_applies_at_once() {
        let mut pace = SliceSize { mb: 64, ..SliceSize::new(Nanos::ZERO) };
        assert!(pace.record_faults(Nanos::from_secs(1), 3000, 4000, 8));
        assert_eq!(pace.mb, 8);
    }
}
