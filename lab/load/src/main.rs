// SPDX-License-Identifier: Apache-2.0
//! `lab-load`: the lab's workloads, one binary with verbs.
//!
//! A tiered-memory manager can only be judged by a program whose hot pages are
//! known. These programs choose their hot pages themselves, so they also know,
//! at any moment, what share of them is in fast memory; and they carry tags in
//! their pages, so they notice when a migration loses a byte.
//!
//! Exit status: 0 done, 1 the memory or the server held something else than
//! what was written, 2 the verb could not run.

mod burst;
mod cpu;
mod fill;
mod forker;
mod gups;
mod histogram;
mod hot;
mod marker;
mod memory;
mod observer;
mod redis;
mod report;
mod resp;
mod rng;
mod series;
mod sys;
mod unit;
mod vmstat;
mod where_is;
mod zipf;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What a verb found out about the bytes it wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything that was checked was as written.
    Good,
    /// Something was not.
    Corrupt,
}

impl Verdict {
    /// Corrupt if there was any mismatch.
    pub fn of(mismatches: u64) -> Verdict {
        if mismatches == 0 { Verdict::Good } else { Verdict::Corrupt }
    }
}

#[derive(Parser)]
#[command(name = "lab-load", about = "Workloads whose hot pages are known")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Random accesses with a known hot set, and what share of it is in fast memory
    Gups(gups::Args),
    /// Skewed GET and SET against a redis server on a unix socket
    RedisClient(redis::Args),
    /// A process's pages by node, from numa_maps
    Where(where_is::Args),
    /// Short-lived bursts of memory, and where each of them landed
    Burst(burst::Args),
    /// Somebody else, who fills a node
    Fill(fill::Args),
    /// Forks, exits, maps and unmaps without pause, verifying tags
    Forker(forker::Args),
    /// CPU seconds and resident sizes of processes and kernel threads
    Cpu(cpu::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Gups(args) => gups::run(&args),
        Verb::RedisClient(args) => redis::run(&args),
        Verb::Where(args) => where_is::run(&args),
        Verb::Burst(args) => burst::run(&args),
        Verb::Fill(args) => fill::run(&args),
        Verb::Forker(args) => forker::run(&args),
        Verb::Cpu(args) => cpu::run(&args),
    };
    match done {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Corrupt) => ExitCode::from(1),
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::from(2)
        }
    }
}
