// SPDX-License-Identifier: Apache-2.0
//! `tierline qos` under a running manager, on a machine of files. Nothing is moved, so only its words are tested here;
//! the lab tests what it does.

use std::cell::Cell;
use std::fs;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::machine::Machine;
use crate::{Guard, ended, signal, text, tierline, until};

/// A machine with the cgroups `redis` and `hog` (64 MiB fast, 192 MiB slow each), and `plain` without a cpu controller.
fn machine() -> Machine {
    let machine = Machine::new();
    let put = |path: &str, text: &str| {
        let path = machine.root().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    put("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put("sys/fs/cgroup/cgroup.procs", "");
    for group in ["redis", "hog", "plain"] {
        let file = |name: &str| format!("sys/fs/cgroup/{group}/{name}");
        put(&file("cgroup.procs"), "");
        put(&file("memory.numa_stat"), "anon N0=67108864 N1=201326592\nfile N0=0 N1=0\n");
        put(&file("cpu.stat"), "usage_usec 5\n");
        if group != "plain" {
            put(&file("cpu.max"), "max 100000\n");
        }
    }
    machine
}

/// A manager of the applications in the machine's folder `apps`.
struct Host {
    machine: Machine,
    manager: Guard,
    /// CPU time that every program has used.
    used_us: Cell<u64>,
}

impl Host {
    fn new(files: &[(&str, &str)]) -> Self {
        let machine = machine();
        let apps = machine.file("apps");
        fs::create_dir_all(&apps).expect("a folder");
        files.iter().for_each(|(name, text)| fs::write(apps.join(name), text).expect("a file"));
        let args = ["attach".to_string(), "--apps".into(), apps.display().to_string()];
        let mut command: Command = tierline(args.into_iter().chain(machine.options()));
        let log = fs::File::create(machine.file("manager.err")).expect("a file");
        let manager = Guard(command.stderr(Stdio::from(log)).spawn().expect("tierline runs"));
        let mut host = Self { machine, manager, used_us: Cell::new(5) };
        until("it answers", || {
            assert!(host.manager.0.try_wait().expect("a child").is_none(), "{}", host.log());
            host.machine.status()["managers"][0]["pid"].as_u64()
        });
        host
    }

    fn log(&self) -> String {
        fs::read_to_string(self.machine.file("manager.err")).unwrap_or_default()
    }

    /// Status, output and errors of `tierline qos`.
    fn qos(&self, line: &str) -> (i32, String, String) {
        let state = self.machine.file("state").display().to_string();
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words = ["qos", verb].into_iter().chain(rest.split_whitespace());
        let output = tierline(words.chain(["--state-dir", &state])).output().expect("it runs");
        (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
    }

    fn ok(&self, line: &str) -> String {
        let (status, out, err) = self.qos(line);
        assert_eq!((status, err.as_str()), (0, ""), "{line}: {}", self.log());
        out
    }

    fn refused(&self, line: &str, parts: [&str; 2]) {
        let (status, _, err) = self.qos(line);
        let hint = err.split_once("\nHint: ");
        let Some((error, hint)) = hint else { panic!("{line}: {err}") };
        assert!(
            status == 2 && error.contains(parts[0]) && hint.contains(parts[1]),
            "{line}: {err}"
        );
    }

    /// Lets every program use one more second of CPU time.
    fn work(&self) {
        self.used_us.set(self.used_us.get() + 1_000_000);
        for group in ["redis", "hog"] {
            let file = self.machine.root().join(format!("sys/fs/cgroup/{group}/cpu.stat"));
            let fresh = file.with_extension("new");
            fs::write(&fresh, format!("usage_usec {}\n", self.used_us.get())).expect("a file");
            fs::rename(fresh, file).expect("a file");
        }
    }

    fn list(&self) -> Vec<Value> {
        let all: Value = serde_json::from_str(&self.ok("list --json")).expect("JSON");
        all["applications"].as_array().expect("an array").clone()
    }
}

#[test]
fn applications_are_submitted_listed_changed_explained_and_removed() {
    let redis = "slo = \"slow-share=5%\"\npriority = 3\ncgroup = \"redis\"\n";
    let mut host = Host::new(&[("redis.toml", redis)]);
    let names = |host: &Host| {
        let name = |one: &Value| one["name"].as_str().map(String::from);
        host.list().iter().filter_map(name).collect::<Vec<_>>()
    };
    assert_eq!(names(&host), ["redis"], "{}", host.log());
    let admitted = host.ok("submit hog --type bi --slo 1GB/s --priority 1 --cgroup hog");
    assert!(
        admitted.contains("hog is admitted") && admitted.contains("not measured"),
        "{admitted}"
    );
    assert_eq!(names(&host), ["redis", "hog"]);
    host.ok("set hog --priority 9");
    assert_eq!(names(&host), ["hog", "redis"]);
    until("its memory is measured", || {
        let fast = host.list()[1]["used_bytes"][0].as_u64()?;
        (fast == 64 << 20).then_some(())
    });
    host.ok("set redis --slo 5ms");
    let explained = until("the report arrives", || {
        host.work();
        host.ok("report redis --latency 7ms --samples 12");
        let text = host.ok("explain redis");
        text.contains("missed by 40.0 %").then_some(text)
    });
    for part in
        ["redis, priority 3, cgroup redis", "7.0 ms (application, 12 samples)", "redis is admitted"]
    {
        assert!(explained.contains(part), "{part:?} in {explained}");
    }
    assert!(host.ok("profile redis").contains("slow accesses"));
    until("the bandwidth arrives", || {
        host.work();
        host.ok("report hog --bandwidth 3GB/s");
        (host.list()[0]["state"] == "met").then_some(())
    });
    host.ok("remove hog");
    assert_eq!(names(&host), ["redis"]);
    let status = host.machine.status();
    assert_eq!(status["managers"][0]["applications"][0]["name"], "redis");
    signal(&host.manager.0, Signal::TERM);
    assert_eq!(ended(&mut host.manager.0).code(), Some(0), "{}", host.log());
    host.refused("list", ["no manager", "attach --apps"]);
}

/// Here no memory can be moved, so a report above the target stays above it.
#[test]
fn a_need_is_measured_by_trials_and_what_cannot_be_met_is_said() {
    let redis = "slo = \"5ms\"\npriority = 3\ncgroup = \"redis\"\n";
    let host =
        Host::new(&[("redis.toml", redis), ("hog.toml", "priority = 1\ncgroup = \"hog\"\n")]);
    until("both are managed", || (host.list().len() == 2).then_some(()));
    host.refused("profile hog --measure", ["no target", "qos set hog --slo"]);
    host.refused("profile nobody --measure", ["no application", "redis"]);
    let state = host.machine.file("state").display().to_string();
    let words = ["qos", "profile", "redis", "--measure", "--state-dir", &state];
    let mut measuring = Guard(tierline(words).stdout(Stdio::piped()).spawn().expect("it runs"));
    let status = until("it ends", || {
        host.work();
        host.ok("report redis --latency 7ms");
        measuring.0.try_wait().expect("a child")
    });
    let mut shown = String::new();
    let mut out = measuring.0.stdout.take().expect("a pipe");
    std::io::Read::read_to_string(&mut out, &mut shown).expect("text");
    assert_eq!(status.code(), Some(1), "{shown}");
    assert!(shown.contains("7000000 ns") && shown.contains("missed"), "{shown}");
    assert!(shown.contains("redis gets 7.0 ms at best"), "{shown}");
    assert!(host.ok("explain redis").contains("measured: redis gets 7.0 ms"));
}

#[test]
fn every_wrong_request_is_refused_with_a_hint_and_changes_nothing() {
    let redis = "slo = \"slow-share=5%\"\npriority = 3\ncgroup = \"redis\"\n";
    let host = Host::new(&[
        ("redis.toml", redis),
        ("wrong.toml", "slo = \"5%\"\npriority = 4\ncgroup = \"none\"\n"),
    ]);
    let note = host.log();
    assert!(note.contains("there is no cgroup v2 folder") && note.contains("hint: "), "{note}");
    let before = host.list();
    for (line, parts) in [
        ("submit x --slo 1ns --priority 5 --cgroup hog", ["1 ns cannot be met", "relax"]),
        ("submit x --slo 5% --priority 3 --cgroup hog", ["priority 3 belongs to redis", "another"]),
        ("submit redis --slo 5% --priority 5 --cgroup hog", ["has this name", "set redis"]),
        ("submit x --slo 5% --priority 5 --cgroup redis", ["belongs to a tenant", "qos list"]),
        ("submit x --slo 5% --priority 5 --cgroup none", ["no cgroup v2 folder", ""]),
        ("submit x --slo 1GB/s --priority 5 --cgroup plain", ["no cpu controller", "+cpu"]),
        ("submit x --slo 5 --priority 5 --cgroup hog", ["no target", "70GB/s"]),
        ("submit x --slo 5% --cgroup hog", ["no priority", "--priority"]),
        ("submit x --type bi --slo 5% --priority 5 --cgroup hog", ["no bandwidth", "type ls"]),
        ("set redis --slo 1ns", ["1 ns cannot be met", "relax"]),
        ("set redis", ["nothing about redis", "--priority"]),
        ("set none --priority 5", ["no application of this name", "redis"]),
        ("remove none", ["no application of this name", "redis"]),
        ("explain none", ["no application of this name", "redis"]),
        ("list --manager 1", ["no manager", "attach"]),
    ] {
        host.refused(line, parts);
    }
    let of = |all: &[Value]| {
        all.iter()
            .map(|one| [&one["name"], &one["slo"], &one["priority"]].map(Value::to_string))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(&host.list()), of(&before));
}

/// A client that sends nothing gets the status; what is no request, an error. Neither stops the manager.
#[test]
fn rubbish_on_the_socket_is_refused() {
    use std::io::{Read, Write};
    let host = Host::new(&[]);
    let pid = host.manager.0.id();
    let file = host.machine.file("state").join(format!("tierline-{pid}.sock"));
    let answer = |text: &[u8]| {
        let mut stream = UnixStream::connect(&file).expect("connected");
        // The manager may answer and close before everything is sent.
        let _ = stream.write_all(text);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    assert!(answer(b"").contains("\"managed\":true"));
    for text in [&b"rubbish\n"[..], b"{\"version\":9,\"verb\":\"list\"}\n", b"\xff\xfe\n", b"{}\n"]
    {
        assert!(answer(text).contains("\"error\":\""), "{}", String::from_utf8_lossy(text));
    }
    answer(&[b'x'; 100_000]);
    assert_eq!(host.ok("list"), "no application was submitted\n");
}

#[test]
fn a_file_with_a_typo_ends_the_start_with_the_nearest_key() {
    let machine = machine();
    fs::create_dir_all(machine.file("apps")).expect("a folder");
    fs::write(machine.file("apps/typo.toml"), "prioritty = 1\n").expect("a file");
    let apps = machine.file("apps").display().to_string();
    let mut words = vec!["attach".to_string(), "--apps".into(), apps];
    words.extend(machine.options());
    let output = tierline(&words).output().expect("tierline runs");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("typo.toml") && error.contains("did you mean priority"), "{error}");
}
