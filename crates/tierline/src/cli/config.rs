// SPDX-License-Identifier: Apache-2.0
//! `tierline config`: checks and prints the configuration.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Serialize;

use super::Globals;
use crate::config::Layer;
use crate::config::file::{self, ConfigSources, FILE};
use crate::print;

/// Check or print the configuration
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n\
  \x20 tierline config check /etc/tierline/tierline.toml\n\
  \x20 tierline config print --set max_rate=1GB/s")]
pub struct ConfigArgs {
    #[command(subcommand)]
    verb: ConfigVerb,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "one is made in a run")]
enum ConfigVerb {
    /// Check FILE, or the file and drop-ins that are read by default
    #[command(after_help = "Example: tierline config check /etc/tierline/tierline.toml")]
    Check {
        /// The file to check
        file: Option<PathBuf>,
    },
    /// Print every key with its value and its source
    #[command(after_help = "Example: tierline config print --set max_rate=1GB/s")]
    Print {
        #[command(flatten)]
        sources: ConfigSources,
        #[command(flatten)]
        flags: Layer,
    },
}

#[derive(Serialize)]
struct Checked {
    files: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Printed {
    keys: Vec<Key>,
}

#[derive(Serialize)]
struct Key {
    key: String,
    value: toml::Value,
    source: String,
}

impl ConfigArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        match &self.verb {
            ConfigVerb::Check { file } => check(file.clone(), globals)?,
            ConfigVerb::Print { sources, flags } => print(sources, flags, globals)?,
        }
        Ok(0)
    }
}

fn check(file: Option<PathBuf>, globals: &Globals) -> Result<()> {
    let files = ConfigSources { config: file, set: Vec::new() }.files(&globals.root());
    for file in &files {
        file::read(file)?.options(false)?;
    }
    if globals.json {
        return print::json(&Checked { files });
    }
    if files.is_empty() {
        return print::out(&format!("no {FILE}: the defaults apply\n"));
    }
    let lines: Vec<String> = files.iter().map(|file| format!("{}: ok\n", file.display())).collect();
    print::out(&lines.concat())
}

fn print(sources: &ConfigSources, flags: &Layer, globals: &Globals) -> Result<()> {
    let stack = sources.stack(&globals.root(), flags.clone())?;
    if globals.json {
        let key = |(key, value, source): (String, toml::Value, &str)| Key {
            key,
            value,
            source: source.into(),
        };
        return print::json(&Printed { keys: stack.resolved().into_iter().map(key).collect() });
    }
    let settings = stack
        .resolved()
        .into_iter()
        .map(|(key, value, source)| (format!("{key} = {value}"), source));
    let settings: Vec<(String, &str)> = settings.collect();
    let width = settings.iter().map(|(setting, _)| setting.len()).max().unwrap_or(0);
    let line = |(setting, source): &(String, &str)| format!("{setting:<width$}  # {source}\n");
    print::out(&settings.iter().map(line).collect::<String>())
}
