// SPDX-License-Identifier: Apache-2.0
//! The budget: a token bucket in bytes.

use crate::unit::{Bytes, BytesPerSec, Nanos, in_time};

/// The bucket holds the budget of this time, so that an idle second is not followed by a burst.
const DEPTH: Nanos = Nanos::from_millis(250);

/// Tokens that refill at a fixed rate and are spent on moves.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: BytesPerSec,
    tokens: Bytes,
    last: Option<Nanos>,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(rate: BytesPerSec) -> Self {
        Self { rate, tokens: Self::depth(rate), last: None }
    }

    /// At least one huge page; otherwise a low rate could never move one.
    fn depth(rate: BytesPerSec) -> Bytes {
        Bytes(in_time(rate, DEPTH).0.max(2 << 20))
    }

    /// Adds the tokens earned until `now` and returns the balance.
    pub fn refill(&mut self, now: Nanos) -> Bytes {
        let passed = now.saturating_sub(self.last.unwrap_or(now));
        debug_assert!(self.tokens <= Self::depth(self.rate), "the bucket exceeds its depth");
        let gained = in_time(self.rate, passed);
        // Intervals too short for one byte accumulate.
        if gained > Bytes::ZERO || self.last.is_none() {
            self.last = Some(now);
        }
        self.tokens = (self.tokens + gained).min(Self::depth(self.rate));
        self.tokens
    }

    /// Spends `bytes`.
    ///
    /// # Panics
    /// If fewer tokens are left: the caller must check first.
    pub fn spend(&mut self, bytes: Bytes) {
        assert!(bytes <= self.tokens, "over budget: {bytes} of {}", self.tokens);
        self.tokens -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Over any time, spends at most rate × time plus one full bucket.
        #[test]
        fn spending_is_bounded_by_rate_times_time_plus_one_bucket(
            rate in 1u64..1 << 32,
            steps in prop::collection::vec((0u64..300_000_000, 0u64..64 << 20), 1..50),
        ) {
            let mut bucket = TokenBucket::new(BytesPerSec(rate));
            let (mut now, mut spent) = (0u64, 0u64);
            for (dt, want) in steps {
                now += dt;
                let got = bucket.refill(Nanos(now)).0.min(want);
                bucket.spend(Bytes(got));
                spent += got;
                let bound = u128::from(rate) * u128::from(now) / 1_000_000_000
                    + u128::from(TokenBucket::depth(BytesPerSec(rate)).0);
                prop_assert!(u128::from(spent) <= bound);
            }
        }
    }

    #[test]
    fn short_intervals_add_up() {
        let mut bucket = TokenBucket::new(BytesPerSec(1 << 20));
        bucket.refill(Nanos(0));
        bucket.spend(Bytes(2 << 20));
        for ns in 1..=2_000 {
            bucket.refill(Nanos(ns));
        }
        assert_eq!(bucket.refill(Nanos(2_000)), Bytes(2), "1 MiB/s is 2 bytes in 2 us");
    }
}
