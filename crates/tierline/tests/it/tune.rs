// SPDX-License-Identifier: Apache-2.0
//! Tests of `tierline tune` with a fake Python package: the error if it is missing, and the use of its answer.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::{text, tierline};

/// A fake Python that has the package.
const PYTHON: &str = r#"#!/bin/sh
[ "$1" = -c ] && exit 0
echo "$@" >"$(dirname "$0")/asked"
cat <<'END'
{"policy": "hemem", "scenario": "", "engine": "nobody", "seed": 1, "trials": 3, "cpu_seconds": 1.5,
 "default": {"trial": 0, "throughput_per_second": 100.0, "knobs": {"hot_reads": 8, "freeze": 0}},
 "best": {"trial": 2, "throughput_per_second": 125.0, "knobs": {"hot_reads": 3, "freeze": 0}},
 "gain": 1.25, "importance": {"freeze": 0.1, "hot_reads": 0.9},
 "history": {"trial": [0, 1, 2], "throughput_per_second": [100.0, 90.0, 125.0], "hot_reads": [8, 20, 3], "freeze": [0, 1, 0]}}
END
"#;

#[test]
fn without_the_package_the_error_has_a_next_step() {
    let output = tierline(["tune", "--policy", "hemem"])
        .env("TIERLINE_PYTHON", "/nonexistent/python")
        .output()
        .expect("tierline runs");
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    assert!(
        message.contains("/nonexistent/python") && message.contains("python/build"),
        "{message}"
    );
}

#[test]
fn the_result_is_a_table_and_a_picture() {
    let folder = tempfile::tempdir().expect("a folder");
    let python = folder.path().join("python");
    fs::write(&python, PYTHON).expect("written");
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).expect("executable");
    let out = folder.path().display().to_string();
    let output = tierline(["tune", "--policy", "hemem", "--ratio", "1:8", "--out", &out])
        .env("TIERLINE_PYTHON", &python)
        .output()
        .expect("tierline runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let message = text(&output.stdout);
    assert!(message.contains("1.250 times") && message.contains("hot_reads=3"), "{message}");
    let line = message.lines().find(|line| line.starts_with("hot_reads")).expect("a row");
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells, ["hot_reads", "8", "3", "0.90"]);
    let asked = fs::read_to_string(folder.path().join("asked")).expect("arguments");
    assert!(asked.contains("--policy hemem") && asked.contains("--ratio 1:8"), "{asked}");
    let picture = fs::read_to_string(folder.path().join("tuning.svg")).expect("a picture");
    assert!(picture.contains("best so far") && picture.contains("hot_reads"));
}
