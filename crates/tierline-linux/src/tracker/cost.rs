// SPDX-License-Identifier: Apache-2.0
//! What a step costs the calling thread, and its priority meanwhile.

use std::num::NonZeroU64;
use std::time::Instant;

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::{current_timer_slack, set_current_timer_slack};
use rustix::time::{ClockId, clock_gettime};
use tierline_core::unit::Nanos;

/// The highest of the ordinary priorities.
const HIGHEST: i32 = -20;

/// The cost of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// CPU time of this thread, in user and kernel mode.
    pub cpu: Nanos,
    /// Wall-clock time.
    pub wall: Nanos,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.wall += other.wall;
    }
}

/// Measures the cost of a step for this thread.
pub struct CostMeter {
    cpu: Nanos,
    wall: Instant,
}

impl CostMeter {
    /// Starts measuring.
    pub fn start() -> Self {
        Self { cpu: thread_cpu(), wall: Instant::now() }
    }

    /// The cost since the start.
    pub fn cost(&self) -> Cost {
        let cpu = thread_cpu().saturating_sub(self.cpu);
        Cost { cpu, wall: Nanos(u64::try_from(self.wall.elapsed().as_nanos()).unwrap_or(u64::MAX)) }
    }
}

/// While this lives, the calling thread runs before others: whatever runs between the arming and the reading
/// of a page makes its window longer, and with a long window warm pages look hot. On a machine whose CPUs
/// are all busy that is the program itself. For the same reason its sleeps end on time, not up to the usual 50 us
/// later. Without the right to raise priority that does not change.
#[derive(Debug)]
pub struct RaisedPriority {
    nice: Option<i32>,
    timer_slack: Option<NonZeroU64>,
}

impl RaisedPriority {
    /// Raises the priority.
    pub fn begin() -> Self {
        let nice = getpriority_process(None).ok();
        let timer_slack = current_timer_slack().ok().and_then(NonZeroU64::new);
        Self {
            nice: nice.filter(|_| setpriority_process(None, HIGHEST).is_ok()),
            timer_slack: timer_slack
                .filter(|_| set_current_timer_slack(NonZeroU64::new(1)).is_ok()),
        }
    }
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        if let Some(nice) = self.nice {
            // Lowering one's own priority is never refused.
            let _ = setpriority_process(None, nice);
        }
        if self.timer_slack.is_some() {
            let _ = set_current_timer_slack(self.timer_slack);
        }
    }
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> Nanos {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Nanos(u64::try_from(t.tv_sec * 1_000_000_000 + t.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_measured() {
        let meter = CostMeter::start();
        let sum: u64 = (0..100_000_u64).map(std::hint::black_box).sum();
        std::hint::black_box(sum);
        assert!(meter.cost().cpu > Nanos::ZERO && meter.cost().wall > Nanos::ZERO);
    }
}
