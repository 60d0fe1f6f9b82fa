// SPDX-License-Identifier: Apache-2.0
//! `tierline recover`: restores the settings that a killed manager changed.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tierline_linux::journal::Journal;
use tierline_linux::perf::tracefs;

use super::Globals;
use crate::config::Layer;
use crate::config::file::ConfigSources;
use crate::print;
use crate::serve;

/// Restore the settings that killed managers left changed
///
/// Every start of a manager does this as well. Settings of running managers stay unchanged.
#[derive(Debug, Args)]
#[command(after_help = "Example: tierline recover")]
pub struct RecoverArgs {
    /// Folder of the journals of changed settings [default: /run/tierline]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    #[command(flatten)]
    sources: ConfigSources,
}

#[derive(Serialize)]
struct Report {
    restored: Vec<String>,
}

impl RecoverArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let root = globals.root();
        let flags = Layer { state_dir: self.state_dir.clone(), ..Layer::default() };
        let dir = self.sources.stack(&root, flags)?.flatten().options(false)?.0.state_dir;
        let restored = Journal::recover(&dir, &root)?;
        serve::sweep(&dir);
        tracefs::sweep(&root);
        if globals.json {
            print::json(&Report { restored })?;
        } else if restored.is_empty() {
            print::out("nothing to restore\n")?;
        } else {
            print::out(&(restored.join("\n") + "\n"))?;
        }
        Ok(0)
    }
}
