// SPDX-License-Identifier: Apache-2.0
//! Trace events: finds them, reads the layout of their fields, and creates new ones on kernel functions.

use std::process;

use crate::error::{Error, Result};
use crate::root::Root;

/// The group of all trace events created here.
const GROUP: &str = "tierline";

/// The folder of trace events.
///
/// # Errors
/// `Error::Missing` if tracefs is not mounted.
pub fn folder(root: &Root) -> Result<&'static str> {
    let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    let found = places.into_iter().find(|place| root.exists(format!("{place}/events")));
    found.ok_or_else(|| Error::Missing {
        what: "tracefs".into(),
        why: "nothing is mounted at /sys/kernel/tracing".into(),
        hint: "mount -t tracefs none /sys/kernel/tracing".into(),
    })
}

/// The position of one field in an event's raw data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventField {
    offset: usize,
    size: usize,
}

impl EventField {
    /// The field's value, or `None` if `raw` is too short.
    pub fn read(self, raw: &[u8]) -> Option<u64> {
        let bytes = raw.get(self.offset..self.offset + self.size)?;
        Some(match bytes {
            [byte] => u64::from(*byte),
            [a, b] => u64::from(u16::from_ne_bytes([*a, *b])),
            [a, b, c, d] => u64::from(u32::from_ne_bytes([*a, *b, *c, *d])),
            _ => u64::from_ne_bytes(bytes.try_into().ok()?),
        })
    }
}

/// A trace event: its id and its format.
#[derive(Clone, Debug)]
pub struct TraceEvent {
    /// The id for `perf_event_open`.
    pub id: u64,
    path: String,
    format: String,
}

impl TraceEvent {
    /// The event `name`, as in `damon/damon_aggregated`.
    ///
    /// # Errors
    /// `Error::Missing` without tracefs, `Error::File` if there is no such event.
    pub fn find(root: &Root, name: &str) -> Result<Self> {
        let path = format!("{}/events/{name}", folder(root)?);
        let id = root.read_number(format!("{path}/id"))?;
        let format = root.read(format!("{path}/format"))?;
        Ok(Self { id, path, format })
    }

    /// The position of the field `name`.
    ///
    /// # Errors
    /// `Error::Format` if the event has no such field.
    pub fn field(&self, name: &str) -> Result<EventField> {
        find_field(&self.format, name).ok_or_else(|| Error::Format {
            path: format!("{}/format", self.path).into(),
            found: format!("no field {name}"),
            expected: "a field of that name, of 1 to 8 bytes",
        })
    }
}

/// Parses lines such as `field:unsigned long start; offset:24; size:8; signed:0;`, separated by tabs.
fn find_field(format: &str, name: &str) -> Option<EventField> {
    let line = format.lines().find(|line| {
        let declared = line.trim().strip_prefix("field:").and_then(|rest| rest.split(';').next());
        declared.and_then(|text| text.split_whitespace().last()) == Some(name)
    })?;
    let part = |key: &str| {
        let parts = line.split(';').map(str::trim);
        parts.into_iter().find_map(|part| part.strip_prefix(key))?.parse::<usize>().ok()
    };
    let field = EventField { offset: part("offset:")?, size: part("size:")? };
    [1, 2, 4, 8].contains(&field.size).then_some(field)
}

/// A trace event of ours on a kernel function. Removed when dropped; drop the perf events that use it
/// first.
pub struct DynamicEvent {
    /// The event.
    pub event: TraceEvent,
    root: Root,
    file: String,
    name: String,
}

impl DynamicEvent {
    /// Creates the event `name` from the first of `definitions` that this kernel accepts. A definition is
    /// a kind (`f` fprobe, `p` kprobe) and the text after the name: `("f", "func a=arg->field")`.
    ///
    /// # Errors
    /// `Error::Missing` if tracefs or dynamic events are missing or no definition is accepted.
    pub fn create(root: &Root, name: &str, definitions: &[(&str, &str)]) -> Result<Self> {
        let file = format!("{}/dynamic_events", folder(root)?);
        remove_stale(root, &file);
        // The pid separates two managers, and marks what a dead one left behind.
        let name = format!("{GROUP}/{name}_{}", process::id());
        let mut refusal = None;
        for (kind, definition) in definitions {
            match root.write(&file, &format!("{kind}:{name} {definition}\n")) {
                Ok(()) => {
                    let event = TraceEvent::find(root, &name);
                    // Removed again by its drop if the event has no format.
                    let hold = |event| Self {
                        event,
                        root: root.clone(),
                        file: file.clone(),
                        name: name.clone(),
                    };
                    return match event {
                        Ok(event) => Ok(hold(event)),
                        Err(error) => {
                            let _ = root.write(&file, &format!("-:{name}\n"));
                            Err(error)
                        }
                    };
                }
                Err(error) => refusal = Some(error),
            }
        }
        Err(Error::Missing {
            what: format!("a probe on {}", functions(definitions)),
            why: refusal.map_or("no definition".into(), |error| error.to_string()),
            hint:
                "see error_log beside dynamic_events; needs CONFIG_FPROBE_EVENTS and BTF, and no \
                   kernel lockdown"
                    .into(),
        })
    }
}

impl Drop for DynamicEvent {
    fn drop(&mut self) {
        // Errors cannot be reported here; the next manager removes what is left.
        let _ = self.root.write(&self.file, &format!("-:{}\n", self.name));
    }
}

fn functions(definitions: &[(&str, &str)]) -> String {
    let mut names: Vec<&str> =
        definitions.iter().filter_map(|(_, text)| text.split_whitespace().next()).collect();
    names.dedup();
    names.join(", ")
}

/// Removes the events that killed managers left behind. They do no harm meanwhile: an event that is
/// not opened never fires.
pub fn sweep(root: &Root) {
    if let Ok(folder) = folder(root) {
        remove_stale(root, &format!("{folder}/dynamic_events"));
    }
}

/// Removes events of dead managers.
fn remove_stale(root: &Root, file: &str) {
    let events = root.read(file).unwrap_or_default();
    for name in events.lines().filter_map(own_name) {
        let maker = name.rsplit_once('_').and_then(|(_, pid)| pid.parse::<u32>().ok());
        if maker.is_some_and(|pid| root.is_missing(format!("/proc/{pid}"))) {
            let _ = root.write(file, &format!("-:{name}\n"));
        }
    }
}

/// Finds `tierline/fault_12` in `f:tierline/fault_12 numa_migrate_check …`.
fn own_name(line: &str) -> Option<&str> {
    let name = line.split_whitespace().next()?.split_once(':')?.1;
    name.strip_prefix(GROUP)?.starts_with('/').then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: damon_aggregated\nID: 734\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:unsigned long start;\toffset:24;\tsize:8;\tsigned:0;\n\
        \tfield:char comm[16];\toffset:32;\tsize:16;\tsigned:0;\n";

    fn fake(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().expect("a folder");
        let root = Root::at(dir.path());
        for (path, text) in files {
            let real = root.path(path);
            std::fs::create_dir_all(real.parent().expect("a parent")).expect("a folder");
            std::fs::write(real, text).expect("a file");
        }
        (dir, root)
    }

    #[test]
    fn fields_are_found_by_name_and_read_at_their_size() {
        let raw: Vec<u8> = (0..40).collect();
        let field = find_field(FORMAT, "start").expect("a field");
        assert_eq!(field.read(&raw), Some(u64::from_ne_bytes([24, 25, 26, 27, 28, 29, 30, 31])));
        let pid = find_field(FORMAT, "common_pid").expect("a field");
        assert_eq!(pid.read(&raw), Some(u64::from(u32::from_ne_bytes([4, 5, 6, 7]))));
        assert_eq!(field.read(&raw[..30]), None);
        assert_eq!(find_field(FORMAT, "stop"), None);
        assert_eq!(find_field(FORMAT, "comm[16]"), None, "no number");
    }

    #[test]
    fn an_event_is_found_and_a_missing_field_is_named() {
        let event = "/sys/kernel/tracing/events/damon/damon_aggregated";
        let (_dir, root) =
            fake(&[(&format!("{event}/id"), "734\n"), (&format!("{event}/format"), FORMAT)]);
        let found = TraceEvent::find(&root, "damon/damon_aggregated").expect("an event");
        assert_eq!(found.id, 734);
        assert!(found.field("start").is_ok());
        assert!(found.field("age").expect_err("none").to_string().contains("age"));
    }

    #[test]
    fn without_tracefs_the_error_says_how_to_mount_it() {
        let (_dir, root) = fake(&[]);
        let error = DynamicEvent::create(&root, "fault", &[("f", "numa_migrate_check")]).err();
        assert!(error.and_then(|e| e.hint()).is_some_and(|hint| hint.contains("mount")));
    }

    #[test]
    fn a_refused_probe_names_its_functions() {
        let (_dir, root) = fake(&[("/sys/kernel/tracing/events/header_page", "")]);
        let definitions =
            [("f", "change_prot_numa start=$arg2"), ("p", "change_prot_numa start=%si")];
        let error =
            DynamicEvent::create(&root, "arm", &definitions).err().expect("no dynamic_events");
        assert!(error.to_string().contains("a probe on change_prot_numa is not"), "{error}");
    }

    #[test]
    fn own_events_are_distinguished_from_others() {
        assert_eq!(own_name("f:tierline/fault_12 numa_migrate_check"), Some("tierline/fault_12"));
        assert_eq!(own_name("p:kprobes/mine do_sys_open"), None);
        assert_eq!(own_name("f:tierlineless/x y"), None);
    }
}
