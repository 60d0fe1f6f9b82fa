// SPDX-License-Identifier: Apache-2.0
//! Code shared by the targets.
#![allow(dead_code, reason = "of the binary's modules only the readers are used")]

// The binary has no library, so its readers of tenants are built here once more.
#[path = "../../crates/tierline/src/apps.rs"]
mod apps;
#[path = "../../crates/tierline/src/clock.rs"]
mod clock;
#[path = "../../crates/tierline/src/config/mod.rs"]
mod config;
pub mod kernel;
#[path = "../../crates/tierline/src/nearest.rs"]
mod nearest;
#[path = "../../crates/tierline/src/print.rs"]
mod print;
#[path = "../../crates/tierline/src/report_error.rs"]
mod report_error;
#[path = "../../crates/tierline/src/request.rs"]
mod request;
#[path = "../../crates/tierline/src/rules.rs"]
mod rules;
#[path = "../../crates/tierline/src/tenants.rs"]
mod tenants;

use std::fs;
use std::path::Path;

use tierline_linux::journal::Journal;
use tierline_linux::root::Root;
use tierline_model::machine::file::MachineFile;
use tierline_model::machine::table::Table;
use tierline_model::scenario::Scenario;

use tierline_trace::convert::{Format, Options};
use tierline_trace::survey::Survey;

/// Runs a converter. Its output must be a complete trace for any input.
///
/// # Panics
/// If it is not, or if the format is unknown.
pub fn convert(format: &str, mut bytes: &[u8]) {
    let format = Format::find(format).expect("a format of the list");
    let mut out = Vec::new();
    let _ = format.convert(&mut bytes, &Options::default(), &mut out);
    let (_, wrong) = Survey::take(&out[..]).expect("a header");
    assert!(wrong.is_none(), "{wrong:?}");
}

/// A file of `apps.d`: a tenant, which is read as it was written, or an error.
///
/// # Panics
/// If it is read in another way the second time.
pub fn rules(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(app) = apps::App::read("fuzzed.toml", text, "fuzzed") {
        sent_and_received(&app);
    }
}

/// The body of a request: a tenant, which is read as it was written, or an error.
///
/// # Panics
/// If it is read in another way the second time.
pub fn body(bytes: &[u8]) {
    if let Ok(app) = serde_json::from_slice::<apps::App>(bytes) {
        sent_and_received(&app);
    }
}

/// The configuration: settings, which are read as they were written, or an error.
///
/// # Panics
/// If they are read in another way the second time.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tierline.toml");
    fs::write(&file, text).expect("written");
    if let Ok(layer) = config::file::read(&file) {
        let text = toml::to_string(&layer).expect("as written");
        fs::write(&file, text).expect("written");
        assert_eq!(config::file::read(&file).expect("as read"), layer);
    }
}

/// A line from another program to the socket of a manager: a request, which is read as it was sent, or an error.
///
/// # Panics
/// If it is read in another way the second time.
pub fn request(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(request) = request::Request::read(text, true) {
        let text = serde_json::to_string(&request).expect("as sent");
        assert_eq!(request::Request::read(&text, true).expect("as received"), request);
    }
    let _ = serde_json::from_str::<request::Answer>(text);
}

/// The file of a modelled machine, or a measured table for one: a machine, or an error.
pub fn machine(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(file) = MachineFile::parse("fuzzed.toml", text) {
        let _ = file.machine("fuzzed", "fuzzed.toml").map(|machine| machine.describe());
        let _ = (file.fitted(), file.figures().len());
    }
    let _ = Table::parse("fuzzed", text);
}

/// A scenario: one that could be run, or an error.
pub fn scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(scenario) = Scenario::parse("fuzzed.toml", text) {
        let _ = (
            scenario.machine().is_ok(),
            scenario.policy_set().is_ok(),
            scenario.limits().is_ok(),
            scenario.qos_plan().is_ok(),
        );
    }
}

fn sent_and_received(app: &apps::App) {
    let text = serde_json::to_string(app).expect("as sent");
    let again: apps::App = serde_json::from_str(&text).expect("as received");
    assert_eq!(again, *app);
    if let Some(matches) = &app.matches {
        let _ = matches.rule();
    }
}

/// Where a journal could write besides settings: files of others, links out of `/proc`, and settings that are not in its list.
const PRECIOUS: [&str; 4] = [
    "etc/passwd",
    "proc/self/root/etc/passwd",
    "proc/sys/kernel/core_pattern",
    "sys/kernel/uevent_helper",
];

/// A journal of a manager that has ended. Whatever it says, only listed settings are written.
///
/// # Panics
/// If another file has changed.
pub fn journal(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    let put = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("written");
    };
    PRECIOUS.iter().for_each(|path| put(path, "1"));
    put("proc/sys/kernel/random/boot_id", "b");
    put("proc/sys/kernel/numa_balancing", "0");
    put("sys/kernel/mm/numa/demotion_enabled", "false");
    put("sys/fs/cgroup/a/cpu.max", "5 100000");
    let state = folder.path().join("state");
    fs::create_dir(&state).expect("a folder");
    fs::write(state.join("journal-4000000.json"), bytes).expect("written");
    let _ = Journal::recover(&state, &Root::at(&root));
    for path in PRECIOUS.map(|path| root.join(path)) {
        assert_eq!(fs::read(&path).ok().as_deref(), Some(&b"1"[..]), "{}", path.display());
    }
    assert!(count(&root) == 8, "nothing is added or removed");
}

/// The number of files below a folder.
fn count(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).expect("a folder").map_while(Result::ok);
    entries.map(|entry| if entry.path().is_dir() { count(&entry.path()) } else { 1 }).sum()
}
