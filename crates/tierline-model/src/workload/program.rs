// SPDX-License-Identifier: Apache-2.0
//! What a workload comes to: memory, threads, and phases of a pattern. The machine adds how many misses
//! its cores keep in flight.

use tierline_core::port::{PageKind, PageSize};
use tierline_core::tier::TierId;
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};

use super::order::Order;
use super::pattern::{Band, Pattern};
use crate::machine::Cores;

/// A program that runs on the modelled machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The name reports use.
    pub name: String,
    /// Its memory once it is fully grown.
    pub bytes: Bytes,
    /// What backs it.
    pub kind: PageKind,
    /// Threads, a core each.
    pub threads: f64,
    /// What a core of it has in flight.
    pub reach: Reach,
    /// Lines written back, per line read.
    pub writes_per_read: f64,
    /// Lines read, per operation.
    pub reads_per_op: f64,
    /// What an operation is called.
    pub unit: &'static str,
    /// What it does, one after the other, round and round.
    pub phases: Vec<Phase>,
    /// Where its pages are put.
    pub placement: Placement,
    /// Whether the tiering system manages it, or it only is in the way.
    pub managed: bool,
    /// What its accesses weigh, and further memory that the same threads access.
    pub memory: Memory,
}

/// Memory of one kind among others of the same program.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Accesses to it, against those to the program's other memory.
    pub weight: f64,
    /// Share of its latency that is waited for; prefetching hides the rest.
    pub exposed: f64,
    /// Each of its huge pages stands for as many base pages: it faults, is looked at and is moved as those.
    pub in_base_pages: bool,
    /// Further memory of the same threads: of each, everything but threads, reach and operations counts.
    pub beside: Vec<Program>,
}

impl Default for Memory {
    fn default() -> Self {
        Self { weight: 1.0, exposed: 1.0, in_base_pages: false, beside: Vec::new() }
    }
}

/// How many misses a core keeps in flight, and how long it thinks between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reach {
    /// Objects of so many lines at random places.
    Objects(f64),
    /// A stream that the prefetcher knows.
    Stream,
    /// So many, with ns of thinking a miss slot.
    Fixed(f64, f64),
}

impl Reach {
    /// Misses in flight and think time in ns of one core.
    pub fn of(self, cores: &Cores) -> (f64, f64) {
        match self {
            Self::Objects(lines) => (cores.in_flight_objects(lines), 0.0),
            Self::Stream => (cores.in_flight_stream, cores.stream_think_ns),
            Self::Fixed(in_flight, think_ns) => (in_flight, think_ns),
        }
    }
}

/// A time in which the pattern stays, or drifts evenly.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// How long; the last phase may have no end.
    pub lasts: Option<Nanos>,
    /// Shares of accesses by memory, most popular first: bytes up to which, and the share.
    pub bands: Vec<(Bytes, f64)>,
    /// Where popular memory lies.
    pub layout: Layout,
    /// How far popularity is moved on at its start, against the layout.
    pub jump: Bytes,
    /// What changes meanwhile.
    pub change: Change,
    /// What accesses to the memory weigh from here on, where not what they did.
    pub weight: Option<f64>,
    /// What a core of the program has in flight from here on, likewise.
    pub reach: Option<Reach>,
}

/// Where popular memory lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// At the start, in one piece.
    Front,
    /// At the end, in one piece: a sweep goes forward, growth adds the most popular.
    Back,
    /// In chunks of this size at random places.
    Scattered(Bytes),
}

/// What changes during a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Nothing.
    None,
    /// Popularity moves on at this rate.
    Drift(BytesPerSec),
    /// Popularity moves on by what is read: a sweep.
    Sweep,
    /// Memory grows at this rate from a start.
    Growth(Bytes, BytesPerSec),
    /// Memory comes at this rate, in the order of addresses, from so long after the start until all is
    /// there; the pattern is that of all.
    Load(Nanos, BytesPerSec),
    /// Pages come and go.
    Churn(Churn),
    /// There is none: what there was is freed. What comes later is loaded.
    Absent,
}

/// Short-lived pages: they are allocated at a rate, in bursts at a multiple of it, and freed after a time. What
/// would be more than all of the memory is not allocated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Churn {
    /// Allocated between bursts.
    pub rate: BytesPerSec,
    /// Times as much in a burst.
    pub burst: f64,
    /// Between the starts of two bursts.
    pub every: Nanos,
    /// How long a burst lasts.
    pub lasts: Nanos,
    /// How long a page lives.
    pub lifetime: Nanos,
}

/// Where pages are put at first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Placement {
    /// In the fastest tier with room, in the order of addresses.
    FirstTouch,
    /// All in one tier, and there they stay.
    Pinned(TierId),
    /// In the fastest tier with room, when a recording first touches them.
    AsTouched,
    /// By hand, as Colloid's best case (2.1): this share of the most popular band in the fastest tier, the
    /// rest of it in the next; what is left of the fastest is filled with the other pages.
    HotShare(f64),
}

impl Program {
    /// Goes by what a phase has otherwise.
    pub fn enter(&mut self, phase: usize) {
        let Phase { weight, reach, .. } = self.phases[phase];
        self.memory.weight = weight.unwrap_or(self.memory.weight);
        self.reach = reach.unwrap_or(self.reach);
    }

    /// What is wrong with it, in words that name the figure.
    pub(super) fn problem(&self) -> Option<String> {
        let fine = |x: f64| x.is_finite() && x >= 0.0;
        if self.bytes == Bytes::ZERO {
            return Some("it has no memory".into());
        }
        let weights = self.phases.iter().filter_map(|phase| phase.weight);
        let weights = weights.map(|weight| ("weight of accesses in a phase", weight));
        let figures = [
            ("threads", self.threads),
            ("lines written per line read", self.writes_per_read),
            ("lines per operation", self.reads_per_op),
            ("weight of accesses", self.memory.weight),
            ("share of latency that is waited for", self.memory.exposed),
        ];
        for (what, x) in figures.into_iter().chain(weights) {
            if !fine(x) {
                return Some(format!("{what}: {x}, expected 0 or more"));
            }
        }
        for (until, share) in self.phases.iter().flat_map(|phase| &phase.bands) {
            if !fine(*share) {
                return Some(format!("share {share} of accesses up to {until}, expected 0 to 1"));
            }
        }
        let timeless = self.phases.iter().any(|phase| phase.lasts == Some(Nanos::ZERO));
        timeless.then(|| "a phase lasts no time".into())
    }
}

impl Phase {
    /// One that never ends and never changes.
    pub fn forever(bands: Vec<(Bytes, f64)>, layout: Layout) -> Self {
        Self {
            lasts: None,
            bands,
            layout,
            jump: Bytes::ZERO,
            change: Change::None,
            weight: None,
            reach: None,
        }
    }

    /// The pattern over `pages` live pages of `size`.
    pub fn pattern(&self, pages: u32, size: PageSize, seed: u64) -> Pattern {
        let mut order = match self.layout {
            Layout::Front => Order::contiguous(pages),
            Layout::Back => Order::reversed(pages),
            Layout::Scattered(chunk) => Order::scattered(pages, pages_of(chunk, size).max(1), seed),
        };
        order.advance(pages_of(self.jump, size) % pages.max(1));
        let band = |&(until, share): &(Bytes, f64)| Band { end: pages_of(until, size), share };
        Pattern::new(order, self.bands.iter().map(band))
    }

    /// Memory that is live at its start, of `all`.
    pub fn live(&self, all: Bytes) -> Bytes {
        match self.change {
            Change::Growth(start, _) => start.min(all),
            _ => all,
        }
    }
}

/// Whole pages in `bytes`, at least one where there are any bytes.
pub fn pages_of(bytes: Bytes, size: PageSize) -> u32 {
    u32::try_from(bytes.0.div_ceil(size.bytes().0)).unwrap_or(u32::MAX)
}
