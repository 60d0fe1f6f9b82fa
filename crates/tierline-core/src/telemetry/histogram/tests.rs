// SPDX-License-Identifier: Apache-2.0

use super::*;
use proptest::prelude::*;

#[test]
fn bins_are_powers_of_two() {
    for (count, expected) in [
        (0, 0),
        (1, 1),
        (2, 1),
        (3, 2),
        (6, 2),
        (7, 3),
        (511, 9),
        (512, 9),
        (1023, 10),
        (32766, 14),
        (32767, 15),
        (1_000_000, 15),
    ] {
        assert_eq!(bin(count), expected, "of {count}");
    }
}

fn filled(bins: &[(u8, u64)]) -> Histogram {
    let mut histogram = Histogram::new(HistogramKnobs::default());
    bins.iter().for_each(|&(bin, pages)| histogram.bins.pages[usize::from(bin)] = pages);
    histogram
}

#[test]
fn the_hot_bins_fill_the_tier() {
    let capacity = Bytes::from_base_pages(1_000);
    let mut histogram = filled(&[(12, 300), (10, 600), (7, 200), (2, 9_000)]);
    histogram.adapt(capacity);
    assert_eq!((histogram.hot, histogram.warm), (8, 8), "900 of 1000: no room for warm pages");
    let mut histogram = filled(&[(12, 300), (7, 800)]);
    histogram.adapt(capacity);
    assert_eq!((histogram.hot, histogram.warm), (8, 7));
    let mut histogram = filled(&[(15, 2_000)]);
    histogram.adapt(capacity);
    assert_eq!(histogram.hot, 15, "the top bin is the limit");
    let mut histogram = filled(&[(3, 10)]);
    histogram.adapt(capacity);
    assert_eq!((histogram.hot, histogram.warm), (1, 0));
}

#[test]
fn the_threshold_rises_at_once_and_falls_by_one_after_a_cooling() {
    let capacity = Bytes::from_base_pages(1_000);
    let mut histogram = filled(&[(9, 2_000)]);
    histogram.adapt(capacity);
    assert_eq!(histogram.hot, 10);
    histogram.bins = Bins::default();
    histogram.adapt(capacity);
    assert_eq!(histogram.hot, 10, "no fall without a cooling");
    histogram.cool();
    histogram.adapt(capacity);
    histogram.adapt(capacity);
    assert_eq!(histogram.hot, 9, "a fall by one");
}

/// One base page with n samples is as dense as a huge page with 512 n.
#[test]
fn base_and_huge_pages_compare_by_density() {
    let mut histogram = Histogram::new(HistogramKnobs::default());
    let capacity = Bytes::from_mib(1);
    let (mut base, mut huge) = (pack(0, 0), pack(0, 0));
    base = histogram.count(base, 1, PageSize::Base, capacity).0;
    for _ in 0..512 {
        huge = histogram.count(huge, 1, PageSize::Huge, capacity).0;
    }
    assert_eq!(histogram.bin_of(base), histogram.bin_of(huge));
}

#[test]
fn a_new_page_is_hot_and_skipped_by_one_cooling() {
    let mut histogram = Histogram::new(HistogramKnobs::default());
    let word = histogram.new_page(PageSize::Base);
    assert_eq!(histogram.bin_of(word), 2);
    histogram.cool();
    assert_eq!(histogram.bin_of(word), 2);
    histogram.cool();
    assert_eq!(histogram.bin_of(word), 1);
}

proptest! {
    /// Every sampled page is in one bin, whatever the coolings in between.
    #[test]
    fn the_bins_hold_all_pages(
        steps in prop::collection::vec((0usize..30, any::<bool>()), 1..2_000),
        period in 50u32..500,
    ) {
        let knobs = HistogramKnobs { cooling_period: period, adaptation_period: 40, ..HistogramKnobs::default() };
        let mut histogram = Histogram::new(knobs);
        let mut words = [0u64; 30];
        for (page, skew) in steps {
            let page = if skew { page % 3 } else { page };
            let size = if page % 2 == 0 { PageSize::Base } else { PageSize::Huge };
            words[page] = histogram.count(words[page], 1, size, Bytes::from_mib(4)).0;
            let seen = |even| words.iter().enumerate().filter(|(i, w)| {
                histogram.has_count(**w) && (i % 2 == 0) == even
            }).count() as u64;
            let held = histogram.bins.total();
            prop_assert_eq!(held, seen(true) + 512 * seen(false));
            prop_assert!((1..BINS).contains(&histogram.hot) && histogram.warm <= histogram.hot);
        }
    }
}
