// SPDX-License-Identifier: Apache-2.0
//! How late the manager's steps begin: what shows that something keeps it from its work, be it a long step, a busy
//! processor or its callers.

use tierline_core::unit::Nanos;

/// Steps by how long after they were due they began, each less than a bound.
const BOUNDS: [(&str, Nanos); 4] = [
    ("under_1ms", Nanos::from_millis(1)),
    ("under_10ms", Nanos::from_millis(10)),
    ("under_100ms", Nanos::from_millis(100)),
    ("more", Nanos(u64::MAX)),
];

/// Counts steps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lateness([u64; BOUNDS.len()]);

impl Lateness {
    /// Counts a step that began at `now`. One that is due at zero was asked for, and is never late.
    pub(super) fn add(&mut self, due: Nanos, now: Nanos) {
        if due > Nanos::ZERO {
            let late = now.saturating_sub(due);
            let at = BOUNDS.iter().position(|(_, bound)| late < *bound);
            self.0[at.unwrap_or(BOUNDS.len() - 1)] += 1;
        }
    }

    /// The counts by name.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        BOUNDS.iter().zip(self.0).map(|((name, _), count)| (*name, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_by_how_late_they_begin() {
        let mut lateness = Lateness::default();
        lateness.add(Nanos::ZERO, Nanos::from_secs(9));
        for late_us in [0, 999, 1_000, 50_000, 100_000, 7_000_000] {
            lateness.add(Nanos::from_secs(1), Nanos::from_secs(1) + Nanos(late_us * 1000));
        }
        let counts: Vec<u64> = lateness.counts().map(|(_, count)| count).collect();
        assert_eq!(counts, [2, 1, 1, 2]);
    }
}
