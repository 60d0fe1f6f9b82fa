// SPDX-License-Identifier: Apache-2.0
//! The lab: runs the experiments requested by rows, each once, in parallel.
//!
//! A row requests the report of an experiment and continues with a placeholder if it was not run yet. Then all
//! requested experiments are run, and the rows are computed again. So no row declares in advance what it needs, and
//! the result does not depend on the assignment of runs to threads.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::experiment::Experiment;
use crate::error::Result;
use crate::report::{Interval, Means, ProgramMeans, Report, TierMeans};
use crate::runner::{Runner, expected};

/// Finished and requested experiments, by name.
pub struct Lab {
    done: BTreeMap<String, Report>,
    asked: RefCell<BTreeMap<String, Experiment>>,
    /// Whether a placeholder was returned.
    incomplete: Cell<bool>,
    placeholder: Report,
}

impl Default for Lab {
    fn default() -> Self {
        let (done, asked) = (BTreeMap::new(), RefCell::default());
        Self { done, asked, incomplete: Cell::new(false), placeholder: placeholder() }
    }
}

impl Lab {
    /// The report of an experiment.
    pub fn report(&self, experiment: &Experiment) -> &Report {
        let name = experiment.name();
        self.done.get(&name).unwrap_or_else(|| {
            self.incomplete.set(true);
            self.asked.borrow_mut().insert(name, experiment.clone());
            &self.placeholder
        })
    }

    /// The result of `of` if all reports that it reads exist; missing ones are requested.
    pub fn complete<T>(&self, of: impl FnOnce(&Self) -> T) -> Option<T> {
        self.incomplete.set(false);
        let found = of(self);
        (!self.incomplete.get()).then_some(found)
    }

    /// Means of an experiment's program in the steady state.
    pub fn program(&self, experiment: &Experiment) -> &ProgramMeans {
        let steady = &self.report(experiment).steady;
        program(steady).unwrap_or(&self.placeholder.steady.programs[0])
    }

    /// Bytes per second read and written by an experiment's program in the steady state.
    pub fn rate(&self, experiment: &Experiment) -> f64 {
        self.program(experiment).bytes_per_second
    }

    /// Loaded latencies of an experiment's two tiers in the steady state, ns.
    pub fn latencies(&self, experiment: &Experiment) -> [f64; 2] {
        let of = |tier: Option<&TierMeans>| tier.and_then(|tier| tier.latency_ns).unwrap_or(1.0);
        let tiers = &self.report(experiment).steady.tiers;
        [of(tiers.first()), of(tiers.get(1))]
    }

    /// Runs the experiments requested since the last call. False if there were none, or if no run started.
    ///
    /// # Errors
    /// If a scenario is invalid.
    pub fn run_what_was_asked(&mut self, runner: &Runner<'_>) -> Result<bool> {
        let mut asked: Vec<(String, Experiment)> = self.asked.take().into_iter().collect();
        // Long runs first, so that all threads finish at about the same time.
        asked.sort_by_key(|(_, experiment)| Reverse(expected(&experiment.scenario)));
        let scenarios = asked.iter().map(|(_, experiment)| experiment.scenario());
        let reports = runner.run(&scenarios.collect::<Result<Vec<_>>>()?)?;
        let any = reports.iter().any(Option::is_some);
        for ((name, _), report) in asked.into_iter().zip(reports) {
            report.map(|report| self.done.insert(name, report));
        }
        Ok(any)
    }
}

/// Means of the program, not of the antagonist.
pub fn program(means: &Means) -> Option<&ProgramMeans> {
    means.programs.iter().find(|program| program.name != "antagonist")
}

/// Placeholder report without zero denominators.
fn placeholder() -> Report {
    let program = ProgramMeans {
        throughput: 1.0,
        bytes_per_second: 1.0,
        shares: vec![0.5; 2],
        ..ProgramMeans::default()
    };
    let tier = TierMeans { latency_ns: Some(1.0), ..TierMeans::default() };
    let steady =
        Means { programs: vec![program], tiers: vec![tier.clone(), tier], ..Means::default() };
    Report {
        overall: steady.clone(),
        series: vec![Interval { seconds: 0.0, means: steady.clone() }],
        steady,
        ..Report::default()
    }
}
