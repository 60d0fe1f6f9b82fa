// SPDX-License-Identifier: Apache-2.0
//! Enforces the limits of tenants, under any policy.
//!
//! Before the policy plans, a tenant's excess over a lowered limit is demoted, coldest pages first. After that,
//! a promotion that would exceed its tenant's limit is exchanged for a colder page of the same tenant, or
//! dropped: no tenant loses a page because of another tenant's limit.
//!
//! The coldest pages are found in a random sample of the tenant's pages, by the policy's own heat. The sample,
//! its size and the margin are ours.

use crate::page::PageIdx;
use crate::policy::interface::{HeatEstimate, Policy};
use crate::policy::parts::ledger::Ledger;
use crate::policy::plan::Plan;
use crate::policy::view::View;
use crate::port::{Move, PageSize, Reason, TenantId};
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
    likely: f32,
}

impl Enforcer {
    /// Plans the demotion of tenants' excess over their limits, and deducts it from the policy's budget.
    pub fn demote_excess(&mut self, view: &mut View<'_>, policy: &dyn Policy, plan: &mut Plan) {
        if view.machine.limits.is_empty() {
            return;
        }
        let mut ledger = Ledger::new(view, view.machine.budget, |_| Bytes::ZERO);
        let excess: Vec<_> = ledger.allowance().excess().collect();
        for (tenant, tier, mut over) in excess {
            let needed = over.min(ledger.budget()).base_pages();
            for victim in self.coldest(view, policy, tenant, tier, needed) {
                if over == Bytes::ZERO || ledger.budget() == Bytes::ZERO {
                    break;
                }
                let reason = Reason::Limit { rate_per_sec: victim.likely };
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
            let own: Vec<Move> = wanted.iter().filter(is_its).copied().collect();
            let base_pages = own.iter().map(|m| m.size.base_pages()).sum();
            let victims = self.coldest(view, policy, tenant, tier, base_pages);
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

    /// The coldest of a random sample of a tenant's pages in a tier, coldest first: at least the pages needed to
    /// free `base_pages`, if the sample has as many. Once it has so many without any accesses, no others are drawn: none is colder.
    fn coldest(
        &mut self,
        view: &View<'_>,
        policy: &dyn Policy,
        tenant: TenantId,
        tier: TierId,
        base_pages: u64,
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
        let heat = |page| Victim { page, likely: density(view, policy, page).likely };
        let (mut victims, mut idle): (Vec<Victim>, u64) = Default::default();
        for round in 0..ROUNDS {
            let drawn = self.draw(&runs, draws, round).filter(in_tier).map(heat);
            victims.extend(drawn.inspect(|victim| idle += u64::from(victim.likely <= 0.0)));
            if idle >= base_pages {
                break;
            }
        }
        debug_assert!(victims.iter().all(|victim| pages.state(victim.page).tier() == Some(tier)));
        let colder =
            |a: &Victim, b: &Victim| a.likely.total_cmp(&b.likely).then(a.page.cmp(&b.page));
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
    let mut victims = victims.into_iter().peekable();
    for m in wanted {
        let Some(page) = pages.find(m.space, m.vpn) else { continue };
        let heat = density(view, policy, page).at_least;
        let (planned, before) = (plan.len(), ledger.clone());
        while !ledger.admits(pages, page, m.to)
            && let Some(victim) = victims.next_if(|victim| heat > victim.likely * MARGIN)
        {
            let reason = Reason::MakeRoom { rate_per_sec: victim.likely };
            let _ = ledger.demote(pages, victim.page, reason, plan); // an unmapped page frees nothing
        }
        let fits = ledger.admits(pages, page, m.to);
        if !fits || ledger.plan(pages, page, m.to, m.reason, plan).is_err() {
            debug_assert!(planned <= plan.len(), "planning only adds moves");
            plan.truncate(planned);
            *ledger = before;
            if victims.peek().is_none_or(|victim| heat <= victim.likely * MARGIN) {
                return; // the remaining pages are colder still
            }
        }
    }
}

/// The heat per base page of a page, as the policy estimates it.
fn density(view: &View<'_>, policy: &dyn Policy, page: PageIdx) -> HeatEstimate {
    let size = view.memory.pages.locate(page).map_or(PageSize::Base, |at| at.size);
    let HeatEstimate { at_least, likely } = policy.heat(&view.memory, page);
    HeatEstimate { at_least: size.density(at_least), likely: size.density(likely) }
}
