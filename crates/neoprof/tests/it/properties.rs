// SPDX-License-Identifier: Apache-2.0
//! Properties that hold for any traffic, compared with exact counts.

use std::collections::{BTreeMap, BTreeSet};

use neoprof::{Config, Histogram, NeoProf, registers as reg};
use proptest::prelude::*;

fn small() -> impl Strategy<Value = Config> {
    (6u32..10, 1usize..=4, 4u32..=16, 2u32..8).prop_map(
        |(width_log2, depth, counter_bits, fifo_log2)| Config {
            width_log2,
            depth,
            counter_bits,
            fifo_log2,
            ..Config::default()
        },
    )
}

/// Random traffic of (page, is a write): a few pages often, others rarely, anywhere in 32 bits.
fn traffic(len: usize) -> impl Strategy<Value = Vec<(u32, bool)>> {
    let page = prop_oneof![3 => 0u32..20, 2 => 0u32..2000, 1 => 0..u32::MAX];
    prop::collection::vec((page, any::<bool>()), 0..len)
}

fn truth(traffic: &[(u32, bool)]) -> BTreeMap<u32, u32> {
    let mut counts = BTreeMap::new();
    traffic.iter().for_each(|&(page, _)| *counts.entry(page).or_insert(0) += 1);
    counts
}

proptest! {
    #[test]
    fn estimates_never_fall_below_the_truth_or_above_saturation(config in small(), traffic in traffic(3000)) {
        let mut neoprof = NeoProf::new(config);
        traffic.iter().for_each(|&(page, write)| neoprof.access(page, write));
        let max = u32::from(config.counter_max());
        for (page, count) in truth(&traffic) {
            let estimate = u32::from(neoprof.estimate(page));
            prop_assert!(estimate >= count.min(max) && estimate <= max, "{page}: {estimate} for a true count of {count}");
        }
        prop_assert_eq!(neoprof.counted_accesses() as usize, traffic.len());
    }

    /// The counters of a lane add up to all accesses, as long as none is saturated.
    #[test]
    fn every_access_is_counted_once_per_lane(mut config in small(), traffic in traffic(2000)) {
        config.counter_bits = 16;
        let mut neoprof = NeoProf::new(config);
        traffic.iter().for_each(|&(page, write)| neoprof.access(page, write));
        for lane in 0..config.depth {
            prop_assert_eq!(neoprof.lane(lane).iter().map(|&c| usize::from(c)).sum::<usize>(), traffic.len());
        }
        prop_assert_eq!(neoprof.histogram(), Histogram::of(neoprof.lane(0)));
        prop_assert_eq!(neoprof.histogram().total(), config.width() as u64);
    }

    /// If the list has room, each page is reported once: at the access whose estimate first exceeds the
    /// threshold, unless reported pages already set all its hot bits.
    #[test]
    fn a_hot_page_is_reported_exactly_once_until_the_reset(
        mut config in small(), traffic in traffic(1500), theta in 0u32..12,
    ) {
        config.fifo_log2 = 12;
        let mut neoprof = NeoProf::new(config);
        neoprof.set_threshold(theta);
        for period in 0..2 {
            let mut reported = BTreeSet::new();
            for (i, &(page, write)) in traffic.iter().enumerate() {
                neoprof.access(page, write);
                let hot = u32::from(neoprof.estimate(page)) > theta;
                match neoprof.pop_hot() {
                    Some(popped) => {
                        prop_assert!(hot && popped == page, "access {i} of period {period}");
                        prop_assert!(reported.insert(page), "{page} reported twice");
                    }
                    None => prop_assert!(
                        !hot || reported.contains(&page) || covered(&config, &reported, page),
                        "{page} is hot and was not reported"
                    ),
                }
            }
            neoprof.reset();
            prop_assert!(neoprof.lane(0).iter().all(|&c| c == 0) && neoprof.hot_len() == 0);
        }
    }

    /// A page that finds the list full is reported at a later access.
    #[test]
    fn a_withheld_page_is_reported_later(pages in prop::collection::btree_set(0u32..1 << 20, 5..40)) {
        let mut neoprof = NeoProf::new(Config { fifo_log2: 2, ..Config::default() });
        neoprof.set_threshold(0);
        let mut found = BTreeSet::new();
        for _ in 0..pages.len() {
            pages.iter().for_each(|&page| neoprof.access(page, false));
            prop_assert!(neoprof.hot_len() <= 4);
            found.extend(std::iter::from_fn(|| neoprof.pop_hot()));
        }
        prop_assert_eq!(found, pages);
        prop_assert!(neoprof.withheld() > 0);
    }

    /// A batch equals its single accesses, in every mode; every readable register agrees.
    #[test]
    fn a_batch_equals_single_accesses(
        config in small(), reads_only: bool, dedupe: bool, chmu: bool, interval in 1u32..9, theta in 0u32..40,
        batches in prop::collection::vec((0u32..60, any::<bool>(), 0u32..30, 0u64..20), 0..200),
    ) {
        let config = Config { reads_only, dedupe, sample_interval: interval, ring_log2: 3, ..config };
        let mut one = NeoProf::new(config);
        one.set_threshold(theta);
        if chmu {
            one.write(reg::CHMU_CONF2, 5);
            let both = reg::CHMU_CONF0_ENABLE | reg::CHMU_CONF0_TRACK_BOTH;
            one.write(reg::CHMU_CONF0, both | u64::from(theta) << 32);
        }
        let mut all = one.clone();
        for (i, &(page, write, n, idle)) in batches.iter().enumerate() {
            (0..n).for_each(|_| one.access(page, write));
            (0..idle).for_each(|_| one.idle(1));
            all.accesses(page, write, n);
            all.idle(idle);
            if i % 7 == 0 {
                prop_assert_eq!(one.pop_hot(), all.pop_hot());
            }
        }
        for offset in (0..0x2040).step_by(8) {
            prop_assert_eq!(one.read(offset), all.read(offset), "register {:#x}", offset);
        }
        prop_assert_eq!(one.lane(0), all.lane(0));
    }

    /// Section IV-B: with probability 1 - 2^-D the error of an estimate is at most the bound. The pages tested
    /// were not accessed, so the estimate is the error. Tolerance: five standard deviations of 4000 trials.
    #[test]
    fn the_error_bound_holds_with_its_probability(depth in 1usize..=4, seed: u32, busy in 1u32..6) {
        let mut neoprof = NeoProf::new(Config { width_log2: 10, depth, ..Config::default() });
        let mut page = seed;
        for _ in 0..busy * 1000 {
            page = page.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            neoprof.access(page >> 12, false);
        }
        let bound = neoprof.error_bound();
        let exceed = (0..4000u32).filter(|i| u32::from(neoprof.estimate((1 << 31) + i * 977)) > bound).count();
        let share = 0.5f64.powi(i32::try_from(depth).unwrap());
        let allowed = 4000.0 * share + 5.0 * (4000.0 * share * (1.0 - share)).sqrt();
        prop_assert!((exceed as f64) <= allowed, "{} of 4000 exceed {}", exceed, bound);
    }
}

/// Whether other reported pages have set all hot bits of `page`.
fn covered(config: &Config, reported: &BTreeSet<u32>, page: u32) -> bool {
    let h3 = |lane, page| neoprof::hash::h3(lane, page, config.width_log2);
    (0..config.depth).all(|lane| reported.iter().any(|&other| h3(lane, other) == h3(lane, page)))
}
