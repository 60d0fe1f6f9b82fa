// SPDX-License-Identifier: Apache-2.0
//! Scans in the units of a policy's request.
//!
//! A scan sees a page at most once per window. A policy that counts samples expects every access to count: a hit then
//! stands for the accesses expected in its window. A policy that requests hint faults expects the time from arming to
//! the fault: a hit then carries the watched time since the page's last hit. Both follow from the page's last scans: 16 are
//! kept, in two bytes per page, in blocks of one huge page that are created at a first hit. A policy that requests a device's
//! counters counts scans, as NeoMem's own baselines over scans do (MICRO 2024, section VI-A).
//!
//! A device and hint faults report one page after the other, and such a policy acts on each at once, within the budget
//! of the tick. So it gets the hits of a scan in parts, one per tick, in the order of addresses. The next scan takes the place of
//! what is left, and goes on from there: the policy sees all memory in turn, as a hand that arms it would, and no old hits.
//!
//! With k hits in n scans, the share of windows with an access is estimated as p = (k + 1/2)/(n + 1), by the prior of
//! Jeffreys (Bernardo and Smith, Bayesian Theory, 1994, section 5.4). The mean number of accesses in a window is then
//! λ = -ln(1 - p), and that in a window with a hit λ/p. Of the last eight scans, those count that came after the first hit
//! among them, without that hit, by which they were chosen: before it, the page may not have been there, or the program may
//! have done something else. (Ours.)
//!
//! Huge pages have a shorter window than base pages. A report contains accesses in one window, that of the size which most of
//! the hit pages have. And a policy that counts samples decides after a number of them, at its own sampling period. If windows
//! cover a smaller part of the time than the part of all accesses that it samples, hits are multiplied accordingly, and so is
//! the watched time.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use tierline_core::port::{Observations, Residence, Sample, SpaceEvent, SpaceId, Tracking, Vpn};
use tierline_core::unit::{BASE_PER_HUGE, Nanos};

use crate::tracker::window::ratio;

/// Base pages of a block.
const PAGES: usize = 512;
const _: () = assert!(BASE_PER_HUGE == PAGES as u64);

/// Parts in which a large scan is delivered, and base pages of a part, at least. Ours: in an emulated guest, a tick can
/// move three times as many.
const PARTS: u64 = 64;
const PART: u64 = 1024;

/// The unit that a policy expects.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    /// Every access counts, as one that a sampler of one in `period` reports.
    Accesses { period: f64 },
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
    /// Scans so far, and the end of the last one.
    scans: u64,
    scanned: Option<Nanos>,
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
            Tracking::Samples { loads, .. } => (Unit::Accesses { period: ratio(loads, 1) }, false),
            Tracking::Counters { .. } => (Unit::Scans, true),
            Tracking::HintFaults { .. } => (Unit::TimeToFault, true),
            Tracking::Regions { .. } | Tracking::TrueRates => return None,
        };
        let (blocks, pending) = (BTreeMap::new(), VecDeque::new());
        Some(Self { unit, scans: 0, scanned: None, blocks, in_parts, pending, part: PART })
    }

    /// Whether a part of a scan can be delivered at once.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Converts the samples of one report, if it is that of a scan, and delivers the next part of the last one.
    pub fn convert(&mut self, now: Nanos, out: &mut Observations) {
        self.forget(&out.space_events);
        let scanned = out.observed_regions.is_empty();
        if let Some(window) = out.aggregation.or(out.window).filter(|_| scanned) {
            self.scans += 1;
            let found = std::mem::take(&mut out.samples);
            let before = self.scanned.replace(now);
            let passed = before.map_or(window, |before| now.saturating_sub(before));
            let scales = self.scale(&found, window, passed, out);
            // Pages may move before their hits are delivered.
            let known = found.iter().filter(|_| self.in_parts).filter_map(residence);
            out.residence.extend(known);
            let mut converted = Vec::new();
            found.into_iter().for_each(|sample| self.take(sample, window, scales, &mut converted));
            if !self.in_parts {
                out.samples = converted;
            } else {
                let pages: u64 = converted.iter().map(|sample| u64::from(sample.base_pages)).sum();
                self.part = PART.max(pages / PARTS);
                let next = self.pending.front().map(place);
                self.pending = from_place_on(converted, next).into();
            }
        }
        self.deliver(out);
    }

    /// Lets a report of accesses be one of one window, and of as many accesses as the policy's own sampler would report, if
    /// these are more. Returns by what the accesses of base pages and of huge pages are multiplied.
    #[expect(clippy::cast_possible_truncation, reason = "ratios of times")]
    fn scale(
        &self,
        found: &[Sample],
        window: Nanos,
        passed: Nanos,
        out: &mut Observations,
    ) -> [f32; 2] {
        let Unit::Accesses { period } = self.unit else { return [1.0; 2] };
        let huge = out.huge_window.take().unwrap_or(window);
        let in_huge = |sample: &Sample| {
            let blocks = whole_blocks(sample.vpn.0, sample.base_pages.into());
            blocks.end.saturating_sub(blocks.start) * BASE_PER_HUGE
        };
        let all: u64 = found.iter().map(|sample| u64::from(sample.base_pages)).sum();
        let used = if found.iter().map(in_huge).sum::<u64>() * 2 > all { huge } else { window };
        let more = (ratio(passed.0, used.0.max(1)) / period).max(1.0);
        out.window = Some(used);
        out.watched = Nanos::from_secs_f64(used.as_secs_f64() * more);
        [window, huge].map(|own| (more * ratio(used.0, own.0.max(1))) as f32)
    }

    /// Appends the next part, without cutting a block, which may be a huge page.
    fn deliver(&mut self, out: &mut Observations) {
        let mut left = self.part;
        while left > 0
            && let Some(mut sample) = self.pending.pop_front()
        {
            let next_block = Vpn((sample.vpn.0 / BASE_PER_HUGE + 1) * BASE_PER_HUGE);
            if let Some(rest) = cut(&mut sample, next_block) {
                self.pending.push_front(rest);
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
                SpaceEvent::Unmapped(space, Vpn(start), pages) => {
                    (space, whole_blocks(start, pages))
                }
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
    fn take(&mut self, sample: Sample, window: Nanos, scales: [f32; 2], out: &mut Vec<Sample>) {
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
                let sample = Sample { hits: sample.hits * scales[usize::from(whole)], ..sample };
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
            Self::Accesses { .. } => {
                let [recent, _] = hits.to_le_bytes();
                let since_first = u8::BITS - 1 - recent.leading_zeros();
                let again = recent.count_ones() - 1;
                Sample { hits: sample.hits * accesses(again, since_first), ..*sample }
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

/// The blocks that these pages contain whole; the range may be reversed if there is none.
fn whole_blocks(start: u64, pages: u64) -> Range<u64> {
    start.div_ceil(BASE_PER_HUGE)..start.saturating_add(pages) / BASE_PER_HUGE
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

fn place(sample: &Sample) -> (SpaceId, Vpn) {
    (sample.space, sample.vpn)
}

/// In the order of addresses, from this one on, and then those before it.
fn from_place_on(mut samples: Vec<Sample>, from: Option<(SpaceId, Vpn)>) -> Vec<Sample> {
    samples.sort_unstable_by_key(place);
    let Some((space, vpn)) = from else { return samples };
    let before = samples.partition_point(|sample| place(sample) < (space, vpn));
    let last = samples[..before].last_mut().filter(|last| last.space == space);
    if let Some(rest) = last.and_then(|last| cut(last, vpn)) {
        samples.insert(before, rest);
    }
    samples.rotate_left(before);
    samples
}

/// Takes off the pages from `at` on.
fn cut(sample: &mut Sample, at: Vpn) -> Option<Sample> {
    let rest = (sample.vpn.0 + u64::from(sample.base_pages)).saturating_sub(at.0);
    let base_pages = narrow(rest);
    sample.base_pages -= base_pages;
    (rest > 0).then_some(Sample { vpn: at, base_pages, ..*sample })
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

    fn sample(start: u64, base_pages: u32) -> Sample {
        Sample {
            space: SpaceId(7),
            vpn: Vpn(start),
            base_pages,
            hits: 1.0,
            exposure: None,
            tier: None,
            write: None,
        }
    }

    /// The samples of a scan that found these runs accessed.
    fn scan(units: &mut Units, runs: &[(u64, u32)]) -> Vec<Sample> {
        let samples = runs.iter().map(|&(start, pages)| sample(start, pages)).collect();
        let mut out = Observations { samples, window: Some(WINDOW), ..Observations::default() };
        units.convert(Nanos::ZERO, &mut out);
        out.samples
    }

    /// With a hit in every window, a page is accessed several times in each; with a first hit, about once.
    #[test]
    fn a_hit_stands_for_the_accesses_of_its_window() {
        let mut units = counting();
        let mut hits = Vec::new();
        for at in 0..16 {
            let runs: &[(u64, u32)] = if at == 15 { &[(5, 2)] } else { &[(5, 1)] };
            hits = scan(&mut units, runs).iter().map(|s| (s.vpn.0, s.base_pages, s.hits)).collect();
        }
        let [(5, 1, hot), (6, 1, new)] = hits[..] else { panic!("two pages: {hits:?}") };
        // By hand, for 7 hits in the 7 scans after the first one: -ln(1/16) · 16/15; and for none in none: -ln(1/2) · 2.
        assert!((hot - 2.9574).abs() < 1e-3 && (new - 1.3863).abs() < 1e-3, "{hot} {new}");
    }

    /// Pages that are hit from now on, after seven scans in which only one of them was, in the first.
    #[test]
    fn a_page_that_becomes_hot_counts_as_one_that_always_was() {
        let mut units = counting();
        scan(&mut units, &[(6, 1)]);
        (0..6).for_each(|_| drop(scan(&mut units, &[])));
        let [(5, hot), (6, rare)] =
            scan(&mut units, &[(5, 2)]).iter().map(|s| (s.vpn.0, s.hits)).collect::<Vec<_>>()[..]
        else {
            panic!("two pages")
        };
        // By hand, for one hit in seven scans: -ln(1 - 1.5/8) · 8/1.5.
        assert!((hot - 1.3863).abs() < 1e-3 && (rare - 1.1074).abs() < 1e-3, "{hot} {rare}");
        scan(&mut units, &[(5, 1)]);
        let hot = scan(&mut units, &[(5, 1)])[0].hits;
        // By hand, for two hits in two scans: -ln(1/6) · 6/5.
        assert!((hot - 2.1501).abs() < 1e-3, "{hot}");
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
    fn faults_come_in_parts_and_the_next_scan_goes_on_from_there() {
        let mut units = timing();
        let first = scan(&mut units, &[(100, 4000)]);
        let count = |samples: &[Sample]| samples.iter().map(|s| s.base_pages).sum::<u32>();
        assert!((1024..1536).contains(&count(&first)), "to the end of a block: {first:?}");
        assert_eq!(first[0].vpn, Vpn(100));
        assert!(first.iter().all(|s| s.vpn.0 % 512 == 0 || s.vpn.0 == 100), "{first:?}");
        let end = |samples: &[Sample]| samples.last().map(|s| s.vpn.0 + u64::from(s.base_pages));
        assert_eq!(end(&first), Some(1536));
        let mut found = scan(&mut units, &[(200, 1800), (9_000, 1)]);
        while units.is_pending() {
            let mut out = Observations::default();
            units.convert(Nanos::ZERO, &mut out);
            found.append(&mut out.samples);
        }
        let at = found.iter().position(|s| s.vpn == Vpn(9_000)).expect("the end of memory");
        assert_eq!((found[0].vpn, end(&found[..at])), (Vpn(1536), Some(2000)));
        assert_eq!((found[at + 1].vpn, end(&found)), (Vpn(200), Some(1536)));
        assert_eq!(count(&found), 1801, "and no others of the first scan");
        let exposure = |found: &[Sample]| found[0].exposure;
        assert_eq!(exposure(&scan(&mut units, &[(300, 1)])), Some(Nanos(WINDOW.0 / 2)));
    }

    /// A sampler of one access in 199, and windows of 20 ms once in 40 s, which is one access in 2,000, or of 2 ms once in 20 ms.
    #[test]
    fn a_policy_gets_as_many_accesses_as_its_sampler_would_report() {
        let times_more = |pause: Nanos, window: Nanos| {
            let mut units = counting();
            let mut of_scan = |now| {
                let samples = vec![sample(5, 1)];
                let (window, watched) = (Some(window), window);
                let mut out = Observations { samples, window, watched, ..Observations::default() };
                units.convert(now, &mut out);
                (out.samples[0].hits, out.watched.as_secs_f64() / watched.as_secs_f64())
            };
            let ((first, once), (second, times)) = (of_scan(pause), of_scan(pause * 2));
            assert!((once - 1.0).abs() < 1e-6 && (first - 1.3863).abs() < 1e-3, "{once} {first}");
            // By hand, for one hit in one scan: -ln(1/4) · 4/3.
            assert!((f64::from(second) / 1.8484 - times).abs() < times * 1e-3, "{second} {times}");
            times
        };
        let times = times_more(Nanos::from_secs(40), WINDOW);
        assert!((times - 2_000.0 / 199.0).abs() < 1e-3, "{times}");
        let times = times_more(WINDOW, Nanos(WINDOW.0 / 10));
        assert!((times - 1.0).abs() < 1e-6, "an access that was seen counts: {times}");
    }

    /// A huge page in a window of a tenth of that of base pages: one access in it is ten in the other.
    #[test]
    fn accesses_are_reported_in_the_window_of_most_pages() {
        let reported = |runs: &[(u64, u32)]| {
            let (mut units, huge_window) = (counting(), Some(Nanos(WINDOW.0 / 10)));
            let samples = runs.iter().map(|&(start, pages)| sample(start, pages)).collect();
            let mut out = Observations {
                samples,
                window: Some(WINDOW),
                watched: WINDOW,
                huge_window,
                ..Observations::default()
            };
            units.convert(Nanos::ZERO, &mut out);
            assert_eq!((out.window, out.huge_window), (Some(out.watched), None));
            let most = out.samples.iter().map(|s| s.hits).fold(0.0, f32::max);
            (out.watched, out.samples.iter().map(|s| s.hits / most).collect::<Vec<_>>())
        };
        let (watched, hits) = reported(&[(0, 512), (600, 400)]);
        assert_eq!((watched, hits), (Nanos(WINDOW.0 / 10), vec![1.0, 0.1]));
        let (watched, hits) = reported(&[(0, 512), (600, 400), (1100, 400)]);
        assert_eq!((watched, hits), (WINDOW, vec![1.0, 0.1, 0.1]));
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
        timing().convert(Nanos::ZERO, &mut exact);
        assert_eq!(exact.samples, [sample], "a tracker without windows");
    }
}
