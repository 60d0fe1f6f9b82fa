// SPDX-License-Identifier: Apache-2.0
//! Least squares without derivatives: the simplex of Nelder and Mead (1965), with its standard coefficients.
//!
//! Parameters are positive and differ in magnitude, so the first steps are proportional to them, and the
//! simplex stays positive. Only basic arithmetic is used, so a fit gives the same figures on every platform.

/// The first step, as a share of each parameter.
const FIRST_STEP: f64 = 0.15;
/// Evaluations per parameter.
const EFFORT: usize = 200;
/// Restarts from the best point found, in case the simplex has become degenerate.
const RESTARTS: u32 = 2;

/// Parameters near `start` that minimise `cost`.
pub fn minimise(start: &[f64], mut cost: impl FnMut(&[f64]) -> f64) -> Vec<f64> {
    let mut best = start.to_vec();
    for _ in 0..RESTARTS {
        best = simplex(&best, &mut cost);
    }
    best
}

fn simplex(start: &[f64], cost: &mut impl FnMut(&[f64]) -> f64) -> Vec<f64> {
    let n = start.len();
    let mut corners: Vec<(f64, Vec<f64>)> = vec![(cost(start), start.to_vec())];
    for at in 0..n {
        let mut corner = start.to_vec();
        corner[at] *= 1.0 + FIRST_STEP;
        corners.push((cost(&corner), corner));
    }
    for _ in 0..EFFORT * n {
        corners.sort_by(|a, b| a.0.total_cmp(&b.0));
        let centre: Vec<f64> = (0..n).map(|at| mean(&corners[..n], at)).collect();
        let worst = corners[n].clone();
        // A point on the line from the worst corner through the centre of the others.
        let mut along = |factor: f64| {
            let point: Vec<f64> = centre
                .iter()
                .zip(&worst.1)
                .map(|(c, w)| (c + factor * (c - w)).max(c * 1e-3))
                .collect();
            (cost(&point), point)
        };
        let reflected = along(1.0);
        if reflected.0 < corners[0].0 {
            let expanded = along(2.0);
            corners[n] = if expanded.0 < reflected.0 { expanded } else { reflected };
        } else if reflected.0 < corners[n - 1].0 {
            corners[n] = reflected;
        } else {
            let inner = along(if reflected.0 < worst.0 { 0.5 } else { -0.5 });
            if inner.0 < worst.0.min(reflected.0) {
                corners[n] = inner;
            } else {
                shrink(&mut corners, cost);
            }
        }
    }
    corners.sort_by(|a, b| a.0.total_cmp(&b.0));
    corners.swap_remove(0).1
}

fn mean(corners: &[(f64, Vec<f64>)], at: usize) -> f64 {
    let sum: f64 = corners.iter().map(|(_, corner)| corner[at]).sum();
    #[expect(clippy::cast_precision_loss, reason = "a handful of corners")]
    let n = corners.len() as f64;
    sum / n
}

/// Moves all corners half-way to the best.
fn shrink(corners: &mut [(f64, Vec<f64>)], cost: &mut impl FnMut(&[f64]) -> f64) {
    let best = corners[0].1.clone();
    for (value, corner) in &mut corners[1..] {
        corner.iter_mut().zip(&best).for_each(|(c, b)| *c = 0.5 * (*c + b));
        *value = cost(corner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rosenbrock's valley, a common test problem: the minimum is at (1, 1).
    #[test]
    fn it_finds_the_minimum_of_rosenbrocks_function() {
        let found = minimise(&[0.3, 2.0], |p| {
            let (a, b) = (1.0 - p[0], p[1] - p[0] * p[0]);
            a * a + 100.0 * b * b
        });
        assert!(found.iter().all(|x| (x - 1.0).abs() < 1e-4), "{found:?}");
    }
}
