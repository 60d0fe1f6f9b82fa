// SPDX-License-Identifier: Apache-2.0
//! The writer: one block at a time.

use std::io::Write;

use xxhash_rust::xxh3::Xxh3;
use zstd::bulk::Compressor;

use crate::error::{Error, Result};
use crate::format::{
    BLOCK, EPOCH, Epoch, HEADER, Header, LAST, MAGIC, MAX_RECORDS, MAX_SOURCE, PAGES, Record,
    SUMMED, VERSION,
};

/// zstd's default. Higher levels gain a few per cent here and take several times as long.
const LEVEL: i32 = 3;
/// Records per block: decoded, they fit a second-level cache.
const PART: usize = 1 << 14;
const _: () = assert!(PART <= MAX_RECORDS);

/// Writes a trace. If the writer is dropped before [`Writer::finish`], the last block is missing, and readers
/// report a truncated trace.
pub struct Writer<W: Write> {
    out: W,
    offset: u64,
    compressor: Compressor<'static>,
    plain: Vec<u8>,
    epochs: u64,
    records: u64,
}

impl<W: Write> Writer<W> {
    /// Starts a trace.
    ///
    /// # Errors
    /// `Error::Usage` for an invalid header; `Error::Io`.
    pub fn new(out: W, header: &Header) -> Result<Self> {
        let source = header.source.as_bytes();
        if !(6..=40).contains(&header.page_bits) || source.len() > MAX_SOURCE {
            let bits = header.page_bits;
            return Err(Error::Usage(format!(
                "pages must have 2^6 to 2^40 bytes and the source at most {MAX_SOURCE} bytes; \
                 found 2^{bits} and {}",
                source.len()
            )));
        }
        let compressor =
            Compressor::new(LEVEL).map_err(|source| Error::Io { offset: 0, source })?;
        let mut bytes = Vec::with_capacity(HEADER + source.len() + 8);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.push(header.evidence as u8);
        bytes.push(header.page_bits);
        bytes.extend(u32::try_from(source.len()).unwrap_or(0).to_le_bytes());
        bytes.extend(source);
        bytes.extend(checksum(&[&bytes]).to_le_bytes());
        let mut writer =
            Self { out, offset: 0, compressor, plain: Vec::new(), epochs: 0, records: 0 };
        writer.put(&bytes)?;
        Ok(writer)
    }

    /// Starts an epoch; its records follow.
    ///
    /// # Errors
    /// `Error::Io`.
    pub fn epoch(&mut self, epoch: Epoch) -> Result<()> {
        self.epochs += 1;
        self.block(EPOCH, epoch.ns, epoch.accesses, &[])
    }

    /// Appends records of a space to the epoch, in rising order of pages within one call.
    ///
    /// # Errors
    /// `Error::Usage` if pages do not rise, or if no epoch has begun; `Error::Io`.
    pub fn records(&mut self, space: u32, records: &[Record]) -> Result<()> {
        if self.epochs == 0 {
            return Err(Error::Usage("records before the first epoch".into()));
        }
        if let Some(pair) = records.windows(2).find(|pair| pair[0].page >= pair[1].page) {
            let [a, b] = [pair[0].page, pair[1].page];
            return Err(Error::Usage(format!("pages must rise within a block: {a:#x}, {b:#x}")));
        }
        records.chunks(PART).try_for_each(|part| self.part(space, part))
    }

    fn part(&mut self, space: u32, records: &[Record]) -> Result<()> {
        self.plain.clear();
        let mut before = 0;
        for record in records {
            varint(&mut self.plain, record.page - before);
            before = record.page;
        }
        records.iter().for_each(|record| varint(&mut self.plain, record.reads.into()));
        records.iter().for_each(|record| varint(&mut self.plain, record.writes.into()));
        let offset = self.offset;
        let stored = self.compressor.compress(&self.plain);
        let stored = stored.map_err(|source| Error::Io { offset, source })?;
        self.records += records.len() as u64;
        let what = u64::from(space) | (records.len() as u64) << 32;
        self.block(PAGES, what, self.plain.len() as u64, &stored)
    }

    fn block(&mut self, kind: [u8; 4], a: u64, b: u64, payload: &[u8]) -> Result<()> {
        let mut head = [0; BLOCK];
        head[..4].copy_from_slice(&kind);
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        head[4..8].copy_from_slice(&length.to_le_bytes());
        head[8..16].copy_from_slice(&a.to_le_bytes());
        head[16..24].copy_from_slice(&b.to_le_bytes());
        let sum = checksum(&[&head[..SUMMED], payload]);
        head[SUMMED..].copy_from_slice(&sum.to_le_bytes());
        self.put(&head)?;
        self.put(payload)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let offset = self.offset;
        self.out.write_all(bytes).map_err(|source| Error::Io { offset, source })?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Ends the trace and returns the output.
    ///
    /// # Errors
    /// `Error::Io`.
    pub fn finish(mut self) -> Result<W> {
        self.block(LAST, self.epochs, self.records, &[])?;
        let offset = self.offset;
        self.out.flush().map_err(|source| Error::Io { offset, source })?;
        Ok(self.out)
    }
}

/// XXH3, 64 bits, of the concatenated parts.
pub(crate) fn checksum(parts: &[&[u8]]) -> u64 {
    let mut hash = Xxh3::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.digest()
}

/// LEB128: seven bits per byte, lowest first, top bit set on all but the last byte.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}
