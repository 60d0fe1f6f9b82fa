// SPDX-License-Identifier: Apache-2.0
//! `lab-load`: the lab's workloads, one binary with verbs.
//!
//! A tiered-memory manager can only be judged by a program whose hot pages are known. These programs choose
//! their hot pages, so they know at any time which share of them is in fast memory. Their pages carry tags, so
//! they detect bytes lost in a migration.
//!
//! Exit status: 0 success, 1 memory or server returned wrong data, 2 the verb could not run.

mod around;
mod ask;
mod beside;
mod burst;
mod cpu;
mod faults;
mod fill;
mod forker;
mod graph;
mod grow;
mod gups;
mod histogram;
mod hostile;
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

/// Result of checking the written data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything checked was as written.
    Good,
    /// Something differed.
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
    /// Random accesses with a known hot set; reports its share in fast memory
    Gups(gups::Args),
    /// Memory that grows, of which the newest part is hot
    Grow(grow::Args),
    /// PageRank, then connected components, on a graph with hubs
    Graph(graph::Args),
    /// Skewed GET and SET requests to a redis server on a unix socket
    RedisClient(redis::Args),
    /// Pages of a process by node, from numa_maps
    Where(where_is::Args),
    /// Short-lived bursts of memory, and their placement
    Burst(burst::Args),
    /// A bystander that fills a node
    Fill(fill::Args),
    /// Continuous fork, exit, map and unmap, with verified tags
    Forker(forker::Args),
    /// CPU time and resident size of processes and kernel threads
    Cpu(cpu::Args),
    /// Runs a command between the markers of a measured phase
    Around(around::Args),
    /// Requests to a service, and how soon it answers
    Ask(ask::Args),
    /// An address space that is expensive to look at
    Hostile(hostile::Args),
    /// Runs a command of whose system calls some fail
    Faults(faults::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Gups(args) => gups::run(&args),
        Verb::Grow(args) => grow::run(&args),
        Verb::Graph(args) => graph::run(&args),
        Verb::RedisClient(args) => redis::run(&args),
        Verb::Where(args) => where_is::run(&args),
        Verb::Burst(args) => burst::run(&args),
        Verb::Fill(args) => fill::run(&args),
        Verb::Forker(args) => forker::run(&args),
        Verb::Cpu(args) => cpu::run(&args),
        Verb::Around(args) => around::run(&args),
        Verb::Ask(args) => ask::run(&args),
        Verb::Hostile(args) => hostile::run(&args),
        Verb::Faults(args) => faults::run(&args),
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
