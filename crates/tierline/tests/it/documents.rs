// SPDX-License-Identifier: Apache-2.0
//! The walks of ARCHITECTURE.md lead somewhere: every file that they name exists, and has the function that they name.

use std::path::Path;

/// The text of a document of the repository.
fn document(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The pairs of a file and a function that a line names: `` `file` `function` ``.
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
        let found = document(file).contains(&format!("fn {function}("));
        assert!(found || document(file).contains(&format!("fn {function}<")), "{file}: {function}");
    }
}

#[test]
fn a_step_is_a_file_and_a_function() {
    let line = "1. `a/b.rs` `c` or `d.rs` `e`: text `f`";
    assert_eq!(steps(line), [("a/b.rs", "c"), ("d.rs", "e")]);
}
