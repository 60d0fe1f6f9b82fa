// SPDX-License-Identifier: Apache-2.0
//! Documents of results in Markdown. The head contains the command, the commit, the host and the date.

use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use anyhow::Result;
use clap::Args;
use tierline_linux::root::Root;

use crate::cli::sim::write;
use crate::clock::today;
use crate::print;

/// Options of commands that write documents.
#[derive(Debug, Args)]
pub struct DocumentArgs {
    /// Write the results to this file as a document, with the command, the commit, the host and the date
    #[arg(long, value_name = "FILE.md")]
    markdown: Option<PathBuf>,
    /// The commit in the document [default: TIERLINE_COMMIT when this tierline was built]
    #[arg(long, value_name = "NAME", requires = "markdown")]
    commit: Option<String>,
}

impl DocumentArgs {
    /// The document's file, if one is requested.
    pub fn file(&self) -> Option<&Path> {
        self.markdown.as_deref()
    }

    /// Writes the document, if one is requested: its title, its head and `body`.
    pub fn write(&self, title: &str, root: &Root, body: impl FnOnce() -> String) -> Result<()> {
        let Some(file) = &self.markdown else { return Ok(()) };
        let text = format!("# {title}\n\n{}\n{}", self.head(root), body());
        write(file, &text)?;
        print::to_stderr(&format!("tierline: wrote {}", file.display()));
        Ok(())
    }

    fn head(&self, root: &Root) -> String {
        let words = std::env::args().skip(1).map(|word| quoted(&word));
        let line = ["tierline".to_string()].into_iter().chain(words).collect::<Vec<_>>().join(" ");
        let commit = self.commit.as_deref().or(option_env!("TIERLINE_COMMIT"));
        let cpuinfo = root.read("/proc/cpuinfo").unwrap_or_default();
        let cores = available_parallelism().map_or(1, usize::from);
        format!(
            "Written by a command, not by hand:\n\n```\n{line}\n```\n\ncommit {}, on {} with {cores} cores, {}.\n",
            commit.unwrap_or("unknown"),
            model_name(&cpuinfo).unwrap_or("an unknown processor"),
            today()
        )
    }
}

/// The processor's name.
fn model_name(cpuinfo: &str) -> Option<&str> {
    let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == "model name").map(|(_, name)| name.trim())
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+.,:/@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A table; the first row is its head.
pub fn table(rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', r"\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let Some((head, rest)) = rows.split_first() else { return String::new() };
    let rule = vec!["---".to_string(); head.len()];
    [head, &rule].into_iter().chain(rest).map(|row| line(row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::row;

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell() {
        assert_eq!(quoted("--ratio"), "--ratio");
        assert_eq!(quoted("C-F7*"), "'C-F7*'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn the_processor_has_the_kernels_name_for_it() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Xeon(R) 6430\nflags\t: a: b\n";
        assert_eq!(model_name(cpuinfo), Some("Xeon(R) 6430"));
        assert_eq!(model_name("processor : 0\n"), None);
    }

    #[test]
    fn a_table_has_a_rule_and_escaped_bars() {
        let text = table(&[row(["id", "what"]), row(["a", "x | y"])]);
        assert_eq!(text, "| id | what |\n| --- | --- |\n| a | x \\| y |\n");
    }
}
