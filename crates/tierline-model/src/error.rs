// SPDX-License-Identifier: Apache-2.0
//! An error is a letter to a tired person: the file, the key, what was found, one next step.

/// What can be wrong with what a person wrote.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file does not read: line, column and key are in the text.
    #[error("{place}: {why}")]
    File {
        /// The file, or the name of an embedded one.
        place: String,
        /// What the parser says.
        why: String,
    },
    /// A file reads, but a figure in it makes no machine or workload.
    #[error("{place}: {why}")]
    Figure {
        /// The file, or the name of an embedded one.
        place: String,
        /// The key and what is wrong with it.
        why: String,
    },
    /// There is nothing of that name.
    #[error("there is no {what} {name:?}{}", .of.as_ref().map_or(String::new(), |of| format!(" of {of}")))]
    Unknown {
        /// `machine`, `workload`, `policy`, `tracker`, `knob`.
        what: &'static str,
        /// What was typed.
        name: String,
        /// Of what it was looked for, where that matters.
        of: Option<String>,
        /// What there is.
        known: Vec<String>,
    },
    /// A policy needs what the model does not have.
    #[error("{0}, which the model does not have")]
    Unfit(tierline_core::policy::Unfit),
}

impl Error {
    pub(crate) fn file(place: &str, error: &toml::de::Error) -> Self {
        Self::File { place: place.into(), why: error.to_string().trim_end().into() }
    }

    /// Something of that name was asked for, and there are only these.
    pub fn unknown<'a>(
        what: &'static str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let known = known.into_iter().map(String::from).collect();
        Self::Unknown { what, name: name.into(), of: None, known }
    }

    /// The same for one among several that have such names.
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

/// The result of reading what a person wrote. The other error type is for helpers.
pub type Result<T, E = Error> = std::result::Result<T, E>;
