// SPDX-License-Identifier: Apache-2.0
//! `tierline completion`: prints shell completions.

use anyhow::Result;
use clap::{Args, Command, CommandFactory};
use clap_complete::{Shell, generate};

use super::{Cli, Globals};
use crate::print;

/// Print the completions for a shell
#[derive(Debug, Args)]
#[command(
    after_help = "Example: tierline completion bash >/usr/share/bash-completion/completions/tierline"
)]
pub struct CompletionArgs {
    /// The shell
    shell: Shell,
}

impl CompletionArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        // The generator panics on write errors, so it writes to memory.
        let mut text = Vec::new();
        generate(self.shell, &mut offered(&Cli::command()), "tierline", &mut text);
        print::document(&String::from_utf8_lossy(&text), globals.json)?;
        Ok(0)
    }
}

/// The verbs and options shown in help; the generator would include hidden ones.
fn offered(command: &Command) -> Command {
    let args = command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned();
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(offered);
    let about = command.get_about().cloned().unwrap_or_default();
    Command::new(command.get_name().to_string()).about(about).args(args).subcommands(verbs)
}
