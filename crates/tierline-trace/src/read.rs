// SPDX-License-Identifier: Apache-2.0
//! The reader: one block at a time, each verified before use.

use std::io::{ErrorKind, Read};

use zstd::bulk::Decompressor;

use crate::error::{Error, Result};
use crate::format::{
    BLOCK, EPOCH, Epoch, Evidence, HEADER, Header, LAST, MAGIC, MAX_PLAIN, MAX_RECORDS, MAX_SOURCE,
    MAX_STORED, PAGES, Record, SUMMED, VERSION,
};
use crate::write::checksum;

/// A part of a trace.
#[derive(Debug, PartialEq, Eq)]
pub enum Block<'a> {
    /// An epoch begins.
    Epoch(Epoch),
    /// Pages of a space in this epoch, in rising order.
    Pages {
        /// The address space: usually a process.
        space: u32,
        /// Its pages.
        records: &'a [Record],
    },
}

/// Reads a trace.
pub struct Reader<R: Read> {
    input: R,
    header: Header,
    offset: u64,
    decompressor: Decompressor<'static>,
    stored: Vec<u8>,
    plain: Vec<u8>,
    records: Vec<Record>,
    counted: (u64, u64),
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// `Error::Format` if it is not the header of a trace.
    pub fn new(input: R) -> Result<Self> {
        let decompressor = Decompressor::new().map_err(|source| Error::Io { offset: 0, source })?;
        let mut reader = Self {
            input,
            header: Header::new(Evidence::Counted, ""),
            offset: 0,
            decompressor,
            stored: Vec::new(),
            plain: Vec::new(),
            records: Vec::new(),
            counted: (0, 0),
            ended: false,
        };
        reader.header = reader.read_header()?;
        Ok(reader)
    }

    /// Properties of the whole trace.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Bytes read so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn read_header(&mut self) -> Result<Header> {
        let mut fixed = [0; HEADER];
        self.fill(&mut fixed, "the header of a trace")?;
        let [m0, m1, m2, m3, m4, m5, m6, m7, v0, v1, evidence, page_bits, l0, l1, l2, l3] = fixed;
        let magic = [m0, m1, m2, m3, m4, m5, m6, m7];
        if magic != MAGIC {
            let found = String::from_utf8_lossy(&magic).escape_debug().to_string();
            return Err(Error::format(0, "a Tierline trace (\\x89TLT...)", found));
        }
        let version = u16::from_le_bytes([v0, v1]);
        if version != VERSION {
            return Err(Error::format(8, format!("version {VERSION}"), version));
        }
        let known = Evidence::ALL.get(usize::from(evidence)).copied();
        let evidence = known.ok_or_else(|| Error::format(10, "evidence 0, 1 or 2", evidence))?;
        if !(6..=40).contains(&page_bits) {
            return Err(Error::format(11, "6 to 40 bits of a page", page_bits));
        }
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if length > MAX_SOURCE {
            return Err(Error::format(12, format!("a text of {MAX_SOURCE} bytes at most"), length));
        }
        let mut text = vec![0; length];
        self.fill(&mut text, "the source text")?;
        let mut sum = [0; 8];
        let at = self.offset;
        self.fill(&mut sum, "the header's checksum")?;
        check(at, u64::from_le_bytes(sum), &[&fixed, &text])?;
        let source =
            String::from_utf8(text).map_err(|_| Error::format(16, "UTF-8", "other bytes"))?;
        Ok(Header { evidence, page_bits, source })
    }

    /// The next block; `None` at the proper end of the trace. After an error no more blocks follow; those
    /// before it are valid.
    ///
    /// # Errors
    /// `Error::Format` with the offset of the error; `Error::Io`.
    #[expect(clippy::should_implement_trait, reason = "a block borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<Block<'_>>> {
        if self.ended {
            return Ok(None);
        }
        self.ended = true;
        let start = self.offset;
        let mut head = [0; BLOCK];
        self.fill(&mut head, "a block")?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
        let kind = [head[0], head[1], head[2], head[3]];
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let most = if kind == PAGES { MAX_STORED } else { 0 };
        if ![EPOCH, PAGES, LAST].contains(&kind) {
            let found = String::from_utf8_lossy(&kind).escape_debug().to_string();
            return Err(Error::format(start, "a block EPCH, PAGE or LAST", found));
        }
        if length > most {
            return Err(Error::format(start + 4, format!("{most} bytes at most"), length));
        }
        let mut stored = std::mem::take(&mut self.stored);
        stored.resize(length, 0);
        let filled = self.fill(&mut stored, "the rest of a block");
        self.stored = stored;
        filled?;
        check(start + SUMMED as u64, word(SUMMED), &[&head[..SUMMED], &self.stored])?;
        match kind {
            EPOCH => {
                self.ended = false;
                self.counted.0 += 1;
                Ok(Some(Block::Epoch(Epoch { ns: word(8), accesses: word(16) })))
            }
            PAGES => {
                let space = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
                let count = word(8) >> 32;
                self.unpack(start, count, word(16))?;
                self.ended = false;
                self.counted.1 += count;
                Ok(Some(Block::Pages { space, records: &self.records }))
            }
            _ if (word(8), word(16)) == self.counted => Ok(None),
            _ => {
                let (epochs, records) = self.counted;
                let expected = format!("the end of {epochs} epochs and {records} records");
                let found = format!("that of {} and {}", word(8), word(16));
                Err(Error::format(start + 8, expected, found))
            }
        }
    }

    /// Decompresses and decodes the block just read.
    fn unpack(&mut self, start: u64, count: u64, plain: u64) -> Result<()> {
        let fits = |n: u64, most: usize| usize::try_from(n).ok().filter(|&n| n <= most);
        if self.counted.0 == 0 {
            return Err(Error::format(start, "an epoch before records", "records"));
        }
        let records = fits(count, MAX_RECORDS).ok_or_else(|| {
            Error::format(start + 12, format!("{MAX_RECORDS} records at most"), count)
        })?;
        let length = fits(plain, MAX_PLAIN).ok_or_else(|| {
            Error::format(start + 16, format!("{MAX_PLAIN} bytes at most"), plain)
        })?;
        self.plain.resize(length, 0);
        let body = start + BLOCK as u64;
        let got = self.decompressor.decompress_to_buffer(&self.stored, &mut self.plain[..]);
        match got {
            Ok(got) if got == length => {}
            Ok(got) => return Err(Error::format(body, format!("{length} bytes unpacked"), got)),
            Err(error) => return Err(Error::format(body, "a zstd frame", error)),
        }
        decode(&self.plain, records, &mut self.records)
            .map_err(|what| Error::format(body, what, "other columns"))
    }

    fn fill(&mut self, bytes: &mut [u8], expected: &str) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match self.input.read(&mut bytes[done..]) {
                Ok(0) => {
                    let offset = self.offset + done as u64;
                    return Err(Error::format(offset, expected, "the end of the file"));
                }
                Ok(n) => done += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(Error::Io { offset: self.offset + done as u64, source });
                }
            }
        }
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

fn check(offset: u64, expected: u64, parts: &[&[u8]]) -> Result<()> {
    let found = checksum(parts);
    if found == expected {
        return Ok(());
    }
    Err(Error::format(offset, format!("checksum {expected:016x}"), format!("{found:016x}")))
}

/// Three columns of `count` numbers: differences of page numbers, reads, writes.
fn decode(bytes: &[u8], count: usize, records: &mut Vec<Record>) -> Result<(), &'static str> {
    records.clear();
    records.resize(count, Record::default());
    let mut rest = bytes;
    let mut page = 0u64;
    let mut rises = true;
    let mut first = true;
    rest = column(rest, records, |record, step| {
        rises &= first | (step > 0);
        first = false;
        let (next, wrapped) = page.overflowing_add(step);
        rises &= !wrapped;
        page = next;
        record.page = page;
    })
    .ok_or("a column of pages")?;
    if !rises {
        return Err("rising page numbers");
    }
    let mut high = 0;
    #[expect(clippy::cast_possible_truncation, reason = "overflow is checked below")]
    let mut low = |value: u64| {
        high |= value >> 32;
        value as u32
    };
    rest = column(rest, records, |record, n| record.reads = low(n)).ok_or("a column of reads")?;
    rest = column(rest, records, |record, n| record.writes = low(n)).ok_or("a column of writes")?;
    match (high, rest.is_empty()) {
        (0, true) => Ok(()),
        (0, false) => Err("exactly three columns"),
        _ => Err("counts below 2^32"),
    }
}

/// Decodes one number per record. Most are below 128, one byte each: eight of them are decoded at once.
#[inline]
fn column<'a>(
    bytes: &'a [u8],
    records: &mut [Record],
    mut put: impl FnMut(&mut Record, u64),
) -> Option<&'a [u8]> {
    const MORE: u64 = 0x8080_8080_8080_8080;
    let (mut at, mut done) = (0, 0);
    while done < records.len() {
        if let (Some(eight), Some(targets)) =
            (bytes.get(at..at + 8), records.get_mut(done..done + 8))
            && let Ok(eight) = <[u8; 8]>::try_from(eight)
            && u64::from_le_bytes(eight) & MORE == 0
        {
            targets.iter_mut().zip(eight).for_each(|(record, byte)| put(record, byte.into()));
            (at, done) = (at + 8, done + 8);
            continue;
        }
        let end = records.len().min(done + 8);
        for record in &mut records[done..end] {
            let (value, length) = varint(&bytes[at..])?;
            put(record, value);
            at += length;
        }
        done = end;
    }
    bytes.get(at..)
}

/// A LEB128 number and its length; `None` if it is truncated or exceeds 64 bits.
#[inline]
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (at, &byte) in bytes.iter().take(10).enumerate() {
        if at == 9 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Some((value, at + 1));
        }
    }
    None
}
