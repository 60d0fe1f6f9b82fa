// SPDX-License-Identifier: Apache-2.0
//! Clears the accessed bits of single pages of another process: `process_madvise` with `MADV_COLD`, which
//! also flushes their TLB entries. The pages lose their place in the kernel's LRU lists. The kernel splits
//! folios between base and huge pages that are named only in part. It accepts pages that other processes map, too, but leaves
//! their bits.

use std::ops::Range;
use std::os::unix::fs::FileExt;

use tierline_core::port::Vpn;

use crate::pagemap::PagemapEntry;
use crate::pagetable::{PhysicalMemory, Walker};
use crate::process::Held;
use crate::process::advise::{Advice, advise, joined};

/// Base pages whose entries are read together.
const NEAR: usize = 64;

/// Clears the bits of these sorted pages; a huge page is named by all of its base pages. Returns the number
/// of base pages that the kernel accepted. Refused ranges (locked, hugetlbfs, gone) are skipped.
pub fn clear_accessed(process: &Held, pages: &[Vpn]) -> u64 {
    cool_ranges(process, &joined(pages.iter().map(|page| (page.0, 1))))
}

/// Those of these sorted base pages whose bits are set.
pub fn accessed(
    (memory, walker, top): (&impl PhysicalMemory, &Walker, u64),
    pages: &[Vpn],
) -> Vec<Vpn> {
    let mut accessed = Vec::new();
    for near in pages.chunk_by(are_near) {
        let leaves: [_; NEAR] = walker.find_run(memory, top, first(near)).unwrap_or([None; NEAR]);
        let set = leaves.iter().flatten().filter(|leaf| leaf.accessed).map(|leaf| leaf.vpn);
        accessed.extend(set.filter(|page| near.binary_search(page).is_ok()));
    }
    accessed
}

/// Those of these sorted pages that other processes map, too; none if that cannot be read.
pub fn shared(process: &Held, pages: &[Vpn]) -> Vec<Vpn> {
    let mut shared = Vec::new();
    let Some(file) = process.open_read("pagemap").ok().filter(|_| !pages.is_empty()) else {
        return shared;
    };
    for near in pages.chunk_by(are_near) {
        let (start, mut entries) = (first(near).0, [[0; 8]; NEAR]);
        if file.read_exact_at(entries.as_flattened_mut(), start * 8).is_ok() {
            let entries = entries.map(|bytes| PagemapEntry(u64::from_ne_bytes(bytes)));
            let is_shared = |entry: PagemapEntry| entry.is_present() && !entry.is_exclusive();
            let all = (start..).map(Vpn).zip(entries).filter(|(_, entry)| is_shared(*entry));
            let all = all.map(|(page, _)| page);
            shared.extend(all.filter(|page| near.binary_search(page).is_ok()));
        }
    }
    shared
}

fn are_near(a: &Vpn, b: &Vpn) -> bool {
    a.0 / NEAR as u64 == b.0 / NEAR as u64
}

/// The first page of those that are read together with these.
fn first(near: &[Vpn]) -> Vpn {
    Vpn(near[0].0 / NEAR as u64 * NEAR as u64)
}

/// Clears the bits of these sorted ranges of base pages.
pub fn cool_ranges(process: &Held, ranges: &[Range<u64>]) -> u64 {
    let mut refused = Vec::with_capacity(ranges.len());
    // If the process is gone, or may not be managed, no page after that error is accepted.
    let _ = advise(process, Advice::Cold, ranges, &mut refused);
    let taken = ranges.iter().zip(&refused).filter(|(_, refused)| refused.is_none());
    taken.map(|(range, _)| range.end - range.start).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    use crate::process::held::tests::{end, waiting};
    use crate::root::Root;

    /// A page counts as shared if it is mapped twice, by whomever.
    #[test]
    fn pages_are_shared_as_long_as_they_are_mapped_elsewhere() {
        const BYTES: usize = 40 << 12;
        let file = memfd_create("shared", MemfdFlags::CLOEXEC).expect("memory");
        ftruncate(&file, BYTES as u64).expect("memory");
        let map = || {
            let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
            // SAFETY: a new mapping, which is only written to below.
            let start = unsafe { mmap(std::ptr::null_mut(), BYTES, access, kind, &file, 0) };
            let start = start.expect("memory").cast::<u8>();
            // SAFETY: within the mapping.
            (0..BYTES).step_by(4096).for_each(|at| unsafe { start.add(at).write_volatile(1) });
            start
        };
        let (here, elsewhere) = (map(), map());
        let first = Vpn::of(here.addr() as u64).0;
        let pages: Vec<Vpn> = (first..first + 40).step_by(3).map(Vpn).collect();
        let own = Root::default().process(std::process::id()).expect("ourselves");
        assert_eq!(shared(&own, &pages), pages);
        // SAFETY: the mapping from above, which nobody uses any more.
        unsafe { munmap(elsewhere.cast(), BYTES) }.expect("it is mapped");
        assert_eq!(shared(&own, &pages), []);
        // SAFETY: as above.
        unsafe { munmap(here.cast(), BYTES) }.expect("it is mapped");
    }

    #[test]
    fn our_own_pages_are_accepted_and_unmapped_pages_are_skipped() {
        let memory = vec![1u8; 8 << 12];
        let first = Vpn::of(memory.as_ptr().addr() as u64 + 4095);
        let root = Root::default();
        let own_process = root.process(std::process::id()).expect("ourselves");
        let own: Vec<Vpn> = (first.0..first.0 + 4).map(Vpn).collect();
        // Some kernels do not let a process advise itself (before 6.13); then none is accepted.
        let alone = clear_accessed(&own_process, &own);
        assert!([0, 4].contains(&alone), "{alone}");
        let with_gone: Vec<Vpn> = [Vpn(16)].into_iter().chain(own).collect();
        assert_eq!(clear_accessed(&own_process, &with_gone), alone);
        let child = waiting();
        let held = root.hold(child.id()).expect("it runs");
        end(child);
        assert_eq!(clear_accessed(&held, &with_gone), 0);
    }
}
