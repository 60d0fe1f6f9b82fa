// SPDX-License-Identifier: Apache-2.0
//! Families: processes that share pages, as a fork leaves them.
//!
//! A shared page has an accessed bit in the page table of each process. It is accessed if any of them is set, and it moves for
//! all of them, so it is reported as a page of one process, its owner: the first of the family in whose page table it is. The
//! frames of the page tables tell which pages are shared; what a process wrote to since the fork is its own.
//!
//! Where processes share most of their memory, a scan of one of them shows what a scan of all would show, at a fraction of the
//! cost. So they are scanned in turn.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use tierline_core::port::{Observations, PageSize, SpaceEvent, SpaceId, Vpn};
use tierline_core::unit::Nanos;

use crate::kcore::tasks::Process;
use crate::nodes::FrameTiers;
use crate::pagetable::{
    PageBits, PageTableFormat, PhysicalMemory, ReadOnce, TablePages, same_frames,
};
use crate::root::Root;
use crate::tracker::tier_runs::{TierRun, TierRuns};

/// Processes with which the page table of one is compared, at most. Ours.
const MOST_OWNERS: usize = 8;
/// A process is scanned in turn with those that own its pages, if it has less than one page of its own in this many. Ours.
const FEW_OF: u64 = 4;
/// So many must have run since their last scans. Ours: of two, one may do something else, as a child that writes a snapshot.
const MANY: usize = 3;

/// The start addresses of a process's code, stack and heap: random, and those of its parent until it calls exec.
pub type Image = [u64; 3];

/// The processes that are watched, and what they share.
#[derive(Debug)]
pub struct Families {
    format: PageTableFormat,
    members: BTreeMap<SpaceId, Member>,
    /// Who represents others is to be found anew.
    is_stale: bool,
    /// What this scan has reported of the pages of processes that have relatives, by owner and 2 MiB.
    reported: Reported,
}

#[derive(Debug)]
struct Member {
    process: Process,
    image: Image,
    /// Those that may own pages of this one, in order.
    owners: Vec<SpaceId>,
    /// Its last scan.
    found: BasePages,
    /// An owner of its pages is gone.
    has_lost_owner: bool,
    /// Whether it owns pages of others, as reported.
    represents: bool,
    /// Its CPU time when its bits were last cleared. While that is the same, none is set.
    cleared_at: Option<Nanos>,
    /// Scans since it was its turn.
    waits: u64,
    /// See [`Families::scanned_with`].
    scanned_with: SpaceId,
}

impl Member {
    fn has_run(&self, space: SpaceId, root: &Root) -> bool {
        let ran = root.process(space.0).and_then(|held| held.cpu_time());
        self.cleared_at.is_none() || ran != self.cleared_at
    }
}

impl Families {
    /// No process yet, on a machine with tables of this format.
    pub fn new(format: PageTableFormat) -> Self {
        Self { format, members: BTreeMap::new(), is_stale: false, reported: Reported::default() }
    }

    /// Begins a scan of these processes. Returns those whose turn it is not: of those of a family that have run, it is that of
    /// the one that waits longest.
    pub fn begin_scan(&mut self, spaces: &[SpaceId], root: &Root) -> BTreeSet<SpaceId> {
        self.reported.clear();
        let has_ended = |space: &&SpaceId| spaces.binary_search(space).is_err();
        let ended: Vec<SpaceId> = self.members.keys().filter(has_ended).copied().collect();
        ended.into_iter().for_each(|space| self.remove(space));
        let mut families: BTreeMap<SpaceId, Vec<SpaceId>> = BTreeMap::new();
        for space in self.members.keys() {
            families.entry(self.head(*space).unwrap_or(*space)).or_default().push(*space);
        }
        let mut waiting = BTreeSet::new();
        for (head, family) in families {
            let turn = self.turn(&family, root);
            for space in family {
                let Some(member) = self.members.get_mut(&space) else { continue };
                member.scanned_with = turn.map_or(space, |_| head);
                let waits = turn.is_some_and(|turn| turn != space);
                member.waits = if waits { member.waits + 1 } else { 0 };
                waiting.extend(waits.then_some(space));
            }
        }
        waiting
    }

    /// The one of a family that is scanned; `None` if all are, as few of them have run.
    fn turn(&self, family: &[SpaceId], root: &Root) -> Option<SpaceId> {
        if family.len() < MANY {
            return None;
        }
        let running = family.iter().filter(|space| self.has_run(**space, root));
        let running: Vec<SpaceId> = running.copied().collect();
        let waits = |space: &SpaceId| (self.members[space].waits, Reverse(*space));
        running.iter().copied().max_by_key(waits).filter(|_| running.len() >= MANY)
    }

    /// The process under whose name this one is scanned: its own, or the first of those that are scanned in turn.
    pub fn scanned_with(&self, space: SpaceId) -> SpaceId {
        self.members.get(&space).map_or(space, |member| member.scanned_with)
    }

    /// Records that the bits of a process were cleared after it had run for `cpu_time`.
    pub fn record_cleared(&mut self, space: SpaceId, cpu_time: Option<Nanos>) {
        if let Some(member) = self.members.get_mut(&space) {
            member.cleared_at = cpu_time;
        }
    }

    /// Whether a process may have accessed memory since its bits were cleared.
    pub fn has_run(&self, space: SpaceId, root: &Root) -> bool {
        self.members.get(&space).is_none_or(|member| member.has_run(space, root))
    }

    /// Removes a process that has ended, or runs another program now. Nothing is known of the pages that it owned.
    fn remove(&mut self, space: SpaceId) {
        let Some(gone) = self.members.remove(&space) else { return };
        self.is_stale |= gone.found.shared > 0;
        for member in self.members.values_mut().filter(|member| member.owners.contains(&space)) {
            member.owners.retain(|owner| *owner != space);
            member.has_lost_owner |= gone.represents;
        }
    }

    /// Whether a process that owned pages of this one is gone since the last call: they are to be reported anew.
    pub fn take_lost_owner(&mut self, space: SpaceId) -> bool {
        let member = self.members.get_mut(&space);
        member.is_some_and(|member| std::mem::take(&mut member.has_lost_owner))
    }

    /// Adds a process.
    pub fn add(&mut self, space: SpaceId, process: Process, image: Image) {
        self.remove(space);
        let is_known = image != Image::default();
        let elder =
            self.members.range(..space).filter(|(_, elder)| is_known && elder.image == image);
        let owners = elder.map(|(space, _)| *space).take(MOST_OWNERS).collect();
        let member = Member {
            process,
            image,
            owners,
            found: BasePages::default(),
            has_lost_owner: false,
            represents: false,
            cleared_at: None,
            waits: 0,
            scanned_with: space,
        };
        self.members.insert(space, member);
    }

    /// The first of those with which this one shares most of its pages.
    fn head(&self, space: SpaceId) -> Option<SpaceId> {
        let member = self.members.get(&space)?;
        let BasePages { present, shared, .. } = member.found;
        let head = member.owners.first().copied();
        head.filter(|_| (present - shared) * FEW_OF < present)
    }

    /// Compares the pages of a process with those of its relatives that still run.
    pub fn compare<'a, M: PhysicalMemory>(
        &'a mut self,
        space: SpaceId,
        memory: &'a M,
        is_current: impl Fn(&Process) -> bool,
    ) -> Comparison<'a, M> {
        let owners = self.members.get(&space).map_or(&[][..], |member| &member.owners);
        let running = |owner: &SpaceId| {
            let process = self.members.get(owner)?.process;
            let tables = ReadOnce::new(memory);
            is_current(&process).then_some(Owner { space: *owner, top: process.top_table, tables })
        };
        let owners = owners.iter().filter_map(running).collect();
        let is_owner = self.members.get(&space).is_some_and(|member| member.represents);
        let (format, reported, found) = (self.format, &mut self.reported, BasePages::default());
        Comparison { format, space, owners, is_owner, reported, found }
    }

    /// Records the result of a scan, and reports who represents others now.
    pub fn record(&mut self, space: SpaceId, found: BasePages, out: &mut Observations) {
        let Some(member) = self.members.get_mut(&space) else { return };
        self.is_stale |= (member.found.shared > 0) != (found.shared > 0);
        member.found = found;
        if !std::mem::take(&mut self.is_stale) {
            return;
        }
        let sharing = self.members.values().filter(|member| member.found.shared > 0);
        let owners: BTreeSet<SpaceId> =
            sharing.flat_map(|member| member.owners.iter().copied()).collect();
        for (space, member) in &mut self.members {
            let represents = owners.contains(space);
            if represents != std::mem::replace(&mut member.represents, represents) {
                out.space_events.push(SpaceEvent::Represents(*space, represents));
            }
        }
    }
}

/// Base pages of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasePages {
    /// In memory.
    pub present: u64,
    /// Of them, those that other processes own.
    pub shared: u64,
    /// Of these, accessed.
    pub shared_accessed: u64,
}

struct Owner<'a, M> {
    space: SpaceId,
    top: u64,
    tables: ReadOnce<'a, M>,
}

/// Compares the page tables of one process with those of the owners of its pages.
pub struct Comparison<'a, M> {
    format: PageTableFormat,
    space: SpaceId,
    owners: Vec<Owner<'a, M>>,
    is_owner: bool,
    reported: &'a mut Reported,
    /// What was found so far.
    pub found: BasePages,
}

impl<M: PhysicalMemory> Comparison<'_, M> {
    /// The base pages of a table that others own. Those that were accessed are reported as theirs, once in a scan.
    pub fn table(
        &mut self,
        chunk: Vpn,
        table: &TablePages<'_>,
        frames: &FrameTiers,
        out: &mut Observations,
    ) -> PageBits {
        let mut shared = PageBits::default();
        self.found.present += count(&table.present);
        for owner in &self.owners {
            if shared == table.present {
                break;
            }
            let Some(theirs) = self.format.find_table(&owner.tables, owner.top, chunk) else {
                continue;
            };
            let same = same_frames(table.entries, &theirs);
            let mut accessed = PageBits::default();
            for at in 0..same.len() {
                let found = same[at] & table.present[at] & !shared[at];
                shared[at] |= found;
                accessed[at] = found & table.accessed[at];
                self.found.shared += u64::from(found.count_ones());
            }
            self.found.shared_accessed += count(&accessed);
            let news = news(self.reported, (owner.space, chunk), accessed);
            let mut runs = TierRuns::new(owner.space, None);
            for (first, mut bits) in (0..).step_by(64).zip(news) {
                while bits != 0 {
                    let at = first + bits.trailing_zeros() as usize;
                    let tier = frames.tier_of(self.format.frame(table.entries[at]));
                    let (start, size) = (chunk.0 + at as u64, PageSize::Base);
                    if tier.is_some() {
                        runs.add_accessed(TierRun { start, pages: 1, size, tier }, out);
                    }
                    bits &= bits - 1;
                }
            }
            runs.finish(out);
        }
        if self.is_owner {
            let own = std::array::from_fn(|at| table.accessed[at] & !shared[at]);
            let news = news(self.reported, (self.space, chunk), own);
            // What a relative has shown is no news.
            return std::array::from_fn(|at| shared[at] | own[at] & !news[at]);
        }
        shared
    }
}

fn count(pages: &PageBits) -> u64 {
    pages.iter().map(|word| u64::from(word.count_ones())).sum()
}

type Reported = FxHashMap<(SpaceId, Vpn), PageBits>;

/// Records pages as reported, and returns those that were not.
fn news(reported: &mut Reported, of: (SpaceId, Vpn), accessed: PageBits) -> PageBits {
    if accessed == PageBits::default() {
        return accessed;
    }
    let reported = reported.entry(of).or_default();
    let news = std::array::from_fn(|at| accessed[at] & !reported[at]);
    reported.iter_mut().zip(accessed).for_each(|(reported, accessed)| *reported |= accessed);
    news
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pagetable::TableEntries;
    use crate::process::held::tests::{end, waiting};
    use tierline_core::tier::TierId;

    const FORMAT: PageTableFormat = PageTableFormat { levels: 2, encrypted: 0 };
    const PRESENT: u64 = 1;
    const ACCESSED: u64 = 1 << 5;

    /// Tables of two levels, by frame.
    struct Tables(BTreeMap<u64, TableEntries>);

    impl PhysicalMemory for Tables {
        fn read_phys(&self, address: u64, buf: &mut [u8]) -> bool {
            let Some(table) = self.0.get(&(address >> 12)) else { return false };
            let bytes: Vec<u8> = table.iter().flat_map(|entry| entry.to_ne_bytes()).collect();
            let at = usize::try_from(address & 0xfff).expect("small");
            bytes.get(at..at + buf.len()).map(|bytes| buf.copy_from_slice(bytes)).is_some()
        }
        fn ram_base_pages(&self) -> u64 {
            1 << 10
        }
    }

    fn table(entries: &[(usize, u64)]) -> TableEntries {
        let mut table = [0; 512];
        entries.iter().for_each(|(at, entry)| table[*at] = *entry);
        table
    }

    fn family(spaces: &[u32]) -> Families {
        let mut families = Families::new(FORMAT);
        for space in spaces {
            let process = Process::of(*space, u64::from(*space) << 12);
            families.add(SpaceId(*space), process, [7, 8, 9]);
        }
        families
    }

    /// What is left out of the table of the first 2 MiB of a process, and what is reported of other processes.
    fn compare(families: &mut Families, space: u32, memory: &Tables) -> (Vec<u64>, Observations) {
        let entries = memory.0[&(u64::from(space) + 100)];
        let bits = |wanted: u64| {
            let mut bits = PageBits::default();
            let has = |at: &usize| entries[*at] & wanted == wanted;
            (0..512).filter(has).for_each(|at| bits[at / 64] |= 1 << (at % 64));
            bits
        };
        let (present, accessed) = (bits(PRESENT), bits(PRESENT | ACCESSED));
        let pages = TablePages { entries: &entries, present, accessed };
        let (frames, mut out) = (FrameTiers::all_in(TierId(1)), Observations::default());
        let mut comparison = families.compare(SpaceId(space), memory, |_| true);
        let left_out = comparison.table(Vpn(0), &pages, &frames, &mut out);
        let found = comparison.found;
        families.record(SpaceId(space), found, &mut out);
        let is_out = |at: &u64| left_out[(at / 64) as usize] >> (at % 64) & 1 == 1;
        ((0..512).filter(is_out).collect(), out)
    }

    fn samples(out: &Observations) -> Vec<(u32, u64, u32)> {
        out.samples.iter().map(|s| (s.space.0, s.vpn.0, s.base_pages)).collect()
    }

    /// The parent 1 has pages 0 to 3, its child 2 has written to page 1 and has page 9 of shared memory, which child 3 has, too.
    #[test]
    fn a_shared_page_is_one_of_its_first_process_and_its_accesses_are_those_of_all() {
        let frame = |at: u64| at << 12 | PRESENT;
        let top = |space: u64| (space, table(&[(0, (space + 100) << 12 | PRESENT)]));
        let lowest = |space: u64, pages: &[(usize, u64)]| (space + 100, table(pages));
        let parent: Vec<_> = (0..4).map(|at| (at, frame(at as u64 + 1000))).collect();
        let mut child = parent.clone();
        (child[1].1, child[3].1) = (frame(2000) | ACCESSED, child[3].1 | ACCESSED);
        child.push((9, frame(3000)));
        let mut other = child.clone();
        (other[1].1, other[2].1, other[4].1) =
            (frame(4000), other[2].1 | ACCESSED, other[4].1 | ACCESSED);
        let memory = Tables(BTreeMap::from([
            top(1),
            top(2),
            top(3),
            lowest(1, &parent),
            lowest(2, &child),
            lowest(3, &other),
        ]));
        let mut families = family(&[1, 2, 3]);
        families.begin_scan(&[SpaceId(1), SpaceId(2), SpaceId(3)], &Root::default());
        let (left_out, out) = compare(&mut families, 1, &memory);
        assert!(left_out.is_empty() && out.samples.is_empty() && out.space_events.is_empty());
        let (left_out, out) = compare(&mut families, 2, &memory);
        assert_eq!((left_out, samples(&out)), (vec![0, 2, 3], vec![(1, 3, 1)]));
        assert_eq!(out.space_events, [SpaceEvent::Represents(SpaceId(1), true)]);
        let (left_out, out) = compare(&mut families, 3, &memory);
        assert_eq!(left_out, [0, 2, 3, 9]);
        assert_eq!(samples(&out), [(1, 2, 1), (2, 9, 1)], "page 3 was reported before");
        assert_eq!(out.space_events, [SpaceEvent::Represents(SpaceId(2), true)]);
        families.begin_scan(&[SpaceId(1), SpaceId(2)], &Root::default());
        let (_, out) = compare(&mut families, 2, &memory);
        assert_eq!(samples(&out), [(1, 3, 1)], "in the next scan it is news");
        assert_eq!(out.space_events, [SpaceEvent::Represents(SpaceId(2), false)]);
        assert!(!families.take_lost_owner(SpaceId(2)), "the last one owned nothing");
        families.begin_scan(&[SpaceId(2)], &Root::default());
        assert!([true, false].iter().all(|lost| families.take_lost_owner(SpaceId(2)) == *lost));
        let (left_out, out) = compare(&mut families, 2, &memory);
        assert!(left_out.is_empty() && out.samples.is_empty(), "they are its own now");
    }

    #[test]
    fn those_of_a_family_that_run_are_scanned_in_turn() {
        let children = [(); 4].map(|()| waiting());
        let mut pids: Vec<u32> = children.iter().map(std::process::Child::id).collect();
        pids.sort_unstable();
        let spaces: Vec<SpaceId> = pids.iter().map(|pid| SpaceId(*pid)).collect();
        let root = Root::default();
        pids.iter().for_each(|pid| drop(root.hold(*pid)));
        let mut families = family(&pids);
        assert!(families.begin_scan(&spaces, &root).is_empty(), "nothing is known of them");
        let found = BasePages { present: 100, shared: 80, shared_accessed: 0 };
        let mut out = Observations::default();
        spaces[1..].iter().for_each(|space| families.record(*space, found, &mut out));
        // The first waits for input.
        let held = root.process(pids[0]).expect("it runs");
        while !held.read_text("stat").expect("readable").contains(") S ") {
            std::thread::yield_now();
        }
        families.record_cleared(spaces[0], held.cpu_time());
        let mut turn = || {
            let waiting = families.begin_scan(&spaces, &root);
            spaces.iter().position(|space| !waiting.contains(space)).filter(|_| waiting.len() == 3)
        };
        assert_eq!([(); 5].map(|()| turn()), [1, 2, 3, 1, 2].map(Some));
        // With a page in four of its own, another one is scanned for itself.
        families.record(spaces[3], BasePages { shared: 75, ..found }, &mut out);
        assert!(families.begin_scan(&spaces, &root).is_empty(), "of two none waits");
        children.into_iter().for_each(end);
    }
}
