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

use crate::cgroup::{Cgroup, CpuMax, NamedCpuMax, group_path};
use crate::error::{Error, Result};
use crate::root::Root;
use crate::systemd::Unit;

/// The default state folder.
pub const STATE_DIR: &str = "/run/tierline";

/// The extension of a journal, and of a partly written one.
const WRITTEN: &str = "json";
const DRAFT: &str = "new";

/// One setting that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedSetting {
    /// The setting, as a path from `/`.
    pub path: String,
    /// Its value before the first change.
    pub original: String,
    /// Our value, as the kernel reads it back.
    pub current: String,
}

/// The content of a journal file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct JournalFile {
    pid: u32,
    /// Field 22 of `/proc/PID/stat`, in clock ticks since boot.
    start: u64,
    boot: String,
    changes: Vec<ChangedSetting>,
}

struct JournalState {
    file: PathBuf,
    page: JournalFile,
    /// The root of each change, in the order of `page.changes`.
    roots: Vec<Root>,
}

/// A shared handle to this process's journal. Dropping the last handle restores every setting.
#[derive(Clone)]
pub struct Journal(Arc<Mutex<JournalState>>);

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
        let page = JournalFile {
            pid,
            start: start_time(&host, pid).unwrap_or(0),
            boot: boot_id(&host),
            changes: Vec::new(),
        };
        let state = JournalState { file: free_name(&dir, pid), page, roots: Vec::new() };
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

    /// Restores every setting, the last one first, and clears the journal. Returns the errors: failed
    /// writes, and settings that another program changed meanwhile.
    pub fn restore(&self) -> Vec<Error> {
        self.lock().restore()
    }

    /// The settings changed at present, in the order of their first change.
    pub fn changes(&self) -> Vec<ChangedSetting> {
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

    fn lock(&self) -> MutexGuard<'_, JournalState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a setting is read and written.
trait Access {
    fn read(&self) -> Result<String>;
    fn write(&self, value: &str) -> Result<()>;
}

/// A setting at a path.
struct FileAt<'a> {
    root: &'a Root,
    path: &'a str,
}

impl Access for FileAt<'_> {
    fn read(&self) -> Result<String> {
        read_setting(self.root, self.path)
    }

    fn write(&self, value: &str) -> Result<()> {
        write_setting(self.root, self.path, value)
    }
}

/// The `cpu.max` of a group that is held by descriptor.
struct OfGroup<'a> {
    group: &'a Cgroup,
    unit: Option<Unit>,
}

impl Access for OfGroup<'_> {
    fn read(&self) -> Result<String> {
        let max = self.group.cpu_max()?;
        max.map(|max| max.to_string()).ok_or_else(|| gone(&self.group.cpu_max_path()))
    }

    fn write(&self, value: &str) -> Result<()> {
        match (&self.unit, value.parse()) {
            (Some(unit), Ok(max)) => unit.set_cpu(max),
            _ => {
                let written = self.group.set_cpu_max(value)?;
                written.ok_or_else(|| gone(&self.group.cpu_max_path()))
            }
        }
    }
}

/// The `cpu.max` of a group that is known by its path.
struct OfPath<'a> {
    root: &'a Root,
    path: &'a str,
}

impl OfPath<'_> {
    fn error(&self, action: &'static str, source: std::io::Error) -> Error {
        Error::File { action, path: self.root.path(self.path), source }
    }
}

impl Access for OfPath<'_> {
    fn read(&self) -> Result<String> {
        let opened = NamedCpuMax::open(self.root, self.path);
        opened.and_then(|mut max| max.read()).map_err(|source| self.error("read", source))
    }

    fn write(&self, value: &str) -> Result<()> {
        let max: CpuMax = value.parse().map_err(|()| Error::Format {
            path: self.root.path(self.path),
            found: value.into(),
            expected: "QUOTA PERIOD in microseconds, as in cpu.max",
        })?;
        let group = group_path(self.root, self.path.trim_end_matches("/cpu.max"));
        match group.and_then(|group| Unit::of(self.root, &group)) {
            Some(unit) => unit.set_cpu(max),
            None => {
                let opened = NamedCpuMax::open(self.root, self.path);
                opened
                    .and_then(|mut file| file.write(max))
                    .map_err(|source| self.error("write", source))
            }
        }
    }
}

fn gone(path: &str) -> Error {
    Error::Missing {
        what: path.into(),
        why: "the cgroup was removed".into(),
        hint: "a new group of this name is managed again".into(),
    }
}

impl JournalState {
    fn set(&mut self, root: &Root, path: &str, value: &str, access: &dyn Access) -> Result<()> {
        let now = access.read()?;
        let known = self.find(root, path);
        if known.is_none() && same(&now, value) {
            return Ok(());
        }
        let at = known.unwrap_or(self.page.changes.len());
        let before = self.page.changes.get(at).cloned();
        let original = before.as_ref().map_or(now, |change| change.original.clone());
        let change = ChangedSetting { path: path.into(), original, current: value.trim().into() };
        self.put(at, change, root);
        self.save()?;
        if let Err(error) = access.write(value) {
            self.undo(at, before);
            self.save()?;
            return Err(error);
        }
        // The kernel may show a value in another form than it was written (0 becomes N).
        if let Ok(shown) = access.read() {
            self.page.changes[at].current = shown;
        }
        self.save()
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

impl Drop for JournalState {
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

fn save_page(file: &Path, page: &JournalFile) -> Result<()> {
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
fn pages(dir: &Path) -> Vec<(PathBuf, JournalFile)> {
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

fn alive(root: &Root, page: &JournalFile) -> bool {
    page.boot == boot_id(root) && start_time(root, page.pid) == Some(page.start)
}

fn recover_one(
    root: &Root,
    file: &Path,
    mut page: JournalFile,
    lines: &mut Vec<String>,
) -> Result<()> {
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
fn put_back(root: &Root, change: &ChangedSetting) -> Result<bool> {
    if !is_setting(root, &change.path) {
        return Err(Error::Input {
            what: "journal entry",
            found: change.path.clone(),
            why: "a setting lies under /proc/sys, /sys or /proc/PID; of a cgroup it is cpu.max"
                .into(),
        });
    }
    // A setting that no longer exists (a removed DAMON folder, an ended cgroup) needs no restoring.
    if !root.exists(&change.path) {
        return Ok(false);
    }
    let (root_path, file) = (&change.path, FileAt { root, path: &change.path });
    let of_group = OfPath { root, path: root_path };
    let access: &dyn Access = if NamedCpuMax::is_one(root, root_path) { &of_group } else { &file };
    let now = access.read()?;
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
    access.write(&change.original).map(|()| true)
}

fn is_setting(root: &Root, path: &str) -> bool {
    let place = ["/proc/", "/sys/", "/dev/cgroup/"].iter().any(|prefix| path.starts_with(prefix));
    let of_group = group_path(root, path).is_some() || path.starts_with("/sys/fs/cgroup/");
    match of_group {
        true => NamedCpuMax::is_one(root, path),
        false => place && !path.split('/').any(|part| part == ".."),
    }
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
    use crate::cgroup::tests::Fake;

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
        let change = |path: &str, original: &str, current: &str| ChangedSetting {
            path: path.into(),
            original: original.into(),
            current: current.into(),
        };
        let page = JournalFile {
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
        let root = Root::default();
        assert!(Journal::recover(dir.path(), &root).expect("recover").is_empty());
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 1);
        assert!(!is_setting(&root, "/etc/shadow") && !is_setting(&root, "/sys/../etc/shadow"));
    }

    const MAX: &str = "/sys/fs/cgroup/a.service/cpu.max";

    /// A group with a limit, its limit lowered to half a core in a journal of a dead process.
    fn throttled(original: &str, path: &str) -> (Fake, tempfile::TempDir) {
        let fake = Fake::new();
        fake.group("a.service", &[]);
        fake.put(MAX, "50000 100000\n");
        let run = tempfile::tempdir().expect("a folder");
        let change = ChangedSetting {
            path: path.into(),
            original: original.into(),
            current: "50000 100000".into(),
        };
        let page =
            JournalFile { pid: 4_000_000, start: 7, boot: String::new(), changes: vec![change] };
        save_page(&run.path().join("journal-4000000.json"), &page).expect("save");
        (fake, run)
    }

    #[test]
    fn the_cpu_time_of_a_group_is_limited_and_put_back() {
        let fake = Fake::new();
        fake.group("a.service", &[]);
        fake.put(MAX, "80000 100000\n");
        let run = tempfile::tempdir().expect("a folder");
        let journal = Journal::open(run.path()).expect("a journal");
        let group = Cgroup::open(&fake.root, "a.service").expect("a group");
        let set = |max: &str| {
            journal.set_cpu_max(&fake.root, &group, max.parse().expect(max)).expect("set");
            fake.root.read(MAX).expect("readable")
        };
        assert_eq!(set("50000 100000"), "50000 100000");
        assert_eq!(set("20000 100000"), "20000 100000");
        assert_eq!(journal.original(&fake.root, MAX).as_deref(), Some("80000 100000"));
        journal.put_back(&fake.root, MAX).expect("restored");
        assert_eq!(fake.root.read(MAX).expect("readable"), "80000 100000");
        assert!(journal.changes().is_empty());
        set("50000 100000");
        drop(journal);
        assert_eq!(fake.root.read(MAX).expect("readable"), "80000 100000");
    }

    #[test]
    fn a_unit_of_systemd_is_limited_by_its_property() {
        let fake = Fake::new();
        fake.group("a.service", &[]);
        fake.put(MAX, "max 100000\n");
        crate::systemd::tests::install(&fake, "/a.service");
        let run = tempfile::tempdir().expect("a folder");
        let journal = Journal::open(run.path()).expect("a journal");
        let group = Cgroup::open(&fake.root, "a.service").expect("a group");
        journal
            .set_cpu_max(&fake.root, &group, "50000 100000".parse().expect("legal"))
            .expect("set");
        assert_eq!(fake.root.read(MAX).expect("readable"), "50000 100000");
        drop(journal);
        assert_eq!(fake.root.read(MAX).expect("readable"), "max 100000");
        let words = fake.root.read("/words").expect("called");
        assert_eq!(words.lines().count(), 2, "{words}");
    }

    #[test]
    fn limits_of_cpu_time_are_recovered_and_nothing_else_of_a_cgroup() {
        let (fake, run) = throttled("max 100000", MAX);
        let lines = Journal::recover(run.path(), &fake.root).expect("recovered");
        assert_eq!(lines, [format!("{MAX} = max 100000")]);
        let text = fake.root.read(MAX).expect("readable");
        assert_eq!(text.lines().next(), Some("max 100000"), "a plain file keeps what is longer");
        for (original, path) in [
            ("rubbish", MAX),
            ("max 5", MAX),
            ("max 100000", "/sys/fs/cgroup/a.service/cgroup.procs"),
            ("max 100000", "/sys/fs/cgroup/a.service/../a.service/cpu.max"),
            ("max 100000", "/sys/fs/cgroup/cpu.max"),
        ] {
            let (fake, run) = throttled(original, path);
            let error = Journal::recover(run.path(), &fake.root).expect_err(path);
            assert!(!error.to_string().is_empty());
            assert_eq!(fake.root.read(MAX).expect("readable"), "50000 100000", "{original} {path}");
        }
    }

    #[test]
    fn values_compare_as_the_kernel_means_them() {
        assert!(same("N", "0") && same("1\n", "Y") && same("a  b", "a b") && !same("1", "2"));
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("[none] integrity\n"), "none");
        assert_eq!(chosen("0"), "0");
    }
}
