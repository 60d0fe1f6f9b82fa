// SPDX-License-Identifier: Apache-2.0
//! `tierline reproduce`: published figures, compared with ours.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tierline_model::reproduce::tables::{Table, tables};
use tierline_model::reproduce::{Kind, Lab, Outcome, PAPERS, Row, compute, select};

use super::Globals;
use super::runs::RunsArgs;
use crate::document::{self, DocumentArgs};
use crate::plot::figures::draw;
use crate::print::{self, row};

/// Compute published figures on the modelled machines and compare them with the published numbers
///
/// Prints every row of the scoreboard with its error, and whether it holds: fitted figures within 3 %, predicted
/// ones within 10 %, bounds as bounds, and order rows by their order. Rows of given figures, which are inputs, are
/// not counted. Exit status 0 even if rows miss; 1 if Ctrl-C left rows out.
#[derive(Debug, Args)]
#[command(after_help = "Example: tierline reproduce C-F1")]
pub struct ReproduceArgs {
    /// Rows; C-F7* means all that start with C-F7 [default: all]
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// List the rows without computing them
    #[arg(long)]
    list: bool,
    /// Include rows that take hours
    #[arg(long)]
    long: bool,
    #[command(flatten)]
    runs: RunsArgs,
    /// Include tables of our own runs on the papers' machines: Mercury's scenarios and mixes of programs
    #[arg(long)]
    tables: bool,
    /// Draw the papers' figures of these rows into this folder as SVG, with the published points of Colloid's
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    document: DocumentArgs,
}

#[derive(Serialize)]
struct Report<'a> {
    rows: &'a [Outcome],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tables: &'a [Table],
}

impl ReproduceArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let rows = select(&self.ids, self.long)?;
        if self.list {
            return list(&rows, globals);
        }
        let ((outcomes, tables, drawn), status) = self.runs.watched(|runner| {
            let mut lab = Lab::default();
            let outcomes = compute(&rows, &mut lab, runner)?;
            let ids: Vec<&str> = outcomes.iter().map(|outcome| outcome.id).collect();
            let tables = match self.tables {
                true => tables(&ids, &mut lab, runner)?,
                false => Vec::new(),
            };
            let drawn = match &self.plot {
                Some(folder) => draw(folder, &outcomes, &mut lab, runner)?,
                None => Vec::new(),
            };
            Ok((outcomes, tables, drawn))
        })?;
        match globals.json {
            true => print::json(&Report { rows: &outcomes, tables: &tables })?,
            false => print::out(&(describe(&outcomes) + &described(&tables)))?,
        }
        for file in drawn {
            print::to_stderr(&format!("tierline: wrote {}", file.display()));
        }
        let title = "Published figures and ours";
        let body = || documented(&outcomes) + &tabled(&tables);
        self.document.write(title, &globals.root(), body)?;
        Ok(status)
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

fn describe(outcomes: &[Outcome]) -> String {
    let notes: String =
        noted(outcomes).map(|outcome| format!("{}: {}\n", outcome.id, outcome.note)).collect();
    let notes = if notes.is_empty() { notes } else { format!("\nNotes\n{notes}") };
    print::table(&table(outcomes)) + &notes + &format!("\n{}\n", count(outcomes))
}

fn noted(outcomes: &[Outcome]) -> impl Iterator<Item = &Outcome> {
    outcomes.iter().filter(|outcome| !outcome.note.is_empty())
}

/// A head, and one row each.
fn table(outcomes: &[Outcome]) -> Vec<Vec<String>> {
    let head = row(["id", "what", "published", "ours", "unit", "error", "kinds", "holds"]);
    let of = |outcome: &Outcome| {
        row([
            outcome.id,
            outcome.title,
            &figures(&outcome.published),
            &figures(&outcome.ours),
            outcome.unit,
            &outcome.error.map_or("-".into(), |error| format!("{:+.1} %", error * 100.0)),
            &kinds(&outcome.kinds),
            verdict(outcome),
        ])
    };
    [head].into_iter().chain(outcomes.iter().map(of)).collect()
}

/// The rows as a document: one chapter per paper, with the rows that were not run.
fn documented(outcomes: &[Outcome]) -> String {
    let mut text = format!("{}\n\n{RULES}\n", count(outcomes));
    for paper in PAPERS {
        let is_of = |outcome: &&Outcome| outcome.id.starts_with(paper.prefix);
        let rows: Vec<Outcome> = outcomes.iter().filter(is_of).cloned().collect();
        if rows.is_empty() {
            continue;
        }
        text += &format!("\n## {}\n\n{} {}\n\n", paper.name, paper.about, count(&rows));
        text += &document::table(&table(&rows));
        let left_out = |outcome: &&Outcome| outcome.holds.is_none() && outcome.is_computable();
        let left_out: Vec<&str> = rows.iter().filter(left_out).map(|outcome| outcome.id).collect();
        if !left_out.is_empty() {
            text += &format!("\nNot run for this document: {}.\n", left_out.join(", "));
        }
        let notes = noted(&rows).map(|row| format!("- {}: {}\n", row.id, row.note));
        text += &format!("\n{}", notes.collect::<String>());
    }
    text
}

/// Further tables on the terminal.
fn described(tables: &[Table]) -> String {
    tables.iter().map(|of| format!("\n{}\n{}", of.title, print::table(&of.lines))).collect()
}

/// Further tables in the document.
fn tabled(tables: &[Table]) -> String {
    let chapter =
        |of: &Table| format!("\n## {}\n\n{}\n\n{}", of.title, of.about, document::table(&of.lines));
    tables.iter().map(chapter).collect()
}

/// The legend of the table.
const RULES: &str = "\
A *fitted* figure holds within 3 % of the published one, a *predicted* figure within 10 %. For shares near 100 %,
losses are compared; of losses and other differences, one point is allowed. A gain in speed must also be within half of
the published gain, or within 3 %. A bound holds on its side, an *order* if it is the
published one. *Given* figures are inputs and are not counted. Error is the largest of a row. Rows that cannot be
computed have no verdict.";

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

/// The number of rows that hold, and of those that were computed and can miss.
fn count(outcomes: &[Outcome]) -> String {
    let counted = || outcomes.iter().filter(|outcome| outcome.counts());
    let held = counted().filter(|outcome| outcome.holds == Some(true)).count();
    format!("{held} of {} computed rows hold, of {} listed.", counted().count(), outcomes.len())
}

/// The kinds of figures: one word if all are the same.
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
