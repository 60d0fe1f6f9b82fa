// SPDX-License-Identifier: Apache-2.0
//! `fill`: a bystander that fills a node, so that less is left for a manager.
//!
//! A good manager takes idle memory from it, and leaves memory that is accessed all the time (`--touch`). The
//! share that is still on the node at the end shows which.

use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::Verdict;
use crate::memory::{Memory, Thp};
use crate::observer::Census;
use crate::report;
use crate::rng::Rng;
use crate::sys;
use crate::unit::{Bytes, Span};

/// Pages sampled to measure a share.
const SAMPLE: usize = 8192;

#[derive(clap::Args, Clone, Debug, Serialize)]
pub struct Args {
    /// The node to fill
    #[arg(long, default_value_t = 0)]
    node: u32,
    /// Size
    #[arg(long, default_value = "300M")]
    #[serde(rename = "size_bytes")]
    size: Bytes,
    /// How long to hold the memory
    #[arg(long, default_value = "60s")]
    #[serde(rename = "hold_seconds")]
    hold: Span,
    /// Access every page at this interval; without this option, never again
    #[arg(long)]
    #[serde(rename = "touch_seconds")]
    touch: Option<Span>,
    /// Huge pages
    #[arg(long, value_enum, default_value = "never", num_args = 0..=1, default_missing_value = "allow")]
    thp: Thp,
    /// Where to write the JSON report; - is stdout
    #[arg(long, default_value = "-")]
    #[serde(skip)]
    report: String,
    /// Wait for this file before the memory is filled
    #[arg(long)]
    #[serde(skip)]
    start_file: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report<'a> {
    load: &'static str,
    pid: u32,
    parameters: &'a Args,
    fill_seconds: f64,
    touches: u64,
    node_share_start: Option<f64>,
    node_share_end: Option<f64>,
    tag_mismatches: u64,
}

pub fn run(args: &Args) -> Result<Verdict> {
    const SEED: u64 = 0x6669_6c6c;
    if args.start_file.is_some() {
        report::ready(args.start_file.as_deref())?;
    }
    let memory = Memory::map(args.size.pages(), args.thp, SEED).context("cannot map --size")?;
    let start = Instant::now();
    sys::on_node(args.node, || memory.tag())
        .with_context(|| format!("cannot populate on node {}", args.node))?;
    let fill_seconds = start.elapsed().as_secs_f64();
    let mut census = Census::of_all(&memory, SAMPLE, &mut Rng::new(SEED));
    let node_share_start = census.share_on(args.node);
    // Without a start file, READY means that the node is full.
    if args.start_file.is_none() {
        report::ready(None)?;
    }

    let end = Instant::now() + args.hold.0;
    let mut touches = 0;
    while let left = end.saturating_duration_since(Instant::now())
        && left > Duration::ZERO
    {
        let Some(every) = args.touch else {
            std::thread::sleep(left);
            continue;
        };
        let next = Instant::now() + every.0;
        for page in 0..memory.pages() {
            memory.word(page, 1).fetch_add(1, Relaxed);
        }
        touches += 1;
        std::thread::sleep(next.min(end).saturating_duration_since(Instant::now()));
    }
    let node_share_end = census.share_on(args.node);
    let tag_mismatches = memory.mismatches().count() as u64;
    report::write(
        &args.report,
        &Report {
            load: "fill",
            pid: std::process::id(),
            parameters: args,
            fill_seconds,
            touches,
            node_share_start,
            node_share_end,
            tag_mismatches,
        },
    )?;
    Ok(Verdict::of(tag_mismatches))
}
