// SPDX-License-Identifier: Apache-2.0
//! A second look at listed pages, some every quantum, after all heat was halved or a threshold moved.

use super::residents::Residents;
use crate::page::{PageIdx, PageTable};
use crate::tier::{TierId, Tiers};

/// What is left to be looked at.
#[derive(Clone, Debug, Default)]
pub struct Review {
    lists: Vec<(TierId, u8, usize)>,
}

impl Review {
    /// All pages of these classes in all tiers, as they are now.
    pub fn of(residents: &Residents, tiers: &Tiers, classes: std::ops::Range<u8>) -> Self {
        let lists = tiers.iter().flat_map(|(tier, _)| classes.clone().map(move |c| (tier, c)));
        Self { lists: lists.map(|(tier, c)| (tier, c, residents.len(tier, c))).collect() }
    }

    /// The next page, from the front of a list; who looks at it puts it back or elsewhere.
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
