// SPDX-License-Identifier: Apache-2.0
//! A queue of items by due tick, for a clock that only advances. Due items are returned in order, one interval
//! of the clock at a time.
//!
//! Items are kept in buckets, by the highest bit in which their tick differs from the clock. When the clock
//! advances, a bucket is due as a whole, or not at all, or is the one that the clock has entered, whose items
//! are redistributed. So an item is moved at most once per bit of its distance, sequentially in memory, unlike
//! in a heap. Only due items are sorted.
//!
//! Source: radix heaps (Ahuja, Mehlhorn, Orlin and Tarjan, J. ACM 1990), emptied by intervals instead of item
//! by item.

/// Items with their due ticks.
#[derive(Clone, Debug)]
pub struct DueQueue<T> {
    clock: u64,
    /// The first bucket is due now.
    buckets: [Vec<(u64, T)>; BUCKETS],
}

const BUCKETS: usize = u64::BITS as usize + 1;

impl<T> Default for DueQueue<T> {
    fn default() -> Self {
        Self { clock: 0, buckets: [const { Vec::new() }; BUCKETS] }
    }
}

impl<T: Copy + Ord> DueQueue<T> {
    /// Adds an item due at `at`, or now if the clock has passed that tick.
    pub fn push(&mut self, at: u64, what: T) {
        let ahead = at.max(self.clock) ^ self.clock;
        self.buckets[bits(ahead)].push((at, what));
    }

    /// Advances the clock to `now` (never backwards) and appends to `out` the items due until `now`, inclusive,
    /// in order.
    pub fn take(&mut self, now: u64, out: &mut Vec<(u64, T)>) {
        let from = out.len();
        let now = now.max(self.clock);
        let reached = bits(now ^ self.clock);
        self.buckets[..reached].iter_mut().for_each(|bucket| out.append(bucket));
        self.clock = now;
        let mut spread = std::mem::take(&mut self.buckets[reached]);
        for (at, what) in spread.drain(..) {
            match at <= now {
                true => out.push((at, what)),
                false => self.push(at, what),
            }
        }
        if self.buckets[reached].is_empty() {
            self.buckets[reached] = spread; // keeps its allocation
        }
        out[from..].sort_unstable();
    }

    /// Removes all items, in order; the clock does not change.
    pub fn take_all(&mut self) -> Vec<(u64, T)> {
        let mut all: Vec<_> = self.buckets.iter_mut().flat_map(|bucket| bucket.drain(..)).collect();
        all.sort_unstable();
        all
    }
}

/// Whole ticks of a clock of accesses.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a clock of accesses; the cast saturates at never"
)]
pub fn whole(accesses: f64) -> u64 {
    accesses as u64
}

/// Position of the highest set bit, from 1; 0 if none.
fn bits(x: u64) -> usize {
    (u64::BITS - x.leading_zeros()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    proptest! {
        /// Compared with a heap: near and far items, also at the ends of the clock.
        #[test]
        fn it_returns_the_same_order_as_a_heap(
            steps in prop::collection::vec((0u32..64, any::<u64>(), any::<u8>(), any::<bool>()), 1..300),
        ) {
            let (mut due, mut heap) = (DueQueue::default(), BinaryHeap::new());
            let mut clock = 0u64;
            for (shift, random, what, go_on) in steps {
                if go_on {
                    clock = clock.saturating_add((random >> shift) / 64);
                    let mut taken = Vec::new();
                    due.take(clock, &mut taken);
                    let mut expected = Vec::new();
                    while let Some(&Reverse((at, what))) = heap.peek()
                        && at <= clock
                    {
                        heap.pop();
                        expected.push((at, what));
                    }
                    prop_assert_eq!(taken, expected);
                } else {
                    let at = clock.saturating_add(random >> shift);
                    due.push(at, what);
                    heap.push(Reverse((at, what)));
                }
            }
            let rest: Vec<_> = heap.into_sorted_vec().into_iter().rev().map(|one| one.0).collect();
            prop_assert_eq!(due.take_all(), rest);
        }
    }
}
