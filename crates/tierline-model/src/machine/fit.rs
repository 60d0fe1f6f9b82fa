// SPDX-License-Identifier: Apache-2.0
//! Fits a tier to a loaded-latency table.
//!
//! The error is measured in a closed loop, as the model is used: each point's reads in flight are kept
//! (Little's law), the model is solved for them, and the latencies are compared. Unloaded latency, the two
//! slopes and the capacity are fitted by least squares on relative errors. Measured capacities by mix are not
//! fitted.

use super::MemoryTier;
use super::table::Table;
use crate::fit::minimise;
use crate::load::{Capacity, Class, Curve, LINE_BYTES, Loads, Network, PerTier, Queue, solve};
use tierline_core::unit::Bytes;

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// Bandwidth, reads and writes.
    pub gb_per_s: f64,
    /// Latency.
    pub ns: f64,
    /// Share of writes in the traffic.
    pub write_share: f64,
}

/// A fitted tier and the quality of the fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The tier.
    pub tier: MemoryTier,
    /// Every measurement with the model's latency.
    pub points: Vec<(Measurement, f64)>,
}

/// The capacity law of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// One bus.
    HalfDuplex,
    /// One link for each direction.
    FullDuplex,
}

/// Capacity at an even mix relative to reads only, if not measured: the mean of published curves.
const EVEN: f64 = 0.77;
/// The same for links.
const EVEN_OF_LINK: f64 = 1.33;

impl Fit {
    /// Fits a tier to a table.
    pub fn of(name: &str, capacity: Bytes, table: &Table, link: Link) -> Self {
        let points = &table.points;
        let unloaded = points.iter().map(|p| p.ns).fold(f64::INFINITY, f64::min);
        let most = points.iter().map(|p| p.gb_per_s).fold(0.0, f64::max);
        let even = even_over_reads(table, link);
        let queue = |p: &[f64]| Queue {
            curve: Curve { unloaded_ns: p[0], linear_ns: p[1], queue_ns: p[2] },
            capacity: match link {
                Link::HalfDuplex => Capacity::half_duplex(p[3], p[3], p[3] * p[4]),
                Link::FullDuplex => Capacity::FullDuplex { direction: p[3], total: p[3] * p[4] },
            },
        };
        let mixed = points.iter().any(|point| point.write_share > 0.0);
        let cost = |p: &[f64]| {
            let full = if mixed { p.to_vec() } else { [p, &[even]].concat() };
            let queue = queue(&full);
            if !queue.capacity.is_sound() {
                return f64::INFINITY;
            }
            let squares = points.iter().map(|point| {
                let error = latency(&queue, point) / point.ns - 1.0;
                error * error
            });
            squares.sum()
        };
        let mut start = vec![unloaded * 0.95, 20.0, 15.0, most * 1.1];
        if mixed {
            start.push(even);
        }
        let mut found = minimise(&start, cost);
        if !mixed {
            found.push(even);
        }
        let queue = queue(&found);
        let points = points.iter().map(|point| (*point, latency(&queue, point))).collect();
        Self { tier: MemoryTier { name: name.into(), capacity, queue }, points }
    }

    /// Mean and largest relative error of the latencies.
    pub fn errors(&self) -> (f64, f64) {
        let errors = self.points.iter().map(|(point, ns)| (ns / point.ns - 1.0).abs());
        let (sum, most) = errors.fold((0.0, 0.0), |(sum, most), e: f64| (sum + e, e.max(most)));
        #[expect(clippy::cast_precision_loss, reason = "a table's points")]
        let n = self.points.len() as f64;
        (sum / n, most)
    }
}

/// Capacity at an even mix relative to reads only: from measured peaks if both exist.
fn even_over_reads(table: &Table, link: Link) -> f64 {
    let peak = |share: f64| table.peaks.iter().find(|(of, _)| *of == share).map(|(_, gb)| *gb);
    match (peak(0.0), peak(0.5)) {
        (Some(reads), Some(even)) if reads > 0.0 => even / reads,
        _ if link == Link::FullDuplex => EVEN_OF_LINK,
        _ => EVEN,
    }
}

/// The model's latency at the reads in flight of a measurement.
fn latency(queue: &Queue, point: &Measurement) -> f64 {
    let writes_per_read = point.write_share / (1.0 - point.write_share);
    let reads_per_ns = point.gb_per_s / LINE_BYTES / (1.0 + writes_per_read);
    let mut shares = PerTier::default();
    shares[0] = 1.0;
    let network = Network { tiers: vec![*queue], ..Network::default() };
    let class = Class::program(reads_per_ns * point.ns, 0.0, shares, writes_per_read);
    let mut loads = Loads::default();
    solve(&network, &[class], &mut loads);
    loads.latency_ns[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(pairs: &[(f64, f64)]) -> Table {
        let point = |&(gb_per_s, ns)| Measurement { gb_per_s, ns, write_share: 0.0 };
        Table { points: pairs.iter().map(point).collect(), peaks: Vec::new() }
    }

    /// MLC's table of a two-socket Cascade Lake; one slope fits it with a mean error of 0.9 %.
    #[test]
    fn a_published_table_fits_within_its_known_error() {
        let table = table(&[
            (2.9, 79.0),
            (25.0, 83.0),
            (59.0, 88.0),
            (102.0, 95.0),
            (134.0, 103.0),
            (196.0, 132.0),
            (226.0, 259.0),
        ]);
        let fit = Fit::of("ddr4", Bytes(1 << 30), &table, Link::HalfDuplex);
        let (mean, most) = fit.errors();
        assert!(mean < 0.01 && most < 0.03, "{mean} {most} {:?}", fit.tier);
        let curve = fit.tier.queue.curve;
        assert!((70.0..85.0).contains(&curve.unloaded_ns), "{curve:?}");
        assert!((226.0..280.0).contains(&fit.tier.queue.capacity.gb_per_s(0.0)));
    }

    /// A curve generated by the model is recovered.
    #[test]
    fn a_curve_of_the_model_is_recovered() {
        let capacity = Capacity::half_duplex(200.0, 200.0, 154.0);
        let curve = Curve { unloaded_ns: 90.0, linear_ns: 30.0, queue_ns: 12.0 };
        let truth = Queue { curve, capacity };
        let points: Vec<(f64, f64)> =
            (1..=19).map(|step| f64::from(step) * 0.05).map(|u| (u * 200.0, curve.at(u))).collect();
        let fit = Fit::of("t", Bytes(1 << 30), &table(&points), Link::HalfDuplex);
        assert!(fit.errors().1 < 1e-3, "{:?} for {truth:?}", fit.tier);
    }
}
