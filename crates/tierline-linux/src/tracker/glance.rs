// SPDX-License-Identifier: Apache-2.0
//! A glance: has the slow tier become busy? Asked of a few hundred of its pages, between two windows.
//!
//! A full window costs in proportion to the memory watched, so while placement is settled it comes
//! rarely, too rarely to notice in time that the hot set has moved. A glance costs the same whatever the
//! size: it clears the accessed bits of a random sample of slow pages (`process_madvise` with
//! `MADV_COLD`, which flushes their TLB entries as well), waits, reads their entries again, and projects
//! what it found to the whole tier. The sampled pages lose their place in the kernel's LRU lists; they
//! are slow pages, and few.

use tierline_core::port::{SpaceId, Vpn};
use tierline_core::rng::Rng;
use tierline_core::tier::TierId;
use tierline_core::unit::BASE_PER_HUGE;

use crate::kcore::Kcore;
use crate::nodes::FrameTiers;
use crate::pagetable::Walker;
use crate::tracker::cool::cool;

/// Places looked at; each is a run of [`RUN`] pages.
const PLACES: usize = 64;
/// Pages a place: neighbours cost little more than one.
const RUN: usize = 4;

/// A random choice of places of one process that hold pages, and those that were cleared.
#[derive(Debug)]
pub struct Glance {
    rng: Rng,
    chunks: Vec<u64>,
    offered: u64,
    last: Option<Vpn>,
    base_pages: u64,
    /// Pages looked at, in all tiers, and those of them that are slow.
    sampled: u64,
    cleared: Vec<Vpn>,
}

impl Default for Glance {
    fn default() -> Self {
        let (chunks, cleared) = (Vec::with_capacity(PLACES), Vec::new());
        Self {
            rng: Rng::new(0x61a_0ce),
            chunks,
            offered: 0,
            last: None,
            base_pages: 0,
            sampled: 0,
            cleared,
        }
    }
}

impl Glance {
    /// Begins a new choice: a full walk is about to offer the places there are.
    pub fn restart(&mut self) {
        self.offered = 0;
        self.last = None;
        self.chunks.clear();
    }

    /// Offers 2 MiB that hold base pages; each has the same chance to be chosen, however often it is
    /// offered in a row.
    #[inline]
    pub fn offer(&mut self, start: Vpn) {
        if self.last == Some(start) {
            return;
        }
        self.last = Some(start);
        self.offered += 1;
        if self.chunks.len() < PLACES {
            self.chunks.push(start.0);
        } else if let Ok(at) = usize::try_from(self.rng.below(self.offered))
            && let Some(chunk) = self.chunks.get_mut(at)
        {
            *chunk = start.0;
        }
    }

    /// Hears how many base pages there are, in all tiers.
    pub fn set_base_pages(&mut self, base_pages: u64) {
        self.base_pages = base_pages;
    }

    /// Clears the bits of the slow pages in the sample. `false` if there are none, or the kernel does
    /// not let us.
    pub fn arm(
        &mut self,
        space: SpaceId,
        (kcore, walker, top): (&Kcore, &Walker, u64),
        frames: &FrameTiers,
    ) -> bool {
        self.cleared.clear();
        self.sampled = 0;
        for i in 0..self.chunks.len() {
            let at = Vpn(self.chunks[i] + self.rng.below(BASE_PER_HUGE / RUN as u64) * RUN as u64);
            let run: Option<[_; RUN]> = walker.find_run(kcore, top, at);
            for leaf in run.into_iter().flatten().flatten() {
                self.sampled += 1;
                if frames.of(leaf.pfn).is_some_and(|tier| tier > TierId::FAST) {
                    self.cleared.push(leaf.vpn);
                }
            }
        }
        !self.cleared.is_empty() && cool(space, &self.cleared) > 0
    }

    /// The share of the sample that was slow and touched, projected to all pages.
    #[expect(clippy::cast_precision_loss, reason = "counts of pages")]
    pub fn read(&mut self, (kcore, walker, top): (&Kcore, &Walker, u64)) -> Option<f64> {
        let mut touched = 0u64;
        for run in self.cleared.chunk_by(|a, b| a.0 / RUN as u64 == b.0 / RUN as u64) {
            let at = Vpn(run[0].0 / RUN as u64 * RUN as u64);
            let leaves: [_; RUN] = walker.find_run(kcore, top, at).unwrap_or_default();
            let seen = leaves.iter().flatten().filter(|leaf| leaf.accessed);
            touched += seen.filter(|leaf| run.contains(&leaf.vpn)).count() as u64;
        }
        (self.sampled > 0).then(|| touched as f64 / self.sampled as f64 * self.base_pages as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_offer_has_the_same_chance() {
        let mut counts = [0u32; 4];
        for _ in 0..64 {
            let seed = u64::from(counts.iter().sum::<u32>()) + 1;
            let mut glance = Glance { rng: Rng::new(seed), ..Glance::default() };
            (0..512).for_each(|i| glance.offer(Vpn(i / 2 * 512)));
            assert_eq!(glance.chunks.len(), PLACES);
            for chunk in &glance.chunks {
                counts[usize::try_from(chunk / 512 / 64).unwrap_or(0)] += 1;
            }
        }
        assert!(counts.iter().all(|&n| (820..1230).contains(&n)), "{counts:?} of 1024 each");
    }
}
