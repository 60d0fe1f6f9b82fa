// SPDX-License-Identifier: Apache-2.0
//! Random numbers for a tight loop on an emulated CPU: xorshift64* (Marsaglia 2003, Vigna 2014). Ten
//! instructions and one word of state. The core's xoshiro256++ costs twice as much, and here the loop itself is
//! measured.

/// A seeded generator; the state is never zero.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The same seed gives the same sequence on every machine.
    pub fn new(seed: u64) -> Rng {
        Rng(hash(seed, 0) | 1)
    }

    /// The next 64 bits. The high bits have the better quality.
    #[inline(always)]
    pub fn next(&mut self) -> u64 {
        let mut x = self.0;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.0 = x;
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Uniform in `0..bound`; the bias is below 2^-31 for bounds below 2^32.
    pub fn below(&mut self, bound: u32) -> u32 {
        scale(self.next() >> 32, bound)
    }

    /// Fisher-Yates shuffle.
    pub fn shuffle(&mut self, items: &mut [u32]) {
        for last in (1..items.len()).rev() {
            let other = self.below(u32::try_from(last + 1).expect("fewer than 2^32 items"));
            items.swap(last, other as usize);
        }
    }

    /// `0..n` in random order.
    pub fn permutation(&mut self, n: u32) -> Vec<u32> {
        let mut items: Vec<u32> = (0..n).collect();
        self.shuffle(&mut items);
        items
    }
}

/// Scales 32 random bits to `0..bound`.
#[inline(always)]
pub fn scale(bits: u64, bound: u32) -> u32 {
    debug_assert!(bits >> 32 == 0);
    ((bits * u64::from(bound)) >> 32) as u32
}

/// Mixes two words into one (splitmix64's finaliser). Used for page tags.
pub fn hash(a: u64, b: u64) -> u64 {
    let mut z =
        a.wrapping_add(b.wrapping_mul(0xd134_2543_de82_ef95)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_cover_their_bounds_evenly() {
        let mut rng = Rng::new(7);
        let mut seen = [0u32; 10];
        for _ in 0..100_000 {
            seen[rng.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (9_500..10_500).contains(&n)), "{seen:?}");
    }

    #[test]
    fn a_permutation_is_complete_and_reproducible() {
        let items = Rng::new(3).permutation(1000);
        assert_eq!(items, Rng::new(3).permutation(1000));
        assert_ne!(items, Rng::new(4).permutation(1000));
        let mut sorted = items;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..1000));
    }
}
