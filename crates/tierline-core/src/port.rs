// SPDX-License-Identifier: Apache-2.0
//! The border between the core and a world: what a world tells, and what it is asked to do.
//!
//! A world is a machine model or a running Linux. It looks (`observe`), measures (`measure`) and acts
//! (`migrate`); it never decides. The core decides; it never looks, measures or acts by itself.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::policy::{Reason, Watch};
use crate::tier::TierId;
use crate::unit::{BASE_PAGE, BASE_PER_HUGE, Bytes, BytesPerSec, Nanos};

/// One address space: on Linux a process (its pid), in the model a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct SpaceId(pub u32);

/// A virtual page number: a virtual address divided by the base page size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Vpn(pub u64);

impl Vpn {
    /// The page that holds `address`.
    pub const fn of(address: u64) -> Self {
        Self(address / BASE_PAGE.0)
    }

    /// The page's first byte.
    pub const fn address(self) -> u64 {
        self.0 * BASE_PAGE.0
    }

    /// The first base page of the huge page that this one lies in.
    pub const fn huge_head(self) -> Self {
        Self(self.0 / BASE_PER_HUGE * BASE_PER_HUGE)
    }
}

impl fmt::Display for SpaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

/// The unit that moves.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum PageSize {
    /// 4 KiB.
    #[default]
    Base,
    /// 2 MiB; moves whole.
    Huge,
}

impl PageSize {
    /// Base pages in one page of this size.
    pub const fn base_pages(self) -> u64 {
        match self {
            Self::Base => 1,
            Self::Huge => BASE_PER_HUGE,
        }
    }

    /// The same, to spread a page's rate over them.
    pub(crate) const fn base_pages_f32(self) -> f32 {
        match self {
            Self::Base => 1.0,
            Self::Huge => 512.0,
        }
    }

    /// The binary logarithm of that.
    pub(crate) const fn shift(self) -> u32 {
        self.base_pages().trailing_zeros()
    }

    /// Bytes of one page of this size.
    pub const fn bytes(self) -> Bytes {
        Bytes::from_base_pages(self.base_pages())
    }
}

/// What backs a page.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum PageKind {
    /// Private memory: heap, stack.
    #[default]
    Anonymous,
    /// The page cache, mapped.
    File,
    /// Shared memory.
    Shared,
}

/// A run of virtual pages of one kind and size. `base_pages` counts base pages for either size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Region {
    /// Where it is.
    pub space: SpaceId,
    /// Its first page; on a huge-page boundary where `size` is huge.
    pub start: Vpn,
    /// Its length in base pages; a multiple of 512 where `size` is huge.
    pub base_pages: u64,
    /// The size of its pages.
    pub size: PageSize,
    /// What backs it.
    pub kind: PageKind,
}

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

/// What is measured of one tier. What cannot be known is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TierTelemetry {
    /// Bytes free in the tier's nodes, the kernel's own reserves taken off.
    pub free: Bytes,
    /// Bytes of the tier that the managed programs use.
    pub managed: Bytes,
    /// New pages were put elsewhere since this was last asked, as less than the kernel's low watermark was
    /// free: its reclaimer is awake. False where it cannot be known.
    pub turned_away: bool,
    /// Loaded latency of a demand read.
    pub latency: Option<Nanos>,
    /// Demand reads in flight, averaged over the quantum (Little's law: latency = occupancy / rate).
    pub occupancy: Option<f64>,
    /// Demand reads per second.
    pub reads_per_sec: Option<f64>,
    /// Bandwidth in use.
    pub bandwidth: Option<BytesPerSec>,
}

/// What a memory device that counts its accesses says of them: NeoProf's histogram and its state monitor.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Counted {
    /// Its counters by what they counted since they were cleared: the least count of a bin, and how many counters
    /// are in it, lowest bin first.
    pub histogram: Vec<(u32, u32)>,
    /// By how much a count may exceed the true one.
    pub error_bound: u32,
    /// Share of its cycles that carried data since this was last told, 0 to 1.
    pub utilisation: f64,
}

/// What is measured of the machine in one quantum.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Telemetry {
    /// One entry a tier, fastest first.
    pub tiers: Vec<TierTelemetry>,
    /// Share of the managed programs' time that memory costs them by not being in the fastest tier, 0 to 1:
    /// what loads from slower tiers take longer, and bringing back what is out.
    pub stall: Option<f64>,
    /// Of it, what memory costs them that is out altogether: all that a kernel's pressure stall information knows.
    pub page_in_stall: Option<f64>,
    /// What a counting device says, whenever it was asked anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
}

/// How closely the trackers should look: a hint, never a promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attention {
    /// Placement is settled: look rarely, to notice a change.
    Calm,
    /// Placement is off or was just changed: look closely.
    #[default]
    Alert,
    /// Placement is off, and more pages are known to be in the wrong place than can be moved at once:
    /// look now and then, as looking takes time from moving.
    Moving,
}

/// One page, as a world names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PageAt {
    /// Whose page.
    pub space: SpaceId,
    /// The page; of a huge page, its head.
    pub vpn: Vpn,
    /// Its size.
    pub size: PageSize,
}

/// One page to be moved, and why.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Move {
    /// Whose page.
    pub space: SpaceId,
    /// The page.
    pub vpn: Vpn,
    /// Its size.
    pub size: PageSize,
    /// Where it is believed to be.
    pub from: TierId,
    /// Where it is wanted.
    pub to: TierId,
    /// Why.
    pub reason: Reason,
}

/// What became of one move, as read back from the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is where it was wanted.
    Moved,
    /// It was there already, or went somewhere else: it is in this tier.
    Elsewhere(TierId),
    /// Busy or pinned for now; worth another try later.
    Busy,
    /// Written to while it was copied: it stays; worth another try later.
    Dirtied,
    /// The target tier has no room.
    NoRoom,
    /// Nothing is mapped there any more.
    PageGone,
    /// The whole address space is gone.
    SpaceGone,
    /// It will not move: shared, or not ours to move.
    Refused,
    /// It was not tried: a dry run.
    Skipped,
}

/// A machine whose pages can be watched and moved.
pub trait World {
    /// Appends what was seen since the last call.
    fn observe(&mut self, now: Nanos, out: &mut Observations);

    /// Measures the tiers.
    fn measure(&mut self, now: Nanos) -> Telemetry;

    /// Moves pages, in the given order, and appends one outcome a move, in the same order.
    /// Returns the time the moving took.
    fn migrate(&mut self, now: Nanos, moves: &[Move], out: &mut Vec<Outcome>) -> Nanos;

    /// Hears how closely to look from now on.
    fn attend(&mut self, attention: Attention);

    /// Pages out: what they hold is written to where it is kept (the file, the swap device) and their memory is
    /// free; the next access brings a page back, wherever new pages go then. Appends one outcome a page,
    /// in the given order: whether it is out. Returns the time it took. A world that cannot appends nothing.
    fn page_out(&mut self, _now: Nanos, _pages: &[PageAt], _out: &mut Vec<bool>) -> Nanos {
        Nanos::ZERO
    }

    /// Splits huge pages into base pages, which stay where they are; whether and when they are made whole
    /// again is up to the world, which tells of it as of any region that takes another page size. Appends one
    /// outcome a page, in the given order: whether it is split. Returns the time it took. A world that cannot
    /// appends nothing.
    fn split(&mut self, _now: Nanos, _pages: &[PageAt], _out: &mut Vec<bool>) -> Nanos {
        Nanos::ZERO
    }

    /// Hears how accesses are to be seen from now on, when a policy wishes for it otherwise than before:
    /// a scanner with another period. A world whose tracker cannot goes on as it did.
    fn watch(&mut self, _watch: Watch) {}

    /// Says of single pages whether they were accessed lately, as a reclaimer reads it from the accessed
    /// bits of pages that it is about to take, and appends one answer a question. A world that cannot
    /// appends nothing.
    fn accessed(&mut self, _now: Nanos, _questions: &[Question], _out: &mut Vec<bool>) {}
}
