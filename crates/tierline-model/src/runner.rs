// SPDX-License-Identifier: Apache-2.0
//! Runs many scenarios on threads, or loads reports of earlier runs.

use tierline_core::unit::Nanos;
use toml::{Table, Value};

use crate::error::Result;
use crate::parallel::{Observer, map};
use crate::report::Report;
use crate::run::run;
use crate::scenario::Scenario;

/// Stores reports beyond the end of the program, so that hours of runs can be interrupted and resumed.
pub trait Archive: Sync {
    /// The stored report of this name.
    fn find(&self, name: &str) -> Option<Report>;
    /// Stores a report.
    fn keep(&self, name: &str, report: &Report);
}

/// Settings for running scenarios.
#[derive(Clone, Copy)]
pub struct Runner<'a> {
    /// Number of threads.
    pub threads: usize,
    /// Store of reports; scenarios found in it are not run.
    pub archive: Option<&'a dyn Archive>,
    /// Observer of progress.
    pub observer: &'a dyn Observer,
}

impl Runner<'_> {
    /// Settings with `threads` threads, without observer.
    pub fn on(threads: usize) -> Self {
        Self { threads, archive: None, observer: &() }
    }

    /// The reports of scenarios in order; `None` for those that were not started.
    ///
    /// # Errors
    /// If a part of a scenario is invalid.
    pub fn run(&self, scenarios: &[Scenario]) -> Result<Vec<Option<Report>>> {
        // A recording is identified only by its file name; its contents may have changed.
        let kept = |scenario: &Scenario| {
            self.archive.filter(|_| scenario.traces.0.is_empty()).map(|kept| (kept, name(scenario)))
        };
        let find = |scenario| kept(scenario).and_then(|(archive, name)| archive.find(&name));
        let mut reports: Vec<_> = scenarios.iter().map(find).collect();
        let missing: Vec<usize> = (0..reports.len()).filter(|&at| reports[at].is_none()).collect();
        let cpu = missing.iter().map(|&at| expected(&scenarios[at])).sum();
        self.observer.begin(missing.len(), cpu);
        let of = |&at: &usize| {
            let report = run(&scenarios[at])?;
            if let Some((archive, name)) = kept(&scenarios[at]) {
                archive.keep(&name, &report);
            }
            Ok(report)
        };
        for (at, report) in missing.iter().zip(map(&missing, self.threads, self.observer, of)) {
            reports[*at] = report.transpose()?;
        }
        Ok(reports)
    }
}

/// The name of a scenario: scenarios with the same name are the same run.
pub fn name(scenario: &Scenario) -> String {
    format!("{scenario:?}")
}

/// CPU time per simulated second, with huge pages and with base pages. Ours: means over the runs of `tierline
/// reproduce`, which range from a tenth of it to ten times as much.
const HUGE_PAGES: f64 = 0.01;
const BASE_PAGES: f64 = 0.3;

/// Approximate CPU time of a run.
pub fn expected(scenario: &Scenario) -> Nanos {
    let is_base = |program: &Table| program.get("pages").and_then(Value::as_str) == Some("base");
    let base = scenario.workload.iter().any(is_base);
    Nanos::from_secs_f64(scenario.seconds * if base { BASE_PAGES } else { HUGE_PAGES })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::list::written;
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Shelf(Mutex<BTreeMap<String, Report>>);

    impl Archive for Shelf {
        fn find(&self, name: &str) -> Option<Report> {
            self.0.lock().unwrap().get(name).cloned()
        }
        fn keep(&self, name: &str, report: &Report) {
            assert!(self.0.lock().unwrap().insert(name.into(), report.clone()).is_none(), "twice");
        }
    }

    /// Counts the runs that start.
    #[derive(Default)]
    struct Begun(Mutex<Vec<usize>>);

    impl Observer for Begun {
        fn begin(&self, runs: usize, _: Nanos) {
            self.0.lock().unwrap().push(runs);
        }
        fn done(&self, _: usize, _: usize) {}
        fn stops(&self) -> bool {
            false
        }
    }

    #[test]
    fn stored_reports_are_not_computed_again() {
        let scenario = |seed| Scenario {
            policy: "hold".into(),
            seconds: 0.1,
            seed,
            workload: vec![written("gups:set=2GiB,hot=1GiB").unwrap()],
            ..Scenario::default()
        };
        let (shelf, begun) = (Shelf::default(), Begun::default());
        let runner = Runner { threads: 2, archive: Some(&shelf), observer: &begun };
        let first = runner.run(&[scenario(1), scenario(2)]).unwrap();
        let second = runner.run(&[scenario(2), scenario(3), scenario(1)]).unwrap();
        assert_eq!(*begun.0.lock().unwrap(), [2, 1]);
        assert_eq!([&second[0], &second[2]], [&first[1], &first[0]]);
        assert_eq!(second[1].as_ref().unwrap().seed, 3);
        assert_eq!(Runner::on(1).run(&[scenario(1)]).unwrap()[0], first[0]);
    }
}
