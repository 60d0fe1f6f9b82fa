// SPDX-License-Identifier: Apache-2.0
//! `tierline bench`: the speed of Tierline itself.

mod engine;
mod qos;
mod trace;

use std::fs;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Serialize;
use tierline_core::port::PageSize;
use tierline_core::unit::Bytes;
use tierline_model::machine::list::MACHINES;
use tierline_model::run::run;
use tierline_model::scenario::Scenario;
use tierline_model::workload::list::written;

use super::Globals;
use crate::clock;
use crate::print::{self, row};

/// Measure Tierline's own speed
#[derive(Debug, Args)]
#[command(after_help = "Example: tierline bench engine --samples 100000")]
pub struct BenchArgs {
    #[command(subcommand)]
    what: BenchVerb,
}

#[derive(Debug, Subcommand)]
enum BenchVerb {
    /// The machine model: simulated time per CPU time
    ///
    /// GUPS on 72 GB as in Colloid for 100 simulated seconds, in huge and in base pages, with the default
    /// sampler and a policy that accepts samples and moves nothing, so no policy's cost is included.
    #[command(after_help = "Example: tierline bench model --seconds 10")]
    Model {
        /// Simulated time of each run
        #[arg(long, value_name = "S", default_value_t = 100.0)]
        seconds: f64,
    },
    /// The engine: samples processed, and the time of one tick
    ///
    /// 1 TiB in base pages, of which a million are hot, under the default policy: nine samples in ten are of hot
    /// pages. Nothing is moved, as the fast tier is full of hot pages.
    #[command(after_help = "Example: tierline bench engine --samples 100000")]
    Engine {
        /// Samples between two ticks
        #[arg(long, value_name = "N", default_value_t = 100_000)]
        samples: u32,
        /// Ticks measured
        #[arg(long, value_name = "N", default_value_t = 100)]
        ticks: u32,
    },
    /// Quality of service: admission, and a step of the controller
    ///
    /// Applications of 1 GiB with latency and bandwidth targets arrive one after the other, and each arrival is
    /// followed by a step. Then steps of 200 ms are measured in which loads change at random.
    #[command(after_help = "Example: tierline bench qos --applications 50")]
    Qos {
        /// Applications
        #[arg(long, value_name = "N", default_value_t = 1000)]
        applications: u16,
        /// Steps measured
        #[arg(long, value_name = "N", default_value_t = 100)]
        steps: u32,
    },
    /// The trace format: records read per CPU second
    ///
    /// A trace in memory, of epochs of 200,000 pages with gaps of 1 to 3 pages and about 8 reads and 1 write per page,
    /// both geometrically distributed, is written and then read to its end.
    #[command(after_help = "Example: tierline bench trace --records 1000000")]
    Trace {
        /// Records
        #[arg(long, value_name = "N", default_value_t = 50_000_000)]
        records: u64,
    },
}

#[derive(Serialize)]
struct Speed {
    machine: String,
    page_size: Bytes,
    simulated_seconds: f64,
    cpu_seconds: f64,
    accesses_per_cpu_second: f64,
    peak_rss_bytes: Option<Bytes>,
}

/// The measurements of each run.
#[derive(Serialize)]
struct Speeds<T> {
    runs: Vec<T>,
}

impl BenchArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let seconds = match self.what {
            BenchVerb::Model { seconds } => seconds,
            BenchVerb::Engine { samples, ticks } => return engine::run(samples, ticks, globals),
            BenchVerb::Qos { applications, steps } => {
                return qos::run(applications, steps, globals);
            }
            BenchVerb::Trace { records } => return trace::run(records, globals),
        };
        let mut speeds = Vec::new();
        for size in [PageSize::Huge, PageSize::Base] {
            speeds.push(measure(MACHINES[0].name, size, seconds)?);
        }
        match globals.json {
            true => print::json(&Speeds { runs: speeds })?,
            false => print::out(&describe(&speeds))?,
        }
        Ok(0)
    }
}

fn measure(machine: &str, size: PageSize, seconds: f64) -> Result<Speed> {
    let pages = if size == PageSize::Huge { "huge" } else { "base" };
    let workload = written(&format!("gups:pages={pages}"))?;
    let scenario = Scenario {
        machine: machine.into(),
        seconds,
        policy: "hold".into(),
        workload: vec![workload],
        ..Scenario::default()
    };
    // Linux resets the peak; otherwise the peak is that of the process so far.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let before = cpu_seconds();
    let report = run(&scenario)?;
    let cpu_seconds = cpu_seconds() - before;
    let accesses: f64 = report.overall.programs.iter().map(|p| p.throughput * report.seconds).sum();
    Ok(Speed {
        machine: machine.into(),
        page_size: size.bytes(),
        simulated_seconds: seconds,
        cpu_seconds,
        accesses_per_cpu_second: accesses / cpu_seconds,
        peak_rss_bytes: peak_rss(),
    })
}

fn cpu_seconds() -> f64 {
    clock::cpu().as_secs_f64()
}

fn peak_rss() -> Option<Bytes> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes(kib << 10))
}

fn describe(speeds: &[Speed]) -> String {
    let head = ["machine", "pages", "simulated s", "CPU s", "accesses per CPU s", "peak memory"];
    let mut rows = vec![row(head)];
    rows.extend(speeds.iter().map(|speed| {
        row([
            &speed.machine,
            &speed.page_size.to_string(),
            &speed.simulated_seconds.to_string(),
            &format!("{:.2}", speed.cpu_seconds),
            &format!("{:.2e}", speed.accesses_per_cpu_second),
            &print::or_dash(speed.peak_rss_bytes),
        ])
    }));
    print::table(&rows)
}
