// SPDX-License-Identifier: Apache-2.0
//! The fixed point by nested bisection: slow, but always converges.
//!
//! A tier's error rises with its own backlog, also if the slower tiers are kept consistent with it (the Schur
//! complement of a positive definite system is positive). So the fastest tier is bisected, and for each guess
//! all others are solved. [`super::solve`] uses it if Newton's method does not converge, which is rare: one random
//! machine is known, with four tiers. Tests compare the two.

use super::point::{Point, miss};
use super::{Class, Network, PerTier};

/// Halvings of one tier's interval.
const HALVINGS: u32 = 80;
/// Upper limit of a backlog: a billion requests wait for each one that is served.
pub(super) const MAX_BACKLOG: f64 = 1e9;
/// The cost is `HALVINGS` to the power of the number of tiers.
pub(super) const MAX_TIERS: usize = 3;

/// The backlogs at which all tiers are consistent with their traffic.
pub fn bisect(network: &Network, classes: &[Class], extra_ns: f64) -> PerTier {
    let mut backlog = PerTier::default();
    from_tier(network, classes, extra_ns, &mut backlog, 0);
    backlog
}

/// Solves `tier` and all after it; those before it are fixed.
fn from_tier(
    network: &Network,
    classes: &[Class],
    extra_ns: f64,
    backlog: &mut PerTier,
    tier: usize,
) {
    if tier < network.tiers.len() {
        solve_tier(network, classes, extra_ns, backlog, tier, &|backlog| {
            from_tier(network, classes, extra_ns, backlog, tier + 1);
        });
    }
}

/// Makes each tier consistent with its traffic in turn, as the others are at that moment: closer to the fixed point with each
/// sweep, however many tiers there are.
pub fn sweep(network: &Network, classes: &[Class], extra_ns: f64, backlog: &mut PerTier) {
    for tier in 0..network.tiers.len() {
        solve_tier(network, classes, extra_ns, backlog, tier, &|_| ());
    }
}

/// Solves one tier; after each guess, `follow` solves those that depend on it.
fn solve_tier(
    network: &Network,
    classes: &[Class],
    extra_ns: f64,
    backlog: &mut PerTier,
    tier: usize,
    follow: &dyn Fn(&mut PerTier),
) {
    let (mut low, mut high) = (0.0, MAX_BACKLOG);
    for _ in 0..HALVINGS {
        // At first the ends of the interval are orders of magnitude apart.
        backlog[tier] = if high > 4.0 * low + 1.0 { low * 2.0 + 0.5 } else { 0.5 * (low + high) };
        follow(backlog);
        let mut point = Point::at(network, backlog);
        point.add_traffic(network, classes, extra_ns);
        match miss(backlog[tier], point.utilisation(network, tier)) > 0.0 {
            true => high = backlog[tier],
            false => low = backlog[tier],
        }
    }
}
