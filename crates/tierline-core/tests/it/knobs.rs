// SPDX-License-Identifier: Apache-2.0
//! The knobs in a policy's head are those of its table.

use std::collections::BTreeSet;

use tierline_core::policy::{POLICIES, entry::PolicyEntry};

/// The words of all paragraphs that begin with `Knobs:`, without parentheses, which hold defaults.
fn words(text: &str) -> BTreeSet<String> {
    let mut depth = 0;
    let mut words = BTreeSet::new();
    for paragraph in text.split("\n\n").filter_map(|text| text.trim().strip_prefix("Knobs:")) {
        let outside = paragraph.chars().filter(|&c| {
            depth += i32::from(c == '(');
            let outside = depth == 0;
            depth -= i32::from(c == ')');
            outside
        });
        let outside: String = outside.collect();
        let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        words.extend(outside.split(word).map(String::from));
    }
    words
}

/// The knob words of a policy's head, and of colloid's head if it refers to that.
fn prose(entry: &PolicyEntry) -> BTreeSet<String> {
    let own = words(&entry.explain());
    let colloid = PolicyEntry::find("hemem+colloid").expect("it is in the list");
    match own.contains("colloid") {
        true => own.union(&words(&colloid.explain())).cloned().collect(),
        false => own,
    }
}

#[test]
fn every_knob_of_the_table_is_in_the_prose() {
    let mut missing = Vec::new();
    for entry in POLICIES {
        let prose = prose(entry);
        let knobs = (entry.make)().knobs();
        let unnamed = knobs.iter().filter(|knob| !prose.contains(knob.name));
        missing.extend(unnamed.map(|knob| format!("{}: {}", entry.name, knob.name)));
    }
    assert!(missing.is_empty(), "knobs missing from the heads: {missing:#?}");
}

/// Most names of knobs have an underscore; the few without are not distinguished from words.
#[test]
fn every_knob_in_the_prose_is_in_the_table() {
    let mut missing = Vec::new();
    for entry in POLICIES {
        // One file's head serves all policies of that file.
        let kin = POLICIES.iter().filter(|other| other.doc == entry.doc);
        let knobs: Vec<&str> =
            kin.flat_map(|kin| (kin.make)().knobs()).map(|knob| knob.name).collect();
        let named = words(&entry.explain());
        let unknown = named.iter().filter(|word| word.contains('_'));
        let unknown = unknown.filter(|word| !knobs.contains(&word.as_str()));
        missing.extend(unknown.map(|word| format!("{}: {word}", entry.name)));
    }
    assert!(missing.is_empty(), "heads name unknown knobs: {missing:#?}");
}

#[test]
fn text_in_parentheses_is_not_a_name() {
    let text = "x: y.\n\nKnobs: one (a, b_c), two_fold (3).\n\nWhere: not_this.";
    let words = words(text);
    assert!(["one", "two_fold"].iter().all(|word| words.contains(*word)));
    assert!(!words.contains("b_c") && !words.contains("not_this"));
}
