// SPDX-License-Identifier: Apache-2.0
//! nomad: promotes by copying pages while they are in use, and keeps the old copies as shadows.
//!
//! What it does: a page is copied during its promotion while it stays mapped. If it was written meanwhile, the
//! copy is discarded: the page stays and is tried again later. Otherwise its old frame is kept as its shadow
//! until the page is first written, which costs a fault, or until the slower tier needs the frame (oldest
//! shadow first). Demoting a page to its shadow copies nothing, and no program waits for a promotion.
//!
//! When it helps: memory that is mostly read, and is promoted and demoted repeatedly.
//!
//! When it hurts: pages that are written all the time are never promoted, and each attempt costs a copy; each
//! promoted page that is written costs a fault.
//!
//! Knobs: none. Attempts and the waits between them are the migrator's.
//!
//! Where it comes from: Nomad (OSDI 2024), sections 3.1 and 3.2, and its public code. Nomad moves base pages
//! only; here also huge pages. Writes occur at random, at the program's ratio of lines written to lines read.
//! The time of a page's first write is drawn once, on the program's clock of reads.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use tierline_core::port::SpaceId;
use tierline_core::rng::Rng;
use tierline_core::tier::TierId;

use super::frames::Frames;
use super::job::Job;
use crate::arithmetic::exponential;

/// The documentation printed by [`super::transfer`].
pub(super) const DOC: &str = include_str!("shadows.rs");

/// Outcomes of copies and shadows, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShadowCounts {
    /// Promotions that left a shadow.
    pub kept: u64,
    /// Promotions discarded because the page was written.
    pub aborted: u64,
    /// Demotions to a shadow.
    pub remapped: u64,
    /// Shadows whose page was written.
    pub written: u64,
    /// Shadows whose frame was needed.
    pub reclaimed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Shadow {
    tier: TierId,
    base_pages: u64,
    /// Serial number of the shadow, as queues may still contain removed ones.
    serial: u64,
}

/// First writes to come: the program's version, and, on its clock of reads, page and shadow.
type FirstWrites = (u64, BinaryHeap<Reverse<(u64, u32, u64)>>);

/// All shadows. Their frames count as free; they are released when needed.
#[derive(Clone, Debug, Default)]
pub struct Shadows {
    of: BTreeMap<(SpaceId, u32), Shadow>,
    /// By tier, oldest first.
    oldest: [VecDeque<(SpaceId, u32, u64)>; TierId::MAX],
    base_pages: [u64; TierId::MAX],
    writes: BTreeMap<SpaceId, FirstWrites>,
    next: u64,
    /// Outcomes so far.
    pub counts: ShadowCounts,
}

impl Shadows {
    /// Keeps the old frame of a page in `tier`.
    pub fn keep(&mut self, job: &Job, page: u32, tier: TierId, rng: &mut Rng) {
        self.take(job.space, page);
        let serial = self.next;
        self.next += 1;
        self.of.insert((job.space, page), Shadow { tier, base_pages: job.unit(), serial });
        self.oldest[tier.index()].push_back((job.space, page, serial));
        self.base_pages[tier.index()] += job.unit();
        let (_, heap) = self.writes.entry(job.space).or_insert((job.version, BinaryHeap::new()));
        heap.push(Reverse((first_write(job, page, rng), page, serial)));
        self.counts.kept += 1;
    }

    /// Removes the shadow of a page and returns its tier.
    pub fn take(&mut self, space: SpaceId, page: u32) -> Option<TierId> {
        let shadow = self.of.remove(&(space, page))?;
        self.base_pages[shadow.tier.index()] -= shadow.base_pages;
        Some(shadow.tier)
    }

    /// Removes the shadows of pages written by now. Returns their number.
    pub fn written(&mut self, job: &Job, rng: &mut Rng) -> u32 {
        let Some((version, mut heap)) = self.writes.remove(&job.space) else { return 0 };
        if version != job.version {
            let again = heap.into_sorted_vec().into_iter().map(|Reverse((_, page, serial))| {
                Reverse((first_write(job, page, rng), page, serial))
            });
            heap = again.collect();
        }
        let mut written = 0;
        while let Some(&Reverse((at, page, serial))) = heap.peek() {
            #[expect(clippy::cast_precision_loss, reason = "a clock of accesses below 2^52")]
            if at as f64 > job.reads {
                break;
            }
            heap.pop();
            if self.of.get(&(job.space, page)).is_some_and(|shadow| shadow.serial == serial) {
                self.take(job.space, page);
                written += 1;
            }
        }
        self.writes.insert(job.space, (job.version, heap));
        self.counts.written += u64::from(written);
        written
    }

    /// Removes the shadows of a program that has exited.
    pub fn forget(&mut self, space: SpaceId) {
        let of_it = self.of.range((space, 0)..=(space, u32::MAX));
        let pages: Vec<u32> = of_it.map(|(&(_, page), _)| page).collect();
        for page in pages {
            self.take(space, page);
        }
        self.writes.remove(&space);
    }

    /// Removes the oldest shadows of every tier until the others fit into its free memory.
    pub fn fit(&mut self, frames: &Frames) {
        for tier in (0u8..).map(TierId).take_while(|&tier| frames.has(tier)) {
            while self.base_pages[tier.index()] > frames.free(tier) {
                let Some((space, page, serial)) = self.oldest[tier.index()].pop_front() else {
                    break;
                };
                if self.of.get(&(space, page)).is_some_and(|shadow| shadow.serial == serial) {
                    self.take(space, page);
                    self.counts.reclaimed += 1;
                }
            }
        }
    }

    /// Recomputes the counts: for tests.
    ///
    /// # Panics
    /// If they are wrong, a shadow has no room, or its page is not in a faster tier.
    pub fn check(&self, frames: &Frames, jobs: &[Job]) {
        let mut base_pages = [0; TierId::MAX];
        for (&(space, page), shadow) in &self.of {
            base_pages[shadow.tier.index()] += shadow.base_pages;
            let job = jobs.iter().find(|job| job.space == space);
            let tier = job.and_then(|job| job.tier(page));
            assert!(
                tier.is_some_and(|tier| tier < shadow.tier),
                "{space} {page}: {tier:?} {shadow:?}"
            );
        }
        assert_eq!(base_pages, self.base_pages);
        for tier in (0u8..).map(TierId).take_while(|&tier| frames.has(tier)) {
            assert!(base_pages[tier.index()] <= frames.free(tier), "{tier}");
        }
    }
}

/// Time of a page's first write, on the program's clock of reads.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a clock of accesses; the cast saturates at never"
)]
fn first_write(job: &Job, page: u32, rng: &mut Rng) -> u64 {
    let share = job.pattern.density(job.pattern.band(page));
    (job.reads + exponential(rng) / (share * job.program.writes_per_read)) as u64
}
