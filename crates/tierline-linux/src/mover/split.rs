// SPDX-License-Identifier: Apache-2.0
//! Splits huge pages of other processes into base pages, in place.
//!
//! `move_pages` cannot: it moves a huge page whole, whichever of its base pages is named. `MADV_COLD` can, from
//! outside: a range that is part of a huge page has the kernel split that page first. So one base page of each is
//! named, which costs its accessed bit and its place in the kernel's LRU lists. The call does not say whether the
//! split came off (a page that somebody holds stays whole), so the page map is read afterwards. Where huge pages
//! are enabled for the memory, khugepaged makes them whole again in its time.
//!
//! Seen on Linux 6.18: 260 to 420 us a page in a virtual machine.

use std::collections::BTreeMap;

use tierline_core::port::{PageAt, SpaceId, Vpn};
use tierline_core::unit::BASE_PER_HUGE;

use crate::error::Result;
use crate::process::huge;
use crate::root::Root;
use crate::tracker::cool::cool;

/// Splits huge pages; answers for each, in the given order, whether it is split.
///
/// # Errors
/// `Error::Missing` if the kernel cannot say which pages are huge (before Linux 6.7), `Error::File` if the page
/// map may not be opened. Nobody knows then what is split.
pub fn split(root: &Root, pages: &[PageAt]) -> Result<Vec<bool>> {
    let mut by_space: BTreeMap<SpaceId, Vec<(u64, usize)>> = BTreeMap::new();
    for (at, page) in pages.iter().enumerate() {
        by_space.entry(page.space).or_default().push((page.vpn.huge_head().0, at));
    }
    let mut done = vec![false; pages.len()];
    for (space, mut named) in by_space {
        named.sort_unstable();
        let ends: Vec<Vpn> = named.iter().map(|(head, _)| Vpn(head + BASE_PER_HUGE - 1)).collect();
        if cool(space, &ends) == 0 {
            continue; // gone, or not ours
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

    /// Room for so many huge pages, on their boundaries; all bytes are what they are told.
    fn mapped(pages: usize, byte: u8) -> *mut u8 {
        let length = (pages + 1) * HUGE;
        let (access, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory of our own, which stays mapped until the test's process ends; the bytes that are
        // written lie in it, as the boundary is less than a huge page after its start.
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

    /// On the running kernel. Where it says that it gives no huge pages, cannot say which pages are, or lets no
    /// process advise itself (before Linux 6.13), there is nothing to be seen.
    #[test]
    fn huge_pages_of_our_own_are_split_and_keep_their_bytes() {
        let (root, own) = (Root::default(), std::process::id());
        let enabled = root.read("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        if enabled.is_empty() || enabled.contains("[never]") {
            return eprintln!("skipped: the kernel gives no huge pages");
        }
        let start = mapped(4, 0xa5);
        let first = Vpn::of(start.addr() as u64).0;
        let page = |n: u64| PageAt {
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
        if cool(SpaceId(own), &[Vpn(first)]) == 0 {
            return eprintln!("skipped: the kernel lets no process advise itself");
        }
        let done = split(&root, &[page(3), page(1)]).unwrap();
        assert_eq!(done, [true, true]);
        assert_eq!(
            huge().unwrap(),
            [(first + 2 * BASE_PER_HUGE, first + 3 * BASE_PER_HUGE)],
            "and the one that was cooled"
        );
        // SAFETY: as it was mapped.
        let bytes = unsafe { std::slice::from_raw_parts(start, 4 * HUGE) };
        assert!(bytes.iter().all(|&byte| byte == 0xa5));
    }

    #[test]
    fn nothing_is_split_of_a_process_that_is_gone() {
        let page = PageAt { space: SpaceId(u32::MAX), vpn: Vpn(512), size: PageSize::Huge };
        assert_eq!(split(&Root::default(), &[page, page]).unwrap(), [false, false]);
    }
}
