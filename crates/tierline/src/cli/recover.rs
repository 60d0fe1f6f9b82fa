// SPDX-License-Identifier: Apache-2.0
//! `tierline recover`: puts back what a killed manager left.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tierline_linux::journal::Journal;
use tierline_linux::perf::tracefs;

use super::Globals;
use crate::config::Layer;
use crate::config::file::Sources;
use crate::print;
use crate::serve;

/// Put back the settings that killed managers left changed
///
/// Every start of a manager does this too. What running managers have changed stays as it is.
#[derive(Debug, Args)]
#[command(after_help = "Example: tierline recover")]
pub struct RecoverArgs {
    /// Where changed settings were written down [default: /run/tierline]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    #[command(flatten)]
    sources: Sources,
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
            print::out("nothing to put back\n")?;
        } else {
            print::out(&(restored.join("\n") + "\n"))?;
        }
        Ok(0)
    }
}
