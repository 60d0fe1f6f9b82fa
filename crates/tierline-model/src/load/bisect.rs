// SPDX-License-Identifier: Apache-2.0
//! The fixed point by nested bisection: slow, and never in doubt.
//!
//! A tier's miss rises in its own backlog, also where the slower tiers are kept in agreement with it (the
//! Schur complement of a positive definite system is positive). So the fastest tier is bisected, and for
//! each of its guesses all others are. [`super::solve`] falls back to it where Newton's steps do not
//! settle, which no random machine has shown yet; tests compare the two.

use super::point::{Point, miss};
use super::{Class, Network, PerTier};

/// Halvings of one tier's bracket.
const HALVINGS: u32 = 80;
/// No backlog is larger: a billion requests would wait for each that is served.
pub(super) const MAX_BACKLOG: f64 = 1e9;
/// The cost is `HALVINGS` to the power of tiers.
pub(super) const MAX_TIERS: usize = 3;

/// The backlogs at which all tiers agree with their traffic.
pub fn bisect(network: &Network, classes: &[Class], extra_ns: f64) -> PerTier {
    let mut backlog = PerTier::default();
    from_tier(network, classes, extra_ns, &mut backlog, 0);
    backlog
}

/// Brings `tier` and all after it into agreement; those before it are held.
fn from_tier(
    network: &Network,
    classes: &[Class],
    extra_ns: f64,
    backlog: &mut PerTier,
    tier: usize,
) {
    if tier == network.tiers.len() {
        return;
    }
    let (mut low, mut high) = (0.0, MAX_BACKLOG);
    for _ in 0..HALVINGS {
        // The bracket's ends are orders of magnitude apart at first.
        backlog[tier] = if high > 4.0 * low + 1.0 { low * 2.0 + 0.5 } else { 0.5 * (low + high) };
        from_tier(network, classes, extra_ns, backlog, tier + 1);
        let mut point = Point::at(network, backlog);
        point.add_traffic(network, classes, extra_ns);
        match miss(backlog[tier], point.utilisation(network, tier)) > 0.0 {
            true => high = backlog[tier],
            false => low = backlog[tier],
        }
    }
}
