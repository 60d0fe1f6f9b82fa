// SPDX-License-Identifier: Apache-2.0
//! Counts with cooling: a page's recent samples; all counts are halved whenever one exceeds a threshold.
//!
//! A page is hot once its loads reach one threshold or its stores another. Cooling itself only advances a
//! clock; a page's counts are shifted right by the clock's advance when the page is next visited. A spectrum
//! holds how many pages have which count and is halved at once, so that the sum of all counts is always exact,
//! and a page's share of all accesses is its count over that sum.
//!
//! Source: HeMem (SOSP 2021) and its public code, Colloid section 4.1 for the shares. The code tests for heat
//! before it applies a pending cooling, so the first sample after a cooling is judged by the old counts;
//! `decay_first` corrects that.

use super::Hit;
use crate::knobs;
use crate::page::page_word;
use crate::tier::TierId;

page_word! {
    /// Counts of a page, and the clock of their last cooling.
    CountWord
}

knobs! {
    /// The knobs of the counts.
    pub struct CountsKnobs {
        /// Sampled loads that make a page hot.
        hot_reads: u32 = 8, 1, 64;
        /// Sampled stores that make a page hot.
        hot_writes: u32 = 4, 1, 64;
        /// A count above this halves all counts.
        cool_above: u32 = 18, 4, 200;
        /// Whether a page is cooled before it is judged; the published code cools it after.
        decay_first: bool = false, false, true;
    }
}

/// Kinds of access counted separately: loads from the fastest tier, loads from others, stores.
const KINDS: usize = 3;
const STORES: usize = 2;
const CLOCK_BITS: u32 = 24;

/// The clock and the spectrum; the counts themselves are in the pages' words.
#[derive(Clone, Debug)]
pub struct Counts {
    /// The thresholds.
    pub knobs: CountsKnobs,
    clock: u32,
    /// How many pages have each count; the two kinds of loads are entered separately.
    spectrum: Box<[u64; 256]>,
    loads: u64,
}

/// The content of a word: counts, and the clock of their last cooling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PageCounts {
    of: [u8; KINDS],
    clock: u32,
}

impl PageCounts {
    fn of_word(word: u64) -> Self {
        let [a, b, c, low, middle, high, ..] = word.to_le_bytes();
        Self { of: [a, b, c], clock: u32::from_le_bytes([low, middle, high, 0]) }
    }

    fn word(self) -> u64 {
        let ([a, b, c], [low, middle, high, _]) = (self.of, self.clock.to_le_bytes());
        u64::from_le_bytes([a, b, c, low, middle, high, 0, 0])
    }

    fn loads(self) -> u32 {
        u32::from(self.of[0]) + u32::from(self.of[1])
    }
}

impl Counts {
    /// Empty counts.
    pub fn new(knobs: CountsKnobs) -> Self {
        Self { knobs, clock: 0, spectrum: Box::new([0; 256]), loads: 0 }
    }

    /// Counts one hit; returns the page's new word, and whether the page is hot.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rounded and cut to a byte on purpose"
    )]
    pub fn count(&mut self, word: u64, hit: &Hit) -> (u64, bool) {
        let kind = match (hit.write, hit.tier) {
            (Some(true), _) => STORES,
            (_, Some(TierId::FAST) | None) => 0,
            _ => 1,
        };
        let stored = PageCounts::of_word(word);
        let before = self.cooled(stored);
        let mut page = if self.knobs.decay_first { before } else { stored };
        page.of[kind] = page.of[kind].saturating_add((hit.hits + 0.5).clamp(1.0, 255.0) as u8);
        let hot = self.judge(page);
        let page = self.cooled(page);
        for loads in 0..STORES {
            self.replace(before.of[loads], page.of[loads]);
        }
        if u32::from(page.of[kind]) > self.knobs.cool_above {
            self.cool();
        }
        (page.word(), hot)
    }

    /// Number of coolings.
    pub fn clock(&self) -> u32 {
        self.clock
    }

    /// Loads counted of a page, cooled.
    pub fn loads(&self, word: u64) -> u32 {
        self.cooled(PageCounts::of_word(word)).loads()
    }

    /// Loads counted of all pages, cooled.
    pub fn all_loads(&self) -> u64 {
        self.loads
    }

    /// A page's share of all loads.
    #[expect(clippy::cast_precision_loss, reason = "sums of counts are far below 2^52")]
    pub fn share(&self, word: u64) -> f64 {
        f64::from(self.loads(word)) / (self.loads.max(1)) as f64
    }

    /// Whether the page is hot by its stored counts, before pending coolings.
    pub fn was_hot(&self, word: u64) -> bool {
        self.judge(PageCounts::of_word(word))
    }

    /// Whether the page is hot by its cooled counts.
    pub fn is_hot(&self, word: u64) -> bool {
        self.judge(self.cooled(PageCounts::of_word(word)))
    }

    fn judge(&self, page: PageCounts) -> bool {
        page.loads() >= self.knobs.hot_reads || u32::from(page.of[STORES]) >= self.knobs.hot_writes
    }

    fn cooled(&self, page: PageCounts) -> PageCounts {
        let lag = self.clock.wrapping_sub(page.clock) & ((1 << CLOCK_BITS) - 1);
        // Shifting a byte by 8 or more gives zero.
        let cool = |count: u8| count.checked_shr(lag).unwrap_or(0);
        PageCounts { of: page.of.map(cool), clock: self.clock & ((1 << CLOCK_BITS) - 1) }
    }

    fn replace(&mut self, before: u8, after: u8) {
        // The count of an unmapped page remains and fades with the next coolings.
        let left = &mut self.spectrum[usize::from(before)];
        *left = left.saturating_sub(1);
        self.spectrum[usize::from(after)] += u64::from(after > 0);
        self.loads = (self.loads + u64::from(after)).saturating_sub(u64::from(before));
    }

    fn cool(&mut self) {
        self.clock = self.clock.wrapping_add(1);
        let before = std::mem::replace(&mut self.spectrum, Box::new([0; 256]));
        for (count, &pages) in before.iter().enumerate().skip(2) {
            self.spectrum[count / 2] += pages;
        }
        self.loads = (0u64..).zip(self.spectrum.iter()).map(|(count, pages)| count * pages).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PageIdx;
    use proptest::prelude::*;

    fn hit(tier: u8, write: bool) -> Hit {
        let page = PageIdx::from_index(0);
        Hit {
            page,
            tier: Some(TierId(tier)),
            hits: 1.0,
            exposure: None,
            write: Some(write),
            base_page: None,
        }
    }

    #[test]
    fn eight_loads_or_four_stores_are_hot() {
        let mut counts = Counts::new(CountsKnobs::default());
        let mut word = 0;
        let heat: Vec<bool> = (0..8u8)
            .map(|i| {
                let (next, hot) = counts.count(word, &hit(i % 2, false));
                word = next;
                hot
            })
            .collect();
        assert_eq!(heat, [false, false, false, false, false, false, false, true]);
        let mut word = 0;
        for i in 1..=4 {
            let (next, hot) = counts.count(word, &hit(0, true));
            word = next;
            assert_eq!(hot, i == 4);
        }
    }

    /// The count of one kind must exceed 18: loads of two tiers do not add up for cooling.
    #[test]
    fn nineteen_samples_of_one_kind_halve_everything() {
        let mut counts = Counts::new(CountsKnobs::default());
        let (mut a, mut b) = (0, 0);
        for i in 0..36 {
            a = counts.count(a, &hit(i % 2, false)).0;
        }
        b = counts.count(b, &hit(0, false)).0;
        assert_eq!((counts.clock(), counts.all_loads()), (0, 37));
        a = counts.count(a, &hit(0, false)).0;
        assert_eq!(counts.clock(), 1);
        assert_eq!((counts.loads(a), counts.loads(b)), (9 + 9, 0));
        assert_eq!(counts.all_loads(), 18);
    }

    /// The published order: a page that cooled to zero is still hot at its next sample.
    #[test]
    fn heat_is_judged_before_cooling_unless_decay_first() {
        for decay_first in [false, true] {
            let mut counts = Counts::new(CountsKnobs { decay_first, ..CountsKnobs::default() });
            let (mut page, mut other) = (0, 0);
            for _ in 0..8 {
                page = counts.count(page, &hit(0, false)).0;
            }
            for _ in 0..64 {
                other = counts.count(other, &hit(0, false)).0;
            }
            assert!(counts.clock() >= 4 && counts.loads(page) == 0);
            let (page, hot) = counts.count(page, &hit(0, false));
            assert_eq!(hot, !decay_first);
            assert_eq!(counts.loads(page), u32::from(decay_first), "(8 + 1) >> 4 = 0");
        }
    }

    #[test]
    fn a_page_without_recent_samples_has_no_counts() {
        let mut counts = Counts::new(CountsKnobs::default());
        let word = counts.count(0, &hit(0, false)).0;
        for _ in 0..100 {
            counts.cool();
        }
        assert_eq!(counts.loads(word), 0);
    }

    proptest! {
        /// Compares the spectrum's sum with the pages themselves.
        #[test]
        fn the_sum_is_exact(
            hits in prop::collection::vec((0usize..20, 0u8..3, any::<bool>()), 1..800),
        ) {
            let mut counts = Counts::new(CountsKnobs::default());
            let mut words = [0u64; 20];
            for (page, tier, skew) in hits {
                let page = if skew { 0 } else { page };
                words[page] = counts.count(words[page], &hit(tier, tier == 2)).0;
                let sum: u64 = words.iter().map(|&word| u64::from(counts.loads(word))).sum();
                prop_assert_eq!(counts.all_loads(), sum);
                prop_assert!(words.iter().all(|word| word >> crate::page::WORD_BITS == 0));
            }
        }
    }
}
