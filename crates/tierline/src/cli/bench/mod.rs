// SPDX-License-Identifier: Apache-2.0
//! `tierline bench`: how fast Tierline itself is.

mod engine;

use std::fs;

use anyhow::Result;
use clap::{Args, Subcommand};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use tierline_core::port::PageSize;
use tierline_core::rng::Rng;
use tierline_core::unit::Bytes;
use tierline_model::machine::list::MACHINES;
use tierline_model::run::run;
use tierline_model::scenario::Scenario;
use tierline_model::workload::list::written;
use tierline_trace::{Block, Epoch, Evidence, Header, Reader, Record, Writer};

use super::Globals;
use super::sim::hinted;
use crate::print::{self, row};

/// Measure Tierline itself
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The machine model: simulated against CPU time
    ///
    /// GUPS on 72 GB as in Colloid for 100 simulated seconds, in huge and in base pages, with the default
    /// sampler and a policy that takes samples in and moves nothing: what others decide is their cost.
    Model {
        /// Simulated time of each run
        #[arg(long, value_name = "S", default_value_t = 100.0)]
        seconds: f64,
    },
    /// The engine: samples taken in, and the time of one tick
    ///
    /// 1 TiB in base pages, of which a million are hot, under the default policy: nine samples in ten are of hot
    /// pages. Nothing is moved: the fast tier is full of hot pages.
    Engine {
        /// Samples between two ticks
        #[arg(long, value_name = "N", default_value_t = 100_000)]
        samples: u32,
        /// Ticks measured
        #[arg(long, value_name = "N", default_value_t = 100)]
        ticks: u32,
    },
    /// The trace format: records read in a CPU second
    ///
    /// A trace in memory, of epochs of 200,000 pages with gaps of 1 to 3 pages and about 8 reads and 1 write a
    /// page, both geometrically distributed, is written and then read to its end.
    Trace {
        /// Records
        #[arg(long, value_name = "N", default_value_t = 50_000_000)]
        records: u64,
    },
}

#[derive(Serialize)]
struct TraceSpeed {
    records: u64,
    trace_bytes: Bytes,
    read_cpu_seconds: f64,
    records_read_per_cpu_second: f64,
    write_cpu_seconds: f64,
    records_written_per_cpu_second: f64,
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

impl BenchArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let seconds = match self.what {
            What::Model { seconds } => seconds,
            What::Engine { samples, ticks } => return engine::run(samples, ticks, globals),
            What::Trace { records } => return trace(records, globals),
        };
        let mut speeds = Vec::new();
        for size in [PageSize::Huge, PageSize::Base] {
            speeds.push(measure(MACHINES[0].name, size, seconds)?);
        }
        match globals.json {
            true => print::out(&(serde_json::to_string_pretty(&speeds)? + "\n"))?,
            false => print::out(&describe(&speeds))?,
        }
        Ok(0)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number of records")]
fn trace(records: u64, globals: &Globals) -> Result<u8> {
    const PAGES: u64 = 200_000;
    let mut rng = Rng::new(1);
    let geometric = |rng: &mut Rng, halvings: u32| {
        (0..halvings).map(|_| rng.next_u64().trailing_zeros()).sum::<u32>()
    };
    let mut page = 0;
    let mut epoch = || {
        let next = |_| {
            page = (page + 1 + rng.below(3)) % (1 << 36);
            let (reads, writes) = (1 + geometric(&mut rng, 7), geometric(&mut rng, 1));
            Record { page, reads, writes }
        };
        let mut records: Vec<Record> = (0..PAGES).map(next).collect();
        records.sort_unstable();
        records
    };
    // A few are drawn and repeated: drawing takes longer than writing.
    let drawn: Vec<Vec<Record>> = (0..8).map(|_| epoch()).collect();
    let before = cpu_seconds();
    let mut writer = Writer::new(Vec::new(), &Header::new(Evidence::Counted, "bench"))?;
    let mut left = records;
    for records in drawn.iter().cycle() {
        let part = usize::try_from(left.min(PAGES))?;
        writer.epoch(Epoch { ns: 1, accesses: 0 })?;
        writer.records(0, &records[..part])?;
        left -= part as u64;
        if left == 0 {
            break;
        }
    }
    let bytes = writer.finish()?;
    let write_cpu_seconds = cpu_seconds() - before;
    let before = cpu_seconds();
    let (mut reader, mut read, mut sum) = (Reader::new(&bytes[..])?, 0, 0u64);
    while let Some(block) = reader.next()? {
        if let Block::Pages { records, .. } = block {
            read += records.len() as u64;
            sum += records.iter().map(|record| u64::from(record.reads)).sum::<u64>();
        }
    }
    let read_cpu_seconds = cpu_seconds() - before;
    anyhow::ensure!(read == records && sum >= records, "the trace does not read as it was written");
    let speed = TraceSpeed {
        records,
        trace_bytes: Bytes(bytes.len() as u64),
        read_cpu_seconds,
        records_read_per_cpu_second: records as f64 / read_cpu_seconds,
        write_cpu_seconds,
        records_written_per_cpu_second: records as f64 / write_cpu_seconds,
    };
    match globals.json {
        true => print::json(&speed)?,
        false => print::out(&print::table(&[
            row(["records", "trace", "read per CPU s", "written per CPU s"]),
            row([
                &records.to_string(),
                &speed.trace_bytes.to_string(),
                &format!("{:.0} M", speed.records_read_per_cpu_second * 1e-6),
                &format!("{:.0} M", speed.records_written_per_cpu_second * 1e-6),
            ]),
        ]))?,
    }
    Ok(0)
}

fn measure(machine: &str, size: PageSize, seconds: f64) -> Result<Speed> {
    let pages = if size == PageSize::Huge { "huge" } else { "base" };
    let workload = written(&format!("gups:pages={pages}")).map_err(hinted)?;
    let scenario = Scenario {
        machine: machine.into(),
        seconds,
        policy: "hold".into(),
        workload: vec![workload],
        ..Scenario::default()
    };
    // Linux starts the peak anew; where it does not, the peak is that of the process so far.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let before = cpu_seconds();
    let report = run(&scenario).map_err(hinted)?;
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

#[expect(clippy::cast_precision_loss, reason = "seconds of a process")]
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
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
