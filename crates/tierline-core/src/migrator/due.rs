// SPDX-License-Identifier: Apache-2.0
//! What is to be done at given times.

use std::collections::BTreeMap;

use crate::unit::Nanos;

/// Items by the time at which they are due; those of one time in the order in which they were added.
#[derive(Debug)]
pub struct Due<T> {
    items: BTreeMap<(Nanos, u64), T>,
    next: u64,
}

impl<T> Default for Due<T> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), next: 0 }
    }
}

impl<T> Due<T> {
    /// Adds an item.
    pub fn add(&mut self, at: Nanos, item: T) {
        self.next += 1;
        self.items.insert((at, self.next), item);
    }

    /// Takes the items that are due.
    pub fn take(&mut self, now: Nanos) -> impl Iterator<Item = T> + use<T> {
        let later = self.items.split_off(&(now + Nanos(1), 0));
        let due = std::mem::replace(&mut self.items, later);
        debug_assert!(due.keys().all(|&(at, _)| at <= now), "an item comes too early");
        debug_assert!(self.items.keys().all(|&(at, _)| at > now), "an item is late");
        due.into_values()
    }

    /// The number of items.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }
}
