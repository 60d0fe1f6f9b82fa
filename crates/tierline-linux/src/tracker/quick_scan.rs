// SPDX-License-Identifier: Apache-2.0
//! A quick scan: checks a few hundred pages of the slow tier between two windows, to notice when it becomes busy.
//!
//! The cost of a full window grows with the memory watched, so while placement is settled windows are rare,
//! too rare to notice a moved hot set in time. The cost of a quick scan does not depend on the size: it clears
//! the accessed bits of a random sample of slow pages (`process_madvise` with `MADV_COLD`, which also flushes
//! their TLB entries), waits, reads their entries again, and projects the result to the whole tier. The
//! sampled pages lose their place in the kernel's LRU lists; they are slow pages, and few.

use tierline_core::port::{SampledHits, Vpn};
use tierline_core::rng::Rng;
use tierline_core::tier::TierId;
use tierline_core::unit::BASE_PER_HUGE;

use crate::nodes::FrameTiers;
use crate::pagetable::{PhysicalMemory, Walker};
use crate::process::Held;
use crate::tracker::clear_accessed::{accessed, clear_accessed, shared};
use crate::tracker::reservoir::Reservoir;

/// Places in the sample; each is a run of [`RUN`] pages.
const PLACES: usize = 64;
/// A sample in which too many bits of shared pages were set so often in a row waits for the next scan: a child of the process
/// may run for long. Ours.
const MOST_FULL: u32 = 2;
/// Pages per place: neighbours cost little more than one page.
const RUN: usize = 16;

/// A random sample of places of one process that have pages, and the pages whose bits were cleared.
#[derive(Debug)]
pub struct QuickScan {
    /// Chooses a run in each chunk.
    rng: Rng,
    chunks: Reservoir<u64>,
    last: Option<Vpn>,
    base_pages: u64,
    /// Pages read, in all tiers.
    sampled: u64,
    cleared: Vec<Vpn>,
    /// How often in a row too many bits of shared pages were set.
    full: u32,
}

impl Default for QuickScan {
    fn default() -> Self {
        Self::with_seed(0x61a_0ce)
    }
}

impl QuickScan {
    fn with_seed(seed: u64) -> Self {
        let (rng, chunks) = (Rng::new(seed), Reservoir::new(seed, PLACES));
        Self { rng, chunks, last: None, base_pages: 0, sampled: 0, cleared: Vec::new(), full: 0 }
    }

    /// Starts a new sample; a full walk then adds all places.
    pub fn restart(&mut self) {
        self.last = None;
        self.chunks.clear();
        self.full = 0;
    }

    /// Adds 2 MiB that contain base pages. Each has the same chance to be chosen, however often it is added
    /// in a row.
    #[inline]
    pub fn add_candidate(&mut self, start: Vpn) {
        if self.last == Some(start) {
            return;
        }
        self.last = Some(start);
        self.chunks.offer(start.0);
    }

    /// Ends the sample of a walk that found this many base pages, in all tiers. The kernel is given pages by ascending
    /// address.
    pub fn finish(&mut self, base_pages: u64) {
        self.base_pages = base_pages;
        self.chunks.sort();
    }

    /// Reads the sample, in all tiers, without clearing anything: pages sampled and, of them, accessed.
    pub fn peek(
        &mut self,
        (memory, walker, top): (&impl PhysicalMemory, &Walker, u64),
    ) -> (u64, u64) {
        let (mut sampled, mut accessed) = (0, 0);
        for i in 0..self.chunks.kept().len() {
            let at = self.place(i);
            let run: Option<[_; RUN]> = walker.find_run(memory, top, at);
            for leaf in run.into_iter().flatten().flatten() {
                sampled += 1;
                accessed += u64::from(leaf.accessed);
            }
        }
        (sampled, accessed)
    }

    /// A random run of pages in a chunk of the sample.
    fn place(&mut self, chunk: usize) -> Vpn {
        Vpn(self.chunks.kept()[chunk] + self.rng.below(BASE_PER_HUGE / RUN as u64) * RUN as u64)
    }

    /// Clears the bits of the slow pages in the sample. `false` if there are none, or if the kernel refuses.
    pub fn arm(
        &mut self,
        process: &Held,
        (memory, walker, top): (&impl PhysicalMemory, &Walker, u64),
        frames: &FrameTiers,
    ) -> bool {
        self.cleared.clear();
        self.sampled = 0;
        if self.full >= MOST_FULL {
            return false;
        }
        for i in 0..self.chunks.kept().len() {
            let at = self.place(i);
            let run: Option<[_; RUN]> = walker.find_run(memory, top, at);
            for leaf in run.into_iter().flatten().flatten() {
                self.sampled += 1;
                if frames.tier_of(leaf.pfn).is_some_and(|tier| tier > TierId::FAST) {
                    self.cleared.push(leaf.vpn);
                }
            }
        }
        if self.cleared.is_empty() {
            return false;
        }
        let accepted = clear_accessed(process, &self.cleared);
        // A process may have forked since the last time.
        let is_full = !self.leave_out_set(process, (memory, walker, top));
        self.full = if is_full { self.full + 1 } else { 0 };
        accepted > 0 && !is_full
    }

    /// Leaves out shared pages whose bits are set: the kernel does not clear them. `false` if that is most of the sample, so that the
    /// rest shows too little.
    fn leave_out_set(
        &mut self,
        process: &Held,
        tables: (&impl PhysicalMemory, &Walker, u64),
    ) -> bool {
        let (set, wanted) = (accessed(tables, &self.cleared), self.cleared.len());
        let set = shared(process, &set);
        self.cleared.retain(|page| set.binary_search(page).is_err());
        self.cleared.len() * 2 >= wanted
    }

    /// The slow accessed pages in the sample, and their number projected to all pages.
    #[expect(clippy::cast_precision_loss, reason = "counts of pages")]
    pub fn read(
        &mut self,
        (memory, walker, top): (&impl PhysicalMemory, &Walker, u64),
    ) -> Option<(SampledHits, f64)> {
        let same_place = |a: &Vpn, b: &Vpn| a.0 / RUN as u64 == b.0 / RUN as u64;
        let places = self.cleared.chunk_by(same_place).map(|place| {
            let at = Vpn(place[0].0 / RUN as u64 * RUN as u64);
            let leaves: [_; RUN] = walker.find_run(memory, top, at).unwrap_or_default();
            let seen = leaves.iter().flatten().filter(|leaf| leaf.accessed);
            u32::try_from(seen.filter(|leaf| place.contains(&leaf.vpn)).count()).unwrap_or(0)
        });
        let sampled = SampledHits::over(&places.collect::<Vec<_>>());
        let of_all = self.base_pages as f64 / self.sampled as f64;
        (self.sampled > 0).then_some((sampled, sampled.hits * of_all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_many_places_is_ordered_by_address() {
        let mut quick_scan = QuickScan::default();
        (0..10 * PLACES as u64).for_each(|chunk| quick_scan.add_candidate(Vpn(chunk * 512)));
        quick_scan.finish(0);
        assert!(
            quick_scan.chunks.kept().is_sorted()
                && quick_scan.chunks.kept().last() > Some(&(PLACES as u64 * 512))
        );
    }

    #[test]
    fn every_offer_has_the_same_chance() {
        let mut counts = [0u32; 4];
        for _ in 0..64 {
            let seed = u64::from(counts.iter().sum::<u32>()) + 1;
            let mut quick_scan = QuickScan::with_seed(seed);
            (0..512).for_each(|i| quick_scan.add_candidate(Vpn(i / 2 * 512)));
            assert_eq!(quick_scan.chunks.kept().len(), PLACES);
            for chunk in quick_scan.chunks.kept() {
                counts[usize::try_from(chunk / 512 / 64).unwrap_or(0)] += 1;
            }
        }
        assert!(counts.iter().all(|&n| (820..1230).contains(&n)), "{counts:?} of 1024 each");
    }
}
