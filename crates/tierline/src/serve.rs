// SPDX-License-Identifier: Apache-2.0
//! The socket of a manager: a client that connects to `STATE_DIR/tierline-<pid>.sock` and sends nothing receives the
//! manager's status as JSON; one that sends a line, the answer to that request. Clients are served between steps;
//! without clients it costs nothing, and a slow client delays nobody.

use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::Mode;
use rustix::process::umask;
use tierline_core::unit::Nanos;
use tierline_linux::error::Error;
use tierline_linux::peer;
use tierline_linux::state_dir::StateDir;

use crate::request::MOST_BYTES;

/// The most clients served at once, so that they cannot keep the manager from its work.
pub const CALLERS: usize = 8;
/// How long a client waits. A manager answers between two steps; a step takes a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a manager waits for the rest of a request. A client that has sent nothing until then gets the status.
const SILENCE: Nanos = Nanos::from_millis(200);
/// The longest answer that a client reads.
const MOST_ANSWER: usize = 16 << 20;

/// The socket; dropping it deletes the file.
pub struct StatusSocket {
    listener: UnixListener,
    file: PathBuf,
    callers: Vec<Caller>,
}

/// A client whose request has not arrived completely.
struct Caller {
    stream: UnixStream,
    text: Vec<u8>,
    since: Nanos,
}

/// A client that waits for an answer.
pub struct Call {
    stream: UnixStream,
    /// Its request; `None`: it wants the status.
    pub request: Option<String>,
    /// Whether it is root or our own user.
    pub trusted: bool,
}

impl Call {
    /// Sends the answer. It fits into the socket's buffer; otherwise the client receives only the beginning.
    pub fn answer(mut self, text: &[u8]) {
        let _ = self.stream.write_all(text);
    }
}

impl Caller {
    /// Reads what has arrived. True if the request is complete: a line, the end, too much, or silence.
    fn is_complete(&mut self, now: Nanos) -> bool {
        let mut part = [0; 4096];
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => return true,
                Ok(count) => self.text.extend_from_slice(&part[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return true,
            }
            if self.text.contains(&b'\n') || self.text.len() > MOST_BYTES {
                return true;
            }
        }
        now >= self.since + SILENCE
    }

    fn into_call(self) -> Call {
        let trusted = peer::is_trusted(&self.stream);
        let request = (!self.text.is_empty()).then(|| {
            let text = String::from_utf8_lossy(&self.text);
            let line = text.lines().next().unwrap_or_default();
            if self.text.len() > MOST_BYTES { String::new() } else { line.to_string() }
        });
        Call { stream: self.stream, request, trusted }
    }
}

impl StatusSocket {
    /// Opens the socket of this process in `dir`.
    pub fn open(dir: &Path) -> io::Result<Self> {
        StateDir::create(dir).map_err(io::Error::other)?;
        let file = dir.join(format!("tierline-{}.sock", std::process::id()));
        // Left by a killed process with the same pid.
        let _ = fs::remove_file(&file);
        let listener = bind(&file)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, file, callers: Vec::new() })
    }

    /// Readable when a client connects.
    pub fn fd(&self) -> &UnixListener {
        &self.listener
    }

    /// Readable when more of a request arrives.
    pub fn callers(&self) -> impl Iterator<Item = &UnixStream> {
        self.callers.iter().map(|caller| &caller.stream)
    }

    /// When to look at the latest: a client has been silent for long enough.
    pub fn due(&self) -> Option<Nanos> {
        self.callers.iter().map(|caller| caller.since + SILENCE).min()
    }

    /// The clients whose requests are complete.
    pub fn calls(&mut self, now: Nanos) -> Vec<Call> {
        while self.callers.len() < CALLERS {
            let Ok((stream, _)) = self.listener.accept() else { break };
            if stream.set_nonblocking(true).is_ok() {
                self.callers.push(Caller { stream, text: Vec::new(), since: now });
            }
        }
        let complete = self.callers.extract_if(.., |caller| caller.is_complete(now));
        complete.map(Caller::into_call).collect()
    }
}

/// Binds a socket that only its user and group can reach, from the first moment on.
pub fn bind(file: &Path) -> io::Result<UnixListener> {
    let before = umask(Mode::from_raw_mode(0o117));
    let bound = UnixListener::bind(file);
    umask(before);
    bound
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

/// The sockets in `dir`, by process id.
///
/// # Errors
/// If others may write the folder: then anybody may have made them; or if it cannot be read.
pub fn sockets(dir: &Path) -> Result<Vec<(u32, PathBuf)>, Error> {
    let Some(dir) = StateDir::open(dir)? else { return Ok(Vec::new()) };
    let pid =
        |name: &str| name.strip_prefix("tierline-")?.strip_suffix(".sock")?.parse::<u32>().ok();
    let names = dir.names()?;
    let mut found: Vec<_> =
        names.iter().filter_map(|name| Some((pid(name)?, dir.path(name)))).collect();
    found.sort();
    Ok(found)
}

/// Queries the status of the manager behind `file`; `None` if it no longer listens.
pub fn ask(file: &Path) -> io::Result<Option<String>> {
    request(file, "")
}

/// Sends a request to the manager behind `file`, and returns its answer; `None` if it no longer listens.
pub fn request(file: &Path, line: &str) -> io::Result<Option<String>> {
    let mut stream = match UnixStream::connect(file) {
        Ok(stream) => stream,
        Err(error) if is_dead(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(line.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let text = answer(&stream, Instant::now() + PATIENCE)?;
    String::from_utf8(text).map(Some).map_err(io::Error::other)
}

/// Reads an answer that must be complete at `latest`, however it is divided.
pub fn answer(mut stream: &UnixStream, latest: Instant) -> io::Result<Vec<u8>> {
    let (mut text, mut part) = (Vec::new(), [0; 1 << 14]);
    loop {
        let left = latest.saturating_duration_since(Instant::now());
        if left.is_zero() || text.len() > MOST_ANSWER {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part) {
            Ok(0) => return Ok(text),
            Ok(count) => text.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Deletes the sockets of killed managers.
pub fn sweep(dir: &Path) {
    for (_, file) in sockets(dir).into_iter().flatten() {
        if UnixStream::connect(&file).is_err_and(|error| is_dead(&error)) {
            let _ = fs::remove_file(file);
        }
    }
}

pub fn is_dead(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn clients_are_answered_and_sockets_of_dead_managers_are_deleted() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut socket = StatusSocket::open(dir.path()).expect("a socket");
        let (pid, file) = sockets(dir.path()).expect("ours").remove(0);
        assert_eq!(pid, std::process::id());
        assert_eq!(fs::metadata(&file).expect("it").permissions().mode() & 0o777, 0o660);
        let caller = std::thread::spawn({
            let file = file.clone();
            move || ask(&file)
        });
        while !caller.is_finished() {
            let calls = socket.calls(Nanos::ZERO);
            calls.into_iter().for_each(|call| {
                assert_eq!((&call.request, call.trusted), (&None, true));
                call.answer(b"{}");
            });
            std::thread::yield_now();
        }
        assert_eq!(caller.join().expect("no panic").expect("an answer").as_deref(), Some("{}"));
        drop(socket);
        assert!(sockets(dir.path()).expect("ours").is_empty());
        drop(UnixListener::bind(&file).expect("a socket without a manager"));
        assert_eq!(ask(&file).expect("no error"), None);
        sweep(dir.path());
        assert!(sockets(dir.path()).expect("ours").is_empty());
    }

    #[test]
    fn a_socket_is_closed_to_others_from_the_first_moment_on() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("s");
        let _listener = bind(&file).expect("bound");
        assert_eq!(fs::metadata(&file).expect("it").permissions().mode() & 0o777, 0o660);
    }

    #[test]
    fn sockets_in_a_folder_that_others_may_write_are_not_asked() {
        let dir = tempfile::tempdir().expect("a folder");
        let _planted = UnixListener::bind(dir.path().join("tierline-1.sock")).expect("bound");
        assert_eq!(sockets(dir.path()).expect("ours").len(), 1);
        fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).expect("ours");
        assert!(sockets(dir.path()).is_err());
    }

    #[test]
    fn an_answer_that_drips_is_given_up_at_the_latest_time() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        theirs.write_all(b"{").expect("sent");
        // Each part would arrive in time; the whole does not.
        let late = answer(&ours, Instant::now()).expect_err("late");
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        let late = answer(&ours, Instant::now() + Duration::from_millis(5)).expect_err("late");
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        theirs.write_all(b"}").expect("sent");
        drop(theirs);
        assert_eq!(answer(&ours, Instant::now() + PATIENCE).expect("complete"), b"}");
    }

    /// Requests of one sender, as the manager gets them `later` after its first look.
    fn received(text: &[u8], later: Nanos) -> Vec<Option<String>> {
        let dir = tempfile::tempdir().expect("a folder");
        let mut socket = StatusSocket::open(dir.path()).expect("a socket");
        let (_, file) = sockets(dir.path()).expect("ours").remove(0);
        let mut client = UnixStream::connect(file).expect("connected");
        client.write_all(text).expect("sent");
        let mut calls = socket.calls(Nanos::ZERO);
        assert_eq!(socket.callers().count() + calls.len(), 1);
        calls.extend(socket.calls(later));
        calls.into_iter().map(|call| call.request).collect()
    }

    #[test]
    fn a_request_is_a_line_and_silence_asks_for_the_status() {
        let line = |text: &str| vec![Some(text.to_string())];
        assert_eq!(received(b"{\"a\":1}\nmore", Nanos::ZERO), line("{\"a\":1}"));
        assert_eq!(received(b"", Nanos::from_millis(199)), [], "it may still send");
        assert_eq!(received(b"", SILENCE), [None]);
        assert_eq!(received(b"half", SILENCE), line("half"));
        assert_eq!(received(&[b'x'; MOST_BYTES + 1], SILENCE), line(""), "too long");
    }
}
