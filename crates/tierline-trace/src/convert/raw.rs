// SPDX-License-Identifier: Apache-2.0
//! Raw accesses: every load and store with its address, filtered by caches, timed by a modelled clock.
//!
//! A tool that records every access slows a program down hundreds of times, so real time is meaningless. The
//! modelled clock is that of the lab's plugin: a fixed time per instruction, including cache hits, and per line
//! read from memory.

use std::io::{BufRead, Write};

use crate::cache::{Caches, LINE_BYTES};
use crate::convert::{Lines, Options, end};
use crate::error::Result;
use crate::tally::Tally;

/// Time per instruction, ps (ours: 3.3 instructions per ns).
const INSTRUCTION_PS: u64 = 300;
/// Time per line read from memory, ps (ours: fast DRAM).
const LINE_PS: u64 = 80_000;
/// No instruction accesses more bytes; some tools report whole state saves as one access.
const LONGEST: u64 = 1 << 16;

/// Converts a text of accesses without times.
pub fn text(
    input: &mut dyn BufRead,
    options: &Options,
    tally: Tally<&mut dyn Write>,
    read: impl FnOnce(&mut Lines<'_>, &mut Raw<'_>) -> Result<()>,
) -> Result<()> {
    let mut raw = Raw::new(options, tally, true);
    let result = read(&mut Lines::new(input), &mut raw);
    raw.finish(result)
}

/// Takes accesses and counts those that reach memory.
pub struct Raw<'a> {
    caches: Option<Caches>,
    tally: Tally<&'a mut dyn Write>,
    page_bits: u8,
    /// The clock, ps.
    clock: u64,
    /// Whether the clock is modelled; otherwise the source provides times.
    modelled: bool,
}

impl<'a> Raw<'a> {
    /// With a modelled clock, or with the times of the source.
    pub fn new(options: &Options, tally: Tally<&'a mut dyn Write>, modelled: bool) -> Self {
        let caches = options.cache.map(Caches::new);
        Self { caches, tally, page_bits: options.page_bits, clock: 0, modelled }
    }

    /// Advances the modelled clock by one instruction.
    pub fn instruction(&mut self) {
        self.clock = self.clock.saturating_add(INSTRUCTION_PS);
    }

    /// Sets the clock to the source's time, ns.
    pub fn at(&mut self, now: u64) -> Result<()> {
        self.clock = now.saturating_mul(1000).max(self.clock);
        self.tally.at(self.clock / 1000)
    }

    /// A load or store of `bytes` bytes.
    pub fn access(&mut self, address: u64, bytes: u64, store: bool) -> Result<()> {
        let last = address.saturating_add(bytes.clamp(1, LONGEST) - 1) / LINE_BYTES;
        self.tally.accesses(1);
        for line in address / LINE_BYTES..=last {
            self.line(line * LINE_BYTES, store);
        }
        if self.modelled { self.tally.at(self.clock / 1000) } else { Ok(()) }
    }

    fn line(&mut self, address: u64, store: bool) {
        let (read, written) = match &mut self.caches {
            Some(caches) => {
                let effect = caches.access(address, store);
                (effect.read, effect.written)
            }
            None => (!store, store.then_some(address)),
        };
        if read {
            self.tally.add(0, address >> self.page_bits, 1, 0);
            self.clock += if self.modelled { LINE_PS } else { 0 };
        }
        if let Some(address) = written {
            self.tally.add(0, address >> self.page_bits, 0, 1);
        }
    }

    /// Ends the trace.
    pub fn finish(self, result: Result<()>) -> Result<()> {
        end(result, self.tally.finish(self.clock / 1000))
    }
}
