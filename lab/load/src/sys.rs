// SPDX-License-Identifier: Apache-2.0
//! The NUMA system calls that no crate wraps, and clocks of a thread.

use std::io;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

const MPOL_DEFAULT: libc::c_int = 0;
const MPOL_PREFERRED: libc::c_int = 1;

/// A status that the kernel never returns: the entry was not written.
const UNWRITTEN: i32 = i32::MIN;

/// Prefers a node for new pages of this thread.
///
/// This sets a thread's policy, not a mapping's: NUMA balancing skips mappings with their own policy, so
/// `mbind` would exclude the load from it.
pub fn prefer_node(node: u32) -> io::Result<()> {
    assert!(node < 64, "the mask has 64 bits");
    let mask: u64 = 1 << node;
    // SAFETY: the kernel reads 8 bytes of the mask, which outlives the call. It uses one bit less than passed,
    // hence 65.
    let rc = unsafe { libc::syscall(libc::SYS_set_mempolicy, MPOL_PREFERRED, &raw const mask, 65) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reverts `prefer_node`.
pub fn prefer_default() -> io::Result<()> {
    // SAFETY: no memory is passed.
    let rc =
        unsafe { libc::syscall(libc::SYS_set_mempolicy, MPOL_DEFAULT, std::ptr::null::<u64>(), 0) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Runs `work` with new pages preferably on `node`, then restores the default policy. A kernel without NUMA has
/// only node 0.
pub fn on_node<T>(node: u32, work: impl FnOnce() -> T) -> io::Result<T> {
    match prefer_node(node) {
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) && node == 0 => return Ok(work()),
        other => other?,
    }
    let done = work();
    prefer_default()?;
    Ok(done)
}

/// Queries the nodes of this process's pages at `addresses`. `nodes` gets a node or a negative errno for each.
/// Moves nothing.
pub fn nodes_of(addresses: &[usize], nodes: &mut Vec<i32>) -> io::Result<()> {
    nodes.clear();
    nodes.resize(addresses.len(), UNWRITTEN);
    // SAFETY: both arrays have `addresses.len()` entries and outlive the call, which writes only the second.
    // The addresses are not dereferenced; a null `nodes` argument makes this a query.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            addresses.len(),
            addresses.as_ptr(),
            std::ptr::null::<libc::c_int>(),
            nodes.as_mut_ptr(),
            0,
        )
    };
    if rc >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Seconds since boot: a common clock for reports of different programs.
pub fn boot_seconds() -> f64 {
    let t = clock_gettime(ClockId::Boottime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> Duration {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(t).unwrap_or_default()
}
