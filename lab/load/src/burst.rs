// SPDX-License-Identifier: Apache-2.0
//! `burst`: memory that is repeatedly allocated, used briefly and freed, as by a request handler or a compiler.
//!
//! Such memory is hot from its first write and freed before any tracker has observed it. So it should be placed
//! on the fast node at once: a manager helps by keeping headroom there.

use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::Verdict;
use crate::marker::{self, mark};
use crate::memory::{Memory, Thp};
use crate::observer::Census;
use crate::report;
use crate::rng::Rng;
use crate::unit::{Bytes, Span};
use crate::vmstat;

/// Pages sampled per burst.
const SAMPLE: usize = 8192;

#[derive(clap::Args, Clone, Debug, Serialize)]
pub struct Args {
    /// Size of a burst
    #[arg(long, default_value = "100M")]
    #[serde(rename = "size_bytes")]
    size: Bytes,
    /// Time from the start of a burst to the next
    #[arg(long, default_value = "5s")]
    #[serde(rename = "period_seconds")]
    period: Span,
    /// Delay before the first burst
    #[arg(long, default_value = "0s")]
    #[serde(rename = "delay_seconds")]
    delay: Span,
    /// Number of bursts
    #[arg(long, default_value_t = 6)]
    bursts: u32,
    /// How long a burst's memory is used before it is freed
    #[arg(long, default_value = "1s")]
    #[serde(rename = "live_seconds")]
    live: Span,
    /// Node that counts as fast memory
    #[arg(long, default_value_t = 0)]
    fast_node: u32,
    /// Huge pages
    #[arg(long, value_enum, default_value = "never", num_args = 0..=1, default_missing_value = "allow")]
    thp: Thp,
    /// Seed of the samples
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Where to write the JSON report; - is stdout
    #[arg(long, default_value = "-")]
    #[serde(skip)]
    report: String,
    /// Wait for this file before the first burst
    #[arg(long)]
    #[serde(skip)]
    start_file: Option<PathBuf>,
}

#[derive(Serialize)]
struct Burst {
    t_seconds: f64,
    /// Duration of the first write to every page.
    populate_seconds: f64,
    /// Share on the fast node afterwards.
    fast_share: Option<f64>,
    /// The same just before it was freed.
    fast_share_end: Option<f64>,
    /// Passes over all of its cache lines.
    passes: u64,
    tag_mismatches: u64,
}

#[derive(Serialize)]
struct Report<'a> {
    load: &'static str,
    pid: u32,
    parameters: &'a Args,
    fast_share_mean: Option<f64>,
    /// Of the burst with the lowest share.
    fast_share_least: Option<f64>,
    populate_seconds_mean: f64,
    tag_mismatches: u64,
    vmstat: vmstat::Counters,
    bursts: Vec<Burst>,
}

fn burst(args: &Args, start: Instant, seed: u64) -> Result<Burst> {
    let t_seconds = start.elapsed().as_secs_f64();
    let begun = Instant::now();
    let memory = Memory::map(args.size.pages(), args.thp, seed).context("cannot map --size")?;
    memory.tag();
    let populate_seconds = begun.elapsed().as_secs_f64();
    let mut census = Census::of_all(&memory, SAMPLE, &mut Rng::new(seed));
    let fast_share = census.share_on(args.fast_node);
    let mut passes = 0;
    while begun.elapsed() < args.live.0 {
        for word in memory.words().iter().skip(1).step_by(8) {
            word.store(word.load(Relaxed) + 1, Relaxed);
        }
        passes += 1;
    }
    Ok(Burst {
        t_seconds,
        populate_seconds,
        fast_share,
        fast_share_end: census.share_on(args.fast_node),
        passes,
        tag_mismatches: memory.mismatches().count() as u64,
    })
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0u32), |(sum, n), value| (sum + value, n + 1));
    (n > 0).then(|| sum / f64::from(n))
}

pub fn run(args: &Args) -> Result<Verdict> {
    report::ready(args.start_file.as_deref())?;
    let before = vmstat::read();
    let start = Instant::now();
    mark::<{ marker::START }>();
    let mut bursts = Vec::new();
    for n in 0..args.bursts {
        let due = args.delay.0 + args.period.0 * n;
        std::thread::sleep(due.saturating_sub(start.elapsed()).max(Duration::ZERO));
        bursts.push(burst(args, start, args.seed + u64::from(n))?);
    }
    mark::<{ marker::END }>();
    let tag_mismatches = bursts.iter().map(|b| b.tag_mismatches).sum();
    report::write(
        &args.report,
        &Report {
            load: "burst",
            pid: std::process::id(),
            parameters: args,
            fast_share_mean: mean(bursts.iter().filter_map(|b| b.fast_share)),
            fast_share_least: bursts.iter().filter_map(|b| b.fast_share).reduce(f64::min),
            populate_seconds_mean: mean(bursts.iter().map(|b| b.populate_seconds)).unwrap_or(0.0),
            tag_mismatches,
            vmstat: vmstat::delta(&before, &vmstat::read()),
            bursts,
        },
    )?;
    Ok(Verdict::of(tag_mismatches))
}
