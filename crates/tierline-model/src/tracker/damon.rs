// SPDX-License-Identifier: Apache-2.0
//! DAMON: regions of memory, each sampled at one random page at a time.
//!
//! At every sampling interval one page of each region is checked; hits are summed over an aggregation interval.
//! Then neighbouring regions with similar counts are merged, and regions are split at random, so that their
//! borders adapt. The cost is bounded by the number of regions. Intervals and limits are the kernel's defaults
//! (5 ms, 100 ms, 10 to 1000 regions) unless a policy requests others. Regions merge if their hits differ by
//! less than a tenth of the maximum. A region ages while its hits change by no more than that from one
//! aggregation to the next.

use std::collections::BTreeMap;

use tierline_core::port::{Observations, ObservedRegion};
use tierline_core::rng::Rng;
use tierline_core::unit::Nanos;

use super::entry::TrackerEntry;
use super::{Quantum, Tracker};
use crate::arithmetic::exp;
use crate::machine::Costs;
use crate::world::job::Job;

/// Entry in the list of trackers.
pub const DAMON: TrackerEntry =
    TrackerEntry { name: "damon", open: |knobs| Box::new(Damon::new(knobs.regions)) };

const SAMPLING: Nanos = Nanos::from_millis(5);
const AGGREGATION: Nanos = Nanos::from_millis(100);
const MIN_REGIONS: usize = 10;
/// Aggregations remembered, as on Linux.
const REMEMBERED: u64 = 10;

/// The monitor.
#[derive(Clone, Debug)]
pub struct Damon {
    sampling: Nanos,
    /// Samples per aggregation.
    samples: u32,
    min_regions: usize,
    max_regions: usize,
    due: Nanos,
    regions: BTreeMap<u32, Vec<Region>>,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    end: u32,
    hits: u32,
    /// Hits of the previous aggregation.
    last: u32,
    /// Number of aggregations with about the same hits.
    age: u32,
}

impl Damon {
    /// A monitor with at most `max_regions` regions per program.
    pub fn new(max_regions: usize) -> Self {
        Self::of(SAMPLING, AGGREGATION, [MIN_REGIONS, max_regions])
    }

    /// A monitor with these intervals, and minimum and maximum number of regions per program.
    pub fn of(sampling: Nanos, aggregation: Nanos, [least, most]: [usize; 2]) -> Self {
        let sampling = sampling.max(Nanos(1));
        let samples = u32::try_from(aggregation.0 / sampling.0).unwrap_or(u32::MAX).max(1);
        let (min_regions, max_regions) = (least.max(1), most.max(least).max(1));
        let due = sampling * u64::from(samples);
        Self { sampling, samples, min_regions, max_regions, due, regions: BTreeMap::new() }
    }
}

impl Tracker for Damon {
    fn name(&self) -> &'static str {
        DAMON.name
    }

    fn watch(
        &mut self,
        quantum: Quantum,
        jobs: &mut [Job],
        costs: &Costs,
        rng: &mut Rng,
        out: &mut Observations,
    ) -> f64 {
        let aggregation = self.sampling * u64::from(self.samples);
        if quantum.end() < self.due {
            return 0.0;
        }
        self.due = quantum.end() + aggregation;
        self.regions.retain(|space, _| jobs.iter().any(|job| job.space.0 == *space));
        out.observed_regions.clear();
        let mut cpu_ns = 0.0;
        for job in jobs.iter().filter(|job| job.program.managed) {
            let regions = self.regions.entry(job.space.0).or_default();
            cover(regions, job.live(), self.min_regions);
            sample(regions, job, self.sampling, self.samples, rng);
            grow_older(regions, self.samples / 10);
            report(regions, job, self.samples, aggregation, out);
            #[expect(clippy::cast_precision_loss, reason = "at most a few thousand regions")]
            let looks = (regions.len() * self.samples as usize) as f64;
            cpu_ns += looks * costs.scan_ns;
            merge(regions, self.samples / 10, self.min_regions);
            if regions.len() * 2 <= self.max_regions {
                split(regions, rng);
            }
        }
        out.watched += aggregation;
        out.window = Some(self.sampling);
        out.aggregation = Some(aggregation);
        out.remembered_time = Some(aggregation * REMEMBERED);
        cpu_ns
    }
}

/// Adjusts the last region to the present size of memory.
fn cover(regions: &mut Vec<Region>, live: u32, min_regions: usize) {
    if regions.is_empty() {
        let least = u32::try_from(min_regions).unwrap_or(1).min(live).max(1);
        let end = |at: u32| u32::try_from(u64::from(live) * u64::from(at) / u64::from(least));
        let new = |at| Region { end: end(at).unwrap_or(live), hits: 0, last: 0, age: 0 };
        regions.extend((1..=least).map(new));
    }
    if let Some(last) = regions.last_mut() {
        last.end = live;
    }
}

fn sample(regions: &mut [Region], job: &Job, sampling: Nanos, samples: u32, rng: &mut Rng) {
    let sampling_ns = sampling.as_secs_f64() * 1e9;
    let touched: Vec<f64> = (0..job.pattern.bands().len())
        .map(|band| 1.0 - exp(-job.reads_per_ns * job.pattern.density(band) * sampling_ns))
        .collect();
    let mut start = 0;
    for region in regions {
        region.last = std::mem::take(&mut region.hits);
        for _ in 0..samples {
            let within = rng.below(u64::from((region.end - start).max(1)));
            let page = start + u32::try_from(within).unwrap_or(0);
            region.hits += u32::from(rng.unit() < touched[job.pattern.band(page)]);
        }
        start = region.end;
    }
}

/// Restarts the age of regions whose hits have changed.
fn grow_older(regions: &mut [Region], same: u32) {
    for region in regions {
        let stays = region.hits.abs_diff(region.last) <= same;
        region.age = if stays { region.age.saturating_add(1) } else { 0 };
    }
}

/// Reports all regions, including those without hits.
fn report(regions: &[Region], job: &Job, samples: u32, aggregation: Nanos, out: &mut Observations) {
    let mut start = 0;
    for region in regions {
        out.observed_regions.push(ObservedRegion {
            space: job.space,
            vpn: job.vpn(start),
            base_pages: u64::from(region.end - start) * job.unit(),
            frequency: f64::from(region.hits) / f64::from(samples),
            age: aggregation * u64::from(region.age),
        });
        start = region.end;
    }
}

fn merge(regions: &mut Vec<Region>, same: u32, min_regions: usize) {
    let mut merged: Vec<Region> = Vec::with_capacity(regions.len());
    let total = regions.len();
    for (at, region) in regions.iter().enumerate() {
        let others = merged.len() + (total - at);
        match merged.last_mut() {
            Some(last) if last.hits.abs_diff(region.hits) <= same && others > min_regions => {
                last.hits = u32::midpoint(last.hits, region.hits);
                last.age = u32::midpoint(last.age, region.age);
                last.end = region.end;
            }
            _ => merged.push(*region),
        }
    }
    *regions = merged;
}

fn split(regions: &mut Vec<Region>, rng: &mut Rng) {
    let mut start = 0;
    let mut parts = Vec::with_capacity(regions.len() * 2);
    for region in regions.iter() {
        let pages = region.end - start;
        if pages >= 2 {
            let at = start + 1 + u32::try_from(rng.below(u64::from(pages - 1))).unwrap_or(0);
            parts.push(Region { end: at, ..*region });
        }
        parts.push(*region);
        start = region.end;
    }
    *regions = parts;
}
