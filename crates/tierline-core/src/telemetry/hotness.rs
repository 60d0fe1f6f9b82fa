// SPDX-License-Identifier: Apache-2.0
//! Hotness: how many accesses a second a page is believed to get.
//!
//! One estimator serves every tracker, because all of them say the same thing in the end: *so many hits
//! in so much time of watching*. A sampler that takes one access in P watches a P-th of the time; an accessed-bit scanner only in the
//! window between clearing and reading the bits; a hint fault ends a watch that began when the page was
//! armed. Time in which nobody watched says nothing and costs nothing, so "was not seen" is never confused with
//! "was not accessed".
//!
//! The rate is the maximum-likelihood estimate for random (Poisson) accesses: hits over exposure, and where
//! a look of length `w` sees a page once at most, `-ln(1 - k/n) / w` for `k` hits in `n` looks.
//!
//! The length of looks changes. So that `k` never exceeds `n`, evidence is kept in looks: the clock that stamps and
//! exposures follow advances by the same time for every look, whatever its length, and `w` is the mean length of the
//! looks remembered. The rate is then never too high in the mean, as `1 - exp(-rate · w)` is concave in `w` (Jensen's
//! inequality). Where every access counts, and where all looks have the same length, that clock is the watch clock.
//!
//! Old evidence fades: no more than a certain exposure is remembered ([`Hotness::remember`]), and hits fade
//! exponentially with what is beyond it. Pages that are not hit are not visited: their exposure is the advance of
//! the watch clock since their stamp, added when somebody asks. While placement is off ([`Hotness::hurry`]), a page that is hit after several looks in
//! vain begins anew: what it was before says nothing of what it is now, and the hit that ended the silence
//! proves nothing by itself.
//!
//! The estimator is ours. Its bounds are Wilson's score interval (E. B. Wilson, 1927), which holds for few looks as
//! for many and in the limit for a Poisson count: `(k + z²/2 ± z·√(k(1 - k/n) + z²/4)) / (n + z²)`.

#[cfg(test)]
mod tests;

use super::heat::Heat;
use crate::unit::Nanos;

/// The watch clock and what it takes to read a page's heat by it.
#[derive(Clone, Debug)]
pub struct Hotness {
    watched: Nanos,
    /// The clock of all evidence, see [`Look`].
    clock: Nanos,
    look: Option<Look>,
    memory_seconds: f32,
    /// Looks before the last one that are reported together with it, in seconds of the evidence clock.
    earlier_seconds: f32,
    hurry: bool,
    timed: bool,
    /// Looks since it hurries.
    looks: u32,
    /// The watch clock at the last change of what is hot.
    changed: u32,
}

/// Looks that each see a page once at most.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// By how much each of them advances the evidence clock: the length of the first.
    unit: Nanos,
    /// Looks in a second of the evidence clock.
    per_sec: f32,
    /// The length of the present ones.
    window: Nanos,
    /// Seconds of the evidence clock in a second of the present ones.
    scale: f32,
    /// The mean length of those remembered.
    mean_seconds: f32,
    /// How much of the evidence clock that mean covers.
    covered_seconds: f32,
    /// Looks of that length in a second.
    ceiling_per_sec: f32,
    /// Seconds of watching in a second of the evidence clock, in that mean.
    watched: f32,
}

impl Look {
    fn new(window: Nanos) -> Self {
        let unit = window.max(SHORTEST);
        let per_sec = 1.0 / seconds(unit);
        Self {
            unit,
            per_sec,
            window: unit,
            scale: 1.0,
            mean_seconds: seconds(unit),
            covered_seconds: 0.0,
            ceiling_per_sec: per_sec,
            watched: 1.0,
        }
    }

    fn set_window(&mut self, window: Nanos) {
        self.window = window.max(SHORTEST);
        self.scale = seconds(self.unit) / seconds(self.window);
    }

    /// What so much time of present looks adds to the evidence clock.
    fn evidence(&self, watched: Nanos) -> Nanos {
        let nanos = u128::from(watched.0) * u128::from(self.unit.0) / u128::from(self.window.0);
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Takes present looks into the mean; `memory_seconds` is that of the evidence clock.
    fn advance(&mut self, evidence: Nanos, memory_seconds: f32) {
        let added = seconds(evidence);
        self.covered_seconds = (self.covered_seconds + added).min(memory_seconds).max(added);
        let share = added / self.covered_seconds;
        self.mean_seconds += (seconds(self.window) - self.mean_seconds) * share;
        self.ceiling_per_sec = 1.0 / self.mean_seconds;
        self.watched = self.mean_seconds / seconds(self.unit);
    }
}

/// Above zero: no less than [`SHORTEST`].
#[expect(clippy::cast_possible_truncation, reason = "seconds need no more than an f32")]
fn seconds(time: Nanos) -> f32 {
    (time.as_secs_f64() as f32).max(MIN_EXPOSURE_SECONDS)
}

/// What is believed of a page's access rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Hits the estimate rests on, faded.
    pub hits: f32,
    /// Watched for them.
    seconds: f32,
    /// Looks in that time, the one in vain included; zero where every access counts.
    looks: f32,
    ceiling_per_sec: f32,
    /// Standard deviations down to the lower bound.
    surely: f32,
}

impl Estimate {
    /// Accesses per second, the most likely value.
    pub fn rate_per_sec(&self) -> f32 {
        self.rate(self.hits)
    }

    /// Accesses per second to be expected of it, as one of pages that get `mean` (see [`expected_rate`]): of those that seem
    /// the hottest after few hits most only seem so.
    pub fn expected_per_sec(&self, mean: f32) -> f32 {
        expected_rate(mean, self.hits, self.seconds)
    }

    /// Accesses per second that the page gets at least, as far as can be told.
    pub fn at_least_per_sec(&self) -> f32 {
        self.rate(self.score(-self.surely))
    }

    /// Accesses per second that it gets at most, likewise; not zero for a page never seen.
    pub fn at_most_per_sec(&self) -> f32 {
        self.rate(self.score(AT_MOST))
    }

    /// The rate that shows as so many hits.
    fn rate(&self, hits: f32) -> f32 {
        if self.looks > 0.0 {
            minus_ln_of_rest(hits / self.looks) * self.ceiling_per_sec
        } else {
            hits / self.seconds
        }
    }

    /// Wilson's score bound, `z` standard deviations off, in hits.
    fn score(&self, z: f32) -> f32 {
        let per_look = if self.looks > 0.0 { 1.0 / self.looks } else { 0.0 };
        let unseen = (1.0 - self.hits * per_look).max(0.0);
        let (half, square) = (z * z / 2.0, z * z);
        let spread = z * (self.hits * unseen + half / 2.0).sqrt();
        ((self.hits + half + spread) / (1.0 + square * per_look)).max(0.0)
    }
}

/// The clock's tick is 2^13 ns, so that 32 bits last for ten hours of watching.
const TICK_SHIFT: u32 = 13;
const TICK_SECONDS: f32 = (1u64 << TICK_SHIFT) as f32 * 1e-9;
/// Hits a page can hold; above, hits and exposure are scaled down together.
const MAX_HITS: f32 = 15.0;
/// Standard deviations from the estimate down to its lower bound: one page in forty is below. There are
/// many pages, and each has a chance to look hot by luck.
const SURELY: f32 = 2.0;
/// Looks that make one such chance: pages that begin anew have another in the next ones. So that all
/// chances together stay as unlikely as one, the square of the bound grows by 2·ln 2 whenever their number has doubled
/// (Bonferroni, with the normal distribution's tail exp(-z²/2)).
const CHANCE_LOOKS: u32 = 4;
const DOUBLED: f32 = 2.0 * std::f32::consts::LN_2;
/// Standard deviations up to its upper bound: one page in ten is above.
const AT_MOST: f32 = 1.28;
/// Looks in vain after which a page begins anew: one worth a place is seen in two of five looks and
/// more, and goes unseen for so long one time in ten.
const SILENCE: f32 = 4.5;
/// Looks in vain that every page begins with: most pages are not hot, and all of a few looks prove no
/// infinite rate.
const PRIOR_LOOKS: f32 = 1.0;
/// No exposure is shorter than this: a hit that comes at once does not prove an infinite rate.
const MIN_EXPOSURE_SECONDS: f32 = 1e-6;
/// No look is shorter.
const SHORTEST: Nanos = Nanos(1_000);
/// Accesses in one look's time that are the most [`minus_ln_of_rest`] tells of: its value at one.
const MOST_ACCESSES: f32 = 2.5;

impl Default for Hotness {
    fn default() -> Self {
        Self {
            watched: Nanos::ZERO,
            clock: Nanos::ZERO,
            look: None,
            memory_seconds: 10.0,
            earlier_seconds: 0.0,
            hurry: false,
            timed: false,
            looks: 0,
            changed: 0,
        }
    }
}

impl Hotness {
    /// Lets the watch clock run on by `watched`.
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

    /// The watch clock: for how long all pages were being watched.
    pub fn watched(&self) -> Nanos {
        self.watched
    }

    /// Sets how much exposure is remembered; each tracker knows what its evidence is worth.
    pub fn remember(&mut self, memory: Nanos) {
        self.memory_seconds = seconds(memory);
    }

    /// While placement is off, what was seen before the change misleads: half the memory is kept, and
    /// pages that wake up begin anew.
    pub fn hurry(&mut self, on: bool) {
        self.hurry = on;
        self.looks *= u32::from(on);
    }

    /// Hears whether the tracker times every page's wait for its hit, as hint faults do.
    pub fn time(&mut self, timed: bool) {
        self.timed = timed;
    }

    /// Whether a page's wait for its hit was timed, so that one hit alone bounds its rate.
    pub fn is_timed(&self) -> bool {
        self.timed
    }

    /// Hears that what is hot has changed: where samples tell of it, all that was seen before is void, and a
    /// page that was not hit since has not been hit in all that time.
    pub fn change(&mut self) {
        self.changed = self.now_ticks();
    }

    /// Ticks back to the last change of what is hot, where what was seen before it is void.
    fn valid_ticks(&self) -> u32 {
        let looks = self.look.is_some();
        if looks { u32::MAX } else { self.now_ticks().wrapping_sub(self.changed) }
    }

    #[expect(clippy::cast_precision_loss, reason = "at most 32")]
    fn surely(&self) -> f32 {
        let doublings = (self.looks / CHANCE_LOOKS).max(1).ilog2();
        (SURELY * SURELY + DOUBLED * doublings as f32).sqrt()
    }

    /// What is remembered, in seconds of the evidence clock.
    fn memory_seconds(&self) -> f32 {
        let memory = self.memory_seconds * self.look.map_or(1.0, |look| look.scale);
        if self.hurry { memory / 2.0 } else { memory }
    }

    /// Begins looks of that length, each of which sees a page once at most; those of an aggregation are told of
    /// together.
    #[expect(clippy::cast_possible_truncation, reason = "seconds need no more than an f32")]
    pub fn look_for(&mut self, window: Nanos, aggregation: Nanos) {
        let look = self.look.get_or_insert_with(|| Look::new(window));
        look.set_window(window);
        let earlier = aggregation.saturating_sub(window);
        self.earlier_seconds = look.evidence(earlier).as_secs_f64() as f32;
        self.looks = self.looks.saturating_add(u32::from(self.hurry));
    }

    /// The highest rate that can be seen: a page found touched in every look may get any more.
    pub fn ceiling_per_sec(&self) -> f32 {
        self.look.map_or(f32::INFINITY, |look| look.ceiling_per_sec)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the stamp wraps by design")]
    fn now_ticks(&self) -> u32 {
        (self.clock.0 >> TICK_SHIFT) as u32
    }

    /// What the page's heat becomes when it is hit.
    #[cfg(test)]
    fn hit(&self, heat: Heat, hits: f32, exposure: Option<Nanos>) -> Heat {
        self.renewal(hits, exposure).of(heat)
    }

    /// What becomes of pages that are hit. `exposure` is how long each of them was being
    /// watched for this hit, where the tracker knows; else all watching since its last hit counts.
    #[expect(clippy::cast_possible_truncation, reason = "seconds need no more than an f32")]
    pub fn renewal(&self, hits: f32, exposure: Option<Nanos>) -> Renewal {
        let wakes = self.hurry && exposure.is_none();
        let scale = self.look.map_or(1.0, |look| look.scale);
        Renewal {
            hits,
            exposure_seconds: exposure.map(|known| known.as_secs_f64() as f32 * scale),
            now: self.now_ticks(),
            valid_ticks: if exposure.is_none() { self.valid_ticks() } else { u32::MAX },
            looks_per_sec: self.look.map_or(f32::INFINITY, |look| look.per_sec),
            silence_looks: if wakes && self.look.is_some() { SILENCE } else { f32::INFINITY },
            earlier_seconds: self.earlier_seconds,
            memory_seconds: self.memory_seconds(),
        }
    }

    /// The heat of a page that starts being watched now.
    pub fn newborn(&self) -> Heat {
        Heat { hits: 0.0, exposure_seconds: 0.0, stamp: self.now_ticks() }
    }

    /// The heat of a page whose rate is known: with as many hits as are ever believed, in the time that they
    /// take.
    pub fn known(&self, rate_per_sec: f32) -> Heat {
        let rate = rate_per_sec.max(f32::MIN_POSITIVE);
        let (memory, stamp) = (self.memory_seconds(), self.now_ticks());
        let Some(look) = self.look else {
            let hits = MAX_HITS.min(rate * memory);
            return Heat { hits, exposure_seconds: hits / rate, stamp };
        };
        let p = share_seen(rate * look.mean_seconds).max(f32::MIN_POSITIVE);
        let hits = MAX_HITS.min(p * (memory * look.per_sec + PRIOR_LOOKS));
        let looks = (hits / p - PRIOR_LOOKS).max(0.0);
        Heat { hits, exposure_seconds: looks / look.per_sec, stamp }
    }

    /// What is believed of a page now.
    pub fn estimate(&self, heat: Heat) -> Estimate {
        let (heat, since) = valid(heat, self.now_ticks(), self.valid_ticks());
        let watched = heat.exposure_seconds + since;
        let (hits, seconds) = fade(heat.hits, watched, self.memory_seconds());
        let seconds = seconds.max(MIN_EXPOSURE_SECONDS);
        let (ceiling_per_sec, surely) = (self.ceiling_per_sec(), self.surely());
        let Some(look) = self.look else {
            return Estimate { hits, seconds, looks: 0.0, ceiling_per_sec, surely };
        };
        let looks = seconds * look.per_sec + PRIOR_LOOKS;
        let seconds = seconds * look.watched;
        Estimate { hits: hits.min(looks), seconds, looks, ceiling_per_sec, surely }
    }
}

/// What a hit does to heat: the same for all pages that one sample tells of.
#[derive(Clone, Copy, Debug)]
pub struct Renewal {
    hits: f32,
    exposure_seconds: Option<f32>,
    now: u32,
    /// See [`Hotness::valid_ticks`].
    valid_ticks: u32,
    /// Looks in a second of the evidence clock; infinite where every access counts.
    looks_per_sec: f32,
    /// Looks in vain after which a page begins anew.
    silence_looks: f32,
    /// See [`Hotness::look_for`].
    earlier_seconds: f32,
    memory_seconds: f32,
}

impl Renewal {
    /// What becomes of this page's heat.
    #[inline]
    pub fn of(&self, heat: Heat) -> Heat {
        let (heat, since) = valid(heat, self.now, self.valid_ticks);
        if (since - self.earlier_seconds) * self.looks_per_sec > self.silence_looks {
            // One of the hits ended the silence.
            return self.believed((self.hits - 1.0).max(0.0), self.earlier_seconds);
        }
        let watched = heat.exposure_seconds + self.exposure_seconds.unwrap_or(since);
        let (hits, seconds) = fade(heat.hits, watched, self.memory_seconds);
        self.believed(hits + self.hits, seconds.max(MIN_EXPOSURE_SECONDS))
    }

    /// No look sees a page twice, and the first may have begun before the page was watched.
    fn believed(&self, hits: f32, exposure_seconds: f32) -> Heat {
        let hits = hits.min(exposure_seconds * self.looks_per_sec + 1.0);
        let scale = if hits > MAX_HITS { MAX_HITS / hits } else { 1.0 };
        Heat { hits: hits * scale, exposure_seconds: exposure_seconds * scale, stamp: self.now }
    }
}

/// What a page gets that had so many hits in so many seconds, of pages that get `mean` a second: the expectation where
/// rates are distributed exponentially (a Gamma distribution's conjugate prior).
pub fn expected_rate(mean: f32, hits: f32, seconds: f32) -> f32 {
    (hits + 1.0) / (1.0 / mean + seconds)
}

/// What still holds of a page's heat at tick `now`, and seconds of watching since.
#[expect(clippy::cast_precision_loss, reason = "faded long before 24 bits are exceeded")]
fn valid(heat: Heat, now: u32, valid_ticks: u32) -> (Heat, f32) {
    let ticks = now.wrapping_sub(heat.stamp);
    let heat = if ticks > valid_ticks { Heat::default() } else { heat };
    (heat, ticks.min(valid_ticks) as f32 * TICK_SECONDS)
}

/// Keeps at most the remembered exposure; hits fade exponentially with what is beyond it.
fn fade(hits: f32, seconds: f32, memory: f32) -> (f32, f32) {
    if seconds <= memory {
        return (hits, seconds);
    }
    (hits * exp_of_minus((seconds - memory) / memory), memory)
}

/// `-ln(1 - p)` for `0 <= p <= 1`, within 1 % up to a half and 8 % up to 0.8; finite above, where a few looks
/// say little: a Padé approximant.
fn minus_ln_of_rest(p: f32) -> f32 {
    p * (6.0 - p) / (6.0 - 4.0 * p)
}

/// Its inverse: the share of looks that see a page which gets so many accesses in a look's time.
fn share_seen(accesses: f32) -> f32 {
    let accesses = accesses.min(MOST_ACCESSES);
    let half = 3.0 + 2.0 * accesses;
    6.0 * accesses / (half + (half * half - 6.0 * accesses).sqrt())
}

/// exp(-x) for x >= 0 within a few hundredths, by basic arithmetic alone, so that it is the same on
/// every machine.
fn exp_of_minus(x: f32) -> f32 {
    let root = 1.0 / (1.0 + x / 8.0);
    let squared = root * root;
    let fourth = squared * squared;
    fourth * fourth
}
