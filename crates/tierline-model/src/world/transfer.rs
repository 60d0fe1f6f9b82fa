// SPDX-License-Identifier: Apache-2.0
//! How pages are moved: a choice of who moves them, whatever policy wants it.

use super::shadows;
use crate::error::{Error, Result};

/// A way to move pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transfer {
    /// A page is taken away, copied, and is in one tier at a time.
    #[default]
    Exclusive,
    /// A page is copied while it is in use, and what it leaves behind is kept as its shadow.
    Shadow,
}

/// An entry of the list of ways.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The name users type.
    pub name: &'static str,
    /// What it does, when it helps, when it hurts, knobs, source.
    pub doc: &'static str,
    /// The way.
    pub transfer: Transfer,
}

/// The head of this entry, which has no file of its own.
const EXCLUSIVE: &str = "\n\
    //! exclusive: takes a page away, copies it, and gives its frame back.\n\
    //!\n\
    //! What it does: unmaps the page, so that who touches it waits, copies it and maps the copy.\n\
    //! When it helps: as what every kernel does.\n\
    //! When it hurts: a page that is read all the time makes its program wait, and what went up unchanged is\n\
    //! copied again on its way down.\n\
    //! Knobs: none.\n\
    //! Where it comes from: Linux, mm/migrate.c.\n";

/// Every way there is; the first is the default.
pub const TRANSFERS: &[Entry] = &[
    Entry { name: "exclusive", doc: EXCLUSIVE, transfer: Transfer::Exclusive },
    Entry { name: "nomad", doc: shadows::DOC, transfer: Transfer::Shadow },
];

impl Entry {
    /// The way of that name.
    ///
    /// # Errors
    /// `Error::Unknown` with the names there are.
    pub fn find(name: &str) -> Result<&'static Self> {
        TRANSFERS.iter().find(|entry| entry.name == name).ok_or_else(|| {
            Error::unknown("migrator", name, TRANSFERS.iter().map(|entry| entry.name))
        })
    }

    /// What it says of itself, as plain text.
    pub fn explain(&self) -> String {
        let lines = self.doc.lines().skip(1).take_while(|line| line.starts_with("//!"));
        lines
            .map(|line| {
                line.trim_start_matches("//!").strip_prefix(' ').unwrap_or("").to_string() + "\n"
            })
            .collect()
    }
}
