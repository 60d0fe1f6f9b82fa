// SPDX-License-Identifier: Apache-2.0
//! `move_pages(2)` behind a trait, so that tests can make it fail.

use crate::root::Root;

/// The system call, or a replacement for tests.
pub trait MoveSyscall {
    /// Moves `pages` (addresses) of process `pid` to `nodes`, or queries their nodes if `nodes` is `None`.
    /// `status` receives a node or a negative errno per page, or nothing for pages that the kernel did not
    /// reach.
    ///
    /// # Errors
    /// The errno of the whole call. `Ok` holds the number of pages that were not moved.
    fn move_pages(
        &self,
        pid: u32,
        pages: &[u64],
        nodes: Option<&[i32]>,
        status: &mut [i32],
        flags: i32,
    ) -> Result<u64, i32>;
}

/// The running kernel. It knows processes by their numbers, so only those are passed to it that are held and run.
#[derive(Clone, Debug, Default)]
pub struct KernelSyscall(pub Root);

impl MoveSyscall for KernelSyscall {
    fn move_pages(
        &self,
        pid: u32,
        pages: &[u64],
        nodes: Option<&[i32]>,
        status: &mut [i32],
        flags: i32,
    ) -> Result<u64, i32> {
        assert!(
            status.len() == pages.len() && nodes.is_none_or(|nodes| nodes.len() == pages.len())
        );
        if self.0.process(pid).is_none() {
            return Err(libc::ESRCH);
        }
        let nodes = nodes.map_or(std::ptr::null(), <[i32]>::as_ptr);
        // SAFETY: the kernel reads `pages.len()` pointers and as many nodes, and writes as many status words;
        // all three arrays have that length (asserted) and live until the call returns. The call does not
        // access the pages through our pointers, and moving one is invisible to the program that owns it.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                libc::c_long::from(pid),
                pages.len(),
                pages.as_ptr(),
                nodes,
                status.as_mut_ptr(),
                flags,
            )
        };
        u64::try_from(answer)
            .map_err(|_| std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL))
    }
}
