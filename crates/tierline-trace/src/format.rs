// SPDX-License-Identifier: Apache-2.0
//! Constants and types of the format. `docs/design/trace-format.md` describes it byte by byte.

/// The first eight bytes. As in PNG, they reveal a transfer in text mode.
pub const MAGIC: [u8; 8] = *b"\x89TLT\r\n\x1a\n";
/// The version written here, and the only one read.
pub const VERSION: u16 = 1;
/// Size of the file header before the source text.
pub const HEADER: usize = 16;
/// Maximum length of the source text.
pub const MAX_SOURCE: usize = 4096;
/// Size of a block header.
pub const BLOCK: usize = 32;
/// Of these, the bytes covered by the checksum.
pub const SUMMED: usize = 24;
/// Maximum number of records in a block.
pub const MAX_RECORDS: usize = 1 << 16;
/// Maximum size of a block's records: ten bytes for a page, five for each of two counts.
pub const MAX_PLAIN: usize = MAX_RECORDS * 20;
/// Maximum size of a compressed block: zstd's bound.
pub const MAX_STORED: usize = MAX_PLAIN + (MAX_PLAIN >> 8) + 64;

/// Starts an epoch.
pub const EPOCH: [u8; 4] = *b"EPCH";
/// Holds records.
pub const PAGES: [u8; 4] = *b"PAGE";
/// Ends a complete trace.
pub const LAST: [u8; 4] = *b"LAST";

/// How accesses were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Evidence {
    /// Every access to memory was counted.
    #[default]
    Counted,
    /// Accesses were sampled; each sample counts for its sampling period.
    Sampled,
    /// Only touched pages are known. A count is the number of scans that found the page accessed: counts rank
    /// pages, but are not numbers of accesses.
    Touched,
}

impl Evidence {
    /// All kinds, in the order of their numbers in a file.
    pub const ALL: [Self; 3] = [Self::Counted, Self::Sampled, Self::Touched];

    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counted => "counted",
            Self::Sampled => "sampled",
            Self::Touched => "touched",
        }
    }
}

/// Properties of a whole trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// How accesses were counted.
    pub evidence: Evidence,
    /// log2 of the page size in bytes.
    pub page_bits: u8,
    /// Where the trace comes from, for people.
    pub source: String,
}

impl Header {
    /// A trace of base pages.
    pub fn new(evidence: Evidence, source: impl Into<String>) -> Self {
        Self { evidence, page_bits: 12, source: source.into() }
    }
}

/// An interval for which accesses were summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// Length in ns: real time, or the converter's modelled clock.
    pub ns: u64,
    /// Accesses before any cache; 0 if unknown.
    pub accesses: u64,
}

/// A page in an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// Page number: address divided by page size.
    pub page: u64,
    /// Lines read from memory.
    pub reads: u32,
    /// Lines written to memory.
    pub writes: u32,
}
