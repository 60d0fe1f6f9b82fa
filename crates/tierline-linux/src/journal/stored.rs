// SPDX-License-Identifier: Apache-2.0
//! The files of journals, and who wrote them.

use serde::{Deserialize, Serialize};

use super::ChangedSetting;
use crate::error::{Error, Result};
use crate::process::held::is_gone;
use crate::process::namespace;
use crate::process::stat::Stat;
use crate::root::Root;
use crate::state_dir::StateDir;

/// The extensions of a journal, of a partly written one, and of one that cannot be read.
const WRITTEN: &str = "json";
const DRAFT: &str = "new";
const TORN: &str = "torn";

/// What a recovery did.
#[derive(Debug, Default)]
pub struct Recovered {
    /// One line per restored setting, and per setting that another program changed meanwhile.
    pub lines: Vec<String>,
    /// What could not be restored; the journals of these settings stay.
    pub errors: Vec<Error>,
}

impl Recovered {
    /// All of it, as notes before the start of a manager.
    pub fn notes(self) -> Vec<String> {
        let errors = self.errors.iter().map(ToString::to_string);
        self.lines.iter().cloned().chain(errors).collect()
    }
}

/// The content of a journal file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct JournalFile {
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`, in clock ticks since boot.
    pub start: u64,
    pub boot: String,
    /// The PID namespace of `pid`.
    pub namespace: String,
    pub changes: Vec<ChangedSetting>,
}

/// The process that wrote a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    Runs,
    Ended,
    /// In another PID namespace: its number means nothing here.
    Elsewhere,
}

/// A file with the name of a journal.
pub(super) enum Found {
    Journal(JournalFile),
    /// It is cut off or altered.
    Torn,
}

impl JournalFile {
    /// An empty journal of this process.
    ///
    /// # Errors
    /// If what identifies the process cannot be read: without it, a recovery would take the journal for one of another boot
    /// or of a process that has ended.
    pub fn of_this_process(host: &Root) -> Result<Self> {
        let pid = std::process::id();
        Ok(Self {
            pid,
            start: Stat::read(host, pid)?.start,
            boot: boot_id(host)?,
            namespace: namespace::read_own(host)?,
            changes: Vec::new(),
        })
    }

    pub fn is_of_this_boot(&self, root: &Root) -> Result<bool> {
        Ok(self.boot == boot_id(root)?)
    }

    pub fn writer(&self, root: &Root) -> Result<Writer> {
        if !self.is_of_this_boot(root)? {
            return Ok(Writer::Ended);
        }
        if self.namespace != namespace::read_own(root)? {
            let ended = namespace::has_ended(root, &self.namespace);
            return Ok(if ended { Writer::Ended } else { Writer::Elsewhere });
        }
        let runs = start_time(root, self.pid)? == Some(self.start);
        Ok(if runs { Writer::Runs } else { Writer::Ended })
    }

    /// Writes it; a kill during the write leaves the old one.
    pub fn save(&self, dir: &StateDir, stem: &str) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        dir.replace(&written(stem), &format!("{stem}.{DRAFT}"), &text)
    }
}

/// The file of a journal.
pub(super) fn written(stem: &str) -> String {
    format!("{stem}.{WRITTEN}")
}

/// A name that no other journal has: a second journal of this process, or an unrecovered journal of a
/// dead process with the same pid, must not be overwritten.
pub(super) fn free_stem(dir: &StateDir, pid: u32) -> Result<String> {
    let names = dir.names()?;
    let numbered = (1..).map(|n: u32| format!("journal-{pid}-{n}"));
    let mut stems = std::iter::once(format!("journal-{pid}")).chain(numbered);
    let is_free = |stem: &String| !names.contains(&written(stem));
    Ok(stems.find(is_free).unwrap_or_default())
}

/// The journals in `dir`, each with its file without the extension.
pub(super) fn journals(dir: &StateDir) -> Result<Vec<(String, Result<Found>)>> {
    let parse = |bytes: Vec<u8>| serde_json::from_slice(&bytes).map_or(Found::Torn, Found::Journal);
    let read = |stem: String| {
        let bytes = dir.read(&written(&stem)).transpose()?;
        Some((stem, bytes.map(parse)))
    };
    Ok(stems(dir, WRITTEN)?.into_iter().filter_map(read).collect())
}

fn stems(dir: &StateDir, extension: &str) -> Result<Vec<String>> {
    let stem = |name: &String| {
        let stem = name.strip_suffix(extension)?.strip_suffix('.')?;
        writer_of(stem).map(|_| stem.to_string())
    };
    Ok(dir.names()?.iter().filter_map(stem).collect())
}

/// The process id in a journal's name.
fn writer_of(stem: &str) -> Option<u32> {
    stem.strip_prefix("journal-")?.split('-').next()?.parse().ok()
}

/// Renames a journal that cannot be read, so that it is reported once and can be looked at.
pub(super) fn keep_aside(dir: &StateDir, root: &Root, stem: &str) -> Result<()> {
    let names = dir.names()?;
    let numbered = (1..).map(|n: u32| format!("{stem}.{TORN}-{n}"));
    let mut asides = std::iter::once(format!("{stem}.{TORN}")).chain(numbered);
    let aside = asides.find(|name| !names.contains(name)).unwrap_or_default();
    // A running process may be a manager of another version, with another layout.
    let runs = writer_of(stem).is_some_and(|pid| !has_ended(root, pid));
    let kept = if runs { written(stem) } else { aside };
    if !runs {
        dir.rename(&written(stem), &kept)?;
    }
    Err(Error::Refused {
        what: format!("the journal {}", dir.path(&written(stem)).display()),
        why: format!(
            "it is cut off or altered, so its settings are not restored; it is kept as {kept}"
        ),
        hint: "a reboot restores every setting; it may name the ones that were changed".into(),
    })
}

/// The report of a journal of another PID namespace.
pub(super) fn elsewhere(dir: &StateDir, stem: &str) -> Error {
    Error::Refused {
        what: format!("the journal {}", dir.path(&written(stem)).display()),
        why: "its manager is in another PID namespace (a container), and may still run".into(),
        hint: "run `tierline recover` in that container, or on the host".into(),
    }
}

/// Removes the partly written journals of processes that have ended.
pub(super) fn remove_drafts(dir: &StateDir, root: &Root, errors: &mut Vec<Error>) {
    let drafts = stems(dir, DRAFT).unwrap_or_else(|error| {
        errors.push(error);
        Vec::new()
    });
    for stem in drafts {
        if writer_of(&stem).is_some_and(|pid| has_ended(root, pid)) {
            errors.extend(dir.remove(&format!("{stem}.{DRAFT}")).err());
        }
    }
}

/// The kernel's number of this boot; empty if it tells none.
fn boot_id(root: &Root) -> Result<String> {
    match root.read("/proc/sys/kernel/random/boot_id") {
        Err(Error::File { source, .. }) if is_gone(&source) => Ok(String::new()),
        found => found,
    }
}

/// The start time of process `pid`, in clock ticks since boot; `None` if there is no such process.
fn start_time(root: &Root, pid: u32) -> Result<Option<u64>> {
    match Stat::read(root, pid) {
        Err(Error::File { source, .. }) if is_gone(&source) => Ok(None),
        found => found.map(|stat| Some(stat.start)),
    }
}

/// Whether there is certainly no such process.
fn has_ended(root: &Root, pid: u32) -> bool {
    matches!(start_time(root, pid), Ok(None))
}
