// SPDX-License-Identifier: Apache-2.0
//! Methods of moving pages, independent of the policy.

use super::shadows;
use crate::error::{Error, Result};

/// A method of moving pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transfer {
    /// A page is unmapped, copied, and is in one tier at a time.
    #[default]
    Exclusive,
    /// A page is copied while in use; its old frame is kept as its shadow.
    Shadow,
}

/// An entry of the list of methods.
#[derive(Clone, Copy)]
pub struct TransferEntry {
    /// Name on the command line.
    pub name: &'static str,
    /// What it does, when it helps, when it hurts, knobs, source.
    pub doc: &'static str,
    /// The method.
    pub transfer: Transfer,
}

/// Documentation of this entry, which has no file of its own.
const EXCLUSIVE: &str = "\n\
    //! exclusive: unmaps a page, copies it, and frees its old frame.\n\
    //!\n\
    //! What it does: unmaps the page, so that threads accessing it wait, copies it, and maps the copy.\n\
    //! When it helps: the method of every kernel.\n\
    //! When it hurts: programs wait for pages that they access all the time; a promoted page that was not\n\
    //! changed is copied again when it is demoted.\n\
    //! Knobs: none.\n\
    //! Where it comes from: Linux, mm/migrate.c.\n";

/// All methods; the first is the default.
pub const TRANSFERS: &[TransferEntry] = &[
    TransferEntry { name: "exclusive", doc: EXCLUSIVE, transfer: Transfer::Exclusive },
    TransferEntry { name: "nomad", doc: shadows::DOC, transfer: Transfer::Shadow },
];

impl TransferEntry {
    /// The method of that name.
    ///
    /// # Errors
    /// `Error::Unknown` with the known names.
    pub fn find(name: &str) -> Result<&'static Self> {
        TRANSFERS.iter().find(|entry| entry.name == name).ok_or_else(|| {
            Error::unknown("migrator", name, TRANSFERS.iter().map(|entry| entry.name))
        })
    }

    /// Its documentation as plain text.
    pub fn explain(&self) -> String {
        let lines = self.doc.lines().skip(1).take_while(|line| line.starts_with("//!"));
        lines
            .map(|line| {
                line.trim_start_matches("//!").strip_prefix(' ').unwrap_or("").to_string() + "\n"
            })
            .collect()
    }
}
