// SPDX-License-Identifier: Apache-2.0
//! The fixed point by Newton's method on all backlogs, safeguarded by bisection.
//!
//! A pure function with a bounded number of steps: equal machines and programs give equal bits. A two-tier
//! machine takes about six Newton steps.

use tierline_core::tier::TierId;

use super::bisect::{MAX_BACKLOG, MAX_TIERS, bisect, sweep};
use super::point::{Point, miss, utilisation};
use super::{Class, LINE_BYTES, Loads, Network, PerTier};

/// Steps that may increase the error; after these, a step that does not reduce it is halved.
const FREE_STEPS: u32 = 10;
/// Maximum number of steps; then bisection is used.
const STEPS: u32 = 200;
/// Sweeps over the tiers of machines with too many for nested bisection, each with another try.
const SWEEPS: u32 = 100;
/// Relative error at which a guess is accepted.
const CLOSE: f64 = 1e-12;
/// No step changes a backlog by more than this factor.
const REACH: f64 = 8.0;
/// Halvings in the search for the wait for the shared queue.
const WAIT_HALVINGS: u32 = 60;

/// Computes all latencies and throughputs into `loads`.
pub fn solve(network: &Network, classes: &[Class], loads: &mut Loads) {
    debug_assert!(classes.iter().all(Class::is_sound), "{classes:?}");
    let mut backlog = settle(network, classes, 0.0, start(network, classes));
    let mut wait_ns = 0.0;
    if let Some(room) = network.shared_queue {
        (wait_ns, backlog) = share_queue(network, classes, room, backlog);
    }
    let latency_ns = Point::at(network, &backlog).latency_ns;
    let extra_ns = network.path_ns + wait_ns;
    loads.latency_ns = latency_ns;
    loads.utilisation = backlog.map(utilisation);
    loads.wait_ns = wait_ns;
    loads.reads_per_ns.clear();
    loads.reads_per_ns.extend(classes.iter().map(|class| rate(class, &latency_ns, extra_ns)));
}

/// Reads per ns of a class; zero if it is idle.
fn rate(class: &Class, latency_ns: &PerTier, extra_ns: f64) -> f64 {
    match class.in_flight > 0.0 {
        true => class.in_flight / class.round_ns(latency_ns, extra_ns),
        false => 0.0,
    }
}

/// First guess: the utilisation at unloaded latencies, used as the backlog.
fn start(network: &Network, classes: &[Class]) -> PerTier {
    let mut point = Point::at(network, &PerTier::default());
    point.add_traffic(network, classes, network.path_ns);
    let mut backlog = PerTier::default();
    for (t, guess) in backlog.iter_mut().enumerate().take(network.tiers.len()) {
        *guess = point.utilisation(network, t).min(MAX_BACKLOG);
    }
    backlog
}

/// The wait for the shared queue at which the reads inside fit into it, and the corresponding backlogs.
fn share_queue(
    network: &Network,
    classes: &[Class],
    room: f64,
    backlog: PerTier,
) -> (f64, PerTier) {
    let inside = |backlog: &PerTier, wait_ns: f64| -> f64 {
        let latency_ns = Point::at(network, backlog).latency_ns;
        let of = |class: &Class| {
            let in_tiers: f64 = class.reads.iter().zip(&latency_ns).map(|(r, l)| r * l).sum();
            rate(class, &latency_ns, network.path_ns + wait_ns) * in_tiers
        };
        classes.iter().map(of).sum()
    };
    if inside(&backlog, 0.0) <= room {
        return (0.0, backlog);
    }
    // With the longest wait, all misses in flight are outside: those inside are fewer than K·L0/W.
    let all: f64 = classes.iter().map(|class| class.in_flight).sum();
    let longest = Point::at(network, &backlog).latency_ns.iter().fold(0.0, |a: f64, &b| a.max(b));
    let (mut low, mut high) = (0.0, all / room * longest);
    let mut settled = backlog;
    for _ in 0..WAIT_HALVINGS {
        let wait_ns = 0.5 * (low + high);
        settled = settle(network, classes, wait_ns, settled);
        match inside(&settled, wait_ns) > room {
            true => low = wait_ns,
            false => high = wait_ns,
        }
    }
    (high, settle(network, classes, high, settled))
}

/// The backlogs for a given wait, starting from a guess.
fn settle(network: &Network, classes: &[Class], wait_ns: f64, guess: PerTier) -> PerTier {
    let extra_ns = network.path_ns + wait_ns;
    let mut found = approach(network, classes, extra_ns, guess);
    if found.is_err() && network.tiers.len() <= MAX_TIERS {
        return bisect(network, classes, extra_ns);
    }
    for _ in 0..SWEEPS {
        let Err(mut backlog) = found else { break };
        sweep(network, classes, extra_ns, &mut backlog);
        found = approach(network, classes, extra_ns, backlog);
    }
    found.unwrap_or_else(|backlog| backlog)
}

/// The backlogs by Newton's method; the last guess if that does not converge.
fn approach(
    network: &Network,
    classes: &[Class],
    extra_ns: f64,
    guess: PerTier,
) -> Result<PerTier, PerTier> {
    let (mut backlog, mut stride) = (guess, 1.0);
    let mut last: Option<(PerTier, Step)> = None;
    for at in 0..STEPS {
        let Some(step) = newton(network, classes, extra_ns, &backlog) else { break };
        if step.worst <= CLOSE {
            return Ok(backlog);
        }
        match last {
            Some((from, before)) if at > FREE_STEPS && step.squares >= before.squares => {
                stride *= 0.5;
                backlog = walk(&from, &before.by, stride);
            }
            _ => {
                stride = 1.0;
                last = Some((backlog, step));
                backlog = walk(&backlog, &step.by, stride);
            }
        }
    }
    Err(backlog)
}

/// Takes part of a step. Backlogs stay positive and within a factor of their old values.
fn walk(from: &PerTier, by: &PerTier, stride: f64) -> PerTier {
    let mut to = *from;
    for (y, dy) in to.iter_mut().zip(by) {
        let (low, high) = (*y / REACH, (*y * REACH + 1.0).min(MAX_BACKLOG));
        *y = (*y + stride * dy).max(low).min(high);
    }
    to
}

/// A Newton step, and the error of the guess from which it starts.
#[derive(Clone, Copy, Debug)]
struct Step {
    by: PerTier,
    /// The largest error.
    worst: f64,
    /// Sum of squared errors, which a step must reduce.
    squares: f64,
}

/// The Newton step from a guess; `None` if the matrix is singular.
fn newton(network: &Network, classes: &[Class], extra_ns: f64, backlog: &PerTier) -> Option<Step> {
    let n = network.tiers.len();
    let mut point = Point::at(network, backlog);
    let mut reads_by = [[0.0; TierId::MAX]; TierId::MAX];
    let mut writes_by = [[0.0; TierId::MAX]; TierId::MAX];
    for class in classes.iter().filter(|class| class.in_flight > 0.0) {
        let round_ns = class.round_ns(&point.latency_ns, extra_ns);
        let gb_per_s = class.in_flight / round_ns * LINE_BYTES;
        for t in 0..n {
            let (reads, writes) = (gb_per_s * class.reads[t], gb_per_s * class.writes[t]);
            point.read_gb_per_s[t] += reads;
            point.write_gb_per_s[t] += writes;
            for s in 0..n {
                let slower = class.waits[s] * point.slope[s] / round_ns;
                reads_by[t][s] -= reads * slower;
                writes_by[t][s] -= writes * slower;
            }
        }
    }
    let mut slopes = [[0.0; TierId::MAX]; TierId::MAX];
    let mut misses = PerTier::default();
    let mut worst: f64 = 0.0;
    for t in 0..n {
        let usage =
            network.tiers[t].capacity.usage(point.read_gb_per_s[t], point.write_gb_per_s[t]);
        let implied = usage.utilisation;
        misses[t] = miss(backlog[t], implied);
        worst = worst.max(misses[t].abs());
        if implied <= 0.0 {
            slopes[t][t] = 1.0;
            continue;
        }
        let ratio = utilisation(backlog[t]) / (implied * implied);
        for s in 0..n {
            let by = usage.by_read * reads_by[t][s] + usage.by_write * writes_by[t][s];
            slopes[t][s] = -ratio * by;
        }
        let share = 1.0 / (1.0 + backlog[t]);
        slopes[t][t] += share * share / implied;
    }
    let squares = misses.iter().map(|miss| miss * miss).sum();
    Some(Step { by: eliminate(n, &mut slopes, &misses)?, worst, squares })
}

/// Solves `slopes · step = −misses` by elimination with partial pivoting.
fn eliminate(
    n: usize,
    slopes: &mut [[f64; TierId::MAX]; TierId::MAX],
    misses: &PerTier,
) -> Option<PerTier> {
    let mut rest = misses.map(|miss| -miss);
    for column in 0..n {
        let pivot = (column..n)
            .max_by(|&a, &b| slopes[a][column].abs().total_cmp(&slopes[b][column].abs()))?;
        slopes.swap(column, pivot);
        rest.swap(column, pivot);
        if slopes[column][column].abs() < 1e-300 {
            return None;
        }
        let (top, top_rest) = (slopes[column], rest[column]);
        for (row, rest) in slopes.iter_mut().zip(&mut rest).take(n).skip(column + 1) {
            let factor = row[column] / top[column];
            row.iter_mut().zip(&top).for_each(|(cell, above)| *cell -= factor * above);
            *rest -= factor * top_rest;
        }
    }
    for row in (0..n).rev() {
        let known: f64 = (row + 1..n).map(|at| slopes[row][at] * rest[at]).sum();
        rest[row] = (rest[row] - known) / slopes[row][row];
    }
    rest.iter().all(|step| step.is_finite()).then_some(rest)
}
