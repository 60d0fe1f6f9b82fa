// SPDX-License-Identifier: Apache-2.0
//! The kernel's watermarks: how much of a node is kept free.
//!
//! min, then steps of max(min/4, 0.1 % of the node) up to low, high and promo. min is 4·√(KiB) KiB within
//! [128 KiB, 256 MiB], and with huge pages at least 66 MiB or 5 % of the node, whichever is less.
//!
//! Source: Linux 6.3, mm/page_alloc.c (`calculate_min_free_kbytes`, `__setup_per_zone_wmarks`) and
//! mm/khugepaged.c (`set_recommended_min_free_kbytes`, for three zones).

use crate::unit::Bytes;

/// Thousandths of the node between two watermarks (vm.watermark_scale_factor 10).
const STEP_PERMILLE: u64 = 1;
/// khugepaged's recommended min, and its bound as a percentage of a node.
const HUGE_MIN: Bytes = Bytes::from_mib(66);
const HUGE_MIN_PERCENT: u64 = 5;

/// The watermarks of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Only the kernel itself allocates below.
    pub min: Bytes,
    /// Below this the reclaimer wakes.
    pub low: Bytes,
    /// The reclaimer stops here without tiering.
    pub high: Bytes,
    /// The reclaimer stops here with tiering.
    pub promo: Bytes,
}

impl Watermarks {
    /// The watermarks of a node of that size.
    pub fn of(capacity: Bytes) -> Self {
        let root = Bytes(((capacity.0 >> 10) * 16).isqrt() << 10);
        let for_huge = HUGE_MIN.min(Bytes(capacity.0 / 100 * HUGE_MIN_PERCENT));
        let least = Bytes(128 << 10).min(Bytes(capacity.0 / 8));
        let min = root.min(Bytes(capacity.0 / 8)).clamp(least, Bytes::from_mib(256)).max(for_huge);
        let step = Bytes((min.0 / 4).max(capacity.0 / 1000 * STEP_PERMILLE));
        Self { min, low: min + step, high: min + step * 2, promo: min + step * 3 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measured on a node of 64 GiB.
    #[test]
    fn a_node_of_64_gib() {
        let marks = Watermarks::of(Bytes::from_mib(64 << 10));
        let pages = [marks.min, marks.low, marks.high, marks.promo].map(Bytes::base_pages);
        assert_eq!(pages, [16_896, 33_673, 50_450, 67_227]);
    }

    #[test]
    fn small_nodes_keep_a_small_part() {
        for mib in [4, 64, 512, 4096] {
            let node = Bytes::from_mib(mib);
            assert!(Watermarks::of(node).promo.0 < node.0 / 4, "{node}");
        }
    }
}
