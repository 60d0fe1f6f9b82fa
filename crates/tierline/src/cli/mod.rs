// SPDX-License-Identifier: Apache-2.0
//! The verbs, one file each.

mod attach;
mod bench;
mod cell;
mod compare;
mod completion;
mod config;
mod daemon;
mod doctor;
mod explain;
mod join;
mod machines;
mod man;
mod manage;
mod names;
mod plan;
mod policies;
mod profile;
mod qos;
mod record;
mod recover;
mod reproduce;
mod run;
mod runs;
pub mod sim;
mod status;
mod topology;
mod trace;
mod trackers;
pub mod tune;
mod watch;
mod why;
mod workloads;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use tierline_linux::root::Root;

use crate::report_error;

/// A check failed, or something was found.
const FOUND: u8 = 1;
/// Wrong usage, or not possible in this environment.
const UNUSABLE: u8 = 2;

/// Keeps a program's hot pages in fast memory, without changes to the program.
///
/// Exit status: 0 success; 1 something was found, or a failure during the run; 2 wrong usage, or not possible on
/// this machine. `tierline run` exits with the command's status.
#[derive(Debug, Parser)]
#[command(name = "tierline", version, max_term_width = 100, color = clap::ColorChoice::Never)]
pub struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    verb: Verb,
}

/// Options of every verb.
#[derive(Debug, Args)]
pub struct Globals {
    /// Print JSON: numbers as numbers, in base units, with the unit in the key
    #[arg(long, global = true)]
    json: bool,
    /// A folder used instead of / (for tests)
    #[arg(long, global = true, hide = true, default_value = "/", value_name = "DIR")]
    root: PathBuf,
}

impl Globals {
    fn root(&self) -> Root {
        Root::at(&self.root)
    }
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(run::RunArgs),
    Attach(attach::AttachArgs),
    Daemon(daemon::DaemonArgs),
    Status(status::StatusArgs),
    Topology(topology::TopologyArgs),
    Doctor(doctor::DoctorArgs),
    Record(record::RecordArgs),
    Profile(profile::ProfileArgs),
    Trace(trace::TraceArgs),
    Sim(sim::SimArgs),
    Compare(compare::CompareArgs),
    Plan(plan::PlanArgs),
    Tune(tune::TuneArgs),
    Qos(qos::QosArgs),
    Reproduce(reproduce::ReproduceArgs),
    Machines(machines::MachinesArgs),
    Bench(bench::BenchArgs),
    Policies(policies::PoliciesArgs),
    Trackers(trackers::TrackersArgs),
    Workloads(workloads::WorkloadsArgs),
    Explain(explain::ExplainArgs),
    Config(config::ConfigArgs),
    Recover(recover::RecoverArgs),
    Completion(completion::CompletionArgs),
    Man(man::ManArgs),
}

/// Runs the verb of the command line.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match dispatch(&cli.verb, &cli.globals) {
        Ok(status) => ExitCode::from(status),
        Err(error) if report_error::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report_error::print(&error);
            ExitCode::from(UNUSABLE)
        }
    }
}

fn dispatch(verb: &Verb, globals: &Globals) -> Result<u8> {
    match verb {
        Verb::Run(args) => args.run(globals),
        Verb::Attach(args) => args.run(globals),
        Verb::Daemon(args) => args.run(globals),
        Verb::Status(args) => args.run(globals),
        Verb::Topology(args) => args.run(globals),
        Verb::Doctor(args) => args.run(globals),
        Verb::Record(args) => args.run(globals),
        Verb::Profile(args) => args.run(globals),
        Verb::Trace(args) => args.run(globals),
        Verb::Sim(args) => args.run(globals),
        Verb::Compare(args) => args.run(globals),
        Verb::Plan(args) => args.run(globals),
        Verb::Tune(args) => args.run(globals),
        Verb::Qos(args) => args.run(globals),
        Verb::Reproduce(args) => args.run(globals),
        Verb::Machines(args) => args.run(globals),
        Verb::Bench(args) => args.run(globals),
        Verb::Policies(args) => args.run(globals),
        Verb::Trackers(args) => args.run(globals),
        Verb::Workloads(args) => args.run(globals),
        Verb::Explain(args) => args.run(globals),
        Verb::Config(args) => args.run(globals),
        Verb::Recover(args) => args.run(globals),
        Verb::Completion(args) => args.run(globals),
        Verb::Man(args) => args.run(globals),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    /// All verbs and subcommands, as typed.
    fn verbs(command: &clap::Command, typed: &str) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
            let typed = format!("{typed} {}", verb.get_name());
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            found.extend(verbs(verb, &typed));
            found.push((typed, help));
        }
        found
    }

    /// The words of a line as a shell splits it, up to a redirection.
    fn words(line: &str) -> Vec<String> {
        let parts: Vec<&str> = line.split('\'').collect();
        let mut words = Vec::new();
        for (at, part) in parts.into_iter().enumerate() {
            match at % 2 {
                0 => words.extend(part.split_whitespace().map(String::from)),
                _ => words.push(part.into()),
            }
        }
        words.into_iter().take_while(|word| !word.starts_with('>')).collect()
    }

    #[test]
    fn every_verb_has_examples_and_they_parse() {
        let all = verbs(&Cli::command(), "tierline");
        assert!(all.len() >= 33, "{}", all.len());
        for (verb, help) in all {
            let lines =
                help.lines().map(|line| line.strip_prefix("Example: ").unwrap_or(line).trim());
            let examples: Vec<&str> = lines.filter(|line| line.starts_with("tierline ")).collect();
            assert!(!examples.is_empty(), "{verb} has no example");
            for example in examples {
                assert!(example.starts_with(&verb), "{verb}: {example}");
                let parsed = Cli::try_parse_from(words(example));
                assert!(parsed.is_ok(), "{example}: {}", parsed.expect_err("it").render());
            }
        }
    }
}
