// SPDX-License-Identifier: Apache-2.0
//! Watches one process by its accessed bits and prints what each window observed and cost.
//!
//!     accessed PID [WINDOWS [HOT_START_HEX HOT_MIB]]
//!
//! With a hot range (as the load prints it) each line says how much of it was accessed.

use std::ops::Range;
use std::time::{Duration, Instant};

use tierline_core::port::{Observations, SpaceId};
use tierline_core::tier::{NodeId, Tier, Tiers};
use tierline_core::unit::{Bytes, Nanos};
use tierline_linux::root::Root;
use tierline_linux::tracker::Tracker;
use tierline_linux::tracker::access_bits::AccessBits;
use tierline_linux::tracker::accessed::Accessed;
use tierline_linux::tracker::flush::Flush;
use tierline_linux::tracker::soft_dirty::SoftDirty;
use tierline_linux::tracker::window::{WindowSettings, WindowStats};
use tierline_linux::tracker::windowed::Windowed;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize| args.get(i).and_then(|a| a.parse::<u64>().ok());
    let pid = number(1).ok_or("usage: accessed PID [WINDOWS [HOT_START_HEX HOT_MIB]]")?;
    let start = args.get(3).and_then(|a| u64::from_str_radix(a.trim_start_matches("0x"), 16).ok());
    let hot = start.zip(number(4)).map(|(at, mib)| at / 4096..at / 4096 + mib * 256);
    let space = SpaceId(u32::try_from(pid)?);
    let windows = number(2).unwrap_or(50);
    let (root, begin) = (Root::default(), Instant::now());
    root.hold(space.0)?;
    if std::env::var("TRACKER").as_deref() == Ok("soft_dirty") {
        return watch(SoftDirty::new(&root, &tiers(), settings())?, space, windows, hot);
    }
    let mut tracker = Accessed::new(&root, &tiers(), settings())?;
    match std::env::var("FLUSH").as_deref() {
        Ok("always") => tracker.probe().set_flush(Flush::Always),
        Ok("never") => tracker.probe().set_flush(Flush::Never),
        _ => {}
    }
    println!("opened in {:?}", begin.elapsed());
    watch(tracker, space, windows, hot)
}

fn watch<P: AccessBits>(
    mut tracker: Windowed<P>,
    space: SpaceId,
    windows: u64,
    hot: Option<Range<u64>>,
) -> Result<(), Box<dyn std::error::Error>> {
    tracker.watch(&[space])?;
    let begin = Instant::now();
    let mut out = Observations::default();
    let mut last = 0;
    while last < windows {
        let now = Nanos(u64::try_from(begin.elapsed().as_nanos())?);
        std::thread::sleep(Duration::from_nanos(tracker.next_due().saturating_sub(now).0));
        tracker.poll(Nanos(u64::try_from(begin.elapsed().as_nanos())?), &mut out)?;
        if tracker.stats().windows > last {
            last = tracker.stats().windows;
            report(tracker.stats(), &out, hot.as_ref());
            out.clear();
        }
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    status.lines().filter(|line| line.starts_with("VmHWM")).for_each(|line| println!("{line}"));
    Ok(())
}

/// Two tiers of one node each, as in the lab's guests.
fn tiers() -> Tiers {
    let tier = |name: &str, node, mib| Tier {
        name: name.into(),
        nodes: vec![NodeId(node)],
        capacity: Bytes::from_mib(mib),
        latency: None,
        bandwidth: None,
    };
    Tiers(vec![tier("fast", 0, 1024), tier("slow", 1, 2048)])
}

/// `WINDOW_MS=20` fixes the window; `BUDGET=0.5` is the share of a CPU that scans may take.
fn settings() -> WindowSettings {
    let mut settings = WindowSettings::default();
    if let Some(budget) = std::env::var("BUDGET").ok().and_then(|b| b.parse().ok()) {
        settings.budget_alert = budget;
        settings.max_delay = Nanos::from_secs(1);
    }
    if let Some(ms) = std::env::var("WINDOW_MS").ok().and_then(|w| w.parse().ok()) {
        settings.window = Nanos::from_millis(ms);
        (settings.shortest, settings.longest) = (settings.window, settings.window);
    }
    settings
}

fn report(s: WindowStats, out: &Observations, hot: Option<&Range<u64>>) {
    print!(
        "{:3} present {:7} accessed {:7} watched {:9} arm {:7} us cpu read {:7} us cpu hold {:8} next {} after {} runs {} {} {}",
        s.windows,
        s.present,
        s.accessed,
        s.watched.to_string(),
        s.arm.cpu.0 / 1000,
        s.read.cpu.0 / 1000,
        s.longest_delay.to_string(),
        s.window,
        s.pause,
        out.samples.len(),
        out.residence.len(),
        out.space_events.len(),
    );
    if let Some(hot) = hot {
        let inside = |vpn: u64, pages: u32| {
            let end = (vpn + u64::from(pages)).min(hot.end);
            end.saturating_sub(vpn.max(hot.start))
        };
        let seen: u64 = out.samples.iter().map(|s| inside(s.vpn.0, s.base_pages)).sum();
        print!(" HOT {seen}/{} COLD {}", hot.end - hot.start, s.accessed - seen);
    }
    println!();
}
