// SPDX-License-Identifier: Apache-2.0
//! Names in documents exist: files and functions in the walks of ARCHITECTURE.md, tests in SPECIFICATION.md.

use std::fs;
use std::path::{Path, PathBuf};

use crate::output;

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a document of the repository.
fn document(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The pairs of a file and a function in a line: `` `file` `function` ``.
fn steps(line: &str) -> Vec<(&str, &str)> {
    let quoted: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
    let pairs = quoted.windows(2).filter(|pair| pair[0].ends_with(".rs"));
    pairs.map(|pair| (pair[0], pair[1])).collect()
}

#[test]
fn the_walks_name_files_and_functions_that_exist() {
    let architecture = document("ARCHITECTURE.md");
    let from = architecture.split("## Three walks").nth(1).expect("the walks");
    let walks = from.split("\n## ").next().expect("their end");
    assert_eq!(walks.matches("\n**").count(), 3, "a sample, a page, a policy");
    let all: Vec<_> = walks.lines().flat_map(steps).collect();
    assert!(all.len() >= 13, "{all:?}");
    for (file, function) in all {
        let (text, name) = (document(file), function.trim_end_matches('!'));
        let declarations =
            [format!("fn {name}("), format!("fn {name}<"), format!("macro_rules! {name} ")];
        assert!(declarations.iter().any(|known| text.contains(known)), "{file}: {function}");
    }
}

#[test]
fn a_step_is_a_file_and_a_function() {
    let line = "1. `a/b.rs` `c` or `d.rs` `e`: text `f`";
    assert_eq!(steps(line), [("a/b.rs", "c"), ("d.rs", "e")]);
}

/// The Rust files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        match path.is_dir() {
            true if path.file_name().is_some_and(|name| name != "target") => sources(&path, found),
            false if path.extension().is_some_and(|ending| ending == "rs") => found.push(path),
            _ => {}
        }
    }
}

/// All tests, as module and function: the module is the file, or the folder of `mod.rs` and `tests.rs`.
fn tests() -> Vec<(String, String)> {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    let mut tests = Vec::new();
    for file in files {
        let stem =
            |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let module = match stem(&file).as_str() {
            "mod" | "tests" => stem(file.parent().expect("a folder")),
            own => own.to_string(),
        };
        let text = fs::read_to_string(&file).expect("a file");
        let after = text.split("#[test]").skip(1).filter_map(|rest| rest.split("fn ").nth(1));
        let names = after.filter_map(|rest| rest.split(['(', '<']).next());
        tests.extend(names.map(|name| (module.clone(), name.to_string())));
    }
    tests
}

/// True if the name in a cell of the column `test` exists: `module::test`, where `…` and `*` stand for the rest of a
/// name, `lab/suite:part`, a file with or without arguments, or a command.
fn exists(name: &str, tests: &[(String, String)]) -> bool {
    if let Some((module, test)) = name.split_once("::") {
        let beginning = test.strip_suffix(['…', '*']);
        return tests.iter().any(|(in_module, found)| {
            in_module == module && beginning.map_or(found == test, |text| found.starts_with(text))
        });
    }
    if let Some(part) = name.strip_prefix("lab/suite:") {
        return root().join(format!("lab/parts/{part}.py")).exists();
    }
    match name.strip_prefix("tierline ") {
        Some(line) => {
            let verb = line.split(' ').take_while(|word| !word.starts_with('-'));
            let verb: Vec<&str> = verb.collect();
            output(&format!("{} --help", verb.join(" "))).status.success()
        }
        None => {
            let file = name.split(' ').next().unwrap_or_default();
            file.contains('/') && root().join(file).exists()
        }
    }
}

#[test]
fn every_test_that_the_specification_names_exists() {
    let (specification, tests) = (document("SPECIFICATION.md"), tests());
    let mut promises = 0;
    for line in specification.lines() {
        assert!(line.chars().count() <= 140, "longer than 140 columns: {line}");
        let Some(cells) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) else {
            continue;
        };
        let cells: Vec<&str> = cells.split(" | ").collect();
        let [promise, _, test, state] = cells[..] else { panic!("expected four cells: {line}") };
        if promise == "promise" {
            continue;
        }
        promises += 1;
        assert!(["holds", "not held", "not tested yet"].contains(&state), "{line}");
        let named: Vec<&str> = test.split('`').skip(1).step_by(2).collect();
        assert!(state != "holds" || !named.is_empty(), "no test holds it: {line}");
        for name in named {
            assert!(exists(name, &tests), "there is no {name}: {line}");
        }
    }
    assert!(promises > 100, "{promises}");
}

#[test]
fn a_test_that_is_gone_is_noticed() {
    let tests = tests();
    assert!(exists("documents::a_test_that_is_gone_is_noticed", &tests));
    assert!(exists("documents::a_test_that…", &tests) && exists("documents::*", &tests));
    for gone in
        ["documents::a_test", "nowhere::*", "lab/suite:nothing", "lab/nothing", "tierline bnech"]
    {
        assert!(!exists(gone, &tests), "{gone}");
    }
}
