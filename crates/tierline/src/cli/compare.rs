// SPDX-License-Identifier: Apache-2.0
//! `tierline compare`: policies × workloads × machines in one table.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use tierline_model::cell::{Cell, Ratio};
use tierline_model::compare::{ComparedRun, OpenCell, compare, product};
use tierline_model::matrix::{self, CellResult};
use tierline_model::random;
use tierline_model::scenario::Scenario;

use super::Globals;
use super::cell::{RunArgs, recorded};
use super::runs::RunsArgs;
use super::sim::write;
use crate::document::{self, DocumentArgs};
use crate::files::Disk;
use crate::parquet;
use crate::plot;
use crate::print::{self, row};
use crate::report_error::ErrorWithHint;

/// Run many policies on many workloads and machines
///
/// Every row is a run of `tierline sim`, which --commands prints; runs use all cores. The same seed gives the same
/// table, with any number of cores.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: tierline compare --policy hemem,tpp --workload gups --workload kv --ratio 1:2,1:8"
)]
pub struct CompareArgs {
    /// Policies of `tierline policies`
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', required_unless_present = "matrix")]
    policy: Vec<String>,
    /// A workload, with optional knobs, as in gups:hot=12GiB,jump=50s; may be repeated
    ///
    /// Several joined by `+` run at the same time, and the first is measured. Or a scenario file. [default: gups]
    #[arg(long, value_name = "KIND[:KEY=VALUE,…]|FILE.toml")]
    workload: Vec<String>,
    /// A recorded program, with optional knobs, as in redis.trace,in_flight=2; may be repeated
    #[arg(long, value_name = "FILE[,KEY=VALUE,…]")]
    trace: Vec<String>,
    /// Machines of `tierline machines`, or machine files
    ///
    /// [default: colloid-icx, or the scenario's]
    #[arg(long, value_name = "NAME|FILE.toml,…", value_delimiter = ',')]
    machine: Vec<String>,
    /// Ratio of fast to slow memory, for the workload's memory, as in 1:2,1:8 [default: the machine's own]
    #[arg(long, value_name = "F:S,…", value_delimiter = ',')]
    ratio: Vec<Ratio>,
    #[command(flatten)]
    run: RunArgs,
    /// All policies on all cells of the matrix, or the named policies; --trace adds recorded programs
    ///
    /// All combinations of machines, contention, workloads and ratios, limited by the other options: thousands of
    /// runs.
    #[arg(long)]
    matrix: bool,
    /// Instead of the matrix's cells, this many drawn at random from --seed: machine, programs, sizes, skews and ratios
    ///
    /// The same seed gives the same cells. Prints for each cell that is behind the command that repeats it.
    #[arg(long, value_name = "N", requires = "matrix", conflicts_with_all = ["workload", "trace", "machine", "ratio"])]
    random: Option<usize>,
    /// Draw the default policy's progress divided by the best other policy's, for each cell
    #[arg(long, value_name = "FILE.svg", requires = "matrix")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    runs: RunsArgs,
    /// Also print, for each row, the `tierline sim` command that repeats it
    #[arg(long, conflicts_with = "csv")]
    commands: bool,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Write the rows to a file, in the format of its extension: .csv, .json or .parquet
    #[arg(short, long, value_name = "FILE", conflicts_with = "csv")]
    output: Option<PathBuf>,
    #[command(flatten)]
    document: DocumentArgs,
}

impl CompareArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let policies = self.policies();
        let cells = OpenCell::all(self.cells(), &Disk::default())?;
        let form = self.output.as_deref().map(RowFormat::of).transpose()?;
        let (entries, status) =
            self.runs.watched(|runner| Ok(compare(&policies, &cells, runner)?))?;
        for file in self.pictures() {
            write(&file, &plot::matrix::picture(&matrix::held(&entries))?)?;
        }
        match (&self.output, form) {
            (Some(file), Some(RowFormat::Parquet)) => parquet::write(file, &entries)?,
            (Some(file), Some(RowFormat::Csv)) => write(file, &csv(&entries)?)?,
            (Some(file), _) => write(file, &json(&entries)?)?,
            (None, _) if globals.json => print::out(&json(&entries)?)?,
            (None, _) if self.csv => print::out(&csv(&entries)?)?,
            (None, _) if self.matrix => {}
            (None, _) => print::out(&describe(&entries))?,
        }
        if self.matrix && !globals.json && !self.csv {
            print::out(&standings(&entries))?;
        }
        if self.commands && !globals.json {
            print::out(
                &entries.iter().map(|entry| format!("{}\n", entry.command)).collect::<String>(),
            )?;
        }
        let title = if self.matrix { "The matrix" } else { "Policies compared" };
        let body = || match self.matrix {
            true => self.documented(&policies, &cells, &entries),
            false => document::table(&entry_rows(&entries)),
        };
        self.document.write(title, &globals.root(), body)?;
        Ok(status)
    }

    /// The picture in the document of a matrix: in the same folder, with the same name.
    fn picture_beside(&self) -> Option<PathBuf> {
        // Cells drawn at random have no rows and columns in common.
        let file = self.document.file().filter(|_| self.matrix && self.random.is_none());
        file.map(|file| file.with_extension("svg"))
    }

    /// The files of the matrix's pictures.
    fn pictures(&self) -> impl Iterator<Item = PathBuf> {
        self.plot.clone().into_iter().chain(self.picture_beside())
    }

    fn policies(&self) -> Vec<String> {
        match self.policy.is_empty() {
            true => matrix::policies().map(String::from).collect(),
            false => self.policy.clone(),
        }
    }

    fn cells(&self) -> Vec<Cell> {
        let (like, recorded) = (self.run.cell(), recorded(&self.trace).collect::<Vec<_>>());
        if let Some(count) = self.random {
            return random::cells(count, like.seed.unwrap_or(Scenario::default().seed), &like);
        }
        if self.matrix {
            let mut cells = matrix::cells(&recorded, &like);
            let among = |asked: &[String], name: &str| {
                asked.is_empty() || asked.iter().any(|asked| asked == name)
            };
            cells.retain(|cell| {
                let kind = |w: &&String| cell.name().starts_with(w.as_str());
                cell.machine.as_deref().is_some_and(|machine| among(&self.machine, machine))
                    && (self.workload.is_empty() || self.workload.iter().any(|w| kind(&w)))
                    && (self.ratio.is_empty()
                        || cell.ratio.is_some_and(|r| self.ratio.contains(&r)))
            });
            return cells;
        }
        let workloads = match (self.workload.is_empty(), recorded.is_empty()) {
            (true, true) => vec!["gups".into()],
            _ => [self.workload.clone(), recorded].concat(),
        };
        product(&self.machine, &workloads, &self.ratio, &like)
    }

    /// The matrix as a document: with its picture and the omitted policies.
    fn documented(
        &self,
        policies: &[String],
        cells: &[OpenCell],
        entries: &[ComparedRun],
    ) -> String {
        let held = matrix::held(entries);
        let left_out: Vec<_> =
            matrix::policies().filter(|policy| !policies.iter().any(|p| p == policy)).collect();
        let left_out = match left_out.is_empty() {
            true => String::new(),
            false => format!(" Policies that were not run: {}.", left_out.join(", ")),
        };
        let (ran, count, behind) = (held.len(), policies.len(), share_behind(entries));
        let (of, coverage) = match self.random {
            Some(_) => ("random cells".into(), String::new()),
            None => {
                let all = matrix::cells(&[], &Cell::default()).len();
                (format!("of the matrix's {all} cells"), document::table(&coverage(entries)))
            }
        };
        let seconds = cells.first().map_or(0.0, |cell| cell.scenario.seconds);
        let standings = document::table(&standing_rows(entries));
        let about = "progress of the default policy over the best other policy's, cell by cell";
        let name = |file: &PathBuf| file.file_name().map(|name| name.display().to_string());
        let picture = self.picture_beside().as_ref().and_then(name);
        let picture = picture.map_or(String::new(), |name| format!("![{about}]({name})\n\n"));
        let rows = document::table(&cell_rows(&held));
        format!(
            "{ran} {of} were run with {count} policies, {seconds} simulated seconds each. The progress of a cell is that \
             of all its managed programs, each relative to itself alone in fast memory, in the last quarter of the \
             time.{left_out}

{coverage}
## Policies

Progress over the default policy's, geometric mean and least over all cells; the mean share of the possible gain, which \
             is that of `bound` over first touch; the largest slowdown of a program; cells in which a policy is the best.

{standings}
## Cells

Progress of the default policy over that of the best other one, without references: {behind}.

{picture}{rows}"
        )
    }
}

/// A cell is listed if the default policy has less than this share of the best other policy's progress.
const BEHIND: f64 = 0.97;

/// The format of a file of rows.
#[derive(Clone, Copy, Debug)]
enum RowFormat {
    Csv,
    Json,
    Parquet,
}

impl RowFormat {
    fn of(file: &Path) -> Result<Self> {
        match file.extension().and_then(OsStr::to_str) {
            Some("csv") => Ok(Self::Csv),
            Some("json") => Ok(Self::Json),
            Some("parquet") => Ok(Self::Parquet),
            _ => Err(ErrorWithHint::error(
                format!("{}: unknown file type", file.display()),
                "name it .csv, .json or .parquet",
            )),
        }
    }
}

fn json(entries: &[ComparedRun]) -> Result<String> {
    Ok(serde_json::to_string_pretty(entries)? + "\n")
}

/// Comma-separated values: the keys of the JSON rows, then one line per row.
fn csv(entries: &[ComparedRun]) -> Result<String> {
    let mut text = String::new();
    for entry in entries {
        let value = serde_json::to_value(entry)?;
        let Some(fields) = value.as_object() else { continue };
        if text.is_empty() {
            text = fields.keys().cloned().collect::<Vec<_>>().join(",") + "\n";
        }
        let cells = fields.values().map(|value| match value {
            serde_json::Value::Null => String::new(),
            serde_json::Value::String(cell) if cell.contains([',', '"']) => {
                format!("\"{}\"", cell.replace('"', "\"\""))
            }
            serde_json::Value::String(cell) => cell.clone(),
            other => other.to_string(),
        });
        text += &(cells.collect::<Vec<_>>().join(",") + "\n");
    }
    Ok(text)
}

fn describe(entries: &[ComparedRun]) -> String {
    print::table(&entry_rows(entries))
        + "\n* the best of its machine, workload and ratio; references, such as bound and oracle, are not counted\n"
}

/// A head, and one row per run.
fn entry_rows(entries: &[ComparedRun]) -> Vec<Vec<String>> {
    let head = ["machine", "workload", "ratio", "policy", "throughput", "of best", "fast share"];
    let mut rows = vec![row(head)];
    rows[0].extend(row(["of possible gain", "weighted speed-up", "worst slowdown"]));
    rows[0].extend(row(["mean ns", "moved GiB", "recovery s"]));
    for entry in entries {
        let is_best = entry.relative_to_best >= 1.0 && !matrix::is_reference(&entry.policy);
        let best = if is_best { " *" } else { "" };
        let mut cells = row([
            &entry.machine,
            &entry.workload,
            entry.ratio.as_deref().unwrap_or("-"),
            &entry.policy,
            &format!("{} {}/s", print::count(entry.throughput), entry.unit),
            &format!("{:.3}{best}", entry.relative_to_best),
            &format!("{:.3}", entry.fast_share),
        ]);
        #[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
        let moved = entry.migrated_bytes as f64 / f64::from(1 << 30);
        cells.extend([
            share(entry.share_of_gain),
            format!("{:.3}", entry.weighted_speedup),
            entry.worst_slowdown.map_or("-".into(), |slowdown| format!("{slowdown:.3}")),
            format!("{:.0}", entry.mean_latency_ns),
            format!("{moved:.1}"),
            entry.recovery_seconds.map_or("-".into(), |seconds| format!("{seconds:.0}")),
        ]);
        rows.push(cells);
    }
    rows
}

/// A share with two decimals; a dash if there is none.
fn share(share: Option<f64>) -> String {
    share.map_or("-".into(), |share| format!("{share:.2}"))
}

/// A summary of the matrix: every policy over all cells, and the cells in which the default policy is behind.
fn standings(entries: &[ComparedRun]) -> String {
    let (all, behind) = (print::table(&standing_rows(entries)), behind(entries));
    let below = print::table(&cell_rows(&behind));
    let again: String = behind
        .iter()
        .enumerate()
        .flat_map(|(at, cell)| {
            cell.commands.iter().map(move |command| format!("{}: {command}\n", at + 1))
        })
        .collect();
    format!("{all}\n{}:\n{below}\n{again}", share_behind(entries))
}

fn standing_rows(entries: &[ComparedRun]) -> Vec<Vec<String>> {
    let mut rows =
        vec![row(["policy", "of default", "least", "of possible gain", "worst slowdown"])];
    rows[0].extend(row(["best in", "moved TiB", "came back"]));
    for standing in matrix::standings(entries) {
        #[expect(clippy::cast_precision_loss, reason = "shown with two decimals")]
        let moved = standing.migrated_bytes as f64 / (1u64 << 40) as f64;
        rows.push(row([
            &standing.policy,
            &format!("{:.3}", standing.of_default),
            &format!("{:.3}", standing.least),
            &share(standing.share_of_gain),
            &share(standing.worst_slowdown),
            &standing.best_in.to_string(),
            &format!("{moved:.2}"),
            &standing.ping_pong_pages.to_string(),
        ]));
    }
    rows
}

/// The cells in which the default policy is behind, worst first.
fn behind(entries: &[ComparedRun]) -> Vec<CellResult> {
    let mut behind = matrix::held(entries);
    behind.retain(|held| held.of_rival < BEHIND);
    behind.sort_by(|a, b| a.of_rival.total_cmp(&b.of_rival));
    behind
}

fn share_behind(entries: &[ComparedRun]) -> String {
    let (behind, cells) = (behind(entries).len(), matrix::held(entries).len());
    format!("{behind} of {cells} cells below {BEHIND} of the best other")
}

fn cell_rows(cells: &[CellResult]) -> Vec<Vec<String>> {
    let mut head = row(["", "of best other", "of bound", "of possible gain", "worst slowdown"]);
    head.extend(row(["machine", "ratio", "workload", "best other"]));
    let two = |pair: Option<[f64; 2]>| {
        pair.map_or("-".into(), |[own, other]| format!("{own:.2}, best other {other:.2}"))
    };
    let of = |(at, held): (usize, &CellResult)| {
        row([
            &(at + 1).to_string(),
            &format!("{:.3}", held.of_rival),
            &held.of_bound.map_or("-".into(), |of| format!("{of:.3}")),
            &two(held.share_of_gain),
            &two(held.worst_slowdown),
            &held.machine,
            held.ratio.as_deref().unwrap_or("-"),
            &held.workload,
            &held.rival,
        ])
    };
    [head].into_iter().chain(cells.iter().enumerate().map(of)).collect()
}

/// The number of cells run for each machine.
fn coverage(entries: &[ComparedRun]) -> Vec<Vec<String>> {
    let (ran, all) = (matrix::held(entries), matrix::cells(&[], &Cell::default()));
    let mut machines: Vec<&str> = matrix::MACHINES.iter().map(|(machine, _)| *machine).collect();
    machines.dedup();
    let of = |machine: &str| {
        let ran = ran.iter().filter(|cell| cell.machine == machine).count();
        let all = all.iter().filter(|cell| cell.machine.as_deref() == Some(machine)).count();
        row([machine, &ran.to_string(), &all.to_string()])
    };
    let head = row(["machine", "cells run", "of"]);
    [head].into_iter().chain(machines.into_iter().map(of)).collect()
}
