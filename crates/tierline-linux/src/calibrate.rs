// SPDX-License-Identifier: Apache-2.0
//! The machine's thresholds by two micro-benchmarks (Mercury, 4.2): a latency-sensitive one, the probe of dependent
//! loads on the fastest tier, beside threads that read as fast as they can.
//!
//! As in [`tierline_core::qos::thresholds`]: the readers are on the fastest tier and grow in number; then all run,
//! and a growing part of them is on the slowest tier. On a machine with one processor there is nothing to calibrate.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use tierline_core::qos::thresholds::{SweepPoint, Thresholds};
use tierline_core::tier::{NodeId, Tiers};
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};

use crate::error::{Error, Result};
use crate::latency_probe::{LatencyProbe, Reader};

/// Memory of each reader (Mercury, 4.2).
pub const READER: Bytes = Bytes::from_mib(128);
/// Time of each measurement. Ours.
const MEASURED: Duration = Duration::from_millis(500);
/// The most readers on the fastest tier in the first sweep, and steps of the second one. Ours.
const STEPS: usize = 8;

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// Latency of the fastest tier without readers.
    pub alone_ns: f64,
    /// The thresholds; those that were not reached are none.
    pub thresholds: Thresholds,
    /// Measurements with more and more readers on the fastest tier.
    pub load: Vec<Point>,
    /// Measurements with a growing part of all readers on the slowest tier.
    pub slow_share: Vec<Point>,
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Readers on the fastest tier.
    pub fast_readers: usize,
    /// Readers on the slowest tier.
    pub slow_readers: usize,
    /// Latency of the fastest tier.
    pub latency_ns: f64,
    /// Traffic of the fastest tier.
    pub fast_bytes_per_second: BytesPerSec,
    /// Traffic of the slowest tier.
    pub slow_bytes_per_second: BytesPerSec,
}

impl Point {
    fn swept(&self) -> SweepPoint {
        SweepPoint {
            latency_ns: self.latency_ns,
            fast: self.fast_bytes_per_second,
            slow: self.slow_bytes_per_second,
        }
    }
}

/// Measures the thresholds. It takes some seconds, all processors, and [`READER`] of memory for each.
///
/// # Errors
/// `Error::Missing` on a machine with one processor, or if memory cannot be placed.
pub fn calibrate(tiers: &Tiers) -> Result<Calibration> {
    let node =
        |tier: Option<&tierline_core::tier::Tier>| tier.and_then(|one| one.nodes.first().copied());
    let (fast, slow) = (node(tiers.0.first()), node(tiers.0.last()));
    let (Some(fast), Some(slow)) = (fast, slow) else {
        return Err(missing("the tiers have no nodes", "name them: --tiers fast=0,slow=1"));
    };
    let readers = thread::available_parallelism().map_or(1, usize::from) - 1;
    if readers == 0 {
        return Err(missing(
            "it needs two processors",
            "run without thresholds: they are optional",
        ));
    }
    let mut probe = LatencyProbe::new(fast)?;
    let alone_ns = measure(&mut probe, &[])?.latency_ns;
    let counts = |steps: usize| {
        let mut counts: Vec<usize> = (0..=steps).map(|step| readers * step / steps).collect();
        counts.dedup();
        counts
    };
    let mut load = Vec::new();
    for count in counts(STEPS).into_iter().filter(|&count| count > 0) {
        load.push(measure(&mut probe, &[(fast, count)])?);
    }
    let mut slow_share = Vec::new();
    for count in counts(STEPS) {
        slow_share.push(measure(&mut probe, &[(fast, readers - count), (slow, count)])?);
    }
    let swept = |points: &[Point]| points.iter().map(Point::swept).collect::<Vec<_>>();
    let thresholds = Thresholds::calibrate(alone_ns, &swept(&load), &swept(&slow_share));
    Ok(Calibration { alone_ns, thresholds, load, slow_share })
}

/// The latency while so many readers read on these nodes, the fastest first, and their traffic.
fn measure(probe: &mut LatencyProbe, readers: &[(NodeId, usize)]) -> Result<Point> {
    let all: usize = readers.iter().map(|(_, count)| count).sum();
    let (stop, ready) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(all + 1)));
    let bytes: Vec<Arc<AtomicU64>> = readers.iter().map(|_| Arc::default()).collect();
    let mut buffers = Vec::new();
    for (at, (node, count)) in readers.iter().enumerate() {
        for _ in 0..*count {
            buffers.push((Reader::new(*node, READER)?, bytes[at].clone()));
        }
    }
    let threads: Vec<_> = buffers
        .into_iter()
        .map(|(mut reader, sum)| {
            let (stop, ready) = (stop.clone(), ready.clone());
            thread::spawn(move || {
                ready.wait();
                while !stop.load(Ordering::Relaxed) {
                    sum.fetch_add(reader.read_part().0, Ordering::Relaxed);
                }
            })
        })
        .collect();
    ready.wait();
    let began = Instant::now();
    let mut rounds = vec![probe.measure()];
    while began.elapsed() < MEASURED {
        rounds.push(probe.measure());
        thread::sleep(Duration::from_millis(1));
    }
    let seconds = began.elapsed().as_secs_f64();
    let sums: Vec<u64> = bytes.iter().map(|sum| sum.load(Ordering::Relaxed)).collect();
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        let _ = thread.join();
    }
    let rate = |at: usize| {
        #[expect(clippy::cast_precision_loss, reason = "the bytes of half a second")]
        let rate = sums.get(at).copied().unwrap_or(0) as f64 / seconds;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
        BytesPerSec(rate as u64)
    };
    let count = |at: usize| readers.get(at).map_or(0, |(_, count)| *count);
    rounds.sort_unstable();
    let middle: Nanos = rounds[rounds.len() / 2];
    Ok(Point {
        fast_readers: count(0),
        slow_readers: count(1),
        latency_ns: middle.as_secs_f64() * 1e9,
        fast_bytes_per_second: rate(0),
        slow_bytes_per_second: rate(1),
    })
}

fn missing(why: &str, hint: &str) -> Error {
    Error::Missing { what: "a calibration".into(), why: why.into(), hint: hint.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_are_counted_where_the_sandbox_permits_binding() {
        let Ok(mut probe) = LatencyProbe::new(NodeId(0)) else { return };
        let alone = measure(&mut probe, &[]).expect("no readers");
        assert_eq!((alone.fast_bytes_per_second, alone.fast_readers), (BytesPerSec(0), 0));
        let Ok(beside) = measure(&mut probe, &[(NodeId(0), 1), (NodeId(0), 0)]) else { return };
        assert!(beside.fast_bytes_per_second > BytesPerSec(1 << 20), "{beside:?}");
        assert_eq!(beside.slow_bytes_per_second, BytesPerSec(0));
    }
}
