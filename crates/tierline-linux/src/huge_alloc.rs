// SPDX-License-Identifier: Apache-2.0
//! An allocator that puts allocations of the size of a huge page into huge pages, and leaves all others to the system.
//!
//! The page table keeps a word for each page in chunks of this size, and samples hit them at random: with base pages
//! each word costs a miss in the TLB besides that in the cache.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The size of a huge page.
const HUGE: usize = 2 << 20;

/// The allocator. Where the kernel has no huge pages to give, base pages serve.
#[derive(Clone, Copy, Debug)]
pub struct HugeAlloc;

fn is_huge(layout: Layout) -> bool {
    layout.size() == HUGE && layout.align() <= HUGE
}

// SAFETY: an allocation is from the system or from `map`, by its layout alone, and is given back to where it is from.
unsafe impl GlobalAlloc for HugeAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match is_huge(layout) {
            true => map(),
            // SAFETY: the caller's promises are those that the system asks for.
            false => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match is_huge(layout) {
            true => map(), // the kernel gives zeroed pages
            // SAFETY: as in `alloc`.
            false => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        match is_huge(layout) {
            // SAFETY: `map` made this mapping of this size, and the caller no longer uses it.
            true => drop(unsafe { munmap(at.cast(), HUGE) }),
            // SAFETY: as in `alloc`; by its layout it is from the system.
            false => unsafe { System.dealloc(at, layout) },
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size, rounded up to the alignment, does not overflow.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if !is_huge(layout) && !is_huge(new) {
            // SAFETY: as in `alloc`; both are the system's.
            return unsafe { System.realloc(at, layout, size) };
        }
        // SAFETY: both allocations are at least as long as what is copied, and distinct; the old one is given back once.
        unsafe {
            let moved = self.alloc(new);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(at, moved, layout.size().min(size));
                self.dealloc(at, layout);
            }
            moved
        }
    }
}

/// A mapping of one huge page, at a multiple of its size; null where there is no memory.
fn map() -> *mut u8 {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping where the kernel has room; it replaces none.
    let found = unsafe { mmap_anonymous(ptr::null_mut(), 2 * HUGE, protection, MapFlags::PRIVATE) };
    let Ok(start) = found else { return ptr::null_mut() };
    let before = start.align_offset(HUGE);
    let at = start.wrapping_byte_add(before);
    // SAFETY: both ranges are parts of the new mapping, outside the huge page. Where the kernel cannot split the mapping,
    // address space stays reserved; without advice, base pages serve.
    unsafe {
        if before > 0 {
            let _ = munmap(start, before);
        }
        let _ = munmap(at.wrapping_byte_add(HUGE), HUGE - before);
        let _ = madvise(at, HUGE, Advice::LinuxHugepage);
    }
    at.cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).expect("a layout")
    }

    #[test]
    fn a_huge_page_is_aligned_zeroed_writable_and_given_back() {
        // SAFETY: each allocation is used within its size and given back once, with its layout.
        unsafe {
            let at = HugeAlloc.alloc_zeroed(layout(HUGE));
            assert!(!at.is_null() && at.addr().is_multiple_of(HUGE), "{at:p}");
            assert!((0..HUGE).all(|offset| *at.add(offset) == 0));
            at.write_bytes(0xa5, HUGE);
            HugeAlloc.dealloc(at, layout(HUGE));
        }
    }

    #[test]
    fn bytes_survive_every_change_of_size() {
        // SAFETY: as above; every call names the layout that the allocation has.
        unsafe {
            let mut size = 4096;
            let mut at = HugeAlloc.alloc(layout(size));
            for byte in 0..size {
                *at.add(byte) = byte.to_le_bytes()[0];
            }
            for next in [HUGE, HUGE + 8, HUGE, 4096, 64, HUGE] {
                at = HugeAlloc.realloc(at, layout(size), next);
                size = next;
                assert!((0..64).all(|byte| *at.add(byte) == byte.to_le_bytes()[0]), "{next}");
            }
            HugeAlloc.dealloc(at, layout(size));
        }
    }
}
