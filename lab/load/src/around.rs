// SPDX-License-Identifier: Apache-2.0
//! `around`: runs a command between the markers of a measured phase, so that programs without markers can be
//! measured.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::Verdict;
use crate::marker::{self, mark};
use crate::report;

#[derive(clap::Args, Clone, Debug, Serialize)]
pub struct Args {
    /// What the command does, in any unit; the report repeats it
    #[arg(long, default_value_t = 1)]
    work: u64,
    /// Where to write the JSON report; - is stdout
    #[arg(long, default_value = "-")]
    #[serde(skip)]
    report: String,
    /// The command
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

#[derive(Serialize)]
struct Report<'a> {
    load: &'static str,
    parameters: &'a Args,
    elapsed_seconds: f64,
    accesses: u64,
}

pub fn run(args: &Args) -> Result<Verdict> {
    let (program, words) = args.command.split_first().context("a command is needed after --")?;
    let start = Instant::now();
    mark::<{ marker::START }>();
    let status = Command::new(program).args(words).status();
    mark::<{ marker::END }>();
    let status = status.with_context(|| format!("cannot start {program}"))?;
    ensure!(status.success(), "{program} ended with {status}");
    let elapsed_seconds = start.elapsed().as_secs_f64();
    report::write(
        &args.report,
        &Report { load: "around", parameters: args, elapsed_seconds, accesses: args.work },
    )?;
    Ok(Verdict::Good)
}
