// SPDX-License-Identifier: Apache-2.0
//! A second look: watches the few slow pages that a scan found accessed, and the one before it did not, once more.
//!
//! While placement is settled, scans are rare. A page that has become hot, as a program put other data there, would be
//! hit by scan after scan for half a minute before that many hits could not be chance. If it is accessed
//! in two windows right after each other, two hits are enough. The cost of a second look grows with the pages that
//! are looked at, and these are few.

use std::time::Duration;

use tierline_core::port::{Observations, Sample, SpaceId, Vpn};
use tierline_core::rng::Rng;

use crate::kcore::Kcore;
use crate::pagetable::Walker;
use crate::process::Held;
use crate::tracker::clear_accessed::clear_accessed;
use crate::tracker::windowed::nanos;

/// Pages that are looked at, at most. Ours: more than a thousand do not become hot between two scans, or it is a change that
/// ends calm.
const MOST: usize = 1024;
/// Base pages whose entries are read together.
const NEAR: usize = 64;

/// The pages of one process.
#[derive(Debug)]
pub struct SecondLook {
    rng: Rng,
    pages: Vec<Vpn>,
    offered: u64,
}

impl Default for SecondLook {
    fn default() -> Self {
        Self { rng: Rng::new(0x5_ec0d), pages: Vec::new(), offered: 0 }
    }
}

impl SecondLook {
    /// Forgets all pages.
    pub fn restart(&mut self) {
        self.pages.clear();
        self.offered = 0;
    }

    /// Adds a page that a scan found accessed. Of too many, each has the same chance to be looked at.
    #[inline]
    pub fn add(&mut self, page: Vpn) {
        self.offered += 1;
        if self.pages.len() < MOST {
            self.pages.push(page);
        } else if let Ok(at) = usize::try_from(self.rng.below(self.offered))
            && let Some(kept) = self.pages.get_mut(at)
        {
            *kept = page;
        }
    }

    /// Clears the bits of these pages. `false` if there are none, or if the kernel refuses.
    pub fn arm(&mut self, process: &Held) -> bool {
        self.pages.sort_unstable();
        !self.pages.is_empty() && clear_accessed(process, &self.pages) > 0
    }

    /// Reports the pages that were accessed since, in a window that took `watched`.
    pub fn read(
        &mut self,
        space: SpaceId,
        (kcore, walker, top): (&Kcore, &Walker, u64),
        watched: Duration,
        out: &mut Observations,
    ) {
        let of = |page: &Vpn| page.0 / NEAR as u64;
        for near in self.pages.chunk_by(|a, b| of(a) == of(b)) {
            let start = Vpn(of(&near[0]) * NEAR as u64);
            let leaves: [_; NEAR] = walker.find_run(kcore, top, start).unwrap_or([None; NEAR]);
            let accessed = leaves.iter().flatten().filter(|leaf| leaf.accessed);
            let again = accessed.filter(|leaf| near.binary_search(&leaf.vpn).is_ok());
            out.samples.extend(again.map(|leaf| Sample {
                space,
                vpn: leaf.vpn,
                base_pages: 1,
                hits: 1.0,
                exposure: Some(nanos(watched)),
                tier: None,
                write: None,
            }));
        }
        self.restart();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_pages_some_are_looked_at() {
        let mut look = SecondLook::default();
        (0..10 * MOST as u64).for_each(|page| look.add(Vpn(page)));
        assert_eq!(look.pages.len(), MOST);
        let late = look.pages.iter().filter(|page| page.0 >= 5 * MOST as u64).count();
        assert!((MOST / 3..2 * MOST / 3).contains(&late), "{late}");
        look.restart();
        assert!(look.pages.is_empty());
    }
}
