// SPDX-License-Identifier: Apache-2.0
//! `forker`: continuously forks children that exit, while all processes access memory and map and unmap
//! regions. It provokes races in a manager: processes that exit while their pages are being moved, pages shared
//! by two processes, addresses that are reused by another region.
//!
//! All memory is tagged. A child checks a sample of the inherited pages, overwrites some of them (its own
//! copies), and checks its copies and the tags of its own region. The parent checks that no write of a child
//! reached its memory.

use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::Verdict;
use crate::memory::{Memory, Thp};
use crate::report;
use crate::rng::{Rng, hash};
use crate::unit::{Bytes, Span};

/// Pages accessed by a child, or by the parent in one round.
const TOUCHED: u32 = 64;
/// Number of regions that the parent keeps, and their maximum size in pages.
const REGIONS: u32 = 8;
const REGION_PAGES: u32 = 512;
/// Exit statuses of a child that found an error, or panicked.
const CHILD_MISMATCH: i32 = 1;
const CHILD_PANIC: i32 = 101;

#[derive(clap::Args, Clone, Debug, Serialize)]
pub struct Args {
    /// Duration of the run
    #[arg(long, default_value = "10s")]
    #[serde(rename = "duration_seconds")]
    duration: Span,
    /// Memory inherited by the children
    #[arg(long, default_value = "32M")]
    #[serde(rename = "size_bytes")]
    size: Bytes,
    /// Number of children at a time
    #[arg(long, default_value_t = 4)]
    children: usize,
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
    /// Wait for this file before the first fork
    #[arg(long)]
    #[serde(skip)]
    start_file: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report<'a> {
    load: &'static str,
    pid: u32,
    parameters: &'a Args,
    elapsed_seconds: f64,
    forks: u64,
    forks_failed: u64,
    regions_mapped: u64,
    regions_unmapped: u64,
    rounds: u64,
    tag_mismatches: u64,
    children_mismatched: u64,
    /// Children that died of a signal or a panic.
    children_died: u64,
}

/// Word with the page number, which a child overwrites in its copy.
const OWN: usize = 1;

fn page(memory: &Memory, rng: &mut Rng) -> usize {
    rng.below(u32::try_from(memory.pages()).expect("less than 16 TiB")) as usize
}

/// A region of random size with tags.
fn region(args: &Args, rng: &mut Rng) -> std::io::Result<Memory> {
    let pages = 1 + rng.below(REGION_PAGES) as usize;
    let memory = Memory::map(pages, args.thp, rng.next())?;
    memory.tag();
    Ok(memory)
}

/// The work of a child; true if all checks succeeded.
fn child(args: &Args, base: &Memory, mut rng: Rng) -> bool {
    let mut good = true;
    let written: Vec<(usize, u64)> = (0..TOUCHED)
        .map(|_| {
            let page = page(base, &mut rng);
            good &= base.tag_holds(page);
            let value = hash(page as u64, rng.next());
            base.word(page, OWN).store(value, Relaxed);
            (page, value)
        })
        .collect();
    if let Ok(own) = region(args, &mut rng) {
        good &= own.mismatches().next().is_none();
    }
    for (at, &(page, value)) in written.iter().enumerate() {
        let overwritten = written[at + 1..].iter().any(|&(later, _)| later == page);
        good &= base.tag_holds(page);
        good &= overwritten || base.word(page, OWN).load(Relaxed) == value;
    }
    good
}

/// Forks a child that runs `work` and exits with its result.
fn fork(work: impl FnOnce() -> bool) -> std::io::Result<()> {
    // SAFETY: this process has one thread, so the child's copies of locks and of the allocator are consistent.
    // The child leaves by _exit and never returns from here.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()),
        0 => {
            let status = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
                Ok(true) => 0,
                Ok(false) => CHILD_MISMATCH,
                Err(_) => CHILD_PANIC,
            };
            // SAFETY: ends the child without running the parent's handlers.
            unsafe { libc::_exit(status) }
        }
        _ => Ok(()),
    }
}

/// Waits for a child, if there is one. Returns its exit status, or None inside if it died of a signal.
fn reap(block: bool) -> Option<Option<i32>> {
    let mut status = 0;
    let flags = if block { 0 } else { libc::WNOHANG };
    // SAFETY: status is a local variable.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, flags) };
    (pid > 0).then(|| libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)))
}

pub fn run(args: &Args) -> Result<Verdict> {
    let base = Memory::map(args.size.pages(), args.thp, args.seed).context("cannot map --size")?;
    base.tag();
    for page in 0..base.pages() {
        base.word(page, OWN).store(page as u64, Relaxed);
    }
    let mut rng = Rng::new(args.seed);
    report::ready(args.start_file.as_deref())?;

    let start = Instant::now();
    let mut report = Report {
        load: "forker",
        pid: std::process::id(),
        parameters: args,
        elapsed_seconds: 0.0,
        forks: 0,
        forks_failed: 0,
        regions_mapped: 0,
        regions_unmapped: 0,
        rounds: 0,
        tag_mismatches: 0,
        children_mismatched: 0,
        children_died: 0,
    };
    let mut regions: Vec<Memory> = Vec::new();
    let mut alive = 0;
    let mut over = false;
    while !over || alive > 0 {
        over = start.elapsed() >= args.duration.0;
        while !over && alive < args.children.max(1) {
            let seed = rng.next();
            if fork(|| child(args, &base, Rng::new(seed))).is_err() {
                report.forks_failed += 1;
                break;
            }
            report.forks += 1;
            alive += 1;
        }
        while let Some(exit) = (alive > 0).then(|| reap(over)).flatten() {
            alive -= 1;
            match exit {
                Some(0) => {}
                Some(CHILD_MISMATCH) => report.children_mismatched += 1,
                _ => report.children_died += 1,
            }
        }
        if over {
            continue;
        }
        report.rounds += 1;
        for _ in 0..TOUCHED {
            let page = page(&base, &mut rng);
            let own = base.word(page, OWN).load(Relaxed) == page as u64;
            report.tag_mismatches += u64::from(!own || !base.tag_holds(page));
            // Unshares a page from a living child.
            base.word(page, OWN + 1).fetch_add(1, Relaxed);
        }
        if regions.len() == REGIONS as usize {
            let old = regions.swap_remove(rng.below(REGIONS) as usize);
            report.tag_mismatches += old.mismatches().count() as u64;
            report.regions_unmapped += 1;
        }
        if let Ok(new) = region(args, &mut rng) {
            regions.push(new);
            report.regions_mapped += 1;
        }
    }
    report.elapsed_seconds = start.elapsed().as_secs_f64();
    for memory in regions.iter().chain([&base]) {
        report.tag_mismatches += memory.mismatches().count() as u64;
    }
    let wrong = report.tag_mismatches + report.children_mismatched + report.children_died;
    report::write(&args.report, &report)?;
    Ok(Verdict::of(wrong))
}
