// SPDX-License-Identifier: Apache-2.0
//! Errors in user input: the file, the key, what was found, and one next step.

/// An error in user input.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be parsed; the text contains line, column and key.
    #[error("{place}: {why}")]
    File {
        /// The file, or the name of an embedded one.
        place: String,
        /// The parser's message.
        why: String,
    },
    /// A file can be parsed, but a figure makes an invalid machine or workload.
    #[error("{place}: {why}")]
    Figure {
        /// The file, or the name of an embedded one.
        place: String,
        /// The key and the problem.
        why: String,
    },
    /// The name is unknown.
    #[error("there is no {what} {name:?}{}", .of.as_ref().map_or(String::new(), |of| format!(" of {of}")))]
    Unknown {
        /// `machine`, `workload`, `policy`, `tracker`, `knob`.
        what: &'static str,
        /// The given name.
        name: String,
        /// The thing that has such names, if that matters.
        of: Option<String>,
        /// The known names.
        known: Vec<String>,
    },
    /// A policy needs what the model does not have.
    #[error("{0}, which the model does not have")]
    MissingCapability(tierline_core::policy::MissingCapability),
}

impl Error {
    pub(crate) fn file(place: &str, error: &toml::de::Error) -> Self {
        Self::File { place: place.into(), why: error.to_string().trim_end().into() }
    }

    /// A lookup of a name failed; `known` are the valid ones.
    pub fn unknown<'a>(
        what: &'static str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let known = known.into_iter().map(String::from).collect();
        Self::Unknown { what, name: name.into(), of: None, known }
    }

    /// The same error for a name within one of several things.
    #[must_use]
    pub fn within(self, place: &str) -> Self {
        match self {
            Self::Unknown { what, name, known, .. } => {
                Self::Unknown { what, name, of: Some(place.into()), known }
            }
            other => other,
        }
    }
}

/// Result of parsing user input. The second error type is for internal functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;
