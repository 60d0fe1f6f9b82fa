// SPDX-License-Identifier: Apache-2.0
//! `tierline man`: the manual, made from the same text as `--help`.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_mangen::{Man, generate_to};

use super::Cli;
use crate::print;

/// Print the man page, or write one a verb into a folder
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Where to write tierline.1, tierline-run.1 and so on; created where it is missing
    dir: Option<PathBuf>,
}

impl ManArgs {
    /// Runs the verb.
    pub fn run(&self) -> Result<u8> {
        match &self.dir {
            Some(dir) => {
                let cannot = || format!("cannot write to {}", dir.display());
                fs::create_dir_all(dir).with_context(cannot)?;
                generate_to(Cli::command(), dir).with_context(cannot)?;
            }
            None => {
                let mut page = Vec::new();
                Man::new(Cli::command()).render(&mut page)?;
                print::out(&String::from_utf8_lossy(&page))?;
            }
        }
        Ok(0)
    }
}
