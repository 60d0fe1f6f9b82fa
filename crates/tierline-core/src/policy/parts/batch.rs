// SPDX-License-Identifier: Apache-2.0
//! Batches sized by spare bandwidth: how many pages are copied at a time, so that copying uses the bandwidth
//! that programs leave over.
//!
//! `copies = ⌊most · (1 - used)⌋`, within 1 and `most`, where `used` is the share of the memories' peak
//! bandwidth that programs use, without our own copying. A world copies with a fixed number of threads, so
//! fewer copies at a time are modelled as copying for `copies/most` of the time.
//!
//! Source: ARMS (section 4.4); our text of the paper lacks the formula, and this is its plain reading. Ours:
//! one copy continues without spare bandwidth, so that misplaced pages are moved in the end.

use crate::knobs;
use crate::policy::view::View;
use crate::port::PageSize;
use crate::unit::{Bytes, Nanos};

knobs! {
    /// The knobs of batches.
    pub struct BatchKnobs {
        /// Pages copied at a time, at most: the threads that saturate the slower memory, set per machine.
        batch_max: u32 = 4, 1, 64;
        /// Whether batches are sized by spare bandwidth.
        adaptive_batch: bool = true, false, true;
    }
}

impl BatchKnobs {
    /// Copies at a time if `used` of all bandwidth is used; the maximum if that is unknown.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rounded down on purpose"
    )]
    pub fn copies(&self, used: Option<f64>) -> u32 {
        let most = self.batch_max.max(1);
        let used = used.filter(|_| self.adaptive_batch).unwrap_or(0.0);
        ((f64::from(most) * (1.0 - used)) as u32).clamp(1, most)
    }

    /// Bytes that may be moved for the time since the last tick, in pages of `size`; at least one exchange.
    pub fn bytes(&self, view: &View<'_>, used: Option<f64>, since: Nanos, size: PageSize) -> Bytes {
        let copying = since.0 * u64::from(self.copies(used)) / u64::from(self.batch_max.max(1));
        let pages = copying / view.move_cost(size).0.max(1);
        size.bytes() * pages.max(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn batches_use_the_spare_bandwidth() {
        let knobs = BatchKnobs { batch_max: 12, ..BatchKnobs::default() };
        for (used, copies) in [(0.0, 12), (0.25, 9), (0.5, 6), (0.95, 1), (1.0, 1), (1.4, 1)] {
            assert_eq!(knobs.copies(Some(used)), copies, "at {used}");
        }
        assert_eq!(knobs.copies(None), 12);
        assert_eq!(BatchKnobs { adaptive_batch: false, ..knobs }.copies(Some(0.9)), 12);
    }

    proptest! {
        #[test]
        fn busier_memory_never_gets_larger_batches(most in 1u32..64, a in 0.0f64..2.0, b in 0.0f64..2.0) {
            let knobs = BatchKnobs { batch_max: most, ..BatchKnobs::default() };
            let [low, high] = [a.min(b), a.max(b)].map(|used| knobs.copies(Some(used)));
            prop_assert!(low >= high && (1..=most).contains(&low) && high >= 1);
        }
    }
}
