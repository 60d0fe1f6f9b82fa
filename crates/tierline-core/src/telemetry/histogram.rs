// SPDX-License-Identifier: Apache-2.0
//! A histogram of counts in powers of two, and the threshold from which the hottest bins fill the fastest tier.
//!
//! A sample adds 512 to a base page's count and 1 to a huge page's, so that both measure the density of
//! accesses; bin(n) = min(15, ⌊log2(n + 1)⌋). After a given number of samples the threshold is fitted: the
//! lowest bin from which all bins together are no larger than the tier. Between two coolings it only rises;
//! after one it falls by at most one. The bin just below is warm, and its pages stay in place, while a quarter
//! of the tier is left over. Cooling halves all counts, after a given number of samples or of allocated bytes.
//!
//! Source: MEMTIS (SOSP 2023) and its public kernel. The kernel empties the histogram at a cooling and refills
//! it while a scan cools the pages; here every bin moves down by one at once, and pages are cooled when next
//! visited, as if that scan took no time.

#[cfg(test)]
mod tests;

use crate::knobs;
use crate::page::page_word;
use crate::port::PageSize;
use crate::unit::{BASE_PER_HUGE, Bytes};

page_word! {
    /// The count of a page, and the clock of its last cooling.
    BinWord
}

knobs! {
    /// The knobs of the histogram.
    pub struct HistogramKnobs {
        /// Samples between two fits of the threshold.
        adaptation_period: u32 = 100_000, 1_000, 10_000_000;
        /// Samples between two coolings.
        cooling_period: u32 = 2_000_000, 10_000, 100_000_000;
        /// Growth of the programs' memory that also triggers a cooling.
        cooling_alloc: Bytes = Bytes::from_mib(10 << 10), Bytes::from_mib(64), Bytes::from_mib(1 << 20);
        /// The lowest threshold.
        thres_hot: u32 = 1, 1, 8;
        /// Share of the tier below which the hot bins leave room for warm pages.
        warm_below: f64 = 0.75, 0.0, 1.0;
    }
}

/// What a sample adds to the count of a base page.
pub const SAMPLE: u32 = 512;
const _: () =
    assert!(SAMPLE as u64 == BASE_PER_HUGE, "so that counts measure the density of samples");

/// Number of bins.
pub const BINS: u8 = 16;
const CLOCK_SHIFT: u32 = 32;
const SEEN: u64 = 1 << 48;
/// The bits of a page's word used here; the others are left unchanged.
pub const OWN_BITS: u32 = 49;
const OWN: u64 = (1 << OWN_BITS) - 1;

/// The bin of a count.
#[expect(clippy::cast_possible_truncation, reason = "a logarithm of 32 bits")]
pub fn bin(count: u32) -> u8 {
    ((u64::from(count) + 1).ilog2() as u8).min(BINS - 1)
}

/// The content of a page's word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredCount {
    /// Its count, in 512ths of a sample of a base page.
    pub count: u32,
    /// Coolings since the count was stored.
    pub lag: u32,
    /// It is so new that the next cooling skips it.
    pub skips_cooling: bool,
}

impl StoredCount {
    /// Its present count.
    pub fn cooled(self) -> u32 {
        self.count.checked_shr(self.lag).unwrap_or(0)
    }

    /// Its present bin: each cooling moved it down by one.
    pub fn bin(self) -> u8 {
        bin(self.count).saturating_sub(u8::try_from(self.lag).unwrap_or(u8::MAX))
    }
}

/// Base pages by bin. A cooling moves all pages down by a bin at once; the words of single pages follow later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bins {
    pages: [u64; BINS as usize],
    /// Pages that the next cooling skips.
    spared: [u64; BINS as usize],
}

impl Bins {
    fn of(&mut self, known: StoredCount) -> &mut u64 {
        let bins = if known.skips_cooling { &mut self.spared } else { &mut self.pages };
        &mut bins[usize::from(known.bin())]
    }

    /// Adds base pages to their bin.
    pub fn put(&mut self, known: StoredCount, base_pages: u64) {
        *self.of(known) += base_pages;
    }

    /// Removes base pages from their bin.
    pub fn take(&mut self, known: StoredCount, base_pages: u64) {
        let pages = self.of(known);
        // The count of an unmapped page remains and sinks to the lowest bin.
        *pages = pages.saturating_sub(base_pages);
    }

    /// Moves base pages to the bin of their halved count, and returns their new state. Coolings have moved them
    /// already, except in the top bin, which has no upper end, and for counts that fell to 1, whose bin is that
    /// of 2.
    pub fn apply_cooling(&mut self, known: StoredCount, base_pages: u64) -> StoredCount {
        let settled = StoredCount { count: known.cooled(), lag: 0, ..known };
        if settled.bin() != known.bin() {
            self.take(known, base_pages);
            self.put(settled, base_pages);
        }
        settled
    }

    /// Halves all counts.
    pub fn cool(&mut self) {
        self.pages[1] += self.pages[0];
        self.pages.rotate_left(1);
        self.pages[usize::from(BINS - 1)] = 0;
        for (pages, spared) in self.pages.iter_mut().zip(&mut self.spared) {
            *pages += std::mem::take(spared);
        }
    }

    /// All base pages in the bins.
    #[cfg(test)]
    pub fn total(&self) -> u64 {
        self.pages.iter().chain(&self.spared).sum()
    }

    /// The lowest bin, at least `least`, from which all bins together fit, and the pages in them.
    pub fn fit(&self, capacity: u64, least: u8) -> (u8, u64) {
        let mut filled = 0;
        for bin in (0..BINS).rev() {
            let pages = self.pages[usize::from(bin)] + self.spared[usize::from(bin)];
            if filled + pages > capacity {
                return ((bin + 1).clamp(least, BINS - 1), filled);
            }
            filled += pages;
        }
        (least, filled)
    }
}

/// What a counted sample triggered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountEvent {
    /// Nothing.
    None,
    /// All counts were halved.
    Cooled,
    /// The thresholds were fitted.
    Adapted {
        /// For the first time since a cooling.
        after_cooling: bool,
    },
}

/// The histogram and the thresholds read from it; the counts themselves are in the pages' words.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// The knobs.
    pub knobs: HistogramKnobs,
    /// The threshold may fall without a cooling, as pages were split.
    pub may_fall: bool,
    bins: Bins,
    clock: u16,
    hot: u8,
    warm: u8,
    cooled: bool,
    samples: u64,
    /// Samples, halved with each cooling.
    remembered: f64,
    allocated: Bytes,
    changes: u64,
}

impl Histogram {
    /// An empty histogram: every sampled page is hot.
    pub fn new(knobs: HistogramKnobs) -> Self {
        let (hot, warm) = (1, 1);
        Self {
            knobs,
            may_fall: false,
            bins: Bins::default(),
            clock: 0,
            hot,
            warm,
            cooled: false,
            samples: 0,
            remembered: 0.0,
            allocated: Bytes::ZERO,
            changes: 0,
        }
    }

    /// Counts `samples` of a page of `size`; the hot bins should fill `capacity`.
    pub fn count(
        &mut self,
        word: u64,
        samples: u32,
        size: PageSize,
        capacity: Bytes,
    ) -> (u64, CountEvent) {
        let weight = match size {
            PageSize::Base => SAMPLE,
            PageSize::Huge => 1,
        };
        if word & SEEN != 0 {
            self.leave(word, size);
        }
        let count = self.cooled_count(word).saturating_add(samples.saturating_mul(weight));
        let spared = word & SEEN != 0 && self.skips_cooling(word);
        let word = word & !OWN | pack(count, if spared { clock(word) } else { self.clock });
        self.join(word, size);
        self.samples += u64::from(samples);
        self.remembered += f64::from(samples);
        let mut turn = CountEvent::None;
        if self.passed(self.knobs.cooling_period, samples) {
            self.cool();
            turn = CountEvent::Cooled;
        } else if self.passed(self.knobs.adaptation_period, samples) {
            turn = CountEvent::Adapted { after_cooling: self.cooled };
            self.adapt(capacity);
        }
        (word, turn)
    }

    /// The word of a page at its first visit after a cooling, with its count halved.
    pub fn apply_cooling(&mut self, word: u64, size: PageSize) -> u64 {
        self.leave(word, size);
        let settled = word & !OWN | pack(self.cooled_count(word), self.clock);
        self.join(settled, size);
        settled
    }

    /// Removes a page that was split.
    pub fn split(&mut self, word: u64) {
        self.leave(word, PageSize::Huge);
    }

    /// The word of a base page of a split huge page; its count has the huge page's clock.
    pub fn part(&mut self, word: u64, count: u32) -> u64 {
        let part = pack(count, clock(word));
        self.join(part, PageSize::Base);
        part
    }

    /// The word of a new page: one bin above the threshold, and skipped by the next cooling.
    pub fn new_page(&mut self, size: PageSize) -> u64 {
        let word = pack(1 << (self.hot + 1), self.clock.wrapping_add(1));
        self.join(word, size);
        word
    }

    /// Cools if the programs' memory has grown enough since it last did so; returns whether it did.
    pub fn cool_if_grown(&mut self, now: Bytes) -> bool {
        let grown = now >= self.allocated + self.knobs.cooling_alloc;
        if grown {
            self.allocated = now;
            self.cool();
        }
        self.allocated = self.allocated.min(now);
        grown
    }

    /// Whether the page should be in the fastest tier.
    pub fn is_hot(&self, word: u64) -> bool {
        self.bin_of(word) >= self.hot
    }

    /// Whether the page may leave the fastest tier.
    pub fn is_cold(&self, word: u64) -> bool {
        self.bin_of(word) < self.warm
    }

    /// Whether the page has a stored count.
    pub fn has_count(&self, word: u64) -> bool {
        word & SEEN != 0
    }

    /// The page's stored state, if any.
    pub fn stored_count(&self, word: u64) -> Option<StoredCount> {
        self.has_count(word).then(|| StoredCount {
            count: count(word),
            lag: self.lag(word),
            skips_cooling: self.skips_cooling(word),
        })
    }

    /// The lowest hot bin.
    pub fn hot(&self) -> u8 {
        self.hot
    }

    /// The lowest permitted threshold.
    #[expect(clippy::cast_possible_truncation, reason = "sixteen bins")]
    pub fn least(&self) -> u8 {
        self.knobs.thres_hot as u8
    }

    /// Releases warm pages: they may leave the fastest tier until the next fit.
    pub fn release_warm(&mut self) {
        self.warm = self.hot;
    }

    /// Number of changes of the thresholds and of coolings.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The page's share of all samples.
    pub fn share(&self, word: u64, size: PageSize) -> f64 {
        self.samples_of(word, size) / self.remembered.max(1.0)
    }

    /// Samples counted of the page, halved with each cooling.
    pub fn samples_of(&self, word: u64, size: PageSize) -> f64 {
        let count = f64::from(self.cooled_count(word));
        match size {
            PageSize::Base => count / 512.0,
            PageSize::Huge => count,
        }
    }

    fn bin_of(&self, word: u64) -> u8 {
        bin(self.cooled_count(word))
    }

    fn cooled_count(&self, word: u64) -> u32 {
        count(word).checked_shr(self.lag(word)).unwrap_or(0)
    }

    /// Coolings since the page's own last one.
    fn lag(&self, word: u64) -> u32 {
        if word & SEEN == 0 || self.skips_cooling(word) {
            return 0;
        }
        self.clock.wrapping_sub(clock(word)).into()
    }

    /// Whether the page is so new that the next cooling skips it.
    fn skips_cooling(&self, word: u64) -> bool {
        clock(word) == self.clock.wrapping_add(1)
    }

    fn leave(&mut self, word: u64, size: PageSize) {
        if let Some(known) = self.stored_count(word) {
            self.bins.take(known, size.base_pages());
        }
    }

    fn join(&mut self, word: u64, size: PageSize) {
        if let Some(known) = self.stored_count(word) {
            self.bins.put(known, size.base_pages());
        }
    }

    /// Whether the last samples completed a period.
    fn passed(&self, period: u32, samples: u32) -> bool {
        let period = u64::from(period.max(1));
        self.samples / period != (self.samples - u64::from(samples)) / period
    }

    fn cool(&mut self) {
        self.clock = self.clock.wrapping_add(1);
        self.bins.cool();
        self.remembered /= 2.0;
        self.cooled = true;
        self.changes += 1;
    }

    /// Fits the thresholds.
    #[expect(clippy::cast_precision_loss, reason = "page counts are far below 2^52")]
    fn adapt(&mut self, capacity: Bytes) {
        let before = (self.hot, self.warm);
        let (fit, filled) = self.bins.fit(capacity.base_pages(), self.least());
        if fit > self.hot || self.may_fall && !self.cooled {
            self.hot = fit;
        } else if self.cooled && fit < self.hot {
            self.hot -= 1;
        }
        self.cooled = false;
        let need_warm = (filled as f64) < self.knobs.warm_below * capacity.base_pages() as f64;
        self.warm = self.hot - u8::from(need_warm);
        self.changes += u64::from((self.hot, self.warm) != before);
    }
}

fn pack(count: u32, clock: u16) -> u64 {
    u64::from(count) | u64::from(clock) << CLOCK_SHIFT | SEEN
}

#[expect(clippy::cast_possible_truncation, reason = "cut out on purpose")]
fn count(word: u64) -> u32 {
    word as u32
}

#[expect(clippy::cast_possible_truncation, reason = "cut out on purpose")]
fn clock(word: u64) -> u16 {
    (word >> CLOCK_SHIFT) as u16
}
