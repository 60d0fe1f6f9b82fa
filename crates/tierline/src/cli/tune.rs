// SPDX-License-Identifier: Apache-2.0
//! `tierline tune`: finds the best values of a policy's knobs for a workload, with the Python package.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use clap::Args;
use serde::{Deserialize, Serialize};
use tierline_core::knob::Knob;
use tierline_model::scenario::Scenario;

use super::Globals;
use super::names;
use super::sim::write;
use crate::plot;
use crate::print::{self, row};
use crate::report_error::ErrorWithHint;

/// Find the best values of a policy's knobs for a workload
///
/// Bayesian optimisation (Optuna) over all knobs that `tierline explain` lists, on the modelled machine. The objective
/// is the first program's throughput over the whole run. Needs the Python package: python/build. Ctrl-C stops it
/// after the present runs; the same command with the same --out resumes.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: tierline tune --policy hemem --machine arms-optane --ratio 1:8 --out tuned"
)]
pub struct TuneArgs {
    /// A policy from `tierline policies`
    #[arg(long, value_name = "NAME", value_parser = names::policy(), hide_possible_values = true)]
    policy: String,
    /// A machine from `tierline machines`, or a machine file [default: colloid-icx, or the scenario's]
    #[arg(long, value_name = "NAME|FILE.toml", value_parser = names::machine(), hide_possible_values = true)]
    machine: Option<String>,
    /// A workload, with optional knobs, as in gups:hot=12GiB,jump=50s; workloads after a + run at the same time. Or a scenario
    /// file, whose machine is used unless one is named
    #[arg(long, value_name = "KIND[:KEY=VALUE,…]", default_value = "gups", value_parser = names::workload(), hide_possible_values = true)]
    workload: String,
    /// Ratio of fast to slow memory, for the workload's memory, as in 1:8 [default: the machine's own]
    #[arg(long, value_name = "F:S")]
    ratio: Option<String>,
    /// Simulated time of a trial
    #[arg(long, value_name = "S", default_value_t = 60.0)]
    seconds: f64,
    /// Number of trials, including those of interrupted runs
    #[arg(long, value_name = "N", default_value_t = 100)]
    trials: u32,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Trials to run in parallel [default: number of cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Keep trials here, and write tuning.json and tuning.svg
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// The package's result.
#[derive(Debug, Deserialize, Serialize)]
pub struct Tuning {
    policy: String,
    scenario: String,
    engine: String,
    seed: u64,
    trials: u32,
    cpu_seconds: f64,
    default: Setting,
    best: Setting,
    gain: f64,
    /// The importance of each knob.
    pub importance: serde_json::Map<String, serde_json::Value>,
    /// One column per figure, one row per trial.
    pub history: serde_json::Map<String, serde_json::Value>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Setting {
    trial: u32,
    #[serde(rename = "throughput_per_second")]
    throughput: f64,
    knobs: serde_json::Map<String, serde_json::Value>,
}

impl TuneArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let scenario = Scenario { policy: self.policy.clone(), ..Scenario::default() };
        let knobs = scenario.policy_set()?.knobs();
        // Ctrl-C also reaches the package, which stops after the present runs; its answer is awaited.
        signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::new(AtomicBool::new(false)))?;
        let python = python()?;
        if let Some(folder) = &self.out {
            let cannot = || format!("cannot make {}", folder.display());
            fs::create_dir_all(folder).with_context(cannot)?;
        }
        let mut command = Command::new(&python);
        // Do not import modules from the current folder.
        command.env("PYTHONSAFEPATH", "1");
        command.args(["-m", "tierline"]).args(self.arguments()).stdin(Stdio::null());
        let output = command
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot run {}", python.display()))?;
        if !output.status.success() {
            // The package has printed why.
            return Ok(u8::try_from(output.status.code().unwrap_or(1)).unwrap_or(1));
        }
        let tuning: Tuning =
            serde_json::from_slice(&output.stdout).context("what the Python package answered")?;
        // One trial makes no curve.
        if let Some(folder) = self.out.as_ref().filter(|_| tuning.trials > 1) {
            write(&folder.join("tuning.svg"), &plot::tuning::picture(&tuning)?)?;
        }
        match globals.json {
            true => print::json(&tuning)?,
            false => print::out(&describe(&tuning, &knobs))?,
        }
        Ok(0)
    }

    fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        let mut say = |name: &str, value: OsString| arguments.extend([name.into(), value]);
        say("--policy", (&self.policy).into());
        say("--workload", (&self.workload).into());
        say("--seconds", self.seconds.to_string().into());
        say("--trials", self.trials.to_string().into());
        say("--seed", self.seed.to_string().into());
        if let Some(machine) = &self.machine {
            say("--machine", machine.into());
        }
        if let Some(ratio) = &self.ratio {
            say("--ratio", ratio.into());
        }
        if let Some(threads) = self.threads {
            say("--threads", threads.to_string().into());
        }
        if let Some(folder) = &self.out {
            say("--out", folder.into());
        }
        arguments
    }
}

/// The Python with the package: that of TIERLINE_PYTHON, of `python/build` beside this binary's folder, or the
/// user's own.
fn python() -> Result<PathBuf> {
    let named = env::var_os("TIERLINE_PYTHON").map(PathBuf::from);
    let built = env::current_exe().ok().and_then(|exe| {
        let target = exe.parent()?.parent()?;
        Some(target.join("python/venv/bin/python"))
    });
    let all = match named {
        Some(named) => vec![named],
        None => built.into_iter().chain(["python3".into()]).collect(),
    };
    let has_it = |python: &PathBuf| {
        let mut command = Command::new(python);
        command.args(["-c", "import tierline, optuna"]).env("PYTHONSAFEPATH", "1");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let tried: Vec<String> = all.iter().map(|python| python.display().to_string()).collect();
    all.into_iter().find(has_it).ok_or_else(|| {
        ErrorWithHint::error(
            format!("no Python with the packages tierline and optuna; tried {}", tried.join(", ")),
            "build them with python/build, or set TIERLINE_PYTHON=PATH to a Python that has them",
        )
    })
}

fn describe(tuning: &Tuning, knobs: &[Knob]) -> String {
    let mut rows = vec![row(["knob", "default", "best", "unit", "importance"])];
    for knob in knobs {
        let of = |values: &serde_json::Map<String, serde_json::Value>| {
            values.get(knob.name).and_then(serde_json::Value::as_f64)
        };
        let number = |value: Option<f64>| value.map_or("-".into(), short);
        rows.push(row([
            knob.name,
            &number(of(&tuning.default.knobs)),
            &number(of(&tuning.best.knobs)),
            knob.unit,
            &of(&tuning.importance).map_or("-".into(), |share| format!("{share:.2}")),
        ]));
    }
    let Tuning { trials, cpu_seconds, gain, best, default, engine, .. } = tuning;
    let set: Vec<String> =
        best.knobs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!(
        "{}\n{:.4e} of the first program's operations a second with the defaults, {:.4e} with the best: {gain:.3} \
         times.\nTrial {} of {trials}, {cpu_seconds:.0} s of CPU, by {engine}. Again: --knobs {}\n",
        print::table(&rows),
        default.throughput,
        best.throughput,
        best.trial,
        set.join(",")
    )
}

/// Four significant digits, without trailing zeros.
fn short(value: f64) -> String {
    match value.abs() {
        1e7.. => format!("{value:.3e}"),
        100.0.. => format!("{value:.0}"),
        _ => {
            let text = format!("{value:.4}");
            text.trim_end_matches('0').trim_end_matches('.').into()
        }
    }
}
