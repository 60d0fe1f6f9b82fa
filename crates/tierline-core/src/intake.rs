// SPDX-License-Identifier: Apache-2.0
//! Takes in a world's observations: mappings and locations go to the page table, hits become heat, and all of
//! it is evidence for the policy.

use std::collections::BTreeSet;

use crate::page::{PREFETCH_BATCH, PageIdx, PageTable};
use crate::policy::interface::Wants;
use crate::policy::view::{Evidence, Memory};
use crate::port::{
    Observations, PageSize, Residence, Sample, SlowFound, SpaceId, Telemetry, TenantId, TrueRate,
};
use crate::qos::scan_shares::ScanShares;
use crate::telemetry::hotness::Hotness;
use crate::telemetry::observed_regions::RegionHeat;
use crate::telemetry::population::Population;
use crate::telemetry::slow_hits::SlowHits;
use crate::telemetry::{Hit, SpaceHits, is_on_panel};
use crate::tier::{TierId, Tiers};
use crate::unit::{Bytes, Nanos};

/// Capacity kept for samples between full scans: 160 KiB. Ours.
const SAMPLES_KEPT: usize = 4096;
/// Less than one in this many bytes of slower memory is next to nothing. Ours.
const FEW_OF: u64 = 256;
/// Fast memory with less room than one part in this many may soon be full. Ours.
const ROOM_OF: u64 = 16;

/// What is known of the managed memory, updated by observations.
#[derive(Debug, Default)]
pub struct ManagedMemory {
    /// The managed pages.
    pub pages: PageTable,
    /// The watch clock, and the estimator that reads heat by it.
    pub hotness: Hotness,
    /// The heat of regions, where the tracker reports regions.
    pub observed_regions: RegionHeat,
}

impl ManagedMemory {
    /// The same as a policy sees it.
    pub fn for_policy(&mut self) -> Memory<'_> {
        let Self { pages, hotness, observed_regions: region_heat } = self;
        Memory { pages, hotness, region_heat }
    }

    /// Whether next to nothing is in slower memory, and the fastest has room for more: there is nothing to move yet.
    pub fn fits(&self, tiers: &Tiers, telemetry: &Telemetry) -> bool {
        let (free, capacity) = (telemetry.tiers[0].free, tiers[TierId::FAST].capacity);
        let slow = Bytes::from_base_pages(self.base_pages_below(tiers)).0;
        self.pages.bytes_in(TierId::FAST).0 > slow * FEW_OF && free.0 > capacity.0 / ROOM_OF
    }

    /// Base pages below the fastest tier.
    fn base_pages_below(&self, tiers: &Tiers) -> u64 {
        tiers.iter().skip(1).map(|(tier, _)| self.pages.bytes_in(tier).base_pages()).sum()
    }
}

/// What was observed since the last tick, and totals since the start.
#[derive(Debug, Default)]
pub struct Intake {
    /// Scratch: the pages of a chunk of samples, and whether each is huge.
    found: Vec<(PageIdx, bool)>,
    /// Pages that were hit or found in another tier.
    pub touched: Vec<PageIdx>,
    /// See [`Evidence::turned_away`].
    pub turned_away: Vec<PageIdx>,
    /// Single hits, for policies that keep their own heat.
    pub hits: Vec<Hit>,
    /// See [`Evidence::panel`].
    pub panel: Vec<(PageIdx, f32)>,
    /// Hits by tier; of huge pages watched for a shorter window, in proportion more.
    pub hits_in: [f64; TierId::MAX],
    /// The same by address space, in order of the first hit.
    pub hits_of: Vec<SpaceHits>,
    /// The watched time of these hits; zero if nothing was watched.
    pub watched: Nanos,
    /// Hits in slow tiers per second of watched time, if anything was watched.
    pub slow_hits: Option<SlowHits>,
    /// The accesses of tenants by tier, as the last scans found them.
    pub scan_shares: ScanShares,
    /// Samples so far, one per page.
    pub samples: u64,
    /// Samples that trackers lost so far.
    pub lost: u64,
    last: Nanos,
}

impl Intake {
    /// Frees the buffers that a full scan needed. `false` if there are none.
    pub fn shrink(&mut self, seen: &mut Observations) -> bool {
        let needed = seen.samples.capacity() > SAMPLES_KEPT;
        if needed {
            *seen = Observations::default();
            (self.found, self.touched, self.hits) = (Vec::new(), Vec::new(), Vec::new());
            self.panel = Vec::new();
        }
        needed
    }

    /// The evidence for a policy.
    pub fn evidence<'a>(
        &'a self,
        seen: &'a Observations,
        answers: &'a [(PageIdx, Option<bool>)],
    ) -> Evidence<'a> {
        Evidence {
            touched: &self.touched,
            hits: &self.hits,
            panel: &self.panel,
            hits_in: &self.hits_in,
            hits_of: &self.hits_of,
            watched: self.watched,
            fast_untracked: seen.fast_untracked,
            true_rates: &seen.true_rates,
            observed_regions: &seen.observed_regions,
            spreads: seen.looks_into_splits.then_some(&seen.spreads),
            answers,
            turned_away: &self.turned_away,
        }
    }

    /// Takes in everything observed up to `now`. Every hit of the tenants `behind` counts.
    pub fn process(
        &mut self,
        now: Nanos,
        seen: &mut Observations,
        wants: Wants,
        tiers: &Tiers,
        memory: &mut ManagedMemory,
        behind: &BTreeSet<TenantId>,
    ) {
        self.touched.clear();
        self.hits.clear();
        self.panel.clear();
        self.hits_in = [0.0; TierId::MAX];
        self.hits_of.clear();
        for &event in &seen.space_events {
            memory.pages.apply(event);
        }
        configure(&mut memory.hotness, seen);
        if let Some(SlowFound { accessed, again, base_pages }) = seen.slow_found {
            let slow = memory.base_pages_below(tiers).min(base_pages);
            memory.hotness.set_population(Population::of(slow, accessed, again));
        }
        let slowest_too = wants.pages_out;
        for at in &seen.residence {
            self.locate_run(at, wants, memory, at.tier < tiers.slowest() || slowest_too);
        }
        let unseen = memory.hotness.new_page();
        memory.hotness.advance(seen.watched);
        if !seen.observed_regions.is_empty() {
            let look = seen.window.unwrap_or(seen.watched);
            let looks = (seen.watched.as_secs_f64() / look.as_secs_f64()).max(1.0);
            memory.observed_regions.update(&seen.observed_regions, looks, unseen, &memory.hotness);
            memory.observed_regions.sample(
                &seen.observed_regions,
                looks,
                &memory.pages,
                &mut seen.samples,
            );
        }
        if !wants.own_heat {
            seen.true_rates.iter().for_each(|known| self.set_true_rate(known, memory));
        }
        let mut hits = HitCounts::default();
        for samples in seen.samples.chunks(PREFETCH_BATCH) {
            self.take_samples(samples, wants, memory, behind, &mut hits);
        }
        self.lost += seen.lost;
        self.slow_hits = self.count_slow_hits(now, seen, &hits);
    }

    /// Records in which tier a run of pages is. With `is_news`, the policy gets these pages, too.
    fn locate_run(
        &mut self,
        at: &Residence,
        wants: Wants,
        memory: &mut ManagedMemory,
        is_news: bool,
    ) {
        let unseen = (!wants.own_heat).then(|| memory.hotness.new_page());
        memory.pages.set_tier_of_run(at, unseen);
        if is_news {
            let touched = &mut self.touched;
            memory.pages.for_each(at.space, at.vpn, at.base_pages, |page| touched.push(page));
        }
    }

    /// Replaces the heat of a run of pages by their true rate.
    fn set_true_rate(&mut self, known: &TrueRate, memory: &mut ManagedMemory) {
        let before = self.touched.len();
        memory.pages.for_each(known.space, known.vpn, known.base_pages, |page| {
            self.touched.push(page);
        });
        for &page in &self.touched[before..] {
            let is_huge = memory.pages.is_huge(page);
            let size = if is_huge { PageSize::Huge } else { PageSize::Base };
            memory.pages.set_heat(page, memory.hotness.heat_of_rate(known.rate_per_sec, size));
        }
    }

    /// Takes in one chunk of samples, small enough that its pages stay in the cache. Counts its hits.
    fn take_samples(
        &mut self,
        samples: &[Sample],
        wants: Wants,
        memory: &mut ManagedMemory,
        behind: &BTreeSet<TenantId>,
        counts: &mut HitCounts,
    ) {
        let Self { found, touched, hits, panel, hits_in, hits_of, .. } = self;
        let ManagedMemory { pages, hotness, .. } = memory;
        let shared = !wants.own_heat;
        let has_panel = wants.panel_hits && hotness.is_sampled();
        let per_huge = f64::from(hotness.base_hits_per_huge_hit());
        let mut end = [0; PREFETCH_BATCH];
        for (end, sample) in end.iter_mut().zip(samples) {
            pages.for_each_sized(sample.space, sample.vpn, sample.base_pages, |page, size| {
                found.push((page, size == PageSize::Huge));
            });
            *end = found.len();
        }
        pages.prefetch(found.iter().map(|&(page, _)| page));
        let [base, huge] = [PageSize::Base, PageSize::Huge].map(|size| hotness.hit_update(size));
        self.samples += found.len() as u64;
        let mut from = 0;
        for (end, sample) in end.into_iter().zip(samples) {
            let of_space = of_space(hits_of, sample.space);
            let is_behind = !behind.is_empty() && behind.contains(&pages.tenant_of(sample.space));
            for &(page, is_huge) in &found[std::mem::replace(&mut from, end)..end] {
                if let Some(tier) = sample.tier {
                    place(pages, hotness, shared, page, tier);
                }
                let update = if is_huge { &huge } else { &base };
                let renew = |heat| update.apply(heat, sample.hits, sample.exposure, is_behind);
                let state = match shared {
                    true => pages.update_heat(page, renew),
                    false => pages.state(page),
                };
                if !shared || wants.huge_page_hits && is_huge {
                    hits.push(Hit::of(page, state.tier(), sample));
                }
                if has_panel && is_on_panel(page, is_huge) {
                    panel.push((page, sample.hits));
                }
                if !shared || !state.is_held() {
                    touched.push(page);
                }
                if let Some(tier) = state.tier() {
                    let weight = if is_huge && per_huge > 1.0 { per_huge } else { 1.0 };
                    let weighted = f64::from(sample.hits) * weight;
                    hits_in[tier.index()] += weighted;
                    of_space.by_tier[tier.index()] += weighted;
                    counts.add(tier, weight);
                }
            }
        }
        found.clear();
    }

    /// Hits in slow tiers per second of watched time.
    fn count_slow_hits(
        &mut self,
        now: Nanos,
        seen: &Observations,
        hits: &HitCounts,
    ) -> Option<SlowHits> {
        let last = std::mem::replace(&mut self.last, now);
        self.watched = Nanos::ZERO;
        if let Some(per_sec) = seen.slow_hits_per_sec {
            let sampled = seen.slow_hits_sampled;
            return Some(SlowHits { per_sec, projected: true, sampled, ..SlowHits::default() });
        }
        // A tracker without a watch clock is taken to watch all the time.
        let watched =
            if seen.watched > Nanos::ZERO { seen.watched } else { now.saturating_sub(last) };
        // That a whole scan found nothing is a report, too: otherwise idle programs would be observed closely for ever.
        let scanned = seen.window.is_some() && seen.watched > Nanos::ZERO;
        let hit = watched > Nanos::ZERO && !seen.samples.is_empty();
        let watching = hit || scanned;
        self.watched = if hit { watched } else { Nanos::ZERO };
        let &HitCounts { slow, fast, slow_variance } = hits;
        let (per_sec, counts) = (slow / watched.as_secs_f64(), [slow, fast]);
        let found_again = seen.found_again;
        watching.then_some(SlowHits {
            per_sec,
            counts,
            slow_variance,
            found_again,
            ..SlowHits::default()
        })
    }
}

/// The entry of a space. Samples of one space tend to follow each other, and there are few spaces.
fn of_space(hits_of: &mut Vec<SpaceHits>, space: SpaceId) -> &mut SpaceHits {
    let known = hits_of.iter().rposition(|of| of.space == space).unwrap_or_else(|| {
        hits_of.push(SpaceHits { space, by_tier: [0.0; TierId::MAX] });
        hits_of.len() - 1
    });
    &mut hits_of[known]
}

/// Sums of weighted hits.
#[derive(Clone, Copy, Debug, Default)]
struct HitCounts {
    slow: f64,
    fast: f64,
    /// The variance of the slow ones, if every hit is independent: the sum of their squared weights.
    slow_variance: f64,
}

impl HitCounts {
    fn add(&mut self, tier: TierId, weight: f64) {
        if tier > TierId::FAST {
            self.slow += weight;
            self.slow_variance += weight * weight;
        } else {
            self.fast += weight;
        }
    }
}

/// Configures the estimator from what the tracker reports about its own scans.
fn configure(hotness: &mut Hotness, seen: &Observations) {
    if let Some(memory) = seen.remembered_time {
        hotness.set_remembered_time(memory);
    }
    if let Some(interval) = seen.report_interval {
        hotness.set_report_interval(interval);
    }
    if let Some(window) = seen.window {
        let huge = seen.huge_window.unwrap_or(window);
        hotness.set_windows(window, huge, seen.aggregation.unwrap_or(window));
    }
    if let Some(sample) = seen.samples.first() {
        hotness.set_timed(sample.exposure.is_some());
    }
}

/// Records a page's tier. The exposure of a page whose tier was unknown starts now.
fn place(pages: &mut PageTable, hotness: &Hotness, shared: bool, page: PageIdx, tier: TierId) {
    let state = pages.state(page);
    if state.tier() == Some(tier) {
        return;
    }
    if state.tier().is_none() && shared {
        pages.set_heat(page, hotness.new_page());
    }
    pages.set_tier(page, tier);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{PageKind, Region, SpaceEvent, TierTelemetry, Vpn};
    use crate::tier::Tier;
    use crate::unit::Bytes;

    /// So many base pages of a program in fast and slow memory; fast memory has 1,600, of which so many are free.
    #[test]
    fn memory_fits_while_next_to_none_is_slow_and_fast_memory_has_room() {
        let fits = |free, fast, slow| {
            let (space, start, base_pages) = (SpaceId(1), Vpn(0), fast + slow);
            let (size, kind) = (PageSize::Base, PageKind::Anonymous);
            let mut memory = ManagedMemory::default();
            memory.pages.apply(SpaceEvent::Mapped(Region { space, start, base_pages, size, kind }));
            for vpn in 0..base_pages {
                let page = memory.pages.find(space, Vpn(vpn)).expect("mapped above");
                memory.pages.set_tier(page, TierId(u8::from(vpn >= fast)));
            }
            let capacity = Bytes::from_base_pages(1_600);
            let (name, nodes, latency, bandwidth) = (String::new(), Vec::new(), None, None);
            let tiers = Tiers(vec![Tier { name, nodes, capacity, latency, bandwidth }; 2]);
            let free = Bytes::from_base_pages(free);
            let telemetry = vec![TierTelemetry { free, ..TierTelemetry::default() }];
            memory.fits(&tiers, &Telemetry { tiers: telemetry, ..Telemetry::default() })
        };
        assert!(fits(101, 1_000, 3));
        assert!(!fits(101, 1_000, 4));
        assert!(!fits(100, 1_000, 0), "full soon");
        assert!(!fits(1_600, 0, 0), "nothing is known yet");
    }
}
