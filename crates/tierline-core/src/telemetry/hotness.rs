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

use crate::page::Heat;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PageTable;
    use crate::port::{PageKind, PageSize, Region, SpaceEvent, SpaceId, Vpn};
    use crate::rng::Rng;
    use proptest::prelude::*;

    /// By hand: of pages that get 10 a second in the mean, one idle for 0.9 s is expected to get 1 / (0.1 + 0.9), one hit
    /// after 0.1 s 2 / (0.1 + 0.1).
    #[test]
    fn the_longer_idle_the_colder_and_at_first_as_hot_as_the_others() {
        let near = |a: f32, b: f32| assert!((a - b).abs() < 1e-4, "{a} is not {b}");
        near(expected_rate(10.0, 0.0, 0.0), 10.0);
        near(expected_rate(10.0, 0.0, 0.9), 1.0);
        near(expected_rate(10.0, 1.0, 0.1), 10.0);
        near(expected_rate(f32::INFINITY, 0.0, 0.5), 2.0);
        assert!(expected_rate(f32::INFINITY, 0.0, 0.0).is_infinite(), "nothing is known");
    }

    /// The heat as a page table keeps it.
    fn packed(heat: Heat) -> Heat {
        let (mut table, space) = (PageTable::default(), SpaceId(1));
        let (size, kind) = (PageSize::Base, PageKind::Anonymous);
        let region = Region { space, start: Vpn(0), base_pages: 1, size, kind };
        table.apply(SpaceEvent::Mapped(region));
        let page = table.find(space, Vpn(0)).expect("mapped");
        table.set_heat(page, heat);
        table.heat(page)
    }

    #[test]
    fn the_rate_is_hits_over_exposure() {
        let hotness = Hotness::default();
        let mut heat = hotness.newborn();
        for _ in 0..4 {
            heat = hotness.hit(heat, 1.0, Some(Nanos::from_millis(10)));
        }
        let got = hotness.estimate(heat);
        assert!((got.rate_per_sec() - 100.0).abs() < 1.0, "{got:?}");
        assert!((got.at_least_per_sec() - 38.2).abs() < 0.1, "(4 + 2 - 2·√5) / 40 ms");
    }

    /// Three looks of 20 ms and the one in vain: Wilson's lower bound of 3 in 4 at two deviations is
    /// (3 + 2 - 2·√(3/4 + 1)) / 8.
    #[test]
    fn looks_that_always_see_a_page_say_that_it_is_busy_not_how_busy() {
        let mut hotness = Hotness::default();
        hotness.look_for(Nanos::from_millis(20), Nanos::from_millis(20));
        let (mut always, never) = (hotness.newborn(), hotness.newborn());
        for _ in 0..3 {
            hotness.advance(Nanos::from_millis(20));
            always = hotness.hit(always, 1.0, None);
        }
        let (always, never) = (hotness.estimate(always), hotness.estimate(never));
        let of_share = |p: f32| -(1.0 - p).ln() / 0.02;
        assert!((always.at_least_per_sec() / of_share(0.2943) - 1.0).abs() < 0.02, "{always:?}");
        assert!(never.at_least_per_sec() == 0.0 && never.at_most_per_sec() > 5.0, "{never:?}");
    }

    #[test]
    fn a_page_that_wakes_up_is_believed_within_a_few_looks() {
        let mut hotness = Hotness::default();
        let look = Nanos::from_millis(20);
        hotness.look_for(look, look);
        hotness.remember(look * 16);
        hotness.hurry(true);
        let mut heat = hotness.newborn();
        hotness.advance(look * 16);
        for _ in 0..4 {
            hotness.advance(look);
            heat = hotness.hit(heat, 1.0, None);
        }
        assert!(hotness.estimate(heat).at_least_per_sec() > 15.0, "{:?}", hotness.estimate(heat));
    }

    /// Reports of twenty looks, each of which sees the page sixteen times: four in vain are no silence.
    #[test]
    fn looks_that_are_told_of_together_are_no_silence() {
        let mut hotness = Hotness::default();
        let look = Nanos::from_millis(10);
        hotness.look_for(look, look * 20);
        hotness.remember(look * 100);
        hotness.hurry(true);
        let mut heat = hotness.newborn();
        let mut bounds = Vec::new();
        for silent in [200, 0, 0] {
            hotness.advance(look * (silent + 20));
            heat = hotness.hit(heat, 16.0, None);
            bounds.push(hotness.estimate(heat).at_least_per_sec());
        }
        let of_share = |p: f32| -(1.0 - p).ln() / 0.01;
        assert!(bounds.iter().all(|&bound| bound > of_share(0.4)), "{bounds:?}");
        assert!(bounds.iter().all(|&bound| bound < of_share(0.8)), "{bounds:?}");
    }

    /// Pages that every tenth look sees, for 256 looks: those that ever pass for a page of a fifth of the
    /// highest rate.
    #[test]
    fn luck_does_not_add_up_while_it_hurries() {
        let look = Nanos::from_millis(20);
        let lucky = |hurry_anew_every: u32| {
            let (mut rng, mut hotness) = (Rng::new(11), Hotness::default());
            hotness.look_for(look, look);
            hotness.remember(look * 16);
            let mut heats = vec![hotness.newborn(); 1_000];
            let mut ever = vec![false; heats.len()];
            for i in 0..256 {
                hotness.hurry(i % hurry_anew_every != 0);
                hotness.look_for(look, look);
                hotness.advance(look);
                for (heat, ever) in heats.iter_mut().zip(&mut ever) {
                    if rng.below(10) == 0 {
                        *heat = hotness.hit(*heat, 1.0, None);
                        let bound = hotness.estimate(*heat).at_least_per_sec();
                        *ever |= bound > 0.2 * hotness.ceiling_per_sec();
                    }
                }
            }
            ever.iter().filter(|&&ever| ever).count()
        };
        let (many, one) = (lucky(8), lucky(1_000));
        assert!(
            many > 4 * one && one < 50,
            "{many} by luck with a new alert every eight looks, {one} in a single one"
        );
    }

    #[test]
    fn a_known_rate_is_believed_and_replaces_what_was() {
        let hotness = Hotness::default();
        for rate in [0.0, 3.0, 1e6] {
            let got = hotness.estimate(hotness.known(rate)).rate_per_sec();
            assert!((got - rate).abs() <= 1e-3 * rate + 1e-30, "{rate}: {got}");
        }
    }

    #[test]
    fn time_without_watching_does_not_cool_a_page() {
        let mut hotness = Hotness::default();
        let heat = hotness.hit(hotness.newborn(), 2.0, Some(Nanos::from_millis(20)));
        let before = hotness.estimate(heat);
        assert_eq!(hotness.estimate(heat), before);
        hotness.advance(Nanos::from_millis(20));
        assert!(hotness.estimate(heat).rate_per_sec() < 0.6 * before.rate_per_sec());
    }

    /// A page of 100 hits a second falls silent, another one wakes up, and somebody says that there was a
    /// change: half a second tells them apart. Without the word the first is believed for longer.
    #[test]
    fn what_samples_told_before_a_change_is_void() {
        let tenth = Nanos::from_millis(100);
        let told = |change: bool| {
            let mut hotness = Hotness::default();
            let (mut old, mut new) = (hotness.newborn(), hotness.newborn());
            for _ in 0..100 {
                hotness.advance(tenth);
                old = hotness.hit(old, 10.0, None);
            }
            hotness.advance(tenth);
            if change {
                hotness.change();
            }
            for _ in 0..5 {
                hotness.advance(tenth);
                new = hotness.hit(new, 2.0, None);
            }
            (hotness.estimate(old).at_most_per_sec(), hotness.estimate(new).at_least_per_sec())
        };
        let (old, new) = told(true);
        assert!(old < new, "{old} {new}");
        let (old, new) = told(false);
        assert!(old > new, "{old} {new}");
    }

    #[test]
    fn a_page_that_turned_cold_is_forgotten_within_its_memory() {
        let mut hotness = Hotness::default();
        hotness.remember(Nanos::from_secs(1));
        let heat = hotness.hit(hotness.newborn(), 15.0, Some(Nanos::from_millis(100)));
        hotness.advance(Nanos::from_secs(20));
        assert!(hotness.estimate(heat).rate_per_sec() < 1.0);
    }

    /// Page A is accessed 100 times a second, page B 3 times: windows of 20 ms tell them apart.
    #[test]
    fn windows_tell_hot_from_warm_whatever_the_pauses_between_them() {
        let mut rng = Rng::new(7);
        let mut hotness = Hotness::default();
        hotness.remember(Nanos::from_millis(320));
        let mut heats = [hotness.newborn(); 2];
        for _ in 0..64 {
            hotness.advance(Nanos::from_millis(20));
            for (heat, rate) in heats.iter_mut().zip([100.0, 3.0]) {
                if rng.exponential(rate) < 0.020 {
                    *heat = hotness.hit(*heat, 1.0, None);
                }
            }
        }
        let [hot, warm] = heats.map(|heat| hotness.estimate(heat));
        assert!(hot.at_least_per_sec() > 20.0 && warm.at_least_per_sec() < 5.0, "{hot:?} {warm:?}");
    }

    /// A page that every look sees, another that every second one does: whatever becomes of windows, the first is
    /// the busier, and its rate is that of the mean window.
    #[test]
    fn longer_windows_do_not_make_the_busiest_page_look_coldest() {
        for (first, then) in
            [(1, 20), (20, 1)].map(|(a, b)| (Nanos::from_millis(a), Nanos::from_millis(b)))
        {
            let mut hotness = Hotness::default();
            let mut heats = [hotness.newborn(); 2];
            let mut rates = Vec::new();
            for i in 0..240 {
                let window = if i < 120 { first } else { then };
                hotness.remember(window * 16);
                hotness.look_for(window, window);
                hotness.advance(window);
                heats[0] = hotness.hit(heats[0], 1.0, None);
                if i % 2 == 0 {
                    heats[1] = hotness.hit(heats[1], 1.0, None);
                }
                let [busy, half] = heats.map(|heat| hotness.estimate(heat).rate_per_sec());
                assert!(i < 4 || busy > 1.3 * half && half > 0.0, "{i}: {busy} {half}");
                rates.push((busy, half));
            }
            let half = std::f32::consts::LN_2;
            for (window, got) in [(first, rates[119].1), (then, rates[239].1)] {
                let expected = half / seconds(window);
                assert!((got / expected - 1.0).abs() < 0.25, "{got} is not about {expected}");
            }
        }
    }

    /// The clock that evidence follows is the watch clock while windows stay as they are.
    #[test]
    fn windows_that_do_not_change_cost_no_precision() {
        let mut hotness = Hotness::default();
        for _ in 0..100 {
            hotness.look_for(Nanos(20_000_001), Nanos(20_000_001));
            hotness.advance(Nanos(20_000_001));
            assert_eq!(hotness.clock, hotness.watched);
            assert_eq!(hotness.ceiling_per_sec(), 1.0 / seconds(Nanos(20_000_001)));
        }
    }

    /// What a tracker reports at a time: the length of its looks, how many they are, and in how many of them the page
    /// was seen. Some trackers report more hits than looks.
    #[derive(Clone, Copy, Debug)]
    struct Report {
        window: Nanos,
        looks: u64,
        hits: [f32; 2],
        hurry: bool,
        memory: u64,
    }

    fn reports() -> impl Strategy<Value = Vec<Report>> {
        let hits = prop_oneof![Just(0.0f32), 0.0f32..3.0, 0.0f32..20_000.0];
        let window = prop_oneof![0u64..1_000, 1_000_000u64..1_000_000_000, Just(20_000_000)];
        let report = (window, 1u64..40, hits, 0.0f32..=1.0, any::<bool>(), 0u64..200);
        let report = report.prop_map(|(window, looks, hits, part, hurry, memory)| Report {
            window: Nanos(window),
            looks,
            hits: [hits, hits * part],
            hurry,
            memory,
        });
        prop::collection::vec(report, 1..60)
    }

    proptest! {
        #[test]
        fn rates_are_sound_whatever_the_windows(reports in reports()) {
            let mut hotness = Hotness::default();
            let mut heats = [hotness.newborn(); 2];
            for Report { window, looks, hits, hurry, memory } in reports {
                hotness.hurry(hurry);
                hotness.remember(window * memory);
                hotness.look_for(window, window * looks);
                hotness.advance(window * looks);
                for (heat, hits) in heats.iter_mut().zip(hits) {
                    // Where both pages were seen, so that both were silent for as long.
                    if hits > 0.0 {
                        *heat = hotness.hit(*heat, hits, None);
                    }
                    *heat = packed(*heat);
                }
                // Bounds of hardly any hits are small differences of large numbers.
                let near = |rate: f32| rate * 1.0001 + 1e-6 * hotness.ceiling_per_sec();
                let [more, less] = heats.map(|heat| hotness.estimate(heat));
                for e in [more, less] {
                    prop_assert!((0.0..=1.0).contains(&(e.hits / e.looks)), "{e:?}");
                    let [least, rate, most] =
                        [e.at_least_per_sec(), e.rate_per_sec(), e.at_most_per_sec()];
                    prop_assert!(least >= 0.0 && least <= near(rate), "{e:?}");
                    prop_assert!(rate <= near(most) && most.is_finite(), "{e:?}");
                    let ceiling = MOST_ACCESSES * hotness.ceiling_per_sec();
                    prop_assert!(most <= near(ceiling), "{e:?}");
                    prop_assert!(e.expected_per_sec(1.0).is_finite());
                }
                prop_assert!(less.rate_per_sec() <= near(more.rate_per_sec()), "{more:?} {less:?}");
                let lower = [more, less].map(|e| e.at_least_per_sec());
                prop_assert!(lower[1] <= near(lower[0]), "{more:?} {less:?}");
                let upper = [more, less].map(|e| e.at_most_per_sec());
                prop_assert!(upper[1] <= near(upper[0]), "{more:?} {less:?}");
            }
        }

        /// A known rate up to the most that looks tell of comes back.
        #[test]
        fn a_known_rate_is_believed_by_looks_too(window in 1_000u64..1_000_000_000, accesses in 0.0f32..4.0) {
            let mut hotness = Hotness::default();
            hotness.look_for(Nanos(window), Nanos(window));
            let rate = accesses * hotness.ceiling_per_sec();
            let got = hotness.estimate(hotness.known(rate)).rate_per_sec();
            let expected = rate.min(MOST_ACCESSES * hotness.ceiling_per_sec());
            prop_assert!((got - expected).abs() <= 0.01 * expected + 1e-30, "{rate}: {got}");
        }

        #[test]
        fn estimates_stay_finite_and_ordered(
            steps in prop::collection::vec((0u64..2_000_000_000, 0.1f32..20_000.0), 1..40),
        ) {
            let mut hotness = Hotness::default();
            let mut heat = hotness.newborn();
            for (watched, hits) in steps {
                hotness.advance(Nanos(watched));
                heat = hotness.hit(heat, hits, None);
                let e = hotness.estimate(heat);
                prop_assert!(e.rate_per_sec().is_finite() && e.at_least_per_sec() >= 0.0);
                prop_assert!(e.rate_per_sec() < e.at_most_per_sec());
                prop_assert!(e.at_least_per_sec() <= e.rate_per_sec() && e.hits <= MAX_HITS * 1.001);
            }
        }
    }
}
