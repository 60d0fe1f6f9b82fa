// SPDX-License-Identifier: Apache-2.0
//! Scans in the units of a policy's request.
//!
//! A scan sees a page at most once per window. A policy that counts samples expects every access to count: a hit then
//! stands for the accesses expected in its window. A policy that requests hint faults expects the time from arming to
//! the fault: a hit then carries the watched time since the page's last hit. Both follow from the page's last 16 scans,
//! two bytes per page, in blocks of one huge page that are created at a first hit. A policy that requests a device's
//! counters counts scans, as NeoMem's own baselines over scans do (MICRO 2024, section VI-A).
//!
//! A device and hint faults report one page after the other, and such a policy acts on each at once, within the budget
//! of the tick. So it gets the hits of a scan in parts, one per tick. A scan that ends before the last one is delivered
//! is left out.
//!
//! With k hits in n scans, the share of windows with an access is estimated as p = (k + 1/2)/(n + 1), by the prior of
//! Jeffreys (Bernardo and Smith, Bayesian Theory, 1994, section 5.4). The mean number of accesses in a window is then
//! λ = -ln(1 - p), and that in a window with a hit λ/p.

use std::collections::{BTreeMap, VecDeque};

use tierline_core::port::{Observations, Residence, Sample, SpaceEvent, SpaceId, Tracking, Vpn};
use tierline_core::unit::{BASE_PER_HUGE, Nanos};

/// Base pages of a block.
const PAGES: usize = 512;
const _: () = assert!(BASE_PER_HUGE == PAGES as u64);

/// Parts in which a large scan is delivered, and base pages of a part, at least. Ours: in an emulated guest, a tick can
/// move three times as many.
const PARTS: u64 = 64;
const PART: u64 = 1024;

/// The unit that a policy expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// Every access counts.
    Accesses,
    /// Every scan counts that found an access.
    Scans,
    /// The time from arming a page to its next access.
    TimeToFault,
}

/// The last scans of the pages of one huge page.
struct Block {
    /// The scan of the lowest bits.
    scan: u64,
    /// A bit per scan, set if it found the page accessed; the latest is the lowest.
    hits: [u16; PAGES],
}

impl Block {
    fn advance(&mut self, scan: u64) {
        let by = u32::try_from(scan - self.scan).unwrap_or(u32::MAX);
        if by == 0 {
            return;
        }
        self.hits.iter_mut().for_each(|hits| *hits = hits.checked_shl(by).unwrap_or(0));
        self.scan = scan;
    }
}

/// Converts hits.
pub struct Units {
    unit: Unit,
    /// Scans so far.
    scans: u64,
    blocks: BTreeMap<(SpaceId, u64), Block>,
    /// Delivers scans in parts.
    in_parts: bool,
    pending: VecDeque<Sample>,
    /// Base pages of a part.
    part: u64,
}

impl Units {
    /// For a policy with this request; `None` if it has the same unit as a scan.
    pub fn of(watch: Option<Tracking>) -> Option<Self> {
        let (unit, in_parts) = match watch? {
            Tracking::Samples { .. } => (Unit::Accesses, false),
            Tracking::Counters { .. } => (Unit::Scans, true),
            Tracking::HintFaults { .. } => (Unit::TimeToFault, true),
            Tracking::Regions { .. } | Tracking::TrueRates => return None,
        };
        let (blocks, pending) = (BTreeMap::new(), VecDeque::new());
        Some(Self { unit, scans: 0, blocks, in_parts, pending, part: PART })
    }

    /// Whether a part of a scan can be delivered at once.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Converts the samples of one report, if it is that of a scan, and delivers the next part of the last one.
    pub fn convert(&mut self, out: &mut Observations) {
        self.forget(&out.space_events);
        let scanned = out.observed_regions.is_empty();
        if let Some(window) = out.aggregation.or(out.window).filter(|_| scanned) {
            self.scans += 1;
            let found = std::mem::take(&mut out.samples);
            // Pages may move before their hits are delivered.
            let known = found.iter().filter(|_| self.in_parts).filter_map(residence);
            out.residence.extend(known);
            let mut converted = Vec::new();
            found.into_iter().for_each(|sample| self.take(sample, window, &mut converted));
            if !self.in_parts {
                out.samples = converted;
            } else if self.pending.is_empty() {
                let pages: u64 = converted.iter().map(|sample| u64::from(sample.base_pages)).sum();
                self.part = PART.max(pages / PARTS);
                self.pending = converted.into();
            }
        }
        self.deliver(out);
    }

    /// Appends the next part, without cutting a block, which may be a huge page.
    fn deliver(&mut self, out: &mut Observations) {
        let mut left = self.part;
        while left > 0
            && let Some(mut sample) = self.pending.pop_front()
        {
            let in_block = BASE_PER_HUGE - sample.vpn.0 % BASE_PER_HUGE;
            let rest = u64::from(sample.base_pages).saturating_sub(in_block);
            if rest > 0 {
                let (vpn, base_pages) = (Vpn(sample.vpn.0 + in_block), narrow(rest));
                self.pending.push_front(Sample { vpn, base_pages, ..sample });
                sample.base_pages = narrow(in_block);
            }
            left = left.saturating_sub(sample.base_pages.into());
            out.samples.push(Sample { tier: None, ..sample });
        }
    }

    /// Forgets the pages that were unmapped.
    fn forget(&mut self, events: &[SpaceEvent]) {
        for event in events {
            let (space, blocks) = match *event {
                SpaceEvent::Gone(space) => (space, 0..u64::MAX),
                SpaceEvent::Unmapped(space, Vpn(start), pages) => (
                    space,
                    start.div_ceil(BASE_PER_HUGE)..start.saturating_add(pages) / BASE_PER_HUGE,
                ),
                _ => continue,
            };
            while blocks.start < blocks.end
                && let Some((&key, _)) =
                    self.blocks.range((space, blocks.start)..(space, blocks.end)).next()
            {
                self.blocks.remove(&key);
            }
        }
    }

    /// Splits a sample where its pages have different histories. A whole block is one page, as it may be huge.
    fn take(&mut self, sample: Sample, window: Nanos, out: &mut Vec<Sample>) {
        let end = sample.vpn.0 + u64::from(sample.base_pages);
        let mut at = sample.vpn.0;
        while at < end {
            let block = at / BASE_PER_HUGE;
            let stop = end.min((block + 1) * BASE_PER_HUGE);
            let (scans, unit) = (self.scans, self.unit);
            let new = || Block { scan: scans, hits: [0; PAGES] };
            let known = self.blocks.entry((sample.space, block)).or_insert_with(new);
            known.advance(scans);
            let whole = stop - at == BASE_PER_HUGE;
            while at < stop {
                let run = if whole { stop - at } else { 1 };
                let first = offset(at);
                let hits = known.hits[first] | 1;
                known.hits[first..offset(at + run - 1) + 1].fill(hits);
                push(unit.convert(&sample, hits, scans, window), at, run, out);
                at += run;
            }
        }
    }
}

impl Unit {
    /// The sample of one page with this history.
    fn convert(self, sample: &Sample, hits: u16, scans: u64, window: Nanos) -> Sample {
        match self {
            Self::Accesses => {
                let known = u32::try_from(scans).unwrap_or(u32::MAX).min(u16::BITS);
                Sample { hits: sample.hits * accesses(hits.count_ones(), known), ..*sample }
            }
            Self::Scans => *sample,
            Self::TimeToFault => {
                // Armed anew for each scan that did not see it; the access came half way through the last, on average.
                let before = u64::from((hits & !1).trailing_zeros() - 1).min(scans - 1);
                let exposure = window * before + Nanos(window.0 / 2);
                Sample { exposure: sample.exposure.or(Some(exposure)), ..*sample }
            }
        }
    }
}

/// Accesses expected in a window with a hit, after `hit` of `scans` windows had one.
fn accesses(hit: u32, scans: u32) -> f32 {
    #[expect(clippy::cast_precision_loss, reason = "a few scans")]
    let p = (hit as f32 + 0.5) / (scans + 1) as f32;
    -(1.0 - p).ln() / p
}

/// Where the pages of a sample are, if it says so.
fn residence(&Sample { space, vpn, base_pages, tier, .. }: &Sample) -> Option<Residence> {
    Some(Residence { space, vpn, base_pages, tier: tier? })
}

fn narrow(pages: u64) -> u32 {
    u32::try_from(pages).unwrap_or(u32::MAX)
}

fn offset(vpn: u64) -> usize {
    (vpn % BASE_PER_HUGE) as usize
}

/// Appends a sample of `pages` pages from `at`, joined with the last one if only the range differs.
fn push(like: Sample, at: u64, pages: u64, out: &mut Vec<Sample>) {
    let pages = narrow(pages);
    if let Some(last) = out.last_mut()
        && (Sample { vpn: last.vpn, base_pages: last.base_pages, ..like }) == *last
        && last.vpn.0 + u64::from(last.base_pages) == at
    {
        last.base_pages += pages;
        return;
    }
    out.push(Sample { vpn: Vpn(at), base_pages: pages, ..like });
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierline_core::unit::Bytes;

    const WINDOW: Nanos = Nanos::from_millis(20);

    fn counting() -> Units {
        let samples = Tracking::Samples { loads: 199, stores: None, cpu_permille: None };
        Units::of(Some(samples)).expect("it counts accesses")
    }

    fn timing() -> Units {
        let (pass, floor) = (Nanos::from_secs(60), Nanos::from_millis(100));
        let faults =
            Tracking::HintFaults { pass, bytes: Bytes::from_mib(256), floor, fast_too: true };
        Units::of(Some(faults)).expect("it measures times to fault")
    }

    /// The samples of a scan that found these runs accessed.
    fn scan(units: &mut Units, runs: &[(u64, u32)]) -> Vec<Sample> {
        let sample = |&(start, base_pages): &(u64, u32)| Sample {
            space: SpaceId(7),
            vpn: Vpn(start),
            base_pages,
            hits: 1.0,
            exposure: None,
            tier: None,
            write: None,
        };
        let samples = runs.iter().map(sample).collect();
        let mut out = Observations { samples, window: Some(WINDOW), ..Observations::default() };
        units.convert(&mut out);
        out.samples
    }

    /// With a hit in every window, a page is accessed several times in each; with one in sixteen, about once.
    #[test]
    fn a_hit_stands_for_the_accesses_of_its_window() {
        let mut units = counting();
        let mut hits = Vec::new();
        for at in 0..16 {
            let runs: &[(u64, u32)] = if at == 15 { &[(5, 2)] } else { &[(5, 1)] };
            hits = scan(&mut units, runs).iter().map(|s| (s.vpn.0, s.base_pages, s.hits)).collect();
        }
        let [(5, 1, hot), (6, 1, warm)] = hits[..] else { panic!("two pages: {hits:?}") };
        // By hand: -ln(1/34) · 34/33, and -ln(31/34) · 34/3.
        assert!((hot - 3.6332).abs() < 1e-3 && (warm - 1.0469).abs() < 1e-3, "{hot} {warm}");
    }

    /// λ/(1 - e^-λ) for pages of known rates, from the hits that random accesses give on average.
    #[test]
    fn the_accesses_are_those_of_a_poisson_process() {
        for lambda in [0.1_f32, 0.5, 1.0, 2.0] {
            let p = 1.0 - (-lambda).exp();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded")]
            let hits = (p * 10_000.0).round() as u32;
            let found = accesses(hits, 9_999);
            assert!((found / (lambda / p) - 1.0).abs() < 1e-2, "{lambda}: {found}");
        }
    }

    #[test]
    fn a_time_to_fault_is_the_watched_time_since_the_last_hit() {
        let mut units = timing();
        let exposure = |samples: Vec<Sample>| samples[0].exposure.expect("a time").0 / 1_000_000;
        assert_eq!(exposure(scan(&mut units, &[(5, 1)])), 10, "half of the first window");
        assert_eq!(exposure(scan(&mut units, &[(5, 1)])), 10);
        assert!(scan(&mut units, &[]).is_empty() && scan(&mut units, &[]).is_empty());
        assert_eq!(exposure(scan(&mut units, &[(5, 1)])), 50, "two windows without a hit");
        (0..40).for_each(|_| drop(scan(&mut units, &[])));
        assert_eq!(exposure(scan(&mut units, &[(5, 1)])), 310, "as long as scans are remembered");
    }

    #[test]
    fn huge_pages_stay_whole_and_pages_of_equal_history_one_sample() {
        let mut units = counting();
        scan(&mut units, &[(600, 4)]);
        let samples = scan(&mut units, &[(510, 2 + 512 + 3)]);
        let runs: Vec<_> = samples.iter().map(|s| (s.vpn.0, s.base_pages)).collect();
        assert_eq!(runs, [(510, 517)], "the block from 512 is one page, first hit in this scan");
        scan(&mut units, &[(511, 1)]);
        let samples = scan(&mut units, &[(510, 3)]);
        let runs: Vec<_> = samples.iter().map(|s| (s.vpn.0, s.base_pages)).collect();
        assert_eq!(runs, [(510, 1), (511, 1), (512, 1)]);
    }

    /// A policy that acts on each hit at once gets no more at a time than a tick can move, and every page's tier at once.
    #[test]
    fn faults_come_in_parts_and_a_scan_meanwhile_is_left_out() {
        let mut units = timing();
        let mut pages = 0;
        let first = scan(&mut units, &[(100, 4000)]);
        let count = |samples: &[Sample]| samples.iter().map(|s| s.base_pages).sum::<u32>();
        assert!((1024..1536).contains(&count(&first)), "to the end of a block: {first:?}");
        assert_eq!(first[0].vpn, Vpn(100));
        assert!(first.iter().all(|s| s.vpn.0 % 512 == 0 || s.vpn.0 == 100), "{first:?}");
        pages += count(&first);
        pages += count(&scan(&mut units, &[(9_000, 1)]));
        while units.is_pending() {
            let mut out = Observations::default();
            units.convert(&mut out);
            pages += count(&out.samples);
        }
        assert_eq!(pages, 4000);
        assert_eq!(
            scan(&mut units, &[(9_000, 1)])[0].exposure,
            Some(Nanos(WINDOW.0 / 2)),
            "remembered"
        );
    }

    #[test]
    fn unmapped_memory_is_forgotten() {
        let mut units = counting();
        scan(&mut units, &[(5, 1), (600, 1), (1100, 1)]);
        assert_eq!(units.blocks.len(), 3);
        units.forget(&[SpaceEvent::Unmapped(SpaceId(7), Vpn(512), 600)]);
        assert_eq!(units.blocks.len(), 2, "the last block is unmapped in part");
        units.forget(&[SpaceEvent::Gone(SpaceId(8)), SpaceEvent::Gone(SpaceId(7))]);
        assert!(units.blocks.is_empty());
    }

    #[test]
    fn other_trackers_and_other_policies_are_left_alone() {
        assert!(Units::of(None).is_none() && Units::of(Some(Tracking::TrueRates)).is_none());
        let sample = scan(&mut counting(), &[(5, 1)])[0];
        let mut exact = Observations { samples: vec![sample], ..Observations::default() };
        timing().convert(&mut exact);
        assert_eq!(exact.samples, [sample], "a tracker without windows");
    }
}
