// SPDX-License-Identifier: Apache-2.0
//! What can be wrong with a trace: where, what was expected there, what was found.

use std::io;

/// Why reading or writing ended. What was read before stays good.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not what the format says.
    #[error("at byte {offset}: expected {expected}, found {found}")]
    Format {
        /// Bytes from the start of the file.
        offset: u64,
        /// What the format has there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// Another tool's text does not read.
    #[error("line {line}: expected {expected}, found {found:?}")]
    Text {
        /// Counted from 1.
        line: u64,
        /// What that tool writes.
        expected: &'static str,
        /// What is there, shortened.
        found: String,
    },
    /// What was asked for makes no sense.
    #[error("{0}")]
    Asked(String),
    /// The file cannot be read or written.
    #[error("at byte {offset}: {source}")]
    Io {
        /// Bytes from the start of the file.
        offset: u64,
        /// What the system says.
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
