// SPDX-License-Identifier: Apache-2.0
//! H3 hashing (Ramakrishna, Fu, Bahcekapili 1997; equation 5 of the paper): the hash of a page is the XOR of
//! one seed per set bit. A narrower sketch uses the low bits of the same seeds.

use crate::config::LANES_MAX;

/// Seeds by lane and bit of the page number. Ours: splitmix64 (Steele, Lea, Flood 2014) from 0, upper halves.
pub const SEEDS: [[u32; 32]; LANES_MAX] = seeds();

const fn seeds() -> [[u32; 32]; LANES_MAX] {
    let (mut table, mut state, mut i) = ([[0; 32]; LANES_MAX], 0u64, 0);
    while i < LANES_MAX * 32 {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        table[i / 32][i % 32] = ((z ^ (z >> 31)) >> 32) as u32;
        i += 1;
    }
    table
}

/// The index of `page` in `lane`, computed bit by bit from the definition.
pub fn h3(lane: usize, page: u32, width_log2: u32) -> u32 {
    let mut hash = 0;
    for (bit, seed) in SEEDS[lane].iter().enumerate() {
        if page >> bit & 1 == 1 {
            hash ^= seed;
        }
    }
    hash & ((1 << width_log2) - 1)
}

/// Lookup tables for the same hash: one byte of the page and two lanes at a time.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    pairs: Vec<Box<[[u64; 256]; 4]>>,
}

impl Tables {
    pub(crate) fn new(depth: usize, width_log2: u32) -> Self {
        let pair = |first: usize| {
            let mut table = Box::new([[0; 256]; 4]);
            for (i, byte_table) in table.iter_mut().enumerate() {
                for (byte, hashes) in byte_table.iter_mut().enumerate() {
                    let page = u32::try_from(byte).unwrap_or(0) << (8 * i);
                    let of = |lane| if lane < depth { h3(lane, page, width_log2) } else { 0 };
                    *hashes = u64::from(of(first)) | u64::from(of(first + 1)) << 32;
                }
            }
            table
        };
        Self { pairs: (0..depth).step_by(2).map(pair).collect() }
    }

    /// The indices of `page` in lanes `2 * pair` and `2 * pair + 1`.
    #[inline]
    pub(crate) fn indices(&self, pair: usize, page: u32) -> [usize; 2] {
        let (table, [a, b, c, d]) = (&self.pairs[pair], page.to_le_bytes());
        let both = table[0][usize::from(a)]
            ^ table[1][usize::from(b)]
            ^ table[2][usize::from(c)]
            ^ table[3][usize::from(d)];
        [(both & 0xffff_ffff) as usize, (both >> 32) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// splitmix64 from 0 begins e220a8397b1dcdaf, 6e789e6aa1b965f4 (its authors' reference program).
    #[test]
    fn seeds_follow_splitmix64() {
        assert_eq!(SEEDS[0][..2], [0xe220_a839, 0x6e78_9e6a]);
    }

    /// If the seeds of a lane did not span all indices, some counters would never be used.
    #[test]
    fn every_index_of_every_width_is_reached() {
        for (lane, seeds) in SEEDS.iter().enumerate() {
            for width_log2 in 6..=24 {
                let mut basis = [0u32; 32];
                for seed in seeds {
                    let mut rest = seed & ((1 << width_log2) - 1);
                    while rest != 0 {
                        let top = &mut basis[rest.ilog2() as usize];
                        if *top == 0 {
                            *top = rest;
                        }
                        rest ^= *top;
                    }
                }
                let rank = basis.iter().filter(|&&row| row != 0).count();
                assert_eq!(rank, width_log2 as usize, "lane {lane}, width 2^{width_log2}");
            }
        }
    }

    #[test]
    fn tables_agree_with_the_definition() {
        let tables = Tables::new(3, 19);
        for i in 0..10_000u32 {
            let page = i.wrapping_mul(0x9e37_79b9);
            let want = |lane| h3(lane, page, 19) as usize;
            assert_eq!(tables.indices(0, page), [want(0), want(1)]);
            assert_eq!(tables.indices(1, page), [want(2), 0]);
        }
    }
}
