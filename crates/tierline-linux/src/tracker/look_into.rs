// SPDX-License-Identifier: Apache-2.0
//! Looks into huge pages that were just split: which of their base pages are accessed in each of a few windows.
//!
//! A huge page has one accessed bit, so nothing within it can be told apart until it is split. Then its base pages are watched
//! a few times in a row, by windows in which some of them are accessed and some are not. The cost is that of their page
//! tables, read and cleared that often.

use std::time::Duration;

use tierline_core::port::{PageAddress, PartBits, SpaceId, Spread, Vpn};
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
/// Huge pages that are looked into, at most. Ours: a look costs three times as much as a split.
const MOST: usize = 4;
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
    /// Looks into some of these huge pages of one process. `None` if too few of their base pages are accessed, all of them are, or the kernel
    /// refuses.
    pub fn look(
        &mut self,
        split: &[PageAddress],
        process: &Held,
        tables: (&Kcore, &Walker, u64),
        one_cpu: bool,
    ) -> Option<Vec<Spread>> {
        let heads: Vec<Vpn> = split.iter().take(MOST).map(|page| page.vpn.huge_head()).collect();
        let pages = u32::try_from(heads.len()).ok().filter(|pages| *pages > 0)?;
        for _ in 0..ATTEMPTS {
            let (first, watched) = self.watch(&heads, process, tables, one_cpu)?;
            let found: u32 = first.iter().flatten().map(|word| word.count_ones()).sum();
            let window = self.window;
            if found > *WANTED.end() * pages {
                self.window = Nanos(window.0 / 4).max(SHORTEST);
            } else if found < *WANTED.start() * pages {
                self.window = (window * 4).min(LONGEST);
            }
            if self.window == window {
                return self.go_on(&heads, split[0].space, (first, watched), |look| {
                    look.watch(&heads, process, tables, one_cpu)
                });
            }
        }
        None
    }

    /// Watches for the other windows.
    fn go_on(
        self,
        heads: &[Vpn],
        space: SpaceId,
        (first, watched): (Vec<PartBits>, Duration),
        watch: impl Fn(Self) -> Option<(Vec<PartBits>, Duration)>,
    ) -> Option<Vec<Spread>> {
        let (mut found, mut total) = (vec![first], watched);
        for _ in 1..WINDOWS {
            let (next, watched) = watch(self)?;
            found.push(next);
            total += watched;
        }
        let window = nanos(total / WINDOWS);
        let spread = |(at, &vpn): (usize, &Vpn)| {
            let accessed = found.iter().map(|of_all| of_all[at]).collect();
            Spread { space, vpn, accessed, window }
        };
        Some(heads.iter().enumerate().map(spread).collect())
    }

    /// The base pages accessed in one window, and how long it was.
    fn watch(
        self,
        heads: &[Vpn],
        process: &Held,
        tables: (&Kcore, &Walker, u64),
        one_cpu: bool,
    ) -> Option<(Vec<PartBits>, Duration)> {
        let ranges: Vec<_> = heads.iter().map(|head| head.0..head.0 + BASE_PER_HUGE).collect();
        let start = Moment::now();
        if cool_ranges(process, &ranges) == 0 {
            return None;
        }
        let armed = start.midway();
        std::thread::sleep(Duration::from_nanos(self.window.0));
        let start = Moment::now();
        let (kcore, walker, top) = tables;
        let tables = (&ReadOnce::new(kcore), walker, top);
        let bits = ranges.into_iter().map(|range| {
            let mut bits = PartBits::default();
            let parts: Vec<Vpn> = range.clone().map(Vpn).collect();
            for part in accessed(tables, &parts).into_iter().map(|page| page.0 - range.start) {
                bits[usize::try_from(part / 64).unwrap_or(0)] |= 1 << (part % 64);
            }
            bits
        });
        let bits = bits.collect();
        Some((bits, armed.watched_until(start.midway(), one_cpu)))
    }
}
