// SPDX-License-Identifier: Apache-2.0
//! The CPU time that steps may take at raised priority.
//!
//! While pages wait for a better place, a step should not wait for the very programs that wait for their pages. But where
//! placement never settles, as in a program that gets new pages all the time, such steps would slow the programs down
//! without end. So they have a budget, that of scans while placement is not settled: a share of one CPU, and some credit.
//! Ours.

use tierline_core::unit::Nanos;

use crate::tracker::window::WindowSettings;

/// What is left of the budget.
#[derive(Clone, Copy, Debug)]
pub struct Urgency {
    /// CPU time in seconds; negative if owed.
    credit: f64,
    most: f64,
    /// Share of one CPU that is earned.
    budget: f64,
    /// The last step.
    last: Nanos,
}

impl Default for Urgency {
    fn default() -> Self {
        let WindowSettings { budget_alert, credit, .. } = WindowSettings::default();
        let most = credit.as_secs_f64();
        Self { credit: most, most, budget: budget_alert, last: Nanos::ZERO }
    }
}

impl Urgency {
    /// Whether a step at `now` may run at raised priority.
    pub fn is_left(&mut self, now: Nanos) -> bool {
        let passed = now.saturating_sub(std::mem::replace(&mut self.last, now));
        self.credit = (self.credit + passed.as_secs_f64() * self.budget).min(self.most);
        self.credit > 0.0
    }

    /// Counts the CPU time of such a step.
    pub fn spend(&mut self, cpu: Nanos) {
        self.credit -= cpu.as_secs_f64();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand, for 5 % of a CPU and a credit of 3 s: a step every 250 ms takes 100 ms, and 12.5 ms are earned until the
    /// next, so 35 steps in a row are urgent. Later one in eight is. After a minute without a step the credit is whole
    /// again.
    #[test]
    fn urgent_steps_stay_within_their_budget_and_credit() {
        let mut urgency = Urgency::default();
        let mut urgent = |steps: std::ops::Range<u64>| -> Vec<u64> {
            let at = |step| Nanos::from_millis(250 * step);
            steps
                .filter(|&step| {
                    let is_left = urgency.is_left(at(step));
                    urgency.spend(if is_left { Nanos::from_millis(100) } else { Nanos::ZERO });
                    is_left
                })
                .collect()
        };
        assert_eq!(urgent(0..40), Vec::from_iter(0..35));
        let later = urgent(40..840).len();
        assert!((99..=101).contains(&later), "{later}");
        assert_eq!(urgent(1_080..1_120), Vec::from_iter(1_080..1_115));
    }
}
