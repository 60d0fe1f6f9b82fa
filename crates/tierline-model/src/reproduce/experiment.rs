// SPDX-License-Identifier: Apache-2.0
//! An experiment: one run from which rows are computed. Its scenario is built step by step.
//!
//! Each paper's folder has functions for its usual set-up; rows vary it with the methods here.

use std::fmt::Write;

use tierline_core::unit::Bytes;
use toml::{Table, Value};

use crate::error::{Error, Result};
use crate::machine::list::MachineEntry;
use crate::runner;
use crate::scenario::Scenario;
use crate::workload::list::written;

/// The key of a tier's figures in a machine file.
const TIER: &str = "tier";

/// A run of programs on a machine under a policy.
#[derive(Clone, Debug, Default)]
pub struct Experiment {
    /// The scenario so far.
    pub scenario: Scenario,
    /// The steps that failed, with the reason.
    problems: String,
}

impl Experiment {
    /// A machine under a policy. Moves are limited only by the policy's own limits and the copying threads.
    pub fn new(machine: &str, policy: &str, seconds: u16) -> Self {
        Self::default().but(|scenario| {
            scenario.machine = machine.into();
            scenario.policy = policy.into();
            scenario.seconds = seconds.into();
        })
    }

    /// The same with a change to the scenario.
    #[must_use]
    pub fn but(&self, change: impl FnOnce(&mut Scenario)) -> Self {
        self.try_but(|scenario| {
            change(scenario);
            Ok(())
        })
    }

    /// The same with a change that may fail. If it fails, the experiment cannot be run.
    #[must_use]
    pub fn try_but(&self, change: impl FnOnce(&mut Scenario) -> Result<()>) -> Self {
        let mut changed = self.clone();
        if let Err(error) = change(&mut changed.scenario) {
            // Writing to a string cannot fail.
            let _ = write!(changed.problems, "{error}; ");
        }
        changed
    }

    /// Adds a program, written as on a command line.
    #[must_use]
    pub fn program(&self, text: &str) -> Self {
        self.try_but(|scenario| {
            scenario.workload.push(written(text)?);
            Ok(())
        })
    }

    /// Sets a knob of the last program.
    #[must_use]
    pub fn with(&self, knob: &str, value: impl Into<Value>) -> Self {
        self.but(|scenario| {
            if let Some(program) = scenario.workload.last_mut() {
                program.insert(knob.into(), value.into());
            }
        })
    }

    /// Under another policy, with default knobs.
    #[must_use]
    pub fn under(&self, policy: &str) -> Self {
        self.but(|scenario| {
            scenario.policy = policy.into();
            scenario.policy_knobs.clear();
        })
    }

    /// Sets a knob of the policy, in base units; a switch is 0 or 1.
    #[must_use]
    pub fn knob(&self, name: &str, value: impl Into<f64>) -> Self {
        self.but(|scenario| _ = scenario.policy_knobs.insert(name.into(), value.into()))
    }

    /// With one hardware sample per `period` misses.
    #[must_use]
    pub fn sampled(&self, period: u16) -> Self {
        self.but(|scenario| {
            scenario.tracker = Some("pebs".into());
            scenario.tracker_knobs.sample_period = period.into();
        })
    }

    /// With another length, in simulated seconds.
    #[must_use]
    pub fn lasting(&self, seconds: u16) -> Self {
        self.but(|scenario| scenario.seconds = seconds.into())
    }

    /// With another size of the fastest tier.
    #[must_use]
    pub fn fast_mib(&self, mib: u64) -> Self {
        self.but(|scenario| scenario.fast_capacity = Some(Bytes::from_mib(mib)))
    }

    /// On a machine with different figures: `change` edits its file.
    #[must_use]
    pub fn machine(&self, change: impl FnOnce(&mut MachineText) -> Result<()>) -> Self {
        self.try_but(|scenario| {
            let mut text = MachineText::of(scenario)?;
            change(&mut text)?;
            scenario.machine_text = Some(text.file.to_string());
            Ok(())
        })
    }

    /// Simulated time.
    pub fn seconds(&self) -> f64 {
        self.scenario.seconds
    }

    /// Its name. Two experiments with the same name are the same run.
    pub fn name(&self) -> String {
        runner::name(&self.scenario)
    }

    /// The scenario.
    ///
    /// # Errors
    /// If a step failed.
    pub fn scenario(&self) -> Result<Scenario> {
        match self.problems.is_empty() {
            true => Ok(self.scenario.clone()),
            false => Err(Error::Figure { place: "experiment".into(), why: self.problems.clone() }),
        }
    }
}

/// A machine file that is being edited.
#[derive(Debug)]
pub struct MachineText {
    name: String,
    /// The file.
    pub file: Table,
}

impl MachineText {
    fn of(scenario: &Scenario) -> Result<Self> {
        let name = scenario.machine.clone();
        let text = scenario.machine_text.as_deref().unwrap_or(MachineEntry::find(&name)?.text);
        let file = text.parse().map_err(|error: toml::de::Error| Error::file(&name, &error))?;
        Ok(Self { name, file })
    }

    /// Sets a figure of a tier.
    ///
    /// # Errors
    /// If the file has no such figure.
    pub fn set(&mut self, tier: usize, key: &str, value: impl Into<Value>) -> Result<()> {
        let wrong = self.wrong(format!("expected {TIER}[{tier}].{key}"));
        let tiers = self.file.get_mut(TIER).and_then(Value::as_array_mut);
        let figure = tiers.and_then(|tiers| tiers.get_mut(tier)?.get_mut(key)?.get_mut("value"));
        *figure.ok_or(wrong)? = value.into();
        Ok(())
    }

    /// Keeps only the fastest `count` tiers.
    pub fn keep_tiers(&mut self, count: usize) {
        let tiers = self.file.get_mut(TIER).and_then(Value::as_array_mut);
        tiers.into_iter().for_each(|tiers| tiers.truncate(count));
    }

    /// An error in this file.
    pub fn wrong(&self, why: String) -> Error {
        Error::Figure { place: self.name.clone(), why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_is_reported_when_the_experiment_runs() {
        let good = Experiment::new("tpp", "hold", 1).program("gups:set=2GiB");
        assert_eq!(good.scenario().unwrap().workload.len(), 1);
        let wrong = good.machine(|text| text.set(7, "unloaded_ns", 1)).lasting(2);
        let error = wrong.scenario().unwrap_err().to_string();
        assert!(error.contains("tpp") && error.contains("tier[7].unloaded_ns"), "{error}");
        assert!(good.program("gups:set").scenario().unwrap_err().to_string().contains("set"));
    }

    #[test]
    fn another_policy_starts_with_its_own_defaults() {
        let one = Experiment::new("tpp", "hemem", 1).knob("hot_reads", 3);
        assert_eq!(one.under("hemem").name(), Experiment::new("tpp", "hemem", 1).name());
        assert_ne!(one.name(), one.under("hemem").name());
    }

    #[test]
    fn a_figure_of_the_machine_can_be_changed() {
        let slower = Experiment::new("tpp", "hold", 1)
            .machine(|text| text.set(1, "unloaded_ns", 181))
            .scenario()
            .unwrap();
        let ns = |scenario: &Scenario| scenario.machine().unwrap().tiers[1].queue.curve.unloaded_ns;
        assert_eq!(ns(&slower), 181.0);
        assert_ne!(ns(&Scenario { machine: "tpp".into(), ..Scenario::default() }), 181.0);
    }
}
