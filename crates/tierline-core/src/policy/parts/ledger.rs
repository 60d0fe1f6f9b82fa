// SPDX-License-Identifier: Apache-2.0
//! The ledger of a plan: bytes that may still be moved, and room that is left in every tier.

use crate::page::{PageIdx, PageTable};
use crate::policy::view::View;
use crate::port::{Move, PageSize, Reason};
use crate::tier::TierId;
use crate::unit::Bytes;

/// Why a move was not planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// No bytes are left to be moved.
    Budget,
    /// The tier has no room.
    Room,
    /// The page is gone, or there already.
    Page,
}

/// What a plan may still use.
#[derive(Clone, Debug)]
pub struct Ledger {
    budget: Bytes,
    /// Below zero where less is free than is to be kept.
    room: Vec<i128>,
}

impl Ledger {
    /// A ledger for one plan that moves at most `cap`: what is free above the `reserve` of each tier,
    /// within the limits.
    pub fn new(view: &View<'_>, cap: Bytes, reserve: impl Fn(TierId) -> Bytes) -> Self {
        let tiers = view.tiers.iter().zip(&view.telemetry.tiers);
        let room = tiers.map(|((tier, _), measured)| {
            let free = i128::from(measured.free.0) - i128::from(reserve(tier).0);
            let used = i128::from(view.pages.bytes_in(tier).0);
            let limit = view.limits.per_tier.get(tier.index()).copied().flatten();
            limit.map_or(free, |limit| (i128::from(limit.0) - used).min(free))
        });
        Self { budget: view.budget.min(cap), room: room.collect() }
    }

    /// Bytes that may still come into `tier`.
    pub fn room(&self, tier: TierId) -> Bytes {
        let room = self.room.get(tier.index()).copied().unwrap_or_default();
        Bytes(u64::try_from(room.max(0)).unwrap_or(u64::MAX))
    }

    /// Whether a tier has less free than is to be kept.
    pub fn is_short(&self, tier: TierId) -> bool {
        self.room.get(tier.index()).is_some_and(|&room| room < 0)
    }

    /// Bytes that may still be moved.
    pub fn budget(&self) -> Bytes {
        self.budget
    }

    /// The nearest tier below `from` with room for a page of `size`.
    #[expect(clippy::cast_possible_truncation, reason = "at most TierId::MAX tiers")]
    pub fn below(&self, from: TierId, size: PageSize) -> Option<TierId> {
        let lower = (from.0 + 1..self.room.len() as u8).map(TierId);
        lower.into_iter().find(|&tier| self.room(tier) >= size.bytes())
    }

    /// Plans one move and returns its bytes.
    ///
    /// # Errors
    /// What it falls short of; nothing is planned then.
    pub fn plan(
        &mut self,
        pages: &PageTable,
        page: PageIdx,
        to: TierId,
        reason: Reason,
        plan: &mut Vec<Move>,
    ) -> Result<Bytes, Short> {
        let at = pages.locate(page).ok_or(Short::Page)?;
        let from = pages.state(page).tier().filter(|&from| from != to).ok_or(Short::Page)?;
        let bytes = at.size.bytes();
        if self.room(to) < bytes {
            return Err(Short::Room);
        }
        self.budget = Bytes(self.budget.0.checked_sub(bytes.0).ok_or(Short::Budget)?);
        self.room[to.index()] -= i128::from(bytes.0);
        self.room[from.index()] += i128::from(bytes.0);
        plan.push(Move { space: at.space, vpn: at.vpn, size: at.size, from, to, reason });
        Ok(bytes)
    }
}
