// SPDX-License-Identifier: Apache-2.0
//! Writes published figures to files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tierline_model::reproduce::{Lab, Outcome, figures};
use tierline_model::runner::Runner;

use super::svg;

/// Writes every figure of the papers to which these rows belong into a folder, one file each.
pub fn draw(
    folder: &Path,
    rows: &[Outcome],
    lab: &mut Lab,
    runner: &Runner<'_>,
) -> Result<Vec<PathBuf>> {
    let ids: Vec<&str> = rows.iter().map(|row| row.id).collect();
    let all = figures::charts(&ids, lab, runner)?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut files = Vec::new();
    for chart in all {
        let file = folder.join(format!("{}.svg", chart.name));
        fs::write(&file, svg(&chart)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
        files.push(file);
    }
    Ok(files)
}
