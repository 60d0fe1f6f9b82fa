// SPDX-License-Identifier: Apache-2.0
//! A report of hits on slow tiers, and whether it shows a rise. The constants are ours.

use crate::port::SampledHits;

/// A rise of the slow tiers' hit rate by this factor is a change, not noise.
pub(super) const RISE: f64 = 2.5;
/// A rise must be this many standard deviations: one count in 700 is higher by chance.
const DEVIATIONS: f64 = 3.0;
/// For a suspicion a smaller rise suffices if a sample shows it with this many: one sample in forty does so by chance, which
/// costs one full report, but a missed change costs slow accesses until the next samples.
const SAMPLED_RISE: f64 = 1.5;
const SAMPLED_DEVIATIONS: f64 = 2.0;

/// One report of hits on slow tiers. A hit of a page that was watched for a shorter window than others weighs
/// more.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SlowHits {
    /// Hits per second of watched time on all pages there.
    pub per_sec: f64,
    /// The hits themselves, on slow tiers and on the fastest.
    pub counts: [f64; 2],
    /// The variance of those on slow tiers: their number, if all weigh one.
    pub slow_variance: f64,
    /// Projected from a sample of pages, or from a device's count.
    pub projected: bool,
    /// The hits of that sample.
    pub sampled: Option<SampledHits>,
    /// See [`crate::port::Observations::found_again`].
    pub found_again: Option<[u64; 2]>,
}

impl SlowHits {
    /// Whether the rate is above the usual one, and not by chance, where counts vary `dispersion` times as much as
    /// Poisson's.
    pub(super) fn exceeds(&self, usual: f64, dispersion: f64) -> bool {
        // At least one: a single hit is no evidence.
        let is_more = |hits: f64, deviations: f64, dispersion: f64| {
            let mean = (hits * usual / self.per_sec.max(f64::MIN_POSITIVE)).max(1.0);
            hits > mean + deviations * (dispersion * mean).sqrt()
        };
        if let Some(SampledHits { hits, .. }) = self.sampled {
            return self.per_sec > SAMPLED_RISE * usual
                && is_more(hits, SAMPLED_DEVIATIONS, dispersion);
        }
        // The few pages of a program that wakes up for a moment are no change. A device counts no pages.
        let pages = self.counts[0].powi(2) / self.slow_variance;
        self.per_sec > RISE * usual && (self.counts[0] <= 0.0 || is_more(pages, DEVIATIONS, 1.0))
    }
}
