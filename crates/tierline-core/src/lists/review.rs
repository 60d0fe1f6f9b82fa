// SPDX-License-Identifier: Apache-2.0
//! Reclassifies listed pages, some in every quantum, after all counts were halved or a threshold changed.

use super::residents::Residents;
use crate::page::{PageIdx, PageTable};
use crate::tier::{TierId, Tiers};

/// What is left to review.
#[derive(Clone, Debug, Default)]
pub struct Review {
    lists: Vec<(TierId, u8, usize)>,
}

impl Review {
    /// All pages of these classes in all tiers, as they are listed now.
    pub fn of(residents: &Residents, tiers: &Tiers, classes: std::ops::Range<u8>) -> Self {
        let lists = tiers.iter().flat_map(|(tier, _)| classes.clone().map(move |c| (tier, c)));
        Self { lists: lists.map(|(tier, c)| (tier, c, residents.len(tier, c))).collect() }
    }

    /// The next page, from the front of a list; the caller must list it again.
    pub fn next(&mut self, residents: &mut Residents, pages: &mut PageTable) -> Option<PageIdx> {
        loop {
            let (tier, class, left) = self.lists.last_mut()?;
            let page = (*left > 0).then(|| residents.first(pages, *tier, *class)).flatten();
            if page.is_some() {
                *left -= 1;
                return page;
            }
            self.lists.pop();
        }
    }
}
