// SPDX-License-Identifier: Apache-2.0
//! Output: plain text without colour; never panics when the reader is gone.

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;

/// Version of the JSON layout of everything printed with `--json`.
pub const SCHEMA_VERSION: u32 = 2;

/// Writes `text` to stdout.
pub fn out(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

/// Writes `value` to stdout as JSON, with the version of the layout.
pub fn json(value: &impl Serialize) -> Result<()> {
    #[derive(Serialize)]
    struct Versioned<'a, T> {
        schema_version: u32,
        #[serde(flatten)]
        value: &'a T,
    }
    let versioned = Versioned { schema_version: SCHEMA_VERSION, value };
    out(&(serde_json::to_string_pretty(&versioned)? + "\n"))
}

/// Writes a document to stdout, as text or as JSON.
pub fn document(text: &str, as_json: bool) -> Result<()> {
    #[derive(Serialize)]
    struct Document<'a> {
        text: &'a str,
    }
    if as_json { json(&Document { text }) } else { out(text) }
}

/// A text that may contain names chosen by other users, for a terminal: what would move its cursor, change its
/// colours or the direction of its text is shown as an escape.
pub fn plain(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let shown = c.escape_debug();
            let as_it_is = matches!(c, '\n' | '\\' | '\'' | '"').then_some(c);
            let escaped = as_it_is.is_none().then_some(shown);
            as_it_is.into_iter().chain(escaped.into_iter().flatten())
        })
        .collect()
}

/// Writes a line to stderr. A missing reader is not an error.
pub fn to_stderr(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Prints messages to the user while a program of theirs runs.
#[derive(Clone, Copy, Debug)]
pub struct Messages {
    /// Prints nothing.
    pub quiet: bool,
}

impl Messages {
    /// Prints lines of our own among those of the program.
    pub fn print(self, text: &str) {
        for line in text.lines().filter(|_| !self.quiet) {
            to_stderr(&format!("tierline: {}", plain(line)));
        }
    }
}

/// The non-zero counters of an object, each with its name.
pub fn counted(counters: &serde_json::Value) -> String {
    let all = counters.as_object().into_iter().flatten();
    let counted = all.filter(|(_, count)| count.as_u64() > Some(0));
    counted.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

/// Lays out rows in columns two spaces apart; the first row is the head. Columns of numbers are
/// right-aligned: those whose cells below the head all start with a digit or are `-`.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cells = |column: usize| rows.iter().filter_map(move |row| row.get(column));
    let widths: Vec<usize> = (0..columns)
        .map(|at| cells(at).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    let number = |cell: &String| cell == "-" || cell.starts_with(|c: char| c.is_ascii_digit());
    let right: Vec<bool> = (0..columns).map(|at| cells(at).skip(1).all(number)).collect();
    let mut text = String::new();
    for row in rows {
        let line: Vec<String> = row
            .iter()
            .zip(widths.iter().zip(&right))
            .map(|(cell, (&width, &right))| match right {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            })
            .collect();
        text += line.join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// A row of a table.
pub fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(String::from).to_vec()
}

/// A value, or `-` if it is unknown.
pub fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// A number with four significant digits, and a letter for thousands of thousands.
pub fn count(x: f64) -> String {
    match x {
        1e9.. => format!("{:.3} G", x * 1e-9),
        1e6.. => format!("{:.1} M", x * 1e-6),
        1e3.. => format!("{x:.0}"),
        _ => format!("{x:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_control_the_terminal() {
        let evil = "a\u{1b}[2J\u{9b}31m\r\u{7}\u{202e}b";
        assert_eq!(plain(evil), "a\\u{1b}[2J\\u{9b}31m\\r\\u{7}\\u{202e}b");
        assert_eq!(plain("Grüße, \"x\" \\ 'y'\n2"), "Grüße, \"x\" \\ 'y'\n2");
    }

    #[test]
    fn numbers_are_right_aligned_and_names_left_aligned() {
        let text = table(&[row(["name", "size"]), row(["a", "5"]), row(["long", "-"])]);
        assert_eq!(text, "name  size\na        5\nlong     -\n");
    }
}
