// SPDX-License-Identifier: Apache-2.0
//! Which pages are huge: the `PAGEMAP_SCAN` ioctl of `/proc/PID/pagemap`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use tierline_core::port::Vpn;
use tierline_core::unit::BASE_PER_HUGE;

use crate::error::{Error, Result};
use crate::root::Root;

/// `_IOWR('f', 16, struct pm_scan_arg)` with its 96 bytes.
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
/// `PAGE_IS_HUGE`: mapped by a page-middle entry.
const PAGE_IS_HUGE: u64 = 1 << 6;
/// Runs fetched by one call.
const BATCH: usize = 256;

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

/// The runs (in base pages, by address) inside `runs` that process `pid` maps with huge pages.
pub(super) fn scan(root: &Root, pid: u32, runs: &[(u64, u64)]) -> Result<Vec<(u64, u64)>> {
    let path = root.path(format!("/proc/{pid}/pagemap"));
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(Error::File { action: "open", path, source }),
    };
    let mut found: Vec<(u64, u64)> = Vec::new();
    for &(start, end) in runs {
        scan_run(&file, Vpn(start).address(), Vpn(end).address(), &mut found)?;
    }
    Ok(found)
}

fn scan_run(file: &File, mut start: u64, end: u64, found: &mut Vec<(u64, u64)>) -> Result<()> {
    let mut regions = [PageRegion::default(); BATCH];
    while start < end {
        let mut arg = ScanArg {
            size: size_of::<ScanArg>() as u64,
            start,
            end,
            vec: regions.as_mut_ptr() as u64,
            vec_len: BATCH as u64,
            category_mask: PAGE_IS_HUGE,
            return_mask: PAGE_IS_HUGE,
            ..ScanArg::default()
        };
        // SAFETY: `arg` is the structure this request takes and `vec` points to `vec_len` regions
        // that live until the call returns.
        let count = unsafe { libc::ioctl(file.as_raw_fd(), PAGEMAP_SCAN, &raw mut arg) };
        match usize::try_from(count) {
            Ok(count) => regions[..count.min(BATCH)].iter().for_each(|region| add(region, found)),
            Err(_) => return failed(io::Error::last_os_error()),
        }
        if arg.walk_end <= start {
            return Ok(());
        }
        start = arg.walk_end;
    }
    Ok(())
}

/// Joins neighbours, and keeps whole huge pages alone.
fn add(region: &PageRegion, found: &mut Vec<(u64, u64)>) {
    let start = Vpn::of(region.start).0.next_multiple_of(BASE_PER_HUGE);
    let end = Vpn::of(region.end).huge_head().0;
    match found.last_mut() {
        _ if start >= end => {}
        Some(last) if last.1 == start => last.1 = end,
        _ => found.push((start, end)),
    }
}

fn failed(error: io::Error) -> Result<()> {
    match error.raw_os_error() {
        Some(libc::ESRCH) => Ok(()),
        Some(libc::ENOTTY | libc::EINVAL) => Err(Error::Missing {
            what: "PAGEMAP_SCAN".into(),
            why: "this kernel does not know it".into(),
            hint: "use Linux 6.7 or newer; until then all pages are taken for base pages".into(),
        }),
        _ => Err(Error::Call { call: "ioctl(PAGEMAP_SCAN)".into(), source: error }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_huge_pages_count_and_neighbours_join() {
        let mut found = Vec::new();
        let region = |start, end| PageRegion { start, end, categories: PAGE_IS_HUGE };
        add(&region(2 << 20, 4 << 20), &mut found);
        add(&region(4 << 20, 6 << 20), &mut found);
        add(&region((8 << 20) + 4096, 10 << 20), &mut found);
        assert_eq!(found, [(512, 1536)]);
    }

    #[test]
    fn an_ended_process_has_none() {
        assert_eq!(scan(&Root::default(), u32::MAX, &[(0, 512)]).expect("no error"), []);
    }
}
