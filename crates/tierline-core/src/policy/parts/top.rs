// SPDX-License-Identifier: Apache-2.0
//! The hottest pages that fit: splits a ranking exactly where the fast tier is full, without sorting it.
//!
//! Pages of both sizes are ranked by access density. Among equals, those already in the fast tier come first,
//! so that a tie moves nothing.
//!
//! Source: ARMS (section 4.1: the top k, where k is the fast tier's capacity). Preferring residents in ties is
//! ours.

use std::cmp::Ordering;

use crate::page::PageIdx;
use crate::port::PageSize;
use crate::unit::Bytes;

/// A page in a ranking.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// Accesses per second.
    pub rate: f32,
    /// The page.
    pub page: PageIdx,
    /// Its size.
    pub size: PageSize,
    /// Whether it is in the fast tier.
    pub resident: bool,
    /// A tag for the caller.
    pub tag: u32,
}

impl Ranked {
    /// Accesses per second per base page.
    pub fn density(&self) -> f32 {
        self.size.density(self.rate)
    }

    /// The order of a ranking.
    pub fn hotter_first(a: &Self, b: &Self) -> Ordering {
        b.density()
            .total_cmp(&a.density())
            .then(b.resident.cmp(&a.resident))
            .then(a.page.cmp(&b.page))
    }
}

/// Moves the hottest pages that together fit `capacity` to the front, in any order, and returns their number.
pub fn select_hottest(ranking: &mut [Ranked], capacity: Bytes) -> usize {
    let (mut from, mut to, mut room) = (0, ranking.len(), capacity);
    while from < to {
        let middle = (to - from) / 2;
        let part = &mut ranking[from..to];
        part.select_nth_unstable_by(middle, Ranked::hotter_first);
        let bytes: Bytes = part[..=middle].iter().map(|page| page.size.bytes()).sum();
        if bytes <= room {
            room -= bytes;
            from += middle + 1;
        } else {
            to = from + middle;
        }
    }
    from
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranked(page: usize, rate: u8, huge: bool, resident: bool) -> Ranked {
        let size = if huge { PageSize::Huge } else { PageSize::Base };
        Ranked { rate: rate.into(), page: PageIdx::from_index(page), size, resident, tag: 0 }
    }

    proptest! {
        /// Compares with a sorted ranking: the same pages, as many as fit, and the next one does not fit.
        #[test]
        fn the_split_is_where_a_sorted_ranking_is_full(
            pages in prop::collection::vec((0u8..20, any::<bool>(), any::<bool>()), 0..300),
            capacity in 0u64..60_000,
        ) {
            let capacity = Bytes::from_base_pages(capacity);
            let mut ranking: Vec<Ranked> = pages
                .into_iter()
                .enumerate()
                .map(|(at, (rate, huge, resident))| ranked(at, rate, huge, resident))
                .collect();
            let mut sorted = ranking.clone();
            sorted.sort_by(Ranked::hotter_first);
            let count = select_hottest(&mut ranking, capacity);
            let mut front = ranking[..count].to_vec();
            front.sort_by(Ranked::hotter_first);
            prop_assert_eq!(&front, &sorted[..count]);
            let bytes = |pages: &[Ranked]| pages.iter().map(|p| p.size.bytes()).sum::<Bytes>();
            prop_assert!(bytes(&front) <= capacity);
            prop_assert!(count == sorted.len() || bytes(&sorted[..=count]) > capacity);
        }
    }

    #[test]
    fn residents_come_first_among_equals() {
        let mut ranking: Vec<Ranked> = (0..10).map(|at| ranked(at, 5, false, at >= 7)).collect();
        assert_eq!(select_hottest(&mut ranking, Bytes::from_base_pages(3)), 3);
        assert!(ranking[..3].iter().all(|page| page.resident));
    }
}
