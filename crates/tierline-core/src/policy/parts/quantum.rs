// SPDX-License-Identifier: Apache-2.0
//! The quantum: a policy decides once per quantum, however often it is ticked.

use crate::unit::Nanos;

/// Tells when a decision is due.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantum {
    last: Option<Nanos>,
}

impl Quantum {
    /// The time since the last decision, if at least `length`; returns `length` at the first call.
    pub fn due(&mut self, now: Nanos, length: Nanos) -> Option<Nanos> {
        let passed = self.last.map_or(length, |last| now.saturating_sub(last));
        if passed < length {
            return None;
        }
        self.last = Some(now);
        Some(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_comes_once_a_quantum() {
        let mut quantum = Quantum::default();
        let length = Nanos::from_millis(25);
        let at = |ms| Nanos::from_millis(ms);
        let due: Vec<u64> =
            (0..100).step_by(10).filter(|&ms| quantum.due(at(ms), length).is_some()).collect();
        assert_eq!(due, [0, 30, 60, 90]);
        assert_eq!(quantum.due(at(290), length), Some(at(200)), "returns the time since the last");
    }
}
