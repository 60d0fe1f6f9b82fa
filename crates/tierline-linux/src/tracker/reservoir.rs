// SPDX-License-Identifier: Apache-2.0
//! A random sample of a known size from a walk of unknown length: each item has the same chance to be kept.

use tierline_core::rng::Rng;

/// The items kept so far.
#[derive(Debug)]
pub struct Reservoir<T> {
    rng: Rng,
    kept: Vec<T>,
    offered: u64,
    most: usize,
}

impl<T: Copy + Ord> Reservoir<T> {
    /// A sample of at most this many items.
    pub fn new(seed: u64, most: usize) -> Self {
        Self { rng: Rng::new(seed), kept: Vec::new(), offered: 0, most }
    }

    /// Starts a new sample.
    pub fn clear(&mut self) {
        self.kept.clear();
        self.offered = 0;
    }

    /// Adds the next item.
    #[inline]
    pub fn offer(&mut self, item: T) {
        self.offered += 1;
        if self.kept.len() < self.most {
            self.kept.push(item);
        } else if let Ok(at) = usize::try_from(self.rng.below(self.offered))
            && let Some(kept) = self.kept.get_mut(at)
        {
            *kept = item;
        }
    }

    /// Sorts the sample.
    pub fn sort(&mut self) {
        self.kept.sort_unstable();
    }

    /// Leaves out those for which this is false.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.kept.retain(keep);
    }

    /// The sample.
    pub fn kept(&self) -> &[T] {
        &self.kept
    }
}
