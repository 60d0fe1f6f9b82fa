// SPDX-License-Identifier: Apache-2.0
//! Converters from the formats of other tools.

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

/// Options of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Epoch length, ns. A source with its own epochs keeps them.
    pub epoch_ns: u64,
    /// Caches that raw accesses pass before they reach memory; `None`: all accesses reach memory.
    pub cache: Option<Geometry>,
    /// log2 of the page size in bytes.
    pub page_bits: u8,
}

impl Default for Options {
    fn default() -> Self {
        let cache = Some(Geometry { bytes: 2 << 20, ways: 16 });
        Self { epoch_ns: 100_000_000, cache, page_bits: 12 }
    }
}

/// An input format.
#[derive(Clone, Copy)]
pub struct Format {
    /// Name on the command line.
    pub name: &'static str,
    /// The command that produces it.
    pub about: &'static str,
    /// How its accesses were counted.
    pub evidence: Evidence,
    run: fn(&mut dyn BufRead, &Options, Tally<&mut dyn Write>) -> Result<()>,
}

/// All formats.
pub const FORMATS: &[Format] = &[
    Format {
        name: "damo",
        about: "damo report raw (DAMON regions; one epoch per snapshot)",
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
        about: "libCacheSim's oracleGeneral, plain or zstd (requests to an object cache)",
        evidence: Evidence::Counted,
        run: oracle_general::convert,
    },
];

impl Format {
    /// The format of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// Converts all of `input`. After an error, the output is a complete trace of the part before the error.
    ///
    /// # Errors
    /// `Error::Text` or `Error::Format` if the input is not in this format.
    pub fn convert(
        &self,
        input: &mut dyn BufRead,
        options: &Options,
        out: &mut dyn Write,
    ) -> Result<()> {
        if let Some(cache) = options.cache {
            cache.check().map_err(Error::Usage)?;
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

/// Lines of a text, counted. Bytes that are not UTF-8 are an error.
struct Lines<'a> {
    input: &'a mut dyn BufRead,
    bytes: Vec<u8>,
    line: u64,
}

/// No supported tool writes longer lines.
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

/// Ends the trace even if the conversion failed: what was read is kept.
fn end(result: Result<()>, finished: Result<&mut dyn Write>) -> Result<()> {
    result.and(finished.map(drop))
}
