// SPDX-License-Identifier: Apache-2.0
//! Asks a daemon.

use std::fs;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Deserialize;
use tierline_linux::state_dir::StateDir;

use crate::apps::App;
use crate::report_error::ErrorWithHint;
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
    ask(socket, "GET", path, "")
}

/// Whether a daemon listens.
///
/// # Errors
/// If it cannot be reached, as without the right to open its socket.
pub fn listens(socket: &Path) -> Result<bool> {
    let answer = get(socket, "/v1/tenants");
    answer.map(|answer| answer.is_some()).map_err(|error| {
        let hint = "run this with sudo, or as a member of the group that may read: tierline";
        let socket = socket.display();
        ErrorWithHint::error(
            format!("a daemon listens on {socket}, and cannot be asked: {error}"),
            hint,
        )
    })
}

/// Adds a tenant.
///
/// # Errors
/// If the daemon refuses it, or has ended.
pub fn add(socket: &Path, app: &App) -> Result<()> {
    change(socket, "POST", "/v1/tenants", &serde_json::to_string(app)?)
}

/// Removes a tenant that was requested. One that is gone is no error.
///
/// # Errors
/// If the daemon refuses.
pub fn remove(socket: &Path, name: &str) -> Result<()> {
    match ask(socket, "DELETE", &format!("/v1/tenants/{name}"), "") {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(refusal(&error)),
        _ => Ok(()),
    }
}

fn change(socket: &Path, method: &str, path: &str, body: &str) -> Result<()> {
    match ask(socket, method, path, body) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => {
            Err(ErrorWithHint::error("the daemon has ended", "see why: journalctl -u tierline"))
        }
        Err(error) => Err(refusal(&error)),
    }
}

/// What the daemon answered, as an error of ours.
fn refusal(error: &io::Error) -> anyhow::Error {
    let text = error.to_string();
    let json = text.find('{').and_then(|at| serde_json::from_str::<Refusal>(&text[at..]).ok());
    match json {
        Some(Refusal { error, hint }) => {
            ErrorWithHint::error(format!("the daemon refuses: {error}"), hint)
        }
        None => {
            ErrorWithHint::error(format!("the daemon refuses: {text}"), "see `tierline status`")
        }
    }
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
    hint: String,
}

/// The body of an answer; `None` if no daemon listens.
fn ask(socket: &Path, method: &str, path: &str, sent: &str) -> io::Result<Option<String>> {
    let latest = Instant::now() + PATIENCE;
    loop {
        let mut stream = match UnixStream::connect(socket) {
            Ok(stream) => stream,
            Err(error) if is_dead(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        stream.set_write_timeout(Some(PATIENCE))?;
        // Version 1.0 ends an answer with the connection.
        let head = format!("{method} {path} HTTP/1.0\r\nHost: tierline\r\n");
        let text = format!("{head}Content-Length: {}\r\n\r\n{sent}", sent.len());
        stream.write_all(text.as_bytes())?;
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
        "200" | "201" => Ok(body.into()),
        "404" => Err(io::Error::new(io::ErrorKind::NotFound, body.trim().to_string())),
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
        let refusal = refusal(
            &self::body("HTTP/1.0 409 Conflict\r\n\r\n{\"error\":\"taken\",\"hint\":\"another\"}")
                .expect_err("refused"),
        );
        assert_eq!(refusal.to_string(), "the daemon refuses: taken");
        assert!(is_shed(&error) && error.to_string().contains("error"));
    }
}
