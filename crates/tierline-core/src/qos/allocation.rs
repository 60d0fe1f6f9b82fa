// SPDX-License-Identifier: Apache-2.0
//! Divides the tiers among applications: first what each needs, by priority; then everything that is left
//! ([`lending`](super::lending)).
//!
//! What an application needs is *reserved* for it; what is *lent* goes back as soon as another application
//! needs it. The result depends on the set of applications only, not on their order of arrival. Mercury takes
//! memory from victims in ascending priority (4.3.1), which comes to the same; it lends only if all SLOs are
//! met (4.3.2), so one impossible SLO would leave memory idle. That all memory is always lent is ours.

use std::collections::BTreeMap;

use serde::Serialize;

use super::heat_curve::{HeatCurve, TierBytes};
use super::lending::lend_rest;
use crate::port::TenantId;
use crate::tier::TierId;
use crate::unit::Bytes;

/// Limits that would change by less than this part of a tier, and of the memory that they limit, stay. Ours.
const TOLERANCE: f64 = 0.005;

/// What an application asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim<'a> {
    /// The application.
    pub tenant: TenantId,
    /// Larger comes first; unique.
    pub priority: u32,
    /// Its part of what is left, if it has no SLO.
    pub weight: f64,
    /// Whether it has an SLO.
    pub has_slo: bool,
    /// Whether that is a bandwidth.
    pub is_bandwidth: bool,
    /// All its memory.
    pub memory: Bytes,
    /// Its accesses by memory.
    pub curve: &'a HeatCurve,
    /// What it needs of each tier.
    pub need: TierBytes,
    /// Upper limit on the fastest tier, as its traffic there hurts a more important application.
    pub fast_cap: Option<Bytes>,
}

/// What an application gets, in all tiers but the slowest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Grant {
    /// The application.
    pub tenant: TenantId,
    /// Kept for it.
    #[serde(rename = "reserved_bytes_by_tier")]
    pub reserved: TierBytes,
    /// Left over, until another application needs it.
    #[serde(rename = "lent_bytes_by_tier")]
    pub lent: TierBytes,
    /// What its SLO lacks: needed and not reserved.
    #[serde(rename = "short_bytes")]
    pub short: Bytes,
}

impl Grant {
    /// Its limit in a tier.
    pub fn limit(&self, tier: TierId) -> Bytes {
        self.reserved[tier.index()] + self.lent[tier.index()]
    }

    /// Whether the present limit in a tier of this size may stay. A limit of a small program in a large tier may be wrong
    /// by much of its memory, so that counts, too.
    pub(super) fn is_served_by(
        &self,
        present: Bytes,
        tier: TierId,
        room: Bytes,
        memory: Bytes,
    ) -> bool {
        let wanted = self.limit(tier);
        let is_near = |a: Bytes, b: Bytes, of: Bytes| a.0.abs_diff(b.0) <= of.part(TOLERANCE).0;
        is_near(present, wanted, room) && is_near(present.min(memory), wanted.min(memory), memory)
    }

    /// Where memory of this size is if it uses all that it gets; the rest is in the slowest of `tiers`.
    pub fn placement(&self, memory: Bytes, tiers: usize) -> TierBytes {
        let mut placement = TierBytes::default();
        let mut left = memory;
        for (tier, bytes) in (0..).map(TierId).zip(&mut placement[..tiers]) {
            let is_slowest = tier.index() + 1 == tiers;
            *bytes = if is_slowest { left } else { left.min(self.limit(tier)) };
            left -= *bytes;
        }
        placement
    }

    /// What it may have in tiers as fast as this or faster.
    pub(super) fn above(&self, tier: usize) -> Bytes {
        let both = self.reserved.iter().zip(&self.lent).take(tier + 1);
        both.map(|(&reserved, &lent)| reserved + lent).sum()
    }
}

/// Divides `room`, the size of each tier but the slowest. Grants are in descending priority.
pub fn allocate(room: &[Bytes], claims: &[Claim<'_>], lend: bool) -> Vec<Grant> {
    let mut claims: Vec<&Claim<'_>> = claims.iter().collect();
    claims.sort_by_key(|claim| (std::cmp::Reverse(claim.priority), claim.tenant));
    let mut left = room.to_vec();
    let mut grants: Vec<Grant> = claims.iter().map(|claim| reserve(claim, &mut left)).collect();
    if lend {
        for (tier, left) in left.iter_mut().enumerate() {
            lend_rest(tier, left, &claims, &mut grants);
        }
    }
    for (tier, &room) in room.iter().enumerate() {
        let given: Bytes = grants.iter().map(|g| g.reserved[tier] + g.lent[tier]).sum();
        debug_assert!(given <= room, "limits of {given} on a tier of {room}");
    }
    grants
}

/// Reserves what is needed. What a tier lacks is sought in the faster ones, nearest first.
fn reserve(claim: &Claim<'_>, left: &mut [Bytes]) -> Grant {
    let mut reserved = TierBytes::default();
    let mut short = Bytes::ZERO;
    for tier in 0..left.len() {
        let mut needed = claim.need[tier];
        for from in (0..=tier).rev() {
            let cap = claim.fast_cap.filter(|_| from == 0).unwrap_or(Bytes(u64::MAX));
            let taken = needed.min(left[from]).min(cap.saturating_sub(reserved[from]));
            reserved[from] += taken;
            left[from] -= taken;
            needed -= taken;
        }
        short += needed;
    }
    Grant { tenant: claim.tenant, reserved, lent: TierBytes::default(), short }
}

/// Memory that changes hands: `None` is free memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Transfer {
    /// Who gives it up.
    pub from: Option<TenantId>,
    /// Who gets it.
    pub to: Option<TenantId>,
    /// How much.
    pub bytes: Bytes,
}

/// Who gives up memory of a tier for whom. The most important gains are matched with the least important
/// losses. Limits are in descending priority; missing ones are zero.
pub fn transfers(before: &[(TenantId, Bytes)], after: &[(TenantId, Bytes)]) -> Vec<Transfer> {
    let by_tenant = |all: &[(TenantId, Bytes)]| all.iter().copied().collect::<BTreeMap<_, _>>();
    let (old, new) = (by_tenant(before), by_tenant(after));
    let of = |all: &BTreeMap<_, _>, tenant| all.get(&tenant).copied().unwrap_or_default();
    let gone = before.iter().filter(|(tenant, _)| !new.contains_key(tenant));
    let tenants = after.iter().chain(gone).map(|one| one.0);
    let changes: Vec<_> =
        tenants.map(|tenant| (tenant, of(&old, tenant), of(&new, tenant))).collect();
    let mut losses: Vec<(TenantId, Bytes)> = changes
        .iter()
        .rev()
        .map(|&(tenant, old, new)| (tenant, old.saturating_sub(new)))
        .filter(|loss| loss.1 > Bytes::ZERO)
        .collect();
    losses.reverse(); // the next loss is the last element
    let mut transfers = Vec::new();
    for (to, old, new) in changes {
        let mut gained = new.saturating_sub(old);
        while gained > Bytes::ZERO {
            let Some((from, loss)) = losses.last_mut() else {
                transfers.push(Transfer { from: None, to: Some(to), bytes: gained });
                break;
            };
            let bytes = gained.min(*loss);
            transfers.push(Transfer { from: Some(*from), to: Some(to), bytes });
            gained -= bytes;
            *loss -= bytes;
            losses.pop_if(|loss| loss.1 == Bytes::ZERO);
        }
    }
    let freed = losses.into_iter().rev();
    transfers.extend(freed.map(|(from, bytes)| Transfer { from: Some(from), to: None, bytes }));
    transfers
}

#[cfg(test)]
mod tests;
