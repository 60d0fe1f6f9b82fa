// SPDX-License-Identifier: Apache-2.0
//! Watches one process through NUMA hint faults and prints, each second, the times from arming its pages
//! to their faults.
//!
//! `hint_faults PID [SECONDS] [scan_mb=N] [rate=N] [root=FOLDER] [hot=FILE:BASE]`: FILE contains 32-bit page numbers from
//! the address BASE (hex) on; times to fault of those pages are counted separately. A root without tracefs shows the
//! fallback.

use std::collections::HashSet;
use std::time::Duration;

use tierline_core::port::{Observations, Sample, SpaceId};
use tierline_core::unit::Nanos;
use tierline_linux::error::Result;
use tierline_linux::journal::Journal;
use tierline_linux::perf::monotonic_now;
use tierline_linux::root::Root;
use tierline_linux::state_dir::STATE_DIR;
use tierline_linux::tracker::Tracker;
use tierline_linux::tracker::hint_faults::{HintFaultSettings, HintFaults};

/// Times to fault by powers of two of a millisecond, from below 1 ms to 8 s and more.
#[derive(Default)]
struct Histogram {
    buckets: [u64; 15],
    unknown: u64,
}

impl Histogram {
    fn add(&mut self, wait: Option<Nanos>) {
        match wait {
            Some(wait) => {
                let bits = u64::BITS - (wait.0 / 1_000_000).leading_zeros();
                self.buckets[(bits as usize).min(14)] += 1;
            }
            None => self.unknown += 1,
        }
    }

    fn print(&self, name: &str) {
        let total: u64 = self.buckets.iter().sum();
        print!("  {name:>5} {total:>6}:");
        for (bits, count) in self.buckets.iter().enumerate() {
            print!(" <{}:{count}", 1u64 << bits);
        }
        println!(" ms, unknown {}", self.unknown);
    }
}

struct Options {
    pid: u32,
    seconds: u64,
    settings: HintFaultSettings,
    hot: HashSet<u64>,
    root: Root,
}

fn options() -> Option<Options> {
    let mut args = std::env::args().skip(1);
    let mut options = Options {
        pid: args.next()?.parse().ok()?,
        seconds: 10,
        settings: HintFaultSettings::default(),
        hot: HashSet::new(),
        root: Root::default(),
    };
    for arg in args {
        if let Some(mb) = arg.strip_prefix("scan_mb=") {
            options.settings.alert_scan_mb = mb.parse().ok()?;
        } else if let Some(folder) = arg.strip_prefix("root=") {
            options.root = Root::at(folder);
        } else if let Some(rate) = arg.strip_prefix("rate=") {
            options.settings.faults_per_sec_per_cpu = rate.parse().ok()?;
        } else if let Some(hot) = arg.strip_prefix("hot=") {
            let (file, base) = hot.split_once(':')?;
            let base = u64::from_str_radix(base.trim_start_matches("0x"), 16).ok()? >> 12;
            let numbers = std::fs::read(file).ok()?;
            let numbers = numbers.as_chunks().0.iter().copied().map(u32::from_ne_bytes);
            options.hot.extend(numbers.map(|number| base + u64::from(number)));
        } else {
            options.seconds = arg.parse().ok()?;
        }
    }
    Some(options)
}

fn cpu_ms() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    u64::try_from(t.tv_sec * 1000 + t.tv_nsec / 1_000_000).unwrap_or(0)
}

fn report(second: u64, samples: &[Sample], hot: &HashSet<u64>) {
    let [mut hots, mut others] = [Histogram::default(), Histogram::default()];
    for sample in samples {
        let side = if hot.contains(&sample.vpn.0) { &mut hots } else { &mut others };
        side.add(sample.exposure);
    }
    println!("second {second}: {} faults", samples.len());
    hots.print("hot");
    others.print("other");
}

fn watch(options: &Options) -> Result<()> {
    let root = &options.root;
    let journal = Journal::open(STATE_DIR)?;
    let mut tracker = HintFaults::new(root, &journal, None, options.settings)?;
    println!("{:?}", tracker.sources());
    let _ = root.hold(options.pid);
    tracker.watch(&[SpaceId(options.pid)])?;
    let mut seen = Observations::default();
    for second in 1..=options.seconds {
        let end = monotonic_now() + Nanos::from_secs(1);
        while monotonic_now() < end {
            let now = monotonic_now();
            tracker.poll(now, &mut seen)?;
            let wait = tracker.next_due().saturating_sub(monotonic_now());
            std::thread::sleep(Duration::from_nanos(wait.0));
        }
        report(second, &seen.samples, &options.hot);
        let (slice, bytes) = (tracker.slice_mb(), tracker.footprint());
        println!("  {:?} cpu {} ms, {bytes} bytes, slice {slice} MB", tracker.counts(), cpu_ms());
        seen.clear();
    }
    Ok(())
}

fn main() {
    let Some(options) = options() else {
        return eprintln!(
            "usage: hint_faults PID [SECONDS] [scan_mb=N] [rate=N] [root=FOLDER] [hot=FILE:BASE]"
        );
    };
    if let Err(error) = watch(&options) {
        eprintln!("Error: {error}");
        eprintln!("Hint: {}", error.hint().unwrap_or_default());
        std::process::exit(1);
    }
}
