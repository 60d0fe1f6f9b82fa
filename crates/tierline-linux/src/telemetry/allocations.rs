// SPDX-License-Identifier: Apache-2.0
//! What the managed programs allocate.
//!
//! The kernel does not count it. Free memory falls by what anyone allocates, pages of files and other programs' included. A
//! process allocates at most what it has grown by, or a base page for each page fault: a copy of a page that it shared does not
//! make it grow, and a huge page is one fault. So the smaller of both counts, less what others allocated: of room that is made
//! for new pages they take their part, and keep it. (Ours.)

use std::collections::BTreeMap;

use tierline_core::port::Allocated;
use tierline_core::unit::{Bytes, Nanos};

use crate::process::Stat;
use crate::root::Root;

/// Counts these allocations.
#[derive(Debug)]
pub struct Allocations {
    counted: Allocated,
    /// Bytes free at the last reading, and each process' resident bytes and page faults when they were last needed.
    free: Option<Bytes>,
    seen: BTreeMap<u32, (Bytes, u64)>,
}

impl Default for Allocations {
    fn default() -> Self {
        let counted = Allocated { total: Bytes::ZERO, read: Nanos::ZERO };
        Self { counted, free: None, seen: BTreeMap::new() }
    }
}

impl Allocations {
    /// Takes in that `free` bytes are free on the machine at `now`, or give way.
    pub fn update(
        &mut self,
        now: Nanos,
        root: &Root,
        pids: impl Iterator<Item = u32>,
        free: Bytes,
    ) {
        self.counted.read = now;
        let before = self.free.replace(free);
        let fallen = before.map_or(Bytes::ZERO, |before| before.saturating_sub(free));
        // Reading the processes costs more than free memory: without need it is not done.
        if before.is_none() || fallen > Bytes::ZERO {
            let own = fallen.min(self.grown(root, pids));
            self.counted.total += own.saturating_sub(fallen - own);
        }
    }

    /// What was counted until now.
    pub fn counted(&self) -> Allocated {
        self.counted
    }

    /// The most that these processes can have allocated since the last call.
    fn grown(&mut self, root: &Root, pids: impl Iterator<Item = u32>) -> Bytes {
        let before = std::mem::take(&mut self.seen);
        let mut grown = Bytes::ZERO;
        for stat in pids.filter_map(|pid| Stat::of(&*root.process(pid)?)) {
            let (rss, faults) = before.get(&stat.pid).copied().unwrap_or_default();
            let by_faults = Bytes::from_base_pages(stat.faults.saturating_sub(faults));
            let own = stat.rss.saturating_sub(rss).max(by_faults);
            grown = Bytes(grown.0.saturating_add(own.0));
            self.seen.insert(stat.pid, (stat.rss, stat.faults));
        }
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::fake;

    const PID: u32 = 7;

    fn set(root: &Root, rss_pages: u64, faults: u64) {
        let mut fields = vec!["0".to_string(); 50];
        (fields[0], fields[7], fields[21]) =
            ("S".into(), faults.to_string(), rss_pages.to_string());
        std::fs::write(root.path("/proc/7/stat"), format!("7 (a) {}", fields.join(" ")))
            .expect("written");
    }

    /// The base pages that count when free memory falls from 1,000 pages to `free`, and the process changes meanwhile.
    fn counted(free: u64, rss_pages: u64, faults: u64) -> u64 {
        let (_dir, root) = fake(&[("/proc/7/stat", "")]);
        root.hold(PID).expect("held");
        let mut allocations = Allocations::default();
        set(&root, 100, 50);
        let mut update = |secs, free| {
            let free = Bytes::from_base_pages(free);
            allocations.update(Nanos::from_secs(secs), &root, [PID].into_iter(), free);
        };
        update(1, 1_000);
        set(&root, rss_pages, faults);
        update(2, free);
        assert_eq!(allocations.counted().read, Nanos::from_secs(2));
        allocations.counted().total.base_pages()
    }

    #[test]
    fn what_a_process_allocates_is_told_from_what_others_do() {
        assert_eq!(counted(900, 200, 150), 100, "it grew");
        assert_eq!(counted(900, 100, 50), 0, "it did nothing");
        assert_eq!(counted(900, 180, 100), 60, "others took a fifth");
        assert_eq!(counted(400, 120, 60), 0, "others took more");
        assert_eq!(counted(900, 100, 150), 100, "copies of shared pages");
        assert_eq!(counted(488, 612, 51), 512, "a huge page");
        assert_eq!(counted(1_000, 200, 150), 0, "it mapped what was in memory already");
    }
}
