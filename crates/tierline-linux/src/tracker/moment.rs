// SPDX-License-Identifier: Apache-2.0
//! How long pages were watched: the time between two moments in which programs could run.

use std::time::{Duration, Instant};

use tierline_core::unit::Nanos;

use super::cost::thread_cpu;

/// A moment, in the machine's time and in this thread's CPU time.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    wall: Instant,
    cpu: Nanos,
}

impl Moment {
    /// Now.
    pub fn now() -> Self {
        Self { wall: Instant::now(), cpu: thread_cpu() }
    }

    /// Half way from this moment to now: on average a page is armed, or read, half way through.
    pub fn midway(self) -> Self {
        let now = Self::now();
        let cpu = Nanos(now.cpu.saturating_sub(self.cpu).0 / 2);
        Self { wall: self.wall + (now.wall - self.wall) / 2, cpu: self.cpu + cpu }
    }

    /// The time until `end` in which programs could run. On one CPU they stand still while this thread works, whatever
    /// it works on.
    pub fn watched_until(self, end: Self, one_cpu: bool) -> Duration {
        let own = if one_cpu { end.cpu.saturating_sub(self.cpu) } else { Nanos::ZERO };
        end.wall.saturating_duration_since(self.wall).saturating_sub(Duration::from_nanos(own.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_work_counts_unless_there_is_one_cpu() {
        let (start, ms) = (Moment::now(), Duration::from_millis);
        let end = Moment { wall: start.wall + ms(80), cpu: start.cpu + Nanos::from_millis(30) };
        assert_eq!(start.watched_until(end, false), ms(80));
        assert_eq!(start.watched_until(end, true), ms(50));
        assert_eq!(end.watched_until(start, true), Duration::ZERO);
    }

    #[test]
    fn midway_is_between() {
        let start = Moment::now();
        while thread_cpu() < start.cpu + Nanos::from_millis(2) {}
        let (middle, end) = (start.midway(), Moment::now());
        assert!(middle.wall > start.wall && middle.wall < end.wall);
        assert!(middle.cpu > start.cpu && middle.cpu < end.cpu);
    }
}
