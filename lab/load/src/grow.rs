// SPDX-License-Identifier: Apache-2.0
//! `grow`: memory that grows at a steady rate, of which the newest part is hot, as in a log, a cache of
//! recent entries, or a program that loads its data.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::Verdict;
use crate::marker::{self, mark};
use crate::memory::{Memory, Thp};
use crate::observer::Census;
use crate::report;
use crate::rng::Rng;
use crate::unit::{Bytes, PAGE, Span, share};

/// Accesses between two readings of the clock.
const CHUNK: u64 = 4096;
/// Cache lines of a page, without the tag's.
const LINES: u32 = 63;
/// Pages of the newest part that are sampled, once a second.
const SAMPLE: usize = 512;

#[derive(clap::Args, Clone, Debug, Serialize)]
pub struct Args {
    /// Size at the start
    #[arg(long, default_value = "60M")]
    #[serde(rename = "from_bytes")]
    from: Bytes,
    /// Growth in a second
    #[arg(long, default_value = "16M")]
    #[serde(rename = "rate_bytes_per_second")]
    rate: Bytes,
    /// Size of the newest part, which is hot
    #[arg(long, default_value = "60M")]
    #[serde(rename = "newest_bytes")]
    newest: Bytes,
    /// Share of the accesses to the newest part; the others go anywhere
    #[arg(long, default_value = "0.9", value_parser = share)]
    hot_share: f64,
    /// Length of the run
    #[arg(long, default_value = "40s")]
    #[serde(rename = "duration_seconds")]
    duration: Span,
    /// Node that counts as fast memory
    #[arg(long, default_value_t = 0)]
    fast_node: u32,
    /// Huge pages
    #[arg(long, value_enum, default_value = "never", num_args = 0..=1, default_missing_value = "allow")]
    thp: Thp,
    /// Seed of every random choice
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Where to write the JSON report; - is stdout
    #[arg(long, default_value = "-")]
    #[serde(skip)]
    report: String,
}

#[derive(Serialize)]
struct Report<'a> {
    load: &'static str,
    pid: u32,
    parameters: &'a Args,
    elapsed_seconds: f64,
    accesses: u64,
    /// Share of the newest part in fast memory, sampled once a second.
    newest_fast_shares: Vec<f64>,
    newest_fast_mean: Option<f64>,
    tag_mismatches: u64,
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 2^32")]
fn bits(share: f64) -> u64 {
    (share * 4_294_967_296.0) as u64
}

pub fn run(args: &Args) -> Result<Verdict> {
    let (first, newest) = (args.from.pages(), args.newest.pages());
    ensure!(newest > 0 && newest <= first, "--newest must be between a page and --from");
    let grown = |after: Duration| -> Result<usize> {
        let pages = u128::from(args.rate.0) * after.as_micros() / (1_000_000 * PAGE as u128);
        Ok(usize::try_from(pages)?)
    };
    let total = first + grown(args.duration.0)?;
    let memory = Memory::map(total, args.thp, args.seed).context("cannot map the final size")?;
    let mut present = 0;
    let mut grow = |to: usize| {
        memory.tag_range(present..to);
        present = to;
    };
    grow(first);
    let mut rng = Rng::new(args.seed);
    let mut shares = Vec::new();
    let (mut accesses, hot) = (0, bits(args.hot_share));
    report::ready(None)?;
    let start = Instant::now();
    mark::<{ marker::START }>();
    loop {
        let now = start.elapsed();
        if now >= args.duration.0 {
            break;
        }
        let present = first + grown(now)?;
        grow(present);
        let old = present - newest;
        for _ in 0..CHUNK {
            let inside = rng.next() >> 32 < hot;
            let (from, pages) = if inside { (old, newest) } else { (0, present) };
            let page = from + rng.below(u32::try_from(pages)?) as usize;
            let line = 1 + rng.below(LINES) as usize;
            memory.word(page, line * 8).fetch_add(1, Relaxed);
        }
        accesses += CHUNK;
        if now.as_secs() > shares.len() as u64 {
            let pages = (u32::try_from(old)?..u32::try_from(present)?).collect();
            shares.extend(Census::new(&memory, pages, SAMPLE, &mut rng).share_on(args.fast_node));
        }
    }
    mark::<{ marker::END }>();
    let elapsed = start.elapsed();
    grow(total); // the last pages, which have no tag yet
    let tag_mismatches = memory.mismatches().count() as u64;
    report::write(
        &args.report,
        &Report {
            load: "grow",
            pid: std::process::id(),
            parameters: args,
            elapsed_seconds: elapsed.as_secs_f64(),
            accesses,
            newest_fast_mean: (!shares.is_empty())
                .then(|| shares.iter().sum::<f64>() / shares.len() as f64),
            newest_fast_shares: shares,
            tag_mismatches,
        },
    )?;
    Ok(Verdict::of(tag_mismatches))
}
