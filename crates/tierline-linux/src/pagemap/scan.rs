// SPDX-License-Identifier: Apache-2.0
//! The `PAGEMAP_SCAN` ioctl (Linux 6.7), by which the kernel lists runs of pages of one kind.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use tierline_core::port::Vpn;

/// The page is in memory.
pub const PRESENT: u64 = 1 << 3;
/// The page is mapped by a page-middle entry.
pub const HUGE: u64 = 1 << 6;
/// The page was written since soft-dirty bits were last cleared.
pub const SOFT_DIRTY: u64 = 1 << 7;

/// `_IOWR('f', 16, struct pm_scan_arg)` with its 96 bytes.
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
/// Runs per call.
const BATCH: usize = 512;

/// `struct pm_scan_arg` of `linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` of `linux/fs.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// Calls `found` with every run of base pages within `pages` that has all the flags in `wanted`.
///
/// # Errors
/// The call's own; ENOTTY or EINVAL if this kernel does not support it.
pub fn runs(
    pagemap: &File,
    pages: Range<u64>,
    wanted: u64,
    mut found: impl FnMut(Range<u64>),
) -> io::Result<()> {
    let mut regions = [PageRegion::default(); BATCH];
    let (mut start, end) = (Vpn(pages.start).address(), Vpn(pages.end).address());
    while start < end {
        let mut arg = ScanArg {
            size: size_of::<ScanArg>() as u64,
            start,
            end,
            vec: regions.as_mut_ptr() as u64,
            vec_len: BATCH as u64,
            category_mask: wanted,
            return_mask: wanted,
            ..ScanArg::default()
        };
        // SAFETY: `arg` is the structure of this request and contains its own size; `vec` points to `vec_len`
        // regions that live until the call returns.
        let count = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut arg) };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        for region in &regions[..count.min(BATCH)] {
            found(Vpn::of(region.start).0..Vpn::of(region.end).0);
        }
        if arg.walk_end <= start {
            return Ok(());
        }
        start = arg.walk_end;
    }
    Ok(())
}

/// True if the kernel does not support the call.
pub fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_has_the_kernels_layout() {
        assert_eq!(size_of::<ScanArg>(), 96);
        assert_eq!(PAGEMAP_SCAN >> 16 & 0x3fff, 96);
    }

    #[test]
    fn a_file_that_is_no_pagemap_is_recognised() {
        let file = tempfile::tempfile().expect("a file");
        let error = runs(&file, 0..512, PRESENT, |_| ()).expect_err("not a pagemap");
        assert!(is_unknown(&error), "{error}");
    }
}
