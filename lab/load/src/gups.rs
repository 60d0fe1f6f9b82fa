// SPDX-License-Identifier: Apache-2.0
//! `gups`: random accesses to one mapping, most of them to a hot part of it.
//!
//! Giga-updates per second with a hot set, as in HeMem (SOSP 2021) and most papers since. A share of the
//! accesses, uniform or by Zipf's law over pages, goes to the hot set; the others go anywhere, including the
//! hot set. At the jump other pages become hot. The memory starts on the slow node, so that the manager has to
//! move the whole hot set.
//!
//! Each access is to the second word of a cache line, so that tags (the first word of a page) stay unchanged. A
//! store increments its word. With one thread, the words must add up to the number of stores, so `--verify`
//! also detects a store lost in a migration.
//!
//! The tables of `--scatter` (4 bytes per hot page) and `--skew` (8 bytes per hot page) are also read at
//! random. They are on the process's heap, which the default policy places on the fast node.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::Verdict;
use crate::beside::{self, Beside};
use crate::hot::{self, HotSet};
use crate::marker::{self, mark};
use crate::memory::{Memory, Thp};
use crate::observer::{MappingSample, Observer, Shared};
use crate::report;
use crate::rng::{Rng, scale};
use crate::series::{self, Sample, Summary};
use crate::sys;
use crate::unit::{Bytes, PAGE, Span, share};
use crate::vmstat;
use crate::zipf::Zipf;

/// Accesses between two readings of the clock.
const CHUNK: u64 = 4096;
/// Cache lines of a page, and its logarithm.
const LINES: u32 = 64;
const LINES_LOG2: u32 = 6;
/// Words of a cache line.
const LINE_WORDS: usize = 8;

#[derive(clap::Args, Clone, Debug, Serialize)]
pub struct Args {
    /// Size of the mapping
    #[arg(long, default_value = "700M")]
    #[serde(rename = "size_bytes")]
    size: Bytes,
    /// Size of the hot set
    #[arg(long, default_value = "128M")]
    #[serde(rename = "hot_bytes")]
    hot: Bytes,
    /// Scatter the hot pages over the mapping instead of using a range
    #[arg(long)]
    scatter: bool,
    /// Share of the accesses to the hot set
    #[arg(long, default_value = "0.9", value_parser = share)]
    hot_share: f64,
    /// Share of the accesses that are read-modify-write stores
    #[arg(long, default_value = "0.5", value_parser = share)]
    write_share: f64,
    /// Zipf exponent over the pages of the hot set; 0 is uniform
    #[arg(long, default_value_t = 0.0)]
    skew: f64,
    /// When other pages become hot
    #[arg(long)]
    #[serde(rename = "jump_seconds")]
    jump: Option<Span>,
    /// Length of the timed run
    #[arg(long, default_value = "90s")]
    #[serde(rename = "duration_seconds")]
    duration: Span,
    /// Node on which the mapping is populated, as long as it has room
    #[arg(long, default_value_t = 1)]
    node: u32,
    /// Node that counts as fast memory
    #[arg(long, default_value_t = 0)]
    fast_node: u32,
    /// Threads that access the mapping
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: u64,
    /// Forked children that access the mapping, too. Private memory is then to be read only, with `--write-share 0`: a page
    /// that one process writes to is its own from then on.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=64))]
    workers: u64,
    /// What a further thread of the process does meanwhile
    #[arg(long, value_enum)]
    beside: Option<Beside>,
    /// Use shared memory instead of private memory
    #[arg(long)]
    shared: bool,
    /// Seed of every random choice
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Where to write the JSON report; - is stdout
    #[arg(long, default_value = "-")]
    #[serde(skip)]
    report: String,
    /// Interval of the observer
    #[arg(long, default_value = "250ms")]
    #[serde(rename = "interval_seconds")]
    interval: Span,
    /// Hot pages that the observer samples
    #[arg(long, default_value_t = 1024)]
    sample: usize,
    /// Pages of the whole mapping that it samples every 5 s
    #[arg(long, default_value_t = 8192)]
    mapping_sample: usize,
    /// Huge pages
    #[arg(long, value_enum, default_value = "never", num_args = 0..=1, default_missing_value = "allow")]
    thp: Thp,
    /// Wait for this file before the timed run
    #[arg(long)]
    #[serde(skip)]
    start_file: Option<PathBuf>,
    /// Check tags and stores at the end; a mismatch is exit status 1
    #[arg(long)]
    verify: bool,
}

/// The mix of accesses, as bounds for 16 random bits.
#[derive(Clone, Copy)]
struct Mix {
    hot: u64,
    store: u64,
    lines: u32,
}

/// Chooses a line of the hot set.
trait Pick {
    /// Picks from 32 random bits; a picker that needs more draws them.
    fn line(&self, bits: u64, rng: &mut Rng) -> u32;
}

struct InRange {
    first_line: u32,
    lines: u32,
}

impl Pick for InRange {
    #[inline(always)]
    fn line(&self, bits: u64, _: &mut Rng) -> u32 {
        self.first_line + scale(bits, self.lines)
    }
}

struct InPages<'a> {
    pages: &'a [u32],
    lines: u32,
}

impl Pick for InPages<'_> {
    #[inline(always)]
    fn line(&self, bits: u64, _: &mut Rng) -> u32 {
        let line = scale(bits, self.lines);
        (self.pages[(line >> LINES_LOG2) as usize] << LINES_LOG2) | (line % LINES)
    }
}

struct SkewedRange<'a> {
    first: u32,
    zipf: &'a Zipf,
}

impl Pick for SkewedRange<'_> {
    #[inline(always)]
    fn line(&self, bits: u64, rng: &mut Rng) -> u32 {
        ((self.first + self.zipf.draw(rng)) << LINES_LOG2) | scale(bits, LINES)
    }
}

struct SkewedPages<'a> {
    pages: &'a [u32],
    zipf: &'a Zipf,
}

impl Pick for SkewedPages<'_> {
    #[inline(always)]
    fn line(&self, bits: u64, rng: &mut Rng) -> u32 {
        (self.pages[self.zipf.draw(rng) as usize] << LINES_LOG2) | scale(bits, LINES)
    }
}

/// The inner loop. Returns the number of stores.
#[inline(never)]
fn chunk<P: Pick>(words: &[AtomicU64], pick: &P, mix: Mix, rng: &mut Rng) -> u64 {
    assert!(mix.lines as usize * LINE_WORDS <= words.len());
    let (mut stores, mut sum) = (0, 0);
    for _ in 0..CHUNK {
        let x = rng.next();
        let bits = x >> 32;
        let line = if x & 0xffff < mix.hot { pick.line(bits, rng) } else { scale(bits, mix.lines) };
        debug_assert!(line < mix.lines);
        // SAFETY: hot sets contain only pages of the mapping, so a line is below `mix.lines`, and its second
        // word is inside, as asserted above.
        let word = unsafe { words.get_unchecked(line as usize * LINE_WORDS + 1) };
        let value = word.load(Relaxed);
        if (x >> 16) & 0xffff < mix.store {
            word.store(value.wrapping_add(1), Relaxed);
            stores += 1;
        } else {
            sum ^= value;
        }
    }
    std::hint::black_box(sum);
    stores
}

/// Runs a chunk on the given hot set.
fn chunk_on(
    words: &[AtomicU64],
    set: &HotSet,
    zipf: Option<&Zipf>,
    mix: Mix,
    rng: &mut Rng,
) -> u64 {
    match (set, zipf) {
        (HotSet::Range { first, len }, None) => {
            let pick = InRange { first_line: first * LINES, lines: len * LINES };
            chunk(words, &pick, mix, rng)
        }
        (HotSet::Scattered(pages), None) => {
            chunk(words, &InPages { pages, lines: set.len() * LINES }, mix, rng)
        }
        (HotSet::Range { first, .. }, Some(zipf)) => {
            chunk(words, &SkewedRange { first: *first, zipf }, mix, rng)
        }
        (HotSet::Scattered(pages), Some(zipf)) => {
            chunk(words, &SkewedPages { pages, zipf }, mix, rng)
        }
    }
}

/// Data shared by all threads of the load.
struct Plan<'a> {
    memory: &'a Memory,
    before: &'a HotSet,
    after: Option<(Duration, &'a HotSet)>,
    zipf: Option<&'a Zipf>,
    mix: Mix,
    duration: Duration,
    start: Instant,
}

/// Result of a thread.
#[derive(Clone, Copy, Default)]
struct Done {
    stores: u64,
    cpu: Duration,
    /// Time of the jump, and the number of accesses before it (all threads).
    jump: Option<(f64, u64)>,
}

/// One thread of the load; thread 0 announces the jump.
fn work(plan: &Plan, shared: &Shared, thread: usize, mut rng: Rng) -> Done {
    let words = plan.memory.words();
    let cpu = sys::thread_cpu();
    let mut done = Done::default();
    let mut set = plan.before;
    let mut after = plan.after;
    let mut accesses = 0;
    loop {
        done.stores += chunk_on(words, set, plan.zipf, plan.mix, &mut rng);
        accesses += CHUNK;
        shared.accesses[thread].0.store(accesses, Relaxed);
        let now = plan.start.elapsed();
        if now >= plan.duration {
            break;
        }
        if let Some((at, next)) = after
            && now >= at
        {
            (set, after) = (next, None);
            if thread == 0 {
                mark::<{ marker::JUMP }>();
                done.jump = Some((now.as_secs_f64(), shared.total()));
                shared.phase.store(1, Relaxed);
            }
        }
    }
    done.cpu = sys::thread_cpu() - cpu;
    done
}

/// Forks a child that does the work of a thread and ends.
fn fork_worker(plan: &Plan, seed: u64) -> Result<libc::pid_t> {
    // SAFETY: this process has one thread, so the child may do whatever it may.
    let child = unsafe { libc::fork() };
    ensure!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        work(plan, &Shared::new(2), 1, Rng::new(seed));
        // SAFETY: ends the child without running the parent's handlers.
        unsafe { libc::_exit(0) }
    }
    Ok(child)
}

/// Result of `--verify`.
#[derive(Serialize)]
struct Verified {
    pages: usize,
    tag_mismatches: u64,
    first_mismatch_page: Option<usize>,
    /// With one thread: the expected sum of the words, and the sum found.
    stores_made: Option<u64>,
    stores_found: Option<u64>,
}

impl Verified {
    fn check(memory: &Memory, stores: Option<u64>) -> Verified {
        let mut mismatches = memory.mismatches();
        let first_mismatch_page = mismatches.next();
        let more = mismatches.count() as u64;
        let stores_found = stores.map(|_| {
            memory.words().iter().skip(1).step_by(LINE_WORDS).map(|word| word.load(Relaxed)).sum()
        });
        Verified {
            pages: memory.pages(),
            tag_mismatches: more + u64::from(first_mismatch_page.is_some()),
            first_mismatch_page,
            stores_made: stores,
            stores_found,
        }
    }

    fn mismatches(&self) -> u64 {
        self.tag_mismatches + u64::from(self.stores_made != self.stores_found)
    }
}

#[derive(Serialize)]
struct Report<'a> {
    load: &'static str,
    pid: u32,
    parameters: &'a Args,
    pages: usize,
    hot_pages: u32,
    /// Since boot.
    t_start_seconds: f64,
    elapsed_seconds: f64,
    jumped_seconds: Option<f64>,
    accesses: u64,
    accesses_before_jump: Option<u64>,
    accesses_per_second: f64,
    /// Exact with one thread; with more, threads overwrite each other's increments.
    stores: u64,
    #[serde(flatten)]
    summary: Summary,
    load_cpu_seconds: f64,
    observer_cpu_seconds: f64,
    vmstat: vmstat::Counters,
    verified: Option<Verified>,
    mapping_samples: Vec<MappingSample>,
    samples: Vec<Sample>,
}

#[expect(clippy::cast_possible_truncation, reason = "a share of 65536")]
#[expect(clippy::cast_sign_loss, reason = "a share is not negative")]
fn sixteen_bits(share: f64) -> u64 {
    (share * 65536.0).round() as u64
}

pub fn run(args: &Args) -> Result<Verdict> {
    let pages = args.size.pages();
    let total = u32::try_from(pages)
        .ok()
        .filter(|n| n.checked_mul(LINES).is_some())
        .context("--size may be at most 256G")?;
    ensure!(args.skew >= 0.0, "--skew must be at least 0 (0 is uniform)");
    let jump = args.jump.filter(|at| at.0 < args.duration.0);
    let hot_pages = u32::try_from(args.hot.pages()).context("--hot must be below --size")?;
    let (before, after) = hot::choose(total, hot_pages, args.scatter, jump.is_some(), args.seed)?;
    let zipf = (args.skew > 0.0).then(|| Zipf::new(hot_pages, args.skew));
    let mut rng = Rng::new(args.seed ^ 0x6775_7073);

    let map = if args.shared { Memory::map_shared } else { Memory::map };
    let memory = map(pages, args.thp, args.seed)
        .with_context(|| format!("cannot map {} bytes", pages * PAGE))?;
    sys::on_node(args.node, || memory.tag()).with_context(|| {
        format!("cannot populate on node {}; does /sys/devices/system/node have it?", args.node)
    })?;

    let sets: Vec<&HotSet> = std::iter::once(&before).chain(&after).collect();
    let interval = args.interval.0;
    let sample = (args.sample, args.mapping_sample);
    let mut observer = Observer::new(&memory, &sets, sample, args.fast_node, interval, &mut rng);
    let threads = usize::try_from(args.threads)?;
    let shared = Shared::new(threads);
    let mix = Mix {
        hot: sixteen_bits(args.hot_share),
        store: sixteen_bits(args.write_share),
        lines: total * LINES,
    };
    let seeds: Vec<u64> = (0..threads).map(|_| rng.next()).collect();

    report::ready(args.start_file.as_deref())?;
    observer.observe(&shared, Duration::ZERO, true);
    let vmstat_before = vmstat::read();
    let plan = Plan {
        memory: &memory,
        before: &before,
        after: jump.map(|at| at.0).zip(after.as_ref()),
        zipf: zipf.as_ref(),
        mix,
        duration: args.duration.0,
        start: Instant::now(),
    };
    let children: Vec<libc::pid_t> =
        (0..args.workers).map(|_| fork_worker(&plan, rng.next())).collect::<Result<_>>()?;
    let t_start_seconds = sys::boot_seconds();
    mark::<{ marker::START }>();
    let (done, mut observer) = std::thread::scope(|scope| {
        let (plan, shared) = (&plan, &shared);
        let watch = std::thread::Builder::new()
            .name("observer".into())
            .spawn_scoped(scope, || observer.watch(shared, plan.start))?;
        let others: Vec<_> = (1..threads)
            .map(|thread| {
                let rng = Rng::new(seeds[thread]);
                scope.spawn(move || work(plan, shared, thread, rng))
            })
            .collect();
        let seed = args.seed;
        let beside = args
            .beside
            .map(|what| scope.spawn(move || beside::run(what, plan.memory, &shared.stop, seed)));
        let mut done = vec![work(plan, shared, 0, Rng::new(seeds[0]))];
        done.extend(others.into_iter().map(|other| other.join().expect("a thread panicked")));
        mark::<{ marker::END }>();
        shared.stop.store(true, Relaxed);
        watch.thread().unpark();
        if let Some(beside) = beside {
            beside.join().expect("the thread beside panicked")?;
        }
        let observer = watch.join().expect("the observer panicked");
        Ok::<_, anyhow::Error>((done, observer))
    })?;
    children.into_iter().try_for_each(beside::reap)?;
    let elapsed = plan.start.elapsed();
    let vmstat = vmstat::delta(&vmstat_before, &vmstat::read());
    observer.observe(&shared, elapsed, true);

    let stores = done.iter().map(|d| d.stores).sum();
    let verified = args.verify.then(|| Verified::check(&memory, (threads == 1).then_some(stores)));
    let verdict = Verdict::of(verified.as_ref().map_or(0, Verified::mismatches));
    let accesses = shared.total();
    report::write(
        &args.report,
        &Report {
            load: "gups",
            pid: std::process::id(),
            parameters: args,
            pages,
            hot_pages,
            t_start_seconds,
            elapsed_seconds: elapsed.as_secs_f64(),
            jumped_seconds: done[0].jump.map(|(seconds, _)| seconds),
            accesses,
            accesses_before_jump: done[0].jump.map(|(_, accesses)| accesses),
            accesses_per_second: accesses as f64 / elapsed.as_secs_f64(),
            stores,
            summary: series::summary(&observer.samples, done[0].jump.map(|(seconds, _)| seconds)),
            load_cpu_seconds: done.iter().map(|d| d.cpu.as_secs_f64()).sum(),
            observer_cpu_seconds: observer.cpu.as_secs_f64(),
            vmstat,
            verified,
            mapping_samples: observer.mapping_samples,
            samples: observer.samples,
        },
    )?;
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs some chunks and counts stores by page.
    fn stores_by_page(set: &HotSet, skew: Option<f64>, pages: u32) -> Vec<u64> {
        let memory = Memory::map(pages as usize, Thp::Never, 1).unwrap();
        memory.tag();
        let zipf = skew.map(|s| Zipf::new(set.len(), s));
        let mix = Mix { hot: sixteen_bits(0.9), store: sixteen_bits(0.5), lines: pages * LINES };
        let mut rng = Rng::new(9);
        let stores = (0..100)
            .map(|_| chunk_on(memory.words(), set, zipf.as_ref(), mix, &mut rng))
            .sum::<u64>();
        let share = stores as f64 / (100 * CHUNK) as f64;
        assert!((share - 0.5).abs() < 0.005, "stores: {share}");
        assert_eq!(Verified::check(&memory, Some(stores)).mismatches(), 0);
        assert_ne!(Verified::check(&memory, Some(stores + 1)).mismatches(), 0, "a lost store");
        (0..pages as usize)
            .map(|page| (1..512).map(|word| memory.word(page, word).load(Relaxed)).sum())
            .collect()
    }

    #[test]
    fn accesses_follow_the_requested_mix() {
        for scatter in [false, true] {
            for skew in [None, Some(1.0)] {
                let (set, _) = hot::choose(1000, 100, scatter, false, 3).unwrap();
                let by_page = stores_by_page(&set, skew, 1000);
                let all: u64 = by_page.iter().sum();
                let hot: u64 = set.pages().iter().map(|&page| by_page[page as usize]).sum();
                // 0.9, plus a tenth of the rest by chance.
                let share = hot as f64 / all as f64;
                assert!((share - 0.91).abs() < 0.005, "{scatter} {skew:?}: {share}");
                let first = by_page[set.pages()[0] as usize] as f64 / all as f64;
                let expected = if skew.is_some() { 0.9 / 5.187 } else { 0.009 };
                assert!((first - expected).abs() < 0.005, "{scatter} {skew:?}: {first}");
                assert!(by_page.iter().all(|&n| n > 0), "the rest goes everywhere");
            }
        }
    }
}
