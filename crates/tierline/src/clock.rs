// SPDX-License-Identifier: Apache-2.0
//! The only place that reads the time.

use chrono::DateTime;
use rustix::time::{ClockId, clock_gettime};
use tierline_core::unit::Nanos;

/// CLOCK_MONOTONIC.
pub fn now() -> Nanos {
    read(ClockId::Monotonic)
}

/// CPU time of this process.
pub fn cpu() -> Nanos {
    read(ClockId::ProcessCPUTime)
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    let [secs, nanos] = [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    Nanos(secs * 1_000_000_000 + nanos)
}

/// The date, as in 2026-11-23 (UTC).
pub fn today() -> String {
    let time = clock_gettime(ClockId::Realtime);
    DateTime::from_timestamp(time.tv_sec, 0)
        .map_or_else(String::new, |at| at.date_naive().to_string())
}
