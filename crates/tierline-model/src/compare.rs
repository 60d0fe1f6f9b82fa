// SPDX-License-Identifier: Apache-2.0
//! Policies × cells: every combination is one run; the best policy of each cell is marked.

use serde::Serialize;
use tierline_core::unit::BASE_PAGE;

use crate::cell::{Cell, Files, Ratio};
use crate::error::Result;
use crate::matrix::is_reference;
use crate::report::{ProgramMeans, Report};
use crate::runner::Runner;
use crate::scenario::Scenario;

/// A throughput this close to the final one counts as equal.
const CLOSE: f64 = 0.05;

/// A cell, and its scenario.
#[derive(Clone, Debug)]
pub struct OpenCell {
    /// As it was named.
    pub cell: Cell,
    /// Its scenario, under any policy.
    pub scenario: Scenario,
}

impl OpenCell {
    /// Opens cells.
    ///
    /// # Errors
    /// As [`Cell::scenario`].
    pub fn all<F: Files>(cells: Vec<Cell>, files: &F) -> Result<Vec<Self>, F::Error> {
        let open = |cell: Cell| Ok(Self { scenario: cell.scenario(files)?, cell });
        cells.into_iter().map(open).collect()
    }

    /// Its scenario under a policy.
    ///
    /// # Errors
    /// If the policy or the machine is unknown.
    fn under(&self, policy: &str) -> Result<Scenario> {
        let scenario = Scenario { policy: policy.into(), ..self.scenario.clone() };
        scenario.policy()?;
        scenario.machine()?;
        Ok(scenario)
    }
}

/// Every workload on every machine with every ratio, otherwise as `like`. Without machines: the workload's own, and
/// without ratios: the machine's own tiers.
pub fn product(
    machines: &[String],
    workloads: &[String],
    ratios: &[Ratio],
    like: &Cell,
) -> Vec<Cell> {
    let optional = |names: &[String]| match names {
        [] => vec![None],
        names => names.iter().cloned().map(Some).collect(),
    };
    let ratios = match ratios {
        [] => vec![None],
        given => given.iter().copied().map(Some).collect(),
    };
    let mut cells = Vec::new();
    for machine in optional(machines) {
        for workload in workloads {
            for &ratio in &ratios {
                let named = Cell::new(machine.as_deref(), workload);
                let (seconds, seed, max_rate) = (like.seconds, like.seed, like.max_rate);
                cells.push(Cell { ratio, seconds, seed, max_rate, ..named });
            }
        }
    }
    cells
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
    /// Share of the program's accesses in this time that the fastest tier served.
    pub fast_share: f64,
    /// Mean latency of these accesses with all queueing.
    pub mean_latency_ns: f64,
    /// Bytes moved in the whole run.
    pub migrated_bytes: u64,
    /// Base pages that came back soon after a move.
    pub ping_pong_pages: u64,
    /// Time from the program's last phase change until throughput stays close to its final value; `None`
    /// without a phase change.
    pub recovery_seconds: Option<f64>,
    /// Progress divided by that of the best policy of the same machine, workload and ratio. References are not counted,
    /// so theirs can be above 1.
    pub relative_to_best: f64,
    /// Of the managed programs in the steady state; see [`crate::report::Means::progress`]. By it, policies are compared.
    pub progress: f64,
    /// The share of the possible gain: progress above that of `first-touch`, by that of `bound` above it. `None` if one
    /// of them was not run, or if less than 2 % is to be gained.
    pub share_of_gain: Option<f64>,
    /// Of all programs that ran in the steady state; see [`crate::report::Means::weighted_speedup`].
    pub weighted_speedup: f64,
    /// See [`crate::report::Means::worst_slowdown`].
    pub worst_slowdown: Option<f64>,
    /// Hash of all events and figures of the run.
    pub fingerprint: String,
    /// The command that repeats the run.
    pub command: String,
}

/// Runs all combinations. Cells with a run that was not made are left out.
///
/// # Errors
/// If a scenario is invalid.
pub fn compare(
    policies: &[String],
    cells: &[OpenCell],
    runner: &Runner<'_>,
) -> Result<Vec<ComparedRun>> {
    let pairs = cells.iter().flat_map(|cell| policies.iter().map(move |p| (cell, p)));
    let scenarios = pairs.map(|(cell, policy)| cell.under(policy)).collect::<Result<Vec<_>>>()?;
    let reports = runner.run(&scenarios)?;
    let mut entries = Vec::new();
    // Policies vary fastest, so the runs of a cell are consecutive.
    let policies = policies.len().max(1);
    let runs = scenarios.chunks(policies).zip(reports.chunks(policies));
    for (cell, (scenarios, reports)) in cells.iter().zip(runs) {
        let Some(reports) = reports.iter().map(Option::as_ref).collect::<Option<Vec<_>>>() else {
            continue;
        };
        let of = |(scenario, report): (&Scenario, &Report)| entry(scenario, &cell.cell, report);
        let mut ran = scenarios.iter().zip(reports).map(of).collect::<Result<Vec<_>>>()?;
        let (best, gain) = (best(&ran), PossibleGain::of(&ran));
        for entry in &mut ran {
            entry.relative_to_best = if best > 0.0 { entry.score() / best } else { 0.0 };
            entry.share_of_gain = gain.map(|gain| gain.share(entry));
        }
        entries.append(&mut ran);
    }
    Ok(entries)
}

/// The highest score of a policy that competes; of any, if none does.
fn best(ran: &[ComparedRun]) -> f64 {
    let of = |entry: &ComparedRun| (!is_reference(&entry.policy), entry.score());
    let most = ran.iter().map(of).max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    most.map_or(0.0, |(_, score)| score)
}

impl ComparedRun {
    /// What policies are compared by: the progress of all managed programs; throughput, if none is managed.
    pub fn score(&self) -> f64 {
        if self.progress > 0.0 { self.progress } else { self.throughput }
    }
}

/// A smaller gain, relative to first touch, is not worth sharing: the errors of the bound would decide.
const SMALL: f64 = 0.02;

/// From first touch to the bound.
#[derive(Clone, Copy)]
struct PossibleGain {
    from: f64,
    to: f64,
}

impl PossibleGain {
    fn of(ran: &[ComparedRun]) -> Option<Self> {
        let of = |name: &str| ran.iter().find(|entry| entry.policy == name).map(ComparedRun::score);
        let (from, to) = (of("first-touch")?, of("bound")?);
        (to > from * (1.0 + SMALL)).then_some(Self { from, to })
    }

    fn share(self, entry: &ComparedRun) -> f64 {
        (entry.score() - self.from) / (self.to - self.from)
    }
}

fn entry(scenario: &Scenario, cell: &Cell, report: &Report) -> Result<ComparedRun> {
    let none = ProgramMeans::default();
    let program = report.steady.programs.first().unwrap_or(&none);
    Ok(ComparedRun {
        machine: report.machine.clone(),
        workload: cell.name(),
        ratio: cell.ratio.map(|ratio| ratio.to_string()),
        policy: report.policy.clone(),
        seed: report.seed,
        throughput: program.throughput,
        unit: program.unit.to_string(),
        fast_share: program.shares.first().copied().unwrap_or_default(),
        mean_latency_ns: program.latency_ns.unwrap_or_default(),
        migrated_bytes: (report.moves.promoted_pages + report.moves.demoted_pages) * BASE_PAGE.0,
        ping_pong_pages: report.moves.ping_pong_pages,
        recovery_seconds: change(scenario)?.map(|at| recovery(report, program, at)),
        relative_to_best: 0.0,
        progress: report.steady.progress,
        share_of_gain: None,
        weighted_speedup: report.steady.weighted_speedup,
        worst_slowdown: report.steady.worst_slowdown,
        fingerprint: report.fingerprint.clone(),
        command: cell.command(scenario),
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
