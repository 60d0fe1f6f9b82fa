// SPDX-License-Identifier: Apache-2.0
//! Clears the accessed bits of single pages of another process: `process_madvise` with `MADV_COLD`, which
//! also flushes their TLB entries. The pages lose their place in the kernel's LRU lists. The kernel splits
//! folios between base and huge pages that are named only in part.

use std::ops::Range;

use tierline_core::port::Vpn;

use crate::process::Held;
use crate::process::advise::{Advice, advise, joined};

/// Clears the bits of these sorted pages; a huge page is named by all of its base pages. Returns the number
/// of base pages that the kernel accepted. Refused ranges (locked, hugetlbfs, gone) are skipped.
pub fn clear_accessed(process: &Held, pages: &[Vpn]) -> u64 {
    cool_ranges(process, &joined(pages.iter().map(|page| (page.0, 1))))
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
    use crate::process::held::tests::{end, waiting};
    use crate::root::Root;

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
