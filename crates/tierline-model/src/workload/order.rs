// SPDX-License-Identifier: Apache-2.0
//! The mapping between pages and popularity ranks: a bijection in constant time and memory.
//!
//! Popularity depends on rank; the order determines where popular pages are in memory. Chunks of pages keep
//! their inner order, as objects and slabs do. They are shuffled by a Feistel network whose round function is a
//! hash of the seed. Numbers beyond the last chunk are skipped by cycle walking (Black and Rogaway 2002), at
//! most one in two.

use tierline_core::rng::Rng;

const ROUNDS: usize = 4;

/// Mapping from pages to ranks and back.
#[derive(Clone, Debug)]
pub struct Order {
    pages: u32,
    /// log2 of the pages per chunk.
    chunk_bits: u32,
    shuffle: Option<Shuffle>,
    listed: Option<Listed>,
    reversed: bool,
    /// Added to every rank, modulo the number of pages: the drift of popularity so far.
    offset: u32,
}

impl Order {
    /// Ranks in order of addresses.
    pub fn contiguous(pages: u32) -> Self {
        Self { pages, chunk_bits: 0, shuffle: None, listed: None, reversed: false, offset: 0 }
    }

    /// The last page has rank 0: for growth and sweeps, the newest page is at the end.
    pub fn reversed(pages: u32) -> Self {
        Self { reversed: true, ..Self::contiguous(pages) }
    }

    /// Chunks of `chunk` pages, rounded down to a power of two, in shuffled order. Pages at the end that do not
    /// fill a chunk stay at the end.
    pub fn scattered(pages: u32, chunk: u32, seed: u64) -> Self {
        let chunk_bits = chunk.clamp(1, pages.max(1)).ilog2();
        let shuffle = Some(Shuffle::new(pages >> chunk_bits, seed));
        Self { chunk_bits, shuffle, ..Self::contiguous(pages) }
    }

    /// The pages of `first` in this order, then all others by address. `first` has no duplicates.
    pub fn listed(pages: u32, first: impl Iterator<Item = u32>) -> Self {
        let mut ranks = vec![u32::MAX; pages as usize];
        let mut order: Vec<u32> = first.filter(|&page| page < pages).collect();
        (0..).zip(&order).for_each(|(rank, &page)| ranks[page as usize] = rank);
        for (page, rank) in (0..).zip(&mut ranks).filter(|(_, rank)| **rank == u32::MAX) {
            *rank = u32::try_from(order.len()).unwrap_or(u32::MAX);
            order.push(page);
        }
        Self { listed: Some(Listed { order, ranks }), ..Self::contiguous(pages) }
    }

    /// Number of pages.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Whether ranks fall with rising addresses.
    pub fn is_reversed(&self) -> bool {
        self.reversed
    }

    /// The first page after `page` whose rank may not continue the sequence: ranks are consecutive within a
    /// chunk, except where the drift wraps.
    pub fn end_of_chunk(&self, page: u32) -> u32 {
        if let Some(Listed { ranks, .. }) = &self.listed {
            let rest = ranks[page as usize..].windows(2);
            let row = rest.take_while(|pair| pair[1] == pair[0].wrapping_add(1)).count();
            return page + 1 + u32::try_from(row).unwrap_or(0);
        }
        let end = match self.shuffle {
            Some(_) => (page | ((1 << self.chunk_bits) - 1)).saturating_add(1),
            None => self.pages,
        };
        end.min(self.pages)
    }

    /// Advances popularity by this many ranks.
    pub fn advance(&mut self, ranks: u32) {
        self.offset = self.around(u64::from(self.offset) + u64::from(ranks));
    }

    /// The rank of a page.
    pub fn rank(&self, page: u32) -> u32 {
        debug_assert!(page < self.pages);
        if let Some(listed) = &self.listed {
            return listed.ranks[page as usize];
        }
        let placed = match &self.shuffle {
            Some(shuffle) if page >> self.chunk_bits < shuffle.chunks => {
                shuffle.forth(page >> self.chunk_bits) << self.chunk_bits | self.within(page)
            }
            _ if self.reversed => self.pages - 1 - page,
            _ => page,
        };
        self.around(u64::from(placed) + u64::from(self.offset))
    }

    /// The page of a rank.
    pub fn page(&self, rank: u32) -> u32 {
        debug_assert!(rank < self.pages);
        if let Some(listed) = &self.listed {
            return listed.order[rank as usize];
        }
        let placed = self.around(u64::from(rank) + u64::from(self.pages - self.offset));
        match &self.shuffle {
            Some(shuffle) if placed >> self.chunk_bits < shuffle.chunks => {
                shuffle.back(placed >> self.chunk_bits) << self.chunk_bits | self.within(placed)
            }
            _ if self.reversed => self.pages - 1 - placed,
            _ => placed,
        }
    }

    /// Adds pages at the end. Requires an order without offset and shuffle.
    pub(super) fn grow(&mut self, pages: u32) {
        debug_assert!(self.shuffle.is_none() && self.offset == 0);
        self.pages += pages;
    }

    fn within(&self, page: u32) -> u32 {
        page & ((1 << self.chunk_bits) - 1)
    }

    fn around(&self, rank: u64) -> u32 {
        let pages = u64::from(self.pages.max(1));
        // At most twice the number of pages, so a subtraction replaces a division.
        let rank = if rank >= pages { rank - pages } else { rank };
        u32::try_from(rank).unwrap_or(0)
    }
}

/// An explicit order, in both directions.
#[derive(Clone, Debug)]
struct Listed {
    order: Vec<u32>,
    ranks: Vec<u32>,
}

/// A permutation of `0..chunks`.
#[derive(Clone, Debug)]
struct Shuffle {
    chunks: u32,
    low_bits: u32,
    high_bits: u32,
    keys: [u32; ROUNDS],
}

impl Shuffle {
    fn new(chunks: u32, seed: u64) -> Self {
        let bits = (32 - chunks.saturating_sub(1).leading_zeros()).max(2);
        let mut rng = Rng::new(seed);
        let keys = std::array::from_fn(|_| u32::try_from(rng.next_u64() >> 32).unwrap_or(0) | 1);
        Self { chunks, low_bits: bits / 2, high_bits: bits - bits / 2, keys }
    }

    fn forth(&self, mut x: u32) -> u32 {
        loop {
            let (mut low, mut high) = self.halves(x);
            for round in 0..ROUNDS {
                match round % 2 {
                    0 => high ^= self.mix(low, round) & ((1 << self.high_bits) - 1),
                    _ => low ^= self.mix(high, round) & ((1 << self.low_bits) - 1),
                }
            }
            x = high << self.low_bits | low;
            if x < self.chunks {
                return x;
            }
        }
    }

    fn back(&self, mut x: u32) -> u32 {
        loop {
            let (mut low, mut high) = self.halves(x);
            for round in (0..ROUNDS).rev() {
                match round % 2 {
                    0 => high ^= self.mix(low, round) & ((1 << self.high_bits) - 1),
                    _ => low ^= self.mix(high, round) & ((1 << self.low_bits) - 1),
                }
            }
            x = high << self.low_bits | low;
            if x < self.chunks {
                return x;
            }
        }
    }

    fn halves(&self, x: u32) -> (u32, u32) {
        (x & ((1 << self.low_bits) - 1), x >> self.low_bits)
    }

    /// Multiply, fold, multiply, with a key: fast; it only needs to look random to statistics.
    fn mix(&self, x: u32, round: usize) -> u32 {
        let once = u64::from(x ^ self.keys[round]).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let twice = (once ^ (once >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        u32::try_from(twice >> 40).unwrap_or(0) // 16 bits of the upper half suffice
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranks_and_pages_are_a_bijection(
            pages in 1u32..5_000, chunk in 1u32..600, seed: u64, moved in 0u32..5_000,
        ) {
            let mut order = Order::scattered(pages, chunk, seed);
            order.advance(moved % pages);
            let mut seen = vec![false; pages as usize];
            for page in 0..pages {
                let rank = order.rank(page);
                prop_assert!(!std::mem::replace(&mut seen[rank as usize], true));
                prop_assert_eq!(order.page(rank), page);
            }
        }
    }

    #[test]
    fn a_listed_order_is_kept() {
        let order = Order::listed(6, [4, 5, 1].into_iter());
        assert_eq!((0..6).map(|rank| order.page(rank)).collect::<Vec<_>>(), [4, 5, 1, 0, 2, 3]);
        assert!((0..6).all(|page| order.page(order.rank(page)) == page));
        assert_eq!([0, 1, 2, 4].map(|page| order.end_of_chunk(page)), [1, 2, 4, 6]);
    }

    /// About half of a scattered half is in each half of memory.
    #[test]
    fn a_shuffle_looks_random() {
        let order = Order::scattered(36_864, 1, 1);
        let low = (0..18_432).filter(|&rank| order.page(rank) < 18_432).count();
        assert!((8_900..9_532).contains(&low), "{low}");
        let next = (1..36_864).filter(|&rank| order.page(rank) == order.page(rank - 1) + 1).count();
        assert!(next < 10, "{next} neighbours stayed neighbours");
    }
}
