// SPDX-License-Identifier: Apache-2.0
//! Published figures as files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tierline_model::parallel::Progress;
use tierline_model::reproduce::{Lab, Outcome, figures};

use super::svg;
use crate::cli::sim::hinted;

/// Writes every figure of the papers that rows are of into a folder, a file each.
pub fn draw(
    folder: &Path,
    rows: &[Outcome],
    lab: &mut Lab,
    threads: usize,
    said: Progress<'_>,
) -> Result<Vec<PathBuf>> {
    let ids: Vec<&str> = rows.iter().map(|row| row.id).collect();
    let all = figures::charts(&ids, lab, threads, said).map_err(hinted)?;
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
