// SPDX-License-Identifier: Apache-2.0
//! Evaluates the samples of a run: how fast hot pages reached fast memory, how many stayed, and the same after
//! the jump.

use serde::Serialize;

/// The share at which the hot set counts as being in fast memory.
const THERE: f64 = 0.9;
/// Without a t90, the steady share is the mean of this time before the jump.
const STEADY_SECONDS: f64 = 10.0;
/// Length of the final phase.
const END_SECONDS: f64 = 5.0;

/// State of the present hot set at one time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Since the start of the timed run.
    pub t_seconds: f64,
    /// Share of the sampled hot pages that are in fast memory; null if unknown.
    pub hot_share: Option<f64>,
    /// Accesses so far.
    pub accesses: u64,
}

/// Summary of the samples. Null: never reached, or no such time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// First time that the hot share reached 0.9, if before the jump.
    pub t90_seconds: Option<f64>,
    /// The same after the jump, measured from the jump.
    pub t90_after_jump_seconds: Option<f64>,
    /// Mean from t90, or from 10 s before the jump, to the jump (or the end).
    pub hot_share_steady: Option<f64>,
    /// The last value before the jump.
    pub hot_share_at_jump: Option<f64>,
    /// Mean of the last 5 s.
    pub hot_share_end: Option<f64>,
}

/// Maximum delay until the observer uses the new hot set after a jump. Samples in between refer to the old one.
const JUMP_DELAY_SECONDS: f64 = 0.1;

fn t90(samples: &[Sample]) -> Option<f64> {
    samples.iter().find(|s| s.hot_share.is_some_and(|share| share >= THERE)).map(|s| s.t_seconds)
}

fn mean_from(samples: &[Sample], from_seconds: f64) -> Option<f64> {
    let shares: Vec<f64> = samples
        .iter()
        .filter(|s| s.t_seconds >= from_seconds)
        .filter_map(|s| s.hot_share)
        .collect();
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}

/// Summarises samples in order of time; `jump_seconds` is the time of the jump.
pub fn summary(samples: &[Sample], jump_seconds: Option<f64>) -> Summary {
    let until = |seconds| samples.partition_point(|s| s.t_seconds < seconds);
    let before = &samples[..jump_seconds.map_or(samples.len(), until)];
    let after =
        &samples[jump_seconds.map_or(samples.len(), |jump| until(jump + JUMP_DELAY_SECONDS))..];
    let t90_seconds = t90(before);
    let last = samples.last().map_or(0.0, |s| s.t_seconds);
    let steady_from = t90_seconds.unwrap_or_else(|| jump_seconds.unwrap_or(last) - STEADY_SECONDS);
    Summary {
        t90_seconds,
        t90_after_jump_seconds: jump_seconds.and_then(|jump| Some(t90(after)? - jump)),
        hot_share_steady: mean_from(before, steady_from),
        hot_share_at_jump: jump_seconds.and_then(|_| before.last()?.hot_share),
        hot_share_end: mean_from(if after.is_empty() { before } else { after }, last - END_SECONDS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(shares: &[f64]) -> Vec<Sample> {
        let at = |(t, &share): (usize, &f64)| Sample {
            t_seconds: t as f64,
            hot_share: Some(share),
            accesses: 0,
        };
        shares.iter().enumerate().map(at).collect()
    }

    #[test]
    fn t90_before_and_after_the_jump() {
        let summary = summary(&samples(&[0.0, 0.5, 0.9, 1.0, 0.8, 0.1, 0.2, 0.95]), Some(4.5));
        assert_eq!(summary.t90_seconds, Some(2.0));
        assert_eq!(summary.hot_share_steady, Some((0.9 + 1.0 + 0.8) / 3.0));
        assert_eq!(summary.hot_share_at_jump, Some(0.8));
        assert_eq!(summary.t90_after_jump_seconds, Some(2.5));
        let end = summary.hot_share_end.unwrap();
        assert!(
            (end - (0.1 + 0.2 + 0.95) / 3.0).abs() < 1e-12,
            "the final phase starts after the jump: {end}"
        );
    }

    #[test]
    fn a_sample_at_the_jump_belongs_to_neither_set() {
        let mut shares = samples(&[0.0, 1.0, 1.0, 0.1, 0.95]);
        shares[2].t_seconds = 2.01;
        let summary = summary(&shares, Some(2.0));
        assert_eq!(summary.t90_after_jump_seconds, Some(2.0));
        assert_eq!(summary.hot_share_at_jump, Some(1.0));
    }

    #[test]
    fn never_is_null_and_steady_is_the_last_ten_seconds() {
        let mut shares = vec![0.0; 20];
        shares[10..].fill(0.5);
        let summary = summary(&samples(&shares), None);
        assert_eq!(summary.t90_seconds, None);
        assert_eq!(summary.hot_share_at_jump, None);
        assert_eq!(summary.t90_after_jump_seconds, None);
        assert_eq!(summary.hot_share_steady, Some(5.0 / 11.0), "9 to 19, both ends");
        assert_eq!(summary.hot_share_end, Some(0.5));
    }

    #[test]
    fn unknown_is_never_zero() {
        let mut unknown = samples(&[0.0, 1.0, 0.0]);
        unknown[0].hot_share = None;
        unknown[2].hot_share = None;
        assert_eq!(summary(&unknown, None).hot_share_steady, Some(1.0));
        assert_eq!(summary(&unknown[..1], None).hot_share_end, None);
        assert_eq!(summary(&[], Some(1.0)).t90_seconds, None);
    }
}
