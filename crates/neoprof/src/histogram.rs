// SPDX-License-Identifier: Apache-2.0
//! How many counters of the first lane have which count, in 64 bins.
//!
//! Eight groups of eight bins, of widths 1, 2, 4 … 128 (the artifact's; the paper names only the number of bins).
//! So `count + 8` is a floating-point number of three bits of fraction, and the bin is exponent and fraction.

/// Bins of the histogram (Section IV-B of the paper).
pub const BINS: usize = 64;

/// The bin of a count.
pub fn bin(count: u32) -> usize {
    let scaled = count.saturating_add(8);
    let exponent = scaled.ilog2() - 3;
    ((8 * exponent + (scaled >> exponent & 7)) as usize).min(BINS - 1)
}

/// The least count in a bin.
pub fn bin_start(bin: usize) -> u32 {
    let (group, step) = (bin / 8, bin % 8);
    u32::try_from(((8 + step) << group) - 8).unwrap_or(u32::MAX)
}

/// Counters by bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Counters in each bin; their sum is the width of the sketch.
    pub bins: [u32; BINS],
}

impl Histogram {
    /// The histogram of these counters.
    pub fn of(counters: &[u16]) -> Self {
        let mut bins = [0; BINS];
        counters.iter().for_each(|&count| bins[bin(u32::from(count))] += 1);
        Self { bins }
    }

    /// The bin of the counter with the given rank, where rank 0 is the largest counter. The lowest bin for a
    /// rank beyond all counters.
    pub fn bin_of_rank(&self, rank: u64) -> usize {
        let mut above = 0;
        for bin in (0..BINS).rev() {
            above += u64::from(self.bins[bin]);
            if above > rank {
                return bin;
            }
        }
        0
    }

    /// By how much an estimate exceeds the true count at most, with probability 1 - 2^-D (Section IV-B, after Chen
    /// et al.): the counter at rank W·δ^(1/D) of the descending counters of a lane, and as D = log2(1/δ), that is
    /// the median. Rounded up to the last count of its bin; `counter_max` is where counters saturate.
    pub fn error_bound(&self, counter_max: u32) -> u32 {
        let bin = self.bin_of_rank((self.total() / 2).saturating_sub(1));
        if bin + 1 == BINS { counter_max } else { (bin_start(bin + 1) - 1).min(counter_max) }
    }

    /// Counters in all bins.
    pub fn total(&self) -> u64 {
        self.bins.iter().map(|&n| u64::from(n)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The starts of groups and the last bin as the artifact's sources have them.
    #[test]
    fn bins_are_the_artifacts() {
        let starts = [0, 8, 24, 56, 120, 248, 504, 1016];
        for (group, start) in starts.into_iter().enumerate() {
            assert_eq!(bin_start(8 * group), start);
            for step in 0..8 {
                let (bin_no, width) = (8 * group + step, 1 << group);
                let first = start + u32::try_from(step).unwrap() * width;
                assert_eq!(bin(first), bin_no);
                assert_eq!(bin(first + width - 1), bin_no);
                assert_eq!(bin_start(bin_no), first);
            }
        }
        assert_eq!(bin(2040), 63);
        assert_eq!(bin(65_535), 63);
    }
}
