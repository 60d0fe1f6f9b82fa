// SPDX-License-Identifier: Apache-2.0
//! Clears the accessed bits of single pages of another process: `process_madvise` with `MADV_COLD`,
//! which flushes their TLB entries as well. The pages lose their place in the kernel's LRU lists; of
//! folios between base and huge pages the kernel splits those that are named in part.

use tierline_core::port::{SpaceId, Vpn};

use crate::process::advise::{Advice, advise, joined};

/// Clears the bits of these pages, which are sorted; a huge page is named by all of its base pages.
/// Returns how many base pages the kernel took. Ranges that it does not take (locked, hugetlbfs, gone)
/// are skipped.
pub fn cool(space: SpaceId, pages: &[Vpn]) -> u64 {
    let ranges = joined(pages.iter().map(|page| (page.0, 1)));
    let mut refused = Vec::with_capacity(ranges.len());
    // Of a process that is gone, or not ours, nothing is taken after the range where that showed.
    let _ = advise(space, Advice::Cold, &ranges, &mut refused);
    let taken = ranges.iter().zip(&refused).filter(|(_, refused)| refused.is_none());
    taken.map(|(range, _)| range.end - range.start).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_pages_are_taken_and_pages_that_are_not_there_are_passed_over() {
        let memory = vec![1u8; 8 << 12];
        let first = Vpn::of(memory.as_ptr().addr() as u64 + 4095);
        let space = SpaceId(std::process::id());
        let own: Vec<Vpn> = (first.0..first.0 + 4).map(Vpn).collect();
        // Some kernels do not let a process advise itself (before 6.13); then none is taken.
        let alone = cool(space, &own);
        assert!([0, 4].contains(&alone), "{alone}");
        let with_gone: Vec<Vpn> = [Vpn(16)].into_iter().chain(own).collect();
        assert_eq!(cool(space, &with_gone), alone);
        assert_eq!(cool(SpaceId(u32::MAX), &with_gone), 0);
    }
}
