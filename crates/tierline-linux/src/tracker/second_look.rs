// SPDX-License-Identifier: Apache-2.0
//! A second look: watches the few slow pages that a scan found accessed, and the one before it did not, once more.
//!
//! While placement is settled, scans are rare. A page that has become hot, as a program put other data there, would have to be
//! hit by several scans, seconds apart, before that could not be chance. If it is accessed
//! in two windows right after each other, two hits are enough. The cost of a second look grows with the pages that
//! are looked at, and these are few.

use std::collections::BTreeSet;
use std::time::Duration;

use tierline_core::port::{Observations, Sample, SpaceId, Vpn};
use tierline_core::unit::Nanos;

use crate::pagetable::{PhysicalMemory, Walker};
use crate::process::Held;
use crate::tracker::clear_accessed::{accessed, clear_accessed, shared};
use crate::tracker::cost::thread_cpu;
use crate::tracker::reservoir::Reservoir;
use crate::tracker::windowed::nanos;

/// Pages that are looked at, at most. Ours: more than a thousand do not become hot between two scans, or it is a change that
/// ends calm.
const MOST: usize = 1024;
/// Pages that are armed together.
const BATCH: usize = 64;

/// The pages of one process. Of too many, each has the same chance to be looked at.
#[derive(Debug)]
pub struct SecondLook {
    pages: Reservoir<Vpn>,
    /// Batches armed so far. The next look begins with another batch, so that all have their turn where time is short.
    batches: usize,
}

impl Default for SecondLook {
    fn default() -> Self {
        Self { pages: Reservoir::new(0x5_ec0d, MOST), batches: 0 }
    }
}

impl SecondLook {
    /// Forgets all pages.
    pub fn restart(&mut self) {
        self.pages.clear();
    }

    /// Adds a page that a scan found accessed.
    #[inline]
    pub fn add(&mut self, page: Vpn) {
        self.pages.offer(page);
    }

    /// Clears the bits of these pages, or of some of them if that takes more CPU time than `most`: the kernel splits huge pages
    /// that are mapped by base pages, as a fork leaves them. `false` if there are none, or if the kernel refuses: then none
    /// is looked at, as bits that were not cleared show no access.
    pub fn arm(&mut self, process: &Held, most: Nanos) -> bool {
        self.pages.sort();
        let shared = shared(process, self.pages.kept());
        self.pages.retain(|page| shared.binary_search(page).is_err());
        let batches: Vec<&[Vpn]> = self.pages.kept().chunks(BATCH).collect();
        let first = self.batches.checked_rem(batches.len()).unwrap_or(0);
        let (start, mut armed) = (thread_cpu(), BTreeSet::new());
        for batch in batches.iter().cycle().skip(first).take(batches.len()) {
            self.batches += 1;
            if clear_accessed(process, batch) > 0 {
                armed.extend(batch.iter().copied());
            }
            if thread_cpu().saturating_sub(start) >= most {
                break;
            }
        }
        self.pages.retain(|page| armed.contains(page));
        !self.pages.kept().is_empty()
    }

    /// Reports the pages that were accessed since, in a window that took `watched`.
    pub fn read(
        &mut self,
        space: SpaceId,
        tables: (&impl PhysicalMemory, &Walker, u64),
        watched: Duration,
        out: &mut Observations,
    ) {
        let again = accessed(tables, self.pages.kept()).into_iter();
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
        assert_eq!(look.pages.kept().len(), MOST);
        let late = look.pages.kept().iter().filter(|page| page.0 >= 5 * MOST as u64).count();
        assert!((MOST / 3..2 * MOST / 3).contains(&late), "{late}");
        look.restart();
        assert!(look.pages.kept().is_empty());
    }

    /// Where there is no time, one batch is looked at, another one each time.
    #[test]
    fn a_look_takes_no_more_time_than_it_may() {
        let memory = vec![1u8; (5 * BATCH) << 12];
        let first = Vpn::of(memory.as_ptr().addr() as u64 + 4095);
        let own = Root::default().process(std::process::id()).expect("ourselves");
        if clear_accessed(&own, &[first]) == 0 {
            return; // Some kernels do not let a process advise itself (before 6.13).
        }
        let (mut look, mut seen) = (SecondLook::default(), BTreeSet::new());
        for _ in 0..4 {
            (0..4 * BATCH as u64).for_each(|page| look.add(Vpn(first.0 + page)));
            assert!(look.arm(&own, Nanos::ZERO));
            assert_eq!(look.pages.kept().len(), BATCH);
            seen.extend(look.pages.kept().iter().copied());
            look.restart();
        }
        assert_eq!(seen.len(), 4 * BATCH);
    }

    /// Bits that the kernel did not clear are no accesses.
    #[test]
    fn where_the_kernel_refuses_nothing_is_looked_at() {
        let child = waiting();
        let held = Root::default().hold(child.id()).expect("it runs");
        end(child);
        let mut look = SecondLook::default();
        look.add(Vpn(1));
        assert!(!look.arm(&held, Nanos::from_secs(1)) && look.pages.kept().is_empty());
    }
}
