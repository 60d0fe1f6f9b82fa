// SPDX-License-Identifier: Apache-2.0
//! Watches one process through DAMON and prints, each second, which memory was accessed.
//!
//! `damon PID|physical [SECONDS] [calm] [hot=START:BYTES]`: `calm` selects the calm intervals; hits within
//! the range (hex) are counted separately.

use std::ops::Range;
use std::time::Duration;

use tierline_core::port::{Attention, Observations, SpaceId};
use tierline_core::unit::{BASE_PAGE, Nanos};
use tierline_linux::error::Result;
use tierline_linux::journal::Journal;
use tierline_linux::perf::monotonic_now;
use tierline_linux::root::Root;
use tierline_linux::state_dir::STATE_DIR;
use tierline_linux::tracker::Tracker;
use tierline_linux::tracker::damon::{AddressSpace, Damon, DamonSettings};

struct Options {
    pid: Option<u32>,
    seconds: u64,
    calm: bool,
    hot: Range<u64>,
}

fn options() -> Option<Options> {
    let mut args = std::env::args().skip(1);
    let target = args.next()?;
    let pid = if target == "physical" { None } else { Some(target.parse().ok()?) };
    let mut options = Options { pid, seconds: 10, calm: false, hot: 0..0 };
    for arg in args {
        if arg == "calm" {
            options.calm = true;
        } else if let Some(hot) = arg.strip_prefix("hot=") {
            let (start, bytes) = hot.split_once(':')?;
            let hex = |text| u64::from_str_radix(text, 16).ok();
            let start = hex(start)?;
            options.hot = start..start + hex(bytes)?;
        } else {
            options.seconds = arg.parse().ok()?;
        }
    }
    Some(options)
}

/// Regions, pages and hits times pages, of one side.
#[derive(Debug, Default)]
struct Touched {
    regions: u64,
    mib: u64,
    hit_mib: f64,
}

impl Touched {
    fn add(&mut self, bytes: u64, hits: f32) {
        self.regions += 1;
        self.mib += bytes >> 20;
        self.hit_mib +=
            f64::from(hits) * f64::from(u32::try_from(bytes >> 12).unwrap_or(0)) / 256.0;
    }
}

fn watch(options: &Options) -> Result<()> {
    let root = Root::default();
    for line in Journal::recover(STATE_DIR, &root)?.notes() {
        println!("restored after a killed run: {line}");
    }
    let journal = Journal::open(STATE_DIR)?;
    let address_space =
        if options.pid.is_some() { AddressSpace::Virtual } else { AddressSpace::Physical };
    let settings =
        DamonSettings { address_space, take_over_damon_stat: true, ..DamonSettings::default() };
    let mut tracker = Damon::new(&root, &journal, settings)?;
    tracker.set_attention(if options.calm { Attention::Calm } else { Attention::Alert });
    options.pid.into_iter().for_each(|pid| drop(root.hold(pid)));
    tracker.watch(&options.pid.map(SpaceId).into_iter().collect::<Vec<_>>())?;
    let mut seen = Observations::default();
    for second in 1..=options.seconds {
        let end = monotonic_now() + Nanos::from_secs(1);
        while monotonic_now() < end {
            tracker.poll(monotonic_now(), &mut seen)?;
            let wait = tracker.next_due().min(end).saturating_sub(monotonic_now());
            std::thread::sleep(Duration::from_nanos(wait.0.max(1_000_000)));
        }
        let [mut hot, mut other] = [Touched::default(), Touched::default()];
        for s in &seen.samples {
            let address = s.vpn.address();
            let side = if options.hot.contains(&address) { &mut hot } else { &mut other };
            side.add(u64::from(s.base_pages) * BASE_PAGE.0, s.hits);
        }
        tracker.take_physical().iter().for_each(|run| other.add(run.end - run.start, run.hits));
        println!(
            "second {second}: watched {}, hot {hot:?}, other {other:?}, lost {}, kdamond {}",
            seen.watched,
            seen.lost,
            tracker.kernel_cpu()
        );
        seen.clear();
    }
    Ok(())
}

fn main() {
    let Some(options) = options() else {
        return eprintln!("usage: damon PID|physical [SECONDS] [calm] [hot=START:BYTES]");
    };
    if let Err(error) = watch(&options) {
        eprintln!("Error: {error}");
        eprintln!("Hint: {}", error.hint().unwrap_or_default());
        std::process::exit(1);
    }
}
