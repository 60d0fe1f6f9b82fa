// SPDX-License-Identifier: Apache-2.0
//! What is due at a tick of a clock that only goes forward, handed out in order, a stretch of the clock at a time.
//!
//! Things wait in buckets by the highest bit in which their tick differs from the clock: a bucket is either due
//! as a whole, or not at all, or the one that the clock has come into, which is spread anew. So a thing is touched
//! as often as its distance has bits, in rows, where a heap would go all over memory for each; sorted is only what
//! is due.
//!
//! Source: radix heaps (Ahuja, Mehlhorn, Orlin and Tarjan, J. ACM 1990), emptied by stretches instead of one by
//! one.

/// Things with the ticks at which they are due.
#[derive(Clone, Debug)]
pub struct Due<T> {
    clock: u64,
    /// The first is due now.
    buckets: [Vec<(u64, T)>; BUCKETS],
}

const BUCKETS: usize = u64::BITS as usize + 1;

impl<T> Default for Due<T> {
    fn default() -> Self {
        Self { clock: 0, buckets: [const { Vec::new() }; BUCKETS] }
    }
}

impl<T: Copy + Ord> Due<T> {
    /// Adds what is due at `at`; at once, where the clock is there already.
    pub fn push(&mut self, at: u64, what: T) {
        let ahead = at.max(self.clock) ^ self.clock;
        self.buckets[bits(ahead)].push((at, what));
    }

    /// Moves the clock on to `now`, if it is not there yet, and adds to `out` what is due until then, `now`
    /// included, in its order.
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
            self.buckets[reached] = spread; // for its room
        }
        out[from..].sort_unstable();
    }

    /// Takes everything, in its order; the clock stays where it is.
    pub fn take_all(&mut self) -> Vec<(u64, T)> {
        let mut all: Vec<_> = self.buckets.iter_mut().flat_map(|bucket| bucket.drain(..)).collect();
        all.sort_unstable();
        all
    }
}

/// The tick that a clock of accesses has reached.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a clock of accesses; the cast saturates at never"
)]
pub fn whole(accesses: f64) -> u64 {
    accesses as u64
}

/// The place of the highest bit that is set, from 1; 0 of none.
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
        /// Against a heap: near and far things, at the ends of the clock too.
        #[test]
        fn it_hands_out_what_a_heap_does(
            steps in prop::collection::vec((0u32..64, any::<u64>(), any::<u8>(), any::<bool>()), 1..300),
        ) {
            let (mut due, mut heap) = (Due::default(), BinaryHeap::new());
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
