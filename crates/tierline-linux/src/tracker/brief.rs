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
//! A program may run in some of these windows only. So a batch has pages from all over its memory: with neighbours alone, a hot
//! range would be found in full or not at all. And a batch without any access is watched again, if others have many or none has any.
//!
//! A huge page that is mapped by base pages needs no brief window, and the kernel may split it for one: the base pages that were
//! accessed in the long window show how many accesses it had. Whether a brief window would have found one is drawn at random with
//! the chance that follows from that, so that its estimates are those of any other huge page (ours).
//!
//! The watched pages lose their place in the kernel's LRU lists. The kernel does not clear the bit of a page that
//! several processes map; such a page counts as not accessed.

use std::time::Duration;

use tierline_core::port::{PageSize, Vpn};
use tierline_core::rng::Rng;
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
/// Pages of a batch that follow each other. Each run is armed by itself, so that shorter ones would take longer. Ours.
const RUN: usize = 8;
/// Pages of a batch of which at least one should be accessed. If none is, the program did not run then, or they are idle. Ours.
const ENOUGH: usize = 16;
/// Accesses that should have been found in such a batch, from those of the others. Ours: none is found by chance in one of fifty.
const MISSING: usize = 4;
/// Base pages whose huge pages are in one page table.
const TABLE: u64 = BASE_PER_HUGE * 512;
/// Windows for one batch, at most: a window during which the manager had to wait for a CPU is repeated.
const ATTEMPTS: u32 = 3;
/// Waiting time beyond twice the requested window after which a window is repeated.
const LATE: Duration = Duration::from_micros(100);

/// The huge pages of one process to be watched in brief windows, by ascending address.
#[derive(Debug)]
pub struct Brief {
    pages: Vec<TierRun>,
    /// The next batch, and those to be watched once more before it.
    next: usize,
    again: Vec<usize>,
    /// Batches of which no page was accessed, and pages and accessed pages of the others.
    missed: Vec<usize>,
    others: [usize; 2],
    /// Those that are mapped by base pages, with the number that was accessed in the long window.
    folios: Vec<(TierRun, u32)>,
    has_drawn: bool,
    rng: Rng,
}

impl Default for Brief {
    fn default() -> Self {
        let (pages, folios, again, missed, others) = Default::default();
        let (next, has_drawn, rng) = (0, false, Rng::new(0));
        Self { pages, next, again, missed, others, folios, has_drawn, rng }
    }
}

/// The result of one batch.
#[derive(Debug)]
pub struct Batch {
    /// Pages watched.
    pub pages: usize,
    /// Those of them that were accessed.
    pub accessed: Vec<TierRun>,
    /// The window; `None` if the kernel refused to clear bits, so that the long window must do.
    pub window: Option<Duration>,
}

impl Brief {
    /// Forgets all pages.
    pub fn clear(&mut self) {
        let (used, folios) = (self.pages.len(), self.folios.len());
        self.pages.clear();
        self.pages.shrink_to(2 * used);
        self.folios.clear();
        self.folios.shrink_to(2 * folios);
        self.rewind();
    }

    /// Begins again with the first batch.
    pub fn rewind(&mut self) {
        (self.next, self.has_drawn, self.others) = (0, false, [0; 2]);
        self.again.clear();
        self.missed.clear();
    }

    /// Adds a huge page that was accessed in the long window.
    pub fn add(&mut self, page: TierRun) {
        debug_assert_eq!(page.size, PageSize::Huge, "base pages have the long window");
        self.pages.push(page);
    }

    /// Adds a huge page that is mapped by base pages, of which so many were accessed in the long window.
    pub fn add_folio(&mut self, page: TierRun, accessed: u32) {
        if accessed > 0 {
            self.folios.push((page, accessed));
        }
    }

    /// What a brief window would have found of the huge pages that are mapped by base pages; the long one took `watched`.
    /// Without a brief window, those that were accessed. `None` if there are none, or they were drawn.
    pub fn draw(&mut self, window: Option<Nanos>, watched: Duration) -> Option<Batch> {
        if self.folios.is_empty() || std::mem::replace(&mut self.has_drawn, true) {
            return None;
        }
        let window = window.map(|window| Duration::from_nanos(window.0));
        let part = window.map(|window| window.as_secs_f64() / watched.as_secs_f64().max(1e-9));
        let Self { folios, rng, .. } = self;
        let mut finds = |accessed| part.is_none_or(|part| rng.unit() < chance(accessed, part));
        let found = folios.iter().filter(|(_, accessed)| finds(*accessed));
        let accessed = found.map(|(page, _)| *page).collect();
        Some(Batch { pages: folios.len(), accessed, window })
    }

    /// Watches the next batch for a brief window; without one, returns it as it is. `None` after the last batch.
    pub fn watch(
        &mut self,
        process: &Held,
        tables: (&Kcore, &Walker, u64),
        window: Option<Nanos>,
        one_cpu: bool,
    ) -> Option<Batch> {
        let (number, pages) = self.next_batch()?;
        let count = pages.len();
        let as_they_are = || Batch { pages: count, accessed: pages.clone(), window: None };
        let Some(window) = window else { return Some(as_they_are()) };
        let latest = Duration::from_nanos(window.0) * 2 + LATE;
        for attempt in 1..=ATTEMPTS {
            let Some((accessed, watched)) = watch(&pages, process, tables, window, one_cpu) else {
                break;
            };
            if watched <= latest || attempt == ATTEMPTS {
                self.note(number, count, accessed.len());
                return Some(Batch { pages: count, accessed, window: Some(watched) });
            }
        }
        Some(as_they_are())
    }

    /// The next batch: its number, and its pages by ascending address.
    fn next_batch(&mut self) -> Option<(usize, Vec<TierRun>)> {
        let batches = self.pages.len().div_ceil(BATCH);
        let number = self.again.pop().or_else(|| {
            let next = Some(self.next).filter(|next| *next < batches);
            self.next += usize::from(next.is_some());
            next
        })?;
        let runs = self.pages.chunks(RUN).skip(number).step_by(batches);
        Some((number, runs.flatten().copied().collect()))
    }

    /// Records how many pages of a batch were accessed.
    fn note(&mut self, number: usize, pages: usize, accessed: usize) {
        if accessed == 0 && pages >= ENOUGH {
            self.missed.push(number);
        } else {
            self.others = [self.others[0] + pages, self.others[1] + accessed];
        }
    }

    /// Goes on with the batches of which no page was accessed. `false` if there are none, or if that is what is to be expected by
    /// the others.
    pub fn watch_missed(&mut self) -> bool {
        let ([pages, accessed], missed) = (self.others, std::mem::take(&mut self.missed));
        let is_expected = accessed * BATCH < pages * MISSING;
        self.again = if is_expected { Vec::new() } else { missed };
        !self.again.is_empty()
    }
}

/// The chance that a part of the long window finds a huge page accessed, of whose base pages the whole found so many. Of 513, so
/// that all of them do not stand for infinitely many accesses.
fn chance(accessed: u32, part: f64) -> f64 {
    let huge = BASE_PER_HUGE as f64;
    let missed = 1.0 - f64::from(accessed) / (huge + 1.0);
    1.0 - missed.powf(huge * part.min(1.0))
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
            if leaf.accessed && table.binary_search_by_key(&leaf.vpn.0, |page| page.start).is_ok() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use tierline_core::tier::TierId;

    /// The share of a thousand draws of a page, of which so many base pages were accessed in 10 ms.
    fn drawn(accessed: u32, window: Option<Nanos>) -> f64 {
        let mut brief = Brief::default();
        (0..1_000).for_each(|n| brief.add_folio(page(n), accessed));
        let batch = brief.draw(window, Duration::from_millis(10)).expect("there are some");
        assert!(brief.draw(window, Duration::from_millis(10)).is_none(), "once");
        brief.rewind();
        assert!(brief.draw(window, Duration::from_millis(10)).is_some(), "and again");
        assert_eq!(batch.pages, if accessed > 0 { 1_000 } else { 0 });
        batch.accessed.len() as f64 / batch.pages as f64
    }

    /// By hand: 50 of 512 are 52.6 accesses (-512 ln(1 - 50/513)), so 0.526 in a hundredth of the time: found with a chance of 0.41.
    #[test]
    fn the_base_pages_of_a_folio_show_what_a_brief_window_finds() {
        let brief = Some(Nanos(100_000));
        assert!((drawn(50, brief) - 0.41).abs() < 0.05, "{}", drawn(50, brief));
        assert!(drawn(1, brief) < 0.03 && drawn(512, brief) > 0.99);
        assert!((drawn(1, None) - 1.0).abs() < 1e-9, "in the long window it was accessed");
    }

    fn page(n: u64) -> TierRun {
        TierRun {
            start: n * BASE_PER_HUGE,
            pages: 512,
            size: PageSize::Huge,
            tier: Some(TierId(1)),
        }
    }

    /// All pages but each 17th, in batches; every one of them has its part of a hot quarter.
    #[test]
    fn each_page_is_in_one_batch_and_each_batch_has_pages_from_all_over() {
        for count in [0, 1, 64, 65, 300, 10_000] {
            let mut brief = Brief::default();
            let pages: Vec<TierRun> = (0..count).map(|n| page(n + n / 16)).collect();
            pages.iter().for_each(|&page| brief.add(page));
            let mut all = Vec::new();
            while let Some((_, batch)) = brief.next_batch() {
                assert!((1..=BATCH).contains(&batch.len()) && batch.is_sorted_by_key(|p| p.start));
                let quarter = &pages[pages.len() / 2..pages.len() * 3 / 4];
                let hot = batch.iter().filter(|page| quarter.contains(page)).count();
                assert!(count < 300 || hot * 8 >= batch.len(), "{hot} of {}", batch.len());
                all.extend(batch);
            }
            all.sort_by_key(|page| page.start);
            assert_eq!(all, pages);
            brief.rewind();
            assert_eq!(brief.next_batch().is_some(), count > 0, "all again");
        }
    }

    /// Five batches: the first, third and fifth without an access; in the others so many pages have one.
    #[test]
    fn batches_without_an_access_are_watched_again_if_others_have_many() {
        let again = |accessed: usize| {
            let mut brief = Brief::default();
            (0..300).for_each(|n| brief.add(page(n)));
            while let Some((number, batch)) = brief.next_batch() {
                brief.note(number, batch.len(), if number % 2 == 0 { 0 } else { accessed });
            }
            let watches = brief.watch_missed();
            let again: Vec<usize> =
                std::iter::from_fn(|| brief.next_batch()).map(|(number, _)| number).collect();
            assert_eq!(watches, !again.is_empty());
            again
        };
        assert_eq!(again(10), [4, 2, 0]);
        assert_eq!(again(2), [0; 0], "few pages are accessed in such a window");
        assert_eq!(again(0), [4, 3, 2, 1, 0], "none at all: the program did not run");
    }

    #[test]
    fn without_folios_nothing_is_drawn() {
        let mut brief = Brief::default();
        assert!(brief.draw(None, Duration::ZERO).is_none());
    }
}
