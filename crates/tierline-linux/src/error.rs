// SPDX-License-Identifier: Apache-2.0
//! An error is a letter to a tired person: the thing, what was found, one next step.

use std::io;
use std::path::PathBuf;

/// What goes wrong between Tierline and the kernel.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the kernel could not be read or written.
    #[error("cannot {action} {path}: {source}")]
    File {
        /// `read`, `write`, `open`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file of the kernel does not look as expected.
    #[error("cannot understand {path}: found {found:?}, expected {expected}")]
    Format {
        /// The file.
        path: PathBuf,
        /// The offending text, cut to a line.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A system call failed.
    #[error("{call} failed: {source}")]
    Call {
        /// The call, with what it was asked for.
        call: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Something this kernel or machine does not offer.
    #[error("{what} is not available: {why}")]
    Missing {
        /// The capability.
        what: String,
        /// Why not.
        why: String,
        /// What to do next.
        hint: String,
    },
}

impl Error {
    /// The next step for whoever reads the error, where there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Missing { hint, .. } => Some(hint.clone()),
            Self::File { source, .. } | Self::Call { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                Some("run as root, or see which capability is missing with `tierline doctor`".into())
            }
            _ => None,
        }
    }
}

/// The result of anything that talks to the kernel.
pub type Result<T> = std::result::Result<T, Error>;
