// SPDX-License-Identifier: Apache-2.0
//! Whether an application's memory rests, so that what is measured belongs to its placement. Ours.

use super::heat_curve::TierBytes;
use crate::unit::{Bytes, Nanos};

/// Changes of a tier by less than this part of the application's memory are rest.
const REST: f64 = 0.01;

/// A placement, and since when it has been nearly the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rest {
    since: Option<(Nanos, TierBytes)>,
}

impl Rest {
    /// For how long memory has rested, with its present bytes by tier.
    pub fn observe(&mut self, now: Nanos, used: &TierBytes) -> Nanos {
        let near = used.iter().copied().sum::<Bytes>().part(REST);
        let rests = |before: &TierBytes| {
            before.iter().zip(used).all(|(before, used)| before.0.abs_diff(used.0) <= near.0)
        };
        let (since, _) = *self
            .since
            .insert(self.since.filter(|(_, before)| rests(before)).unwrap_or((now, *used)));
        now.saturating_sub(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_moves_are_rest_until_they_add_up() {
        let mut rest = Rest::default();
        let mut at = |second, fast| {
            let mut used = TierBytes::default();
            (used[0], used[1]) = (Bytes::from_mib(fast), Bytes::from_mib(1_000 - fast));
            rest.observe(Nanos::from_secs(second), &used).as_secs_f64()
        };
        assert_eq!([at(1, 100), at(2, 105), at(3, 110)], [0.0, 1.0, 2.0]);
        assert_eq!([at(4, 111), at(5, 121)], [0.0, 1.0]);
        assert_eq!(at(6, 200), 0.0);
    }
}
