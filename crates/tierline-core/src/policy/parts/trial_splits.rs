// SPDX-License-Identifier: Apache-2.0
//! Trial splits: huge pages are split to learn how their accesses are spread, where no sample names a base page.
//!
//! A few huge pages of a program that are accessed are split. If the accesses of most of them go to few base pages
//! ([`crate::telemetry::recapture`]), so do those of the others, presumably: splitting goes on, and those of the next that
//! the world looks into are evidence, too. Otherwise the next trial comes later. It is done only where fast memory is full,
//! and slow memory serves many of the program's accesses for longer than a change takes.
//!
//! Source: ours, with all constants. MEMTIS (SOSP 2023) splits what samples show to be skewed; accessed bits show nothing within
//! a huge page.

use std::collections::{BTreeMap, BTreeSet};

use crate::page::PageIdx;
use crate::policy::view::View;
use crate::port::{SpaceId, Vpn};
use crate::rng::Rng;
use crate::telemetry::recapture::{Few, few};
use crate::unit::Nanos;

/// The last pages that count as evidence: more than this of them must have few busy base pages.
const OF_LAST: u32 = 8;
const MOST_OF: u32 = 4;
/// Huge pages split per tick: of a trial as many as the world looks into at once, more when the evidence is complete.
const TRIAL: usize = 1;
const SURE: usize = 16;
/// Time until the next trial of a program after one that showed even accesses; twice as long each time, up to the second.
const PAUSE: Nanos = Nanos::from_secs(30);
const LONGEST_PAUSE: Nanos = Nanos::from_secs(3600);
/// Share of a program's accesses that slow memory serves from which a trial is worth its cost, if it does so for that long: after
/// a change it does until the hot pages have been promoted.
const SLOW: f64 = 0.2;
const PATIENCE: Nanos = Nanos::from_secs(2);
/// Weight of the newest report in that share.
const WEIGHT: f64 = 0.25;
/// Huge pages of a program that wait to be split, at most.
const WAITING: usize = 4096;

/// What is known of a program.
#[derive(Debug)]
struct Trials {
    /// Huge pages that were accessed.
    waiting: BTreeSet<Vpn>,
    /// Pages that were split since the last pause, and one bit for each of the last: few base pages were busy.
    judged: u32,
    verdicts: u8,
    not_before: Nanos,
    pause: Nanos,
    /// Its accesses that fast and slow memory served, averaged, and since when too many were slow.
    served: [f64; 2],
    slow_since: Option<Nanos>,
}

impl Default for Trials {
    fn default() -> Self {
        let (waiting, not_before) = (BTreeSet::new(), Nanos::ZERO);
        let (served, slow_since) = ([0.0; 2], None);
        Self { waiting, judged: 0, verdicts: 0, not_before, pause: PAUSE, served, slow_since }
    }
}

impl Trials {
    /// Takes in its accesses by tier.
    fn count_served(&mut self, now: Nanos, by_tier: &[f64]) {
        let new = [by_tier[0], by_tier[1..].iter().sum()];
        for (served, new) in self.served.iter_mut().zip(new) {
            *served += WEIGHT * (new - *served);
        }
        let [fast, slow] = self.served;
        let is_slow = slow > SLOW * (fast + slow);
        self.slow_since = is_slow.then(|| self.slow_since.unwrap_or(now));
    }

    /// Whether splitting may be worth its cost now.
    fn is_needed(&self, now: Nanos) -> bool {
        self.slow_since.is_some_and(|since| now >= since + PATIENCE)
    }

    /// Takes one of the waiting pages, somewhere in the program's memory.
    fn take_one(&mut self, rng: &mut Rng) -> Option<Vpn> {
        let (first, last) = (*self.waiting.first()?, *self.waiting.last()?);
        let from = Vpn(first.0 + rng.below(last.0 - first.0 + 1));
        let one = *self.waiting.range(from..).next()?;
        self.waiting.remove(&one);
        Some(one)
    }

    /// Whether the evidence is complete.
    fn is_sure(&self) -> bool {
        self.judged >= OF_LAST
    }

    /// Takes in whether a page that was split has few busy base pages. One that could not be split, and one of a trial that
    /// showed nothing, has not.
    fn record(&mut self, now: Nanos, is_few: bool) {
        self.verdicts = self.verdicts << 1 | u8::from(is_few);
        self.judged += 1;
        if self.is_sure() && self.verdicts.count_ones() <= MOST_OF {
            let pause = self.pause;
            *self = Self {
                not_before: now + pause,
                pause: (pause * 2).min(LONGEST_PAUSE),
                served: self.served,
                ..Self::default()
            };
        }
    }
}

/// The trials of all programs.
#[derive(Debug)]
pub struct TrialSplits {
    programs: BTreeMap<SpaceId, Trials>,
    requested: Vec<(SpaceId, Vpn)>,
    rng: Rng,
}

impl Default for TrialSplits {
    fn default() -> Self {
        let (programs, requested) = Default::default();
        Self { programs, requested, rng: Rng::new(0x5917) }
    }
}

impl TrialSplits {
    /// Takes in what the splits requested in the last tick have shown. Returns those with few busy base pages.
    pub fn judge(&mut self, view: &View<'_>) -> Vec<(SpaceId, Vpn, Few)> {
        let mut found = Vec::new();
        let spreads = view.evidence.spreads.unwrap_or_default();
        for (space, vpn) in self.requested.drain(..) {
            let spread = spreads.iter().find(|spread| (spread.space, spread.vpn) == (space, vpn));
            let few = spread.and_then(few);
            if let Some(trials) = self.programs.get_mut(&space)
                && (spread.is_some() || !trials.is_sure())
            {
                trials.record(view.now, few.is_some());
            }
            let few = few.filter(|_| has_parts(view, space, vpn));
            found.extend(few.map(|few| (space, vpn, few)));
        }
        found
    }

    /// Requests splits of huge pages that were hit, if that may be worth its cost; at most `at_most`.
    pub fn request(&mut self, view: &mut View<'_>, fast_is_full: bool, at_most: usize) {
        if view.evidence.spreads.is_none() {
            return;
        }
        self.take_hits(view);
        if !fast_is_full {
            return;
        }
        let programs = self.programs.iter_mut().filter(|(_, trials)| trials.is_needed(view.now));
        for (&space, trials) in programs {
            let most = if trials.is_sure() { SURE } else { TRIAL.min(at_most) };
            let at_most = most.min(view.machine.costs.splits_per_tick());
            while view.orders.split.len() < at_most
                && let Some(vpn) = trials.take_one(&mut self.rng)
            {
                let pages = &*view.memory.pages;
                let page = pages.find(space, vpn).filter(|&page| pages.is_huge(page));
                if let Some(page) = page.filter(|page| !view.orders.split.contains(page)) {
                    view.orders.split.push(page);
                    self.requested.push((space, vpn));
                }
            }
        }
    }

    /// Lets huge pages that were hit wait for a split.
    fn take_hits(&mut self, view: &View<'_>) {
        let pages = &*view.memory.pages;
        for hits in view.evidence.hits_of {
            if let Some(trials) = self.programs.get_mut(&hits.space) {
                trials.count_served(view.now, &hits.by_tier);
            }
        }
        for hit in view.evidence.hits.iter().filter(|hit| hit.base_page.is_none()) {
            let is_splittable = |page: &PageIdx| !pages.state(*page).is_refused();
            let page = Some(hit.page).filter(is_splittable);
            let Some(at) = page.and_then(|page| pages.locate(page)) else { continue };
            if !self.programs.contains_key(&at.space) {
                self.programs.retain(|space, _| pages.spaces().any(|known| known == *space));
            }
            let trials = self.programs.entry(at.space).or_default();
            if view.now >= trials.not_before && trials.waiting.len() < WAITING {
                trials.waiting.insert(at.vpn);
            }
        }
    }
}

/// Whether the huge page there was split.
pub(super) fn has_parts(view: &View<'_>, space: SpaceId, vpn: Vpn) -> bool {
    let pages = &view.memory.pages;
    pages.find(space, vpn).is_some_and(|page| !pages.is_huge(page))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::parts::stage::Stage;
    use crate::port::{PartBits, Spread};
    use crate::telemetry::SpaceHits;
    use crate::tier::TierId;

    const HUGE_PAGES: u64 = 64;

    /// All pages are huge, in slow memory, and were just hit.
    fn stage() -> Stage {
        let mut stage = Stage::of_huge_pages(HUGE_PAGES, TierId(1));
        stage.hits = stage.all.iter().map(|&page| Stage::hit(page)).collect();
        stage.hits_of = vec![served(10.0, 90.0)];
        stage.spreads = Some(Vec::new());
        stage
    }

    fn served(fast: f64, slow: f64) -> SpaceHits {
        let mut by_tier = [0.0; TierId::MAX];
        by_tier[..2].copy_from_slice(&[fast, slow]);
        SpaceHits { space: SpaceId(1), by_tier }
    }

    /// What two windows find of a page of which every 16th base page is busy, or all base pages alike.
    fn spread(vpn: Vpn, is_few: bool) -> Spread {
        let few = [0x0001_0001_0001_0001; 8];
        let even: [PartBits; 2] = [[0x1111_1111_1111_1111; 8], [0x2222_2222_2222_2222; 8]];
        let accessed = if is_few { vec![few; 2] } else { even.to_vec() };
        Spread { space: SpaceId(1), vpn, accessed, window: Nanos::from_millis(1) }
    }

    /// Runs a tick; returns how many pages were split, and how many of those before were found to have few busy base pages.
    fn run_tick(stage: &mut Stage, trials: &mut TrialSplits, is_few: bool) -> [usize; 2] {
        stage.now += Nanos::from_millis(10);
        let found = trials.judge(&stage.view()).len();
        trials.request(&mut stage.view(), true, 4);
        let requested = std::mem::take(&mut stage.split);
        let vpn = |&page: &PageIdx| stage.pages.locate(page).expect("mapped").vpn;
        let spreads = requested.iter().map(|page| spread(vpn(page), is_few)).collect();
        stage.spreads = Some(spreads);
        [requested.iter().filter(|&&page| stage.pages.split(page)).count(), found]
    }

    /// Runs ticks; returns how many pages were split and, of them, found to have few busy base pages.
    fn run(stage: &mut Stage, trials: &mut TrialSplits, is_few: bool) -> (usize, usize) {
        let ticks = (0..400).map(|_| run_tick(stage, trials, is_few));
        ticks.fold((0, 0), |(split, found), tick| (split + tick[0], found + tick[1]))
    }

    #[test]
    fn where_few_base_pages_are_busy_all_that_are_hit_are_split() {
        let all = usize::try_from(HUGE_PAGES).unwrap();
        assert_eq!(run(&mut stage(), &mut TrialSplits::default(), true), (all, all));
    }

    #[test]
    fn where_accesses_are_even_a_trial_ends_soon() {
        assert_eq!(run(&mut stage(), &mut TrialSplits::default(), false), (8, 0));
    }

    #[test]
    fn nothing_is_split_without_need_or_where_the_world_does_not_look() {
        let mut enough = stage();
        enough.hits_of = vec![served(95.0, 5.0)];
        assert_eq!(run(&mut enough, &mut TrialSplits::default(), true), (0, 0));
        let (mut stage, mut trials) = (stage(), TrialSplits::default());
        trials.request(&mut stage.view(), false, 4);
        assert!(stage.split.is_empty(), "there is room in fast memory");
        stage.spreads = None;
        trials.request(&mut stage.view(), true, 4);
        assert!(stage.split.is_empty(), "nothing can be learnt");
    }

    /// The kernel does not split pages of several processes.
    #[test]
    fn pages_that_cannot_be_split_end_a_trial() {
        let (mut stage, mut trials) = (stage(), TrialSplits::default());
        let mut requested = 0;
        for tick in 0..400 {
            stage.now = Nanos::from_millis(tick * 10);
            assert!(trials.judge(&stage.view()).is_empty());
            trials.request(&mut stage.view(), true, 4);
            requested += std::mem::take(&mut stage.split).len();
        }
        assert_eq!(requested, 8);
    }

    /// A page that was just moved may be in use, and cannot be split then: that says nothing of its accesses.
    #[test]
    fn once_the_evidence_is_complete_pages_that_cannot_be_split_change_nothing() {
        let (mut stage, mut trials) = (stage(), TrialSplits::default());
        while !trials.programs.get(&SpaceId(1)).is_some_and(Trials::is_sure) {
            run_tick(&mut stage, &mut trials, true);
        }
        for _ in 0..100 {
            stage.now += Nanos::from_millis(10);
            stage.spreads = Some(Vec::new());
            trials.judge(&stage.view());
            trials.request(&mut stage.view(), true, 4);
            assert!(!std::mem::take(&mut stage.split).is_empty());
        }
    }

    #[test]
    fn each_trial_in_vain_doubles_the_time_until_the_next() {
        let mut trials = Trials::default();
        let mut pauses = (0..10).map(|_| {
            (0..OF_LAST).for_each(|_| trials.record(Nanos::ZERO, false));
            trials.not_before
        });
        assert_eq!(pauses.next(), Some(PAUSE));
        assert_eq!(pauses.next(), Some(PAUSE * 2));
        assert_eq!(pauses.last(), Some(LONGEST_PAUSE));
    }
}
