// SPDX-License-Identifier: Apache-2.0
//! Dense page indices, allocated in runs and reused once free.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The dense index of a managed page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageIdx(pub(super) u32);

impl PageIdx {
    /// Its position in a table with one entry per page.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// The page at that position.
    #[expect(clippy::cast_possible_truncation, reason = "the inverse of `index`")]
    pub(crate) const fn from_index(index: usize) -> Self {
        Self(index as u32)
    }

    /// Whether it belongs to a sample of one page in two to the power of `thinned`, by a hash of its index.
    pub(crate) const fn is_drawn(self, thinned: u32) -> bool {
        let hash = (self.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash.leading_zeros() >= thinned
    }
}

impl fmt::Display for PageIdx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// Which indices are free.
#[derive(Debug, Default)]
pub(super) struct Indices {
    /// Length of each free run, by its first index.
    free: BTreeMap<u32, u32>,
    /// The same runs by length.
    by_length: BTreeSet<(u32, u32)>,
    /// The first index that was never allocated.
    next: u32,
}

impl Indices {
    /// The end of all indices ever allocated.
    pub fn end(&self) -> u32 {
        self.next
    }

    /// Allocates a run of indices; `None` if there are no more.
    pub fn take(&mut self, pages: u32) -> Option<u32> {
        if let Some(&(length, at)) = self.by_length.range((pages, 0)..).next() {
            self.forget(at, length);
            debug_assert!(
                length >= pages && at + length <= self.next,
                "free runs lie below `next`"
            );
            if length > pages {
                self.note(at + pages, length - pages);
            }
            return Some(at);
        }
        let first = self.next;
        self.next = first.checked_add(pages)?;
        Some(first)
    }

    /// Frees a run of indices.
    pub fn release(&mut self, first: u32, pages: u32) {
        let end = u64::from(first) + u64::from(pages);
        debug_assert!(end <= u64::from(self.next), "indices up to {end} were never allocated");
        debug_assert!(self.free.range(first..).next().is_none_or(|(&at, _)| u64::from(at) >= end));
        let (mut at, mut length) = (first, pages);
        if let Some((&before, &n)) = self.free.range(..first).next_back()
            && before + n == first
        {
            self.forget(before, n);
            (at, length) = (before, n + pages);
        }
        if let Some(&n) = self.free.get(&(first + pages)) {
            self.forget(first + pages, n);
            length += n;
        }
        self.note(at, length);
    }

    fn note(&mut self, at: u32, length: u32) {
        debug_assert!(length > 0, "a free run is not empty");
        self.free.insert(at, length);
        self.by_length.insert((length, at));
    }

    fn forget(&mut self, at: u32, length: u32) {
        let known = self.free.remove(&at);
        debug_assert_eq!(known, Some(length), "the free run at {at}");
        let listed = self.by_length.remove(&(length, at));
        debug_assert!(listed, "the free run at {at} is listed by length");
    }

    /// Asserts that `used` and free indices are all that were ever allocated.
    pub fn check(&self, used: u64) {
        let free: u64 = self.free.values().map(|&n| u64::from(n)).sum();
        let by_length: BTreeMap<u32, u32> =
            self.by_length.iter().map(|&(length, at)| (at, length)).collect();
        assert_eq!(self.free, by_length);
        assert_eq!(used + free, u64::from(self.next), "an index is lost or used twice");
    }
}
