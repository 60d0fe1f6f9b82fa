// SPDX-License-Identifier: Apache-2.0
//! Looks into a huge page that was just split: which of its base pages are accessed in each of a few windows.
//!
//! A huge page has one accessed bit, so nothing within it can be told apart until it is split. Then its base pages are watched
//! a few times in a row, by windows in which some of them are accessed and some are not. The cost is that of their page
//! tables, read and cleared that often: four times the CPU time of a split. It takes ten times as long.

use std::time::Duration;

use tierline_core::port::{PageAddress, PartBits, Spread, Vpn};
use tierline_core::unit::{BASE_PER_HUGE, Nanos};

use crate::kcore::Kcore;
use crate::pagetable::{ReadOnce, Walker};
use crate::process::Held;
use crate::tracker::clear_accessed::{accessed, cool_ranges};
use crate::tracker::moment::Moment;
use crate::tracker::windowed::nanos;

/// Base pages that a window should find accessed, at least and at most: otherwise the next one is four times as long, or a
/// quarter. Ours.
const WANTED: std::ops::RangeInclusive<u32> = 32..=256;
/// The first window, and the shortest and the longest: clearing takes about as long as the one, and a step should not take
/// longer than a few of the others. Ours.
const FIRST: Nanos = Nanos::from_millis(1);
const SHORTEST: Nanos = Nanos(50_000);
const LONGEST: Nanos = Nanos::from_millis(8);
/// Windows of that length. Ours: of the base pages that one finds with a chance of 0.6, four find 82 % twice and 97 % once.
const WINDOWS: u32 = 4;
/// Windows until the right length is found, at most.
const ATTEMPTS: u32 = 6;

/// The length of windows, as the last pages needed it.
#[derive(Clone, Copy, Debug)]
pub struct LookInto {
    window: Nanos,
}

impl Default for LookInto {
    fn default() -> Self {
        Self { window: FIRST }
    }
}

impl LookInto {
    /// Looks into a huge page of a process that was just split. `None` if the kernel refuses, or no window shows some of its base pages.
    pub fn look(
        &mut self,
        page: PageAddress,
        process: &Held,
        tables: (&Kcore, &Walker, u64),
        one_cpu: bool,
    ) -> Option<Spread> {
        let head = page.vpn.huge_head();
        for _ in 0..ATTEMPTS {
            let (first, watched) = self.watch(head, process, tables, one_cpu)?;
            let found: u32 = first.iter().map(|word| word.count_ones()).sum();
            let window = self.window;
            if found > *WANTED.end() {
                self.window = Nanos(window.0 / 4).max(SHORTEST);
            } else if found < *WANTED.start() {
                self.window = (window * 4).min(LONGEST);
            }
            if self.window == window {
                let (mut accessed, mut total) = (vec![first], watched);
                for _ in 1..WINDOWS {
                    let (next, watched) = self.watch(head, process, tables, one_cpu)?;
                    accessed.push(next);
                    total += watched;
                }
                let window = nanos(total / WINDOWS);
                return Some(Spread { space: page.space, vpn: head, accessed, window });
            }
        }
        None
    }

    /// The base pages accessed in one window, and how long it was.
    fn watch(
        self,
        head: Vpn,
        process: &Held,
        (kcore, walker, top): (&Kcore, &Walker, u64),
        one_cpu: bool,
    ) -> Option<(PartBits, Duration)> {
        let range = head.0..head.0 + BASE_PER_HUGE;
        let start = Moment::now();
        if cool_ranges(process, std::slice::from_ref(&range)) == 0 {
            return None;
        }
        let armed = start.midway();
        std::thread::sleep(Duration::from_nanos(self.window.0));
        let start = Moment::now();
        let parts: Vec<Vpn> = range.map(Vpn).collect();
        let mut bits = PartBits::default();
        for part in accessed((&ReadOnce::new(kcore), walker, top), &parts) {
            let part = part.0 - head.0;
            bits[usize::try_from(part / 64).unwrap_or(0)] |= 1 << (part % 64);
        }
        Some((bits, armed.watched_until(start.midway(), one_cpu)))
    }
}
