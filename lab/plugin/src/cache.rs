// SPDX-License-Identifier: Apache-2.0
//! The caches between a vCPU and memory, indexed by physical address.

use serde::Serialize;

/// Bytes of a cache line, in both levels.
pub const LINE_BYTES: u64 = 64;
/// Lines of the first level: 32 KiB.
const L1_LINES: u64 = 512;
/// No line has this number: it would lie beyond the end of the address space.
const EMPTY: u64 = u64::MAX;

/// Size and shape of the last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Geometry {
    /// Capacity.
    pub bytes: u64,
    /// Lines per set.
    pub ways: u64,
}

impl Geometry {
    /// Whether the cache can be built. A set is found with a mask, hence the
    /// powers of two; 1 GiB is far above any cache worth a model.
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

/// One vCPU's caches: a direct-mapped filter, then a set-associative cache that
/// replaces the least recently used line. Neither includes the other, and a hit
/// in the first does not refresh the line in the second.
pub struct Caches {
    l1: Box<[u64]>,
    /// Set after set, each with its most recently used line first.
    llc: Box<[u64]>,
    ways: usize,
    set_mask: u64,
}

impl Caches {
    /// Empty caches. The geometry must have passed its `check`.
    pub fn new(llc: Geometry) -> Caches {
        let lines = llc.bytes / LINE_BYTES;
        Caches {
            l1: vec![EMPTY; index(L1_LINES)].into(),
            llc: vec![EMPTY; index(lines)].into(),
            ways: index(llc.ways),
            set_mask: lines / llc.ways - 1,
        }
    }

    /// Touches the line that holds `phys`, as a load or a store alike, and says
    /// whether memory had to be asked.
    #[inline]
    pub fn misses(&mut self, phys: u64) -> bool {
        let line = phys / LINE_BYTES;
        let l1 = &mut self.l1[index(line % L1_LINES)];
        if *l1 == line {
            return false;
        }
        *l1 = line;

        let start = index(line & self.set_mask) * self.ways;
        let set = &mut self.llc[start..start + self.ways];
        let found = set.iter().position(|&tag| tag == line);
        // The victim of a miss is the last way: rotating overwrites it.
        set[..=found.unwrap_or(self.ways - 1)].rotate_right(1);
        set[0] = line;
        found.is_none()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "QEMU's plugins are for 64-bit hosts")]
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

    /// Addresses that share set 0 of `tiny` and one slot of the first level.
    fn clash(n: u64) -> u64 {
        n * L1_LINES * LINE_BYTES
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
        let misses = (0..4096u64).filter(|i| caches.misses(i * 8)).count();
        assert_eq!(misses, 4096 * 8 / 64);
        assert!(!(0..4096u64).any(|i| caches.misses(i * 8)));
    }

    #[test]
    fn the_least_recently_used_line_leaves() {
        let mut caches = tiny();
        assert!(caches.misses(clash(1)));
        assert!(caches.misses(clash(2)));
        assert!(!caches.misses(clash(1)), "both fit");
        assert!(caches.misses(clash(3)), "a third does not");
        assert!(!caches.misses(clash(1)), "1 was the more recent");
        assert!(caches.misses(clash(2)), "2 was the victim");
    }

    #[test]
    fn sets_are_apart() {
        let mut caches = tiny();
        for n in 1..=2 {
            assert!(caches.misses(clash(n)));
            assert!(caches.misses(clash(n) + LINE_BYTES));
        }
        for n in 1..=2 {
            assert!(!caches.misses(clash(n)));
            assert!(!caches.misses(clash(n) + LINE_BYTES));
        }
    }

    #[test]
    fn a_cycle_larger_than_the_cache_always_misses() {
        let mut caches = Caches::new(Geometry { bytes: 1 << 16, ways: 8 });
        let lines = 2 * (1 << 16) / LINE_BYTES;
        for _ in 0..3 {
            assert!((0..lines).all(|line| caches.misses(line * LINE_BYTES)));
        }
    }
}
