// SPDX-License-Identifier: Apache-2.0
//! Access rates of the reported pages, and the threshold to use when no policy sets one.
//!
//! A page is reported when its count since the last clearing exceeds θ. The count includes accesses to other
//! pages in the same counters: on average, all accesses divided by the counters of a lane (Count-Mean-Min: F.
//! Deng and D. Rafiei, New Estimation Algorithms for Streaming Data, 2007). The rest, divided by the time since
//! the clearing, is the page's own rate.
//!
//! θ is the count that one counter in 64 exceeded in the last interval. So few pages are reported because of
//! collisions, however many accesses there are. If more pages are hot, the hottest are reported first and the
//! others after those were promoted. The threshold is NeoMem's quantile (Algorithm 1) at its upper bound (Table
//! V, 1.56 %); the rest is ours.

use crate::histogram::{Histogram, bin_start};

/// Time between two clearings, ns. If it is longer, the rate of pages that became hot within it is
/// underestimated; if shorter, counts are too small. Ours.
pub const INTERVAL_NS: u64 = 2_000_000_000;
/// Minimum and first θ: reading each line of a page once (64 lines) does not make the page hot.
pub const LEAST: u32 = 64;
/// One counter in this many exceeds θ.
const ABOVE: u64 = 64;

/// The next θ, from the histogram at the end of an interval.
pub fn threshold(histogram: &Histogram) -> u32 {
    let bin = histogram.bin_of_rank(histogram.total() / ABOVE);
    bin_start(bin + 1).max(LEAST)
}

/// When hot pages were read from a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Time since the clearing, ns.
    pub ns: u64,
    /// Accesses to all pages counted by then.
    pub accesses: u32,
}

/// Accesses per interval of one page, from its own rate. The page reached `count` between two readings, in a
/// unit with `width` counters per lane. `None` if collisions alone may explain the count.
#[expect(clippy::cast_precision_loss, reason = "an interval")]
#[expect(clippy::cast_possible_truncation, reason = "hits need no more than an f32")]
pub fn in_interval(count: u32, width: u32, last: Reading, now: Reading) -> Option<f32> {
    let (ns, all) = (last.ns.midpoint(now.ns), last.accesses.midpoint(now.accesses));
    let own = f64::from(count) - f64::from(all) / f64::from(width.max(1));
    (own >= 1.0).then(|| (own * INTERVAL_NS as f64 / ns.max(1) as f64) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, NeoProf};

    const WIDTH_LOG2: u32 = 12;

    fn unit() -> NeoProf {
        NeoProf::new(Config { width_log2: WIDTH_LOG2, ..Config::default() })
    }

    /// Three pages for each counter with equal rates, and a few pages with ten times that rate.
    #[test]
    fn collisions_cause_few_reports() {
        let (pages, hot, each) = (3 << WIDTH_LOG2, 32, 40);
        let mut unit = unit();
        let fill = |unit: &mut NeoProf| {
            (0..pages).for_each(|page| unit.accesses(page, false, each));
            (0..hot).for_each(|page| unit.accesses(page, false, 9 * each));
        };
        fill(&mut unit);
        let theta = threshold(&unit.histogram());
        unit.reset();
        unit.set_threshold(theta);
        fill(&mut unit);
        let named: Vec<u32> = std::iter::from_fn(|| unit.pop_hot()).collect();
        let found = named.iter().filter(|&&page| page < hot).count();
        assert!(found == hot as usize, "{found} of {hot} at θ = {theta}");
        // Both counters of a page are among the highest 1/64 by chance once in 4096 pages.
        assert!(named.len() - found <= pages as usize / 512, "{} others", named.len() - found);
    }

    #[test]
    fn own_accesses_are_estimated_within_five_percent() {
        let (pages, each) = (2 << WIDTH_LOG2, 30);
        let mut unit = unit();
        (0..pages).for_each(|page| unit.accesses(page, false, each));
        unit.accesses(7, false, 2_000);
        let count = u32::from(unit.estimate(7));
        let width = 1 << WIDTH_LOG2;
        let own = |count, accesses, ns| {
            let reading = Reading { ns, accesses };
            in_interval(count, width, reading, reading)
        };
        let found = own(count, unit.counted_accesses(), INTERVAL_NS / 4).expect("own accesses");
        assert!((found / (4.0 * 2_030.0) - 1.0).abs() < 0.05, "{found}, counted {count}");
        assert_eq!(own(60, 60 * width, INTERVAL_NS), None);
    }

    #[test]
    fn nothing_is_hot_without_accesses() {
        assert_eq!(threshold(&unit().histogram()), LEAST);
    }
}
