// SPDX-License-Identifier: Apache-2.0
//! A second look: watches the few slow pages that a scan found accessed, and the one before it did not, once more.
//!
//! While placement is settled, scans are rare. A page that has become hot, as a program put other data there, would have to be
//! hit by several scans, seconds apart, before that could not be chance. If it is accessed
//! in two windows right after each other, two hits are enough. The cost of a second look grows with the pages that
//! are looked at, and these are few.

use std::time::Duration;

use tierline_core::port::{Observations, Sample, SpaceId, Vpn};

use crate::pagetable::{PhysicalMemory, Walker};
use crate::process::Held;
use crate::tracker::clear_accessed::{accessed, clear_accessed, shared};
use crate::tracker::reservoir::Reservoir;
use crate::tracker::windowed::nanos;

/// Pages that are looked at, at most. Ours: more than a thousand do not become hot between two scans, or it is a change that
/// ends calm.
const MOST: usize = 1024;

/// The pages of one process. Of too many, each has the same chance to be looked at.
#[derive(Debug)]
pub struct SecondLook(Reservoir<Vpn>);

impl Default for SecondLook {
    fn default() -> Self {
        Self(Reservoir::new(0x5_ec0d, MOST))
    }
}

impl SecondLook {
    /// Forgets all pages.
    pub fn restart(&mut self) {
        self.0.clear();
    }

    /// Adds a page that a scan found accessed.
    #[inline]
    pub fn add(&mut self, page: Vpn) {
        self.0.offer(page);
    }

    /// Clears the bits of these pages. `false` if there are none, or if the kernel refuses: then none is looked at, as bits that
    /// were not cleared show no access.
    pub fn arm(&mut self, process: &Held) -> bool {
        self.0.sort();
        let shared = shared(process, self.0.kept());
        self.0.retain(|page| shared.binary_search(page).is_err());
        let armed = clear_accessed(process, self.0.kept()) > 0;
        if !armed {
            self.restart();
        }
        armed
    }

    /// Reports the pages that were accessed since, in a window that took `watched`.
    pub fn read(
        &mut self,
        space: SpaceId,
        tables: (&impl PhysicalMemory, &Walker, u64),
        watched: Duration,
        out: &mut Observations,
    ) {
        let again = accessed(tables, self.0.kept()).into_iter();
        out.samples.extend(again.map(|vpn| Sample {
            space,
            vpn,
            base_pages: 1,
            hits: 1.0,
            exposure: Some(nanos(watched)),
            tier: None,
            write: None,
        }));
        self.restart();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::held::tests::{end, waiting};
    use crate::root::Root;

    #[test]
    fn of_too_many_pages_some_are_looked_at() {
        let mut look = SecondLook::default();
        (0..10 * MOST as u64).for_each(|page| look.add(Vpn(page)));
        assert_eq!(look.0.kept().len(), MOST);
        let late = look.0.kept().iter().filter(|page| page.0 >= 5 * MOST as u64).count();
        assert!((MOST / 3..2 * MOST / 3).contains(&late), "{late}");
        look.restart();
        assert!(look.0.kept().is_empty());
    }

    /// Bits that the kernel did not clear are no accesses.
    #[test]
    fn where_the_kernel_refuses_nothing_is_looked_at() {
        let child = waiting();
        let held = Root::default().hold(child.id()).expect("it runs");
        end(child);
        let mut look = SecondLook::default();
        look.add(Vpn(1));
        assert!(!look.arm(&held) && look.0.kept().is_empty());
    }
}
