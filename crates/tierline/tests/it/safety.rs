// SPDX-License-Identifier: Apache-2.0
//! What a manager that runs as root must not do, whatever other users do.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use tierline_trace::{Epoch, Evidence, Header, Record, Writer};

use crate::machine::Machine;
use crate::{Guard, ended, output, signal, text, tierline, until};

const BALANCING: &str = "proc/sys/kernel/numa_balancing";

fn sleeper() -> Guard {
    Guard(Command::new("sleep").arg("300").spawn().expect("sleep"))
}

/// A machine whose kernel balances, with a program that sleeps.
fn machine() -> (Machine, Guard) {
    let (machine, sleeper) = (Machine::new(), sleeper());
    let file = machine.root().join(BALANCING);
    fs::create_dir_all(file.parent().expect("a parent")).expect("a folder");
    fs::write(file, "1\n").expect("a file");
    machine.has(sleeper.0.id());
    (machine, sleeper)
}

fn balancing(machine: &Machine) -> String {
    fs::read_to_string(machine.root().join(BALANCING)).expect("it").trim().to_string()
}

fn attach(machine: &Machine, sleeper: &Guard, more: &[&str]) -> Command {
    let pid = sleeper.0.id().to_string();
    let args = ["attach".to_string(), "-p".into(), pid].into_iter().chain(machine.options());
    let mut command = tierline(args.chain(more.iter().map(ToString::to_string)));
    command.stderr(Stdio::piped());
    command
}

fn manages(machine: &Machine, manager: &mut Child) {
    until("it manages", || {
        assert!(manager.try_wait().expect("a child").is_none(), "it ended");
        machine.status()["managers"][0]["targets"][0].is_object().then_some(())
    });
}

#[test]
fn every_signal_that_ends_a_manager_restores_the_settings() {
    for sent in [
        Signal::USR1,
        Signal::USR2,
        Signal::ALARM,
        Signal::VTALARM,
        Signal::PROF,
        Signal::IO,
        Signal::POWER,
        Signal::STKFLT,
        Signal::XCPU,
    ] {
        let (machine, sleeper) = machine();
        let mut manager = Guard(attach(&machine, &sleeper, &[]).spawn().expect("tierline runs"));
        manages(&machine, &mut manager.0);
        assert_eq!(balancing(&machine), "0", "{sent:?}");
        // A file that is too large, or a reader that is gone, ends nothing.
        signal(&manager.0, Signal::XFSZ);
        signal(&manager.0, Signal::PIPE);
        signal(&manager.0, sent);
        assert_eq!(ended(&mut manager.0).code(), Some(0), "{sent:?}");
        assert_eq!(balancing(&machine), "1", "{sent:?}");
    }
}

#[test]
fn a_signal_without_a_name_restores_the_settings_too() {
    let (machine, sleeper) = machine();
    let mut manager = Guard(attach(&machine, &sleeper, &[]).spawn().expect("tierline runs"));
    manages(&machine, &mut manager.0);
    let mut kill = Command::new("kill");
    let sent = kill.args(["-40", &manager.0.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    assert_eq!(ended(&mut manager.0).code(), Some(0));
    assert_eq!(balancing(&machine), "1");
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_no_death() {
    let (machine, sleeper) = machine();
    let inner = attach(&machine, &sleeper, &["--duration", "1s"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 0; exec \"$0\" \"$@\""]).arg(inner.get_program());
    let ended = shell.args(inner.get_args()).output().expect("sh runs");
    let message = text(&ended.stderr);
    assert!(ended.status.code().is_some_and(|code| code > 0), "{:?} {message}", ended.status);
    assert!(message.contains("File too large"), "{message}");
    assert_eq!(balancing(&machine), "1");
}

#[test]
fn outputs_are_opened_after_the_targets_are_known_and_never_through_a_link() {
    let (machine, sleeper) = machine();
    let (victim, link) = (machine.file("victim"), machine.file("link"));
    fs::write(&victim, "precious").expect("written");
    symlink(&victim, &link).expect("a link");
    let (victim_name, link_name) = (victim.display().to_string(), link.display().to_string());
    let missing =
        output(&format!("attach -p 4194999 --events {victim_name} --summary {victim_name}"));
    assert_eq!(missing.status.code(), Some(2), "{}", text(&missing.stderr));
    for option in ["--events", "--summary"] {
        let refused = attach(&machine, &sleeper, &[option, &link_name]).output().expect("it runs");
        let message = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{message}");
        assert!(message.contains("it is a link") && message.contains("Hint: "), "{message}");
    }
    assert_eq!(fs::read_to_string(&victim).expect("it"), "precious");
    let (events, summary) = (machine.file("events"), machine.file("summary"));
    let names = [events.display().to_string(), summary.display().to_string()];
    let more = ["--events", &names[0], "--summary", &names[1], "--duration", "100ms"];
    let managed = attach(&machine, &sleeper, &more).output().expect("it runs");
    assert_eq!(managed.status.code(), Some(0), "{}", text(&managed.stderr));
    for file in [events, summary] {
        assert_eq!(fs::metadata(&file).expect("it").permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_program_that_calls_itself_a_rival_stops_nobody() {
    let (machine, sleeper) = machine();
    let name = machine.file("memtierd");
    // A program that was just written may be open in a child that another test has just forked.
    symlink("/bin/sleep", &name).expect("a link");
    let rival = Guard(Command::new(&name).arg("300").spawn().expect("it runs"));
    machine.has(rival.0.id());
    let managed = attach(&machine, &sleeper, &["--duration", "100ms"]).output().expect("it runs");
    let message = text(&managed.stderr);
    assert_eq!(managed.status.code(), Some(0), "{message}");
    assert!(message.contains("memtierd runs"), "it is named: {message}");
}

#[test]
fn recover_reports_a_torn_journal_and_a_folder_that_others_may_write() {
    let (machine, state) = (Machine::new(), tempfile::tempdir().expect("a folder"));
    fs::write(state.path().join("journal-4194999.json"), "{\"pid\": 41").expect("torn");
    let (state, root) = (state.path(), machine.root());
    let line = format!("recover --json --root {} --state-dir {}", root.display(), state.display());
    let first = output(&line);
    let report: serde_json::Value = serde_json::from_slice(&first.stdout).expect("JSON");
    assert_eq!(
        (first.status.code(), report["failed"].as_array().map(Vec::len)),
        (Some(1), Some(1))
    );
    assert!(text(&first.stderr).contains("kept as journal-4194999.torn"), "{report}");
    assert_eq!(output(&line).status.code(), Some(0), "it is reported once");
    fs::set_permissions(state, PermissionsExt::from_mode(0o777)).expect("ours");
    let refused = output(&line);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("other users may write it"));
}

/// A trace with one page, whose size is 2 to the power of `page_bits`.
fn one_page(page_bits: u8, page: u64, ns: u64) -> Vec<u8> {
    let header = Header { page_bits, ..Header::new(Evidence::Counted, "") };
    let mut writer = Writer::new(Vec::new(), &header).expect("a header");
    writer.epoch(Epoch { ns, accesses: 1 }).expect("an epoch");
    writer.records(1, &[Record { page, reads: 1, writes: 0 }]).expect("a record");
    writer.finish().expect("the end")
}

#[test]
fn a_small_trace_of_enormous_pages_or_times_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("small.trace");
    for (bits, page, ns, more, why) in [
        (40, 1, 1_000, "", "2^40 bytes"),
        (21, u64::MAX >> 3, 1_000, "", "2^21 bytes"),
        (12, 1, u64::MAX >> 1, " --interval 1us", "too many intervals"),
    ] {
        fs::write(&file, one_page(bits, page, ns)).expect("written");
        let profile = output(&format!("profile --trace {}{more}", file.display()));
        let message = text(&profile.stderr);
        assert_eq!(profile.status.code(), Some(2), "{message}");
        assert!(message.contains("small.trace") && message.contains(why), "{message}");
    }
}

fn status_of(text: &str, field: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.expect(field).trim().to_string()
}

#[test]
fn a_command_gets_the_capabilities_of_its_caller_and_a_manager_alone_gets_no_new_ones() {
    let own = fs::read_to_string("/proc/self/status").expect("it");
    let run = output("run -q --root /nonexistent -- cat /proc/self/status");
    let command = text(&run.stdout);
    for field in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:", "NoNewPrivs:"] {
        assert_eq!(status_of(&command, field), status_of(&own, field), "{field}");
    }
    let (machine, sleeper) = machine();
    let mut manager = Guard(attach(&machine, &sleeper, &[]).spawn().expect("tierline runs"));
    manages(&machine, &mut manager.0);
    let status = format!("/proc/{}/status", manager.0.id());
    let status = fs::read_to_string(status).expect("it runs");
    assert_eq!(status_of(&status, "NoNewPrivs:"), "1");
    // 2: a filter of system calls.
    assert_eq!(status_of(&status, "Seccomp:"), "2");
}

#[test]
fn a_command_for_another_user_has_its_groups_and_no_capability() {
    let unknown = output("run -q --root /nonexistent --user nosuch -- true");
    let message = text(&unknown.stderr);
    assert!(message.contains("user \"nosuch\"") && message.contains("Hint"), "{message}");
    assert_eq!(unknown.status.code(), Some(2));
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for user in ["nobody", "65534"] {
        let run =
            output(&format!("run -q --root /nonexistent --user {user} -- cat /proc/self/status"));
        let status = text(&run.stdout);
        assert_eq!(status_of(&status, "Uid:"), "65534\t65534\t65534\t65534", "{status}");
        assert_eq!(status_of(&status, "Gid:"), "65534\t65534\t65534\t65534", "{status}");
        assert_eq!(status_of(&status, "Groups:"), "65534", "{status}");
        for set in ["CapPrm:", "CapEff:", "CapAmb:"] {
            assert_eq!(status_of(&status, set), format!("{:016x}", 0), "{set}");
        }
    }
    let run = output("run -q --root /nonexistent --user nobody -- env");
    assert!(text(&run.stdout).lines().any(|line| line == "USER=nobody"), "{}", text(&run.stdout));
}
