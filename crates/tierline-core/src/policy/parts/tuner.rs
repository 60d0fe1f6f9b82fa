// SPDX-License-Identifier: Apache-2.0
//! The quota of a scheme, tuned to a goal: the bytes it may try per interval.
//!
//! A goal is met at a score of 10,000. *consist* searches for the quota that keeps it met: the quota grows or
//! shrinks by the relative error of the score. *temporal* works at full quota until the goal is met, and then
//! stops.
//!
//! Source: Linux 7.2, mm/damon/core.c (`damon_feed_loop_next_input`, `damos_goal_tune_esz_bp_consist`,
//! `damos_goal_tune_esz_bp_temporal`).

use crate::unit::Bytes;

/// The score of a met goal; also the unit of the quota, in parts of a byte.
pub const MET: u64 = 10_000;

/// How a quota follows a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tuner {
    /// It is fixed.
    None,
    /// Searches for the quota that keeps the goal met.
    Consist,
    /// Full quota or none.
    Temporal,
}

/// A quota.
#[derive(Clone, Debug)]
pub struct ByteQuota {
    /// In ten-thousandths of a byte.
    tuned: u64,
}

impl Default for ByteQuota {
    fn default() -> Self {
        Self { tuned: MET }
    }
}

impl ByteQuota {
    /// The bytes of the next interval, at most `most`, given the score after the last one.
    pub fn next(&mut self, tuner: Tuner, score: u64, most: Bytes) -> Bytes {
        match tuner {
            Tuner::None => return most,
            Tuner::Temporal if score >= MET => return Bytes::ZERO,
            Tuner::Temporal => return most,
            Tuner::Consist => self.tuned = next_input(self.tuned, score),
        }
        Bytes(self.tuned / MET).min(most)
    }
}

fn next_input(last: u64, score: u64) -> u64 {
    let change = u128::from(last) * u128::from(score.abs_diff(MET).min(MET)) / u128::from(MET);
    let change = u64::try_from(change).unwrap_or(u64::MAX);
    if score > MET { last.saturating_sub(change) } else { last.saturating_add(change) }.max(MET)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Bytes = Bytes(1 << 30);

    /// By hand: last·((goal − score)/goal + 1), and never below one byte.
    #[test]
    fn consist_changes_the_quota_by_the_relative_error() {
        assert_eq!(next_input(1_000_000, 5_000), 1_500_000);
        assert_eq!(next_input(1_000_000, 0), 2_000_000);
        assert_eq!(next_input(1_000_000, 10_000), 1_000_000);
        assert_eq!(next_input(1_000_000, 12_500), 750_000);
        assert_eq!(next_input(1_000_000, 20_000), 10_000);
        assert_eq!(next_input(1_000_000, 90_000), 10_000);
        assert_eq!(next_input(u64::MAX - 1, 0), u64::MAX);
    }

    #[test]
    fn consist_doubles_the_quota_from_one_byte_to_its_maximum() {
        let mut quota = ByteQuota::default();
        let first: Vec<u64> = (0..4).map(|_| quota.next(Tuner::Consist, 0, MOST).0).collect();
        assert_eq!(first, [2, 4, 8, 16]);
        let later = (0..60).map(|_| quota.next(Tuner::Consist, 0, MOST)).last();
        assert_eq!(later, Some(MOST));
    }

    #[test]
    fn temporal_is_all_or_nothing() {
        let mut quota = ByteQuota::default();
        assert_eq!(quota.next(Tuner::Temporal, 9_999, MOST), MOST);
        assert_eq!(quota.next(Tuner::Temporal, 10_000, MOST), Bytes::ZERO);
        assert_eq!(quota.next(Tuner::None, 10_000, MOST), MOST);
    }
}
