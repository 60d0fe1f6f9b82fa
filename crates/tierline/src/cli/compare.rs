// SPDX-License-Identifier: Apache-2.0
//! `tierline compare`: policies × workloads × machines, side by side.

use anyhow::Result;
use clap::Args;
use tierline_model::compare::{Entry, Field, compare};

use super::Globals;
use super::reproduce::{cores, progress};
use super::sim::hinted;
use crate::letter::Hinted;
use crate::print::{self, row};
use crate::recording;

/// Run many policies on many workloads and machines
///
/// Every combination is a run of `tierline sim`, on all cores. Same seed, same table, whatever the number of
/// cores.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Policies of `tierline policies`
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', required = true)]
    policy: Vec<String>,
    /// A workload, with its knobs where wanted, as in gups:hot=12GiB,jump=50s; may be repeated
    #[arg(
        long,
        value_name = "KIND[:KEY=VALUE,…]",
        default_value = "gups",
        default_value_if("trace", clap::builder::ArgPredicate::IsPresent, None)
    )]
    workload: Vec<String>,
    /// A recorded program, with its knobs where wanted, as in redis.trace,in_flight=2; may be repeated
    #[arg(long, value_name = "FILE[,KEY=VALUE,…]")]
    trace: Vec<String>,
    /// Machines of `tierline machines`
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "colloid-icx")]
    machine: Vec<String>,
    /// Fast memory to slow, of the workload's memory, as in 1:2,1:8; the machine's own, if left out
    #[arg(long, value_name = "F:S,…", value_delimiter = ',')]
    ratio: Vec<String>,
    /// Simulated time
    #[arg(long, value_name = "S", default_value_t = 20.0)]
    seconds: f64,
    /// Seed of all chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Threads to run with; as many as there are cores, if left out
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

impl CompareArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let ratios = self.ratio.iter().map(|text| ratio(text)).collect::<Result<_>>()?;
        let recorded = self.trace.iter().map(|file| format!("trace:{file}"));
        let files = self.trace.iter().filter_map(|text| text.split(',').next());
        let field = Field {
            policies: self.policy.clone(),
            workloads: self.workload.iter().cloned().chain(recorded).collect(),
            traces: recording::load(files)?,
            machines: self.machine.clone(),
            ratios,
            seconds: self.seconds,
            seed: self.seed,
        };
        let threads = self.threads.unwrap_or_else(cores);
        let entries = compare(&field, threads, &progress).map_err(hinted)?;
        match (globals.json, self.csv) {
            (true, _) => print::out(&(serde_json::to_string_pretty(&entries)? + "\n"))?,
            (_, true) => print::out(&csv(&entries)?)?,
            _ => print::out(&describe(&entries))?,
        }
        Ok(0)
    }
}

fn ratio(text: &str) -> Result<(u32, u32)> {
    let parts = text
        .split_once(':')
        .and_then(|(fast, slow)| Some((fast.parse::<u32>().ok()?, slow.parse::<u32>().ok()?)));
    parts.filter(|&(fast, _)| fast > 0).ok_or_else(|| {
        Hinted::error(format!("{text} is no ratio"), "write fast to slow memory, as in --ratio 1:2")
    })
}

/// Comma-separated values: the keys of the JSON rows, then a line a row.
fn csv(entries: &[Entry]) -> Result<String> {
    let mut text = String::new();
    for entry in entries {
        let value = serde_json::to_value(entry)?;
        let Some(fields) = value.as_object() else { continue };
        if text.is_empty() {
            text = fields.keys().cloned().collect::<Vec<_>>().join(",") + "\n";
        }
        let cells = fields.values().map(|value| match value {
            serde_json::Value::Null => String::new(),
            serde_json::Value::String(cell) if cell.contains([',', '"']) => {
                format!("\"{}\"", cell.replace('"', "\"\""))
            }
            serde_json::Value::String(cell) => cell.clone(),
            other => other.to_string(),
        });
        text += &(cells.collect::<Vec<_>>().join(",") + "\n");
    }
    Ok(text)
}

fn describe(entries: &[Entry]) -> String {
    let head = ["machine", "workload", "ratio", "policy", "throughput", "of best", "fast share"];
    let mut rows = vec![row(head)];
    rows[0].extend(row(["mean ns", "moved GiB", "recovery s"]));
    for entry in entries {
        let best = if entry.relative_to_best >= 1.0 { " *" } else { "" };
        let mut cells = row([
            &entry.machine,
            &entry.workload,
            entry.ratio.as_deref().unwrap_or("-"),
            &entry.policy,
            &format!("{:.4e} {}", entry.throughput, entry.unit),
            &format!("{:.3}{best}", entry.relative_to_best),
            &format!("{:.3}", entry.fast_share),
        ]);
        #[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
        let moved = entry.migrated_bytes as f64 / f64::from(1 << 30);
        cells.extend([
            format!("{:.0}", entry.mean_latency_ns),
            format!("{moved:.1}"),
            entry.recovery_seconds.map_or("-".into(), |seconds| format!("{seconds:.0}")),
        ]);
        rows.push(cells);
    }
    print::table(&rows) + "\n* the best of its machine, workload and ratio\n"
}
