// SPDX-License-Identifier: Apache-2.0
//! Models the caches between a core and memory: which raw accesses reach memory, as lines read and written.

use serde::Serialize;

/// Bytes of a cache line, in both levels.
pub const LINE_BYTES: u64 = 64;
/// Lines of the first level: 32 KiB.
const L1_LINES: u64 = 512;
/// Marks an empty entry: this line number lies beyond the address space.
const EMPTY: u64 = u64::MAX;

/// Size and associativity of the last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Geometry {
    /// Capacity.
    pub bytes: u64,
    /// Lines per set.
    pub ways: u64,
}

impl Geometry {
    /// Whether the cache can be modelled. A set is found with a mask, so sizes must be powers of two. The limit
    /// of 1 GiB is far above real caches.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(self) -> Result<(), String> {
        let Geometry { bytes, ways } = self;
        let whole = bytes.is_power_of_two() && ways.is_power_of_two();
        if whole && bytes <= 1 << 30 && ways <= bytes / LINE_BYTES {
            return Ok(());
        }
        Err(format!(
            "`llc={bytes}` with `ways={ways}`: expected powers of two, up to 1 GiB, \
             at least one line of {LINE_BYTES} bytes per way"
        ))
    }
}

/// Effect of an access on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Whether its line had to be read from memory.
    pub read: bool,
    /// Address of a line that was written to memory: an evicted dirty line, or a store to a line that left the
    /// last level.
    pub written: Option<u64>,
}

/// The caches of one core, or of all: a direct-mapped filter, then a set-associative write-back cache with LRU
/// replacement. Neither includes the other, and a hit in the first does not refresh the line in the second.
pub struct Caches {
    /// Line number times two, plus one if the second level knows that the line is dirty.
    l1: Box<[u64]>,
    /// All sets, each with its most recently used line first; same encoding.
    llc: Box<[u64]>,
    ways: usize,
    set_mask: u64,
}

impl Caches {
    /// Empty caches. The geometry must have passed `check`.
    pub fn new(llc: Geometry) -> Caches {
        let lines = llc.bytes / LINE_BYTES;
        Caches {
            l1: vec![EMPTY; index(L1_LINES)].into(),
            llc: vec![EMPTY; index(lines)].into(),
            ways: index(llc.ways),
            set_mask: (lines / llc.ways).max(1) - 1,
        }
    }

    /// Accesses the line that holds `address`.
    #[inline]
    pub fn access(&mut self, address: u64, store: bool) -> Effect {
        let line = address / LINE_BYTES;
        let tag = line << 1 | u64::from(store);
        let l1 = &mut self.l1[index(line % L1_LINES)];
        if *l1 | 1 == tag | 1 {
            if *l1 >= tag {
                return Effect { read: false, written: None };
            }
            *l1 = tag;
            return self.stored(line);
        }
        *l1 = tag;

        let set = self.set(line);
        let found = set.iter().position(|&other| other | 1 == tag | 1);
        let at = found.unwrap_or(set.len() - 1);
        let before = set[at];
        // The victim of a miss is in the last way; the rotation overwrites it.
        set[..=at].rotate_right(1);
        let stays = if found.is_some() { before & 1 } else { 0 };
        set[0] = tag | stays;
        let victim = found.is_none() && before != EMPTY && before & 1 == 1;
        Effect { read: found.is_none(), written: victim.then(|| (before >> 1) * LINE_BYTES) }
    }

    /// The first store to a line in the filter: marks it dirty in the second level.
    fn stored(&mut self, line: u64) -> Effect {
        let set = self.set(line);
        let found = set.iter_mut().find(|other| **other == line << 1);
        let written = match found {
            Some(tag) => {
                *tag |= 1;
                None
            }
            None => (!set.contains(&(line << 1 | 1))).then_some(line * LINE_BYTES),
        };
        Effect { read: false, written }
    }

    fn set(&mut self, line: u64) -> &mut [u64] {
        let start = index(line & self.set_mask) * self.ways;
        &mut self.llc[start..start + self.ways]
    }
}

#[expect(clippy::cast_possible_truncation, reason = "64-bit hosts")]
fn index(n: u64) -> usize {
    n as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sets of two ways, far smaller than the first level.
    fn tiny() -> Caches {
        Caches::new(Geometry { bytes: 4 * LINE_BYTES, ways: 2 })
    }

    /// Addresses that share set 0 of `tiny` and one entry of the first level.
    fn clash(n: u64) -> u64 {
        n * L1_LINES * LINE_BYTES
    }

    fn misses(caches: &mut Caches, address: u64) -> bool {
        caches.access(address, false).read
    }

    #[test]
    fn geometry() {
        assert!(Geometry { bytes: 1 << 20, ways: 8 }.check().is_ok());
        assert!(Geometry { bytes: 64, ways: 1 }.check().is_ok());
        for (bytes, ways) in [(0, 1), (64, 0), (64, 2), (1 << 20, 3), (3 << 20, 8), (1 << 31, 8)] {
            assert!(Geometry { bytes, ways }.check().is_err(), "{bytes} {ways}");
        }
    }

    #[test]
    fn one_miss_per_line() {
        let mut caches = Caches::new(Geometry { bytes: 1 << 20, ways: 8 });
        let misses = (0..4096u64).filter(|i| caches.access(i * 8, false).read).count();
        assert_eq!(misses, 4096 * 8 / 64);
        assert!(!(0..4096u64).any(|i| caches.access(i * 8, false).read));
    }

    #[test]
    fn the_least_recently_used_line_leaves() {
        let mut caches = tiny();
        assert!(misses(&mut caches, clash(1)));
        assert!(misses(&mut caches, clash(2)));
        assert!(!misses(&mut caches, clash(1)), "both fit");
        assert!(misses(&mut caches, clash(3)), "a third does not");
        assert!(!misses(&mut caches, clash(1)), "1 was the more recent");
        assert!(misses(&mut caches, clash(2)), "2 was the victim");
    }

    #[test]
    fn sets_are_independent() {
        let mut caches = tiny();
        for n in 1..=2 {
            assert!(misses(&mut caches, clash(n)));
            assert!(misses(&mut caches, clash(n) + LINE_BYTES));
        }
        for n in 1..=2 {
            assert!(!misses(&mut caches, clash(n)));
            assert!(!misses(&mut caches, clash(n) + LINE_BYTES));
        }
    }

    #[test]
    fn a_cycle_larger_than_the_cache_always_misses() {
        let mut caches = Caches::new(Geometry { bytes: 1 << 16, ways: 8 });
        let lines = 2 * (1 << 16) / LINE_BYTES;
        for _ in 0..3 {
            assert!((0..lines).all(|line| caches.access(line * LINE_BYTES, false).read));
        }
    }

    #[test]
    fn a_dirty_line_is_written_back_once() {
        let mut caches = tiny();
        assert_eq!(caches.access(clash(1), true), Effect { read: true, written: None });
        assert_eq!(caches.access(clash(1) + 8, true), Effect { read: false, written: None });
        caches.access(clash(2), false);
        let third = caches.access(clash(3), false);
        assert_eq!(third, Effect { read: true, written: Some(clash(1)) });
        assert_eq!(caches.access(clash(4), false).written, None, "2 was only read");
    }

    /// A store to a line that was read before, and hits only the filter, is still written back.
    #[test]
    fn a_store_that_hits_the_filter_marks_the_line_dirty() {
        let mut caches = tiny();
        caches.access(clash(1), false);
        assert_eq!(caches.access(clash(1), true), Effect { read: false, written: None });
        caches.access(clash(2), false);
        assert_eq!(caches.access(clash(3), false).written, Some(clash(1)));
    }
}
