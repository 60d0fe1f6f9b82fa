// SPDX-License-Identifier: Apache-2.0
//! Clears the accessed bits of single pages of another process: `process_madvise` with `MADV_COLD`,
//! which flushes their TLB entries as well. The pages lose their place in the kernel's LRU lists; of
//! folios between base and huge pages the kernel splits those that are named in part.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tierline_core::port::{SpaceId, Vpn};
use tierline_core::unit::BASE_PAGE;

/// The kernel's `mman.h`.
const MADV_COLD: libc::c_int = 20;
/// Ranges that one call takes (`UIO_MAXIOV`).
const RANGES: usize = 1024;

/// Clears the bits of these pages, which are sorted; a huge page is named by all of its base pages.
/// Returns how many base pages the kernel took. Ranges that it does not take (locked, hugetlbfs, gone)
/// are passed over.
pub fn cool(space: SpaceId, pages: &[Vpn]) -> usize {
    let pid = i32::try_from(space.0).ok().and_then(Pid::from_raw);
    let Some(Ok(process)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return 0;
    };
    let ranges: Vec<libc::iovec> = pages.chunk_by(|a, b| a.0 + 1 == b.0).map(range).collect();
    let mut bytes = 0;
    let mut left = &ranges[..];
    while !left.is_empty() {
        let batch = &left[..left.len().min(RANGES)];
        let mut taken = advise(&process, batch);
        bytes += taken;
        // A range counts whole or not at all; where the call broke off, that range is the culprit.
        let mut done = 0;
        while done < batch.len() && taken >= batch[done].iov_len {
            taken -= batch[done].iov_len;
            done += 1;
        }
        left = &left[(done + usize::from(done < batch.len())).max(1)..];
    }
    bytes >> BASE_PAGE.0.ilog2()
}

fn range(pages: &[Vpn]) -> libc::iovec {
    let address = usize::try_from(pages[0].address()).unwrap_or(0);
    let iov_len = pages.len() << BASE_PAGE.0.ilog2();
    libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len }
}

/// Bytes that the kernel took before it broke off.
fn advise(process: &OwnedFd, ranges: &[libc::iovec]) -> usize {
    // SAFETY: the kernel reads `ranges.len()` entries of a live array; the addresses in them are the
    // other process' and are only named. MADV_COLD changes no contents.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            process.as_raw_fd(),
            ranges.as_ptr(),
            ranges.len(),
            MADV_COLD,
            0,
        )
    };
    usize::try_from(answer).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_range() {
        let of = |pages: &[u64]| {
            let pages: Vec<Vpn> = pages.iter().copied().map(Vpn).collect();
            pages
                .chunk_by(|a, b| a.0 + 1 == b.0)
                .map(range)
                .map(|r| (r.iov_base.addr() >> 12, r.iov_len >> 12))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&[5, 6, 7, 9]), [(5, 3), (9, 1)]);
    }

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
