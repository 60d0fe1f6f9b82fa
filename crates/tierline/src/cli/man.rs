// SPDX-License-Identifier: Apache-2.0
//! `tierline man`: the manual, from the same text as `--help`.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_mangen::{Man, generate_to};
use serde::Serialize;

use super::{Cli, Globals};
use crate::print;

/// Print the man page, or write one page per verb into a folder
#[derive(Debug, Args)]
#[command(after_help = "Example: tierline man /usr/share/man/man1")]
pub struct ManArgs {
    /// Folder for tierline.1, tierline-run.1 and so on; created if missing
    dir: Option<PathBuf>,
}

#[derive(Serialize)]
struct Pages {
    files: Vec<PathBuf>,
}

impl ManArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        match &self.dir {
            Some(dir) => {
                let cannot = || format!("cannot write to {}", dir.display());
                fs::create_dir_all(dir).with_context(cannot)?;
                generate_to(Cli::command(), dir).with_context(cannot)?;
                if globals.json {
                    let mut files: Vec<_> = fs::read_dir(dir)
                        .with_context(cannot)?
                        .flatten()
                        .map(|file| file.path())
                        .collect();
                    files.sort();
                    print::json(&Pages { files })?;
                }
            }
            None => {
                let mut page = Vec::new();
                Man::new(Cli::command()).render(&mut page)?;
                print::document(&String::from_utf8_lossy(&page), globals.json)?;
            }
        }
        Ok(0)
    }
}
