// SPDX-License-Identifier: Apache-2.0
//! libCacheSim's oracleGeneral: requests to an object cache, 24 bytes each, little-endian, plain or in a zstd
//! frame: time in seconds (u32), object (u64), size in bytes (u32), next access (i64, not used).
//!
//! A request reads all lines of its object. Objects are placed as by a slab allocator: pages of a size class,
//! in order of first appearance; size classes are a quarter of a power of two apart. An object whose size
//! changes gets a new place.

use std::io::{BufRead, BufReader, Read, Write};

use rustc_hash::FxHashMap;

use crate::convert::Options;
use crate::convert::raw::Raw;
use crate::error::{Error, Result};
use crate::tally::Tally;

const REQUEST: usize = 24;
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const SECOND_NS: u64 = 1_000_000_000;
/// Memory that a size class allocates at a time, as in memcached.
const SLAB: u64 = 1 << 20;
/// At most this much of an object is read: larger reads would be scans of memory.
const LARGEST: u32 = 1 << 20;

pub fn convert(
    input: &mut dyn BufRead,
    options: &Options,
    tally: Tally<&mut dyn Write>,
) -> Result<()> {
    let start = input.fill_buf().map_err(|source| Error::Io { offset: 0, source })?;
    let compressed = start.starts_with(&ZSTD);
    let mut raw = Raw::new(options, tally, false);
    let result = if compressed {
        zstd::stream::Decoder::with_buffer(input)
            .map_err(|source| Error::Io { offset: 0, source })
            .and_then(|decoder| read(&mut BufReader::new(decoder), &mut raw))
    } else {
        read(input, &mut raw)
    };
    raw.finish(result)
}

fn read(input: &mut dyn BufRead, raw: &mut Raw<'_>) -> Result<()> {
    let mut places = Places::default();
    let (mut offset, mut first) = (0, None);
    loop {
        let mut request = Vec::with_capacity(REQUEST);
        let got = (&mut *input).take(REQUEST as u64).read_to_end(&mut request);
        let got = got.map_err(|source| Error::Io { offset, source })?;
        let Ok(request) = <[u8; REQUEST]>::try_from(request) else {
            return match got {
                0 => Ok(()),
                _ => Err(Error::format(offset, "a request of 24 bytes", format!("{got} bytes"))),
            };
        };
        let part = |at: usize| std::array::from_fn(|i| request[at + i]);
        let seconds = u64::from(u32::from_le_bytes(part(0)));
        let bytes = u32::from_le_bytes(std::array::from_fn(|i| request[12 + i]));
        let object = u64::from_le_bytes(std::array::from_fn(|i| request[4 + i]));
        let first = *first.get_or_insert(seconds);
        raw.at(seconds.saturating_sub(first) * SECOND_NS)?;
        // libCacheSim also ignores objects of size 0.
        if bytes > 0 {
            let bytes = bytes.min(LARGEST);
            let place = places.of(object, bytes);
            for at in (0..bytes).step_by(64) {
                raw.access(place + u64::from(at), 1, false)?;
            }
        }
        offset += REQUEST as u64;
    }
}

/// Addresses of objects.
#[derive(Default)]
struct Places {
    known: FxHashMap<u64, (u64, u64)>,
    /// For each size class: the next free address and the end of its last slab.
    classes: FxHashMap<u64, (u64, u64)>,
    end: u64,
}

impl Places {
    fn of(&mut self, object: u64, bytes: u32) -> u64 {
        let size = class(bytes.into());
        if let Some(&(place, known)) = self.known.get(&object)
            && known == size
        {
            return place;
        }
        let (next, end) = self.classes.entry(size).or_default();
        if *next + size > *end {
            (*next, *end) = (self.end, self.end + SLAB.max(size));
            self.end = *end;
        }
        let place = *next;
        *next += size;
        self.known.insert(object, (place, size));
        place
    }
}

/// The size class: multiples of a quarter of the next lower power of two, at least a line.
fn class(bytes: u64) -> u64 {
    let step = (bytes.max(64).next_power_of_two() / 8).max(16);
    bytes.max(64).div_ceil(step) * step
}
