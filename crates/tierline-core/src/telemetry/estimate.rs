// SPDX-License-Identifier: Apache-2.0
//! A page's access rate from its hits in watched time, with bounds.
//!
//! The bounds are Wilson's score interval (E. B. Wilson, 1927), which holds for few scans and for many, and in the limit
//! for a Poisson count: `(k + z²/2 ± z·√(k(1 - k/n) + z²/4)) / (n + z²)`. Their use for pages is ours.

use super::hotness::PRIOR_SCANS;
use super::population::Population;

/// Standard deviations from the estimate to its upper bound: one page in ten is above it.
const AT_MOST: f32 = 1.28;
/// Accesses per window beyond which [`minus_ln_of_rest`] cannot measure: its value at one.
pub(super) const MOST_ACCESSES: f32 = 2.5;

/// An estimate of a page's access rate, with bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Hits in the evidence, decayed.
    pub hits: f32,
    /// Watched time of these hits.
    pub(super) seconds: f32,
    /// Scans in that time, including the prior one; zero where every access counts.
    pub(super) looks: f32,
    /// The highest measurable rate, in accesses per second.
    pub(super) ceiling_per_sec: f32,
    /// Standard deviations from the estimate to the lower bound.
    pub(super) at_least: f32,
    /// What is known of all such pages.
    pub(super) population: Option<Population>,
}

impl Estimate {
    /// The scans that the evidence covers; `None` where every access counts.
    pub fn scans(&self) -> Option<f32> {
        (self.looks > 0.0).then_some(self.looks - PRIOR_SCANS)
    }

    /// Whether one hit is enough, by what is known of all such pages.
    pub fn one_hit_tells(&self) -> bool {
        self.population.is_some_and(Population::one_hit_tells)
    }

    /// The most likely rate, in accesses per second.
    pub fn rate_per_sec(&self) -> f32 {
        self.rate(self.hits)
    }

    /// The expected rate in accesses per second, given the mean rate of such pages (see [`expected_rate`]): of
    /// the pages that look hottest after few hits, most look so by chance.
    pub fn expected_per_sec(&self, mean: f32) -> f32 {
        expected_rate(mean, self.hits, self.seconds)
    }

    /// The lower bound of the rate, in accesses per second: by the page's own hits, or by those and what is known of all such
    /// pages, if that tells more.
    pub fn at_least_per_sec(&self) -> f32 {
        let by_itself = self.score(-self.at_least);
        let among_all = self
            .population
            .map_or(0.0, |all| all.at_least(self.hits, self.looks - PRIOR_SCANS) * self.looks);
        self.rate(by_itself.max(among_all.min(self.hits)))
    }

    /// The upper bound of the rate, in accesses per second; not zero for a page that was never hit.
    pub fn at_most_per_sec(&self) -> f32 {
        self.rate(self.score(AT_MOST))
    }

    /// The upper bound in accesses per second, given the mean rate of such pages: after a short time, a page without a hit
    /// is as cold as most are. If rates are distributed as for [`expected_rate`], one page in ten is above it (the normal
    /// approximation of a Gamma distribution; ours).
    pub fn at_most_among(&self, mean: f32) -> f32 {
        let bound = self.expected_per_sec(mean) * (1.0 + AT_MOST / (self.hits + 1.0).sqrt());
        bound.min(self.at_most_per_sec())
    }

    /// The rate whose expected number of hits is `hits`.
    fn rate(&self, hits: f32) -> f32 {
        if self.looks > 0.0 {
            minus_ln_of_rest(hits / self.looks) * self.ceiling_per_sec
        } else {
            hits / self.seconds
        }
    }

    /// Wilson's score bound at `z` standard deviations, in hits.
    fn score(&self, z: f32) -> f32 {
        let per_look = if self.looks > 0.0 { 1.0 / self.looks } else { 0.0 };
        let unseen = (1.0 - self.hits * per_look).max(0.0);
        let (half, square) = (z * z / 2.0, z * z);
        let spread = z * (self.hits * unseen + half / 2.0).sqrt();
        ((self.hits + half + spread) / (1.0 + square * per_look)).max(0.0)
    }
}

/// The expected rate of a page with these hits in this time, among pages with the mean rate `mean`, if rates
/// are distributed exponentially (a Gamma distribution as conjugate prior).
pub fn expected_rate(mean: f32, hits: f32, seconds: f32) -> f32 {
    (hits + 1.0) / (1.0 / mean + seconds)
}

/// `-ln(1 - p)` for `0 <= p <= 1`, within 1 % up to a half and 8 % up to 0.8; finite above, where a few scans
/// are weak evidence: a Padé approximant.
pub(super) fn minus_ln_of_rest(p: f32) -> f32 {
    p * (6.0 - p) / (6.0 - 4.0 * p)
}

/// Its inverse: the share of scans that see a page with this many accesses per window.
pub(super) fn share_seen(accesses: f32) -> f32 {
    let accesses = accesses.min(MOST_ACCESSES);
    let half = 3.0 + 2.0 * accesses;
    6.0 * accesses / (half + (half * half - 6.0 * accesses).sqrt())
}
