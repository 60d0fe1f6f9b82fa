// SPDX-License-Identifier: Apache-2.0
//! How long heat lasts, by program.
//!
//! A page that passes the test for a promotion is taken to keep its rate for the whole payback time. A page of a scan passes
//! when the scan reaches it, and a moment later it is cold. So some of the pages of each program that pass are followed
//! for two seconds, whether they are moved or not. What lasts of their heat is the share of the program's accesses that goes
//! to them, over the share when they passed. It is a factor on all rates of the program.
//!
//! Shares are compared, not rates: where memory is loaded, all accesses of a program become fewer, and no page has cooled.
//! A phase change ends what is followed: that all pages of a program cool at once does not tell how long the heat of
//! one page lasts.
//!
//! Only a tracker that samples the accesses to all tiers all the time tells this within two seconds; otherwise, all factors are one.
//! (Ours.)

use std::collections::{BTreeMap, VecDeque};

use super::stall_cost::Weights;
use crate::page::PageIdx;
use crate::policy::view::View;
use crate::port::SpaceId;
use crate::telemetry::is_on_panel;
use crate::unit::Nanos;

/// How long a page is followed. Ours.
const OLDEST: Nanos = Nanos::from_secs(2);
/// Ends of the ages that are told apart. Ours.
const AGES: [Nanos; 5] = [
    Nanos::from_millis(125),
    Nanos::from_millis(250),
    Nanos::from_millis(500),
    Nanos::from_secs(1),
    OLDEST,
];
/// Pages of a program that are followed at a time, at most, and how many may begin at once. Ours.
const FOLLOWED: u64 = 256;
const AT_ONCE: usize = 32;
/// Hits that count as much as the presumption that no more heat is lost than at a lower age. Ours.
const PRESUMED: f64 = 32.0;
/// Time constant with which earlier hits are forgotten. Ours.
const REMEMBERED: Nanos = Nanos::from_secs(5);
/// Time constant of the average of a program's rate of hits. Ours.
const RATE_TIME: Nanos = Nanos::from_millis(500);
/// The least factor, and what is not told from one. Ours.
const LEAST: f64 = 0.02;
const ALL: f64 = 0.9;
/// Hits so few that a program is forgotten. Ours.
const FORGOTTEN: f64 = 1e-3;

/// A page that is followed.
#[derive(Clone, Copy, Debug)]
struct Page {
    space: SpaceId,
    since: Nanos,
    /// The part of the program's hits that it had then.
    share: f64,
}

impl Page {
    /// The number of its age, if it is to be followed further.
    fn age(&self, now: Nanos) -> Option<usize> {
        let age = now.saturating_sub(self.since);
        AGES.iter().position(|&end| age < end)
    }
}

/// What is known of a program.
#[derive(Clone, Copy, Debug, Default)]
struct Program {
    /// By age, the hits of the pages that are followed: as many as at their first share, and those that came.
    promised: [f64; AGES.len()],
    came: [f64; AGES.len()],
    /// Its hits, and the watched seconds of them, decayed.
    hits: f64,
    watched: f64,
    /// Its hits in this tick.
    hits_now: f64,
    followed: usize,
    last_begun: Nanos,
}

impl Program {
    /// Ends a tick.
    fn end(&mut self, passed: Nanos, watched: f64) {
        let sums = self.promised.iter_mut().chain(&mut self.came);
        sums.for_each(|sum| *sum *= kept(passed, REMEMBERED));
        self.hits = self.hits * kept(passed, RATE_TIME) + std::mem::take(&mut self.hits_now);
        self.watched = self.watched * kept(passed, RATE_TIME) + watched;
    }

    /// The part of its heat that lasts.
    fn lasting(&self) -> f64 {
        let ages = self.came.iter().zip(self.promised);
        let lasting = ages.fold(1.0, |lasting: f64, (came, promised)| {
            ((came + PRESUMED * lasting) / (promised + PRESUMED)).min(1.0)
        });
        lasting.max(LEAST)
    }
}

/// The programs, and the pages that are followed.
#[derive(Clone, Debug, Default)]
pub struct Persistence {
    programs: BTreeMap<SpaceId, Program>,
    pages: BTreeMap<PageIdx, Page>,
    /// The same pages, oldest first.
    oldest: VecDeque<PageIdx>,
    updated: Nanos,
    last_change: u32,
}

impl Persistence {
    /// Takes in the hits of a tick.
    pub fn update(&mut self, view: &View<'_>) {
        let last_change = view.memory.hotness.last_change();
        let changed = std::mem::replace(&mut self.last_change, last_change) != last_change;
        while let Some(page) = self.oldest.front()
            && (changed || self.pages.get(page).and_then(|page| page.age(view.now)).is_none())
        {
            if let Some(page) = self.pages.remove(page)
                && let Some(program) = self.programs.get_mut(&page.space)
            {
                program.followed -= 1;
            }
            self.oldest.pop_front();
        }
        let watched = view.evidence.watched.as_secs_f64();
        if watched == 0.0 || !is_seen(view) {
            return;
        }
        let passed = view.now.saturating_sub(std::mem::replace(&mut self.updated, view.now));
        for of_space in view.evidence.hits_of {
            let program = self.programs.entry(of_space.space).or_default();
            program.hits_now = of_space.by_tier.iter().sum();
        }
        for page in self.pages.values() {
            if let Some((program, age)) = find(&mut self.programs, page, view.now) {
                program.promised[age] += page.share * program.hits_now;
            }
        }
        for (page, hits) in view.evidence.panel {
            let page = self.pages.get(page);
            if let Some((program, age)) =
                page.and_then(|page| find(&mut self.programs, page, view.now))
            {
                program.came[age] += f64::from(*hits);
            }
        }
        self.programs.retain(|_, program| {
            program.end(passed, watched);
            program.followed > 0 || program.hits > FORGOTTEN
        });
    }

    /// Whether a page can be followed.
    pub fn can_follow(&self, view: &View<'_>, page: PageIdx) -> bool {
        let is_reported = || is_on_panel(page, view.memory.pages.is_huge(page));
        is_seen(view) && is_reported() && !self.pages.contains_key(&page)
    }

    /// Follows a page that has this rate, unless enough pages of its program are followed.
    pub fn follow(&mut self, view: &View<'_>, page: PageIdx, rate_per_sec: f32) {
        let Some(at) = view.memory.pages.locate(page) else { return };
        let Some(program) = self.programs.get_mut(&at.space) else { return };
        let is_early = view.now.saturating_sub(program.last_begun) < Nanos(OLDEST.0 / FOLLOWED);
        if program.followed >= AT_ONCE && is_early {
            return;
        }
        let share = (f64::from(rate_per_sec) * program.watched / program.hits).min(1.0);
        program.last_begun = view.now;
        program.followed += 1;
        self.pages.insert(page, Page { space: at.space, since: view.now, share });
        self.oldest.push_back(page);
    }

    /// Weights that also count what lasts of the heat of programs.
    pub fn weights(&self, weights: &Weights) -> Weights {
        let mut weights = weights.clone();
        for (&space, program) in &self.programs {
            let lasting = program.lasting();
            if lasting < ALL {
                weights.multiply(space, lasting);
            }
        }
        weights
    }
}

/// Whether pages without a hit were not accessed, wherever they are.
fn is_seen(view: &View<'_>) -> bool {
    view.memory.hotness.is_sampled() && !view.evidence.fast_untracked
}

/// The program of a page that is followed, and the number of the page's age.
fn find<'a>(
    programs: &'a mut BTreeMap<SpaceId, Program>,
    page: &Page,
    now: Nanos,
) -> Option<(&'a mut Program, usize)> {
    Some((programs.get_mut(&page.space)?, page.age(now)?))
}

/// What is kept of a sum that is forgotten with this time constant, if little time has passed. In basic arithmetic only, so that it
/// is the same on every machine.
fn kept(passed: Nanos, time: Nanos) -> f64 {
    1.0 / (1.0 + passed.as_secs_f64() / time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::parts::stage::Stage;
    use crate::telemetry::SpaceHits;
    use crate::tier::TierId;

    const TICK: Nanos = Nanos::from_millis(10);
    const PAGES: usize = 64;

    /// What lasts of the heat of a program with 64 pages that are hit once a tick, and 64 with `hits(tick)`, which pass the test
    /// while they have a hit a tick.
    fn lasting(ticks: u64, hits: impl Fn(u64) -> f32, at: impl Fn(&mut Stage, u64)) -> f32 {
        let mut stage = Stage::of_huge_pages(2 * PAGES as u64, TierId(1));
        let pages = stage.all.clone();
        let mut persistence = Persistence::default();
        for tick in 0..ticks {
            stage.now += TICK;
            at(&mut stage, tick);
            let hits = hits(tick);
            let of_page = |i| if i < PAGES { hits } else { 1.0 };
            stage.panel = (0..).zip(&pages).map(|(i, &page)| (page, of_page(i))).collect();
            let mut by_tier = [0.0; TierId::MAX];
            by_tier[1] = PAGES as f64 * f64::from(1.0 + hits);
            stage.hits_of = vec![SpaceHits { space: SpaceId(1), by_tier }];
            let mut view = stage.view();
            view.evidence.watched = TICK;
            persistence.update(&view);
            for &page in pages[..PAGES].iter().filter(|_| hits >= 1.0) {
                if persistence.can_follow(&view, page) {
                    persistence.follow(&view, page, 100.0);
                }
            }
        }
        let weights = persistence.weights(&Weights::EQUAL);
        weights.of(&stage.view().memory, pages[0])
    }

    fn nothing(_: &mut Stage, _: u64) {}

    #[test]
    fn heat_that_stays_lasts_and_heat_that_goes_does_not() {
        assert!(lasting(400, |_| 1.0, nothing) > 0.95);
        let gone = lasting(400, |tick| if tick < 110 { 1.0 } else { 0.0 }, nothing);
        assert!(gone < 0.15, "{gone}");
        // Of 2 accesses a tick and pair of pages one is theirs; later 0.25 of 1.25, which is 0.4 of that share.
        let part = lasting(310, |tick| if tick < 110 { 1.0 } else { 0.25 }, nothing);
        assert!((0.35..0.5).contains(&part), "{part}");
    }

    #[test]
    fn a_program_that_is_slowed_down_has_not_cooled() {
        let mut stage = Stage::of_huge_pages(1, TierId(1));
        let page = stage.all[0];
        let mut persistence = Persistence::default();
        for tick in 0..600 {
            stage.now += TICK;
            let hits = if tick < 300 { 16.0 } else { 1.0 };
            stage.panel = vec![(page, hits)];
            let by_tier = [f64::from(hits); TierId::MAX];
            stage.hits_of = vec![SpaceHits { space: SpaceId(1), by_tier }];
            let mut view = stage.view();
            view.evidence.watched = TICK;
            persistence.update(&view);
            if persistence.can_follow(&view, page) {
                persistence.follow(&view, page, 100.0 * hits);
            }
        }
        assert_eq!(persistence.weights(&Weights::EQUAL), Weights::EQUAL);
    }

    #[test]
    fn a_phase_change_ends_what_is_followed() {
        let cold = |tick| if tick < 110 { 1.0 } else { 0.0 };
        let noticed = lasting(400, cold, |stage, tick| {
            stage.hotness.advance(TICK);
            if tick == 110 {
                stage.hotness.discard_samples();
            }
        });
        assert!(noticed > 0.95, "{noticed}");
    }

    #[test]
    fn nothing_is_followed_where_accesses_are_not_sampled() {
        let scans = |stage: &mut Stage, _| stage.hotness.set_windows(TICK, TICK, TICK);
        let reports = |stage: &mut Stage, _| stage.hotness.set_report_interval(TICK);
        let faults = |stage: &mut Stage, _| stage.hotness.set_timed(true);
        let gone = |tick| if tick < 110 { 1.0 } else { 0.0 };
        let all: [fn(&mut Stage, u64); 3] = [scans, reports, faults];
        assert!(all.iter().all(|tracker| lasting(400, gone, tracker) > 0.999));
    }
}
