// SPDX-License-Identifier: Apache-2.0
//! Who is at the other end of a socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The most groups of a caller that are looked at; the kernel's own limit.
const MOST_GROUPS: usize = 65_536;

fn credentials(stream: &impl AsFd) -> io::Result<libc::ucred> {
    let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or(0);
    // SAFETY: the descriptor is open, and the kernel writes at most `length` bytes, the size of `found`.
    let status = unsafe {
        libc::getsockopt(
            stream.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut length,
        )
    };
    if status == 0 { Ok(found) } else { Err(io::Error::last_os_error()) }
}

/// The user that the peer had when it connected.
///
/// # Errors
/// The kernel's error.
pub fn user(stream: &impl AsFd) -> io::Result<u32> {
    credentials(stream).map(|found| found.uid)
}

/// The process of the peer; `None` if it is not visible from here.
pub fn process(stream: &impl AsFd) -> Option<u32> {
    let pid = credentials(stream).ok()?.pid;
    u32::try_from(pid).ok().filter(|pid| *pid > 0)
}

/// The groups that the peer had when it connected.
///
/// # Errors
/// The kernel's error.
pub fn groups(stream: &impl AsFd) -> io::Result<Vec<u32>> {
    let own = credentials(stream)?.gid;
    let mut groups = vec![0_u32; 64];
    loop {
        let bytes = groups.len() * size_of::<u32>();
        let mut length = libc::socklen_t::try_from(bytes).unwrap_or(0);
        // SAFETY: the descriptor is open, and the kernel writes at most `length` bytes, the size of `groups`.
        let status = unsafe {
            libc::getsockopt(
                stream.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if status == 0 {
            groups.truncate(length as usize / size_of::<u32>());
            groups.push(own);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ERANGE) || groups.len() >= MOST_GROUPS {
            return Err(error);
        }
        groups.resize(groups.len() * 8, 0);
    }
}

/// Whether the peer may change what this process does: it is root or the same user.
pub fn is_trusted(stream: &impl AsFd) -> bool {
    let own = rustix::process::geteuid().as_raw();
    user(stream).is_ok_and(|user| user == 0 || user == own)
}

/// The same, or it is in the group `admins`.
pub fn may_change(stream: &impl AsFd, admins: Option<u32>) -> bool {
    let is_admin = |admins| groups(stream).is_ok_and(|groups| groups.contains(&admins));
    is_trusted(stream) || admins.is_some_and(is_admin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_peer_of_our_own_socket_is_ourselves() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        assert_eq!(user(&one).ok(), Some(rustix::process::geteuid().as_raw()));
        assert!(is_trusted(&one) && may_change(&one, None));
        assert_eq!(process(&one), Some(std::process::id()));
        let own = rustix::process::getegid().as_raw();
        assert!(groups(&one).expect("its groups").contains(&own));
    }
}
