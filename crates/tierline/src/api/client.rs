// SPDX-License-Identifier: Apache-2.0
//! Asks a daemon.

use std::fs;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tierline_linux::state_dir::StateDir;

use crate::serve::{answer, is_dead};

/// The socket's name in the state folder.
pub const SOCKET: &str = "api.sock";
const PATIENCE: Duration = Duration::from_secs(3);
/// Time between two tries, if there are too many requests.
const PAUSE: Duration = Duration::from_millis(100);

/// The socket of a daemon with this state folder.
///
/// # Errors
/// If others may write the folder: then anybody may have made it.
pub fn socket(state_dir: &Path) -> Result<Option<PathBuf>, tierline_linux::error::Error> {
    let Some(dir) = StateDir::open(state_dir)? else { return Ok(None) };
    let file = dir.path(SOCKET);
    Ok(fs::symlink_metadata(&file).is_ok().then_some(file))
}

/// The body at `path`; `None` if no daemon listens.
///
/// # Errors
/// If the daemon cannot be reached, or refuses.
pub fn get(socket: &Path, path: &str) -> io::Result<Option<String>> {
    let latest = Instant::now() + PATIENCE;
    loop {
        let mut stream = match UnixStream::connect(socket) {
            Ok(stream) => stream,
            Err(error) if is_dead(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        stream.set_write_timeout(Some(PATIENCE))?;
        // Version 1.0 ends an answer with the connection.
        write!(stream, "GET {path} HTTP/1.0\r\nHost: tierline\r\n\r\n")?;
        match body(&String::from_utf8_lossy(&answer(&stream, latest)?)) {
            Err(error) if is_shed(&error) && Instant::now() + PAUSE < latest => sleep(PAUSE),
            body => return body.map(Some),
        }
    }
}

fn is_shed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ResourceBusy
}

fn body(answer: &str) -> io::Result<String> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.split(' ').nth(1).unwrap_or_default();
    match status {
        "200" => Ok(body.into()),
        "429" | "503" => Err(io::Error::new(io::ErrorKind::ResourceBusy, body.trim().to_string())),
        _ => Err(io::Error::other(format!("status {status:?}: {}", body.trim()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_its_body_and_a_refusal_an_error() {
        let answer = "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(body(answer).expect("a body"), "{}");
        for refusal in ["HTTP/1.0 429 Too Many\r\n\r\n{\"error\":1}", "rubbish", ""] {
            assert!(body(refusal).is_err(), "{refusal}");
        }
        let error = body("HTTP/1.0 429 Too Many\r\n\r\n{\"error\":1}").expect_err("refused");
        assert!(is_shed(&error) && error.to_string().contains("error"));
    }
}
