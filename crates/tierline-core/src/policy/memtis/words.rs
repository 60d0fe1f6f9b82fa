// SPDX-License-Identifier: Apache-2.0
//! The word of a page under MEMTIS, and its lists.

use crate::port::PageSize;
use crate::telemetry::histogram;

/// Lists of a tier: cold and hot, for huge pages and for base pages.
pub(super) const COLD: u8 = 0;
pub(super) const HOT: u8 = 1;
const OF_BASE: u8 = 2;
pub(super) const LISTS: u8 = 4;
/// The page sizes, in order of processing.
pub(super) const SIZES: [PageSize; 2] = [PageSize::Huge, PageSize::Base];

/// Bits above the histogram's in a page's word: the skewness of a huge page, whether the page is huge, and
/// whether it is queued for splitting.
pub(super) const SKEW_SHIFT: u32 = histogram::OWN_BITS;
pub(super) const SKEW: u64 = 0b1_1111 << SKEW_SHIFT;
const HUGE: u64 = 1 << (SKEW_SHIFT + 5);
pub(super) const TO_SPLIT: u64 = HUGE << 1;

/// The list of pages of a size.
pub(super) fn list(heat: u8, size: PageSize) -> u8 {
    match size {
        PageSize::Huge => heat,
        PageSize::Base => heat + OF_BASE,
    }
}

/// The word of a page of known size.
pub(super) fn sized(word: u64, size: PageSize) -> u64 {
    match size {
        PageSize::Huge => word | HUGE,
        PageSize::Base => word,
    }
}

/// The size of the page that a word belongs to.
pub(super) fn size_of(word: u64) -> PageSize {
    if word & HUGE != 0 { PageSize::Huge } else { PageSize::Base }
}

/// The skewness of a huge page at its last cooling.
pub(super) fn skew(word: u64) -> u8 {
    ((word & SKEW) >> SKEW_SHIFT) as u8
}
