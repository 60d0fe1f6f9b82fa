// SPDX-License-Identifier: Apache-2.0
//! `tierline sim`: runs a scenario on a modelled machine.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use tierline_core::event::Event;
use tierline_core::knob::Knob;
use tierline_core::unit::{Bytes, Nanos};
use tierline_model::cell::{Cell, Ratio};
use tierline_model::report::{ProgramMeans, Report, TenantMeans, TierMeans};
use tierline_model::run::{run, run_with_events};
use tierline_model::scenario::Scenario;

use super::Globals;
use super::cell::{RunArgs, recorded};
use super::names;
use crate::config::value::Knobs;
use crate::files::Disk;
use crate::output::{OutputFile, emptied};
use crate::plot;
use crate::print::{self, row};
use crate::report_error::ErrorWithHint;

/// Run policies on a modelled machine
///
/// The policies are those that run on Linux, in simulated time: a minute of a 72 GB machine takes less than a
/// second. The same seed gives the same result, on any machine.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n\
  \x20 tierline sim --policy hemem,hemem+colloid --workload gups --workload antagonist:intensity=3\n\
  \x20 tierline sim scenarios/several-tenants.toml --plot run.svg\n\
  \x20 tierline sim --trace redis.trace --machine ddr5-cxl-asic --seconds 60")]
pub struct SimArgs {
    /// A scenario file; flags override it
    #[arg(value_name = "SCENARIO.toml")]
    scenario: Option<PathBuf>,
    /// A machine from `tierline machines`, or a machine file
    #[arg(long, value_name = "NAME|FILE.toml", value_parser = names::machine(), hide_possible_values = true)]
    machine: Option<String>,
    /// A workload, with optional knobs, as in gups:hot=12GiB,jump=50s; may be repeated
    #[arg(long, value_name = "KIND[:KEY=VALUE,…]", value_parser = names::workload(), hide_possible_values = true)]
    workload: Vec<String>,
    /// A recorded program, with optional knobs, as in redis.trace,in_flight=2; may be repeated
    #[arg(long, value_name = "FILE[,KEY=VALUE,…]")]
    trace: Vec<String>,
    /// Policies from `tierline policies`, one run each
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = names::policy(), hide_possible_values = true)]
    policy: Vec<String>,
    /// Knobs of the policies, in base units, as in hot_reads=4,quantum=0.05; `tierline explain` lists them
    #[arg(long, value_name = "KNOB=NUMBER,…")]
    knobs: Option<Knobs>,
    /// The tracker: one of `tierline trackers` that the model has
    #[arg(long, value_name = "NAME", value_parser = names::modelled_tracker(), hide_possible_values = true)]
    tracker: Option<String>,
    /// How pages are moved: exclusive or nomad
    #[arg(long, value_name = "NAME", value_parser = names::migrator(), hide_possible_values = true)]
    migrator: Option<String>,
    /// Ratio of fast to slow memory, for the first program's memory, as in 1:2 [default: the machine's own]
    #[arg(long, value_name = "F:S")]
    ratio: Option<Ratio>,
    #[command(flatten)]
    run: RunArgs,
    /// Time between two decisions, as in 50ms
    #[arg(long, value_name = "TIME")]
    interval: Option<Nanos>,
    /// Write every event to this file, one line of JSON each; for one policy only
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Draw throughput, latencies, shares and moves over time
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Write a report with the same charts to one file
    #[arg(long, value_name = "FILE.html")]
    html: Option<PathBuf>,
}

#[derive(Serialize)]
struct Runs {
    runs: Vec<Report>,
}

impl SimArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let scenario = self.scenario()?;
        let policies = match self.policy.is_empty() {
            true => vec![scenario.policy.clone()],
            false => self.policy.clone(),
        };
        if self.events.is_some() && policies.len() > 1 {
            return Err(ErrorWithHint::error(
                "events of several policies cannot be written to one file",
                "run one --policy at a time",
            ));
        }
        let plot = self.plot.as_deref().map(OutputFile::svg).transpose()?;
        let html = self.html.as_deref().map(OutputFile::html).transpose()?;
        let mut runs = Vec::new();
        for policy in policies {
            let scenario = Scenario { policy, ..scenario.clone() };
            Self::check_knobs(&scenario)?;
            runs.push(self.run_one(&scenario)?);
        }
        let drawn = draw(&runs, plot, html);
        match globals.json {
            true => print::json(&Runs { runs })?,
            false => print::out(&describe(&runs))?,
        }
        drawn.map(|()| 0)
    }

    /// Refuses knobs outside their range.
    fn check_knobs(scenario: &Scenario) -> Result<()> {
        let known = scenario.policy_set()?.knobs();
        for (name, value) in &scenario.policy_knobs {
            let Some(knob) = known.iter().find(|knob| knob.name == name) else { continue };
            let [least, most] = knob.range;
            if !(least..=most).contains(value) {
                let Knob { unit, default, .. } = knob;
                let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
                return Err(ErrorWithHint::error(
                    format!(
                        "knob {name}={value} of {}: expected {least} to {most}{unit}",
                        scenario.policy
                    ),
                    format!(
                        "its default is {default}{unit}; `tierline explain {}` describes it",
                        scenario.policy
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Runs a scenario, and writes its events if requested.
    fn run_one(&self, scenario: &Scenario) -> Result<Report> {
        let Some(path) = &self.events else { return Ok(run(scenario)?) };
        let (mut log, mut written) = (BufWriter::new(emptied(path)?), Ok(()));
        let mut write_events = |events: &[Event]| {
            for event in events {
                if written.is_ok() {
                    let line = serde_json::to_writer(&mut log, event).map_err(io::Error::from);
                    written = line.and_then(|()| log.write_all(b"\n"));
                }
            }
        };
        let policy = scenario.policy_set()?;
        let report = run_with_events(scenario, policy, &mut write_events)?;
        written
            .and_then(|()| log.flush())
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(report)
    }

    fn scenario(&self) -> Result<Scenario> {
        let cell = Cell {
            file: self.scenario.as_ref().map(|file| file.display().to_string()),
            machine: self.machine.clone(),
            programs: self.workload.iter().cloned().chain(recorded(&self.trace)).collect(),
            ratio: self.ratio,
            ..self.run.cell()
        };
        let mut scenario = cell.scenario(&Disk::default())?;
        scenario.policy_knobs.extend(self.knobs.iter().flat_map(|knobs| knobs.0.clone()));
        scenario.tracker = self.tracker.clone().or(scenario.tracker);
        scenario.migrator = self.migrator.clone().unwrap_or(scenario.migrator);
        scenario.interval = self.interval.or(scenario.interval);
        Ok(scenario)
    }
}

/// Draws the requested charts.
fn draw(runs: &[Report], plot: Option<OutputFile>, html: Option<OutputFile>) -> Result<()> {
    if let Some(file) = plot {
        file.text(&plot::run::picture(runs)?)?;
    }
    if let Some(file) = html {
        file.text(&plot::run::page(runs, &describe(runs))?)?;
    }
    Ok(())
}

/// Writes a text to a file.
pub fn write(file: &Path, text: &str) -> Result<()> {
    OutputFile::create(file)?.text(text)
}

fn describe(runs: &[Report]) -> String {
    let head = ["policy", "program", "throughput", "unit", "fast share", "speed-up", "tier ns"];
    let mut rows = vec![row(head)];
    rows[0].extend(row(["moved GiB", "ping-pong pages", "fingerprint"]));
    for run in runs {
        for (at, program) in run.steady.programs.iter().enumerate() {
            let mut cells = program_row(program);
            if at == 0 {
                cells[0].clone_from(&run.policy);
                cells.extend(run_cells(run));
            }
            rows.push(cells);
        }
    }
    let Some(run) = runs.first() else { return String::new() };
    let (machine, seconds, seed) = (&run.machine, run.seconds, run.seed);
    let about = format!(
        "\nMeans of the last quarter of {seconds} s on {machine}; moves and fingerprint of all of it. \
         Again: --seed {seed}\n"
    );
    let speedups: String = runs.iter().map(speedup).collect();
    let tiering: String = runs.iter().filter_map(tiering).collect();
    print::table(&rows) + &tenants(runs) + &about + &speedups + &tiering
}

/// Each tenant's usage and limit in each tier at the end, and its usage of the whole run; empty without tenants.
fn tenants(runs: &[Report]) -> String {
    let mut rows = Vec::new();
    for run in runs {
        for (at, (tenant, overall)) in
            run.steady.tenants.iter().zip(&run.overall.tenants).enumerate()
        {
            if rows.is_empty() {
                rows.push(row(["policy", "tenant", "programs"]));
                let tier = |tier: &TierMeans| format!("{} GiB / limit", tier.name);
                rows[0].extend(run.steady.tiers.iter().map(tier));
                let tier = |tier: &TierMeans| format!("{} GiB s", tier.name);
                rows[0].extend(run.steady.tiers.iter().map(tier));
                rows[0].push("slowdown, estimated".into());
            }
            let policy = if at == 0 { run.policy.as_str() } else { "" };
            let its = |program: &&ProgramMeans| program.tenant.as_ref() == Some(&tenant.name);
            let programs = run.steady.programs.iter().filter(its);
            let programs: Vec<&str> = programs.map(|program| program.name.as_str()).collect();
            rows.push(row([policy, &tenant.name, &programs.join(", ")]));
            rows.last_mut().into_iter().for_each(|cells| cells.extend(used(tenant)));
            rows.last_mut().into_iter().for_each(|cells| cells.extend(showback(overall)));
        }
    }
    if rows.is_empty() { String::new() } else { format!("\n{}", print::table(&rows)) }
}

/// A tenant's usage of each tier, and its limit there.
fn used(tenant: &TenantMeans) -> impl Iterator<Item = String> {
    let gib = |bytes: Bytes| format!("{:.2}", gib(bytes.base_pages()));
    let tiers = tenant.used_bytes.iter().zip(&tenant.limit_bytes);
    tiers.map(move |(&used, limit)| format!("{} / {}", gib(used), limit.map_or("-".into(), gib)))
}

/// What a tenant used over the whole run, and what it lost.
fn showback(overall: &TenantMeans) -> impl Iterator<Item = String> {
    let gib_s = |byte_s: &f64| format!("{:.0}", byte_s / f64::from(1u32 << 30));
    let slowdown = overall.estimated_slowdown.map_or("-".into(), |times| format!("{times:.2}"));
    overall.used_byte_seconds.iter().map(gib_s).chain([slowdown])
}

/// Speed-up and slowdown compared with each program running alone.
fn speedup(run: &Report) -> String {
    let (policy, steady) = (&run.policy, &run.steady);
    let Some(slowdown) = steady.worst_slowdown else { return String::new() };
    let programs = steady.programs.len();
    let weighted = steady.weighted_speedup;
    format!(
        "{policy}, against each program alone in fast memory: weighted speed-up {weighted:.3} of {programs}, worst \
         slowdown {slowdown:.3}\n"
    )
}

/// The non-zero tiering counters, in base pages; `None` if all are zero.
fn tiering(run: &Report) -> Option<String> {
    let counters = serde_json::to_value(run.moves.tiering).ok()?;
    let words = print::counted(&counters);
    (!words.is_empty()).then(|| format!("{}, base pages: {words}\n", run.policy))
}

/// The cells of one program.
fn program_row(program: &ProgramMeans) -> Vec<String> {
    row([
        "",
        &program.name,
        &print::count(program.throughput),
        &format!("{}/s", program.unit),
        &format!("{:.3}", program.shares.first().copied().unwrap_or_default()),
        &program.speedup.map_or("-".into(), |speedup| format!("{speedup:.3}")),
    ])
}

/// The cells of the whole run.
fn run_cells(run: &Report) -> Vec<String> {
    let latency = |ns: Option<f64>| ns.map_or("-".into(), |ns| format!("{ns:.0}"));
    let latencies: Vec<String> =
        run.steady.tiers.iter().map(|tier| latency(tier.latency_ns)).collect();
    let pages = run.moves.promoted_pages + run.moves.demoted_pages;
    row([
        &latencies.join(" / "),
        &format!("{:.1}", gib(pages)),
        &run.moves.ping_pong_pages.to_string(),
        &run.fingerprint,
    ])
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn gib(base_pages: u64) -> f64 {
    base_pages as f64 / f64::from(1 << 18)
}
