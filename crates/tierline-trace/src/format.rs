// SPDX-License-Identifier: Apache-2.0
//! The format's words and numbers, byte by byte in `docs/trace-format.md`.

/// The first eight bytes: as in PNG, they show a file that was sent as text.
pub const MAGIC: [u8; 8] = *b"\x89TLT\r\n\x1a\n";
/// The version written here, and the only one read.
pub const VERSION: u16 = 1;
/// Bytes of the file's header before the source's text.
pub const HEADER: usize = 16;
/// The longest text that says where a trace is from.
pub const MAX_SOURCE: usize = 4096;
/// Bytes of a block's head.
pub const BLOCK: usize = 32;
/// Of those, the bytes that the checksum covers.
pub const SUMMED: usize = 24;
/// Records of a block at most.
pub const MAX_RECORDS: usize = 1 << 16;
/// Bytes of a block's records at most: a page of ten bytes, two counts of five.
pub const MAX_PLAIN: usize = MAX_RECORDS * 20;
/// Bytes of such a block at most once it is compressed: zstd's bound.
pub const MAX_STORED: usize = MAX_PLAIN + (MAX_PLAIN >> 8) + 64;

/// A block that begins an epoch.
pub const EPOCH: [u8; 4] = *b"EPCH";
/// A block of records.
pub const PAGES: [u8; 4] = *b"PAGE";
/// The block that ends a whole trace.
pub const LAST: [u8; 4] = *b"LAST";

/// What counts are worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Evidence {
    /// Every access to memory was counted.
    #[default]
    Counted,
    /// Some accesses were seen, and each counts for its sampling period.
    Sampled,
    /// Only that a page was touched: counts are the looks that found it so, and say which pages get more
    /// than others, not how many accesses there were.
    Touched,
}

impl Evidence {
    /// Every kind, by its number in a file.
    pub const ALL: [Self; 3] = [Self::Counted, Self::Sampled, Self::Touched];

    /// The word that reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counted => "counted",
            Self::Sampled => "sampled",
            Self::Touched => "touched",
        }
    }
}

/// What holds for all of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// What counts are worth.
    pub evidence: Evidence,
    /// A page has two to the power of this many bytes.
    pub page_bits: u8,
    /// Where it is from, for people.
    pub source: String,
}

impl Header {
    /// A trace of base pages.
    pub fn new(evidence: Evidence, source: impl Into<String>) -> Self {
        Self { evidence, page_bits: 12, source: source.into() }
    }
}

/// A stretch of time in which accesses were added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// How long it was, ns: of real time, or of the converter's modelled clock.
    pub ns: u64,
    /// Accesses before any cache; 0 where that is not known.
    pub accesses: u64,
}

/// A page in an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// Its number: the address over the page's size.
    pub page: u64,
    /// Lines read from memory.
    pub reads: u32,
    /// Lines written to memory.
    pub writes: u32,
}
