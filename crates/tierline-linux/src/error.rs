// SPDX-License-Identifier: Apache-2.0
//! Errors name the thing, what was found, what was expected, and one next step.

use std::io;
use std::path::PathBuf;

/// An error between Tierline and the kernel.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the kernel could not be read or written.
    #[error("cannot {action} {path}: {source}")]
    File {
        /// `read`, `write`, `open`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file of the kernel has an unexpected content.
    #[error("cannot understand {path}: found {found:?}, expected {expected}")]
    Format {
        /// The file.
        path: PathBuf,
        /// The offending text, cut to one line.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A system call failed.
    #[error("{call} failed: {source}")]
    Call {
        /// The call and its arguments.
        call: String,
        /// The kernel's error.
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
    /// A setting holds neither our value nor the original: another program changed it meanwhile.
    #[error(
        "did not restore {path}: it holds {found:?}, but Tierline had set {ours:?} (original {original:?})"
    )]
    Changed {
        /// The setting.
        path: PathBuf,
        /// What it holds now.
        found: String,
        /// What we had written.
        ours: String,
        /// What it held before us.
        original: String,
    },
    /// All memory belongs to one tier.
    #[error("there is nothing to tier: {found}")]
    OneTier {
        /// The nodes with memory, and why they cannot be divided into tiers.
        found: String,
    },
    /// A request that is refused; nothing has changed.
    #[error("{what}: {why}")]
    Refused {
        /// What was requested.
        what: String,
        /// Why it is refused.
        why: String,
        /// What to do next.
        hint: String,
    },
    /// User input that cannot be used.
    #[error("{what} {found:?}: {why}")]
    Input {
        /// The kind of input: `tiers`, `cgroup`, `pid`.
        what: &'static str,
        /// The text.
        found: String,
        /// Why it cannot be used, and what is expected.
        why: String,
    },
}

impl Error {
    /// The next step for the reader, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Missing { hint, .. } | Self::Refused { hint, .. } => Some(hint.clone()),
            Self::Changed { path, original, .. } => Some(format!(
                "if the new value is not needed: echo '{original}' > {}",
                path.display()
            )),
            Self::OneTier { .. } => Some(
                "see with `tierline doctor` whether a slow node is missing (CXL region not online, \
                 dax device not given to kmem), or name the tiers: --tiers fast=0,slow=1"
                    .into(),
            ),
            Self::Input { .. } => {
                Some("`--help` lists valid values; `tierline topology` lists the nodes".into())
            }
            Self::File { source, .. } | Self::Call { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                Some(denied(rustix::process::geteuid().is_root()))
            }
            _ => None,
        }
    }
}

/// The next step after a denied access.
fn denied(is_root: bool) -> String {
    let step = "see which capability is missing with `tierline doctor`";
    match is_root {
        true => format!("a container or a locked-down kernel denies this to root as well: {step}"),
        false => format!("run as root, or {step}"),
    }
}

/// The result of a call to the kernel.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_not_advised_to_run_as_root() {
        assert!(denied(false).starts_with("run as root"));
        assert!(!denied(true).contains("run as root") && denied(true).contains("doctor"));
    }
}
