// SPDX-License-Identifier: Apache-2.0
//! Functions and files of the core stay short.

use std::path::{Path, PathBuf};

/// Lines of a function, at most.
const FUNCTION: usize = 60;
/// The median of the lines of functions, at most.
const MEDIAN: usize = 6;
/// Lines of a file, at most, unless its head gives a reason in a line that begins with [`REASON`].
const FILE: usize = 500;
const REASON: &str = "//! Long because ";

/// All source files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a source folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The core's source files with their text.
fn all() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    assert!(found.len() > 80, "the sources were found");
    let text = |path: &PathBuf| std::fs::read_to_string(path).expect("a source file");
    found.iter().map(|path| (path.clone(), text(path))).collect()
}

/// The first line and the number of lines of every function with a body, by rustfmt's indentation.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let words: Vec<&str> = code.split(' ').take_while(|word| *word != "fn").collect();
        let known =
            |word: &&str| word.starts_with("pub") || ["const", "in", "extern"].contains(word);
        if words.len() == code.split(' ').count() || !words.iter().all(known) {
            continue;
        }
        let indent = &line[..line.len() - code.len()];
        let ends = |line: &&str| {
            let rest = line.strip_prefix(indent).unwrap_or(line);
            rest.starts_with('}') || rest.starts_with(") ") && rest.ends_with(';')
        };
        let length = match line.ends_with('}') || line.ends_with(';') {
            true => 1,
            false => lines[first..].iter().position(ends).map_or(1, |last| last + 1),
        };
        found.push((code, length));
    }
    found
}

#[test]
fn functions_are_short() {
    let mut lengths = Vec::new();
    for (path, text) in all() {
        for (name, length) in functions(&text) {
            assert!(length <= FUNCTION, "{}: {length} lines: {name}", path.display());
            lengths.push(length);
        }
    }
    lengths.sort_unstable();
    assert!(lengths.len() > 800, "the functions were found: {}", lengths.len());
    assert!(lengths[lengths.len() / 2] <= MEDIAN, "median: {}", lengths[lengths.len() / 2]);
}

#[test]
fn files_are_short_or_give_a_reason() {
    for (path, text) in all() {
        let excused = text.lines().any(|line| line.starts_with(REASON));
        let lines = text.lines().count();
        assert!(excused || lines <= FILE, "{}: {lines} lines", path.display());
    }
}

/// The loop is what a reader meets first.
#[test]
fn the_loop_is_below_200_lines() {
    let is_loop = |path: &std::path::Path| path.ends_with("src/engine.rs");
    let lines =
        all().into_iter().find(|(path, _)| is_loop(path)).map(|(_, text)| text.lines().count());
    assert!(lines.is_some_and(|lines| lines < 200), "{lines:?}");
}

#[test]
fn functions_are_measured() {
    let text =
        "fn one() {}\n    pub(super) fn three(\n        a: u8) {\n    }\n// no fn\nlet f = 1;\n";
    let measured: Vec<usize> = functions(text).iter().map(|&(_, length)| length).collect();
    assert_eq!(measured, [1, 3]);
}
