// SPDX-License-Identifier: Apache-2.0
//! The machine's thresholds, kept in a file.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tierline_core::qos::thresholds::Thresholds;
use tierline_linux::root::Root;

/// The file.
pub const FILE: &str = "/var/lib/tierline/calibration.toml";

/// The content of the file.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    thresholds: Thresholds,
}

/// The kept thresholds; `None` without a file.
///
/// # Errors
/// If the file cannot be read.
pub fn read(root: &Root) -> Result<Option<Thresholds>> {
    let path = root.path(FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let kept: Kept = toml::from_str(&text)
        .with_context(|| format!("{}: remove it, or calibrate again", path.display()))?;
    Ok(Some(kept.thresholds))
}

/// Keeps the thresholds; returns the file.
///
/// # Errors
/// If the file cannot be written.
pub fn write(root: &Root, thresholds: Thresholds) -> Result<PathBuf> {
    let path = root.path(FILE);
    let text = toml::to_string(&Kept { thresholds })?;
    let dir = path.parent().unwrap_or(&path);
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).with_context(|| format!("cannot write {}", fresh.display()))?;
    fs::rename(&fresh, &path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierline_core::unit::BytesPerSec;

    #[test]
    fn thresholds_are_kept_and_a_broken_file_is_named() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = Root::at(dir.path());
        assert_eq!(read(&root).expect("no file"), None);
        for slow in [None, Some(BytesPerSec(7))] {
            let thresholds = Thresholds { fast: Some(BytesPerSec(21)), slow };
            let file = write(&root, thresholds).expect("written");
            assert_eq!(read(&root).expect("kept"), Some(thresholds));
            assert!(file.ends_with("var/lib/tierline/calibration.toml"));
        }
        fs::write(root.path(FILE), "fast = 1").expect("a file");
        let error = format!("{:#}", read(&root).expect_err("broken"));
        assert!(error.contains("calibration.toml"), "{error}");
    }

    #[test]
    fn a_failed_write_names_the_file_and_keeps_the_old_one() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = Root::at(dir.path());
        let kept = Thresholds { fast: Some(BytesPerSec(21)), slow: None };
        write(&root, kept).expect("written");
        fs::create_dir(root.path(FILE).with_extension("new")).expect("in the way");
        let error = format!("{:#}", write(&root, Thresholds::default()).expect_err("no room"));
        assert!(error.contains("calibration.new"), "{error}");
        assert_eq!(read(&root).expect("kept"), Some(kept));
    }
}
