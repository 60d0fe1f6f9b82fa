// SPDX-License-Identifier: Apache-2.0
//! Errors contain what was typed, what was expected, and one next step.

use std::fs;

use crate::machine::Machine;
use crate::{output, text};

/// The error message of a line that must be refused.
fn refused(line: &str) -> String {
    let output = output(line);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{line}: {message}");
    message
}

#[test]
fn tiers_are_quoted_as_typed() {
    let machine = Machine::new();
    let message =
        refused(&format!("topology --root {} --tiers fast=0,slow=9", machine.root().display()));
    assert!(message.contains("\"fast=0,slow=9\""), "{message}");
}

#[test]
fn the_error_of_a_size_without_a_source_shows_the_form() {
    let machine = Machine::new();
    let file = machine.file("mine.toml");
    let shipped = include_str!("../../../../machines/colloid-icx.toml");
    let line = "capacity = { value = \"96GiB\", source = \"Colloid, 2.1\" }";
    assert!(shipped.contains(line));
    fs::write(&file, shipped.replace(line, "capacity = \"96GiB\"")).expect("written");
    let message = refused(&format!("sim --seconds 1 --machine {}", file.display()));
    let expected =
        r#"expected a size with its source, as in { value = "256GiB", source = "a data sheet" }"#;
    assert!(message.contains(expected) && message.contains("line 25"), "{message}");
}

/// A machine without soft-dirty bits, on which the other trackers' requirements are missing too.
#[test]
fn unavailable_trackers_are_listed() {
    let machine = Machine::new();
    fs::write(machine.root().join("proc/self/smaps"), "VmFlags: rd wr mr\n").expect("written");
    let at = |path: std::path::PathBuf| path.display().to_string();
    let (root, state) = (at(machine.root()), at(machine.file("state")));
    let trace = at(machine.file("a.trace"));
    let line = format!("record --root {root} --state-dir {state} -o {trace} -- true");
    let message = refused(&line);
    let reasons: Vec<&str> = message.lines().filter(|line| line.starts_with("  ")).collect();
    assert!(reasons.len() >= 8 && reasons.iter().all(|line| line.contains(": ")), "{message}");
    assert!(reasons.iter().any(|line| line.starts_with("  pebs: ")), "{message}");
    assert!(message.lines().next().is_some_and(|line| line.len() < 100), "{message}");
}

#[test]
fn a_knob_outside_its_range_is_refused() {
    for (knobs, part) in [("hot_reads=99999999", "hot_reads=99999999"), ("quantum=0", "quantum=0")]
    {
        let message = refused(&format!("sim --policy hemem --seconds 1 --knobs {knobs}"));
        assert!(message.contains(part) && message.contains("of hemem: expected "), "{message}");
        assert!(message.contains("Hint: its default is "), "{message}");
    }
}
