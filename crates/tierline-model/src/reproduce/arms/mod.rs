// SPDX-License-Identifier: Apache-2.0
//! ARMS (arXiv 2508.04417), evaluation: the figures that can be computed with stand-ins for its programs.

mod figures;
mod rows;
pub mod setup;
mod tuned;

use super::Experiment;
use super::Paper;
use super::lab::Lab;

/// The paper.
pub const PAPER: Paper = Paper {
    prefix: "A-",
    name: "ARMS (arXiv 2508.04417)",
    about: "Policies without thresholds; with stand-ins for its programs.",
    rows: &[rows::ROWS, tuned::ROWS],
    charts: Some(figures::charts),
    tables: None,
};

const ARMS: &str = "arms";

/// Operations per second over the whole run, including convergence.
fn speed(lab: &Lab, trial: &Experiment) -> f64 {
    let programs = &lab.report(trial).overall.programs;
    programs.first().map_or(1.0, |program| program.throughput)
}

/// A trial's speed divided by that of the same trial with another policy.
fn over(lab: &Lab, trial: &Experiment, policy: &str) -> f64 {
    speed(lab, trial) / speed(lab, &trial.under(policy))
}

/// Moved in both directions, GiB.
fn moved_gib(lab: &Lab, trial: &Experiment) -> f64 {
    let moves = &lab.report(trial).moves;
    #[expect(clippy::cast_precision_loss, reason = "pages of one run")]
    let pages = (moves.promoted_pages + moves.demoted_pages) as f64;
    pages / f64::from(1 << 18)
}

/// Mean time, s, until an access to a page that became fast was served by fast memory, in the first half of a run,
/// before any jump.
fn delay(lab: &Lab, trial: &Experiment) -> f64 {
    let half = f64::from(setup::SECONDS / 2);
    let series = lab.report(trial).series.iter().take_while(|row| row.seconds <= half);
    let shares: Vec<f64> =
        series.filter_map(|row| row.means.programs.first()?.shares.first().copied()).collect();
    let best = shares.iter().copied().fold(0.0, f64::max);
    let first = shares.first().copied().unwrap_or(0.0);
    if best <= first {
        return half; // nothing became fast
    }
    shares.iter().map(|share| (best - share) / (best - first)).sum()
}

#[cfg(test)]
mod tests {
    use super::setup::App;
    use super::*;

    #[test]
    fn every_trial_is_a_scenario() {
        for app in setup::APPS.into_iter().chain([App::Liblinear]) {
            setup::trial(app, ARMS).scenario().unwrap().world().unwrap();
        }
    }
}
