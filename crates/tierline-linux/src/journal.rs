// SPDX-License-Identifier: Apache-2.0
//! The change journal: every kernel setting is recorded before Tierline changes it, and restored
//! afterwards, even if the manager was killed.
//!
//! A journal is a JSON file `journal-<pid>.json` in the state folder. It contains the process's
//! start time, its PID namespace and the boot id, so that the journal of a dead process can be recognised.

mod settings;
mod stored;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::balancing;
use crate::cgroup::{Cgroup, CpuMax, NamedCpuMax};
use crate::error::{Error, Result};
use crate::process::namespace;
use crate::root::Root;
use crate::state_dir::StateDir;
use crate::systemd::Unit;
use settings::{Access, FileAt, OfGroup, OfPath, check, same};
pub use stored::Recovered;
use stored::{Found, JournalFile, Writer, journals};

/// One setting that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedSetting {
    /// The setting, as a path from `/`.
    pub path: String,
    /// Its value before the first change.
    pub original: String,
    /// Our value, as the kernel reads it back.
    pub current: String,
    /// While it is written: our value before. A manager that is killed then has left either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
}

struct JournalState {
    dir: StateDir,
    /// The file in it, without its extension.
    stem: String,
    page: JournalFile,
    /// The root of each change, in the order of `page.changes`.
    roots: Vec<Root>,
}

/// A shared handle to this process's journal. Dropping the last handle restores every setting.
#[derive(Clone)]
pub struct Journal(Arc<Mutex<JournalState>>);

/// The journal of a manager that runs, or may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The manager's process id.
    pub pid: u32,
    /// Its journal.
    pub file: PathBuf,
    /// True if the process is in another PID namespace, where it cannot be seen from here.
    pub elsewhere: bool,
}

impl Journal {
    /// Creates an empty journal in `dir`, and `dir` if it is missing.
    ///
    /// # Errors
    /// Those of [`StateDir::create`], and `Error::File` if the file cannot be written, or what identifies this process
    /// cannot be read.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        let dir = StateDir::create(dir)?;
        let page = JournalFile::of_this_process(&Root::default())?;
        let stem = stored::free_stem(&dir, page.pid)?;
        let state = JournalState { dir, stem, page, roots: Vec::new() };
        state.save()?;
        Ok(Self(Arc::new(Mutex::new(state))))
    }

    /// Writes `value` to the setting `path` (from `/`), after recording its present value.
    /// A setting that holds `value` already is neither written nor recorded.
    ///
    /// # Errors
    /// `Error::File` if the setting or the journal cannot be read or written, `Error::Refused` if the setting could
    /// not be restored without harm; nothing is changed then.
    pub fn set(&self, root: &Root, path: &str, value: &str) -> Result<()> {
        self.lock().set(root, path, value, &FileAt { root, path })
    }

    /// Limits a group's CPU time through its descriptor, after recording the limit that was there. `None` if the group
    /// is gone.
    ///
    /// # Errors
    /// As [`Journal::set`], or those of systemd if the group is a unit of it.
    pub fn set_cpu_max(&self, root: &Root, group: &Cgroup, max: CpuMax) -> Result<Option<()>> {
        let path = group.cpu_max_path();
        let unit = Unit::of(root, group.path());
        let set = self.lock().set(root, &path, &max.to_string(), &OfGroup { group, unit });
        match set {
            Err(_) if group.cpu_max().is_ok_and(|max| max.is_none()) => Ok(None),
            set => set.map(Some),
        }
    }

    /// Restores one setting; one that is not recorded stays as it is.
    ///
    /// # Errors
    /// As for each setting of [`Journal::restore`].
    pub fn put_back(&self, root: &Root, path: &str) -> Result<()> {
        self.lock().put_back(root, path)
    }

    /// The value of a setting before the first change, if it is changed at present.
    pub fn original(&self, root: &Root, path: &str) -> Option<String> {
        let state = self.lock();
        Some(state.page.changes[state.find(root, path)?].original.clone())
    }

    /// Restores every setting, the last one first. Returns the errors: settings that another program changed
    /// meanwhile, and failed writes, which stay in the journal.
    pub fn restore(&self) -> Vec<Error> {
        self.lock().restore()
    }

    /// The settings changed at present, in the order of their first change.
    pub fn changes(&self) -> Vec<ChangedSetting> {
        self.lock().page.changes.clone()
    }

    /// Restores the settings left by killed managers in `dir`, and deletes their journals, also partly
    /// written ones. Journals of running managers are left alone. What cannot be restored keeps nothing else from
    /// being restored.
    ///
    /// # Errors
    /// Those of [`StateDir::open`]: what is in a folder that others may write is not trusted. `Error::File` if it cannot be read.
    pub fn recover(dir: impl AsRef<Path>, root: &Root) -> Result<Recovered> {
        let mut done = Recovered::default();
        let Some(dir) = StateDir::open(dir)? else { return Ok(done) };
        for (stem, found) in journals(&dir)? {
            let tried = found.and_then(|found| match found {
                Found::Torn => stored::keep_aside(&dir, root, &stem),
                Found::Journal(page) => match page.writer(root)? {
                    Writer::Runs => Ok(()),
                    Writer::Elsewhere => Err(stored::elsewhere(&dir, &stem)),
                    Writer::Ended => recover_one(&dir, root, &stem, page, &mut done),
                },
            });
            done.errors.extend(tried.err());
        }
        stored::remove_drafts(&dir, root, &mut done.errors);
        Ok(done)
    }

    /// The other managers with a journal in `dir` that run, or may run.
    pub fn others(dir: impl AsRef<Path>, root: &Root) -> Vec<Owner> {
        let own = (std::process::id(), namespace::own(&Root::default()));
        let others = pages(dir).into_iter().filter_map(|(file, page)| {
            let writer = page.writer(root);
            let elsewhere = matches!(writer, Ok(Writer::Elsewhere));
            let runs = !matches!(writer, Ok(Writer::Ended));
            let is_own = (page.pid, &page.namespace) == (own.0, &own.1);
            (runs && !is_own).then_some(Owner { pid: page.pid, file, elsewhere })
        });
        others.collect()
    }

    /// The journals in `dir` of dead managers, with the number of settings each left changed.
    pub fn stale(dir: impl AsRef<Path>, root: &Root) -> Vec<(PathBuf, usize)> {
        let pages = pages(dir).into_iter();
        let dead = pages.filter(|(_, page)| matches!(page.writer(root), Ok(Writer::Ended)));
        dead.map(|(file, page)| (file, page.changes.len())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, JournalState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JournalState {
    fn set(&mut self, root: &Root, path: &str, value: &str, access: &dyn Access) -> Result<()> {
        let now = access.read()?;
        let known = self.find(root, path);
        if known.is_none() && same(&now, value) {
            return Ok(());
        }
        // What could not be restored is not changed.
        check(root, path, value)?;
        check(root, path, &now)?;
        let at = known.unwrap_or(self.page.changes.len());
        let before = self.page.changes.get(at).cloned();
        let original = before.as_ref().map_or(now, |change| change.original.clone());
        if path == balancing::MODE {
            balancing::may_return(&original, value)?;
            let originals = self.originals(path)?;
            originals.iter().try_for_each(|theirs| balancing::may_return(theirs, value))?;
        }
        let previous = before.as_ref().map(|change| change.current.clone());
        let current = value.trim().into();
        let change = ChangedSetting { path: path.into(), original, current, previous };
        self.put(at, change, root);
        if let Err(error) = self.save() {
            self.undo(at, before);
            return Err(error);
        }
        if let Err(error) = access.write(value) {
            self.undo(at, before);
            self.save()?;
            return Err(error);
        }
        self.page.changes[at].previous = None;
        // The kernel may show a value in another form than it was written (0 becomes N).
        if let Ok(shown) = access.read() {
            self.page.changes[at].current = shown;
        }
        self.save()
    }

    /// What all managers of this folder will restore the setting to.
    fn originals(&self, path: &str) -> Result<Vec<String>> {
        let pages = journals(&self.dir)?.into_iter().filter_map(|(_, found)| match found {
            Ok(Found::Journal(page)) if page.boot == self.page.boot => Some(page.changes),
            _ => None,
        });
        let of_path = pages.flatten().filter(|change| change.path == path);
        Ok(of_path.map(|change| change.original).collect())
    }

    fn find(&self, root: &Root, path: &str) -> Option<usize> {
        let wanted = root.path(path);
        let mut both = self.page.changes.iter().zip(&self.roots);
        both.position(|(change, root)| root.path(&change.path) == wanted)
    }

    fn put(&mut self, at: usize, change: ChangedSetting, root: &Root) {
        if at == self.page.changes.len() {
            self.page.changes.push(change);
            self.roots.push(root.clone());
        } else {
            self.page.changes[at] = change;
        }
    }

    fn undo(&mut self, at: usize, before: Option<ChangedSetting>) {
        match before {
            Some(change) => self.page.changes[at] = change,
            None => {
                self.page.changes.truncate(at);
                self.roots.truncate(at);
            }
        }
    }

    fn put_back(&mut self, root: &Root, path: &str) -> Result<()> {
        let Some(at) = self.find(root, path) else { return Ok(()) };
        let restored = put_back(root, &self.page.changes[at]);
        // What another program changed meanwhile is not ours to restore.
        if matches!(restored, Ok(_) | Err(Error::Changed { .. })) {
            self.page.changes.remove(at);
            self.roots.remove(at);
            self.save()?;
        }
        restored.map(drop)
    }

    fn restore(&mut self) -> Vec<Error> {
        let mut errors = Vec::new();
        for at in (0..self.page.changes.len()).rev() {
            let restored = put_back(&self.roots[at], &self.page.changes[at]);
            if matches!(restored, Ok(_) | Err(Error::Changed { .. })) {
                self.page.changes.remove(at);
                self.roots.remove(at);
            }
            errors.extend(restored.err());
        }
        errors.extend(self.save().err());
        errors
    }

    fn save(&self) -> Result<()> {
        self.page.save(&self.dir, &self.stem)
    }
}

impl Drop for JournalState {
    fn drop(&mut self) {
        for error in self.restore() {
            // A closed stderr must not cause a panic here.
            let _ = writeln!(std::io::stderr(), "tierline: {error}");
        }
        // `tierline recover` tries the rest again.
        if self.page.changes.is_empty() {
            let _ = self.dir.remove(&stored::written(&self.stem));
        }
    }
}

/// The journals in `dir` that can be read; none if the folder is not to be trusted.
fn pages(dir: impl AsRef<Path>) -> Vec<(PathBuf, JournalFile)> {
    let Ok(Some(dir)) = StateDir::open(dir) else { return Vec::new() };
    let read = journals(&dir).into_iter().flatten().filter_map(|(stem, found)| match found {
        Ok(Found::Journal(page)) => Some((dir.path(&stored::written(&stem)), page)),
        _ => None,
    });
    read.collect()
}

/// Restores what a dead manager left; what fails stays in its journal.
fn recover_one(
    dir: &StateDir,
    root: &Root,
    stem: &str,
    mut page: JournalFile,
    done: &mut Recovered,
) -> Result<()> {
    let (mut left, is_of_this_boot) = (Vec::new(), page.is_of_this_boot(root)?);
    // After a reboot the kernel's settings have their defaults again.
    let changes = std::mem::take(&mut page.changes).into_iter().rev();
    for change in changes.filter(|_| is_of_this_boot) {
        match put_back(root, &change) {
            Ok(true) => done.lines.push(format!("{} = {}", change.path, change.original)),
            Ok(false) => {}
            Err(error @ Error::Changed { .. }) => done.lines.push(error.to_string()),
            Err(error) => {
                done.errors.push(error);
                left.push(change);
            }
        }
    }
    if left.is_empty() {
        return dir.remove(&stored::written(stem));
    }
    page.changes = left.into_iter().rev().collect();
    page.save(dir, stem)
}

/// Writes the original value if the setting still holds our value. True if it was written.
fn put_back(root: &Root, change: &ChangedSetting) -> Result<bool> {
    let path = change.path.as_str();
    check(root, path, &change.original)?;
    // A setting that no longer exists (a removed DAMON folder, an ended cgroup) needs no restoring.
    if root.is_missing(path) {
        return Ok(false);
    }
    let (of_group, file) = (OfPath { root, path }, FileAt { root, path });
    let access: &dyn Access = if NamedCpuMax::is_one(root, path) { &of_group } else { &file };
    let now = access.read()?;
    if same(&now, &change.original) {
        return Ok(false);
    }
    let ours = [Some(&change.current), change.previous.as_ref()];
    if !ours.into_iter().flatten().any(|ours| same(&now, ours)) {
        return Err(Error::Changed {
            path: root.path(path),
            found: now,
            ours: change.current.clone(),
            original: change.original.clone(),
        });
    }
    access.write(&change.original).map(|()| true)
}

#[cfg(test)]
mod tests;
