// SPDX-License-Identifier: Apache-2.0
//! A counting Bloom filter of small counters: access counts in a fixed size, however much memory is managed.
//!
//! A page has four counters of four bits in one cache line, chosen by a hash. An access increments all four, and their
//! minimum is the page's count: never too low below the limit of 15, and too high if other pages share all four.
//!
//! Source: HybridTier (ASPLOS 2025), its artifact's blocked counting Bloom filter. The hash is ours.

/// Counters of a page.
const HASHES: u32 = 4;
/// Counters for each page that the filter is made for: `-4 / ln(1 - p^(1/4))` for a share of false counts of p = 0.001.
pub const COUNTERS_PER_PAGE: f64 = 20.4;
/// The largest count.
pub const MOST: u8 = 15;
/// Counters of a cache line of 64 bytes.
const PER_LINE: u64 = 128;
/// The lowest bits of halved counters of a word.
const HALVED: u64 = 0x7777_7777_7777_7777;

/// The filter.
#[derive(Clone, Debug, Default)]
pub struct Sketch {
    lines: Vec<[u64; 8]>,
}

impl Sketch {
    /// A filter for about that many pages; its size is a power of two.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the pages of one machine"
    )]
    pub fn of_pages(pages: u64) -> Self {
        let lines = (pages as f64 * COUNTERS_PER_PAGE / PER_LINE as f64).ceil() as usize;
        Self { lines: vec![[0; 8]; lines.max(1).next_power_of_two()] }
    }

    /// Whether it was not made yet.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.lines.len() * size_of::<[u64; 8]>()
    }

    /// Adds accesses of the page with that key.
    pub fn add(&mut self, key: u64, count: u32) {
        let hash = mixed(key);
        let Some(line) = self.line(hash) else { return };
        for nth in 0..HASHES {
            let (word, shift) = counter(hash, nth);
            let value = self.lines[line][word] >> shift & u64::from(MOST);
            let more = (value + u64::from(count)).min(u64::from(MOST)) - value;
            self.lines[line][word] += more << shift;
        }
    }

    /// The count of a page.
    #[expect(clippy::cast_possible_truncation, reason = "four bits")]
    pub fn count(&self, key: u64) -> u8 {
        let hash = mixed(key);
        let Some(line) = self.line(hash) else { return 0 };
        let counts = (0..HASHES).map(|nth| {
            let (word, shift) = counter(hash, nth);
            (self.lines[line][word] >> shift) as u8 & MOST
        });
        counts.min().unwrap_or(0)
    }

    /// Halves all counts.
    pub fn halve(&mut self) {
        self.lines.iter_mut().flatten().for_each(|word| *word = *word >> 1 & HALVED);
    }

    fn line(&self, hash: u64) -> Option<usize> {
        let last = self.lines.len().checked_sub(1)?;
        Some((hash >> 32) as usize & last)
    }
}

/// The word and the shift of a page's nth counter. Two counters of a page may be the same one.
#[expect(clippy::cast_possible_truncation, reason = "a place in a cache line")]
fn counter(hash: u64, nth: u32) -> (usize, u32) {
    let at = (hash >> (7 * nth)) % PER_LINE;
    ((at / 16) as usize, (at % 16 * 4) as u32)
}

/// A mixed key (the finisher of splitmix64).
fn mixed(key: u64) -> u64 {
    let x = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counts_saturate_and_are_halved() {
        let mut sketch = Sketch::of_pages(100);
        sketch.add(7, 5);
        assert_eq!(sketch.count(7), 5);
        sketch.halve();
        assert_eq!(sketch.count(7), 2);
        sketch.add(7, 1_000);
        assert_eq!(sketch.count(7), MOST);
    }

    /// Ten bytes a page, rounded up to a power of two.
    #[test]
    fn its_size_depends_on_the_pages_that_it_is_made_for() {
        assert_eq!(Sketch::of_pages(100_000).bytes(), 1 << 20);
        assert_eq!(Sketch::of_pages(1).bytes(), 64);
    }

    proptest! {
        #[test]
        fn a_count_is_never_too_low(hits in prop::collection::vec((0u64..50, 1u32..4), 0..200)) {
            let (mut sketch, mut counts) = (Sketch::of_pages(50), [0u32; 50]);
            for (page, count) in hits {
                sketch.add(page, count);
                counts[usize::try_from(page).unwrap()] += count;
            }
            for (page, count) in (0u64..).zip(counts) {
                prop_assert!(u32::from(sketch.count(page)) >= count.min(u32::from(MOST)));
            }
        }
    }
}
