// SPDX-License-Identifier: Apache-2.0
//! Prints errors for the user: `Error:` what went wrong, `Hint:` what to do next.

use std::io;

use tierline_linux::error::Error;

use crate::nearest::suggest;
use crate::print::{Messages, plain, to_stderr};

/// An error of the command line, with its next step.
#[derive(Debug)]
pub struct ErrorWithHint {
    message: String,
    hint: String,
}

impl ErrorWithHint {
    /// An error with its next step.
    pub fn error(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
        Self { message: message.into(), hint: hint.into() }.into()
    }
}

impl std::fmt::Display for ErrorWithHint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ErrorWithHint {}

/// Prints the error to stderr.
pub fn print(error: &anyhow::Error) {
    to_stderr(&plain(&format!("Error: {}", text(error))));
    if let Some(hint) = hint(error) {
        to_stderr(&plain(&format!("Hint: {hint}")));
    }
}

/// Prints an error of something that goes on without what failed.
pub fn tell(error: &anyhow::Error, messages: Messages) {
    messages.print(&text(error));
    hint(error).into_iter().for_each(|hint| messages.print(&format!("hint: {hint}")));
}

/// The causes, outermost first. Our own errors include their cause; it is not repeated.
pub fn text(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// The next step, if a cause has one.
pub fn hint(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        let own = cause.downcast_ref::<ErrorWithHint>().map(|hinted| hinted.hint.clone());
        let modelled = || cause.downcast_ref::<tierline_model::error::Error>().and_then(modelled);
        own.or_else(|| cause.downcast_ref::<Error>().and_then(Error::hint)).or_else(modelled)
    })
}

/// The next step after an error of the model: the nearest valid name.
fn modelled(error: &tierline_model::error::Error) -> Option<String> {
    use tierline_model::error::Error::{Figure, File, MissingCapability, Unknown};
    match error {
        Unknown { name, known, .. } => Some(suggest(name, known.iter().map(String::as_str))),
        MissingCapability(_) => Some("policy linux models the kernel's tiering".into()),
        File { .. } | Figure { .. } => None,
    }
}

/// True if the reader of our output has closed it. A journal or a setting has no reader.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = |cause: &(dyn std::error::Error + 'static)| {
        let of_json =
            cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        of_json.or_else(|| cause.downcast_ref::<io::Error>().map(io::Error::kind))
    };
    let is_output = !error.chain().any(|cause| cause.is::<Error>());
    is_output && error.chain().any(|cause| kind(cause) == Some(io::ErrorKind::BrokenPipe))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_printed_once_and_its_hint_is_found() {
        let source = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = Error::File { action: "read", path: "/proc/kcore".into(), source };
        let error = anyhow::Error::from(error).context("cannot start");
        assert_eq!(text(&error), "cannot start: cannot read /proc/kcore: permission denied");
        assert!(hint(&error).is_some_and(|hint| hint.contains("root")));
    }

    #[test]
    fn a_broken_pipe_is_recognised_through_its_context() {
        let error =
            anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("output");
        assert!(is_broken_pipe(&error));
        let source = io::Error::from(io::ErrorKind::BrokenPipe);
        let error = Error::File { action: "write", path: "/run/tierline".into(), source };
        assert!(!is_broken_pipe(&error.into()), "a manager that could not start");
    }
}
