// SPDX-License-Identifier: Apache-2.0
//! Sums accesses by page until an epoch ends, then writes the epoch.

use std::io::Write;

use rustc_hash::FxHashMap;

use crate::error::Result;
use crate::format::{Epoch, Record};
use crate::write::Writer;

/// The counts of the present epoch, and the writer of finished ones. Needs memory for the pages of one epoch.
pub struct Tally<W: Write> {
    writer: Writer<W>,
    counts: FxHashMap<(u32, u64), (u32, u32)>,
    accesses: u64,
    length_ns: u64,
    /// Start of the present epoch, ns.
    start: u64,
    sorted: Vec<(u32, Record)>,
    part: Vec<Record>,
}

impl<W: Write> Tally<W> {
    /// Epochs of `length_ns`, starting at time 0.
    pub fn new(writer: Writer<W>, length_ns: u64) -> Self {
        Self {
            writer,
            counts: FxHashMap::default(),
            accesses: 0,
            length_ns: length_ns.max(1),
            start: 0,
            sorted: Vec::new(),
            part: Vec::new(),
        }
    }

    /// Counts lines of a page that were read and written.
    pub fn add(&mut self, space: u32, page: u64, reads: u32, writes: u32) {
        let count = self.counts.entry((space, page)).or_default();
        count.0 = count.0.saturating_add(reads);
        count.1 = count.1.saturating_add(writes);
    }

    /// Counts accesses before any cache.
    pub fn accesses(&mut self, count: u64) {
        self.accesses += count;
    }

    /// Advances the clock to `now`, ns, and writes the epoch if it is over. An interval without any access is
    /// one epoch, whatever its length. If the clock runs backwards, it is taken to stand still.
    ///
    /// # Errors
    /// Those of the writer.
    #[inline]
    pub fn at(&mut self, now: u64) -> Result<()> {
        if now.saturating_sub(self.start) < self.length_ns {
            return Ok(());
        }
        if !self.counts.is_empty() || self.accesses > 0 {
            self.end(self.start.saturating_add(self.length_ns))?;
        }
        let empty = (now - self.start) / self.length_ns * self.length_ns;
        if empty > 0 { self.end(self.start + empty) } else { Ok(()) }
    }

    /// Ends the present epoch at `now` and writes it.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn end(&mut self, now: u64) -> Result<()> {
        let ns = now.saturating_sub(self.start);
        self.writer.epoch(Epoch { ns, accesses: std::mem::take(&mut self.accesses) })?;
        self.start = now.max(self.start);
        self.sorted.clear();
        self.sorted.extend(
            self.counts
                .drain()
                .map(|((space, page), (reads, writes))| (space, Record { page, reads, writes })),
        );
        self.sorted.sort_unstable();
        for run in self.sorted.chunk_by(|a, b| a.0 == b.0) {
            self.part.clear();
            self.part.extend(run.iter().map(|(_, record)| record));
            self.writer.records(run[0].0, &self.part)?;
        }
        Ok(())
    }

    /// Start of the present epoch, ns.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Writes the last epoch, up to `now`, and ends the trace.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(mut self, now: u64) -> Result<W> {
        if !self.counts.is_empty() || self.accesses > 0 || now > self.start {
            self.end(now)?;
        }
        self.writer.finish()
    }
}
