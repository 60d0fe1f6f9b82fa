// SPDX-License-Identifier: Apache-2.0
//! A tally: the accesses of each page since the last clearing, in the page's word, with a histogram of them.
//!
//! Does what NeoProf does in the memory device, with the samples of any tracker. Clearing begins a new epoch; a
//! count of an older epoch is zero. Epoch numbers repeat after 64 epochs.
//!
//! Source: NeoMem (MICRO 2024), section VI-A: its baselines replace NeoProf by sampled or scanned accesses. The
//! bins are those of its artifact's histogram; the storage of counts is ours.

use crate::port::DeviceCounts;

/// In a page's word, above the bits of others: the count and its epoch.
const SHIFT: u32 = 36;
const COUNT_BITS: u32 = 14;
const EPOCH_BITS: u32 = 6;
const COUNT_MAX: u32 = (1 << COUNT_BITS) - 1;
const _: () = assert!(SHIFT + COUNT_BITS + EPOCH_BITS == crate::page::WORD_BITS);

const BINS: usize = 64;

/// The counts of all pages.
#[derive(Clone, Debug)]
pub struct Tally {
    epoch: u64,
    bins: [u32; BINS],
}

impl Default for Tally {
    fn default() -> Self {
        // An empty word has epoch 0, which must not be the present one.
        Self { epoch: 1, bins: [0; BINS] }
    }
}

impl Tally {
    /// Clears all counts.
    pub fn clear(&mut self) {
        self.epoch = (self.epoch + 1) % (1 << EPOCH_BITS);
        self.bins = [0; BINS];
    }

    /// Adds accesses to the page with that word; returns its count and its new word.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "accesses of a sample; the cast saturates"
    )]
    pub fn add(&mut self, word: u64, hits: f32) -> (u32, u64) {
        let of = (word >> (SHIFT + COUNT_BITS)) & ((1 << EPOCH_BITS) - 1);
        let before = match of == self.epoch {
            true => (word >> SHIFT) as u32 & COUNT_MAX,
            false => 0,
        };
        let count = before.saturating_add(hits as u32).min(COUNT_MAX);
        if before > 0 {
            let bin = &mut self.bins[bin(before)];
            *bin = bin.saturating_sub(1); // may be zero: the epoch's number repeats
        }
        self.bins[bin(count)] += 1;
        let below = word & ((1 << SHIFT) - 1);
        (count, below | u64::from(count) << SHIFT | self.epoch << (SHIFT + COUNT_BITS))
    }

    /// The histogram of all counts, for `pages` pages.
    pub fn device_counts(&self, pages: u64, utilisation: f64) -> DeviceCounts {
        let bins = (0..BINS).map(|bin| (start(bin), self.bins[bin]));
        let mut histogram: Vec<(u32, u32)> = bins.collect();
        let seen: u64 = histogram.iter().map(|&(_, pages)| u64::from(pages)).sum();
        let never = pages.saturating_sub(seen);
        histogram[0].1 = histogram[0].1.saturating_add(u32::try_from(never).unwrap_or(u32::MAX));
        DeviceCounts { histogram, error_bound: 0, utilisation }
    }
}

/// The bin of a count: eight groups of eight bins, of widths 1, 2, 4 … 128; the last is open.
fn bin(count: u32) -> usize {
    let scaled = count.saturating_add(8);
    let group = scaled.ilog2() - 3;
    ((8 * group + (scaled >> group & 7)) as usize).min(BINS - 1)
}

/// The least count in a bin.
fn start(bin: usize) -> u32 {
    u32::try_from(((8 + bin % 8) << (bin / 8)) - 8).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_count_ends_with_its_epoch_and_leaves_other_bits_alone() {
        let mut tally = Tally::default();
        let others = 0xf_1234_5678;
        let (count, word) = tally.add(others, 3.0);
        assert_eq!((count, word & ((1 << SHIFT) - 1)), (3, others));
        assert_eq!(tally.add(word, 2.0).0, 5);
        tally.clear();
        assert_eq!(tally.add(word, 2.0).0, 2);
    }

    proptest! {
        /// Compares with plain counts.
        #[test]
        fn the_histogram_is_that_of_the_counts(hits in prop::collection::vec((0usize..50, 1u16..900), 0..300)) {
            let (mut tally, mut words, mut counts) = (Tally::default(), vec![0; 50], vec![0; 50]);
            for (page, hits) in hits {
                counts[page] += u32::from(hits);
                let (count, word) = tally.add(words[page], hits.into());
                prop_assert_eq!(count, counts[page].min(COUNT_MAX));
                words[page] = word;
            }
            let histogram = tally.device_counts(50, 0.0).histogram;
            for (at, &(least, pages)) in histogram.iter().enumerate() {
                let above = histogram.get(at + 1).map_or(u32::MAX, |next| next.0);
                let there = counts.iter().filter(|&&count| (least..above).contains(&count)).count();
                prop_assert_eq!(pages as usize, there, "from {}", least);
            }
        }
    }
}
