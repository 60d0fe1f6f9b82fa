// SPDX-License-Identifier: Apache-2.0
//! The program of a workload: memory, threads, and phases of access patterns. The machine adds how many misses
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
    /// Name in reports.
    pub name: String,
    /// Size of its memory when fully grown.
    pub bytes: Bytes,
    /// What backs it.
    pub kind: PageKind,
    /// Number of threads, one per core.
    pub threads: f64,
    /// Parallelism of a core.
    pub reach: Reach,
    /// Lines written back per line read.
    pub writes_per_read: f64,
    /// Lines read per operation.
    pub reads_per_op: f64,
    /// Name of an operation.
    pub unit: &'static str,
    /// Its phases, repeated cyclically.
    pub phases: Vec<Phase>,
    /// Initial placement of its pages.
    pub placement: Placement,
    /// Whether the tiering system manages it.
    pub managed: bool,
    /// Weight of accesses to this memory, and further memory of the same threads.
    pub memory: Memory,
}

/// Properties of one kind of memory among others of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Weight of accesses to it, relative to the program's other memory.
    pub weight: f64,
    /// Share of its latency that threads wait for; prefetching hides the rest.
    pub exposed: f64,
    /// Each huge page represents base pages: it faults, is scanned and is moved like them.
    pub in_base_pages: bool,
    /// Further memory of the same threads. Threads, reach and operations of these entries are ignored.
    pub further: Vec<Program>,
}

impl Default for Memory {
    fn default() -> Self {
        Self { weight: 1.0, exposed: 1.0, in_base_pages: false, further: Vec::new() }
    }
}

/// Number of misses that a core keeps in flight, and its think time between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reach {
    /// Objects of this many lines at random places.
    Objects(f64),
    /// A stream with effective prefetching.
    Stream,
    /// The first of these, with this part of its misses in flight (a program with less to do), and ns of think
    /// time per miss slot.
    ObjectsAt(f64, f64, f64),
    /// A stream with this part of its misses in flight.
    StreamAt(f64),
    /// A fixed number of misses, and ns of think time per miss slot.
    Fixed(f64, f64),
}

impl Reach {
    /// Misses in flight and think time in ns of one core.
    pub fn of(self, cores: &Cores) -> (f64, f64) {
        match self {
            Self::Objects(lines) => (cores.in_flight_objects(lines), 0.0),
            Self::Stream => (cores.in_flight_stream, cores.stream_think_ns),
            Self::ObjectsAt(lines, load, think_ns) => {
                (load * cores.in_flight_objects(lines), think_ns)
            }
            Self::StreamAt(load) => (load * cores.in_flight_stream, cores.stream_think_ns),
            Self::Fixed(in_flight, think_ns) => (in_flight, think_ns),
        }
    }
}

/// A period in which the pattern is constant or changes steadily.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Its duration; the last phase may be endless.
    pub lasts: Option<Nanos>,
    /// Shares of accesses by memory, most popular first: upper end in bytes, and share.
    pub bands: Vec<(Bytes, f64)>,
    /// Location of popular memory.
    pub layout: Layout,
    /// Shift of popularity at the start of the phase, relative to the layout.
    pub jump: Bytes,
    /// Changes during the phase.
    pub change: Change,
    /// New weight of accesses to this memory, if it changes.
    pub weight: Option<f64>,
    /// New parallelism of a core, if it changes.
    pub reach: Option<Reach>,
}

/// Location of popular memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Contiguous at the start.
    Front,
    /// Contiguous at the end: a sweep moves forward, growth adds the most popular memory.
    Back,
    /// In chunks of this size at random places.
    Scattered(Bytes),
}

/// Change during a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Nothing.
    None,
    /// Popularity drifts at this rate.
    Drift(BytesPerSec),
    /// Popularity advances with the memory read: a sweep.
    Sweep,
    /// Memory grows at this rate from an initial size.
    Growth(Bytes, BytesPerSec),
    /// Memory is loaded at this rate, in order of addresses, starting after this delay. The pattern is that of
    /// the complete memory.
    Load(Nanos, BytesPerSec),
    /// Short-lived pages.
    Churn(Churn),
    /// No memory: everything is freed. Later phases load it again.
    Absent,
}

/// Short-lived pages: allocated at a rate, in bursts at a multiple of it, and freed after a lifetime.
/// Allocation stops when all of the memory is in use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Churn {
    /// Allocation rate between bursts.
    pub rate: BytesPerSec,
    /// Factor of the rate during a burst.
    pub burst: f64,
    /// Time between the starts of two bursts.
    pub every: Nanos,
    /// Duration of a burst.
    pub lasts: Nanos,
    /// Lifetime of a page.
    pub lifetime: Nanos,
}

/// Initial placement of pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Placement {
    /// In the fastest tier with room, in order of addresses.
    FirstTouch,
    /// All in one tier, permanently.
    Pinned(TierId),
    /// In the fastest tier with room, at the first access in a recording.
    AsTouched,
    /// Fixed placement, as in Colloid's best case (2.1): this share of the most popular band in the fastest
    /// tier, the rest of it in the next; the rest of the fastest tier is filled with other pages.
    HotShare(f64),
}

impl Program {
    /// Sets the parallelism of a core in all phases.
    pub fn set_reach(&mut self, reach: Reach) {
        self.reach = reach;
        self.phases.iter_mut().for_each(|phase| phase.reach = None);
    }

    /// Applies a phase's weight and reach.
    pub fn enter(&mut self, phase: usize) {
        let Phase { weight, reach, .. } = self.phases[phase];
        self.memory.weight = weight.unwrap_or(self.memory.weight);
        self.reach = reach.unwrap_or(self.reach);
    }

    /// The problem of an invalid program, naming the figure.
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
        timeless.then(|| "a phase must last longer than 0 s".into())
    }
}

impl Phase {
    /// A phase without end and without change.
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

    /// Memory that is live at its start, out of `all`.
    pub fn live(&self, all: Bytes) -> Bytes {
        match self.change {
            Change::Growth(start, _) => start.min(all),
            _ => all,
        }
    }
}

/// Whole pages for `bytes`; at least one unless `bytes` is zero.
pub fn pages_of(bytes: Bytes, size: PageSize) -> u32 {
    u32::try_from(bytes.0.div_ceil(size.bytes().0)).unwrap_or(u32::MAX)
}
