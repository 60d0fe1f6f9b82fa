// SPDX-License-Identifier: Apache-2.0
//! The status socket: a client that connects to `STATE_DIR/tierline-<pid>.sock` receives the manager's status as
//! JSON. Clients are served between steps; without clients it costs nothing.

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The most clients served at once, so that they cannot keep the manager from its work.
const CALLERS: usize = 8;
/// How long a client waits. A manager answers between two steps; a step takes a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(3);

/// The socket; dropping it deletes the file.
pub struct StatusSocket {
    listener: UnixListener,
    file: PathBuf,
}

impl StatusSocket {
    /// Opens the socket of this process in `dir`.
    pub fn open(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let file = dir.join(format!("tierline-{}.sock", std::process::id()));
        // Left by a killed process with the same pid.
        let _ = fs::remove_file(&file);
        let listener = UnixListener::bind(&file)?;
        listener.set_nonblocking(true)?;
        let socket = Self { listener, file };
        fs::set_permissions(&socket.file, Permissions::from_mode(0o660))?;
        Ok(socket)
    }

    /// Readable when a client connects.
    pub fn fd(&self) -> &UnixListener {
        &self.listener
    }

    /// Sends `status` to all waiting clients. It fits into the socket's buffer; otherwise a client receives only
    /// the beginning.
    pub fn answer(&self, status: &[u8]) {
        for _ in 0..CALLERS {
            let Ok((mut caller, _)) = self.listener.accept() else { return };
            let _ = caller.set_nonblocking(true).and_then(|()| caller.write_all(status));
        }
    }
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

/// The sockets in `dir`, by process id.
pub fn sockets(dir: &Path) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let pid = |path: &Path| {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix("tierline-")?.strip_suffix(".sock")?.parse().ok()
    };
    let mut found: Vec<_> = entries.filter_map(|e| Some((pid(&e.path())?, e.path()))).collect();
    found.sort();
    found
}

/// Queries the manager behind `file`; `None` if it no longer listens.
pub fn ask(file: &Path) -> io::Result<Option<String>> {
    let mut stream = match UnixStream::connect(file) {
        Ok(stream) => stream,
        Err(error) if is_dead(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Deletes the sockets of killed managers.
pub fn sweep(dir: &Path) {
    for (_, file) in sockets(dir) {
        if UnixStream::connect(&file).is_err_and(|error| is_dead(&error)) {
            let _ = fs::remove_file(file);
        }
    }
}

fn is_dead(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_answered_and_sockets_of_dead_managers_are_deleted() {
        let dir = tempfile::tempdir().expect("a folder");
        let socket = StatusSocket::open(dir.path()).expect("a socket");
        let (pid, file) = sockets(dir.path()).remove(0);
        assert_eq!(pid, std::process::id());
        assert_eq!(fs::metadata(&file).expect("it").permissions().mode() & 0o777, 0o660);
        let caller = std::thread::spawn({
            let file = file.clone();
            move || ask(&file)
        });
        while !caller.is_finished() {
            socket.answer(b"{}");
            std::thread::yield_now();
        }
        assert_eq!(caller.join().expect("no panic").expect("an answer").as_deref(), Some("{}"));
        drop(socket);
        assert!(sockets(dir.path()).is_empty());
        drop(UnixListener::bind(&file).expect("a socket without a manager"));
        assert_eq!(ask(&file).expect("no error"), None);
        sweep(dir.path());
        assert!(sockets(dir.path()).is_empty());
    }
}
