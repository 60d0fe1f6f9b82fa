// SPDX-License-Identifier: Apache-2.0
//! The model for Python: scenarios in, JSON out. `tierline/__init__.py` turns the JSON into tables. Other
//! Python threads run while a scenario is simulated.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::available_parallelism;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tierline_core::knob::NumberKind;
use tierline_core::policy::{POLICIES, entry::PolicyEntry};
use tierline_core::unit::BytesPerSec;
use tierline_model::cell::{Cell, Files, Ratio};
use tierline_model::compare::{self, OpenCell};
use tierline_model::error::{Error, Result};
use tierline_model::reproduce::arms::setup::trial;
use tierline_model::reproduce::{self, Lab};
use tierline_model::runner::Runner;
use tierline_model::scenario;
use tierline_model::workload::replay::Recording;

/// The files that a scenario names. Recordings are replayed by `tierline sim` only.
struct Disk;

/// A Python error, from an error of the model.
struct Raised(PyErr);

impl From<Error> for Raised {
    fn from(error: Error) -> Self {
        Self(to_python(error))
    }
}

impl From<Raised> for PyErr {
    fn from(raised: Raised) -> Self {
        raised.0
    }
}

impl Files for Disk {
    type Error = Raised;

    fn text(&self, file: &str) -> std::result::Result<String, Raised> {
        std::fs::read_to_string(file).map_err(|error| Raised(error.into()))
    }

    fn recording(&self, file: &str) -> std::result::Result<Arc<dyn Recording>, Raised> {
        let text = format!("{file}: recordings are replayed by `tierline sim` only");
        Err(Raised(PyValueError::new_err(text)))
    }
}

/// An immutable scenario.
#[pyclass(frozen)]
#[derive(Clone)]
struct Scenario(scenario::Scenario);

#[pymethods]
impl Scenario {
    /// A cell of `tierline compare`.
    #[new]
    #[pyo3(signature = (machine, workload, *, policy = "tierline", ratio = None, seconds = None, seed = None, max_rate = None))]
    fn new(
        machine: Option<&str>,
        workload: &str,
        policy: &str,
        ratio: Option<(u32, u32)>,
        seconds: Option<f64>,
        seed: Option<u64>,
        max_rate: Option<u64>,
    ) -> PyResult<Self> {
        let (ratio, max_rate) = (ratio.map(Ratio::from), max_rate.map(BytesPerSec));
        let cell = Cell { ratio, seconds, seed, max_rate, ..Cell::new(machine, workload) };
        let scenario = cell.scenario(&Disk)?;
        scenario.machine().map_err(to_python)?;
        Self(scenario).under(policy, None)
    }

    /// Parses a scenario file, as `tierline sim` does.
    #[staticmethod]
    fn parse(text: &str) -> PyResult<Self> {
        scenario::Scenario::parse("scenario", text).map(Self).map_err(to_python)
    }

    /// ARMS' configuration (section 7) of a program, as in the rows `A-`: `gups`, `silo-tpcc`, `silo-ycsb`, …
    #[staticmethod]
    #[pyo3(signature = (program, *, policy = "arms"))]
    fn arms(program: &str, policy: &str) -> PyResult<Self> {
        let app = serde_json::from_value(program.into())
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let entry = entry(policy)?;
        trial(app, entry.name).scenario().map(Self).map_err(to_python)
    }

    /// The same scenario with another policy and the given knobs.
    #[pyo3(signature = (policy, knobs = None))]
    fn under(&self, policy: &str, knobs: Option<BTreeMap<String, f64>>) -> PyResult<Self> {
        let policy_knobs = knobs.unwrap_or_default();
        let scenario = scenario::Scenario { policy: policy.into(), policy_knobs, ..self.0.clone() };
        scenario.policy_set().map_err(to_python)?;
        Ok(Self(scenario))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Names of the model's policies, the default first.
#[pyfunction]
fn policies() -> Vec<&'static str> {
    let modelled = POLICIES.iter().filter(|entry| (entry.make)().kernel().is_none());
    modelled.map(|entry| entry.name).collect()
}

/// A knob: name, description, unit, form, minimum, maximum, default.
type Knob = (&'static str, &'static str, &'static str, &'static str, f64, f64, f64);

#[pyfunction]
fn knobs(policy: &str) -> PyResult<Vec<Knob>> {
    let knobs = (entry(policy)?.make)().knobs();
    let form = |form| match form {
        NumberKind::Real => "real",
        NumberKind::Whole => "whole",
        NumberKind::Switch => "switch",
    };
    let row = |k: &tierline_core::knob::Knob| {
        (k.name, k.about, k.unit, form(k.form), k.range[0], k.range[1], k.default)
    };
    Ok(knobs.iter().map(row).collect())
}

/// Runs scenarios. Returns their reports in the same order, as JSON.
#[pyfunction]
fn run(
    py: Python<'_>,
    scenarios: Vec<PyRef<'_, Scenario>>,
    threads: Option<usize>,
) -> PyResult<Vec<String>> {
    let scenarios: Vec<_> = scenarios.iter().map(|scenario| scenario.0.clone()).collect();
    let reports = py.detach(|| Runner::on(threads_or_cores(threads)).run(&scenarios));
    reports.map_err(to_python)?.iter().flatten().map(json).collect()
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
    seconds: Option<f64>,
    seed: Option<u64>,
    threads: Option<usize>,
) -> PyResult<String> {
    let like = Cell { seconds, seed, ..Cell::default() };
    let ratios: Vec<Ratio> = ratios.into_iter().map(Ratio::from).collect();
    let cells = compare::product(&machines, &workloads, &ratios, &like);
    let cells = OpenCell::all(cells, &Disk)?;
    let runner = Runner::on(threads_or_cores(threads));
    let entries = py.detach(|| compare::compare(&policies, &cells, &runner));
    json(&entries.map_err(to_python)?)
}

/// The rows of `tierline reproduce`, as JSON.
#[pyfunction]
fn rows(py: Python<'_>, ids: Vec<String>, long: bool, threads: Option<usize>) -> PyResult<String> {
    let outcomes = py.detach(|| -> Result<_> {
        let rows = reproduce::select(&ids, long)?;
        reproduce::compute(&rows, &mut Lab::default(), &Runner::on(threads_or_cores(threads)))
    });
    json(&outcomes.map_err(to_python)?)
}

fn entry(policy: &str) -> PyResult<&'static PolicyEntry> {
    let scenario = scenario::Scenario { policy: policy.into(), ..scenario::Scenario::default() };
    scenario.policy().map_err(to_python)
}

fn threads_or_cores(threads: Option<usize>) -> usize {
    threads.unwrap_or_else(|| available_parallelism().map_or(1, usize::from))
}

fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Converts a model error to a Python error; for an unknown name, with the list of known names.
fn to_python(error: Error) -> PyErr {
    let text = match &error {
        Error::Unknown { known, .. } => format!("{error}; known: {}", known.join(", ")),
        Error::File { .. } | Error::Figure { .. } | Error::MissingCapability(_) => {
            error.to_string()
        }
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
