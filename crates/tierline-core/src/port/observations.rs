// SPDX-License-Identifier: Apache-2.0
//! What a world reports: mappings, locations of pages, accesses.

use serde::Serialize;

use super::address::{PageSize, Region, SpaceId, TenantId, Vpn};
use crate::tier::TierId;
use crate::unit::{BASE_PER_HUGE, Nanos};

/// A change of the managed memory, in the order of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpaceEvent {
    /// A region is mapped. Parts already mapped as the same kind stay as they are; `size` is that of the rest,
    /// unless [`SpaceEvent::Sized`] has reported another.
    Mapped(Region),
    /// The pages in a run of whole huge pages have this size, whether mapped now or later. May be reported
    /// repeatedly.
    Sized(SpaceId, Vpn, u64, PageSize),
    /// A run of base pages was unmapped.
    Unmapped(SpaceId, Vpn, u64),
    /// The whole address space is gone (exit or exec).
    Gone(SpaceId),
    /// The address space belongs to this tenant from now on; reported before its first mapping, and when its
    /// owner changes.
    Owned(SpaceId, TenantId),
    /// Whether the space represents others: what is reported of a base page of it that other managed spaces share, at the same
    /// address, counts the accesses of all of them, and nothing is reported of that page in the others.
    Represents(SpaceId, bool),
}

/// The tier of a run of pages. Separate from samples, as it says nothing about heat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residence {
    /// Their address space.
    pub space: SpaceId,
    /// The first page of the run.
    pub vpn: Vpn,
    /// Length of the run in base pages.
    pub base_pages: u32,
    /// Their tier.
    pub tier: TierId,
}

/// One observed access, or several to one page in one report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Its address space.
    pub space: SpaceId,
    /// The page, or the first of a run that shares the evidence.
    pub vpn: Vpn,
    /// Base pages in the run; 1 for a page-exact tracker.
    pub base_pages: u32,
    /// Accesses observed.
    pub hits: f32,
    /// For how long this page was watched before it was hit, if the tracker knows that for the single page (a
    /// hint fault: its time to fault; a second look of a scanner: that window).
    /// `None`: since the page's last hit, on the tracker's watch clock ([`Observations::watched`]).
    pub exposure: Option<Nanos>,
    /// The tier the page was in, if the tracker knows it.
    pub tier: Option<TierId>,
    /// Whether it was a store, where known.
    pub write: Option<bool>,
}

/// A region that is observed as a unit, by one random page at a time, as DAMON does. All regions together cover
/// the managed memory, including memory without accesses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObservedRegion {
    /// Its address space.
    pub space: SpaceId,
    /// Its first page.
    pub vpn: Vpn,
    /// Its length in base pages.
    pub base_pages: u64,
    /// Share of samplings of the region that found an access, 0 to 1.
    pub frequency: f64,
    /// For how long its frequency has been about the same.
    pub age: Nanos,
}

/// A question: was this page accessed in the last `within`?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its address space.
    pub space: SpaceId,
    /// The page.
    pub vpn: Vpn,
    /// The time that the answer covers.
    pub within: Nanos,
}

/// A page's true access rate, known only to a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrueRate {
    /// Its address space.
    pub space: SpaceId,
    /// The page, or the first of a run of equal rates.
    pub vpn: Vpn,
    /// Base pages in the run.
    pub base_pages: u32,
    /// Accesses per second of each page of the run.
    pub rate_per_sec: f32,
}

/// The base pages of a huge page, one bit each, by address.
pub type PartBits = [u64; (BASE_PER_HUGE / 64) as usize];

/// How the accesses of a huge page that was just split are spread over its base pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Its address space.
    pub space: SpaceId,
    /// The first of its base pages.
    pub vpn: Vpn,
    /// Those accessed in each of several windows, two at least.
    pub accessed: Vec<PartBits>,
    /// The length of one window.
    pub window: Nanos,
}

/// What a world observed since the last call. Reused between ticks; the world appends.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    /// Changes of mappings; applied before anything else here.
    pub space_events: Vec<SpaceEvent>,
    /// The tiers of pages.
    pub residence: Vec<Residence>,
    /// Accesses.
    pub samples: Vec<Sample>,
    /// True rates; they replace the estimates.
    pub true_rates: Vec<TrueRate>,
    /// All regions, if the tracker observes regions and an aggregation interval has ended: the result of the
    /// last interval, which stands for the whole watched time since the last call.
    pub observed_regions: Vec<ObservedRegion>,
    /// The watched time: the sum of the windows in which a hit would have been seen. A scanner watches between
    /// arming and reading. A sampler that takes one access in P sees as much as watching all accesses for 1/P
    /// of the time, and reports that time.
    pub watched: Nanos,
    /// Hits per second of watched time on all pages below the fastest tier, if the tracker projects it from a
    /// sample of pages; otherwise the engine counts.
    pub slow_hits_per_sec: Option<f64>,
    /// The hits from which that is projected. `None`: it is a count of all accesses.
    pub slow_hits_sampled: Option<SampledHits>,
    /// The length of one scan window, if a scan sees a page at most once per window: rates above one access per
    /// window cannot be distinguished. `None`: every access counts.
    pub window: Option<Nanos>,
    /// Pages that the last scan found accessed and are still in memory, and of them those that this one found, too, if
    /// both windows were about as long.
    pub found_again: Option<[u64; 2]>,
    /// The base pages of slower memory that this scan found, on the same condition.
    pub slow_found: Option<SlowFound>,
    /// The window of huge pages in the same scan, if they have one of their own. `None`: the same window.
    pub huge_window: Option<Nanos>,
    /// The total length of the windows in one report, if the tracker reports several together: for a page that
    /// is hit, all this time is known. `None`: each window is reported by itself.
    pub aggregation: Option<Nanos>,
    /// How much watched time to remember, as the tracker knows the quality of its evidence. `None`: as before.
    pub remembered_time: Option<Nanos>,
    /// A page is reported at most once in this time, however hot it is: that it is not reported again within this time is
    /// no evidence. `None`: as before; at first, every hit is reported.
    pub report_interval: Option<Nanos>,
    /// The tracker sees no access to the fastest tier: no hits there is no evidence.
    pub fast_untracked: bool,
    /// The huge pages that were split since the last call, where the world looked into them.
    pub spreads: Vec<Spread>,
    /// The world looks into huge pages that it splits.
    pub looks_into_splits: bool,
    /// Samples known to be lost (a full ring buffer).
    pub lost: u64,
}

/// Base pages below the fastest tier that a scan found accessed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowFound {
    /// Their number.
    pub accessed: u64,
    /// Of them, those that the last scan found, too.
    pub again: u64,
    /// Base pages in memory, in whichever tier.
    pub base_pages: u64,
}

/// Hits of a sample of places, each of several neighbouring pages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SampledHits {
    /// Their number.
    pub hits: f64,
    /// Its variance, from the differences between places: neighbours are accessed together more often than by chance.
    pub variance: f64,
}

impl SampledHits {
    /// The sum over places with these hits.
    pub fn over(places: &[u32]) -> Self {
        let hits: f64 = places.iter().map(|&hits| f64::from(hits)).sum();
        let count = f64::from(u32::try_from(places.len()).unwrap_or(u32::MAX)).max(2.0);
        let deviations = places.iter().map(|&one| (f64::from(one) - hits / count).powi(2));
        Self { hits, variance: deviations.sum::<f64>() * count / (count - 1.0) }
    }
}

impl std::ops::AddAssign for SampledHits {
    fn add_assign(&mut self, other: Self) {
        self.hits += other.hits;
        self.variance += other.variance;
    }
}

impl Observations {
    /// Clears everything and keeps the allocations.
    pub fn clear(&mut self) {
        self.space_events.clear();
        self.residence.clear();
        self.samples.clear();
        self.true_rates.clear();
        self.observed_regions.clear();
        self.watched = Nanos::ZERO;
        self.slow_hits_per_sec = None;
        self.slow_hits_sampled = None;
        self.window = None;
        self.found_again = None;
        self.slow_found = None;
        self.huge_window = None;
        self.aggregation = None;
        self.remembered_time = None;
        self.report_interval = None;
        self.fast_untracked = false;
        self.spreads.clear();
        self.looks_into_splits = false;
        self.lost = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: four places of mean 2; the squared deviations 4, 4, 0 and 0 are times 4/3. Equal places have none.
    #[test]
    fn the_variance_of_sampled_hits_is_that_between_places() {
        let spread = SampledHits::over(&[0, 4, 2, 2]);
        assert_eq!((spread.hits, spread.variance), (8.0, 8.0 * 4.0 / 3.0));
        let mut sum = SampledHits::over(&[3, 3]);
        sum += spread;
        assert_eq!((sum.hits, sum.variance), (14.0, 8.0 * 4.0 / 3.0));
        assert_eq!(SampledHits::over(&[]), SampledHits::default());
    }
}
