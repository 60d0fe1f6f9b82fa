// SPDX-License-Identifier: Apache-2.0
//! The root of every path: `/` on a machine, a folder in a test.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The folder that contains `/proc`, `/sys` and `/dev`.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Default for Root {
    fn default() -> Self {
        Self("/".into())
    }
}

impl Root {
    /// A root at `folder`.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// The real path of `path`, which starts with `/`.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// True if `path` exists.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
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
        let file = std::fs::OpenOptions::new().write(true).open(&path);
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
