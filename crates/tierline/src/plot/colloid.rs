// SPDX-License-Identifier: Apache-2.0
//! Colloid's figures as files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tierline_model::parallel::Said;
use tierline_model::reproduce::Lab;
use tierline_model::reproduce::figures::charts;

use super::svg;
use crate::cli::sim::hinted;

/// Writes every figure into a folder, a file each.
pub fn draw(folder: &Path, lab: &mut Lab, threads: usize, said: Said<'_>) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut files = Vec::new();
    for chart in charts(lab, threads, said).map_err(hinted)? {
        let file = folder.join(format!("{}.svg", chart.name));
        fs::write(&file, svg(&chart)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
        files.push(file);
    }
    Ok(files)
}
