// SPDX-License-Identifier: Apache-2.0
//! A set of pages of any address spaces: one bit per page, in chunks that are allocated on first use.

use std::collections::BTreeMap;

use crate::format::Record;

const CHUNK_BITS: u32 = 15;
const WORDS: usize = 1 << (CHUNK_BITS - 6);
/// The most chunks, of six kilobytes each: 384 MiB. The densest trace of so many pages needs 4096 of them.
const MOST_CHUNKS: usize = 1 << 16;
/// The most pages: 512 GiB of base pages.
pub const MOST_PAGES: u64 = 1 << 27;

/// The set. Its pages are numbered from 0 by space and address.
#[derive(Clone, Debug, Default)]
pub struct PageSet {
    chunks: BTreeMap<(u32, u64), Chunk>,
    pages: u64,
}

#[derive(Clone, Debug)]
struct Chunk {
    bits: Box<[u64; WORDS]>,
    /// Pages of the set before each word; computed by [`PageSet::number`].
    before: Box<[u32; WORDS]>,
}

impl PageSet {
    /// Adds the pages of a block. False once the pages are in too many places or too many: a file of some kilobytes
    /// can name pages for which no machine has memory.
    #[must_use]
    pub fn insert(&mut self, space: u32, records: &[Record]) -> bool {
        for run in records.chunk_by(|a, b| a.page >> CHUNK_BITS == b.page >> CHUNK_BITS) {
            let chunk = self.chunks.entry((space, run[0].page >> CHUNK_BITS)).or_default();
            self.pages += run.iter().map(|record| u64::from(chunk.add(record.page))).sum::<u64>();
            if self.is_too_large() {
                return false;
            }
        }
        true
    }

    /// Adds one page. Returns whether it is new; `false`, too, once the pages are too many: then nothing is added.
    pub fn add(&mut self, space: u32, page: u64) -> bool {
        if self.is_too_large() {
            return false;
        }
        let new = self.chunks.entry((space, page >> CHUNK_BITS)).or_default().add(page);
        self.pages += u64::from(new);
        new
    }

    fn is_too_large(&self) -> bool {
        self.chunks.len() > MOST_CHUNKS || self.pages > MOST_PAGES
    }

    /// Number of pages.
    pub fn len(&self) -> u64 {
        self.pages
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.pages == 0
    }

    /// Numbers the pages. Numbers above 2^32 - 1 are not valid: check [`PageSet::len`].
    pub fn number(&mut self) {
        let mut pages = 0u32;
        for chunk in self.chunks.values_mut() {
            for (before, bits) in chunk.before.iter_mut().zip(chunk.bits.iter()) {
                *before = pages;
                pages = pages.saturating_add(bits.count_ones());
            }
        }
    }

    /// The number of a page; `None` if it is not in the set.
    pub fn index(&self, space: u32, page: u64) -> Option<u32> {
        let chunk = self.chunks.get(&(space, page >> CHUNK_BITS))?;
        let (word, bit) = place(page);
        let there = chunk.bits[word] & bit != 0;
        there.then(|| chunk.before[word] + (chunk.bits[word] & (bit - 1)).count_ones())
    }

    /// All pages by space and address.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.chunks.iter().flat_map(|(&(space, chunk), Chunk { bits, .. })| {
            let words = (0u64..).zip(bits.iter());
            words.flat_map(move |(word, &bits)| {
                (0..64)
                    .filter(move |bit| bits >> bit & 1 == 1)
                    .map(move |bit| (space, chunk << CHUNK_BITS | word << 6 | bit))
            })
        })
    }
}

impl Default for Chunk {
    fn default() -> Self {
        Self { bits: Box::new([0; WORDS]), before: Box::new([0; WORDS]) }
    }
}

impl Chunk {
    /// Adds a page; whether it is new.
    fn add(&mut self, page: u64) -> bool {
        let (word, bit) = place(page);
        let new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        new
    }
}

/// The word of a chunk that holds a page's bit, and the bit.
fn place(page: u64) -> (usize, u64) {
    let within = page & ((1 << CHUNK_BITS) - 1);
    (usize::try_from(within >> 6).unwrap_or(0), 1 << (within & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_new_once() {
        let mut set = PageSet::default();
        let pages = [0, 1, 63, 64, 1 << CHUNK_BITS, u64::MAX];
        assert!(pages.iter().all(|&page| set.add(1, page) && !set.add(1, page)));
        assert!(set.add(2, 0) && set.len() == 7);
        assert!(set.insert(2, &[Record { page: 5, reads: 1, writes: 0 }]));
        assert!(!set.add(2, 5));
    }
}
