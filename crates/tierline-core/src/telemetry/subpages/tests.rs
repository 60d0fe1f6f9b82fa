// SPDX-License-Identifier: Apache-2.0

use super::*;
use proptest::prelude::*;

const PAGE: PageIdx = PageIdx::from_index(7);

fn subpages() -> Subpages {
    Subpages::new(SubpagesKnobs::default())
}

fn known(count: u32, lag: u32) -> StoredCount {
    StoredCount { count, lag, skips_cooling: false }
}

#[test]
fn classes_of_skewness_are_bits_and_then_steps() {
    let of = [0, 1, 2, 3, 4, 511, 512, 1023, 1024, 1025, 2048, 2049, 10_000, 1_000_000];
    let classes = [0, 1, 2, 2, 3, 9, 10, 10, 11, 12, 12, 13, 20, 20];
    assert_eq!(of.map(skew_class), classes);
}

/// By hand: four samples of one base page are 2048, and 2048² / 11 / 1² = 381 300, beyond all classes. One
/// sample each of 32 base pages: 32 · 512² / 11 / 32² = 744, ten bits. Two of 512 each: 512 · 1024² / 11 /
/// 512² = 186, eight bits. All are of bin 1 or above.
#[test]
fn few_hot_base_pages_are_skewed_and_many_are_not() {
    for (samples, hot, class) in [(4, 1, 20), (1, 32, 10), (2, 512, 8)] {
        let mut subpages = subpages();
        for within in 0..hot {
            subpages.huge_hit(PAGE, (within > 0).then(|| known(0, 0)), within, samples);
        }
        assert_eq!(subpages.cool(PAGE, known(1, 1), 1), class, "{samples} of {hot}");
        assert_eq!(
            (subpages.used, subpages.used_samples),
            (1, u64::from(hot) * u64::from(samples))
        );
        assert_eq!(subpages.skewed[usize::from(class)], 1);
    }
    let mut very_hot = subpages();
    very_hot.huge_hit(PAGE, None, 0, 4);
    assert_eq!(very_hot.cool(PAGE, known(1 << 14, 1), 1), 0, "bin 13 after cooling");
    assert_eq!(subpages().cool(PAGE, known(4, 1), 1), 0, "new, so uniform: 4² · 512 / 11 / 512²");
}

/// By hand, after the second cooling: 2 M + 2 M / 2 = 3 M samples remembered; of 1.9 M · 0.95 = 1 805 000
/// estimated 905 000 hit: a gap of 900 000. 6 000 huge pages with 1.2 M samples, 200 each: 900 000 · 1.2 M
/// / 3 M / 200 = 1 800 huge pages; times 90 / 80, rounded at the end, 2 025; times 512 · 4 / 10, 414 720.
#[test]
fn the_gap_says_how_many_pages_are_worth_splitting() {
    let mut subpages = Subpages {
        coolings: 2,
        best_before: 1_900_000,
        real_before: 905_000,
        used: 6_000,
        used_samples: 1_200_000,
        ..subpages()
    };
    assert_eq!(subpages.worth_splitting(2_000_000), 414_720);
    subpages.knobs.split_slow_latency = Nanos(270); // times 190 / 80: 4 275
    assert_eq!(subpages.worth_splitting(2_000_000), 875_520);
    subpages.real_before = 1_805_000;
    assert_eq!(subpages.worth_splitting(2_000_000), 0, "no gap");
}

/// By hand: 3 huge pages of class 20 and 10 of class 12 for 5 000 base pages: 1 536, and 3 464 of 5 120.
#[test]
fn the_most_skewed_are_split_first() {
    let mut skewed = [0; SKEWS as usize];
    (skewed[20], skewed[12]) = (3, 10);
    let targets = targets(5_000, &skewed);
    assert_eq!(targets, Targets { skew: 13, pages: 1_536, below: 3_464 });
    let mut subpages = Subpages { targets, ..subpages() };
    assert!(!subpages.take_target(11));
    assert!((0..3).all(|_| subpages.take_target(20)));
    let of_class_12 = (0..10).filter(|_| subpages.take_target(12)).count();
    assert_eq!(of_class_12, 7, "6 · 512 = 3 072, and one for the rest");
    assert!(!subpages.take_target(20), "both are used up");
    assert_eq!(super::targets(0, &skewed), NO_TARGETS);
    assert_eq!(super::targets(1 << 20, &skewed), Targets { skew: 1, pages: 1 << 20, below: 0 });
}

/// A decision needs more samples than the tier has pages, and is the last one if the hit ratio did not rise.
#[test]
fn splitting_stops_for_good_if_it_did_not_help() {
    let (in_use, capacity) = (Bytes::from_mib(8), Bytes::from_mib(4));
    let mut subpages = subpages();
    subpages.sampled(true, 1_024);
    subpages.on_cooling(in_use, capacity);
    assert!(!subpages.wanted, "1024 of 1024");
    subpages.sampled(true, 1);
    subpages.on_cooling(in_use, capacity);
    assert!(subpages.wanted);
    subpages.on_adaptation(true, capacity, 1, 1_024);
    assert!(!subpages.wanted && subpages.evidence == 0);
    subpages.sampled(true, 1_025);
    subpages.on_cooling(in_use, capacity);
    subpages.split(PAGE, known(3, 0));
    subpages.on_adaptation(true, capacity, 1, 1_024);
    assert!(subpages.has_split());
    subpages.sampled(false, 2_000); // of 1 281 of the fastest tier 640 are remembered, and none was added
    subpages.on_cooling(in_use, capacity);
    assert!(subpages.over && !subpages.has_split());
    subpages.targets = Targets { skew: 1, pages: 512, below: 0 };
    assert!(!subpages.take_target(20));
}

proptest! {
    /// Whatever is added, sampled and cooled: every base page is in one bin of the estimate.
    #[test]
    fn the_estimate_holds_all_pages(
        steps in prop::collection::vec((0usize..6, 0u16..512, 0u8..20, 1u32..300), 1..300),
    ) {
        let mut subpages = subpages();
        let mut pages: [Option<(u32, u32)>; 6] = [None; 6]; // by page: coolings at the last visit, count
        let mut coolings = 0;
        for (page, within, what, samples) in steps {
            let idx = PageIdx::from_index(page);
            if what == 0 {
                subpages.on_cooling(Bytes::ZERO, Bytes::ZERO);
                coolings += 1;
                continue;
            }
            let known = pages[page].map(|(met, count)| known(count, coolings - met));
            if known.is_none() && what == 1 {
                let born = StoredCount { count: 1 << (1 + within % 12), lag: 0, skips_cooling: false };
                subpages.new_page(idx, born, BASE_PER_HUGE);
                pages[page] = Some((coolings, born.count));
                continue;
            }
            let known = known.map(|known| {
                if known.lag > 0 {
                    subpages.cool(idx, known, 1);
                }
                StoredCount { count: known.cooled(), lag: 0, ..known }
            });
            subpages.huge_hit(idx, known, within, samples);
            let count = known.map_or(0, |known| known.count) + samples;
            pages[page] = Some((coolings, count));
            let held: u64 = subpages.estimated.total();
            prop_assert_eq!(held, 512 * pages.iter().flatten().count() as u64);
        }
    }
}
