// SPDX-License-Identifier: Apache-2.0
//! Histogram of the counters of the first lane, in 64 bins.
//!
//! Eight groups of eight bins, of widths 1, 2, 4 … 128 (as in the artifact; the paper gives only the number of
//! bins). So `count + 8` is a floating-point number with three fraction bits, and the bin is its exponent and
//! fraction.

/// Bins of the histogram (Section IV-B of the paper).
pub const BINS: usize = 64;

/// The bin of a count.
pub fn bin(count: u32) -> usize {
    let scaled = count.saturating_add(8);
    let exponent = scaled.ilog2() - 3;
    ((8 * exponent + (scaled >> exponent & 7)) as usize).min(BINS - 1)
}

/// The lowest count of a bin.
pub fn bin_start(bin: usize) -> u32 {
    let (group, step) = (bin / 8, bin % 8);
    u32::try_from(((8 + step) << group) - 8).unwrap_or(u32::MAX)
}

/// Counters per bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Number of counters in each bin. The sum is the width of the sketch.
    pub bins: [u32; BINS],
}

impl Histogram {
    /// The histogram of `counters`.
    pub fn of(counters: &[u16]) -> Self {
        let mut bins = [0; BINS];
        counters.iter().for_each(|&count| bins[bin(u32::from(count))] += 1);
        Self { bins }
    }

    /// The bin of the counter with the given rank; rank 0 is the largest counter. The lowest bin for a rank
    /// beyond all counters.
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

    /// Maximum error of an estimate, with probability 1 - 2^-D (Section IV-B, after Chen et al.): the counter
    /// at rank W·δ^(1/D) in descending order. As D = log2(1/δ), this is the median, here rounded up to the last
    /// count of its bin. `counter_max` is the value at which counters saturate.
    pub fn error_bound(&self, counter_max: u32) -> u32 {
        let bin = self.bin_of_rank((self.total() / 2).saturating_sub(1));
        if bin + 1 == BINS { counter_max } else { (bin_start(bin + 1) - 1).min(counter_max) }
    }

    /// Total number of counters.
    pub fn total(&self) -> u64 {
        self.bins.iter().map(|&n| u64::from(n)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Group starts and last bin as in the sources of the artifact.
    #[test]
    fn bins_match_the_artifact() {
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
