// SPDX-License-Identifier: Apache-2.0
//! service: a server whose load comes in waves.
//!
//! What it does: threads read objects, all equally popular unless there is a skew; with `stream`, they read in
//! sequence, as inference reads a model's weights. After `busy`, the load falls to `calm_load` for `calm`, again
//! and again: 0 is idle, 0.9 a tenth less. Or it starts with `start_set` of its memory, and grows.
//! Where it comes from: Mercury (2.3, 5): Redis and VectorDB are sensitive to latency; llama.cpp needs bandwidth, and
//! is idle between two requests. That a server reads at random and inference in sequence is ours.

use tierline_core::port::PageKind;
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};

use super::knob::{
    MAX_OBJECT, MAX_RATE, MAX_SET, MAX_THREADS, MAX_TIME, MIN_SET, MIN_TIME, gib, program_knobs,
};
use super::kv::{lines, zipf};
use super::program::{Change, Layout, Memory, Phase, Placement, Program, Reach};

program_knobs! {
    /// Its knobs.
    pub struct Service {
        /// All memory.
        set: Bytes = gib(20), MIN_SET, MAX_SET;
        /// The exponent of Zipf's law; 0: all memory is equally popular.
        skew: f64 = 0.0, 0.0, 3.0;
        /// Size of an object.
        object: Bytes = Bytes(64), Bytes(1), MAX_OBJECT;
        /// Whether it reads in sequence: 0 or 1.
        stream: u32 = 0, 0, 1;
        /// Time that a thread computes per access, if it does not stream.
        compute: Nanos = Nanos::ZERO, Nanos::ZERO, MAX_TIME;
        /// Threads.
        threads: f64 = 4.0, 0.0, MAX_THREADS;
        /// Share of objects that are updated.
        updates: f64 = 0.0, 0.0, 1.0;
        /// Time until the load falls; none: never.
        busy: Option<Nanos> = None, Some(MIN_TIME), Some(MAX_TIME);
        /// Time until it rises again.
        calm: Nanos = Nanos::from_secs(10), MIN_TIME, MAX_TIME;
        /// Load in the meantime, as a share of the full load.
        calm_load: f64 = 0.0, 0.0, 1.0;
        /// Memory until it grows; none: all from the start.
        start_set: Option<Bytes> = None, Some(MIN_SET), Some(MAX_SET);
        /// Time at which it starts to grow.
        grow_at: Nanos = Nanos::from_secs(60), MIN_TIME, MAX_TIME;
        /// Growth rate.
        growth: BytesPerSec = BytesPerSec(1 << 30), BytesPerSec(0), MAX_RATE;
        /// Granularity: contiguous memory of equal popularity.
        chunk: Bytes = Bytes::from_mib(2), MIN_SET, MAX_SET;
    }
}

impl Service {
    /// The program.
    pub fn program(self) -> Result<Program, String> {
        let lines = lines(self.object);
        let bands = match self.skew > 0.0 {
            true => zipf(self.set, self.chunk, self.skew),
            false => vec![(self.set, 1.0)],
        };
        let think_ns = self.compute.as_secs_f64() * 1e9;
        let reach = |load| match self.stream {
            0 => Reach::ObjectsAt(lines, load, think_ns),
            _ => Reach::StreamAt(load),
        };
        // Memory can grow only at the end of a contiguous layout.
        let layout = match self.start_set {
            Some(_) => Layout::Front,
            None => Layout::Scattered(self.chunk),
        };
        let phase = |lasts, load| Phase {
            lasts,
            reach: Some(reach(load)),
            ..Phase::forever(bands.clone(), layout)
        };
        let full = phase(self.busy, 1.0);
        let grows = |lasts, start, rate| Phase {
            lasts,
            change: Change::Growth(start, rate),
            ..full.clone()
        };
        let phases = match (self.busy, self.start_set) {
            (Some(_), Some(_)) => return Err("give busy or start_set, not both".into()),
            (Some(_), None) => vec![full.clone(), phase(Some(self.calm), self.calm_load)],
            (None, Some(start)) => vec![
                grows(Some(self.grow_at), start, BytesPerSec(0)),
                grows(None, start, self.growth),
            ],
            (None, None) => vec![full],
        };
        Ok(Program {
            name: "service".into(),
            bytes: self.set,
            kind: PageKind::Anonymous,
            threads: self.threads,
            reach: reach(1.0),
            writes_per_read: self.updates,
            reads_per_op: lines,
            unit: "requests",
            phases,
            placement: Placement::FirstTouch,
            managed: true,
            memory: Memory::default(),
        })
    }
}
