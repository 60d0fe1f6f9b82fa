// SPDX-License-Identifier: Apache-2.0
//! The change journal: every kernel setting is recorded before Tierline changes it, and restored
//! afterwards, even if the manager was killed.
//!
//! A journal is a JSON file `journal-<pid>.json` in the state folder. It contains the process's
//! start time and the boot id, so that the journal of a dead process can be recognised.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::root::Root;

/// The default state folder.
pub const STATE_DIR: &str = "/run/tierline";

/// The extension of a journal, and of a partly written one.
const WRITTEN: &str = "json";
const DRAFT: &str = "new";

/// One setting that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The setting, as a path from `/`.
    pub path: String,
    /// Its value before the first change.
    pub original: String,
    /// Our value, as the kernel reads it back.
    pub current: String,
}

/// The content of a journal file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Page {
    pid: u32,
    /// Field 22 of `/proc/PID/stat`, in clock ticks since boot.
    start: u64,
    boot: String,
    changes: Vec<Change>,
}

struct State {
    file: PathBuf,
    page: Page,
    /// The root of each change, in the order of `page.changes`.
    roots: Vec<Root>,
}

/// A shared handle to this process's journal. Dropping the last handle restores every setting.
#[derive(Clone)]
pub struct Journal(Arc<Mutex<State>>);

/// The journal of a running manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The manager's process id.
    pub pid: u32,
    /// Its journal.
    pub file: PathBuf,
}

impl Journal {
    /// Creates an empty journal in `dir`, and `dir` if it is missing.
    ///
    /// # Errors
    /// `Error::File` if the folder or the file cannot be written.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self> {
        let dir = dir.into();
        fs::create_dir_all(&dir).map_err(|source| file_error("create", &dir, source))?;
        let host = Root::default();
        let pid = std::process::id();
        let page = Page {
            pid,
            start: start_time(&host, pid).unwrap_or(0),
            boot: boot_id(&host),
            changes: Vec::new(),
        };
        let state = State { file: free_name(&dir, pid), page, roots: Vec::new() };
        state.save()?;
        Ok(Self(Arc::new(Mutex::new(state))))
    }

    /// Writes `value` to the setting `path` (from `/`), after recording its present value.
    /// A setting that holds `value` already is neither written nor recorded.
    ///
    /// # Errors
    /// `Error::File` if the setting or the journal cannot be read or written; nothing is
    /// changed then.
    pub fn set(&self, root: &Root, path: &str, value: &str) -> Result<()> {
        self.lock().set(root, path, value)
    }

    /// Restores every setting, the last one first, and clears the journal. Returns the errors: failed
    /// writes, and settings that another program changed meanwhile.
    pub fn restore(&self) -> Vec<Error> {
        self.lock().restore()
    }

    /// The settings changed at present, in the order of their first change.
    pub fn changes(&self) -> Vec<Change> {
        self.lock().page.changes.clone()
    }

    /// Restores the settings left by killed managers in `dir`, and deletes their journals, also partly
    /// written ones.
    /// Returns one line per restored setting. Journals of running managers are left alone.
    ///
    /// # Errors
    /// The first setting that could not be restored; its journal stays, without the restored settings.
    /// A setting that another program changed meanwhile is not an error; it gets a line.
    pub fn recover(dir: impl AsRef<Path>, root: &Root) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        for (file, page) in pages(dir.as_ref()) {
            if !alive(root, &page) {
                recover_one(root, &file, page, &mut lines)?;
            }
        }
        for file in files(dir.as_ref(), DRAFT) {
            if writer(&file).is_some_and(|pid| start_time(root, pid).is_none()) {
                fs::remove_file(&file).map_err(|source| file_error("remove", &file, source))?;
            }
        }
        Ok(lines)
    }

    /// The other running managers with a journal in `dir`.
    pub fn others(dir: impl AsRef<Path>, root: &Root) -> Vec<Owner> {
        let own = std::process::id();
        let live = pages(dir.as_ref()).into_iter().filter(|(_, p)| p.pid != own && alive(root, p));
        live.map(|(file, page)| Owner { pid: page.pid, file }).collect()
    }

    /// The journals in `dir` of dead managers, with the number of settings each left changed.
    pub fn stale(dir: impl AsRef<Path>, root: &Root) -> Vec<(PathBuf, usize)> {
        let dead = pages(dir.as_ref()).into_iter().filter(|(_, page)| !alive(root, page));
        dead.map(|(file, page)| (file, page.changes.len())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn set(&mut self, root: &Root, path: &str, value: &str) -> Result<()> {
        let now = read_setting(root, path)?;
        let known = self.find(root, path);
        if known.is_none() && same(&now, value) {
            return Ok(());
        }
        let at = known.unwrap_or(self.page.changes.len());
        let before = self.page.changes.get(at).cloned();
        let original = before.as_ref().map_or(now, |change| change.original.clone());
        let change = Change { path: path.into(), original, current: value.trim().into() };
        self.put(at, change, root);
        self.save()?;
        if let Err(error) = write_setting(root, path, value) {
            self.undo(at, before);
            self.save()?;
            return Err(error);
        }
        // The kernel may show a value in another form than it was written (0 becomes N).
        if let Ok(shown) = read_setting(root, path) {
            self.page.changes[at].current = shown;
        }
        self.save()
    }

    fn find(&self, root: &Root, path: &str) -> Option<usize> {
        let wanted = root.path(path);
        let mut both = self.page.changes.iter().zip(&self.roots);
        both.position(|(change, root)| root.path(&change.path) == wanted)
    }

    fn put(&mut self, at: usize, change: Change, root: &Root) {
        if at == self.page.changes.len() {
            self.page.changes.push(change);
            self.roots.push(root.clone());
        } else {
            self.page.changes[at] = change;
        }
    }

    fn undo(&mut self, at: usize, before: Option<Change>) {
        match before {
            Some(change) => self.page.changes[at] = change,
            None => {
                self.page.changes.truncate(at);
                self.roots.truncate(at);
            }
        }
    }

    fn restore(&mut self) -> Vec<Error> {
        let mut errors = Vec::new();
        while let (Some(change), Some(root)) = (self.page.changes.pop(), self.roots.pop()) {
            errors.extend(put_back(&root, &change).err());
        }
        errors.extend(self.save().err());
        errors
    }

    /// Replaces the file atomically, so that a kill during the write leaves the old one.
    fn save(&self) -> Result<()> {
        save_page(&self.file, &self.page)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        for error in self.restore() {
            eprintln!("tierline: {error}");
        }
        let _ = fs::remove_file(&self.file);
    }
}

fn file_error(action: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::File { action, path: path.to_path_buf(), source }
}

fn save_page(file: &Path, page: &Page) -> Result<()> {
    let fresh = file.with_extension(DRAFT);
    let text = serde_json::to_vec_pretty(page).unwrap_or_default();
    fs::write(&fresh, text).map_err(|source| file_error("write", &fresh, source))?;
    fs::rename(&fresh, file).map_err(|source| file_error("write", file, source))
}

/// A name that no other journal has: a second journal of this process, or an unrecovered journal of a
/// dead process with the same pid, must not be overwritten.
fn free_name(dir: &Path, pid: u32) -> PathBuf {
    let plain = dir.join(format!("journal-{pid}.json"));
    let numbered = (1..).map(|n: u32| dir.join(format!("journal-{pid}-{n}.json")));
    std::iter::once(plain.clone()).chain(numbered).find(|name| !name.exists()).unwrap_or(plain)
}

/// The journals in `dir` that can be read.
fn pages(dir: &Path) -> Vec<(PathBuf, Page)> {
    let read = |file: PathBuf| {
        let page = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
        Some((file, page))
    };
    files(dir, WRITTEN).into_iter().filter_map(read).collect()
}

/// The journal files in `dir` with this extension that this user or root wrote. Others are ignored, as
/// restoring uses our rights.
fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let is_one = |path: &PathBuf| {
        path.extension().is_some_and(|e| e == extension) && writer(path).is_some() && is_ours(path)
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_one).collect();
    files.sort();
    files
}

fn is_ours(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| {
        meta.is_file() && (meta.uid() == 0 || meta.uid() == rustix::process::geteuid().as_raw())
    })
}

/// The process id in a journal's name.
fn writer(path: &Path) -> Option<u32> {
    let name = path.file_stem()?.to_str()?.strip_prefix("journal-")?;
    name.split('-').next()?.parse().ok()
}

fn alive(root: &Root, page: &Page) -> bool {
    page.boot == boot_id(root) && start_time(root, page.pid) == Some(page.start)
}

fn recover_one(root: &Root, file: &Path, mut page: Page, lines: &mut Vec<String>) -> Result<()> {
    // After a reboot the kernel's settings have their defaults again.
    if page.boot == boot_id(root) {
        while let Some(change) = page.changes.last().cloned() {
            match put_back(root, &change) {
                Ok(true) => lines.push(format!("{} = {}", change.path, change.original)),
                Ok(false) => {}
                Err(error @ Error::Changed { .. }) => lines.push(error.to_string()),
                Err(error) => return save_page(file, &page).and(Err(error)),
            }
            page.changes.pop();
        }
    }
    fs::remove_file(file).map_err(|source| file_error("remove", file, source))
}

/// Writes the original value if the setting still holds our value. True if it was written.
fn put_back(root: &Root, change: &Change) -> Result<bool> {
    if !is_setting(&change.path) {
        return Err(Error::Input {
            what: "journal entry",
            found: change.path.clone(),
            why: "a setting lies under /proc/sys, /sys or /proc/PID".into(),
        });
    }
    // A setting that no longer exists (a removed DAMON folder, an ended cgroup) needs no restoring.
    if !root.exists(&change.path) {
        return Ok(false);
    }
    let now = read_setting(root, &change.path)?;
    if same(&now, &change.original) {
        return Ok(false);
    }
    if !same(&now, &change.current) {
        return Err(Error::Changed {
            path: root.path(&change.path),
            found: now,
            ours: change.current.clone(),
            original: change.original.clone(),
        });
    }
    write_setting(root, &change.path, &change.original).map(|()| true)
}

fn is_setting(path: &str) -> bool {
    let place = ["/proc/", "/sys/", "/dev/cgroup/"].iter().any(|prefix| path.starts_with(prefix));
    place && !path.split('/').any(|part| part == "..")
}

fn read_setting(root: &Root, path: &str) -> Result<String> {
    root.read(path).map(|text| chosen(&text))
}

fn write_setting(root: &Root, path: &str, value: &str) -> Result<()> {
    // An empty write would not reach the kernel.
    root.write(path, if value.is_empty() { "\n" } else { value })
}

/// The value that a file shows: the bracketed word of `[always] madvise never`, otherwise the text.
fn chosen(text: &str) -> String {
    let bracketed = text.lines().count() <= 1 && text.split_whitespace().count() > 1;
    let inner = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    match inner {
        Some((word, _)) if bracketed => word.into(),
        _ => text.trim().into(),
    }
}

/// True if two texts are the same value for the kernel.
fn same(a: &str, b: &str) -> bool {
    let plain = |text: &str| match text.trim() {
        "Y" | "y" => "1".to_string(),
        "N" | "n" => "0".to_string(),
        other => other.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    plain(a) == plain(b)
}

fn boot_id(root: &Root) -> String {
    root.read("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// The start time of process `pid`, in clock ticks since boot; `None` if there is no such process.
fn start_time(root: &Root, pid: u32) -> Option<u64> {
    let stat = root.read(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain blanks and parentheses.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let root = Root::at(dir.path());
        for (path, text) in files {
            let real = root.path(path);
            fs::create_dir_all(real.parent().expect("a parent")).expect("a folder");
            fs::write(real, text).expect("a file");
        }
        (dir, root)
    }

    const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    const NUMAB: &str = "/proc/sys/kernel/numa_balancing";

    #[test]
    fn the_original_comes_back_in_reverse_order_and_on_drop() {
        let (dir, root) = fake(&[(THP, "[always] madvise never\n"), (NUMAB, "1\n")]);
        let journal = Journal::open(dir.path().join("run")).expect("a journal");
        journal.set(&root, NUMAB, "2").expect("set");
        journal.set(&root, NUMAB, "0").expect("set");
        journal.clone().set(&root, THP, "never").expect("set");
        assert_eq!(journal.changes()[0].original, "1");
        assert_eq!(journal.changes()[1].original, "always");
        drop(journal);
        assert_eq!(root.read(NUMAB).expect("read"), "1");
        // A plain file keeps the tail of a longer text; a file of the kernel does not.
        assert!(root.read(THP).expect("read").starts_with("always"));
        assert_eq!(root.list("/run"), Vec::<String>::new());
    }

    #[test]
    fn a_value_that_another_program_changed_is_left_and_reported() {
        let (dir, root) = fake(&[(NUMAB, "1\n")]);
        let journal = Journal::open(dir.path().join("run")).expect("a journal");
        journal.set(&root, NUMAB, "0").expect("set");
        fs::write(root.path(NUMAB), "2").expect("another program writes it");
        let errors = journal.restore();
        assert!(
            matches!(&errors[..], [Error::Changed { found, .. }] if found == "2"),
            "{errors:?}"
        );
        assert_eq!(root.read(NUMAB).expect("read"), "2");
    }

    #[test]
    fn a_setting_that_holds_the_value_is_not_touched_and_a_missing_one_is_an_error() {
        let (dir, root) = fake(&[(NUMAB, "0\n")]);
        let journal = Journal::open(dir.path().join("run")).expect("a journal");
        journal.set(&root, NUMAB, "0").expect("set");
        assert!(journal.set(&root, "/sys/none", "1").is_err());
        assert!(journal.changes().is_empty());
    }

    #[test]
    fn a_killed_manager_is_cleaned_up_after() {
        let (dir, root) = fake(&[
            (NUMAB, "2\n"),
            (THP, "madvise\n"),
            ("/proc/77/stat", "77 (it) S 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 9 0\n"),
        ]);
        let run = dir.path().join("run");
        fs::create_dir_all(&run).expect("a folder");
        let change = |path: &str, original: &str, current: &str| Change {
            path: path.into(),
            original: original.into(),
            current: current.into(),
        };
        let page = Page {
            pid: 4_000_000,
            start: 7,
            boot: String::new(),
            changes: vec![change(NUMAB, "1", "2"), change(THP, "always", "never")],
        };
        save_page(&run.join("journal-4000000.json"), &page).expect("save");
        assert_eq!(Journal::stale(&run, &root).len(), 1);
        let lines = Journal::recover(&run, &root).expect("recover");
        assert_eq!(root.read(NUMAB).expect("read"), "1");
        assert_eq!(root.read(THP).expect("read"), "madvise", "not ours any more");
        assert_eq!(lines.len(), 2, "{lines:?}");
        fs::write(run.join("journal-4000000.new"), "{ \"pid\": 40").expect("killed while writing");
        fs::write(run.join("journal-77.new"), "").expect("alive");
        assert!(Journal::recover(&run, &root).expect("recover").is_empty());
        assert_eq!(
            fs::read_dir(&run).expect("list").count(),
            1,
            "the file of the running writer stays"
        );
    }

    #[test]
    fn a_live_journal_is_not_recovered_and_a_foreign_path_is_not_written() {
        let dir = tempfile::tempdir().expect("a folder");
        let _journal = Journal::open(dir.path()).expect("a journal");
        let second = Journal::open(dir.path()).expect("a second one");
        drop(second);
        assert!(Journal::recover(dir.path(), &Root::default()).expect("recover").is_empty());
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 1);
        assert!(!is_setting("/etc/shadow") && !is_setting("/sys/../etc/shadow"));
    }

    #[test]
    fn values_compare_as_the_kernel_means_them() {
        assert!(same("N", "0") && same("1\n", "Y") && same("a  b", "a b") && !same("1", "2"));
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("[none] integrity\n"), "none");
        assert_eq!(chosen("0"), "0");
    }
}
