// SPDX-License-Identifier: Apache-2.0
//! The observer: queries the nodes of a sample of the hot pages.
//!
//! It must not disturb the load. A query reads page tables and accesses no page, so it makes nothing hot and
//! causes no hint fault. On the lab's emulated CPU (250 MIPS, counted instructions) a query costs 2.5 us per
//! page: 1024 pages four times a second take 1.0 % of it, 8192 pages every 5 s another 0.4 %. Fewer pages or a
//! longer interval cost less and give less data (`--sample`, `--mapping-sample`, `--interval`). The report
//! contains its CPU time.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::hot::HotSet;
use crate::marker::{self, mark};
use crate::memory::Memory;
use crate::rng::Rng;
use crate::series::Sample;
use crate::sys;

/// Interval of sampling the whole mapping.
const MAPPING_EVERY: Duration = Duration::from_secs(5);

/// Pages that are queried together.
pub struct Census {
    addresses: Vec<usize>,
    nodes: Vec<i32>,
}

impl Census {
    /// A random sample of at most `most` of the pages, in the order of addresses, so that page-table walks are
    /// short.
    pub fn new(memory: &Memory, mut pages: Vec<u32>, most: usize, rng: &mut Rng) -> Census {
        if pages.len() > most {
            rng.shuffle(&mut pages);
            pages.truncate(most);
        }
        pages.sort_unstable();
        let addresses = pages.iter().map(|&page| memory.address(page as usize)).collect();
        Census { addresses, nodes: Vec::new() }
    }

    /// A sample of all pages of a mapping.
    pub fn of_all(memory: &Memory, most: usize, rng: &mut Rng) -> Census {
        let pages = u32::try_from(memory.pages()).expect("less than 16 TiB");
        Census::new(memory, (0..pages).collect(), most, rng)
    }

    /// The share of pages on `node`. A page without a location (being moved, or not populated) is not counted;
    /// null if no location is known.
    pub fn share_on(&mut self, node: u32) -> Option<f64> {
        sys::nodes_of(&self.addresses, &mut self.nodes).ok()?;
        let known = self.nodes.iter().filter(|&&n| n >= 0).count();
        let here = self.nodes.iter().filter(|&&n| u32::try_from(n) == Ok(node)).count();
        (known > 0).then(|| here as f64 / known as f64)
    }
}

/// State that the load shares with the observer.
pub struct Shared {
    /// Accesses so far, by thread. Each counter has its own cache line.
    pub accesses: Vec<Padded>,
    /// 0 before the jump, 1 after it.
    pub phase: AtomicUsize,
    /// The timed run has ended.
    pub stop: AtomicBool,
}

/// A counter in a cache line of its own.
#[repr(align(128))]
#[derive(Default)]
pub struct Padded(pub AtomicU64);

impl Shared {
    /// State for this many threads.
    pub fn new(threads: usize) -> Shared {
        Shared {
            accesses: (0..threads).map(|_| Padded::default()).collect(),
            phase: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// Accesses of all threads.
    pub fn total(&self) -> u64 {
        self.accesses.iter().map(|counter| counter.0.load(Relaxed)).sum()
    }
}

/// State of the whole mapping at one time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MappingSample {
    /// Since the start of the timed run.
    pub t_seconds: f64,
    /// Share of the sampled pages that are in fast memory; null if unknown.
    pub fast_share: Option<f64>,
}

/// Observes one mapping.
pub struct Observer {
    fast_node: u32,
    interval: Duration,
    hot: Vec<Census>,
    mapping: Census,
    mapping_due: Duration,
    /// The hot set, over time.
    pub samples: Vec<Sample>,
    /// The mapping, over time.
    pub mapping_samples: Vec<MappingSample>,
    /// CPU time of the observer's thread.
    pub cpu: Duration,
}

impl Observer {
    /// `hot` are the hot sets by phase. At most `sample.0` pages of each are queried, and `sample.1` of the
    /// mapping.
    pub fn new(
        memory: &Memory,
        hot: &[&HotSet],
        sample: (usize, usize),
        fast_node: u32,
        interval: Duration,
        rng: &mut Rng,
    ) -> Observer {
        Observer {
            fast_node,
            interval: interval.max(Duration::from_millis(1)),
            hot: hot.iter().map(|set| Census::new(memory, set.pages(), sample.0, rng)).collect(),
            mapping: Census::of_all(memory, sample.1, rng),
            mapping_due: Duration::ZERO,
            samples: Vec::new(),
            mapping_samples: Vec::new(),
            cpu: Duration::ZERO,
        }
    }

    /// Queries once, at `now` since the start.
    pub fn observe(&mut self, shared: &Shared, now: Duration, mapping: bool) {
        let t_seconds = now.as_secs_f64();
        let phase = shared.phase.load(Relaxed);
        let accesses = shared.total();
        let hot_share = self.hot[phase].share_on(self.fast_node);
        self.samples.push(Sample { t_seconds, hot_share, accesses });
        if !mapping && now < self.mapping_due {
            return;
        }
        let fast_share = self.mapping.share_on(self.fast_node);
        self.mapping_samples.push(MappingSample { t_seconds, fast_share });
        self.mapping_due = now + MAPPING_EVERY;
    }

    /// Queries at every interval until `stop`, and marks each interval for the plugin. A missed interval is
    /// skipped, not made up for.
    pub fn watch(mut self, shared: &Shared, start: Instant) -> Observer {
        let mut due = self.interval;
        while !shared.stop.load(Relaxed) {
            let now = start.elapsed();
            if now < due {
                std::thread::park_timeout(due - now);
                continue;
            }
            self.observe(shared, now, false);
            mark::<{ marker::INTERVAL }>();
            while due <= now {
                due += self.interval;
            }
        }
        self.cpu = sys::thread_cpu();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Thp;

    #[test]
    fn a_census_counts_only_populated_pages() {
        let memory = Memory::map(64, Thp::Never, 1).unwrap();
        let mut census = Census::of_all(&memory, 16, &mut Rng::new(1));
        assert_eq!(census.addresses.len(), 16);
        assert!(census.addresses.is_sorted());
        assert_eq!(census.share_on(0), None, "nothing is populated");
        memory.tag();
        // A kernel without move_pages gives no location, which differs from "on no node".
        assert!(matches!(census.share_on(0), None | Some(0.0..=1.0)));
        assert!(matches!(census.share_on(63), None | Some(0.0)));
    }
}
