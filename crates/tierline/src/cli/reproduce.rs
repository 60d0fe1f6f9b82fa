// SPDX-License-Identifier: Apache-2.0
//! `tierline reproduce`: published figures, and ours beside them.

use std::path::PathBuf;
use std::thread::available_parallelism;

use anyhow::Result;
use clap::Args;
use tierline_model::reproduce::outcome::Figure;
use tierline_model::reproduce::{Lab, Outcome, compute, select};

use super::Globals;
use super::sim::hinted;
use crate::kept::Kept;
use crate::plot::figures::draw;
use crate::print::{self, row};
use crate::progress::Progress;

/// Compute published figures on the modelled machines, beside the published numbers
///
/// Every row of the scoreboard with its error, and whether it holds: fitted rows within 3 %, predicted ones
/// within 10 %, bounds as bounds, and order rows by their order. Exit status 0, whatever misses.
#[derive(Debug, Args)]
#[command(after_help = "Example: tierline reproduce C-F1")]
pub struct ReproduceArgs {
    /// Rows, by the beginning of their ids, as in C-F7; all, if left out
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Also rows that take hours
    #[arg(long)]
    long: bool,
    /// Threads to compute with; as many as there are cores, if left out
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Keep the reports of all runs here, and run nothing again that this build of tierline has run: what takes hours
    /// can be stopped, and goes on
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Write the figures of the papers that rows are of here as SVG, with the published points of Colloid's
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
}

impl ReproduceArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let rows = select(&self.ids, self.long).map_err(hinted)?;
        let mut lab = match &self.keep {
            Some(folder) => Lab::with(Box::new(Kept::open(folder)?)),
            None => Lab::default(),
        };
        let threads = self.threads.unwrap_or_else(cores);
        let progress = Progress::new();
        let said = |done, of| progress.said(done, of);
        let outcomes = compute(&rows, &mut lab, threads, &said).map_err(hinted)?;
        let drawn = match &self.plot {
            Some(folder) => draw(folder, &outcomes, &mut lab, threads, &said)?,
            None => Vec::new(),
        };
        drop(progress);
        match globals.json {
            true => print::out(&(serde_json::to_string_pretty(&outcomes)? + "\n"))?,
            false => print::out(&describe(&outcomes))?,
        }
        for file in drawn {
            print::to_stderr(&format!("tierline: wrote {}", file.display()));
        }
        Ok(0)
    }
}

/// Cores that there are.
pub fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

fn describe(outcomes: &[Outcome]) -> String {
    let head = ["id", "what", "published", "ours", "unit", "error", "kind", "holds"];
    let mut rows = vec![row(head)];
    let mut notes = String::new();
    for outcome in outcomes {
        let kind = serde_json::to_value(outcome.kind).unwrap_or_default();
        rows.push(row([
            outcome.id,
            outcome.title,
            &figure(outcome.published.as_ref()),
            &figure(outcome.ours.as_ref()),
            outcome.unit,
            &outcome.error.map_or("-".into(), |error| format!("{:+.1} %", error * 100.0)),
            kind.as_str().unwrap_or_default(),
            match outcome.holds {
                Some(true) => "yes",
                Some(false) => "NO",
                None => "-",
            },
        ]));
        if !outcome.note.is_empty() {
            notes += &format!("{}: {}\n", outcome.id, outcome.note);
        }
    }
    let computed = outcomes.iter().filter(|outcome| outcome.holds.is_some()).count();
    let held = outcomes.iter().filter(|outcome| outcome.holds == Some(true)).count();
    let count =
        format!("\n{held} of {computed} computed rows hold, of {} listed.\n", outcomes.len());
    let notes = if notes.is_empty() { notes } else { format!("\nNotes\n{notes}") };
    print::table(&rows) + &notes + &count
}

fn figure(figure: Option<&Figure>) -> String {
    let Some(figure) = figure else { return "-".into() };
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
    figure.numbers().iter().map(number).collect::<Vec<_>>().join(" ")
}
