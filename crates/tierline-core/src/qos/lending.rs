// SPDX-License-Identifier: Apache-2.0
//! Lends what no target needs, where it spares the largest part of a program's accesses.
//!
//! A program that reads its memory rarely gains as much by fast memory as one that reads it often, as each is
//! measured against itself. The need curves say how much of its accesses each part of a program's memory serves.
//! There is a price, in accesses per byte, at which all of a tier is lent. Memory that serves clearly more is lent to
//! its owner. Where densities are alike, priority decides. Programs without an SLO get their part together and
//! divide it by weight. What a program gets beyond a bandwidth target comes last: it loads the tier for which
//! the others wait. Ours; Mercury lends by priority (4.3.2).

use super::allocation::{Claim, Grant};
use super::heat_curve::as_f64;
use crate::unit::Bytes;

/// Densities that differ by less than this factor are alike: need curves are measured.
const ALIKE: f64 = 1.25;

/// Memory of a claim that could be in a tier.
struct Offer {
    at: usize,
    bytes: Bytes,
    /// Share of the program's accesses per byte.
    density: f64,
}

/// Lends all that is left of a tier. Claims are in descending priority.
pub(super) fn lend_rest(
    tier: usize,
    left: &mut Bytes,
    claims: &[&Claim<'_>],
    grants: &mut [Grant],
) {
    for has_bandwidth_target in [false, true] {
        let mut together = lend_by_density(tier, left, claims, grants, has_bandwidth_target);
        *left -= together;
        lend_by_weight(tier, &mut together, claims, grants, false);
        *left += together;
    }
    lend_by_weight(tier, left, claims, grants, true);
}

/// Lends to applications with an SLO. Returns what those without one get together.
fn lend_by_density(
    tier: usize,
    left: &mut Bytes,
    claims: &[&Claim<'_>],
    grants: &mut [Grant],
    is_bandwidth: bool,
) -> Bytes {
    let mut together = Bytes::ZERO;
    let offers = offers(tier, claims, grants, is_bandwidth);
    let Some(price) = price(&offers, *left) else { return together };
    let is_dense = |offer: &Offer| offer.density >= price / ALIKE;
    let turn = |offer: &Offer| (offer.density <= price * ALIKE, !claims[offer.at].has_slo);
    for now in [(false, false), (false, true), (true, false), (true, true)] {
        for offer in offers.iter().filter(|offer| is_dense(offer) && turn(offer) == now) {
            let lent = offer.bytes.min(*left - together);
            if claims[offer.at].has_slo {
                grants[offer.at].lent[tier] += lent;
                *left -= lent;
            } else {
                together += lent;
            }
        }
    }
    together
}

/// What the claims with, or without, a bandwidth target could use of a tier: in order of the claims, and in descending
/// density of each.
fn offers(tier: usize, claims: &[&Claim<'_>], grants: &[Grant], is_bandwidth: bool) -> Vec<Offer> {
    let mut offers = Vec::new();
    let all = claims.iter().zip(grants).enumerate();
    for (at, (claim, grant)) in all.filter(|(_, (claim, _))| claim.is_bandwidth == is_bandwidth) {
        let mut wanted = wanted(tier, claim, grant);
        if wanted == Bytes::ZERO {
            continue;
        }
        for (bytes, density) in claim.curve.beyond(grant.above(tier)) {
            let bytes = bytes.min(wanted);
            wanted -= bytes;
            offers.push(Offer { at, bytes, density });
        }
    }
    offers
}

/// The density down to which all of `left` is lent.
fn price(offers: &[Offer], mut left: Bytes) -> Option<f64> {
    let mut all: Vec<_> = offers.iter().map(|offer| (offer.density, offer.bytes)).collect();
    let mut among = &mut all[..];
    while !among.is_empty() {
        let middle = among.len() / 2;
        let (denser, &mut (density, bytes), rest) =
            among.select_nth_unstable_by(middle, |a, b| b.0.total_cmp(&a.0));
        let before: Bytes = denser.iter().map(|offer| offer.1).sum();
        if before >= left && !denser.is_empty() {
            among = denser;
        } else if before + bytes >= left || rest.is_empty() {
            return Some(density);
        } else {
            left -= before + bytes;
            among = rest;
        }
    }
    None
}

/// What a claim could still use of a tier.
fn wanted(tier: usize, claim: &Claim<'_>, grant: &Grant) -> Bytes {
    let rest = claim.memory.saturating_sub(grant.above(tier));
    rest.min(allowed(tier, claim, grant))
}

/// What a claim may still get of a tier.
fn allowed(tier: usize, claim: &Claim<'_>, grant: &Grant) -> Bytes {
    let cap = claim.fast_cap.filter(|_| tier == 0).unwrap_or(Bytes(u64::MAX));
    cap.saturating_sub(grant.reserved[tier] + grant.lent[tier])
}

/// Lends by weight (water-filling): to applications without an SLO up to all their memory, or to all of them
/// as room to grow.
fn lend_by_weight(
    tier: usize,
    left: &mut Bytes,
    claims: &[&Claim<'_>],
    grants: &mut [Grant],
    to_grow: bool,
) {
    let want = |claim: &Claim<'_>, grant: &Grant| match to_grow {
        true => allowed(tier, claim, grant),
        false if claim.has_slo => Bytes::ZERO,
        false => wanted(tier, claim, grant),
    };
    let wants = claims.iter().zip(&*grants).map(|(claim, grant)| want(claim, grant)).enumerate();
    let weight = |at: usize| claims[at].weight;
    let fills = wants
        .filter(|(_, want)| *want > Bytes::ZERO)
        .map(|(at, want)| (as_f64(want) / weight(at), at, want));
    let mut fills: Vec<(f64, usize, Bytes)> = fills.collect();
    // Who needs the least for its weight is satisfied first; its rest is divided among the others.
    fills.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut weights: f64 = fills.iter().map(|(_, at, _)| weight(*at)).sum();
    for (_, at, want) in fills {
        let lent = left.part((weight(at) / weights).min(1.0)).min(want).min(*left);
        weights -= weight(at);
        grants[at].lent[tier] += lent;
        *left -= lent;
    }
}
