// SPDX-License-Identifier: Apache-2.0
//! `tierline completion`: for a shell.

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use super::Cli;
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
    pub fn run(&self) -> Result<u8> {
        // The generator panics where it cannot write, so it writes to memory.
        let mut text = Vec::new();
        generate(self.shell, &mut Cli::command(), "tierline", &mut text);
        print::out(&String::from_utf8_lossy(&text))?;
        Ok(0)
    }
}
