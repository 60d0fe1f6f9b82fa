// SPDX-License-Identifier: Apache-2.0
//! Log-linear histogram of latencies: 32 steps per doubling, so a percentile is at most 3.2 % too high, from a
//! nanosecond to centuries, in 15 KB.

use serde::Serialize;

const STEPS_LOG2: u32 = 5;
const STEPS: usize = 1 << STEPS_LOG2;
const BUCKETS: usize = (64 - STEPS_LOG2 as usize + 1) * STEPS;

/// Counts of values by size.
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

/// Summary of a histogram.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// Number of values.
    pub count: u64,
    /// Their mean.
    pub mean_ns: f64,
    /// Half are at most this.
    pub p50_ns: u64,
    /// Nine of ten are at most this.
    pub p90_ns: u64,
    /// 99 of 100 are at most this.
    pub p99_ns: u64,
    /// 999 of 1000 are at most this.
    pub p999_ns: u64,
    /// The exact maximum.
    pub max_ns: u64,
}

/// The bucket of a value.
fn bucket(value: u64) -> usize {
    if value < STEPS as u64 {
        return usize::try_from(value).expect("below 32");
    }
    let octave = value.ilog2() - STEPS_LOG2;
    let step = usize::try_from(value >> octave).expect("below 64");
    octave as usize * STEPS + step
}

/// The largest value of a bucket.
fn top(bucket: usize) -> u64 {
    if bucket < 2 * STEPS {
        return bucket as u64;
    }
    let octave = bucket / STEPS - 1;
    let step = (bucket % STEPS + STEPS) as u128;
    u64::try_from(((step + 1) << octave) - 1).unwrap_or(u64::MAX)
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], count: 0, sum: 0, max: 0 }
    }

    /// Adds a value `times` times.
    pub fn add(&mut self, value: u64, times: u64) {
        self.counts[bucket(value)] += times;
        self.count += times;
        self.sum += u128::from(value) * u128::from(times);
        self.max = self.max.max(value);
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    fn percentile(&self, per_thousand: u64) -> u64 {
        let rank = (self.count * per_thousand).div_ceil(1000).max(1);
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return top(bucket).min(self.max);
            }
        }
        self.max
    }

    /// The summary for a report.
    pub fn percentiles(&self) -> Percentiles {
        Percentiles {
            count: self.count,
            mean_ns: if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 },
            p50_ns: self.percentile(500),
            p90_ns: self.percentile(900),
            p99_ns: self.percentile(990),
            p999_ns: self.percentile(999),
            max_ns: self.max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_all_numbers_without_overlap() {
        let mut next = 0u64;
        for b in 0..BUCKETS {
            assert_eq!(bucket(next), b, "{next}");
            assert_eq!(bucket(top(b)), b);
            next = top(b).wrapping_add(1);
        }
        assert_eq!(next, 0, "the last bucket ends with the largest number");
    }

    #[test]
    fn percentiles_are_at_most_one_step_too_high() {
        let mut histogram = Histogram::new();
        for value in 1..=100_000 {
            histogram.add(value, 1);
        }
        let p = histogram.percentiles();
        for (found, exact) in
            [(p.p50_ns, 50_000), (p.p90_ns, 90_000), (p.p99_ns, 99_000), (p.p999_ns, 99_900)]
        {
            assert!(found >= exact && found as f64 <= exact as f64 * 1.032, "{found} {exact}");
        }
        assert_eq!((p.max_ns, p.count, p.mean_ns), (100_000, 100_000, 50_000.5));
        assert_eq!(Histogram::new().percentiles().max_ns, 0);
    }
}
