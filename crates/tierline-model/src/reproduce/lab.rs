// SPDX-License-Identifier: Apache-2.0
//! The lab: runs what rows ask for, each set-up once, on as many threads as there are.
//!
//! A row asks for the report of a set-up and goes on with a stand-in where it was not run yet; then all
//! that was asked for is run, and the rows are computed again. So no row has to say in advance what it
//! needs, and what comes out does not depend on which thread ran what.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::arms::setup::Trial;
use super::neomem::setup::Bench;
use super::setup::Setup;
use super::tpp::setup::Run;
use crate::error::Result;
use crate::parallel::{Said, map};
use crate::report::{Interval, Means, ProgramMeans, Report, TierMeans};
use crate::run::run;
use crate::scenario::Scenario;

/// A set-up of one of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Any {
    /// Of Colloid.
    Colloid(Setup),
    /// Of TPP.
    Tpp(Run),
    /// Of ARMS.
    Arms(Trial),
    /// Of NeoMem.
    NeoMem(Bench),
}

impl From<&Setup> for Any {
    fn from(setup: &Setup) -> Self {
        Self::Colloid(*setup)
    }
}

impl From<&Run> for Any {
    fn from(run: &Run) -> Self {
        Self::Tpp(*run)
    }
}

impl From<&Trial> for Any {
    fn from(trial: &Trial) -> Self {
        Self::Arms(*trial)
    }
}

impl From<&Bench> for Any {
    fn from(bench: &Bench) -> Self {
        Self::NeoMem(*bench)
    }
}

impl Any {
    fn scenario(&self) -> Result<Scenario> {
        match self {
            Self::Colloid(setup) => setup.scenario(),
            Self::Tpp(run) => run.scenario(),
            Self::Arms(trial) => trial.scenario(),
            Self::NeoMem(bench) => bench.scenario(),
        }
    }

    fn effort(&self) -> u32 {
        match self {
            Self::Colloid(setup) => setup.effort(),
            Self::Tpp(run) => run.effort(),
            Self::Arms(trial) => trial.effort(),
            Self::NeoMem(bench) => bench.effort(),
        }
    }
}

/// Reports that outlive the program, so that hours of runs can be stopped and gone on with.
pub trait Archive: Sync {
    /// The report that was kept under this name.
    fn find(&self, name: &str) -> Option<Report>;
    /// Keeps a report.
    fn keep(&self, name: &str, report: &Report);
}

/// What was run, and what is still to be.
pub struct Lab {
    done: BTreeMap<Any, Report>,
    asked: RefCell<BTreeSet<Any>>,
    stand_in: Report,
    archive: Option<Box<dyn Archive>>,
}

impl Default for Lab {
    fn default() -> Self {
        let (done, asked) = (BTreeMap::new(), RefCell::default());
        Self { done, asked, stand_in: stand_in(), archive: None }
    }
}

impl Lab {
    /// A lab that keeps its reports there, and runs nothing again of which there is one.
    pub fn with(archive: Box<dyn Archive>) -> Self {
        Self { archive: Some(archive), ..Self::default() }
    }

    /// What came of a set-up.
    pub fn report(&self, setup: impl Into<Any>) -> &Report {
        let setup = setup.into();
        self.done.get(&setup).unwrap_or_else(|| {
            self.asked.borrow_mut().insert(setup);
            &self.stand_in
        })
    }

    /// The program of a set-up in its steady state.
    pub fn program(&self, setup: impl Into<Any>) -> &ProgramMeans {
        program(&self.report(setup).steady).unwrap_or(&self.stand_in.steady.programs[0])
    }

    /// Bytes a second that the program of a set-up reads and writes in its steady state.
    pub fn rate(&self, setup: impl Into<Any>) -> f64 {
        self.program(setup).bytes_per_second
    }

    /// Loaded latencies of the two tiers of a set-up in its steady state, ns.
    pub fn latencies(&self, setup: impl Into<Any>) -> [f64; 2] {
        let of = |tier: Option<&TierMeans>| tier.and_then(|tier| tier.latency_ns).unwrap_or(1.0);
        let tiers = &self.report(setup).steady.tiers;
        [of(tiers.first()), of(tiers.get(1))]
    }

    /// Runs what was asked for since; false where it was nothing.
    ///
    /// # Errors
    /// Where a scenario cannot be made.
    pub fn run_what_was_asked(&mut self, threads: usize, said: Said<'_>) -> Result<bool> {
        let mut setups: Vec<Any> = self.asked.take().into_iter().collect();
        // Long ones first, so that no thread is left alone with one at the end.
        setups.sort_by_key(|setup| std::cmp::Reverse(setup.effort()));
        let archive = self.archive.as_deref();
        let of = |setup: &Any| {
            let name = format!("{setup:?}");
            if let Some(report) = archive.and_then(|archive| archive.find(&name)) {
                return Ok(report);
            }
            let report = run(&setup.scenario()?)?;
            archive.iter().for_each(|archive| archive.keep(&name, &report));
            Ok(report)
        };
        let reports = map(&setups, threads, said, of);
        for (setup, report) in setups.iter().zip(reports) {
            self.done.insert(*setup, report?);
        }
        Ok(!setups.is_empty())
    }
}

/// The program among means, and not the antagonist.
pub fn program(means: &Means) -> Option<&ProgramMeans> {
    means.programs.iter().find(|program| program.name != "antagonist")
}

/// A report that divides without harm.
fn stand_in() -> Report {
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
