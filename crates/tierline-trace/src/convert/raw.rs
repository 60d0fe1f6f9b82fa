// SPDX-License-Identifier: Apache-2.0
//! Raw accesses: every load and store with its address, through the caches, on a modelled clock.
//!
//! A tool that sees every access slows a program down hundreds of times, so its own time says nothing. The
//! clock is that of the lab's plugin: an instruction, its cache hits included, and a line from memory.

use std::io::{BufRead, Write};

use crate::cache::{Caches, LINE_BYTES};
use crate::convert::{Lines, Options, end};
use crate::error::Result;
use crate::tally::Tally;

/// An instruction, in ps (ours: 3.3 a ns).
const INSTRUCTION_PS: u64 = 300;
/// A line read from memory, in ps (ours: fast DRAM).
const LINE_PS: u64 = 80_000;
/// No instruction moves more; some tools give whole state saves as one access.
const LONGEST: u64 = 1 << 16;

/// Converts a text of accesses without a time of their own.
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

/// Takes accesses and counts what reaches memory.
pub struct Raw<'a> {
    caches: Option<Caches>,
    tally: Tally<&'a mut dyn Write>,
    page_bits: u8,
    /// The modelled clock, ps.
    clock: u64,
    /// Whether that clock runs; else the source tells the time.
    modelled: bool,
}

impl<'a> Raw<'a> {
    /// With a modelled clock, or with the source's.
    pub fn new(options: &Options, tally: Tally<&'a mut dyn Write>, modelled: bool) -> Self {
        let caches = options.cache.map(Caches::new);
        Self { caches, tally, page_bits: options.page_bits, clock: 0, modelled }
    }

    /// An instruction was executed.
    pub fn instruction(&mut self) {
        self.clock = self.clock.saturating_add(INSTRUCTION_PS);
    }

    /// The source says that it is `now`, ns.
    pub fn at(&mut self, now: u64) -> Result<()> {
        self.clock = now.saturating_mul(1000).max(self.clock);
        self.tally.at(self.clock / 1000)
    }

    /// So many bytes were loaded or stored.
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
