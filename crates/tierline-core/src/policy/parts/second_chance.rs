// SPDX-License-Identifier: Apache-2.0
//! Second chance: finds the cold pages of a tier that the tracker does not see, by checking accessed bits.
//!
//! The first check of a page clears its accessed bit; a second one, a window later, reads it. Accessed pages
//! get a second chance, the others are cold. The expected rate of a cold page follows from its idle time and
//! the mean rate of its tier. If the cold pages are used up, the next window is half as long. If they are not
//! cold enough for the waiting candidates, they are watched for another window of twice the length, while they
//! may still be taken. So windows are as long as it takes to separate cold pages from those that would replace
//! them. If too few pages are idle even in the shortest window, as with huge pages, the pages that are there
//! longest follow, at the tier's mean rate.
//!
//! Source: F. J. Corbató's second chance (A Paging Experiment with the Multics System, 1968), as in the
//! kernel's inactive lists. Ours: the adaptation of the window, and all constants.

use super::hand::ExaminedPage;
use crate::page::PageIdx;
use crate::policy::view::View;
use crate::telemetry::estimate::expected_rate;
use crate::tier::TierId;
use crate::unit::Nanos;

/// The shortest and the longest window.
const SHORTEST: Nanos = Nanos::from_millis(10);
const LONGEST: Nanos = Nanos::from_secs(10);
/// Pages watched in one window, at least.
const FEW: usize = 512;
/// Pages watched per page that was used of the last window.
const OVERSAMPLE: usize = 8;
/// Least time per watched page: a check takes the kernel a microsecond, and there are two.
const PACE: Nanos = Nanos(20_000);

/// Pages watched, and those found cold.
#[derive(Debug)]
pub struct SecondChance {
    watched: Vec<PageIdx>,
    /// Start of the window.
    since: Nanos,
    /// Length of the window.
    window: Nanos,
    /// The actual window of pages that were checked in this tick; answers come with the next.
    asked: Option<Nanos>,
    /// Pages not accessed for `idle` before `found_at`.
    cold: Vec<ExaminedPage>,
    idle: Nanos,
    found_at: Nanos,
    /// Cold pages used, of the last window.
    used: usize,
    /// A colder page was requested than there is, or none was left.
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
            found_at: Nanos::ZERO,
            used: 0,
            wanted: false,
        }
    }
}

impl SecondChance {
    /// Takes in answers and checks pages whose window is over. Returns how many more pages of `tier` to watch.
    pub fn update(&mut self, view: &mut View<'_>, tier: TierId) -> Option<usize> {
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
            self.watched = self.cold.iter().map(|examined_page| examined_page.page).collect();
        }
        if view.now >= self.since + self.window {
            let idle = view.now.saturating_sub(self.since);
            view.orders.questions.extend(self.watched.drain(..).map(|page| (page, idle)));
            self.asked = Some(idle);
        }
        None
    }

    /// Starts a window with these pages.
    pub fn watch(&mut self, view: &mut View<'_>, pages: Vec<PageIdx>) {
        view.orders.questions.extend(pages.iter().map(|&page| (page, Nanos::ZERO)));
        (self.watched, self.since) = (pages, view.now);
    }

    fn take_in(&mut self, view: &View<'_>, tier: TierId, idle: Nanos) {
        let examined_page = |page: PageIdx, idle: Nanos| {
            let size = view.memory.pages.size_of(page);
            let mean = view.mean_rate(tier, size);
            #[expect(clippy::cast_possible_truncation, reason = "rates are f32")]
            let rate_per_sec = expected_rate(mean, 0.0, idle.as_secs_f64() as f32);
            rate_per_sec.is_finite().then_some(ExaminedPage { rate_per_sec, page, size })
        };
        let still = |page: PageIdx| {
            let state = view.memory.pages.state(page);
            state.tier() == Some(tier) && state.is_listed() && !state.is_refused()
        };
        let answers = view.evidence.answers.iter().filter(|(page, _)| still(*page));
        let (busy, cold): (Vec<_>, Vec<_>) =
            answers.filter_map(|&(page, accessed)| Some((page, accessed?))).partition(|it| it.1);
        self.cold.clear();
        if self.window == SHORTEST {
            let longest_there = busy.into_iter().rev();
            self.cold
                .extend(longest_there.filter_map(|(page, _)| examined_page(page, Nanos::ZERO)));
        }
        self.cold.extend(cold.into_iter().rev().filter_map(|(page, _)| examined_page(page, idle)));
        (self.idle, self.found_at) = (idle, view.now);
    }

    /// A cold page, each at most once. Results stay valid for the length of their window.
    pub fn coldest(&mut self, now: Nanos) -> Option<ExaminedPage> {
        let good = now <= self.found_at + self.idle;
        let examined_page = if good { self.cold.pop() } else { None };
        self.used += usize::from(examined_page.is_some());
        self.wanted |= examined_page.is_none();
        examined_page
    }

    /// Takes back a page that is not cold enough.
    pub fn give_back(&mut self, examined_page: ExaminedPage) {
        self.cold.push(examined_page);
        self.used -= 1;
        self.wanted = true;
    }

    /// Whether even the pages of the shortest window are used up, so that longer windows cannot help.
    pub fn is_exhausted(&self) -> bool {
        self.window == SHORTEST && self.cold.is_empty()
    }

    /// Whether more may be found.
    pub fn may_find_colder(&self) -> bool {
        self.wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::all_fast;
    use crate::port::PageSize;

    #[test]
    fn a_cold_page_stays_valid_for_the_length_of_its_window() {
        let found = |ms| {
            let size = PageSize::Base;
            let examined_page = ExaminedPage { rate_per_sec: 1.0, page: all_fast(1).1[0], size };
            let (idle, found_at) = (Nanos::from_millis(100), Nanos::from_secs(1));
            let mut chance = SecondChance {
                cold: vec![examined_page],
                idle,
                found_at,
                ..SecondChance::default()
            };
            (chance.coldest(Nanos::from_millis(ms)).is_some(), chance.may_find_colder())
        };
        assert_eq!(found(1_100), (true, false));
        assert_eq!(found(1_101), (false, true));
    }
}
