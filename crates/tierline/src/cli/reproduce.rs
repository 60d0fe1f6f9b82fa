// SPDX-License-Identifier: Apache-2.0
//! `tierline reproduce`: published figures, and ours beside them.

use std::path::PathBuf;
use std::thread::available_parallelism;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tierline_model::reproduce::{Kind, Lab, Outcome, Row, compute, select};
use tierline_model::runner::{Archive, Runner};

use super::sim::hinted;
use super::{FOUND, Globals};
use crate::kept::Kept;
use crate::plot::figures::draw;
use crate::print::{self, row};
use crate::progress::Progress;

/// Compute published figures on the modelled machines, beside the published numbers
///
/// Every row of the scoreboard with its error, and whether it holds: fitted figures within 3 %, predicted ones
/// within 10 %, bounds as bounds, and order rows by their order. Rows of given figures, which are inputs, are
/// not counted. Exit status 0, whatever misses; 1 if Ctrl-C left rows out.
#[derive(Debug, Args)]
#[command(after_help = "Example: tierline reproduce C-F1")]
pub struct ReproduceArgs {
    /// Rows; C-F7* stands for all that begin so; all, if left out
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// List the rows, and compute nothing
    #[arg(long)]
    list: bool,
    /// Also rows that take hours
    #[arg(long)]
    long: bool,
    /// Threads to compute with; as many as there are cores, if left out
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Keep the reports of all runs here, and run nothing again that this build of tierline has run: what takes hours
    /// can be interrupted and resumed
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Begin no run after this time; rows whose runs were not made are listed as such
    #[arg(long, value_name = "M")]
    minutes: Option<f64>,
    /// Write the figures of the papers that rows are of here as SVG, with the published points of Colloid's
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report<'a> {
    rows: &'a [Outcome],
}

impl ReproduceArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let rows = select(&self.ids, self.long).map_err(hinted)?;
        if self.list {
            return list(&rows, globals);
        }
        let kept = self.keep.as_ref().map(Kept::open).transpose()?;
        let threads = self.threads.unwrap_or_else(cores);
        let progress = Progress::new(threads, self.minutes)?;
        let archive = kept.as_ref().map(|kept| kept as &dyn Archive);
        let runner = Runner { threads, archive, observer: &progress };
        let mut lab = Lab::default();
        let outcomes = compute(&rows, &mut lab, &runner).map_err(hinted)?;
        let drawn = match &self.plot {
            Some(folder) => draw(folder, &outcomes, &mut lab, &runner)?,
            None => Vec::new(),
        };
        let interrupted = progress.was_interrupted();
        drop(progress);
        match globals.json {
            true => print::json(&Report { rows: &outcomes })?,
            false => print::out(&describe(&outcomes))?,
        }
        for file in drawn {
            print::to_stderr(&format!("tierline: wrote {}", file.display()));
        }
        Ok(if interrupted { FOUND } else { 0 })
    }
}

#[derive(Serialize)]
struct List {
    rows: Vec<Listed>,
}

#[derive(Serialize)]
struct Listed {
    id: &'static str,
    title: &'static str,
    source: &'static str,
    figures: usize,
    kinds: Vec<Kind>,
    takes_hours: bool,
}

fn list(rows: &[Row], globals: &Globals) -> Result<u8> {
    if globals.json {
        let listed = rows.iter().map(|row| Listed {
            id: row.id,
            title: row.title,
            source: row.source,
            figures: row.published.len(),
            kinds: row.kinds(),
            takes_hours: row.long,
        });
        print::json(&List { rows: listed.collect() })?;
        return Ok(0);
    }
    let mut table = vec![row(["id", "what", "source", "kinds", ""])];
    table.extend(rows.iter().map(|of| {
        let long = if of.long { "takes hours: --long" } else { "" };
        row([of.id, of.title, of.source, &kinds(&of.kinds()), long])
    }));
    print::out(&print::table(&table))?;
    Ok(0)
}

/// Cores that there are.
pub fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

fn describe(outcomes: &[Outcome]) -> String {
    let head = ["id", "what", "published", "ours", "unit", "error", "kinds", "holds"];
    let mut rows = vec![row(head)];
    let mut notes = String::new();
    for outcome in outcomes {
        rows.push(row([
            outcome.id,
            outcome.title,
            &figures(&outcome.published),
            &figures(&outcome.ours),
            outcome.unit,
            &outcome.error.map_or("-".into(), |error| format!("{:+.1} %", error * 100.0)),
            &kinds(&outcome.kinds),
            verdict(outcome),
        ]));
        if !outcome.note.is_empty() {
            notes += &format!("{}: {}\n", outcome.id, outcome.note);
        }
    }
    let notes = if notes.is_empty() { notes } else { format!("\nNotes\n{notes}") };
    print::table(&rows) + &notes + &format!("\n{}\n", count(outcomes))
}

/// Whether a row holds.
fn verdict(outcome: &Outcome) -> &'static str {
    match outcome.holds {
        Some(true) if outcome.counts() => "yes",
        Some(true) => "given",
        Some(false) => "NO",
        None if outcome.is_computable() => "not run",
        None => "-",
    }
}

/// How many rows hold, of those that can miss.
fn count(outcomes: &[Outcome]) -> String {
    let counted = || outcomes.iter().filter(|outcome| outcome.counts());
    let held = counted().filter(|outcome| outcome.holds == Some(true)).count();
    format!("{held} of {} computed rows hold, of {} listed.", counted().count(), outcomes.len())
}

/// The kinds of figures: one word where all are alike.
fn kinds(kinds: &[Kind]) -> String {
    let mut distinct = kinds.to_vec();
    distinct.dedup();
    let of = if distinct.len() > 1 { kinds } else { &distinct };
    of.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(" ")
}

fn figures(figures: &[f64]) -> String {
    if figures.is_empty() {
        return "-".into();
    }
    let number = |x: &f64| {
        let text = match x.abs() {
            100.0.. => format!("{x:.0}"),
            10.0.. => format!("{x:.1}"),
            _ => format!("{x:.3}"),
        };
        match text.split_once('.') {
            Some((whole, rest)) if rest.trim_end_matches('0').is_empty() => whole.into(),
            Some((whole, rest)) => format!("{whole}.{}", rest.trim_end_matches('0')),
            None => text,
        }
    };
    figures.iter().map(number).collect::<Vec<_>>().join(" ")
}
