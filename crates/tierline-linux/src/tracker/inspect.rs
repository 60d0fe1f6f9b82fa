// SPDX-License-Identifier: Apache-2.0
//! Observes pages without a tracker: their tiers, and whether they were accessed since the last query. For
//! policies over a tracker that does not observe fast memory.
//!
//! Page tables are read through `/proc/kcore`, as by the `accessed` tracker, but bits are cleared only for
//! queried pages: accessed ones are cooled ([`super::clear_accessed`]), so that the next query covers the time since.
//! The kernel's reclaimer does the same with a page that it is about to reclaim. The cost is one read per
//! query, and a census every [`CENSUS_EVERY`] in proportion to mapped memory: 5 ns a page natively, 0.1 us
//! in an emulated guest.

use std::collections::BTreeMap;

use tierline_core::port::{Observations, PageSize, Question, SpaceId, Vpn};
use tierline_core::tier::Tiers;
use tierline_core::unit::{BASE_PER_HUGE, Nanos};

use crate::error::Result;
use crate::kcore::Kcore;
use crate::kcore::tasks::{Process, TaskList};
use crate::nodes::{FrameTiers, Nodes};
use crate::pagetable::{MappedPage, PageTableFormat, Walker};
use crate::root::Root;
use crate::tracker::clear_accessed::clear_accessed;
use crate::tracker::tier_runs::{TierRun, TierRuns};

/// Time between two readings of the tiers of all pages. Ours: new pages are never the coldest.
pub const CENSUS_EVERY: Nanos = Nanos::from_secs(2);
/// Entries per read; neighbours tend to be queried together.
const NEAR: usize = 64;

/// Reads the page tables of processes.
pub struct Inspector {
    root: Root,
    kcore: Kcore,
    kernel: TaskList,
    walker: Walker,
    frames: FrameTiers,
    processes: BTreeMap<SpaceId, Process>,
}

impl Inspector {
    /// An inspector for a machine with these tiers.
    ///
    /// # Errors
    /// [`crate::error::Error::Missing`] if the kernel lacks a requirement: `/proc/kcore`, BTF.
    pub fn new(root: &Root, tiers: &Tiers) -> Result<Self> {
        let kcore = Kcore::open(root)?;
        let kernel = TaskList::open(root, &kcore)?;
        let format = PageTableFormat { levels: kernel.levels, encrypted: kernel.encrypted };
        let (walker, frames) = (Walker::new(format), Nodes::read(root)?.by_tier(tiers));
        let root = root.clone();
        Ok(Self { root, kcore, kernel, walker, frames, processes: BTreeMap::new() })
    }

    /// Appends the tier of every page of these processes. A process that has ended is skipped.
    pub fn census(&mut self, spaces: &[SpaceId], out: &mut Observations) {
        self.processes.retain(|space, _| spaces.contains(space));
        for &space in spaces {
            let Some(table) = self.table(space) else { continue };
            let Self { kcore, walker, frames, .. } = self;
            let mut runs = TierRuns::new(space, None);
            walker.walk(kcore, table, &mut |leaf: MappedPage| {
                if let Some(tier) = frames.tier_of(leaf.pfn) {
                    let pages = if leaf.size == PageSize::Huge { 512 } else { 1 };
                    let tier = Some(tier);
                    let page = TierRun { start: leaf.vpn.0, pages, size: leaf.size, tier };
                    runs.add_present(page, out);
                }
            });
            runs.finish(out);
        }
    }

    /// Appends one answer per question: was the page accessed since the last question about it? A page that is
    /// not in memory was not; a page whose tables cannot be read counts as accessed.
    pub fn check_accessed(&mut self, questions: &[Question], out: &mut Vec<bool>) {
        let first = out.len();
        out.resize(first + questions.len(), true);
        let mut order: Vec<usize> = (0..questions.len()).collect();
        order.sort_unstable_by_key(|&i| (questions[i].space, questions[i].vpn));
        let near = |i: usize| (questions[i].space, questions[i].vpn.0 / NEAR as u64);
        for asked in order.chunk_by(|&a, &b| questions[a].space == questions[b].space) {
            let space = questions[asked[0]].space;
            let Some(table) = self.table(space) else { continue };
            let mut touched = Vec::new();
            for group in asked.chunk_by(|&a, &b| near(a) == near(b)) {
                let start = Vpn(near(group[0]).1 * NEAR as u64);
                let leaves: [Option<MappedPage>; NEAR] =
                    self.walker.find_run(&self.kcore, table, start).unwrap_or([None; NEAR]);
                for &i in group {
                    let leaf = leaf_of(&leaves, questions[i].vpn.0 - start.0);
                    let leaf = leaf.filter(|leaf| leaf.accessed);
                    out[first + i] = leaf.is_some();
                    touched.extend(leaf.into_iter().flat_map(base_pages));
                }
            }
            touched.dedup();
            if let Some(process) = self.root.process(space.0) {
                clear_accessed(&process, &touched);
            }
        }
    }

    /// The physical address of a process's top page table.
    fn table(&mut self, space: SpaceId) -> Option<u64> {
        let Self { root, kcore, kernel, processes, .. } = self;
        let known =
            processes.get(&space).copied().filter(|process| kernel.is_current(kcore, process));
        let process = known.or_else(|| kernel.find(kcore, space.0))?;
        // The held process still runs, so the number that was found is its own.
        root.process(space.0)?;
        processes.insert(space, process);
        Some(process.top_table)
    }
}

/// The page `at` pages after the start of `leaves`; a huge page is stored once, as the first of them.
fn leaf_of(leaves: &[Option<MappedPage>; NEAR], at: u64) -> Option<MappedPage> {
    let huge = leaves[0].filter(|leaf| leaf.size == PageSize::Huge);
    huge.or_else(|| leaves.get(usize::try_from(at).ok()?).copied().flatten())
}

fn base_pages(leaf: MappedPage) -> impl Iterator<Item = Vpn> {
    let count = if leaf.size == PageSize::Huge { BASE_PER_HUGE } else { 1 };
    (leaf.vpn.0..leaf.vpn.0 + count).map(Vpn)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(vpn: u64, size: PageSize) -> Option<MappedPage> {
        let leaf =
            MappedPage { vpn: Vpn(vpn), pfn: 7, size, accessed: true, writable: true, dirty: true };
        Some(leaf)
    }

    #[test]
    fn a_huge_page_answers_for_all_of_its_base_pages() {
        let mut leaves = [None; NEAR];
        leaves[0] = leaf(512, PageSize::Huge);
        assert_eq!(leaf_of(&leaves, 9).map(|leaf| leaf.vpn), Some(Vpn(512)));
        assert_eq!(leaf(512, PageSize::Huge).into_iter().flat_map(base_pages).count(), 512);
        leaves[0] = leaf(64, PageSize::Base);
        leaves[9] = leaf(73, PageSize::Base);
        assert_eq!(leaf_of(&leaves, 9).map(|leaf| leaf.vpn), Some(Vpn(73)));
        assert_eq!(leaf_of(&leaves, 10), None);
        assert_eq!(leaf(73, PageSize::Base).into_iter().flat_map(base_pages).count(), 1);
    }
}
