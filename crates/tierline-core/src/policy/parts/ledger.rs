// SPDX-License-Identifier: Apache-2.0
//! The ledger of a plan: remaining budget, room in every tier, and remaining limits of tenants.

use crate::page::{PageIdx, PageTable};
use crate::policy::plan::Plan;
use crate::policy::view::View;
use crate::port::{Move, PageSize, Reason};
use crate::qos::allowance::Allowance;
use crate::tier::TierId;
use crate::unit::Bytes;

/// Why a move was not planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// The budget is used up.
    Budget,
    /// The tier has no room.
    Room,
    /// The tenant's limit in the tier is reached; the move must be exchanged for one of the tenant's own pages.
    Limit,
    /// The page is gone, or already there.
    Page,
}

/// What a plan may still use.
#[derive(Clone, Debug)]
pub struct Ledger {
    budget: Bytes,
    /// Below zero if less is free than the reserve, or the world lacks some of its own.
    room: Vec<i128>,
    /// What the world lacks; see [`TierTelemetry::lacking`](crate::port::TierTelemetry::lacking).
    lacking: Vec<i128>,
    allowance: Allowance,
}

impl Ledger {
    /// A ledger for one plan of at most `cap` bytes: free memory above the `reserve` of each tier, within the
    /// limits.
    pub fn new(view: &View<'_>, cap: Bytes, reserve: impl Fn(TierId) -> Bytes) -> Self {
        let tiers = view.machine.tiers.iter().zip(&view.machine.telemetry.tiers);
        let allowance = view.machine.allowance;
        let room = tiers.map(|((tier, _), measured)| {
            let free = i128::from(measured.free.0) - i128::from(reserve(tier).0);
            let left = allowance.left_for_all(tier);
            let room = left.map_or(free, |left| i128::from(left.0).min(free));
            let lacking = i128::from(measured.lacking.0);
            (room - lacking, lacking)
        });
        let (room, lacking): (Vec<i128>, Vec<i128>) = room.unzip();
        debug_assert_eq!(room.len(), view.machine.tiers.len(), "every tier is measured");
        let budget = view.machine.budget.min(cap);
        Self { budget, room, lacking, allowance: allowance.clone() }
    }

    /// The remaining limits of tenants.
    pub fn allowance(&self) -> &Allowance {
        &self.allowance
    }

    /// Whether the limits of its tenant admit a page to `to`.
    pub fn admits(&self, pages: &PageTable, page: PageIdx, to: TierId) -> bool {
        if self.allowance.is_unlimited() {
            return true;
        }
        let Some(at) = pages.locate(page) else { return true };
        self.allowance.admits(pages.tenant_of(at.space), to, at.size.bytes())
    }

    /// Books a plan made with another ledger.
    pub fn replay(&mut self, pages: &PageTable, plan: &Plan) {
        for m in plan.iter() {
            self.book(pages, m);
        }
    }

    fn book(&mut self, pages: &PageTable, m: &Move) {
        let bytes = m.size.bytes();
        self.budget = self.budget.saturating_sub(bytes);
        self.room[m.to.index()] -= i128::from(bytes.0);
        self.room[m.from.index()] += i128::from(bytes.0);
        if !self.allowance.is_unlimited() {
            let tenant = pages.tenant_of(m.space);
            self.allowance.take(tenant, m.to, bytes);
            self.allowance.give(tenant, m.from, bytes);
        }
    }

    /// Takes back a move that was planned with this ledger.
    pub fn cancel(&mut self, pages: &PageTable, m: &Move) {
        let (bytes, budget) = (m.size.bytes(), self.budget);
        self.book(pages, &Move { from: m.to, to: m.from, ..*m });
        self.budget = budget + bytes;
    }

    /// Bytes that may still be moved into `tier`.
    pub fn room(&self, tier: TierId) -> Bytes {
        let room = self.room.get(tier.index()).copied().unwrap_or_default();
        Bytes(u64::try_from(room.max(0)).unwrap_or(u64::MAX))
    }

    /// Whether less than its reserve is free in a tier, whatever the world lacks.
    pub fn is_short(&self, tier: TierId) -> bool {
        let free = self.room.get(tier.index()).zip(self.lacking.get(tier.index()));
        free.is_some_and(|(&room, &lacking)| room + lacking < 0)
    }

    /// Whether the world lacks memory for its own reserves in a tier.
    pub fn is_lacking(&self, tier: TierId) -> bool {
        self.lacking.get(tier.index()).is_some_and(|lacking| *lacking > 0)
    }

    /// Bytes that may still be moved.
    pub fn budget(&self) -> Bytes {
        self.budget
    }

    /// The nearest tier below that of `page` which has room for it, within its tenant's limits there.
    #[expect(clippy::cast_possible_truncation, reason = "at most TierId::MAX tiers")]
    pub fn demotion_target(&self, pages: &PageTable, page: PageIdx) -> Option<TierId> {
        let (from, size) = (pages.state(page).tier()?, pages.locate(page)?.size);
        let lower = (from.0 + 1..self.room.len() as u8).map(TierId);
        let fits = |tier| self.room(tier) >= size.bytes() && self.admits(pages, page, tier);
        lower.into_iter().find(|&tier| fits(tier))
    }

    /// Whether any slower tier has room for a page of `size`.
    pub fn has_room_below(&self, from: TierId, size: PageSize) -> bool {
        debug_assert!(from.index() < self.room.len(), "{from} is no tier of this machine");
        self.room[from.index() + 1..].iter().any(|&room| room >= i128::from(size.bytes().0))
    }

    /// Plans a move to the nearest slower tier with room.
    ///
    /// # Errors
    /// What is short; then nothing is planned.
    pub fn demote(
        &mut self,
        pages: &PageTable,
        page: PageIdx,
        reason: Reason,
        plan: &mut Plan,
    ) -> Result<Bytes, Shortage> {
        pages.locate(page).and(pages.state(page).tier()).ok_or(Shortage::Page)?;
        let to = self.demotion_target(pages, page).ok_or(Shortage::Room)?;
        debug_assert!(pages.state(page).tier() < Some(to), "a demotion goes to a slower tier");
        self.plan(pages, page, to, reason, plan)
    }

    /// Plans one move and returns its bytes. A move that only its tenant's limit forbids is recorded as such in
    /// the plan.
    ///
    /// # Errors
    /// What is short; then nothing is planned.
    pub fn plan(
        &mut self,
        pages: &PageTable,
        page: PageIdx,
        to: TierId,
        reason: Reason,
        plan: &mut Plan,
    ) -> Result<Bytes, Shortage> {
        let at = pages.locate(page).ok_or(Shortage::Page)?;
        let from = pages.state(page).tier().filter(|&from| from != to).ok_or(Shortage::Page)?;
        let m = Move { space: at.space, vpn: at.vpn, size: at.size, from, to, reason };
        if !self.admits(pages, page, to) {
            plan.push_over_limit(m);
            return Err(Shortage::Limit);
        }
        let bytes = at.size.bytes();
        if self.room(to) < bytes {
            return Err(Shortage::Room);
        }
        if self.budget < bytes {
            return Err(Shortage::Budget);
        }
        self.book(pages, &m);
        debug_assert!(self.room[to.index()] >= 0, "the plan exceeds the room in {to}");
        plan.push(m);
        Ok(bytes)
    }
}

/// Bytes that may still come into a tier: its free memory, within the limits.
pub fn free(view: &View<'_>, tier: TierId) -> Bytes {
    let free = view.machine.telemetry.tiers.get(tier.index()).map_or(Bytes::ZERO, |t| t.free);
    view.machine.allowance.left_for_all(tier).map_or(free, |left| left.min(free))
}

/// Bytes of a tier available to the managed programs.
pub fn capacity(view: &View<'_>, tier: TierId) -> Bytes {
    view.memory.pages.bytes_in(tier) + free(view, tier)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::parts::stage::Stage;
    use crate::port::TenantId;

    #[test]
    fn a_move_that_is_taken_back_leaves_the_ledger_as_it_was() {
        let mut stage = Stage::of_base_pages(2, TierId::FAST);
        let limit = Bytes::from_base_pages(100);
        stage.limits.set(TenantId::default(), TierId::FAST, Some(limit));
        let page = stage.all[0];
        let view = stage.view();
        let mut ledger = Ledger::new(&view, Bytes::from_base_pages(10), |_| Bytes::ZERO);
        let (before, mut plan) = (format!("{ledger:?}"), Plan::default());
        let reason = Reason::MakeRoom { rate_per_sec: 1.0 };
        ledger.demote(view.memory.pages, page, reason, &mut plan).expect("there is room below");
        assert_ne!(format!("{ledger:?}"), before);
        ledger.cancel(view.memory.pages, &plan[0]);
        assert_eq!(format!("{ledger:?}"), before);
    }
}
