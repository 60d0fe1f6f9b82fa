// SPDX-License-Identifier: Apache-2.0
//! The need curve of a program: how large a share of its accesses goes to its hottest memory.
//!
//! With the latencies of the tiers it predicts what a program loses with less fast memory, without moving a
//! page. It comes from a heat histogram, or from measurements: at each size of its fast memory, the share of
//! its accesses that fast memory served. Between two points it is a straight line. The curve is ours; Mercury
//! measures one point at a time (4.2).

use crate::tier::TierId;
use crate::unit::Bytes;

/// Bytes of a program in each tier, fastest first. Its hottest memory is in the fastest.
pub type TierBytes = [Bytes; TierId::MAX];

/// Points closer than this part of the program's memory replace each other. Ours.
const RESOLUTION: u64 = 64;
/// Shares that differ by less do not contradict each other. Ours.
const NOISE: f64 = 0.01;

/// Share of accesses to the hottest bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatCurve {
    memory: Bytes,
    /// The program's memory when its points were last fitted to its size.
    fitted_to: Bytes,
    /// Between no memory with no accesses and all memory with all accesses; shares never fall.
    points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    bytes: Bytes,
    share: f64,
    /// Whether the program had another size when this was measured.
    outdated: bool,
}

impl HeatCurve {
    /// All memory is equally hot.
    pub fn uniform(memory: Bytes) -> Self {
        Self { memory, fitted_to: memory, points: Vec::new() }
    }

    /// From parts of a program's memory with their accesses per second, in any order.
    pub fn of_parts(mut parts: Vec<(Bytes, f64)>) -> Self {
        let density = |part: &(Bytes, f64)| part.1 / as_f64(part.0).max(1.0);
        parts.retain(|part| part.0 > Bytes::ZERO && part.1.is_finite() && part.1 >= 0.0);
        parts.sort_by(|a, b| density(b).total_cmp(&density(a)));
        let memory: Bytes = parts.iter().map(|part| part.0).sum();
        let all: f64 = parts.iter().map(|part| part.1).sum();
        let mut curve = Self::uniform(memory);
        if all > 0.0 {
            let (mut bytes, mut share) = (Bytes::ZERO, 0.0);
            for part in parts {
                (bytes, share) = (bytes + part.0, share + part.1 / all);
                if curve.points.last().is_none_or(|last| curve.is_far(last.bytes, bytes)) {
                    curve.points.push(Point { bytes, share: share.min(1.0), outdated: false });
                }
            }
            curve.points.retain(|point| point.bytes < memory);
        }
        curve
    }

    /// The program's memory.
    pub fn memory(&self) -> Bytes {
        self.memory
    }

    /// The program has another size now. Until more is measured, all of it counts as grown or shrunk alike.
    pub fn resize(&mut self, memory: Bytes) {
        if self.is_far(self.fitted_to, memory) {
            let factor = as_f64(memory) / as_f64(self.fitted_to).max(1.0);
            for point in &mut self.points {
                (point.bytes, point.outdated) = (point.bytes.part(factor), true);
            }
            self.points.dedup_by_key(|point| point.bytes);
            self.fitted_to = memory;
        }
        self.memory = memory;
        self.points.retain(|point| Bytes::ZERO < point.bytes && point.bytes < memory);
    }

    /// Whether what it says about this much fast memory still holds.
    pub fn is_known(&self, fast: Bytes) -> bool {
        let above = self.points.partition_point(|point| point.bytes <= fast);
        let around = [above.checked_sub(1), Some(above)];
        let mut around = around.into_iter().flatten().filter_map(|at| self.points.get(at));
        around.all(|point| !point.outdated)
    }

    /// Records that fast memory of this size served this share of accesses. Points that contradict it go; outdated
    /// ones give way to it.
    pub fn learn(&mut self, fast: Bytes, share: f64) {
        if fast == Bytes::ZERO || fast >= self.memory || !(0.0..=1.0).contains(&share) {
            return;
        }
        let (memory, expected) = (self.memory, self.share(fast));
        let points = std::mem::take(&mut self.points);
        let agrees = |&Point { bytes, share: known, outdated }: &Point| {
            let contradicts =
                if bytes < fast { known > share + NOISE } else { known < share - NOISE };
            (outdated || !contradicts) && bytes.0.abs_diff(fast.0) > memory.0 / RESOLUTION
        };
        let bounded = |mut point: Point| {
            if !point.outdated {
                let at_most = if point.bytes < fast { share } else { 1.0 };
                let at_least = if point.bytes < fast { 0.0 } else { share };
                point.share = point.share.clamp(at_least, at_most);
            }
            point
        };
        self.points = points.into_iter().filter(agrees).map(bounded).collect();
        let at = self.points.partition_point(|point| point.bytes < fast);
        let (below, above) = self.points.split_at_mut(at);
        give_way(below.iter_mut().rev(), 0.0, expected, share);
        give_way(above.iter_mut(), 1.0, expected, share);
        self.points.insert(at, Point { bytes: fast, share, outdated: false });
        self.order_outdated();
        debug_assert!(
            self.points.is_sorted_by(|a, b| a.bytes < b.bytes && a.share <= b.share),
            "{self:?}"
        );
    }

    /// Outdated points keep between those that are not, which noise may have moved.
    fn order_outdated(&mut self) {
        let mut most = 1.0_f64;
        for point in self.points.iter_mut().rev() {
            point.share = if point.outdated { point.share.min(most) } else { point.share };
            most = point.share;
        }
        let mut least = 0.0_f64;
        for point in &mut self.points {
            point.share = if point.outdated { point.share.max(least) } else { point.share };
            least = point.share;
        }
    }

    fn is_far(&self, a: Bytes, b: Bytes) -> bool {
        a.0.abs_diff(b.0) > self.memory.0 / RESOLUTION
    }

    /// Share of accesses that go to the hottest `bytes`.
    pub fn share(&self, bytes: Bytes) -> f64 {
        if bytes >= self.memory {
            return 1.0;
        }
        let above = self.points.partition_point(|point| point.bytes <= bytes);
        let at = |point: &Point| (point.bytes, point.share);
        let low = above.checked_sub(1).map_or((Bytes::ZERO, 0.0), |below| at(&self.points[below]));
        let high = self.points.get(above).map_or((self.memory, 1.0), at);
        let part = as_f64(bytes - low.0) / as_f64(high.0 - low.0).max(1.0);
        low.1 + part * (high.1 - low.1)
    }

    /// The memory beyond its hottest `from` bytes in parts, with the share of accesses per byte of each. Where the
    /// curve bends upwards, parts are joined, so that none is denser than the one before it.
    pub fn beyond(&self, from: Bytes) -> impl Iterator<Item = (Bytes, f64)> + use<> {
        let after = self.points.partition_point(|point| point.bytes <= from);
        let mut corners = Vec::with_capacity(self.points.len() - after + 2);
        corners.push((from, self.share(from)));
        let points = self.points[after..].iter().map(|point| (point.bytes, point.share));
        let density = |low: (Bytes, f64), high: (Bytes, f64)| {
            (high.1 - low.1) / as_f64(high.0 - low.0).max(1.0)
        };
        for corner in points.chain([(self.memory, 1.0)]).filter(|corner| corner.0 > from) {
            while let [.., before, last] = corners[..]
                && density(before, last) <= density(last, corner)
            {
                corners.pop();
            }
            corners.push(corner);
        }
        let mut low = corners[0];
        corners.into_iter().skip(1).map(move |high| {
            let before = std::mem::replace(&mut low, high);
            (high.0 - before.0, density(before, high))
        })
    }

    /// Share of accesses that each tier serves.
    pub fn shares(&self, placement: &TierBytes) -> [f64; TierId::MAX] {
        let (mut bytes, mut before) = (Bytes::ZERO, 0.0);
        placement.map(|in_tier| {
            if in_tier == Bytes::ZERO {
                return 0.0; // most possible tiers do not exist
            }
            bytes += in_tier;
            let until = self.share(bytes);
            let share = until - before;
            before = until;
            share
        })
    }

    /// Mean latency of an access, for these latencies of the tiers.
    pub fn mean_ns(&self, placement: &TierBytes, tier_ns: &[f64; TierId::MAX]) -> f64 {
        self.shares(placement).iter().zip(tier_ns).map(|(share, ns)| share * ns).sum()
    }
}

/// Outdated points on one side of a new one keep their shape: the curve from there to the first point that is not
/// outdated, or to its `end`, is stretched.
fn give_way<'a>(side: impl Iterator<Item = &'a mut Point>, end: f64, expected: f64, share: f64) {
    let side: Vec<&mut Point> = side.collect();
    let fixed = side.iter().position(|point| !point.outdated);
    let end = fixed.map_or(end, |at| side[at].share);
    for point in side.into_iter().take_while(|point| point.outdated) {
        let part = ((end - point.share) / (end - expected)).clamp(0.0, 1.0);
        let stretched = if part.is_finite() { end - part * (end - share) } else { share };
        point.share = stretched.clamp(share.min(end), share.max(end));
    }
}

#[expect(clippy::cast_precision_loss, reason = "the bytes of one machine")]
pub(super) fn as_f64(bytes: Bytes) -> f64 {
    bytes.0 as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIB: Bytes = Bytes(1 << 30);

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn half_of_uniform_memory_serves_half_of_all_accesses() {
        let curve = HeatCurve::uniform(GIB * 8);
        close(curve.share(GIB * 4), 0.5);
        let mut placement = TierBytes::default();
        (placement[0], placement[1]) = (GIB * 2, GIB * 6);
        let mut ns = [0.0; TierId::MAX];
        (ns[0], ns[1]) = (100.0, 250.0);
        close(curve.mean_ns(&placement, &ns), 100.0 + 0.75 * 150.0);
    }

    #[test]
    fn parts_beyond_a_size_become_less_dense() {
        let mut curve = HeatCurve::uniform(GIB * 8);
        curve.learn(GIB * 2, 0.6);
        curve.learn(GIB * 4, 0.6); // 2 GiB that serve nothing, before 4 GiB that serve 40 %
        let parts: Vec<_> = curve.beyond(GIB).collect();
        assert_eq!(parts.iter().map(|part| part.0).collect::<Vec<_>>(), [GIB, GIB * 6]);
        close(parts[0].1, 0.3 / as_f64(GIB));
        close(parts[1].1, 0.4 / as_f64(GIB * 6));
        assert_eq!(curve.beyond(GIB * 8).next(), None);
        assert_eq!(HeatCurve::uniform(Bytes::ZERO).beyond(Bytes::ZERO).next(), None);
    }

    #[test]
    fn the_hottest_part_comes_first() {
        let curve = HeatCurve::of_parts(vec![(GIB * 6, 100.0), (GIB * 2, 300.0)]);
        assert_eq!(curve.memory(), GIB * 8);
        close(curve.share(GIB * 2), 0.75);
        close(curve.share(GIB), 0.375);
        close(curve.share(GIB * 8), 1.0);
        let unused = HeatCurve::of_parts(vec![(GIB * 6, 0.0), (GIB * 2, 300.0)]);
        close(unused.share(GIB * 2), 1.0);
        close(unused.share(GIB * 5), 1.0);
    }

    #[test]
    fn a_measurement_replaces_what_contradicts_it() {
        let mut curve = HeatCurve::uniform(GIB * 8);
        curve.learn(GIB * 2, 0.6);
        close(curve.share(GIB * 2), 0.6);
        close(curve.share(GIB * 5), 0.8);
        curve.learn(GIB * 4, 0.5);
        close(curve.share(GIB * 2), 0.25);
        close(curve.share(GIB * 4), 0.5);
    }

    /// Twice the memory: twice as much is hot, unless measurements show that the new memory is cold.
    #[test]
    fn an_outdated_point_gives_way_to_a_measurement() {
        let mut curve = HeatCurve::uniform(GIB * 8);
        curve.learn(GIB * 2, 0.6);
        curve.learn(GIB * 4, 0.8);
        curve.resize(GIB * 16);
        close(curve.share(GIB * 4), 0.6);
        close(curve.share(GIB * 8), 0.8);
        curve.learn(GIB * 4, 0.8);
        close(curve.share(GIB * 8), 1.0 - 0.2 / 2.0);
        curve.learn(GIB * 2, 0.6);
        close(curve.share(GIB * 4), 0.8);
        close(curve.share(GIB * 8), 0.9);
    }

    #[test]
    fn a_program_that_grows_by_little_has_the_same_hot_memory() {
        let mut curve = HeatCurve::uniform(GIB * 100);
        curve.learn(GIB * 20, 0.6);
        curve.resize(GIB * 101);
        close(curve.share(GIB * 20), 0.6);
    }

    proptest! {
        #[test]
        fn shares_rise_with_bytes_whatever_was_measured(
            parts in prop::collection::vec((1u64..1 << 34, 0.0f64..1e9), 0..40),
            seen in prop::collection::vec((0u64..1 << 36, -0.5f64..1.5, any::<bool>()), 0..40),
            at in prop::collection::vec(0u64..1 << 40, 2..9),
        ) {
            let parts = parts.into_iter().map(|(bytes, rate)| (Bytes(bytes), rate)).collect();
            let mut curve = HeatCurve::of_parts(parts);
            for (bytes, share, resized) in seen {
                match resized {
                    true => curve.resize(Bytes(bytes)),
                    false => curve.learn(Bytes(bytes), share),
                }
            }
            let mut at = at;
            at.sort_unstable();
            let shares: Vec<f64> = at.into_iter().map(|bytes| curve.share(Bytes(bytes))).collect();
            prop_assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
            prop_assert!(shares.is_sorted_by(|a, b| *a <= b + 1e-12), "{shares:?}");
        }
    }
}
