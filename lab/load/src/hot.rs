// SPDX-License-Identifier: Apache-2.0
//! Which pages are hot, before the jump and after it.
//!
//! A range resembles a table or an arena. Scattered pages resemble a heap with many small objects, which is
//! difficult for managers that work with regions. The two hot sets share no page.

use anyhow::{Result, ensure};

use crate::rng::Rng;

/// Hot pages, ordered by rank if some are hotter than others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HotSet {
    /// Contiguous pages.
    Range {
        /// The first page.
        first: u32,
        /// Number of pages.
        len: u32,
    },
    /// Pages scattered over the mapping.
    Scattered(Vec<u32>),
}

impl HotSet {
    /// Number of pages.
    pub fn len(&self) -> u32 {
        match self {
            HotSet::Range { len, .. } => *len,
            HotSet::Scattered(pages) => u32::try_from(pages.len()).expect("a u32 counted them"),
        }
    }

    /// The pages.
    pub fn pages(&self) -> Vec<u32> {
        match self {
            HotSet::Range { first, len } => (*first..first + len).collect(),
            HotSet::Scattered(pages) => pages.clone(),
        }
    }
}

/// The hot sets before and after the jump, `hot` of `total` pages each.
///
/// Ranges are laid out with equal gaps: `gap after gap before gap`. If there is no room for the second,
/// `before` is at the end of the mapping.
pub fn choose(
    total: u32,
    hot: u32,
    scatter: bool,
    jump: bool,
    seed: u64,
) -> Result<(HotSet, Option<HotSet>)> {
    ensure!(hot > 0 && hot <= total, "--hot must be between a page and --size");
    let both = total.checked_sub(hot).is_some_and(|rest| rest >= hot);
    ensure!(both || !jump, "--jump needs a second hot set, so --hot may be at most half of --size");
    if scatter {
        let mut pages = Rng::new(seed).permutation(total);
        let after = jump.then(|| pages[hot as usize..2 * hot as usize].to_vec());
        pages.truncate(hot as usize);
        return Ok((HotSet::Scattered(pages), after.map(HotSet::Scattered)));
    }
    if !both {
        return Ok((HotSet::Range { first: total - hot, len: hot }, None));
    }
    let gap = (total - 2 * hot) / 3;
    let before = HotSet::Range { first: gap + hot + gap, len: hot };
    Ok((before, jump.then_some(HotSet::Range { first: gap, len: hot })))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_two_hot_sets_are_disjoint_and_inside() {
        for scatter in [false, true] {
            for (total, hot) in [(1000, 100), (1000, 500), (1001, 500), (2, 1), (179_200, 32_768)] {
                let (before, after) = choose(total, hot, scatter, true, 1).unwrap();
                let after = after.unwrap();
                assert_eq!((before.len(), after.len()), (hot, hot));
                let all: HashSet<u32> = before.pages().into_iter().chain(after.pages()).collect();
                assert_eq!(all.len(), 2 * hot as usize, "{total} {hot} {scatter}");
                assert!(all.iter().all(|&page| page < total));
            }
        }
    }

    #[test]
    fn sets_that_do_not_fit_are_refused() {
        assert!(choose(1000, 501, false, true, 1).is_err());
        assert!(choose(1000, 1001, true, false, 1).is_err());
        assert!(choose(1000, 0, true, false, 1).is_err());
        assert_eq!(
            choose(1000, 900, false, false, 1).unwrap(),
            (HotSet::Range { first: 100, len: 900 }, None)
        );
    }

    #[test]
    fn scattered_pages_cover_the_whole_mapping() {
        const TOTAL: u32 = 16_000;
        let (hot, _) = choose(TOTAL, 3200, true, false, 1).unwrap();
        let mut parts = [0; 16];
        for page in hot.pages() {
            parts[(page / (TOTAL / 16)) as usize] += 1;
        }
        // 200 expected in each part; five standard deviations.
        assert!(parts.iter().all(|&n| (135..=265).contains(&n)), "{parts:?}");
        assert_eq!(hot, choose(TOTAL, 3200, true, false, 1).unwrap().0, "the seed decides");
        assert_ne!(hot, choose(TOTAL, 3200, true, false, 2).unwrap().0);
    }
}
