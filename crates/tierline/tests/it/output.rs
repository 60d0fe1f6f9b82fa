// SPDX-License-Identifier: Apache-2.0
//! Output files: a path that cannot be written is refused before the work, and no empty or partial file is left.

use std::fs;
use std::path::Path;

use crate::machine::Machine;
use crate::{json, output, text};

const REDIS: &str = "../../lab/traces/recorded/redis.trace";
const SQLITE: &str = "../../lab/traces/recorded/sqlite.trace";

/// Runs a line that must be refused; returns its error message.
fn refused(line: &str) -> String {
    let output = output(line);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{line}: {message}");
    assert_eq!(text(&output.stdout), "", "{line}");
    assert!(message.starts_with("Error: ") && message.contains("\nHint: "), "{line}: {message}");
    message
}

fn files(folder: &Path) -> usize {
    fs::read_dir(folder).expect("a folder").count()
}

/// An unknown policy is found at the start of the run, which is later.
#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_run() {
    for option in ["--plot /nonexistent/x.svg", "--html /nonexistent/x.html"] {
        let message = refused(&format!("sim --policy nobody {option}"));
        assert!(message.contains("cannot write /nonexistent/x."), "{message}");
        assert!(message.contains("mkdir -p /nonexistent"), "{message}");
    }
    let message = refused("trace plot /nonexistent/a.trace -o /nonexistent/x.svg");
    assert!(message.contains("cannot write /nonexistent/x.svg"), "{message}");
}

#[test]
fn a_picture_is_svg_and_so_is_its_extension() {
    let machine = Machine::new();
    let folder = machine.file("pictures");
    fs::create_dir(&folder).expect("a folder");
    let at = |name: &str| folder.join(name).display().to_string();
    for line in [
        format!("sim --seconds 1 --plot {}", at("x.png")),
        format!("sim --seconds 1 --html {}", at("x.pdf")),
        format!("trace plot {REDIS} -o {}", at("x.png")),
    ] {
        let message = refused(&line);
        assert!(message.contains("name it ") && message.contains("/x."), "{message}");
    }
    assert_eq!(files(&folder), 0);
}

#[test]
fn a_trace_is_cut_where_it_has_something() {
    let machine = Machine::new();
    let folder = machine.file("traces");
    fs::create_dir(&folder).expect("a folder");
    let out = folder.join("cut.trace").display().to_string();
    let message = refused(&format!("trace cut {REDIS} --start 10s --end 1s -o {out}"));
    assert!(message.contains("--start 10.0 s is not before --end 1.0 s"), "{message}");
    let message = refused(&format!("trace cut {REDIS} --start 1h -o {out}"));
    assert!(message.contains("no access between 3600.0 s and its end"), "{message}");
    assert_eq!(files(&folder), 0);
}

#[test]
fn an_empty_input_is_no_trace_and_writes_none() {
    let machine = Machine::new();
    let folder = machine.file("traces");
    fs::create_dir(&folder).expect("a folder");
    let input = machine.file("empty");
    fs::write(&input, "").expect("written");
    let out = folder.join("a.trace");
    for format in ["lackey", "damo", "perf"] {
        let message = refused(&format!(
            "trace convert --from {format} {} {}",
            input.display(),
            out.display()
        ));
        assert!(message.contains("empty"), "{format}: {message}");
    }
    fs::write(&out, "an older trace").expect("written");
    refused(&format!("trace merge {REDIS} Cargo.toml -o {}", out.display()));
    assert_eq!(fs::read_to_string(&out).expect("it"), "an older trace");
    fs::remove_file(&out).expect("it");
    refused(&format!("trace merge {REDIS} {} -o {}", input.display(), out.display()));
    assert_eq!(files(&folder), 0);
}

#[test]
fn a_trace_goes_to_stdout() {
    let machine = Machine::new();
    let (input, file) = (machine.file("lackey.txt"), machine.file("a.trace"));
    let accesses: String = (0..6400).map(|line| format!(" L {:x},8\n", line * 64)).collect();
    fs::write(&input, accesses).expect("written");
    let line = format!("trace convert --from lackey {}", input.display());
    let to_file = output(&format!("{line} {}", file.display()));
    assert_eq!(to_file.status.code(), Some(0), "{}", text(&to_file.stderr));
    let to_stdout = output(&format!("{line} -"));
    assert_eq!(to_stdout.status.code(), Some(0), "{}", text(&to_stdout.stderr));
    assert_eq!(to_stdout.stdout, fs::read(&file).expect("it"));
    assert!(!Path::new("-").exists());
}

#[test]
fn verbs_that_write_a_file_name_it_as_json() {
    let machine = Machine::new();
    let at = |name: &str| machine.file(name).display().to_string();
    for line in [
        format!("trace cut {REDIS} --end 40ms -o {}", at("a.trace")),
        format!("trace merge {REDIS} {SQLITE} -o {}", at("b.trace")),
        format!("trace plot {REDIS} -o {}", at("c.svg")),
    ] {
        let report = json(&format!("{line} --json"));
        let file = report["file"].as_str().expect("a file");
        assert!(Path::new(file).exists() && report["schema_version"] == 2, "{report}");
    }
}
