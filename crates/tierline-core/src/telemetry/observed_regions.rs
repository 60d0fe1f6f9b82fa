// SPDX-License-Identifier: Apache-2.0
//! Heat of regions: if the tracker reports regions, a page's estimate is that of its region.
//!
//! A region's heat has the form of a page's heat ([`super::hotness`]) and is stored once; it is updated when
//! samplings of the region found accesses. Borders change between reports; a region takes over the heat of the
//! earlier region that covered most of it. So the cost of a report grows with regions, not with the memory they
//! cover.
//!
//! Policies act on pages, and each report gives them samples of some pages: of runs of a huge page's length,
//! spread evenly over each region, in proportion to its access frequency, and different runs each time. Ours.

use super::heat::Heat;
use crate::page::PageTable;
use crate::port::{ObservedRegion, PageSize, Sample, SpaceId, Vpn};
use crate::unit::BASE_PER_HUGE;

use super::hotness::Hotness;

/// Pages in the samples of a report, about. Ours: a few milliseconds' work.
const SAMPLED: u64 = 1 << 17;

/// The heat of regions.
#[derive(Debug, Default)]
pub struct RegionHeat {
    /// Sorted, without overlaps.
    known: Vec<StoredRegion>,
    reports: u64,
}

#[derive(Clone, Copy, Debug)]
struct StoredRegion {
    space: SpaceId,
    vpn: Vpn,
    end: Vpn,
    heat: Heat,
}

impl RegionHeat {
    /// Takes in a report of all regions, each sampled `samplings` times. `unseen` is the heat of memory that was
    /// not watched before.
    pub fn update(
        &mut self,
        report: &[ObservedRegion],
        samplings: f64,
        unseen: Heat,
        hotness: &Hotness,
    ) {
        let heat = |observed: &ObservedRegion| {
            let before = self.heat_of_largest_part(observed).unwrap_or(unseen);
            let hits = hits(observed, samplings);
            if hits > 0.0 {
                hotness.hit_update(PageSize::Base).apply(before, hits, None, false)
            } else {
                before
            }
        };
        let known = |observed: &ObservedRegion| StoredRegion {
            space: observed.space,
            vpn: observed.vpn,
            end: end(observed),
            heat: heat(observed),
        };
        let mut stored: Vec<StoredRegion> = report.iter().map(known).collect();
        stored.sort_unstable_by_key(|known| (known.space, known.vpn));
        self.known = stored;
        self.reports += 1;
    }

    /// The heat of the earlier region that covered most of this one.
    fn heat_of_largest_part(&self, observed: &ObservedRegion) -> Option<Heat> {
        let shared = |known: &StoredRegion| {
            known.end.min(end(observed)).0.saturating_sub(known.vpn.max(observed.vpn).0)
        };
        let from = self.at_or_after(observed.space, observed.vpn);
        let overlapping = self.known[from..]
            .iter()
            .take_while(|known| known.space == observed.space && known.vpn < end(observed));
        overlapping.max_by_key(|known| shared(known)).map(|known| known.heat)
    }

    /// The first entry that ends after a page.
    fn at_or_after(&self, space: SpaceId, vpn: Vpn) -> usize {
        self.known.partition_point(|known| (known.space, known.end) <= (space, vpn))
    }

    /// The heat of the region that contains a page; `None` if no region was reported there.
    pub fn heat(&self, space: SpaceId, vpn: Vpn) -> Option<Heat> {
        let known = self.known.get(self.at_or_after(space, vpn))?;
        (known.space == space && known.vpn <= vpn).then_some(known.heat)
    }

    /// True if no tracker reports regions.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Appends samples of the last report's pages. Each stands for the pages up to the next one.
    pub fn sample(
        &self,
        report: &[ObservedRegion],
        samplings: f64,
        pages: &PageTable,
        out: &mut Vec<Sample>,
    ) {
        let page = (pages.base_pages() / (pages.indices() as u64).max(1)).max(1);
        let hits_in =
            |observed: &ObservedRegion| observed.frequency * as_f64(observed.base_pages / page);
        let interval = report.iter().map(hits_in).sum::<f64>() / as_f64(SAMPLED);
        for observed in report.iter().filter(|observed| observed.frequency > 0.0) {
            let every = runs(interval / observed.frequency);
            let step = usize::try_from(every).unwrap_or(usize::MAX);
            #[expect(clippy::cast_precision_loss, reason = "as many pages as one stands for")]
            let hits = hits(observed, samplings) * every as f32;
            let (first, last) = (observed.vpn.0, end(observed).0);
            // The first run after the border that is due in this report.
            let run = first / BASE_PER_HUGE;
            let run = run + (self.reports % every + every - run % every) % every;
            for run in (run..last.div_ceil(BASE_PER_HUGE)).step_by(step) {
                let from = first.max(run * BASE_PER_HUGE);
                let to = last.min((run + 1) * BASE_PER_HUGE);
                out.push(Sample {
                    space: observed.space,
                    vpn: Vpn(from),
                    base_pages: u32::try_from(to - from).unwrap_or(u32::MAX),
                    hits,
                    exposure: None,
                    tier: None,
                    write: None,
                });
            }
        }
    }
}

/// The distance of sampled runs: a power of two, so that all runs are sampled in turn from report to report.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded up")]
fn runs(interval: f64) -> u64 {
    (interval as u64 + u64::from(interval.fract() > 0.0)).max(1).next_power_of_two()
}

#[expect(clippy::cast_precision_loss, reason = "a number of pages")]
fn as_f64(pages: u64) -> f64 {
    pages as f64
}

/// Samplings that found an access.
#[expect(clippy::cast_possible_truncation, reason = "at most a few dozen")]
fn hits(observed: &ObservedRegion, samplings: f64) -> f32 {
    (observed.frequency * samplings) as f32
}

fn end(observed: &ObservedRegion) -> Vpn {
    Vpn(observed.vpn.0.saturating_add(observed.base_pages))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{PageKind, Region, SpaceEvent};
    use crate::unit::Nanos;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const SPACE: SpaceId = SpaceId(1);
    const SAMPLINGS: f64 = 20.0;

    /// Adjacent regions with these lengths in base pages and these access frequencies.
    fn report(observed_regions: &[(u64, f64)]) -> Vec<ObservedRegion> {
        let mut vpn = 0;
        let mut next = |&(base_pages, frequency): &(u64, f64)| {
            let at = Vpn(vpn);
            vpn += base_pages;
            ObservedRegion { space: SPACE, vpn: at, base_pages, frequency, age: Nanos::ZERO }
        };
        observed_regions.iter().map(&mut next).collect()
    }

    fn mapped(base_pages: u64, size: PageSize) -> PageTable {
        let mut pages = PageTable::default();
        let (start, kind) = (Vpn(0), PageKind::Anonymous);
        pages.apply(SpaceEvent::Mapped(Region { space: SPACE, start, base_pages, size, kind }));
        pages
    }

    /// The heat after these reports, 100 ms each.
    fn after(reports: &[&[(u64, f64)]]) -> (RegionHeat, Hotness) {
        let (mut heat, mut hotness) = (RegionHeat::default(), Hotness::default());
        hotness.set_windows(Nanos::from_millis(5), Nanos::from_millis(5), Nanos::from_millis(100));
        for observed_regions in reports {
            let unseen = hotness.new_page();
            hotness.advance(Nanos::from_millis(100));
            heat.update(&report(observed_regions), SAMPLINGS, unseen, &hotness);
        }
        (heat, hotness)
    }

    /// By hand: half of 20 samplings and the prior one at 5 ms are -ln(1 - 10/21)/5 ms, 129 a second.
    #[test]
    fn a_page_is_as_hot_as_its_region() {
        let (heat, hotness) = after(&[&[(100, 0.5), (100, 0.0)]]);
        let rate = |vpn| {
            Some(hotness.estimate(heat.heat(SPACE, Vpn(vpn))?, PageSize::Base).rate_per_sec())
        };
        assert_eq!(rate(99), rate(0));
        assert!(rate(0).is_some_and(|rate| (125.0..133.0).contains(&rate)), "{:?}", rate(0));
        assert_eq!(rate(100), Some(0.0), "a region without accesses");
        assert_eq!(rate(200), None, "after the last region");
        assert_eq!(heat.heat(SpaceId(2), Vpn(0)), None);
    }

    #[test]
    fn heat_outlives_borders() {
        let (split, hotness) = after(&[&[(100, 0.6)], &[(30, 0.0), (70, 0.0)]]);
        assert_eq!(split.heat(SPACE, Vpn(0)), split.heat(SPACE, Vpn(99)));
        let hot = hotness.estimate(split.heat(SPACE, Vpn(0)).unwrap(), PageSize::Base);
        assert!(hot.rate_per_sec() > 50.0, "{hot:?}");
        let (merged, hotness) = after(&[&[(70, 0.6), (30, 0.0)], &[(100, 0.0)]]);
        let most = hotness.estimate(merged.heat(SPACE, Vpn(99)).unwrap(), PageSize::Base);
        assert_eq!(most, hot, "most of it was hot");
    }

    #[test]
    fn the_number_of_samples_is_bounded_for_any_amount_of_memory() {
        let all = 1 << 31;
        for observed_regions in
            [&[(all, 1.0)][..], &[(all / 2, 1.0), (all / 2, 0.05)], &[(all, 0.05)]]
        {
            let (heat, _) = after(&[observed_regions]);
            let mut samples = Vec::new();
            heat.sample(
                &report(observed_regions),
                SAMPLINGS,
                &mapped(all, PageSize::Base),
                &mut samples,
            );
            let pages: u64 = samples.iter().map(|sample| u64::from(sample.base_pages)).sum();
            assert!(pages > 0 && pages <= 2 * SAMPLED, "{pages}");
        }
    }

    #[test]
    fn the_number_of_samples_depends_on_pages_of_either_size() {
        let (observed_regions, pages) = (&[(1 << 26, 0.5)][..], mapped(1 << 26, PageSize::Huge));
        let mut samples = Vec::new();
        after(&[observed_regions]).0.sample(
            &report(observed_regions),
            SAMPLINGS,
            &pages,
            &mut samples,
        );
        assert_eq!(samples.len(), (1 << 26) / 512, "131,072 pages are below the bound");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Over several reports all runs are sampled, and the hits add up to the reported ones.
        #[test]
        fn every_accessed_page_is_sampled_in_turn(
            sizes in prop::collection::vec((1u64..1 << 19, 0u32..=20), 1..6),
        ) {
            let observed_regions: Vec<_> =
                sizes.iter().map(|&(pages, hits)| (pages, f64::from(hits) / SAMPLINGS)).collect();
            let pages = mapped(sizes.iter().map(|(pages, _)| pages).sum(), PageSize::Base);
            let report = report(&observed_regions);
            let (mut heat, _) = after(&[]);
            let mut runs = BTreeMap::new();
            let turns = 512;
            for _ in 0..turns {
                heat.reports += 1;
                let mut samples = Vec::new();
                heat.sample(&report, SAMPLINGS, &pages, &mut samples);
                for sample in samples {
                    let (length, hits) = runs.entry(sample.vpn).or_insert((0, 0.0));
                    *length = u64::from(sample.base_pages);
                    *hits += f64::from(sample.hits);
                }
            }
            for observed in &report {
                let of = runs.range(observed.vpn..end(observed));
                let length: u64 = of.clone().map(|(_, (length, _))| length).sum();
                let accessed = observed.frequency > 0.0;
                prop_assert_eq!(length, if accessed { observed.base_pages } else { 0 });
                let wanted = observed.frequency * SAMPLINGS * f64::from(turns);
                for (vpn, (_, hits)) in of {
                    prop_assert!((hits / wanted - 1.0).abs() < 1e-3, "{vpn:?}: {hits} {wanted}");
                }
            }
        }
    }
}
