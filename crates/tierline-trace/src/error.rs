// SPDX-License-Identifier: Apache-2.0
//! Errors in traces: position, what was expected, what was found.

use std::io;

/// Why reading or writing stopped. Everything read before remains valid.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file does not follow the format.
    #[error("at byte {offset}: expected {expected}, found {found}")]
    Format {
        /// Bytes from the start of the file.
        offset: u64,
        /// What the format requires.
        expected: String,
        /// What was found.
        found: String,
    },
    /// The text of another tool cannot be parsed.
    #[error("line {line}: expected {expected}, found {found:?}")]
    Text {
        /// Counted from 1.
        line: u64,
        /// What the tool writes.
        expected: &'static str,
        /// What was found, shortened.
        found: String,
    },
    /// The request is invalid.
    #[error("{0}")]
    Usage(String),
    /// The file cannot be read or written.
    #[error("at byte {offset}: {source}")]
    Io {
        /// Bytes from the start of the file.
        offset: u64,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn format(offset: u64, expected: impl Into<String>, found: impl ToString) -> Self {
        Self::Format { offset, expected: expected.into(), found: found.to_string() }
    }

    pub(crate) fn text(line: u64, expected: &'static str, found: &str) -> Self {
        Self::Text { line, expected, found: found.chars().take(80).collect() }
    }
}

/// The result of work on traces.
pub type Result<T, E = Error> = std::result::Result<T, E>;
