// SPDX-License-Identifier: Apache-2.0
//! `tierline recover`: restores the settings that a killed manager changed.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tierline_linux::journal::{Journal, Recovered};
use tierline_linux::perf::tracefs;
use tierline_linux::resctrl;

use super::{FOUND, Globals};
use crate::config::Layer;
use crate::config::file::ConfigSources;
use crate::print;
use crate::report_error;
use crate::serve;

/// Restore the settings that killed managers left changed
///
/// Every start of a manager does this as well. Settings of running managers stay unchanged. The exit status is 1 if
/// something could not be restored.
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
    failed: Vec<String>,
}

impl RecoverArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let root = globals.root();
        let flags = Layer { state_dir: self.state_dir.clone(), ..Layer::default() };
        let dir = self.sources.stack(&root, flags)?.flatten().options(false)?.0.state_dir;
        let Recovered { lines: restored, errors } = Journal::recover(&dir, &root)?;
        serve::sweep(&dir);
        tracefs::sweep(&root);
        resctrl::sweep(&root);
        let nothing = restored.is_empty() && errors.is_empty();
        if globals.json {
            let failed = errors.iter().map(ToString::to_string).collect();
            print::json(&Report { restored, failed })?;
        } else if nothing {
            print::out("nothing to restore\n")?;
        } else if !restored.is_empty() {
            print::out(&(restored.join("\n") + "\n"))?;
        }
        let status = if errors.is_empty() { 0 } else { FOUND };
        errors.into_iter().for_each(|error| report_error::print(&error.into()));
        Ok(status)
    }
}
