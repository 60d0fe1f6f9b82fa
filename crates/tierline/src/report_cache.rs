// SPDX-License-Identifier: Apache-2.0
//! Keeps reports of runs in a folder, one file each: the build of this program, the run's name and the report.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use anyhow::{Context, Result};
use tierline_model::report::Report;
use tierline_model::runner::Archive;

use crate::print;

/// The folder.
pub struct ReportCache {
    folder: PathBuf,
    /// The build of this program; results of other builds may differ.
    build: u64,
}

impl ReportCache {
    /// Opens the folder; creates it if missing.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let program = std::env::current_exe().and_then(fs::read);
        let program = program.context("cannot read this program, to tell its build")?;
        Ok(Self { folder, build: hash(&program) })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{:016x}.json", hash(name.as_bytes())))
    }
}

impl Archive for ReportCache {
    fn find(&self, name: &str) -> Option<Report> {
        let text = fs::read(self.path(name)).ok()?;
        let (build, of, report): (u64, String, Report) = serde_json::from_slice(&text).ok()?;
        (build == self.build && of == name).then_some(report)
    }

    /// Writes a temporary file and renames it, so that an interruption leaves no partial report.
    fn keep(&self, name: &str, report: &Report) {
        let (path, aside) = (self.path(name), self.path(name).with_extension("new"));
        let written = serde_json::to_vec(&(self.build, name, report))
            .map_err(std::io::Error::from)
            .and_then(|text| fs::write(&aside, text))
            .and_then(|()| fs::rename(&aside, &path));
        if let Err(error) = written {
            print::to_stderr(&format!("tierline: cannot keep {}: {error}", path.display()));
        }
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_found_by_its_name_and_build() {
        let dir = tempfile::tempdir().expect("a folder");
        let report = Report { seconds: 0.1, seed: 3, ..Report::default() };
        let mut kept = ReportCache::open(dir.path().join("new")).expect("a folder");
        assert_eq!(kept.find("a"), None);
        kept.keep("a", &report);
        assert_eq!(kept.find("a"), Some(report));
        assert_eq!(kept.find("b"), None);
        kept.build += 1;
        assert_eq!(kept.find("a"), None);
        kept.build -= 1;
        fs::write(kept.path("a"), "{").expect("written");
        assert_eq!(kept.find("a"), None, "a partial report");
    }
}
