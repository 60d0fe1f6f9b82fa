// SPDX-License-Identifier: Apache-2.0
//! `tierline qos`: applications with targets and priorities, on the model and under a running manager.

mod calibrate;
mod live;
mod scenario;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use tierline_core::unit::{BytesPerSec, Nanos};

use self::live::Link;
use super::Globals;
use crate::apps::App;
use crate::config::file::ConfigSources;
use crate::config::value::Text;
use crate::report_error::ErrorWithHint;
use crate::request::Verb;

/// Submit applications with targets and priorities, and see what they have, need and get
///
/// Applications are control groups (cgroup v2). The verbs besides `plan` talk to a running manager, as in `tierline
/// attach --apps`, through its socket; only root and the manager's user may change something.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n\
  \x20 tierline qos submit redis --type ls --slo slow-share=5% --priority 3 --cgroup system.slice/redis.service\n\
  \x20 tierline qos list\n\
  \x20 tierline qos plan scenarios/qos/01-order-of-arrival.toml")]
pub struct QosArgs {
    #[command(subcommand)]
    what: QosVerb,
}

/// The manager to talk to.
#[derive(Debug, Args)]
pub struct ManagerArgs {
    /// The manager's process, if several run
    #[arg(long, value_name = "PID")]
    manager: Option<u32>,
    /// Folder of the sockets [default: /run/tierline]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    #[command(flatten)]
    sources: ConfigSources,
}

#[derive(Debug, Subcommand)]
enum QosVerb {
    /// Who would be admitted, and with what, without running anything
    ///
    /// Exit status 1 if an application is refused, or gets less than its target needs.
    #[command(after_help = "Example: tierline qos plan scenarios/qos/01-order-of-arrival.toml")]
    Plan {
        /// A scenario with tenants that have a priority
        #[arg(value_name = "SCENARIO.toml")]
        scenario: PathBuf,
    },
    /// Show what an application has, what it needs, and who gave up what for it and when
    ///
    /// With a scenario: of one that is run on the model. Otherwise: of an application of a running manager.
    #[command(after_help = "Examples:\n\
      \x20 tierline qos explain redis\n\
      \x20 tierline qos explain scenarios/qos/01-order-of-arrival.toml c")]
    Explain {
        /// The application, or a scenario and the name of its tenant
        #[arg(value_name = "NAME", num_args = 1..=2, required = true)]
        names: Vec<String>,
        #[command(flatten)]
        manager: ManagerArgs,
    },
    /// Submit an application: a control group, or a command that is run in a new one
    #[command(after_help = "Examples:\n\
      \x20 tierline qos submit redis --type ls --slo 200ns --priority 3 --cgroup system.slice/redis.service\n\
      \x20 tierline qos submit batch --type bi --slo 2GB/s --priority 1 --cores 4 -- ./train --epochs 3")]
    Submit {
        /// Its name
        name: String,
        #[command(flatten)]
        app: App,
        /// Its control group, relative to /sys/fs/cgroup
        #[arg(long, value_name = "PATH", required_unless_present = "command")]
        cgroup: Option<String>,
        #[command(flatten)]
        manager: ManagerArgs,
        /// A command, which is run in the new control group tierline/NAME
        #[arg(last = true, value_name = "COMMAND", conflicts_with = "cgroup")]
        command: Vec<OsString>,
    },
    /// Show how all applications stand
    ///
    /// A latency is one that the application reports, or `predicted` from the share of its accesses that each tier
    /// serves. `slow` is the share that slower tiers than the fastest serve.
    #[command(after_help = "Example: tierline qos list")]
    List {
        #[command(flatten)]
        manager: ManagerArgs,
    },
    /// Change the target, priority, weight, memory or cores of an application
    #[command(after_help = "Example: tierline qos set redis --slo 180ns --priority 5")]
    Set {
        /// Its name
        name: String,
        #[command(flatten)]
        app: App,
        #[command(flatten)]
        manager: ManagerArgs,
    },
    /// Remove an application: its limits are lifted, its processes stay managed
    #[command(after_help = "Example: tierline qos remove batch")]
    Remove {
        /// Its name
        name: String,
        #[command(flatten)]
        manager: ManagerArgs,
    },
    /// Report a latency or a bandwidth that the application itself measured; it counts for ten seconds
    ///
    /// It replaces the prediction. The latency must have the meaning of the target: if that is a mean access of 200 ns,
    /// not the latency of a request.
    #[command(after_help = "Example: tierline qos report redis --latency 190ns --samples 50000")]
    Report {
        /// Its name
        name: String,
        /// Its latency: a mean, or a percentile
        #[arg(long, value_name = "TIME", required_unless_present = "bandwidth")]
        latency: Option<Text<Nanos>>,
        /// The number of samples of this latency
        #[arg(long, value_name = "N", default_value_t = 1)]
        samples: u64,
        /// Bytes that it reads and writes per second
        #[arg(long, value_name = "RATE")]
        bandwidth: Option<Text<BytesPerSec>>,
        #[command(flatten)]
        manager: ManagerArgs,
    },
    /// Measure the traffic at which programs of this machine hurt each other, and keep it
    ///
    /// Takes some seconds, all processors, and 128 MiB of memory for each: run it on an idle machine. A manager reads the
    /// result, /var/lib/tierline/calibration.toml, at its start. It is used where the traffic of tiers is measured,
    /// which needs the CPU's counters.
    #[command(after_help = "Example: tierline qos calibrate")]
    Calibrate {
        #[command(flatten)]
        sources: ConfigSources,
        /// Measure, but do not keep the result
        #[arg(long)]
        dry_run: bool,
    },
    /// Predict what an application loses with less fast memory, from the heat of its pages, or measure what it needs
    ///
    /// Without --measure no page is moved for it.
    #[command(after_help = "Examples:\n\
      \x20 tierline qos profile redis\n\
      \x20 tierline qos profile redis --measure")]
    Profile {
        /// Its name
        name: String,
        /// Give it more and less fast memory for a minute or two, until the least that meets its target is found
        ///
        /// Less important applications give up memory for it meanwhile. What more important ones need is not touched.
        #[arg(long)]
        measure: bool,
        #[command(flatten)]
        manager: ManagerArgs,
    },
}

impl QosArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        match &self.what {
            QosVerb::Plan { scenario } => scenario::plan(scenario, globals),
            QosVerb::Explain { names, manager } => match &names[..] {
                [file, name] => scenario::explain(Path::new(file), name, globals),
                [name, ..] => Link::to(manager, globals)?.explain(name, globals),
                [] => Ok(0),
            },
            QosVerb::Submit { name, app, cgroup, manager, command } => {
                let app = App { name: Some(name.clone()), cgroup: cgroup.clone(), ..app.clone() };
                let link = Link::to(manager, globals)?;
                match command.is_empty() {
                    true => link.submit(&app, globals),
                    false => link.launch(app, command, globals),
                }
            }
            QosVerb::List { manager } => Link::to(manager, globals)?.list(globals),
            QosVerb::Set { name, app, manager } => {
                let app = App { name: Some(name.clone()), ..app.clone() };
                if app == (App { name: app.name.clone(), ..App::default() }) {
                    return Err(ErrorWithHint::error(
                        format!("nothing about {name} is to be changed"),
                        "name what changes, as in --priority 5",
                    ));
                }
                Link::to(manager, globals)?.show(&Verb::Set { app }, globals)
            }
            QosVerb::Remove { name, manager } => {
                Link::to(manager, globals)?.quietly(&Verb::Remove { name: name.clone() }, globals)
            }
            QosVerb::Report { name, latency, samples, bandwidth, manager } => {
                let report = Verb::Report {
                    name: name.clone(),
                    latency_ns: latency.as_ref().map(|latency| latency.0.0),
                    samples: *samples,
                    bandwidth_bytes_per_second: bandwidth.as_ref().map(|rate| rate.0.0),
                };
                Link::to(manager, globals)?.quietly(&report, globals)
            }
            QosVerb::Calibrate { sources, dry_run } => calibrate::run(sources, *dry_run, globals),
            QosVerb::Profile { name, measure, manager } => {
                let link = Link::to(manager, globals)?;
                match measure {
                    true => link.measure(name, globals),
                    false => link.profile(name, globals),
                }
            }
        }
    }
}
