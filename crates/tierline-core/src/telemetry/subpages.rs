// SPDX-License-Identifier: Apache-2.0
//! How samples are spread within huge pages, and which huge pages should therefore be split.
//!
//! A sample of a huge page also adds 512 to the count of the base page that it hit, as if all pages were base
//! pages. A histogram of these counts is fitted to the fastest tier like that of the pages themselves, and
//! gives the samples that base pages would have served from there: the estimated hit ratio. If after a cooling
//! it is clearly above the real one, huge pages are split, the most skewed first; their number follows from the
//! gap, the huge pages in use and the two latencies. The skewness of a huge page is the sum of the squares of
//! its base pages' counts, over the square of the number of hot ones.
//!
//! Source: MEMTIS (SOSP 2023) and its public kernel, with its integer arithmetic and order. There a scan cools
//! all huge pages soon after a cooling; here only those visited since are counted. The kernel loses the rest of
//! a target at the next cooling, and then accepts any huge page for it; here the target is kept.

#[cfg(test)]
mod tests;

use super::histogram::{Bins, SAMPLE, StoredCount, bin};
use crate::knobs;
use crate::page::PageIdx;
use crate::unit::{BASE_PER_HUGE, Bytes, Nanos};

knobs! {
    /// The knobs of splitting.
    pub struct SubpagesKnobs {
        /// Whether huge pages are split at all.
        split: bool = true, false, true;
        /// Tenths of the base pages for the gap that are split (gamma).
        split_tenths: u32 = 4, 0, 10;
        /// Latency of slow memory: the kernel uses 170 ns for CXL and remote DRAM, 270 ns for Optane.
        split_slow_latency: Nanos = Nanos(170), Nanos(80), Nanos(1_000);
    }
}

/// Latency of the fastest tier (`DRAM_ACCESS_LATENCY`), ns.
const FAST_NS: u64 = 80;
/// Base pages of a huge page.
const PARTS: usize = SAMPLE as usize;
/// Number of skewness classes.
const SKEWS: u8 = 21;
/// Share of the estimated hits that counts, in hundredths.
const BELIEVED: u64 = 95;
/// The real hit ratio must rise to this many hundredths for splitting to continue.
const IMPROVED: u64 = 103;
/// Huge pages in this bin or above are too hot to split.
const VERY_HOT: u8 = 13;
/// A decision needs more samples than a quarter of the pages in use (`split_period`, a shift).
const EVIDENCE_SHIFT: u32 = 2;

/// Counts of a huge page's base pages, in 512ths of a sample.
pub type Parts = Box<[u32; PARTS]>;

/// The state of huge pages' base pages.
#[derive(Debug)]
pub struct Subpages {
    /// The knobs.
    pub knobs: SubpagesKnobs,
    parts: Slots,
    /// All pages as base pages, by bin.
    estimated: Bins,
    /// The lowest bin of base pages that would be in the fastest tier.
    hot: u8,
    /// Huge pages visited since the last cooling, by skewness.
    skewed: [u64; SKEWS as usize],
    /// Those of them with a hot base page, and the samples of these base pages.
    used: u64,
    used_samples: u64,
    /// Samples since the last cooling: of the fastest tier, and of base pages that would be in it.
    real: u64,
    best: u64,
    /// The same from before, halved with each cooling.
    real_before: u64,
    best_before: u64,
    coolings: u32,
    /// Samples since targets were last set.
    evidence: u64,
    wanted: bool,
    /// Whether pages were split since the last decision.
    has_split: bool,
    /// Splitting did not help and has stopped.
    over: bool,
    targets: Targets,
}

/// The huge pages to be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Targets {
    /// This skewness and above.
    skew: u8,
    /// Base pages still to be split of these, and of the class below.
    pages: u64,
    below: u64,
}

const NO_TARGETS: Targets = Targets { skew: SKEWS, pages: 0, below: 0 };

impl Subpages {
    /// An empty state.
    pub fn new(knobs: SubpagesKnobs) -> Self {
        Self {
            knobs,
            parts: Slots::default(),
            estimated: Bins::default(),
            hot: 1,
            skewed: [0; SKEWS as usize],
            used: 0,
            used_samples: 0,
            real: 0,
            best: 0,
            real_before: 0,
            best_before: 0,
            coolings: 0,
            evidence: 0,
            wanted: false,
            has_split: false,
            over: false,
            targets: NO_TARGETS,
        }
    }

    /// Adds a new page of `base_pages` base pages.
    pub fn new_page(&mut self, page: PageIdx, born: StoredCount, base_pages: u64) {
        self.parts.take(page);
        self.estimated.put(born, base_pages);
    }

    /// Adds samples of a base page with the state `known`.
    pub fn base_hit(&mut self, known: Option<StoredCount>, samples: u32) {
        let before = known.unwrap_or_default();
        self.hit(before, known.is_some(), samples);
    }

    /// Adds samples of a huge page that hit base page `within`, by address.
    pub fn huge_hit(
        &mut self,
        page: PageIdx,
        known: Option<StoredCount>,
        within: u16,
        samples: u32,
    ) {
        if known.is_none() {
            self.parts.take(page); // drops the counts of an earlier page with this index
            self.estimated.put(StoredCount::default(), BASE_PER_HUGE);
        }
        let known = known.unwrap_or_default();
        debug_assert_eq!(known.lag, 0, "cooled before it is counted");
        let parts = self.parts.get(page).get_or_insert_with(|| Box::new([known.count; PARTS]));
        let part = &mut parts[usize::from(within)];
        let before = StoredCount { count: *part, ..known };
        *part = part.saturating_add(samples.saturating_mul(SAMPLE));
        self.hit(before, true, samples);
    }

    fn hit(&mut self, before: StoredCount, listed: bool, samples: u32) {
        if listed {
            self.estimated.take(before, 1);
        }
        let cooled = before.cooled();
        let after = cooled.saturating_add(samples.saturating_mul(SAMPLE));
        self.estimated.put(StoredCount { count: after, lag: 0, ..before }, 1);
        if bin(cooled) >= self.hot {
            self.best += u64::from(samples);
        }
    }

    /// Counts samples, and whether the fastest tier served them.
    pub fn sampled(&mut self, fast: bool, samples: u32) {
        self.evidence += u64::from(samples);
        self.real += if fast { u64::from(samples) } else { 0 };
    }

    /// Cools a huge page at its first visit after a cooling; `hot` is the lowest hot bin. Returns its skewness.
    pub fn cool(&mut self, page: PageIdx, known: StoredCount, hot: u8) -> u8 {
        let hot = hot.min(self.hot);
        let mut spread = Spread::default();
        match self.parts.get(page) {
            Some(parts) => {
                for count in parts.iter_mut().filter(|count| **count > 0) {
                    spread.add(*count, 1, hot);
                    *count = self
                        .estimated
                        .apply_cooling(StoredCount { count: *count, ..known }, 1)
                        .count;
                }
                spread.add(0, BASE_PER_HUGE - spread.pages, hot);
            }
            None => {
                spread.add(known.count, BASE_PER_HUGE, hot);
                self.estimated.apply_cooling(known, BASE_PER_HUGE);
            }
        }
        let skew = spread.skewness(bin(known.cooled()));
        self.skewed[usize::from(skew)] += 1;
        if spread.hot > 0 {
            self.used += 1;
            self.used_samples += spread.hot_counts / u64::from(SAMPLE);
        }
        skew
    }

    /// Halves all counts, and decides whether to split, for programs that use `in_use`.
    pub fn on_cooling(&mut self, in_use: Bytes, capacity: Bytes) {
        self.estimated.cool();
        self.hot = self.hot.saturating_sub(1);
        (self.skewed, self.used, self.used_samples) = ([0; SKEWS as usize], 0, 0);
        self.coolings += 1;
        let before = self.real_before;
        self.real_before = before / 2 + std::mem::take(&mut self.real);
        self.best_before = self.best_before / 2 + std::mem::take(&mut self.best);
        if self.wanted || !self.is_on() {
            return;
        }
        let enough = (in_use.base_pages() >> EVIDENCE_SHIFT).max(capacity.base_pages());
        if self.evidence <= enough {
            return;
        }
        if self.has_split && self.real_before < before * IMPROVED / 100 {
            self.over = true;
            return;
        }
        (self.has_split, self.wanted) = (false, true);
    }

    /// Fits the thresholds to the bins that fill `capacity`, at least `least`. Sets targets if the last cooling
    /// decided to split; a cooling comes every `cooling_period` samples.
    pub fn on_adaptation(
        &mut self,
        after_cooling: bool,
        capacity: Bytes,
        least: u8,
        cooling_period: u32,
    ) {
        let (fit, _) = self.estimated.fit(capacity.base_pages(), least);
        if !after_cooling {
            self.hot = fit;
            return;
        }
        self.hot = self.hot.min(fit);
        if std::mem::take(&mut self.wanted) {
            let pages = self.worth_splitting(cooling_period.into());
            self.targets = targets(pages, &self.skewed);
            self.evidence = 0;
        }
    }

    /// Base pages in huge pages that should be split.
    fn worth_splitting(&self, period: u64) -> u64 {
        let gap = (self.best_before * BELIEVED / 100).saturating_sub(self.real_before);
        let Some(mean) = self.used_samples.checked_div(self.used).filter(|&mean| mean > 0) else {
            return 0;
        };
        // All remembered samples after this many halvings.
        let records = (2 * period).saturating_sub(period >> (self.coolings.max(1) - 1).min(63));
        let pages = gap * self.used_samples / records.max(1) / mean;
        let slower = self.knobs.split_slow_latency.0.saturating_sub(FAST_NS);
        pages * slower / FAST_NS * BASE_PER_HUGE * u64::from(self.knobs.split_tenths) / 10
    }

    /// Whether a huge page of that skewness that was just sampled should be split; deducts it from the targets.
    pub fn take_target(&mut self, skew: u8) -> bool {
        let targets = &mut self.targets;
        if !self.knobs.split || self.over || skew + 1 < targets.skew {
            return false;
        }
        let is_below = skew < targets.skew || targets.pages == 0;
        let left = if is_below { &mut targets.below } else { &mut targets.pages };
        if *left == 0 {
            return false;
        }
        *left = left.saturating_sub(BASE_PER_HUGE);
        true
    }

    /// Records the split of a huge page; returns the counts of its base pages, which have the huge page's
    /// clock.
    pub fn split(&mut self, page: PageIdx, known: StoredCount) -> Parts {
        self.has_split = true;
        self.parts.take(page).unwrap_or_else(|| Box::new([known.count; PARTS]))
    }

    /// Whether pages were split since the last decision, so that the thresholds may fall between coolings.
    pub fn has_split(&self) -> bool {
        self.has_split && self.is_on()
    }

    fn is_on(&self) -> bool {
        self.knobs.split && !self.over
    }
}

/// The most skewed classes that make up `pages` base pages, with the rest from the class below.
fn targets(pages: u64, skewed: &[u64; SKEWS as usize]) -> Targets {
    if pages == 0 {
        return NO_TARGETS;
    }
    let mut left = pages;
    for skew in (1..SKEWS).rev() {
        let of_class = skewed[usize::from(skew)] * BASE_PER_HUGE;
        if left < of_class {
            return Targets { skew: skew + 1, pages: pages - left, below: left };
        }
        left -= of_class;
    }
    Targets { skew: 1, pages, below: 0 }
}

/// The spread of counts over the base pages of a huge page.
#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    pages: u64,
    squares: u64,
    hot: u64,
    hot_counts: u64,
}

impl Spread {
    fn add(&mut self, count: u32, pages: u64, hot: u8) {
        let of_all = u64::from(count) * pages;
        self.pages += pages;
        self.squares = self.squares.saturating_add(of_all.saturating_mul(count.into()));
        if bin(count) >= hot {
            self.hot += pages;
            self.hot_counts += of_all;
        }
    }

    /// The class of skewness of a huge page in that bin.
    fn skewness(&self, bin: u8) -> u8 {
        match self.hot {
            0 => 0,
            _ if bin >= VERY_HOT => 0,
            hot => skew_class(self.squares / 11 / hot / hot),
        }
    }
}

/// Bits of the value below 1024, steps of 1024 above, at most 20.
#[expect(clippy::cast_possible_truncation, reason = "at most 20")]
fn skew_class(skewness: u64) -> u8 {
    match skewness {
        0 => 0,
        1..1024 => skewness.ilog2() as u8 + 1,
        _ => (11 + (skewness - 1) / 1024).min(20) as u8,
    }
}

/// Counts by huge page, in chunks allocated when one of their pages is first sampled.
#[derive(Debug, Default)]
struct Slots {
    chunks: Vec<Vec<Option<Parts>>>,
}

const CHUNK: usize = 1 << 12;

impl Slots {
    fn get(&mut self, page: PageIdx) -> &mut Option<Parts> {
        let (chunk, at) = (page.index() / CHUNK, page.index() % CHUNK);
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, Vec::new);
        }
        let chunk = &mut self.chunks[chunk];
        if chunk.is_empty() {
            chunk.resize_with(CHUNK, || None);
        }
        &mut chunk[at]
    }

    fn take(&mut self, page: PageIdx) -> Option<Parts> {
        self.chunks.get_mut(page.index() / CHUNK)?.get_mut(page.index() % CHUNK)?.take()
    }
}
