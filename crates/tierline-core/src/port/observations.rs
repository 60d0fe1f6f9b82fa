// SPDX-License-Identifier: Apache-2.0
//! What a world reports: mappings, places of pages, signs of access.

use serde::Serialize;

use super::address::{PageSize, Region, SpaceId, TenantId, Vpn};
use crate::tier::TierId;
use crate::unit::Nanos;

/// A change in what there is to manage, in the order it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpaceEvent {
    /// A region is mapped. What of it was mapped already, as the same kind, stays as it is; `size` is that of the
    /// rest, unless [`SpaceEvent::Sized`] has reported another.
    Mapped(Region),
    /// The pages in a run of whole huge pages have this size, as far as they are mapped, now or later. It may be
    /// reported again and again.
    Sized(SpaceId, Vpn, u64, PageSize),
    /// A run of base pages is gone.
    Unmapped(SpaceId, Vpn, u64),
    /// The whole address space is gone (exit or exec).
    Gone(SpaceId),
    /// The address space belongs to this tenant from now on: told before its first mapping, and when its owner changes.
    Owned(SpaceId, TenantId),
}

/// Where a page lives, as seen by the world. Kept apart from samples, as it is no sign of heat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residence {
    /// Whose page.
    pub space: SpaceId,
    /// The first page of the run.
    pub vpn: Vpn,
    /// How many base pages in a row live there.
    pub base_pages: u32,
    /// The tier they live in.
    pub tier: TierId,
}

/// One observed sign of access.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Whose page.
    pub space: SpaceId,
    /// The page, or the first of a run that shares the evidence.
    pub vpn: Vpn,
    /// Base pages in the run; 1 for a page-exact tracker.
    pub base_pages: u32,
    /// Accesses seen.
    pub hits: f32,
    /// For how long this page was being watched when it was hit, where the tracker knows that of the
    /// single page (a hint fault: its time to fault). `None`: since the page's last hit, on the
    /// tracker's watch clock ([`Observations::watched`]).
    pub exposure: Option<Nanos>,
    /// The tier the page was in, where the tracker saw that too.
    pub tier: Option<TierId>,
    /// Whether it was a store, where known.
    pub write: Option<bool>,
}

/// A stretch of memory that is watched as one, by a random page of it at a time, as DAMON does. All
/// stretches together cover the managed memory, those that nobody accesses too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// Whose pages.
    pub space: SpaceId,
    /// Its first page.
    pub vpn: Vpn,
    /// Its length in base pages.
    pub base_pages: u64,
    /// Share of the looks at it that found an access, 0 to 1.
    pub frequency: f64,
    /// For how long its frequency has been about the same.
    pub age: Nanos,
}

/// Was this page accessed in the time `within` before now?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Whose page.
    pub space: SpaceId,
    /// The page.
    pub vpn: Vpn,
    /// How far back the answer looks.
    pub within: Nanos,
}

/// A page's true access rate, which only a model can tell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrueRate {
    /// Whose page.
    pub space: SpaceId,
    /// The page, or the first of a run of equal rates.
    pub vpn: Vpn,
    /// Base pages in the run.
    pub base_pages: u32,
    /// Accesses per second that each page of the run gets.
    pub rate_per_sec: f32,
}

/// What a world saw since it was last asked. Reused between ticks; the world appends.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    /// Mappings that came and went; applied before anything else here.
    pub spaces: Vec<SpaceEvent>,
    /// Where pages live.
    pub residence: Vec<Residence>,
    /// Signs of access.
    pub samples: Vec<Sample>,
    /// Rates that are known, not estimated; they replace what was believed.
    pub rates: Vec<TrueRate>,
    /// All stretches, where a tracker watches stretches and a round of looks has ended: of the last round, which
    /// stands for all watching since the last call.
    pub stretches: Vec<Stretch>,
    /// For how long all pages were being watched: the sum of the windows in which a hit would have
    /// been seen. A scanner watches between arming and reading. A sampler that takes one access in P
    /// sees as much as one that watches all accesses for a P-th of the time, and reports that.
    pub watched: Nanos,
    /// Hits per second of watching on all pages below the fastest tier, where the tracker looked at a
    /// sample of them only and projects; the engine counts by itself otherwise.
    pub slow_hits_per_sec: Option<f64>,
    /// The length of one look, where a look sees a page once however often it was accessed: rates
    /// above one in this time cannot be told apart. `None`: every access counts.
    pub window: Option<Nanos>,
    /// How long the looks took together, where a tracker tells of several at once: of a page that is hit, all of
    /// this time is known. `None`: of each look by itself.
    pub aggregation: Option<Nanos>,
    /// How much watching is worth remembering: the tracker knows what its evidence is worth. `None`:
    /// as before.
    pub memory: Option<Nanos>,
    /// The tracker sees no access to the fastest tier: silence there says nothing.
    pub fast_unseen: bool,
    /// Samples that the tracker knows it lost (a full ring buffer).
    pub lost: u64,
}

impl Observations {
    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.spaces.clear();
        self.residence.clear();
        self.samples.clear();
        self.rates.clear();
        self.stretches.clear();
        self.watched = Nanos::ZERO;
        self.slow_hits_per_sec = None;
        self.window = None;
        self.aggregation = None;
        self.memory = None;
        self.fast_unseen = false;
        self.lost = 0;
    }
}
