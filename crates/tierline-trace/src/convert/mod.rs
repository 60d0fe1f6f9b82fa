// SPDX-License-Identifier: Apache-2.0
//! Converters: what other tools write, as a trace.

mod damo;
mod dynamorio;
mod lackey;
mod oracle_general;
mod perf;
mod raw;

use std::io::{BufRead, Write};

use crate::cache::Geometry;
use crate::error::{Error, Result};
use crate::format::{Evidence, Header};
use crate::tally::Tally;
use crate::write::Writer;

/// How to convert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Length of an epoch, ns. A source with epochs of its own keeps those.
    pub epoch_ns: u64,
    /// The caches that raw accesses pass before they reach memory; `None`: all reach it.
    pub cache: Option<Geometry>,
    /// A page has two to the power of this many bytes.
    pub page_bits: u8,
}

impl Default for Options {
    fn default() -> Self {
        let cache = Some(Geometry { bytes: 2 << 20, ways: 16 });
        Self { epoch_ns: 100_000_000, cache, page_bits: 12 }
    }
}

/// A format that can be read.
#[derive(Clone, Copy)]
pub struct Format {
    /// The name users type.
    pub name: &'static str,
    /// What writes it.
    pub about: &'static str,
    /// What its counts are worth.
    pub evidence: Evidence,
    run: fn(&mut dyn BufRead, &Options, Tally<&mut dyn Write>) -> Result<()>,
}

/// Every format there is.
pub const FORMATS: &[Format] = &[
    Format {
        name: "damo",
        about: "damo report raw (DAMON regions; an epoch a snapshot)",
        evidence: Evidence::Touched,
        run: damo::convert,
    },
    Format {
        name: "perf",
        about: "perf script -F pid,time,period,event,addr (sampled accesses)",
        evidence: Evidence::Sampled,
        run: perf::convert,
    },
    Format {
        name: "lackey",
        about: "valgrind --tool=lackey --trace-mem=yes (every access)",
        evidence: Evidence::Counted,
        run: |input, options, tally| raw::text(input, options, tally, lackey::read),
    },
    Format {
        name: "dynamorio",
        about: "drrun -t drmemtrace -tool view, which writes to stderr (every access)",
        evidence: Evidence::Counted,
        run: |input, options, tally| raw::text(input, options, tally, dynamorio::read),
    },
    Format {
        name: "oracle-general",
        about: "libCacheSim's oracleGeneral, plain or zstd (requests for objects)",
        evidence: Evidence::Counted,
        run: oracle_general::convert,
    },
];

impl Format {
    /// The format of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// Converts all of `input`. What was converted before an error is written and ends as a whole trace.
    ///
    /// # Errors
    /// `Error::Text` or `Error::Format` where the input is not what that tool writes.
    pub fn convert(
        &self,
        input: &mut dyn BufRead,
        options: &Options,
        out: &mut dyn Write,
    ) -> Result<()> {
        if let Some(cache) = options.cache {
            cache.check().map_err(Error::Asked)?;
        }
        let cache = match options.cache.filter(|_| self.evidence == Evidence::Counted) {
            Some(Geometry { bytes, ways }) => format!("; misses of {bytes} bytes, {ways} ways"),
            None => String::new(),
        };
        let mut header = Header::new(self.evidence, format!("{}{cache}", self.name));
        header.page_bits = options.page_bits;
        (self.run)(input, options, Tally::new(Writer::new(out, &header)?, options.epoch_ns))
    }
}

/// Lines of a text, counted; what is not UTF-8 is replaced.
struct Lines<'a> {
    input: &'a mut dyn BufRead,
    bytes: Vec<u8>,
    line: u64,
}

/// No tool writes longer lines; what is longer is not text.
const LONGEST_LINE: u64 = 1 << 16;

impl<'a> Lines<'a> {
    fn new(input: &'a mut dyn BufRead) -> Self {
        Self { input, bytes: Vec::new(), line: 0 }
    }

    /// The next line without its end, and its number.
    fn next(&mut self) -> Result<Option<(u64, &str)>> {
        use std::io::Read;
        self.bytes.clear();
        self.line += 1;
        let mut limited = (&mut *self.input).take(LONGEST_LINE);
        let read = limited.read_until(b'\n', &mut self.bytes);
        let read = read.map_err(|source| Error::Io { offset: 0, source })?;
        if read as u64 == LONGEST_LINE {
            return Err(Error::text(self.line, "lines of text", "more than 64 KiB without an end"));
        }
        let text = std::str::from_utf8(&self.bytes);
        let text = text.map_err(|_| Error::text(self.line, "text", "bytes that are not UTF-8"))?;
        Ok((read > 0).then(|| (self.line, text.trim_end())))
    }
}

/// Ends a trace whichever way its conversion went: what was read is kept.
fn end(result: Result<()>, finished: Result<&mut dyn Write>) -> Result<()> {
    result.and(finished.map(drop))
}
