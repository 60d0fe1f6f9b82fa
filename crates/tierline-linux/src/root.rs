// SPDX-License-Identifier: Apache-2.0
//! The root of every path: `/` on a machine, a folder in a test. And the processes that are held below it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::process::Held;

/// The folder that contains `/proc`, `/sys` and `/dev`. Its copies share the processes that are held.
#[derive(Clone, Debug)]
pub struct Root {
    folder: PathBuf,
    held: Arc<Mutex<BTreeMap<u32, Arc<Held>>>>,
}

impl Default for Root {
    fn default() -> Self {
        Self::at("/")
    }
}

impl Root {
    /// A root at `folder`.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), held: Arc::default() }
    }

    /// Takes hold of a process, once: while it is held, its number stands for no other process.
    ///
    /// # Errors
    /// Those of [`Held::open`], and `ESRCH` if the held process has ended.
    pub fn hold(&self, pid: u32) -> io::Result<Arc<Held>> {
        let mut held = self.held();
        if let Some(known) = held.get(&pid) {
            let ended = || io::Error::from_raw_os_error(libc::ESRCH);
            return known.is_alive().then(|| known.clone()).ok_or_else(ended);
        }
        let found = Arc::new(Held::open(self, pid)?);
        held.insert(pid, found.clone());
        Ok(found)
    }

    /// The held process of this number, if it still runs. Ask again before each batch of work on it. Our own process
    /// is always held.
    pub fn process(&self, pid: u32) -> Option<Arc<Held>> {
        if pid == std::process::id() {
            return self.hold(pid).ok();
        }
        self.held().get(&pid).filter(|held| held.is_alive()).cloned()
    }

    /// Lets go of a process; its number may be another one's from now on.
    pub fn release(&self, pid: u32) {
        self.held().remove(&pid);
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<Held>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The real path of `path`, which starts with `/`.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.folder.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// True if `path` exists.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }

    /// True if `path` certainly does not exist; false if that cannot be told.
    pub fn is_missing(&self, path: impl AsRef<Path>) -> bool {
        matches!(self.path(path).try_exists(), Ok(false))
    }

    /// The text of a file, without the final newline.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<String> {
        let path = self.path(path);
        let bytes =
            std::fs::read(&path).map_err(|source| Error::File { action: "read", path, source })?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_string())
    }

    /// The number in a file.
    pub fn read_number(&self, path: impl AsRef<Path>) -> Result<u64> {
        let text = self.read(&path)?;
        text.trim().parse().map_err(|_| Error::Format {
            path: self.path(path),
            found: text,
            expected: "a number",
        })
    }

    /// Writes `text` to a file that exists.
    pub fn write(&self, path: impl AsRef<Path>, text: &str) -> Result<()> {
        let path = self.path(path);
        let file = std::fs::OpenOptions::new().write(true).truncate(true).open(&path);
        file.and_then(|mut f| std::io::Write::write_all(&mut f, text.as_bytes()))
            .map_err(|source| Error::File { action: "write", path, source })
    }

    /// The names in a folder, sorted; empty if there is no such folder.
    pub fn list(&self, folder: impl AsRef<Path>) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}
