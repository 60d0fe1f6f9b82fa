// SPDX-License-Identifier: Apache-2.0
//! How much of a CPU steps may take at raised priority.
//!
//! While pages wait for a better place, a step should not wait for the very programs that wait for their pages. But a
//! program whose pages change all the time never settles, and would lose all that such steps take. So they have a share of
//! a CPU, and may save a little of it. Ours, with its constants.

use tierline_core::unit::Nanos;

/// One part in this many of the time.
const SHARE: i64 = 20;
/// Time that is saved at most, and at the start.
const MOST_NS: i64 = 1_000_000_000;

/// The CPU time left for steps at raised priority.
#[derive(Clone, Copy, Debug)]
pub struct Urgency {
    /// Negative after a step that took more than was left.
    left_ns: i64,
    last: Option<Nanos>,
}

impl Default for Urgency {
    fn default() -> Self {
        Self { left_ns: MOST_NS, last: None }
    }
}

impl Urgency {
    /// Whether a step at `now` may run at raised priority.
    pub fn is_left(&mut self, now: Nanos) -> bool {
        let passed = now.saturating_sub(self.last.replace(now).unwrap_or(now));
        self.left_ns = self.left_ns.saturating_add(signed(passed) / SHARE).min(MOST_NS);
        self.left_ns > 0
    }

    /// Counts the CPU time of such a step.
    pub fn spend(&mut self, cpu: Nanos) {
        self.left_ns = self.left_ns.saturating_sub(signed(cpu));
    }
}

fn signed(time: Nanos) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: a second is saved; 100 ms of each 250 ms are spent and 12.5 ms earned, so twelve steps in a row are
    /// urgent. Later one in eight is, and after twenty seconds of rest the second is saved again.
    #[test]
    fn urgent_steps_take_a_twentieth_of_a_cpu_and_what_was_saved() {
        let mut urgency = Urgency::default();
        let mut urgent = |steps: std::ops::Range<u64>| {
            let at = |step| Nanos::from_millis(250 * step);
            steps
                .filter(|&step| {
                    let is_left = urgency.is_left(at(step));
                    urgency.spend(if is_left { Nanos::from_millis(100) } else { Nanos::ZERO });
                    is_left
                })
                .count()
        };
        assert_eq!(urgent(0..11), 11);
        let later = urgent(11..811);
        assert!((98..=102).contains(&later), "{later}");
        assert_eq!(urgent(891..892), 1);
    }
}
