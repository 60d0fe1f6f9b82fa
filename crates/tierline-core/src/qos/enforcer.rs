// SPDX-License-Identifier: Apache-2.0
//! Enforces the limits of tenants, under any policy.
//!
//! Before the policy plans, a tenant's excess over a lowered limit is demoted, coldest pages first. After that,
//! a promotion that would exceed its tenant's limit is exchanged for a colder page of the same tenant, or
//! dropped: no tenant loses a page because of another tenant's limit.
//!
//! The coldest pages are found in a random sample of the tenant's pages, by the policy's own heat. The sample,
//! its size and the margin are ours.

use std::cmp::{Ordering, Reverse};
use std::collections::VecDeque;
use std::iter::Peekable;
use std::vec;

use crate::page::{PageIdx, PageLocation};
use crate::policy::interface::{HeatEstimate, Policy};
use crate::policy::parts::ledger::Ledger;
use crate::policy::plan::Plan;
use crate::policy::view::View;
use crate::port::{Move, PageKind, PageSize, Reason, TenantId};
use crate::rng::Rng;
use crate::tier::TierId;
use crate::unit::Bytes;

/// Pages drawn per page needed, at most: as many rounds, each of as many pages as are needed.
const ROUNDS: usize = 8;
/// Pages drawn per tick and tenant, at least and at most.
const DRAWN: [u64; 2] = [64, 1 << 16];
/// A page must be hotter by this factor than the page it displaces; as the default policy's margin.
const MARGIN: f32 = 1.25;

/// The enforcer.
#[derive(Debug)]
pub struct Enforcer {
    rng: Rng,
}

impl Default for Enforcer {
    fn default() -> Self {
        Self { rng: Rng::new(0x7e4a_4175) }
    }
}

/// A page that may be displaced.
#[derive(Clone, Copy, Debug)]
struct Victim {
    page: PageIdx,
    size: PageSize,
    kind: PageKind,
    /// Per base page: the most likely value for an excess, the upper bound for an exchange.
    heat: f32,
}

impl Victim {
    /// The order in which victims go down where so many base pages are needed: by heat for each page needed. A page that frees
    /// more than that costs all of its heat, and of equally cold pages it is last; of the others the large ones are first.
    fn compare(&self, other: &Self, needed: u64) -> Ordering {
        let all = |victim: &Self| victim.size.base_pages();
        let cost = |victim: &Self| {
            victim.heat * all(victim) as f32 / all(victim).min(needed).max(1) as f32
        };
        let order = |victim: &Self| (all(victim) > needed, Reverse(victim.size), victim.page);
        cost(self).total_cmp(&cost(other)).then_with(|| order(self).cmp(&order(other)))
    }

    /// Whether it is surely colder than a page of this heat per base page, and not only seen less often for a while.
    fn is_colder_than(&self, heat: f32) -> bool {
        heat > self.heat * MARGIN
    }

    /// Whether it surely counts as the use of the tenant that maps it.
    fn is_own(&self) -> bool {
        self.kind == PageKind::Anonymous
    }
}

impl Enforcer {
    /// Plans the demotion of tenants' excess over their limits, and deducts it from the policy's budget.
    pub fn demote_excess(&mut self, view: &mut View<'_>, policy: &dyn Policy, plan: &mut Plan) {
        if view.machine.allowance.is_unlimited() {
            return;
        }
        let mut ledger = Ledger::new(view, view.machine.budget, |_| Bytes::ZERO);
        let excess: Vec<_> = ledger.allowance().excess().collect();
        for (tenant, tier, mut over) in excess {
            let needed = over.min(ledger.budget()).base_pages();
            let planned = plan.len();
            for victim in self.coldest(view, policy, tenant, tier, needed, |heat| heat.likely) {
                if over == Bytes::ZERO || ledger.budget() == Bytes::ZERO {
                    break;
                }
                if victim.size.bytes() > over && plan.len() > planned {
                    continue; // smaller ones are left for the next plan
                }
                let reason = Reason::Limit { rate_per_sec: victim.heat };
                let freed = ledger.demote(view.memory.pages, victim.page, reason, plan);
                over = over.saturating_sub(freed.unwrap_or_default());
            }
        }
        debug_assert!(plan.iter().all(|m| m.to > m.from), "only demotions enforce a lowered limit");
        debug_assert!(ledger.budget() <= view.machine.budget, "demotions never add budget");
        view.machine.budget = ledger.budget();
    }

    /// Plans the policy's moves over a limit, each in exchange for a colder page of the same tenant.
    pub fn exchange(&mut self, view: &mut View<'_>, policy: &dyn Policy, plan: &mut Plan) {
        let wanted = plan.take_over_limit();
        if wanted.is_empty() {
            return;
        }
        let mut ledger = Ledger::new(view, view.machine.budget, |_| Bytes::ZERO);
        ledger.replay(view.memory.pages, plan);
        let mut tenants: Vec<(TenantId, TierId)> =
            wanted.iter().map(|m| (view.memory.pages.tenant_of(m.space), m.to)).collect();
        tenants.sort_unstable();
        tenants.dedup();
        for (tenant, tier) in tenants {
            let is_its = |m: &&Move| m.to == tier && view.memory.pages.tenant_of(m.space) == tenant;
            // What this plan cannot bring up needs no victims yet.
            let mut left = ledger.budget();
            let fits = |m: &&Move| left.deduct(m.size.bytes());
            let own: Vec<Move> = wanted.iter().filter(is_its).filter(fits).copied().collect();
            let base_pages = own.iter().map(|m| m.size.base_pages()).sum();
            let victims = self.coldest(view, policy, tenant, tier, base_pages, |heat| heat.at_most);
            exchange_one_tenant(view, policy, &own, victims, &mut ledger, plan);
        }
    }

    /// One round of a random sample of the pages of some runs, in order: the pages are divided into `draws` equal parts, and
    /// one page of each [`ROUNDS`]th part is drawn, another part in each round. With fewer pages than draws, the rounds draw
    /// all of them.
    fn draw(
        &mut self,
        runs: &[(PageIdx, u32)],
        draws: u64,
        round: usize,
    ) -> impl Iterator<Item = PageIdx> {
        let all: u64 = runs.iter().map(|&(_, count)| u64::from(count)).sum();
        let draws = draws.min(all);
        let mut runs = runs.iter().copied();
        let mut run = runs.next();
        let mut before = 0;
        let rng = &mut self.rng;
        (0..draws).skip(round).step_by(ROUNDS).filter_map(move |part| {
            let (from, to) = (part * all / draws, (part + 1) * all / draws);
            let at = from + rng.below(to - from);
            while let Some((_, count)) = run
                && before + u64::from(count) <= at
            {
                before += u64::from(count);
                run = runs.next();
            }
            let (first, _) = run?;
            debug_assert!(at >= before, "draws are in order");
            Some(PageIdx::from_index(first.index() + usize::try_from(at - before).ok()?))
        })
    }

    /// The coldest of a random sample of a tenant's pages in a tier, as [`Victim::compare`] orders them: at least the pages needed
    /// to free `base_pages`, if the sample has as many. Once it has so many without any accesses, no others are drawn: none is colder.
    fn coldest(
        &mut self,
        view: &View<'_>,
        policy: &dyn Policy,
        tenant: TenantId,
        tier: TierId,
        base_pages: u64,
        heat: fn(HeatEstimate) -> f32,
    ) -> Vec<Victim> {
        let pages = &*view.memory.pages;
        let runs = pages.runs_of(tenant);
        // Draws that hit pages of other tiers are useless.
        let held: Bytes = view.machine.tiers.iter().map(|(t, _)| pages.bytes_of(tenant, t)).sum();
        let share = (held.0 / pages.bytes_of(tenant, tier).0.max(1)).clamp(1, 64);
        let draws = (base_pages * ROUNDS as u64 * share).clamp(DRAWN[0], DRAWN[1]);
        let in_tier = |page: &PageIdx| {
            let state = pages.state(*page);
            state.tier() == Some(tier) && !state.is_refused()
        };
        let victim = |page| {
            let PageLocation { size, kind, .. } = pages.locate(page)?;
            Some(Victim { page, size, kind, heat: heat(density(view, policy, page, size)) })
        };
        let files = used_files(view, tenant, tier);
        let mut victims: Vec<Victim> = Vec::new();
        let (mut idle, mut idle_files) = (0, 0);
        for round in 0..ROUNDS {
            let drawn = self.draw(&runs, draws, round).filter(in_tier).filter_map(victim);
            victims.extend(drawn.inspect(|victim| {
                let of_kind = if victim.is_own() { &mut idle } else { &mut idle_files };
                *of_kind += u64::from(victim.heat <= 0.0);
            }));
            if idle + idle_files.min(files.base_pages()) >= base_pages {
                break;
            }
        }
        debug_assert!(victims.iter().all(|victim| pages.state(victim.page).tier() == Some(tier)));
        let colder = |a: &Victim, b: &Victim| a.compare(b, base_pages);
        keep_own_files(&mut victims, files, colder);
        // Only the pages needed are sorted; the sample is several times larger.
        let needed = usize::try_from(base_pages).unwrap_or(usize::MAX);
        if needed < victims.len() {
            victims.select_nth_unstable_by(needed, colder);
            victims.truncate(needed);
        }
        victims.sort_unstable_by(colder);
        victims
    }
}

/// Bytes of files and shared memory that count as the use of a tenant; all of them if that is not known.
fn used_files(view: &View<'_>, tenant: TenantId, tier: TierId) -> Bytes {
    let measured = view.machine.telemetry.tenants.iter().find(|one| one.tenant == tenant);
    let used = measured.and_then(|one| one.used_files.get(tier.index()));
    used.copied().unwrap_or(Bytes(u64::MAX))
}

/// Keeps pages of files only as far as files count as the use of their tenant, coldest first: it maps others as well, and their
/// demotion would cost another tenant its memory, and leave this one's use as it is.
fn keep_own_files(
    victims: &mut Vec<Victim>,
    mut left: Bytes,
    colder: impl Fn(&Victim, &Victim) -> Ordering,
) {
    let files = victims.iter().filter(|victim| !victim.is_own());
    if files.map(|victim| victim.size.bytes()).sum::<Bytes>() <= left {
        return;
    }
    victims.sort_unstable_by(colder);
    victims.retain(|victim| victim.is_own() || left.deduct(victim.size.bytes()));
}

/// Exchanges a tenant's wanted pages for its victims, while that pays.
fn exchange_one_tenant(
    view: &View<'_>,
    policy: &dyn Policy,
    wanted: &[Move],
    victims: Vec<Victim>,
    ledger: &mut Ledger,
    plan: &mut Plan,
) {
    let pages = &*view.memory.pages;
    let mut victims = Victims::new(victims);
    let found = wanted.iter().filter_map(|m| {
        let page = pages.find(m.space, m.vpn)?;
        let heat = density(view, policy, page, m.size).at_least;
        Some((m, page, heat / pages.state(page).ping_pong_damping()))
    });
    let mut wanted: Vec<(&Move, PageIdx, f32)> = found.collect();
    wanted.sort_by(|(.., a), (.., b)| b.total_cmp(a));
    let mut still_wanted = StillWanted::default();
    wanted.iter().for_each(|(m, _, heat)| still_wanted.add(m.size, *heat));
    for (m, page, heat) in wanted {
        let (planned, before) = (plan.len(), ledger.clone());
        while !ledger.admits(pages, page, m.to)
            && let Some(victim) = victims.next_for(heat, &still_wanted)
        {
            let reason = Reason::MakeRoom { rate_per_sec: victim.heat };
            let _ = ledger.demote(pages, victim.page, reason, plan); // an unmapped page frees nothing
        }
        let fits = ledger.admits(pages, page, m.to);
        if !fits || ledger.plan(pages, page, m.to, m.reason, plan).is_err() {
            debug_assert!(planned <= plan.len(), "planning only adds moves");
            plan.truncate(planned);
            *ledger = before;
            if !victims.has_colder_than(heat) {
                return; // the remaining pages are colder still
            }
        }
        still_wanted.remove(m.size, heat);
    }
}

/// The pages of an exchange that have not come up yet.
#[derive(Debug, Default)]
struct StillWanted {
    base_pages: u64,
    /// Accesses per second, of all of them.
    heat: f64,
}

impl StillWanted {
    fn add(&mut self, size: PageSize, density: f32) {
        self.base_pages += size.base_pages();
        self.heat += size.base_pages() as f64 * f64::from(density);
    }

    fn remove(&mut self, size: PageSize, density: f32) {
        debug_assert!(self.base_pages >= size.base_pages(), "what is removed was wanted");
        self.base_pages -= size.base_pages();
        self.heat -= size.base_pages() as f64 * f64::from(density);
    }
}

/// The victims of an exchange, coldest first.
struct Victims {
    next: Peekable<vec::IntoIter<Victim>>,
    /// Those that are larger than what was still wanted.
    large: VecDeque<Victim>,
}

impl Victims {
    fn new(coldest_first: Vec<Victim>) -> Self {
        Self { next: coldest_first.into_iter().peekable(), large: VecDeque::new() }
    }

    /// The next victim for a page of this heat per base page. A victim larger than all that is still wanted would leave the
    /// tenant below its limit, so it is the last choice, and all of it must be colder than all that is wanted.
    fn next_for(&mut self, heat: f32, still_wanted: &StillWanted) -> Option<Victim> {
        while let Some(victim) = self.next.next_if(|victim| victim.is_colder_than(heat)) {
            if victim.size.base_pages() <= still_wanted.base_pages {
                return Some(victim);
            }
            self.large.push_back(victim);
        }
        let lost = |victim: &Victim| victim.size.base_pages() as f64 * f64::from(victim.heat);
        let pays = |victim: &Victim| still_wanted.heat > lost(victim) * f64::from(MARGIN);
        self.large.front().is_some_and(pays).then(|| self.large.pop_front()).flatten()
    }

    fn has_colder_than(&mut self, heat: f32) -> bool {
        self.next.peek().is_some_and(|victim| victim.is_colder_than(heat))
    }
}

/// The heat per base page of a page, as the policy estimates it.
fn density(view: &View<'_>, policy: &dyn Policy, page: PageIdx, size: PageSize) -> HeatEstimate {
    let HeatEstimate { at_least, likely, at_most } = policy.heat(&view.memory, page);
    HeatEstimate {
        at_least: size.density(at_least),
        likely: size.density(likely),
        at_most: size.density(at_most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn victim(page: usize, size: PageSize, heat: f32) -> Victim {
        Victim { page: PageIdx::from_index(page), size, kind: PageKind::Anonymous, heat }
    }

    #[test]
    fn a_page_that_frees_more_than_is_needed_costs_all_of_its_heat() {
        let first = |needed| {
            let pages = [
                victim(0, PageSize::Huge, 0.01),
                victim(1, PageSize::Base, 0.5),
                victim(2, PageSize::Huge, 0.0),
            ];
            let mut order: Vec<_> = pages.to_vec();
            order.sort_unstable_by(|a, b| a.compare(b, needed));
            order.iter().map(|victim| victim.page.index()).collect::<Vec<_>>()
        };
        assert_eq!(first(512), [2, 0, 1], "all of it is needed");
        assert_eq!(first(8), [2, 1, 0], "512 / 8 x 0.01 > 0.5");
        assert_eq!(first(256), [2, 0, 1], "2 x 0.01 < 0.5");
    }

    #[test]
    fn a_victim_larger_than_what_is_wanted_is_the_last_choice_and_all_of_it_is_colder() {
        let huge = |page, likely| victim(page, PageSize::Huge, likely);
        let pages = || vec![huge(0, 0.001), victim(1, PageSize::Base, 0.5)];
        let wanted = |pages: u64, each: f32| {
            let mut wanted = StillWanted::default();
            (0..pages).for_each(|_| wanted.add(PageSize::Base, each));
            wanted
        };
        let chosen = |pages, wanted: &StillWanted, heat| {
            let mut victims = Victims::new(pages);
            let next = std::iter::from_fn(|| victims.next_for(heat, wanted));
            next.map(|victim| victim.page.index()).collect::<Vec<_>>()
        };
        assert_eq!(chosen(pages(), &wanted(2, 1.0), 1.0), [1, 0], "512 x 0.001 x 1.25 < 2");
        assert_eq!(chosen(pages(), &wanted(1, 0.63), 0.63), [1], "512 x 0.001 x 1.25 > 0.63");
        assert_eq!(chosen(pages(), &wanted(600, 1.0), 1.0), [0, 1], "it fits");
        assert_eq!(chosen(vec![huge(0, 0.0)], &wanted(1, 0.01), 0.01), [0], "idle");
    }
}
