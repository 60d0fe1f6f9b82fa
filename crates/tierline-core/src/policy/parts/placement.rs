// SPDX-License-Identifier: Apache-2.0
//! Carries out a given placement: visits all placed pages and moves those in the wrong tier, in rounds until a
//! round finds none.

use std::collections::{BTreeMap, VecDeque};

use super::ledger::{Ledger, Shortage, capacity};
use crate::page::{PageIdx, PageTable};
use crate::policy::plan::Plan;
use crate::policy::view::View;
use crate::port::{PageSize, Reason, SpaceId, TrueRate, Vpn};
use crate::tier::TierId;
use crate::unit::Bytes;

/// Pages checked per tick, at most.
const CHECKS: u32 = 1 << 16;

/// A run of pages of one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateRun {
    /// Their address space.
    pub space: SpaceId,
    /// The first page of the run.
    pub vpn: Vpn,
    /// Base pages in the run.
    pub base_pages: u64,
    /// Accesses per second of each base page.
    pub rate_per_sec: f64,
}

/// A run of pages and its tier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlacedRun {
    /// Their address space.
    pub space: SpaceId,
    /// The first page of the run.
    pub vpn: Vpn,
    /// Base pages in the run.
    pub base_pages: u64,
    /// Accesses per second of each of its base pages.
    pub rate_per_sec: f64,
    /// The tier they should be in.
    pub tier: TierId,
}

/// A placement and its progress.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    runs: Vec<PlacedRun>,
    /// Length and rate of each run, by its first page.
    by_place: BTreeMap<(SpaceId, Vpn), (u64, f64)>,
    up: Cursor,
    down: Cursor,
}

/// A position in the runs: a run, and an offset into it.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    run: usize,
    base_pages: u64,
    planned: bool,
}

/// Bytes of every tier available to the managed programs.
pub fn capacities(view: &View<'_>) -> Vec<Bytes> {
    view.machine.tiers.iter().map(|(tier, _)| capacity(view, tier)).collect()
}

/// Fills tiers in order, fastest first, with the runs in their order. A run is cut where a tier is full, at a huge
/// page's boundary. Also returns the runs that found no place.
pub fn fill(
    runs: impl IntoIterator<Item = RateRun>,
    mut room: Vec<Bytes>,
    first: usize,
) -> (Vec<PlacedRun>, VecDeque<RateRun>) {
    let mut left: VecDeque<RateRun> = runs.into_iter().collect();
    let mut placed = Vec::new();
    let mut tier = first;
    while let Some(run) = left.pop_front() {
        let Some(room) = room.get_mut(tier) else {
            left.push_front(run);
            break;
        };
        let whole = room.base_pages().min(run.base_pages);
        let fits = if whole < run.base_pages { whole / 512 * 512 } else { whole };
        if fits > 0 {
            let tier = TierId(u8::try_from(tier).unwrap_or(u8::MAX));
            let RateRun { space, vpn, rate_per_sec, .. } = run;
            placed.push(PlacedRun { space, vpn, base_pages: fits, rate_per_sec, tier });
            *room -= Bytes::from_base_pages(fits);
        }
        if fits < run.base_pages {
            let vpn = Vpn(run.vpn.0 + fits);
            left.push_front(RateRun { vpn, base_pages: run.base_pages - fits, ..run });
            tier += 1;
        }
    }
    (placed, left)
}

impl Placement {
    /// A placement to be carried out.
    pub fn of(runs: Vec<PlacedRun>) -> Self {
        let place = |run: &PlacedRun| ((run.space, run.vpn), (run.base_pages, run.rate_per_sec));
        Self { by_place: runs.iter().map(place).collect(), runs, ..Self::default() }
    }

    /// Accesses per second of a page.
    #[expect(clippy::cast_possible_truncation, reason = "rates are f32")]
    pub fn rate_of(&self, pages: &PageTable, page: PageIdx) -> f32 {
        let Some(at) = pages.locate(page) else { return 0.0 };
        let before = self.by_place.range(..=(at.space, at.vpn)).next_back();
        let run = before.filter(|&(&(space, vpn), &(base_pages, _))| {
            space == at.space && at.vpn.0 < vpn.0 + base_pages
        });
        run.map_or(0.0, |(_, &(_, rate))| rate as f32 * at.size.base_pages_f32())
    }

    /// Plans the next moves: up while there is room, otherwise down to make room.
    pub fn plan_moves(&mut self, view: &mut View<'_>, plan: &mut Plan) {
        let mut ledger = Ledger::new(view, view.machine.budget, |_| Bytes::ZERO);
        let mut checks = CHECKS;
        loop {
            match Self::step(&self.runs, &mut self.up, true, &mut checks, view, &mut ledger, plan) {
                Err(Shortage::Room) => {}
                Err(_) => return,
                Ok(()) => continue,
            }
            let down = &mut self.down;
            if Self::step(&self.runs, down, false, &mut checks, view, &mut ledger, plan).is_err() {
                return;
            }
        }
    }

    /// Finds the next page in the wrong tier and plans its move. If there is none, returns `Shortage::Page`, or
    /// `Shortage::Room` on the way up, so that demotions follow.
    fn step(
        runs: &[PlacedRun],
        cursor: &mut Cursor,
        up: bool,
        checks: &mut u32,
        view: &View<'_>,
        ledger: &mut Ledger,
        plan: &mut Plan,
    ) -> Result<(), Shortage> {
        loop {
            let Some(run) = runs.get(cursor.run) else {
                if cursor.planned {
                    *cursor = Cursor::default(); // another round, as moves can fail
                }
                return Err(if up { Shortage::Room } else { Shortage::Page });
            };
            *checks = checks.checked_sub(1).ok_or(Shortage::Budget)?;
            let vpn = Vpn(run.vpn.0 + cursor.base_pages);
            let page = view.memory.pages.find(run.space, vpn);
            let at = page.and_then(|page| view.memory.pages.locate(page));
            let size = at.map_or(PageSize::Base, |at| at.size);
            if let Some(page) = page
                && let state = view.memory.pages.state(page)
                && !state.is_refused()
                && state.tier().is_some_and(|at| if up { at > run.tier } else { at < run.tier })
            {
                #[expect(clippy::cast_possible_truncation, reason = "rates are f32")]
                let rate_per_sec = (run.rate_per_sec * f64::from(size.base_pages_f32())) as f32;
                let reason = Reason::Placed { rate_per_sec };
                match ledger.plan(view.memory.pages, page, run.tier, reason, plan) {
                    Err(Shortage::Page | Shortage::Limit) => {}
                    Err(short) => return Err(short), // the same page again in a later tick
                    Ok(_) => {
                        cursor.planned = true;
                        Self::advance(cursor, run, size.base_pages());
                        return Ok(());
                    }
                }
            }
            Self::advance(cursor, run, size.base_pages());
        }
    }

    fn advance(cursor: &mut Cursor, run: &PlacedRun, base_pages: u64) {
        cursor.base_pages += base_pages;
        if cursor.base_pages >= run.base_pages {
            (cursor.run, cursor.base_pages) = (cursor.run + 1, 0);
        }
    }
}

/// The true rates that the world reported, as runs.
pub fn true_rate_runs(view: &View<'_>) -> Vec<RateRun> {
    let run = |known: &TrueRate| {
        let page = view.memory.pages.find(known.space, known.vpn);
        let size = page.and_then(|page| view.memory.pages.locate(page))?.size;
        Some(RateRun {
            space: known.space,
            vpn: known.vpn,
            base_pages: known.base_pages.into(),
            rate_per_sec: f64::from(known.rate_per_sec) / f64::from(size.base_pages_f32()),
        })
    };
    view.evidence.true_rates.iter().filter_map(run).collect()
}

/// Runs with accesses, hottest first; equal rates by address.
pub fn ranked<'a>(runs: impl IntoIterator<Item = &'a RateRun>) -> Vec<RateRun> {
    let mut runs: Vec<RateRun> =
        runs.into_iter().filter(|run| run.rate_per_sec > 0.0).copied().collect();
    runs.sort_by(|a, b| {
        b.rate_per_sec.total_cmp(&a.rate_per_sec).then((a.space, a.vpn).cmp(&(b.space, b.vpn)))
    });
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(vpn: u64, base_pages: u64, rate_per_sec: f64) -> RateRun {
        RateRun { space: SpaceId(1), vpn: Vpn(vpn), base_pages, rate_per_sec }
    }

    #[test]
    fn tiers_are_filled_by_rate_and_runs_cut_at_huge_pages() {
        let runs = ranked(&[run(0, 2048, 1.0), run(4096, 1024, 9.0), run(8192, 512, 0.0)]);
        let room = vec![Bytes::from_base_pages(1024 + 600), Bytes::from_mib(100)];
        let (placed, left) = fill(runs, room, 0);
        let placed: Vec<_> = placed.iter().map(|p| (p.vpn.0, p.base_pages, p.tier.0)).collect();
        assert_eq!(placed, [(4096, 1024, 0), (0, 512, 0), (512, 1536, 1)]);
        assert!(left.is_empty());
        let (_, left) = fill([run(0, 2048, 1.0)], vec![Bytes::from_mib(2)], 0);
        assert_eq!(left, [run(512, 1536, 1.0)]);
    }
}
