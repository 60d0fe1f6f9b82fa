// SPDX-License-Identifier: Apache-2.0
//! Tells the service manager that the daemon is ready, alive, or stopping, as sd_notify(3) describes.

use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tierline_core::unit::Nanos;

/// The service manager; without one, nothing is sent.
pub struct Notifier {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// Time between two signs of life.
    every: Option<Nanos>,
    last: Option<Nanos>,
}

impl Notifier {
    /// The service manager that started this process.
    pub fn from_environment() -> Self {
        let address = env::var_os("NOTIFY_SOCKET").and_then(|name| match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest).ok(),
            _ => SocketAddr::from_pathname(&name).ok(),
        });
        let socket = address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address)));
        if let Some((socket, _)) = &socket {
            let _ = socket.set_nonblocking(true);
        }
        let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        // Twice in the time that is granted.
        let every = number("WATCHDOG_USEC").filter(|_| is_ours).map(|us| Nanos(us * 500));
        Self { socket, every, last: None }
    }

    /// Sends a state. A service manager that does not take it in is not waited for.
    pub fn send(&self, state: &str) {
        if let Some((socket, address)) = &self.socket {
            let _ = socket.send_to_addr(state.as_bytes(), address);
        }
    }

    /// Sends a sign of life, if it is due.
    pub fn alive(&mut self, now: Nanos) {
        let Some(every) = self.every else { return };
        if self.last.is_none_or(|at| now >= at + every) {
            self.last = Some(now);
            self.send("WATCHDOG=1");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_life_are_sent_when_they_are_due() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("notify");
        let receiver = UnixDatagram::bind(&path).expect("a socket");
        receiver.set_nonblocking(true).expect("ours");
        let address = SocketAddr::from_pathname(&path).expect("an address");
        let socket = UnixDatagram::unbound().expect("a socket");
        let every = Some(Nanos::from_secs(1));
        let mut notifier = Notifier { socket: Some((socket, address)), every, last: None };
        notifier.send("READY=1");
        for ms in [0, 999, 1_000, 1_500] {
            notifier.alive(Nanos::from_millis(ms));
        }
        let mut received = Vec::new();
        let mut buffer = [0; 64];
        while let Ok(count) = receiver.recv(&mut buffer) {
            received.push(String::from_utf8_lossy(&buffer[..count]).into_owned());
        }
        assert_eq!(received, ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]);
    }
}
