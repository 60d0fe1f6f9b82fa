// SPDX-License-Identifier: Apache-2.0
//! `process_madvise(2)`: advice to the kernel about memory of another process.
//!
//! A call takes up to 1024 ranges, stops at the first one that it refuses, and reports the bytes that it accepted
//! before. It is repeated from there, so every range is tried and a refused one has its own error.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::process::{PidfdFlags, pidfd_open};
use tierline_core::port::Vpn;

use super::Held;

/// The most ranges per call (`UIO_MAXIOV`).
const RANGES: usize = 1024;

/// The advice, with its number in the kernel's `mman-common.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// `MADV_COLD`: the accessed bits are cleared, and the pages become the next ones to be reclaimed.
    Cold = 20,
    /// `MADV_PAGEOUT`: the pages are reclaimed now, accessed or not.
    PageOut = 21,
}

/// Gives advice about ranges of pages; appends one entry per range: `None` if the kernel accepted it, otherwise the
/// error (ENOMEM: partly unmapped; EINVAL: locked, of hugetlbfs or of a device).
///
/// # Errors
/// Errors of the whole process: ESRCH (it is gone), EPERM or EACCES (we may not advise it, or CAP_SYS_NICE is
/// missing), ENOSYS (before Linux 5.10).
pub(crate) fn advise(
    process: &Held,
    advice: Advice,
    ranges: &[Range<u64>],
    refused: &mut Vec<Option<Errno>>,
) -> Result<(), Errno> {
    let process = process.pidfd().ok_or(Errno::SRCH)?;
    give(ranges, refused, &mut |batch| call(process, advice, batch))
}

/// Checks that the kernel supports the call and permits it for a process that we may read, by a call on ourselves
/// without any memory.
///
/// # Errors
/// ENOSYS or EINVAL if the kernel does not support it; EPERM if CAP_SYS_NICE is missing (before Linux 6.13 it was
/// needed for ourselves as well).
pub(crate) fn check_support(advice: Advice) -> Result<(), Errno> {
    let own = pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
    call(own.as_fd(), advice, &[]).map(drop)
}

/// Advises all ranges; `call` behaves like the system call.
fn give(
    ranges: &[Range<u64>],
    refused: &mut Vec<Option<Errno>>,
    call: &mut dyn FnMut(&[libc::iovec]) -> Result<usize, Errno>,
) -> Result<(), Errno> {
    let mut left = ranges;
    // Bytes already accepted of the first remaining range: a call can stop inside a range at 2 GiB.
    let mut taken = 0;
    while !left.is_empty() {
        let mut batch: Vec<libc::iovec> = left.iter().take(RANGES).map(vector).collect();
        batch[0].iov_base = batch[0].iov_base.wrapping_byte_add(taken);
        batch[0].iov_len -= taken;
        let errno = match call(&batch) {
            Ok(bytes) if bytes > 0 => {
                let whole = whole(&batch, bytes);
                refused.resize(refused.len() + whole.0, None);
                left = &left[whole.0..];
                taken = if whole.0 == 0 { taken + whole.1 } else { whole.1 };
                continue;
            }
            Ok(_) => Errno::INVAL,
            Err(Errno::INTR) => continue,
            Err(errno @ (Errno::SRCH | Errno::PERM | Errno::ACCESS | Errno::NOSYS)) => {
                return Err(errno);
            }
            Err(errno) => errno,
        };
        refused.push(Some(errno));
        (left, taken) = (&left[1..], 0);
    }
    Ok(())
}

/// The number of ranges that `bytes` covers, and the bytes beyond them.
fn whole(batch: &[libc::iovec], mut bytes: usize) -> (usize, usize) {
    let mut count = 0;
    while count < batch.len() && bytes >= batch[count].iov_len {
        bytes -= batch[count].iov_len;
        count += 1;
    }
    (count, bytes)
}

fn vector(pages: &Range<u64>) -> libc::iovec {
    let bytes = |pages: u64| usize::try_from(Vpn(pages).address()).unwrap_or(0);
    libc::iovec {
        iov_base: std::ptr::without_provenance_mut(bytes(pages.start)),
        iov_len: bytes(pages.end - pages.start),
    }
}

/// The bytes that the kernel accepted before it stopped.
fn call(process: BorrowedFd<'_>, advice: Advice, ranges: &[libc::iovec]) -> Result<usize, Errno> {
    // SAFETY: the kernel reads `ranges.len()` entries of a live array; the addresses in them belong to the
    // other process and are not dereferenced here. Neither advice changes contents.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            process.as_raw_fd(),
            ranges.as_ptr(),
            ranges.len(),
            advice as libc::c_int,
            0,
        )
    };
    usize::try_from(answer)
        .map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL))
}

/// Joins neighbours among sorted pages, each given with its length in base pages.
pub(crate) fn joined(pages: impl IntoIterator<Item = (u64, u64)>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for (start, length) in pages {
        debug_assert!(ranges.last().is_none_or(|last| last.start <= start), "pages are sorted");
        match ranges.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(start + length),
            _ => ranges.push(start..start + length),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::held::tests::{end, waiting};
    use crate::root::Root;

    /// A process whose page 9 is not mapped and whose page 5 is locked, and a call that takes `most` ranges.
    fn kernel(most: usize) -> impl FnMut(&[libc::iovec]) -> Result<usize, Errno> {
        move |batch| {
            let mut bytes = 0;
            for range in batch.iter().take(most) {
                let pages =
                    (range.iov_base.addr() >> 12)..((range.iov_base.addr() + range.iov_len) >> 12);
                let error = match () {
                    () if pages.contains(&9) => Errno::NOMEM,
                    () if pages.contains(&5) => Errno::INVAL,
                    () => {
                        bytes += range.iov_len;
                        continue;
                    }
                };
                return if bytes > 0 { Ok(bytes) } else { Err(error) };
            }
            Ok(bytes)
        }
    }

    #[test]
    fn every_range_is_tried_and_a_refused_one_has_its_own_error() {
        let ranges = [1..3, 5..6, 7..8, 9..12, 14..15];
        let expected = [None, Some(Errno::INVAL), None, Some(Errno::NOMEM), None];
        for most in [1, 2, 5] {
            let mut refused = Vec::new();
            give(&ranges, &mut refused, &mut kernel(most)).expect("a process");
            assert_eq!(refused, expected, "{most} ranges a call");
        }
    }

    #[test]
    fn a_call_that_stops_inside_a_range_goes_on_there() {
        let (mut calls, mut refused) = (Vec::new(), Vec::new());
        let mut call = |batch: &[libc::iovec]| {
            let bytes: usize = batch.iter().map(|range| range.iov_len).sum();
            let from = batch[0].iov_base.addr();
            calls.push((from >> 12, bytes >> 12));
            Ok(std::cmp::min(bytes, 3 << 12))
        };
        give(&[2..10, 20..21], &mut refused, &mut call).expect("a process");
        assert_eq!(calls, [(2, 9), (5, 6), (8, 3)]);
        assert_eq!(refused, [None, None]);
        // A call that accepts nothing must not be repeated forever.
        let mut refused = Vec::new();
        give(&[2..10, 20..21], &mut refused, &mut |_| Ok(0)).expect("a process");
        assert_eq!(refused, [Some(Errno::INVAL); 2]);
    }

    #[test]
    fn an_error_of_the_whole_process_ends_the_calls() {
        for errno in [Errno::SRCH, Errno::PERM, Errno::ACCESS, Errno::NOSYS] {
            let mut refused = Vec::new();
            let mut first = true;
            let mut call = |_: &[libc::iovec]| match std::mem::take(&mut first) {
                true => Err(Errno::INTR),
                false => Err(errno),
            };
            assert_eq!(give(&[2..10, 20..21], &mut refused, &mut call), Err(errno));
            assert!(refused.is_empty());
        }
        let (root, child) = (Root::default(), waiting());
        let held = root.hold(child.id()).expect("it runs");
        end(child);
        let advised = advise(&held, Advice::Cold, &[1..2, 4..5], &mut Vec::new());
        assert_eq!(advised, Err(Errno::SRCH));
    }

    #[test]
    fn neighbours_are_one_range() {
        assert_eq!(joined([(5, 1), (6, 1), (6, 1), (7, 512), (520, 1)]), [5..519, 520..521]);
        let range = vector(&(5..7));
        assert_eq!((range.iov_base.addr(), range.iov_len), (5 << 12, 2 << 12));
    }
}
