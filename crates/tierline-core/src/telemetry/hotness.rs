// SPDX-License-Identifier: Apache-2.0
//! Hotness: the estimated access rate of a page.
//!
//! One estimator serves every tracker, because all reports reduce to *hits within watched time*. A sampler that
//! takes one access in P watches 1/P of the time; an accessed-bit scanner watches only in the window between
//! clearing and reading the bits; a hint fault ends a watch that began when the page was armed. Time without
//! watching adds no exposure, so "was not seen" is never taken for "was not accessed".
//!
//! The rate is the maximum-likelihood estimate for random (Poisson) accesses: hits over exposure, and where a
//! scan with window `w` sees a page at most once, `-ln(1 - k/n) / w` for `k` hits in `n` scans.
//!
//! Windows change in length. So that `k` never exceeds `n`, evidence is kept in scans: stamps and exposures
//! follow an evidence clock, which advances by the same time for every scan, whatever its window, and `w` is
//! the mean window of the scans remembered. The rate is then never too high on average, as `1 - exp(-rate · w)`
//! is concave in `w` (Jensen's inequality). Where every access counts, and where all windows are equal, the
//! evidence clock is the watch clock.
//!
//! A huge page is accessed 512 times as often as its base pages, so a window that separates hot base pages from
//! cold ones finds every huge page accessed. A scan may therefore watch huge pages for a shorter window than base
//! pages: `w`, and with it the highest measurable rate, depends on the page size.
//!
//! Old evidence decays: a limited exposure is remembered ([`Hotness::set_remembered_time`]), and hits decay
//! exponentially beyond it. Pages without hits are not visited: their exposure is the advance of the clock since
//! their stamp, added when the estimate is read. While placement is off ([`Hotness::set_urgent`]), a page that
//! several scans found without an access starts anew: its earlier evidence is outdated, so room is made soon, and
//! the hit that ends the idle time is no evidence by itself. Where most pages that one scan finds are found by the next, too
//! ([`Hotness::set_found_again`]), few look hot by chance: then that hit counts, in the first scans, and if a scan of settled
//! placement shows that it is off, the pages which that scan found start anew with it. Of huge pages few look hot by chance in any
//! case, as there are few. The hit counts, too, where [`super::population`] tells what it is worth: then the lower bound of a
//! rate follows from the page's hits and from all pages.
//!
//! The estimator is ours. Rates and their bounds are computed in [`super::estimate`].

mod scans;
#[cfg(test)]
mod tests;

use scans::Scans;

use super::estimate::{Estimate, share_seen};
use super::heat::Heat;
use super::population::Population;
use crate::port::PageSize;
use crate::unit::Nanos;

/// The watch clock and the state for estimating rates from heat.
#[derive(Clone, Debug)]
pub struct Hotness {
    watched: Nanos,
    /// The evidence clock, see [`Scans`].
    clock: Nanos,
    look: Option<Scans>,
    memory_seconds: f32,
    /// See [`Hotness::set_report_interval`].
    report_seconds: f32,
    /// Time of earlier scans in the same report as the last one, in seconds of the evidence clock.
    earlier_seconds: f32,
    urgent: bool,
    timed: bool,
    /// Whether most pages that one scan finds are found by the next, too.
    repeats: bool,
    /// What is known of all base pages of slow memory.
    population: Option<Population>,
    /// Scans since `urgent` was set.
    looks: u32,
    /// The evidence clock at the last phase change.
    changed: u32,
    /// Whether a scan was reported since `urgent` was last set or cleared.
    scanned: bool,
    /// The evidence clock at the scan that showed that placement is off, and `repeats` then.
    alarmed: Option<(u32, bool)>,
}

/// Seconds, at least [`MIN_EXPOSURE_SECONDS`].
#[expect(clippy::cast_possible_truncation, reason = "an f32 is precise enough for seconds")]
fn seconds(time: Nanos) -> f32 {
    (time.as_secs_f64() as f32).max(MIN_EXPOSURE_SECONDS)
}

/// The clock's tick is 2^13 ns, so that 32 bits last for ten hours.
const TICK_SHIFT: u32 = 13;
const TICK_SECONDS: f32 = (1u64 << TICK_SHIFT) as f32 * 1e-9;
/// Hits that a page can store; above, hits and exposure are scaled down together.
const MAX_HITS: f32 = 15.0;
/// Standard deviations from the estimate to its lower bound: one page in forty is below it, and among many
/// pages some look hot by chance.
const SURELY: f32 = 2.0;
/// Scans per chance to look hot by luck: pages that start anew get another chance in the next scans. So that
/// all chances together stay as unlikely as one, the square of the bound grows by 2·ln 2 whenever their number
/// has doubled (Bonferroni, with the normal distribution's tail exp(-z²/2)).
const CHANCE_SCANS: u32 = 4;
const DOUBLED: f32 = 2.0 * std::f32::consts::LN_2;
/// Scans without an access after which a page starts anew: a page worth promoting is seen in at least two of
/// five scans, and stays unseen for this long one time in ten.
const SILENCE: f32 = 4.5;
/// The share of pages found again from which few pages look hot by chance. Ours.
const MOST_REPEAT: f64 = 0.75;
/// Prior: one scan without an access, which bounds the first rate.
pub(super) const PRIOR_SCANS: f32 = 1.0;
/// Shortest exposure: it bounds the rate of a page that is hit at once.
const MIN_EXPOSURE_SECONDS: f32 = 1e-6;

impl Default for Hotness {
    fn default() -> Self {
        Self {
            watched: Nanos::ZERO,
            clock: Nanos::ZERO,
            look: None,
            memory_seconds: 10.0,
            report_seconds: 0.0,
            earlier_seconds: 0.0,
            urgent: false,
            timed: false,
            repeats: false,
            population: None,
            looks: 0,
            changed: 0,
            scanned: false,
            alarmed: None,
        }
    }
}

impl Hotness {
    /// Advances the watch clock by `watched`.
    pub fn advance(&mut self, watched: Nanos) {
        if watched == Nanos::ZERO {
            return;
        }
        self.watched += watched;
        let memory_seconds = self.memory_seconds();
        self.clock += self.look.as_mut().map_or(watched, |look| {
            let evidence = look.evidence(watched);
            look.advance(evidence, memory_seconds);
            evidence
        });
    }

    /// The watch clock: the time during which accesses could be seen.
    pub fn watched(&self) -> Nanos {
        self.watched
    }

    /// Sets how much exposure is remembered; each tracker knows the quality of its evidence.
    pub fn set_remembered_time(&mut self, memory: Nanos) {
        self.memory_seconds = seconds(memory);
    }

    /// Sets the time in which the tracker reports a page at most once: a page without a hit for so long is not known to be
    /// colder than before.
    pub fn set_report_interval(&mut self, interval: Nanos) {
        self.report_seconds = seconds(interval);
    }

    /// While placement is off, evidence from before the change misleads: only half the memory is kept, and
    /// pages with new accesses start anew.
    pub fn set_urgent(&mut self, on: bool) {
        let scanned = std::mem::take(&mut self.scanned);
        if on && !self.urgent && scanned {
            self.alarmed = Some((self.now_ticks(), self.repeats));
        }
        self.urgent = on;
        self.looks *= u32::from(on);
    }

    /// Sets the usual share of the pages found by one scan that the next one finds, too, once it is known.
    pub fn set_found_again(&mut self, share: Option<f64>) {
        self.repeats = share.is_some_and(|share| share >= MOST_REPEAT);
    }

    /// Sets what is known of all base pages of slow memory.
    pub(crate) fn set_population(&mut self, population: Option<Population>) {
        self.population = population;
    }

    /// Sets whether the tracker measures each page's time to fault, as hint faults do.
    pub fn set_timed(&mut self, timed: bool) {
        self.timed = timed;
    }

    /// Whether times to fault are measured, so that a single hit bounds the rate.
    pub fn is_timed(&self) -> bool {
        self.timed
    }

    /// Records a phase change. With a tracker that samples, this discards earlier evidence; a page without a
    /// hit since then counts as idle since then.
    pub fn discard_samples(&mut self) {
        self.changed = self.now_ticks();
    }

    /// The evidence clock at the last phase change.
    pub fn last_change(&self) -> u32 {
        self.changed
    }

    /// Whether the tracker samples all accesses all the time, so that a page without a hit was not accessed: no scans in
    /// between, and no page that is reported once and then not for a while.
    pub fn is_sampled(&self) -> bool {
        self.look.is_none() && !self.timed && self.report_seconds <= 0.0
    }

    /// Ticks since the last phase change, if it discards earlier evidence.
    fn valid_ticks(&self) -> u32 {
        let looks = self.look.is_some();
        if looks { u32::MAX } else { self.now_ticks().wrapping_sub(self.changed) }
    }

    #[expect(clippy::cast_precision_loss, reason = "at most 32")]
    fn at_least(&self) -> f32 {
        let doublings = (self.looks / CHANCE_SCANS).max(1).ilog2();
        (SURELY * SURELY + DOUBLED * doublings as f32).sqrt()
    }

    /// The remembered exposure, in seconds of the evidence clock.
    fn memory_seconds(&self) -> f32 {
        let memory = self.memory_seconds * self.look.map_or(1.0, |look| look.scale);
        if self.urgent { memory / 2.0 } else { memory }
    }

    /// Sets the windows of scans that see a page at most once, by page size; the scans of one aggregation are
    /// reported together.
    #[expect(clippy::cast_possible_truncation, reason = "an f32 is precise enough for seconds")]
    pub fn set_windows(&mut self, window: Nanos, huge: Nanos, aggregation: Nanos) {
        let look = self.look.get_or_insert_with(|| Scans::new(window));
        look.set_windows(window, huge);
        let earlier = aggregation.saturating_sub(window);
        self.earlier_seconds = look.evidence(earlier).as_secs_f64() as f32;
        self.looks = self.looks.saturating_add(u32::from(self.urgent));
        self.scanned = true;
    }

    /// The highest measurable rate of a page of this size: one accessed in every scan may have any higher rate.
    pub fn ceiling_per_sec(&self, size: PageSize) -> f32 {
        self.look.map_or(f32::INFINITY, |look| look.of(size).ceiling_per_sec)
    }

    /// How many present windows of huge pages fit into one of base pages. A hit of a huge page stands for as many
    /// accesses as that number of hits of base pages.
    pub fn base_hits_per_huge_hit(&self) -> f32 {
        self.look.map_or(1.0, |look| look.base.seconds / look.huge.seconds)
    }

    /// Whether estimates depend on the page size.
    pub fn separates_sizes(&self) -> bool {
        self.look.is_some_and(|look| look.base.mean_seconds != look.huge.mean_seconds)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the stamp wraps by design")]
    fn now_ticks(&self) -> u32 {
        (self.clock.0 >> TICK_SHIFT) as u32
    }

    /// The page's heat after a hit.
    #[cfg(test)]
    fn hit(&self, heat: Heat, hits: f32, exposure: Option<Nanos>) -> Heat {
        self.hit_update(PageSize::Base).apply(heat, hits, exposure, false)
    }

    /// How hits change the heat of pages of this size now.
    pub fn hit_update(&self, size: PageSize) -> HitUpdate {
        let counts = |repeats: bool| repeats || size == PageSize::Huge;
        let first_counts = self.population_of(size).is_some_and(Population::stands_out)
            || counts(self.repeats) && self.looks <= CHANCE_SCANS;
        HitUpdate {
            now: self.now_ticks(),
            valid_ticks: self.valid_ticks(),
            exposure_scale: self.look.map_or(1.0, |look| look.scale),
            looks_per_sec: self.look.map_or(f32::INFINITY, |look| look.per_sec),
            alarmed: self.alarmed.filter(|(_, repeats)| counts(*repeats)).map(|(at, _)| at),
            waking_hits: if first_counts { 1.0 } else { 0.0 },
            silence_looks: if self.urgent && self.look.is_some() { SILENCE } else { f32::INFINITY },
            earlier_seconds: self.earlier_seconds,
            memory_seconds: self.memory_seconds(),
        }
    }

    /// The heat of a page whose exposure starts now.
    pub fn new_page(&self) -> Heat {
        Heat { hits: 0.0, exposure_seconds: 0.0, stamp: self.now_ticks() }
    }

    /// The heat of a page of this size with a known rate: the most hits that can be stored, in the time that they
    /// take.
    pub fn heat_of_rate(&self, rate_per_sec: f32, size: PageSize) -> Heat {
        let rate = rate_per_sec.max(f32::MIN_POSITIVE);
        let (memory, stamp) = (self.memory_seconds(), self.now_ticks());
        let Some(look) = self.look else {
            let hits = MAX_HITS.min(rate * memory);
            return Heat { hits, exposure_seconds: hits / rate, stamp };
        };
        let p = share_seen(rate * look.of(size).mean_seconds).max(f32::MIN_POSITIVE);
        let hits = MAX_HITS.min(p * (memory * look.per_sec + PRIOR_SCANS));
        let looks = (hits / p - PRIOR_SCANS).max(0.0);
        Heat { hits, exposure_seconds: looks / look.per_sec, stamp }
    }

    /// Whether a page without a hit for these seconds of the evidence clock starts anew, see [`Hotness::set_urgent`].
    fn is_silent(&self, since: f32) -> bool {
        self.urgent && self.look.is_some_and(|look| since * look.per_sec > SILENCE)
    }

    fn population_of(&self, size: PageSize) -> Option<Population> {
        self.population.filter(|_| size == PageSize::Base)
    }

    /// The present estimate of the rate of a page of this size.
    pub fn estimate(&self, heat: Heat, size: PageSize) -> Estimate {
        let (mut heat, since) = valid(heat, self.now_ticks(), self.valid_ticks());
        if self.is_silent(since) {
            (heat.hits, heat.exposure_seconds) = (0.0, 0.0);
        }
        let watched = heat.exposure_seconds + (since - self.report_seconds).max(0.0);
        let (hits, seconds) = fade(heat.hits, watched, self.memory_seconds());
        let seconds = seconds.max(MIN_EXPOSURE_SECONDS);
        let (ceiling_per_sec, at_least) = (self.ceiling_per_sec(size), self.at_least());
        let Some(look) = self.look else {
            return Estimate {
                hits,
                seconds,
                looks: 0.0,
                ceiling_per_sec,
                at_least,
                population: None,
            };
        };
        let looks = seconds * look.per_sec + PRIOR_SCANS;
        let seconds = seconds * look.of(size).watched;
        let population = self.population_of(size);
        Estimate { hits: hits.min(looks), seconds, looks, ceiling_per_sec, at_least, population }
    }
}

/// How hits change heat: the same for all pages until the clock advances.
#[derive(Clone, Copy, Debug)]
pub struct HitUpdate {
    now: u32,
    /// See [`Hotness::valid_ticks`].
    valid_ticks: u32,
    /// Seconds of the evidence clock per second of a known exposure.
    exposure_scale: f32,
    /// Scans per second of the evidence clock; infinite where every access counts.
    looks_per_sec: f32,
    /// See [`Hotness::set_urgent`].
    alarmed: Option<u32>,
    /// Scans without an access after which a page starts anew.
    silence_looks: f32,
    /// What the hit that ends the idle time counts for.
    waking_hits: f32,
    /// See [`Hotness::set_windows`].
    earlier_seconds: f32,
    memory_seconds: f32,
}

impl HitUpdate {
    /// The heat of a page after these hits. `exposure` is how long it was watched before them, if the tracker knows;
    /// otherwise all watched time since its last hit counts. With `all_count`, so does the hit that ends an idle time.
    #[expect(clippy::cast_possible_truncation, reason = "an f32 is precise enough for seconds")]
    #[inline]
    pub fn apply(
        &self,
        heat: Heat,
        new_hits: f32,
        exposure: Option<Nanos>,
        all_count: bool,
    ) -> Heat {
        let exposure = exposure.map(|known| known.as_secs_f64() as f32 * self.exposure_scale);
        let valid_ticks = if exposure.is_none() { self.valid_ticks } else { u32::MAX };
        let (mut heat, since) = valid(heat, self.now, valid_ticks);
        if Some(heat.stamp) == self.alarmed {
            (heat.hits, heat.exposure_seconds) = (1.0, 1.0 / self.looks_per_sec);
        }
        // A second look found a page again that was idle before the first. Idle time says nothing of what it is now.
        if let Some(second) = exposure.filter(|_| self.looks_per_sec.is_finite())
            && heat.hits < 2.0
            && heat.exposure_seconds * self.looks_per_sec > SILENCE
        {
            return self.bounded(1.0 + new_hits, 1.0 / self.looks_per_sec + second);
        }
        let idle_looks = (since - self.earlier_seconds) * self.looks_per_sec;
        if exposure.is_none() && !all_count && idle_looks > self.silence_looks {
            // One of the hits ended the idle time; if it counts, so does its scan.
            let (hits, scans) = ((new_hits - 1.0).max(0.0), self.waking_hits);
            return self.bounded(hits + scans, self.earlier_seconds + scans / self.looks_per_sec);
        }
        let watched = heat.exposure_seconds + exposure.unwrap_or(since);
        let (hits, seconds) = fade(heat.hits, watched, self.memory_seconds);
        self.bounded(hits + new_hits, seconds.max(MIN_EXPOSURE_SECONDS))
    }

    /// The new heat. No scan sees a page twice, and the first may have begun before the page was watched.
    fn bounded(&self, hits: f32, exposure_seconds: f32) -> Heat {
        let hits = hits.min(exposure_seconds * self.looks_per_sec + 1.0);
        let scale = if hits > MAX_HITS { MAX_HITS / hits } else { 1.0 };
        Heat { hits: hits * scale, exposure_seconds: exposure_seconds * scale, stamp: self.now }
    }
}

/// The valid part of a page's heat at tick `now`, and the exposure since its last hit, in seconds.
#[expect(clippy::cast_precision_loss, reason = "decayed long before 24 bits are exceeded")]
fn valid(heat: Heat, now: u32, valid_ticks: u32) -> (Heat, f32) {
    let ticks = now.wrapping_sub(heat.stamp);
    let heat = if ticks > valid_ticks { Heat::default() } else { heat };
    (heat, ticks.min(valid_ticks) as f32 * TICK_SECONDS)
}

/// Keeps at most the remembered exposure; hits decay exponentially beyond it.
fn fade(hits: f32, seconds: f32, memory: f32) -> (f32, f32) {
    if seconds <= memory {
        return (hits, seconds);
    }
    (hits * exp_of_minus((seconds - memory) / memory), memory)
}

/// exp(-x) for x >= 0 within a few hundredths, in basic arithmetic only, so that it is the same on every
/// machine.
fn exp_of_minus(x: f32) -> f32 {
    let root = 1.0 / (1.0 + x / 8.0);
    let squared = root * root;
    let fourth = squared * squared;
    fourth * fourth
}
