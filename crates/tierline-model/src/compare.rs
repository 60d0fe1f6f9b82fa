// SPDX-License-Identifier: Apache-2.0
//! Policies × workloads × machines: every combination is one run; the best policy of each field is marked.

use serde::Serialize;
use tierline_core::tier::TierId;
use tierline_core::unit::{BASE_PAGE, Bytes, BytesPerSec};

use crate::error::Result;
use crate::report::{ProgramMeans, Report};
use crate::runner::Runner;
use crate::scenario::{Scenario, Traces};
use crate::workload::list::written;
use crate::workload::program::Placement;

/// A throughput this close to the final one counts as equal.
const CLOSE: f64 = 0.05;

/// The runs of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Policies.
    pub policies: Vec<String>,
    /// Workloads and machines; every policy runs on each.
    pub cells: Vec<Cell>,
    /// The recordings named by workloads.
    pub traces: Traces,
    /// Simulated time.
    pub seconds: f64,
    /// The seed.
    pub seed: u64,
}

/// A workload on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Name of a machine in the list.
    pub machine: String,
    /// A workload as on a command line. Programs after a `+` run beside it and are not measured.
    pub workload: String,
    /// Fast to slow memory, as parts of the measured workload's size; `None`: the machine's own tiers.
    pub ratio: Option<(u32, u32)>,
}

impl Cell {
    /// Every workload on every machine with every ratio. Without ratios: with each machine's own tiers.
    pub fn product(machines: &[String], workloads: &[String], ratios: &[(u32, u32)]) -> Vec<Self> {
        let own = [None];
        let given: Vec<_> = ratios.iter().copied().map(Some).collect();
        let ratios = if given.is_empty() { &own[..] } else { &given };
        let mut cells = Vec::new();
        for machine in machines {
            for workload in workloads {
                for &ratio in ratios {
                    cells.push(Self {
                        machine: machine.clone(),
                        workload: workload.clone(),
                        ratio,
                    });
                }
            }
        }
        cells
    }
}

/// One run of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedRun {
    /// The machine.
    pub machine: String,
    /// The workload, as it was written.
    pub workload: String,
    /// Fast to slow memory; `None` if it is the machine's own.
    pub ratio: Option<String>,
    /// The policy.
    pub policy: String,
    /// The seed.
    pub seed: u64,
    /// Operations a second in the steady state: the last quarter of the time.
    #[serde(rename = "throughput_per_second")]
    pub throughput: f64,
    /// Name of an operation.
    pub unit: String,
    /// Share of accesses served by the fastest tier.
    pub fast_share: f64,
    /// Loaded latency of an access, over all tiers.
    pub mean_latency_ns: f64,
    /// Bytes moved in the whole run.
    pub migrated_bytes: u64,
    /// Base pages that came back soon after a move.
    pub ping_pong_pages: u64,
    /// Time from the program's last phase change until throughput stays close to its final value; `None`
    /// without a phase change.
    pub recovery_seconds: Option<f64>,
    /// Throughput divided by the best of the same machine, workload and ratio.
    pub relative_to_best: f64,
    /// Of all programs that ran in the steady state; see [`crate::report::Means::weighted_speedup`].
    pub weighted_speedup: f64,
    /// See [`crate::report::Means::worst_slowdown`].
    pub worst_slowdown: Option<f64>,
}

/// Runs all combinations. Cells with a run that was not made are left out.
///
/// # Errors
/// If a scenario is invalid.
pub fn compare(field: &Comparison, runner: &Runner<'_>) -> Result<Vec<ComparedRun>> {
    let pairs =
        || field.cells.iter().flat_map(|cell| field.policies.iter().map(move |p| (cell, p)));
    let scenarios = pairs().map(|(cell, policy)| scenario(field, cell, policy));
    let scenarios = scenarios.collect::<Result<Vec<_>>>()?;
    let reports = runner.run(&scenarios)?;
    let mut entries = Vec::new();
    // Policies vary fastest, so the runs of a cell are consecutive.
    let policies = field.policies.len().max(1);
    let runs = scenarios.chunks(policies).zip(reports.chunks(policies));
    for (cell, (scenarios, reports)) in field.cells.iter().zip(runs) {
        let Some(reports) = reports.iter().map(Option::as_ref).collect::<Option<Vec<_>>>() else {
            continue;
        };
        let of = |(scenario, report): (&Scenario, &Report)| entry(scenario, cell, report);
        let mut ran = scenarios.iter().zip(reports).map(of).collect::<Result<Vec<_>>>()?;
        let best = ran.iter().map(|entry| entry.throughput).fold(0.0, f64::max);
        for entry in &mut ran {
            entry.relative_to_best = if best > 0.0 { entry.throughput / best } else { 0.0 };
        }
        entries.append(&mut ran);
    }
    Ok(entries)
}

/// The scenario of a policy on a cell.
///
/// # Errors
/// If the machine, the workload or the policy is unknown.
pub fn scenario(field: &Comparison, cell: &Cell, policy: &str) -> Result<Scenario> {
    let mut scenario = Scenario {
        machine: cell.machine.clone(),
        policy: policy.into(),
        seconds: field.seconds,
        seed: field.seed,
        max_rate: BytesPerSec(10 << 30),
        grow: true,
        workload: cell.workload.split('+').map(written).collect::<Result<_>>()?,
        traces: field.traces.clone(),
        ..Scenario::default()
    };
    if let Some((fast, slow)) = cell.ratio {
        let arrivals = scenario.arrivals()?;
        let mut memory = arrivals.iter().map(|arrival| arrival.program.bytes);
        let measured = memory.next().unwrap_or_default();
        let all = u64::from(fast) + u64::from(slow);
        // Memory that another program binds to fast memory is added.
        let bound = Placement::Pinned(TierId::FAST);
        let bound = arrivals.iter().map(|other| &other.program).filter(|p| p.placement == bound);
        let bound: Bytes = bound.map(|program| program.bytes).sum();
        scenario.fast_capacity = Some(Bytes(measured.0 / all * u64::from(fast)) + bound);
    }
    scenario.policy()?;
    scenario.machine()?;
    Ok(scenario)
}

fn entry(scenario: &Scenario, cell: &Cell, report: &Report) -> Result<ComparedRun> {
    let none = ProgramMeans::default();
    let program = report.steady.programs.first().unwrap_or(&none);
    let tiers = program.shares.iter().zip(&report.steady.tiers);
    let latency = tiers.map(|(share, tier)| share * tier.latency_ns.unwrap_or(0.0)).sum();
    Ok(ComparedRun {
        machine: report.machine.clone(),
        workload: cell.workload.clone(),
        ratio: cell.ratio.map(|(fast, slow)| format!("{fast}:{slow}")),
        policy: report.policy.clone(),
        seed: report.seed,
        throughput: program.throughput,
        unit: program.unit.to_string(),
        fast_share: program.shares.first().copied().unwrap_or_default(),
        mean_latency_ns: latency,
        migrated_bytes: (report.moves.promoted_pages + report.moves.demoted_pages) * BASE_PAGE.0,
        ping_pong_pages: report.moves.ping_pong_pages,
        recovery_seconds: change(scenario)?.map(|at| recovery(report, program, at)),
        relative_to_best: 0.0,
        weighted_speedup: report.steady.weighted_speedup,
        worst_slowdown: report.steady.worst_slowdown,
    })
}

/// Start of the program's last phase, if it has several.
fn change(scenario: &Scenario) -> Result<Option<f64>> {
    let arrivals = scenario.arrivals()?;
    let Some(arrival) = arrivals.first() else { return Ok(None) };
    let phases = arrival.program.phases.iter().map_while(|phase| phase.lasts);
    let ends = phases.map(|lasts| lasts.as_secs_f64()).sum::<f64>();
    let at = arrival.start.as_secs_f64() + ends;
    Ok((ends > 0.0 && at < scenario.seconds).then_some(at))
}

fn recovery(report: &Report, steady: &ProgramMeans, change: f64) -> f64 {
    let after = report.series.iter().filter(|row| row.seconds > change);
    let far = after.filter(|row| {
        let now = row.means.programs.first().map_or(0.0, |program| program.throughput);
        (now - steady.throughput).abs() > CLOSE * steady.throughput
    });
    far.map(|row| row.seconds - change).fold(0.0, f64::max)
}
