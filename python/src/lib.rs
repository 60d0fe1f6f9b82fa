// SPDX-License-Identifier: Apache-2.0
//! The model for Python: scenarios in, JSON out. Tables are made of it in `tierline/__init__.py`.
//!
//! While a scenario runs, other threads of Python do too.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::thread::available_parallelism;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tierline_core::knob::Form;
use tierline_core::policy::list::{POLICIES, PolicyEntry};
use tierline_model::compare::{self, Cell, Field};
use tierline_model::error::{Error, Result};
use tierline_model::parallel::map;
use tierline_model::reproduce::arms::setup::Trial;
use tierline_model::reproduce::{self, Lab};
use tierline_model::scenario::{self, Traces};

/// What runs where; it never changes.
#[pyclass(frozen)]
#[derive(Clone)]
struct Scenario(scenario::Scenario);

#[pymethods]
impl Scenario {
    /// A cell of `tierline compare`.
    #[new]
    #[pyo3(signature = (machine, workload, *, policy = "tierline", ratio = None, seconds = 20.0, seed = 1))]
    fn new(
        machine: &str,
        workload: &str,
        policy: &str,
        ratio: Option<(u32, u32)>,
        seconds: f64,
        seed: u64,
    ) -> PyResult<Self> {
        let cell = Cell { machine: machine.into(), workload: workload.into(), ratio };
        let field =
            Field { policies: vec![], cells: vec![], traces: Traces::default(), seconds, seed };
        compare::scenario(&field, &cell, policy).map(Self).map_err(raised)
    }

    /// The text of a scenario file, as `tierline sim` takes it.
    #[staticmethod]
    fn parse(text: &str) -> PyResult<Self> {
        scenario::Scenario::parse("scenario", text).map(Self).map_err(raised)
    }

    /// ARMS' set-up (section 7) of a program, as in the rows `A-`: `gups`, `silo-tpcc`, `silo-ycsb`, …
    #[staticmethod]
    #[pyo3(signature = (program, *, policy = "arms"))]
    fn arms(program: &str, policy: &str) -> PyResult<Self> {
        let app = serde_json::from_value(program.into())
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let entry = entry(policy)?;
        Trial::of(app, entry.name).scenario().map(Self).map_err(raised)
    }

    /// The same with another policy, and with these of its knobs set.
    #[pyo3(signature = (policy, knobs = None))]
    fn under(&self, policy: &str, knobs: Option<BTreeMap<String, f64>>) -> PyResult<Self> {
        let policy_knobs = knobs.unwrap_or_default();
        let scenario = scenario::Scenario { policy: policy.into(), policy_knobs, ..self.0.clone() };
        scenario.policy_set().map_err(raised)?;
        Ok(Self(scenario))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Names of the policies that the model has, the default first.
#[pyfunction]
fn policies() -> Vec<&'static str> {
    let modelled = POLICIES.iter().filter(|entry| (entry.make)().kernel().is_none());
    modelled.map(|entry| entry.name).collect()
}

/// A knob: name, about, unit, form, least, greatest, default.
type Knob = (&'static str, &'static str, &'static str, &'static str, f64, f64, f64);

#[pyfunction]
fn knobs(policy: &str) -> PyResult<Vec<Knob>> {
    let knobs = (entry(policy)?.make)().knobs();
    let form = |form| match form {
        Form::Real => "real",
        Form::Whole => "whole",
        Form::Switch => "switch",
    };
    let row = |k: &tierline_core::knob::Knob| {
        (k.name, k.about, k.unit, form(k.form), k.range[0], k.range[1], k.default)
    };
    Ok(knobs.iter().map(row).collect())
}

/// The reports of scenarios, in their order, as JSON.
#[pyfunction]
fn run(
    py: Python<'_>,
    scenarios: Vec<PyRef<'_, Scenario>>,
    threads: Option<usize>,
) -> PyResult<Vec<String>> {
    let scenarios: Vec<_> = scenarios.iter().map(|scenario| scenario.0.clone()).collect();
    let reports = py.detach(|| {
        map(&scenarios, threads_or_cores(threads), &|_, _| {}, tierline_model::run::run)
    });
    reports.into_iter().map(|report| json(&report.map_err(raised)?)).collect()
}

/// The rows of `tierline compare`, as JSON.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "they are those of the command")]
fn compare_cells(
    py: Python<'_>,
    policies: Vec<String>,
    machines: Vec<String>,
    workloads: Vec<String>,
    ratios: Vec<(u32, u32)>,
    seconds: f64,
    seed: u64,
    threads: Option<usize>,
) -> PyResult<String> {
    let cells = Cell::product(&machines, &workloads, &ratios);
    let field = Field { policies, cells, traces: Traces::default(), seconds, seed };
    let entries = py.detach(|| compare::compare(&field, threads_or_cores(threads), &|_, _| {}));
    json(&entries.map_err(raised)?)
}

/// The rows of `tierline reproduce`, as JSON.
#[pyfunction]
fn rows(py: Python<'_>, ids: Vec<String>, long: bool, threads: Option<usize>) -> PyResult<String> {
    let outcomes = py.detach(|| -> Result<_> {
        let rows = reproduce::select(&ids, long)?;
        reproduce::compute(&rows, &mut Lab::default(), threads_or_cores(threads), &|_, _| {})
    });
    json(&outcomes.map_err(raised)?)
}

fn entry(policy: &str) -> PyResult<&'static PolicyEntry> {
    let scenario = scenario::Scenario { policy: policy.into(), ..scenario::Scenario::default() };
    scenario.policy().map_err(raised)
}

fn threads_or_cores(threads: Option<usize>) -> usize {
    threads.unwrap_or_else(|| available_parallelism().map_or(1, usize::from))
}

fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A model's error as Python's, with what there is where something is not.
fn raised(error: Error) -> PyErr {
    let text = match &error {
        Error::Unknown { known, .. } => format!("{error}; there are: {}", known.join(", ")),
        Error::File { .. } | Error::Figure { .. } => error.to_string(),
    };
    PyValueError::new_err(text)
}

#[pymodule]
fn _tierline(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Scenario>()?;
    module.add_function(wrap_pyfunction!(policies, module)?)?;
    module.add_function(wrap_pyfunction!(knobs, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(compare_cells, module)?)?;
    module.add_function(wrap_pyfunction!(rows, module)?)
}
