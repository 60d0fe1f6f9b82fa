// SPDX-License-Identifier: Apache-2.0
//! The budget: a token bucket in bytes.

use crate::unit::{Bytes, BytesPerSec, Nanos, in_time};

/// The bucket holds what may be moved in this time, so that a quiet second is not made up for by a burst.
const DEPTH: Nanos = Nanos::from_millis(250);

/// Tokens that run in at a fixed rate and are spent on moves.
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

    /// At least one huge page, or a low rate could never move one.
    fn depth(rate: BytesPerSec) -> Bytes {
        Bytes(in_time(rate, DEPTH).0.max(2 << 20))
    }

    /// Lets tokens run in until `now` and returns what is there.
    pub fn refill(&mut self, now: Nanos) -> Bytes {
        let passed = now.saturating_sub(self.last.unwrap_or(now));
        debug_assert!(self.tokens <= Self::depth(self.rate), "the bucket is too full");
        let gained = in_time(self.rate, passed);
        // Time too short for a byte must add up, not vanish.
        if gained > Bytes::ZERO || self.last.is_none() {
            self.last = Some(now);
        }
        self.tokens = (self.tokens + gained).min(Self::depth(self.rate));
        self.tokens
    }

    /// Spends `bytes`.
    ///
    /// # Panics
    /// Where there are not as many tokens: the caller asks first.
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
        /// Over any time, no more than the rate and one full bucket.
        #[test]
        fn never_more_than_rate_times_time_and_one_bucket(
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
    fn slow_trickles_add_up() {
        let mut bucket = TokenBucket::new(BytesPerSec(1 << 20));
        bucket.refill(Nanos(0));
        bucket.spend(Bytes(2 << 20));
        for ns in 1..=2_000 {
            bucket.refill(Nanos(ns));
        }
        assert_eq!(bucket.refill(Nanos(2_000)), Bytes(2), "1 MiB/s is 2 bytes in 2 us");
    }
}
