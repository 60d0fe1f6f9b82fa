// SPDX-License-Identifier: Apache-2.0
//! The imports of the core's files. Files in a circle of imports cannot be read, tested or moved without each
//! other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Files in a circle of imports, at most.
const LARGEST_CIRCLE: usize = 2;

/// The module path of every source file below `src`, with its text before its tests.
fn modules(src: &Path) -> BTreeMap<Vec<String>, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![src.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a source folder") {
            let path: PathBuf = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let inside = path.strip_prefix(src).expect("below src").with_extension("");
            let mut name: Vec<String> =
                inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            name.pop_if(|last| last == "mod");
            let text = std::fs::read_to_string(&path).expect("a source file");
            let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            found.insert(name, product.to_string());
        }
    }
    found
}

/// Every path in a use tree, as segments: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn leaves(tree: &str, prefix: &[String], out: &mut Vec<Vec<String>>) {
    let tree = tree.trim();
    let (head, group) = tree.split_once('{').unwrap_or((tree, ""));
    let head = head.split(" as ").next().unwrap_or_default();
    let segments = head.split("::").map(str::trim).filter(|part| !part.is_empty());
    let path: Vec<String> = prefix.iter().cloned().chain(segments.map(String::from)).collect();
    if group.is_empty() {
        out.push(path);
        return;
    }
    let (mut depth, mut item) = (0, String::new());
    for c in group.trim_end().strip_suffix('}').unwrap_or(group).chars() {
        match c {
            ',' if depth == 0 => leaves(&std::mem::take(&mut item), &path, out),
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if c != ',' || depth > 0 {
            item.push(c);
        }
    }
    if !item.trim().is_empty() {
        leaves(&item, &path, out);
    }
}

/// The paths after `use`, and after `crate::` in code.
fn named(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.map(|line| format!("\n{line}")).collect();
    let mut out = Vec::new();
    for statement in code.split(';') {
        let at = statement.rfind("\nuse ").map(|at| at + 5);
        let at = at.or_else(|| statement.rfind("\npub use ").map(|at| at + 9));
        if let Some(at) = at {
            leaves(&statement[at..], &[], &mut out);
        }
    }
    for after in code.split("crate::").skip(1) {
        let path = after.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').next();
        leaves(&format!("crate::{}", path.unwrap_or_default()), &[], &mut out);
    }
    out
}

/// The file that a path from `module` refers to: the longest prefix that is a file.
fn target(
    module: &[String],
    path: &[String],
    all: &BTreeMap<Vec<String>, String>,
) -> Option<Vec<String>> {
    let ups = path.iter().take_while(|part| *part == "super").count();
    let mut full: Vec<String> = match path.first().map(String::as_str) {
        Some("crate") => Vec::new(),
        Some("self") => module.to_vec(),
        Some("super") => module[..module.len().checked_sub(ups)?].to_vec(),
        _ => return None,
    };
    full.extend(path[ups.max(1)..].iter().cloned());
    while !all.contains_key(&full) {
        full.pop()?;
    }
    (!full.is_empty() && full != module).then_some(full)
}

type Graph = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

fn reach(graph: &Graph, from: &[String]) -> BTreeSet<Vec<String>> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = next.pop() {
        for to in &graph[&module] {
            if seen.insert(to.clone()) {
                next.push(to.clone());
            }
        }
    }
    seen
}

/// Groups of files that all import each other, directly or through others.
fn circles(graph: &Graph) -> Vec<BTreeSet<Vec<String>>> {
    let reach: BTreeMap<_, _> = graph.keys().map(|from| (from, reach(graph, from))).collect();
    let mut circles: Vec<BTreeSet<Vec<String>>> = Vec::new();
    for (from, reached) in &reach {
        let circle: BTreeSet<_> =
            reached.iter().filter(|to| reach[to].contains(*from)).cloned().collect();
        if circle.len() > 1 && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

#[test]
fn no_circle_of_imports_has_more_than_two_files() {
    let all = modules(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let graph: Graph = all
        .iter()
        .filter(|(module, _)| *module != &["lib"])
        .map(|(module, text)| {
            let to = named(text).iter().filter_map(|path| target(module, path, &all)).collect();
            (module.clone(), to)
        })
        .collect();
    assert!(graph.values().map(BTreeSet::len).sum::<usize>() > 200, "the imports were found");
    for circle in circles(&graph) {
        let names: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
        assert!(
            circle.len() <= LARGEST_CIRCLE,
            "a circle of {}: {}",
            names.len(),
            names.join(", ")
        );
    }
}

#[test]
fn a_circle_is_found() {
    let graph = |edges: &[(&str, &str)]| {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry(vec![(*to).into()]).or_default();
            graph.entry(vec![(*from).into()]).or_default().insert(vec![(*to).into()]);
        }
        circles(&graph)
    };
    assert!(graph(&[("a", "b"), ("b", "c"), ("a", "c")]).is_empty());
    assert_eq!(graph(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])[0].len(), 3);
    let named = named("use super::{a, b::{c as d, e}};\nfn f() { crate::g::h() }\n");
    assert_eq!(named[2], ["super", "b", "e"]);
    assert_eq!(named[3][..2], ["crate", "g"]);
}
