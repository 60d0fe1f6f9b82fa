// SPDX-License-Identifier: Apache-2.0
//! Second chance: which pages of a tier are cold, found by asking after them, where the tracker does not see them.
//!
//! Some pages are asked after, which begins to watch them, and asked after again later: those accessed meanwhile
//! have their second chance, the others are cold. What a cold page gets is expected from how long it was idle, and
//! from what pages of its tier get in the mean. Where cold ones are used up, the next pages are watched for half the
//! time. Where they are not cold enough for whoever wants their place, they are watched on, for twice the time,
//! while others may have it. So pages are watched for as long as it takes to tell the cold from those that would
//! come instead. Where too few are idle for the shortest time, as huge pages never are, those that are there the
//! longest follow, no better or worse than the mean.
//!
//! Source: F. J. Corbató's second chance (A Paging Experiment with the Multics System, 1968), as in the kernel's
//! inactive lists; that the time between two looks follows what is wanted is ours, and so are the constants.

use super::hand::Met;
use crate::page::PageIdx;
use crate::policy::view::View;
use crate::telemetry::hotness::expected_rate;
use crate::tier::TierId;
use crate::unit::Nanos;

/// The shortest and the longest time for which pages are watched.
const SHORTEST: Nanos = Nanos::from_millis(10);
const LONGEST: Nanos = Nanos::from_secs(10);
/// Pages watched together, at least.
const FEW: usize = 512;
/// And for every one that was used of the last.
const OVERSAMPLE: usize = 8;
/// No more than one in so much time: a look takes the kernel a microsecond, and there are two.
const PACE: Nanos = Nanos(20_000);

/// Pages watched, and those found cold.
#[derive(Debug)]
pub struct SecondChance {
    watched: Vec<PageIdx>,
    /// From when on.
    since: Nanos,
    /// For how long, before they are asked after again.
    window: Nanos,
    /// For how long they were, where the answers come with the next tick.
    asked: Option<Nanos>,
    /// Not accessed for `idle` before `told`.
    cold: Vec<Met>,
    idle: Nanos,
    told: Nanos,
    /// Cold pages used, of those watched last.
    used: usize,
    /// Somebody wants a colder page than there is, or found none.
    wanted: bool,
}

impl Default for SecondChance {
    fn default() -> Self {
        Self {
            watched: Vec::new(),
            since: Nanos::ZERO,
            window: Nanos::from_millis(100),
            asked: None,
            cold: Vec::new(),
            idle: Nanos::ZERO,
            told: Nanos::ZERO,
            used: 0,
            wanted: false,
        }
    }
}

impl SecondChance {
    /// Takes in the answers and asks after what is wanted. Returns how many more pages of `tier` are to be watched.
    pub fn listen(&mut self, view: &mut View<'_>, tier: TierId) -> Option<usize> {
        if let Some(idle) = self.asked.take() {
            self.take_in(view, tier, idle);
            self.wanted &= self.cold.is_empty();
        }
        if !std::mem::take(&mut self.wanted) {
            return None;
        }
        if self.watched.is_empty() {
            let longer = self.idle * 2;
            if self.cold.is_empty() || longer > LONGEST {
                self.cold.clear();
                self.window = Nanos(self.window.0 / 2).max(SHORTEST);
                let pace = view.now.saturating_sub(self.since).0 / PACE.0;
                let used = std::mem::take(&mut self.used);
                let count = (used * OVERSAMPLE).max(FEW);
                return Some(count.min(usize::try_from(pace).unwrap_or(count)));
            }
            self.window = longer;
            self.watched = self.cold.iter().map(|met| met.page).collect();
        }
        if view.now >= self.since + self.window {
            let idle = view.now.saturating_sub(self.since);
            view.ask.extend(self.watched.drain(..).map(|page| (page, idle)));
            self.asked = Some(idle);
        }
        None
    }

    /// Begins to watch these pages.
    pub fn watch(&mut self, view: &mut View<'_>, pages: Vec<PageIdx>) {
        view.ask.extend(pages.iter().map(|&page| (page, Nanos::ZERO)));
        (self.watched, self.since) = (pages, view.now);
    }

    fn take_in(&mut self, view: &View<'_>, tier: TierId, idle: Nanos) {
        let met = |page: PageIdx, idle: Nanos| {
            let mean = view.mean_rate(tier, view.pages.locate(page)?.size);
            #[expect(clippy::cast_possible_truncation, reason = "rates are f32")]
            let rate_per_sec = expected_rate(mean, 0.0, idle.as_secs_f64() as f32);
            rate_per_sec.is_finite().then_some(Met { rate_per_sec, page })
        };
        let still = |page: PageIdx| {
            let state = view.pages.state(page);
            state.tier() == Some(tier) && state.is_listed() && !state.is_refused()
        };
        let answers = view.answers.iter().filter(|(page, _)| still(*page));
        let (busy, cold): (Vec<_>, Vec<_>) =
            answers.filter_map(|&(page, accessed)| Some((page, accessed?))).partition(|it| it.1);
        self.cold.clear();
        if self.window == SHORTEST {
            let longest_there = busy.into_iter().rev();
            self.cold.extend(longest_there.filter_map(|(page, _)| met(page, Nanos::ZERO)));
        }
        self.cold.extend(cold.into_iter().rev().filter_map(|(page, _)| met(page, idle)));
        (self.idle, self.told) = (idle, view.now);
    }

    /// A cold page, once each; what was found cold is good for as long as it was watched.
    pub fn coldest(&mut self, now: Nanos) -> Option<Met> {
        let good = now <= self.told + self.idle;
        let met = if good { self.cold.pop() } else { None };
        self.used += usize::from(met.is_some());
        self.wanted |= met.is_none();
        met
    }

    /// Takes back one that is not cold enough.
    pub fn give_back(&mut self, met: Met) {
        self.cold.push(met);
        self.used -= 1;
        self.wanted = true;
    }

    /// Whether even those watched for the shortest time are used up: to look longer would find none the sooner.
    pub fn is_exhausted(&self) -> bool {
        self.window == SHORTEST && self.cold.is_empty()
    }

    /// Whether more may be found.
    pub fn is_looking(&self) -> bool {
        self.wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::all_fast;

    #[test]
    fn what_was_found_cold_is_good_for_as_long_as_it_was_watched() {
        let found = |ms| {
            let met = Met { rate_per_sec: 1.0, page: all_fast(1).1[0] };
            let (idle, told) = (Nanos::from_millis(100), Nanos::from_secs(1));
            let mut chance =
                SecondChance { cold: vec![met], idle, told, ..SecondChance::default() };
            (chance.coldest(Nanos::from_millis(ms)).is_some(), chance.is_looking())
        };
        assert_eq!(found(1_100), (true, false));
        assert_eq!(found(1_101), (false, true));
    }
}
