// SPDX-License-Identifier: Apache-2.0
//! Brief windows for huge pages.
//!
//! A huge page is accessed 512 times as often as its base pages. In a window that separates hot base pages from
//! cold ones, every huge page of a busy program is accessed: a hot one 94,000 times a second in the lab, a cold one
//! 1,700 times. A window of some ten microseconds separates them, but arming a whole process takes far longer than that.
//! So the huge pages that the window for base pages found accessed are watched again, in batches: the accessed
//! bits of a batch are cleared (`process_madvise` with `MADV_COLD`, which also flushes their TLB entries), and
//! after the brief window its entries are read. A page that was not accessed in the long window counts as not
//! accessed in the brief one, without watching it: such a page is cold.
//!
//! The watched pages lose their place in the kernel's LRU lists. The kernel does not clear the bit of a page that
//! several processes map; such a page counts as not accessed.

use std::time::Duration;

use tierline_core::port::{PageSize, Vpn};
use tierline_core::unit::{BASE_PER_HUGE, Nanos};

use crate::kcore::Kcore;
use crate::pagetable::Walker;
use crate::process::Held;
use crate::process::advise::joined;
use crate::tracker::clear_accessed::{cool_ranges, shared};
use crate::tracker::moment::Moment;
use crate::tracker::tier_runs::TierRun;

/// Huge pages armed together: arming them takes about as long as the shortest window.
const BATCH: usize = 64;
/// Base pages whose huge pages are in one page table.
const TABLE: u64 = BASE_PER_HUGE * 512;
/// Windows for one batch, at most: a window during which the manager had to wait for a CPU is repeated.
const ATTEMPTS: u32 = 3;
/// Waiting time beyond twice the requested window after which a window is repeated.
const LATE: Duration = Duration::from_micros(100);

/// The huge pages of one process to be watched in brief windows, by ascending address.
#[derive(Debug, Default)]
pub struct Brief {
    pages: Vec<TierRun>,
    next: usize,
}

/// The result of one batch.
#[derive(Debug)]
pub struct Batch<'a> {
    /// The pages watched.
    pub pages: &'a [TierRun],
    /// Those of them that were accessed.
    pub accessed: Vec<TierRun>,
    /// The window; `None` if the kernel refused to clear bits, so that the long window must do.
    pub window: Option<Duration>,
}

impl Brief {
    /// Forgets all pages.
    pub fn clear(&mut self) {
        let used = self.pages.len();
        self.pages.clear();
        self.pages.shrink_to(2 * used);
        self.next = 0;
    }

    /// Begins again with the first batch.
    pub fn rewind(&mut self) {
        self.next = 0;
    }

    /// Adds a huge page that was accessed in the long window.
    pub fn add(&mut self, page: TierRun) {
        debug_assert_eq!(page.size, PageSize::Huge, "base pages have the long window");
        self.pages.push(page);
    }

    /// Watches the next batch for a brief window; without one, returns it as it is. `None` after the last batch.
    pub fn watch(
        &mut self,
        process: &Held,
        tables: (&Kcore, &Walker, u64),
        window: Option<Nanos>,
        one_cpu: bool,
    ) -> Option<Batch<'_>> {
        let first = self.next;
        self.next = (first + BATCH).min(self.pages.len());
        let pages = self.pages.get(first..self.next).filter(|pages| !pages.is_empty())?;
        let as_they_are = || Batch { pages, accessed: pages.to_vec(), window: None };
        let Some(window) = window else { return Some(as_they_are()) };
        let latest = Duration::from_nanos(window.0) * 2 + LATE;
        for attempt in 1..=ATTEMPTS {
            let Some((accessed, watched)) = watch(pages, process, tables, window, one_cpu) else {
                break;
            };
            if watched <= latest || attempt == ATTEMPTS {
                return Some(Batch { pages, accessed, window: Some(watched) });
            }
        }
        Some(as_they_are())
    }
}

/// Clears the bits of these pages, waits, and returns those accessed since, and for how long they were watched.
/// `None` if the kernel refused.
fn watch(
    pages: &[TierRun],
    process: &Held,
    (kcore, walker, top): (&Kcore, &Walker, u64),
    window: Nanos,
    one_cpu: bool,
) -> Option<(Vec<TierRun>, Duration)> {
    let ranges = joined(pages.iter().map(|page| (page.start, BASE_PER_HUGE)));
    let start = Moment::now();
    if cool_ranges(process, &ranges) < pages.len() as u64 * BASE_PER_HUGE {
        return None;
    }
    let armed = start.midway();
    std::thread::sleep(Duration::from_nanos(window.0));
    let start = Moment::now();
    let mut accessed = Vec::with_capacity(pages.len());
    for table in pages.chunk_by(|a, b| a.start / TABLE == b.start / TABLE) {
        let range = Vpn(table[0].start)..Vpn(table[table.len() - 1].start + BASE_PER_HUGE);
        walker.find_huge(kcore, top, range, |leaf| {
            if leaf.accessed {
                accessed.push(leaf.vpn);
            }
        });
    }
    let watched = armed.watched_until(start.midway(), one_cpu);
    let shared = shared(process, &accessed);
    let is_own =
        |page: &Vpn| accessed.binary_search(page).is_ok() && shared.binary_search(page).is_err();
    let accessed = pages.iter().filter(|page| is_own(&Vpn(page.start)));
    Some((accessed.copied().collect(), watched))
}
