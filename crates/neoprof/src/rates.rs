// SPDX-License-Identifier: Apache-2.0
//! Rates: how fast the pages are accessed that a unit names, and how it is to be asked where nobody says.
//!
//! A page is named when it was counted θ + 1 times since a clearing. In that count is what the pages got that share
//! its counters: on average, all accesses over the counters of a lane (as in Count-Mean-Min: F. Deng and D. Rafiei, New
//! Estimation Algorithms for Streaming Data, 2007). The rest is its own, and over the time since the clearing its rate.
//!
//! θ is what one counter in 64 exceeded at the end of the interval before. So few pages are named for what others got,
//! however many accesses there are; of more hot pages than that, the hottest first, and when they have been promoted the
//! next. The threshold is NeoMem's quantile (algorithm 1) at its upper bound (table V, 1.56 %); the rest is ours.

use crate::histogram::{Histogram, bin_start};

/// Time between two clearings, ns. Longer, and pages that became hot meanwhile seem slower than they are; shorter, and
/// counts are fewer.
pub const INTERVAL_NS: u64 = 2_000_000_000;
/// The least θ, and the first: a page whose lines were read once, one after the other, is not hot for that.
pub const LEAST: u32 = 64;
/// One counter in so many is above θ.
const ABOVE: u64 = 64;

/// The next θ, by the counters at the end of an interval.
pub fn threshold(histogram: &Histogram) -> u32 {
    let bin = histogram.bin_of_rank(histogram.total() / ABOVE);
    bin_start(bin + 1).max(LEAST)
}

/// When a unit's names were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Time since the clearing, ns.
    pub ns: u64,
    /// Accesses to all pages that were counted by then.
    pub accesses: u32,
}

/// Accesses in all of an interval, at its rate, of a page that a unit of that width had counted so often at some time
/// between two readings. `None` where it may be nothing but what others got.
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

    /// Three pages for every counter, all alike, and a few that get ten times as much.
    #[test]
    fn few_pages_are_named_for_what_others_got() {
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
        // Both counters of a page are above what one in 64 is one time in 4096.
        assert!(named.len() - found <= pages as usize / 512, "{} others", named.len() - found);
    }

    #[test]
    fn a_page_s_own_accesses_are_what_it_got() {
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
