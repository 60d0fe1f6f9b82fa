// SPDX-License-Identifier: Apache-2.0
//! Who is at the other end of a socket.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// The user that the peer had when it connected.
///
/// # Errors
/// The kernel's error.
pub fn user(stream: &UnixStream) -> io::Result<u32> {
    let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or(0);
    // SAFETY: the descriptor is open, and the kernel writes at most `length` bytes, the size of `found`.
    let status = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut length,
        )
    };
    if status == 0 { Ok(found.uid) } else { Err(io::Error::last_os_error()) }
}

/// Whether the peer may change what this process does: it is root or the same user.
pub fn is_trusted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    user(stream).is_ok_and(|user| user == 0 || user == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_of_our_own_socket_is_ourselves() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        assert_eq!(user(&one).ok(), Some(rustix::process::geteuid().as_raw()));
        assert!(is_trusted(&one));
    }
}
