// SPDX-License-Identifier: Apache-2.0
//! `tierline daemon`, on a machine of files, through its socket as any client sees it.

use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::machine::Machine;
use crate::{Guard, PATIENCE, ended, output, signal, text, tierline, until};

const BALANCING: &str = "proc/sys/kernel/numa_balancing";

/// A machine with the cgroups `redis` and `hog`, the running service `db.service`, and a kernel that balances.
fn machine() -> Machine {
    let machine = Machine::new();
    let put = |path: &str, text: &str| {
        let path = machine.root().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    put("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put(BALANCING, "1\n");
    // A journal is restored on the boot and in the namespace of its writer.
    let boot = "proc/sys/kernel/random/boot_id";
    put(boot, &fs::read_to_string(format!("/{boot}")).expect("this boot"));
    fs::create_dir_all(machine.root().join("proc/self/ns")).expect("a folder");
    let namespace = fs::read_link("/proc/self/ns/pid").expect("a namespace");
    symlink(namespace, machine.root().join("proc/self/ns/pid")).expect("a link");
    put("sys/fs/cgroup/cgroup.procs", "");
    for group in ["redis", "hog", "system.slice/db.service"] {
        let file = |name: &str| format!("sys/fs/cgroup/{group}/{name}");
        put(&file("cgroup.procs"), "");
        put(&file("memory.numa_stat"), "anon N0=67108864 N1=201326592\nfile N0=0 N1=0\n");
        put(&file("cpu.stat"), "usage_usec 5\n");
        put(&file("cpu.max"), "max 100000\n");
    }
    fs::create_dir_all(machine.file("apps")).expect("a folder");
    machine
}

fn balancing(machine: &Machine) -> String {
    fs::read_to_string(machine.root().join(BALANCING)).expect("it").trim().to_string()
}

/// A command line of the daemon.
fn command(machine: &Machine, more: &[&str]) -> Command {
    let apps = machine.file("apps").display().to_string();
    let args = ["daemon".to_string(), "--apps".into(), apps].into_iter();
    let mut command =
        tierline(args.chain(machine.options()).chain(more.iter().map(ToString::to_string)));
    command.stderr(Stdio::piped());
    command
}

/// A running daemon.
struct Host {
    machine: Machine,
    daemon: RefCell<Guard>,
}

impl Host {
    fn new(files: &[(&str, &str)]) -> Self {
        Self::on(machine(), files, &[])
    }

    fn on(machine: Machine, files: &[(&str, &str)], more: &[&str]) -> Self {
        files.iter().for_each(|(name, text)| put_app(&machine, name, text));
        let log = fs::File::create(machine.file("daemon.err")).expect("a file");
        let mut command = command(&machine, more);
        let daemon = Guard(command.stderr(Stdio::from(log)).spawn().expect("tierline runs"));
        let host = Self { machine, daemon: RefCell::new(daemon) };
        until("it listens", || {
            let status = host.daemon.borrow_mut().0.try_wait().expect("a child");
            assert!(status.is_none(), "{}", host.log());
            UnixStream::connect(host.socket()).ok().map(drop)
        });
        host
    }

    fn socket(&self) -> PathBuf {
        self.machine.file("state/api.sock")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.machine.file("daemon.err")).unwrap_or_default()
    }

    fn signal(&self, sent: Signal) {
        signal(&self.daemon.borrow().0, sent);
    }

    fn end(self) -> Machine {
        self.signal(Signal::TERM);
        let code = ended(&mut self.daemon.borrow_mut().0).code();
        assert_eq!(code, Some(0), "{}", self.log());
        self.machine
    }

    /// Sends text, and returns the whole answer.
    fn send(&self, text: &[u8]) -> String {
        let mut stream = UnixStream::connect(self.socket()).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("ours");
        // It may answer and close before everything is sent.
        let _ = stream.write_all(text);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// The same, of a caller that is patient.
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        until("it is not shed", || Some(self.once(method, path, body)).filter(|one| one.0 != 429))
    }

    /// The status and the body of an answer.
    fn once(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let head = format!("{method} {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n", body.len());
        let answer = self.send((head + body).as_bytes());
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or(0), body.into())
    }

    fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// The tenants, each with why it waits.
    fn tenants(&self) -> Vec<(String, Option<String>)> {
        let all = self.get("/v1/tenants");
        let text = |value: &Value| value.as_str().map(String::from);
        let one =
            |one: &Value| (text(&one["app"]["name"]).unwrap_or_default(), text(&one["waits"]));
        all["tenants"].as_array().expect("an array").iter().map(one).collect()
    }

    /// Waits until all these are managed, and no others.
    fn has(&self, names: &[&str]) {
        until("the tenants", || {
            let expected: Vec<_> = names.iter().map(|name| ((*name).to_string(), None)).collect();
            (self.tenants() == expected).then_some(())
        });
    }
}

fn put_app(machine: &Machine, name: &str, text: &str) {
    fs::write(machine.file("apps").join(name), text).expect("a file");
}

fn sleeper() -> Guard {
    Guard(Command::new("sleep").arg("300").spawn().expect("sleep"))
}

/// The numbers of the managed processes.
fn managed(host: &Host) -> Vec<u64> {
    let status = host.get("/v1/status");
    let targets = status["targets"].as_array().expect("an array").iter();
    targets.filter_map(|target| target["pid"].as_u64()).collect()
}

#[test]
fn tenants_of_files_and_requests_come_and_go() {
    let redis = "slo = \"slow-share=5%\"\npriority = 3\ncgroup = \"redis\"\n";
    let db = "unit = \"db.service\"\nlimit = \"t0=50%\"\n";
    let host = Host::new(&[("redis.toml", redis), ("db.toml", db)]);
    host.has(&["db", "redis"]);
    let app = r#"{"name":"hog","priority":1,"cgroup":"hog"}"#;
    let (status, body) = host.ask("POST", "/v1/tenants", app);
    assert_eq!(status, 201, "{body}");
    host.has(&["db", "hog", "redis"]);
    assert_eq!(host.get("/v1/tenants/hog")["origin"], "request");
    let limits = &host.get("/v1/status")["metrics"]["tenant_limit_bytes"];
    assert_eq!(limits["db"].as_object().map(|tiers| tiers.len()), Some(1), "{limits}");
    // A file is removed, one added, one changed; the request stays.
    fs::remove_file(host.machine.file("apps/redis.toml")).expect("it");
    put_app(&host.machine, "web.toml", "cgroup = \"redis\"\n");
    put_app(&host.machine, "db.toml", "unit = \"db.service\"\n");
    host.signal(Signal::HUP);
    host.has(&["db", "hog", "web"]);
    let limits = host.get("/v1/status")["metrics"]["tenant_limit_bytes"]["db"].clone();
    assert!(limits.is_null(), "{limits}");
    let (status, _) = host.ask("DELETE", "/v1/tenants/hog", "");
    assert_eq!(status, 200);
    host.has(&["db", "web"]);
    let (status, body) = host.ask("DELETE", "/v1/tenants/web", "");
    assert!(status == 409 && body.contains("is in a file"), "{status} {body}");
    assert_eq!(host.ask("DELETE", "/v1/tenants/none", "").0, 404);
    let machine = host.end();
    let left = fs::read_dir(machine.file("state")).expect("a folder").count();
    assert_eq!(left, 0, "without requested tenants the state folder is empty");
}

#[test]
fn programs_are_managed_by_rules_and_their_end_is_noticed() {
    let (machine, first, second) = (machine(), sleeper(), sleeper());
    for sleeper in [&first, &second] {
        machine.has(sleeper.0.id());
    }
    let user = rustix::process::geteuid().as_raw();
    let rule = format!("match = {{ comm = \"^sleep$\", user = \"{user}\" }}\n");
    let host = Host::on(machine, &[("sleepers.toml", &rule)], &[]);
    let both = [first.0.id(), second.0.id()].map(u64::from);
    until("both are managed", || both.iter().all(|pid| managed(&host).contains(pid)).then_some(()));
    // Another rule matches too: the first by name keeps them, and that is said.
    put_app(&host.machine, "zzz.toml", "match = { comm = \"sleep\" }\n");
    host.signal(Signal::HUP);
    until("it is said", || {
        host.log().contains("the rules of sleepers and zzz match it").then_some(())
    });
    drop(first);
    until("its end is noticed", || (!managed(&host).contains(&both[0])).then_some(()));
    assert!(managed(&host).contains(&both[1]));
    for file in ["sleepers.toml", "zzz.toml"] {
        fs::remove_file(host.machine.file("apps").join(file)).expect("it");
    }
    host.signal(Signal::HUP);
    until("nothing is managed", || managed(&host).is_empty().then_some(()));
    host.end();
}

#[test]
fn a_bad_file_is_named_with_its_line_and_the_old_tenants_stay() {
    let host = Host::new(&[("redis.toml", "cgroup = \"redis\"\n")]);
    host.has(&["redis"]);
    put_app(&host.machine, "hog.toml", "cgroup = \"hog\"\npriority = \"high\"\n");
    host.signal(Signal::HUP);
    until("it is said", || host.log().contains("old ones stay in force").then_some(()));
    until("its line", || {
        let log = host.log();
        (log.contains("hog.toml") && log.contains("line 2")).then_some(())
    });
    host.has(&["redis"]);
    put_app(&host.machine, "hog.toml", "# a comment\ncgroup = \"hog\"\nlimit = \"fast\"\n");
    host.signal(Signal::HUP);
    until("its line", || host.log().contains("hog.toml:3: ").then_some(()));
    put_app(&host.machine, "hog.toml", "cgroup = \"hog\"\n");
    host.signal(Signal::HUP);
    host.has(&["hog", "redis"]);
    let machine = host.end();
    put_app(&machine, "hog.toml", "cgroup = 1\n");
    let refused = command(&machine, &[]).output().expect("tierline runs");
    let message = text(&refused.stderr);
    assert!(refused.status.code() == Some(2) && message.contains("line 1"), "{message}");
}

#[test]
fn what_does_not_run_yet_is_waited_for() {
    let host = Host::new(&[("late.toml", "unit = \"late.service\"\n")]);
    let waits = until("it waits", || {
        host.tenants().into_iter().find_map(|(_, waits)| waits.filter(|why| why.contains("late")))
    });
    assert!(waits.contains("does not run"), "{waits}");
    let group = host.machine.root().join("sys/fs/cgroup/system.slice/late.service");
    fs::create_dir_all(&group).expect("a folder");
    fs::write(group.join("cgroup.procs"), "").expect("a file");
    host.has(&["late"]);
    let refused = host.ask("POST", "/v1/tenants", r#"{"name":"x","unit":"never.service"}"#);
    assert!(refused.0 == 409 && refused.1.contains("does not run"), "{refused:?}");
    host.end();
}

#[test]
fn requests_survive_a_restart_and_a_kill_leaves_what_recover_restores() {
    let host = Host::new(&[]);
    let app = r#"{"name":"hog","cgroup":"hog"}"#;
    assert_eq!(host.ask("POST", "/v1/tenants", app).0, 201);
    assert_eq!(balancing(&host.machine), "0");
    host.signal(Signal::KILL);
    ended(&mut host.daemon.borrow_mut().0);
    let Host { machine, daemon } = host;
    drop(daemon);
    assert!(machine.file("state/api.sock").exists(), "nobody could remove it");
    assert_eq!(balancing(&machine), "0");
    let (state, root) = (machine.file("state"), machine.root());
    let line = format!("recover --root {} --state-dir {}", root.display(), state.display());
    let recovered = output(&line);
    assert_eq!(recovered.status.code(), Some(0), "{}", text(&recovered.stderr));
    assert_eq!(balancing(&machine), "1");
    // The stale socket is replaced.
    let host = Host::on(machine, &[], &[]);
    host.has(&["hog"]);
    let machine = host.end();
    assert_eq!(balancing(&machine), "1");
    assert!(!machine.file("state/api.sock").exists());
}

#[test]
fn a_second_daemon_and_a_socket_in_use_are_refused() {
    let host = Host::new(&[]);
    let second = command(&host.machine, &[]).output().expect("tierline runs");
    let message = text(&second.stderr);
    assert!(
        second.status.code() == Some(2) && message.contains("a daemon runs already"),
        "{message}"
    );
    host.end();
    let machine = machine();
    let taken = machine.file("taken.sock");
    let _other = UnixListener::bind(&taken).expect("a socket");
    let path = taken.display().to_string();
    let refused = command(&machine, &["--socket", &path]).output().expect("tierline runs");
    let message = text(&refused.stderr);
    let own = std::process::id();
    assert!(message.contains(&format!("process {own} listens on {path}")), "{message}");
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(balancing(&machine), "1", "restored");
    fs::write(machine.file("plain"), "precious").expect("a file");
    let path = machine.file("plain").display().to_string();
    let refused = command(&machine, &["--socket", &path]).output().expect("tierline runs");
    assert!(text(&refused.stderr).contains("it is no socket"), "{}", text(&refused.stderr));
    assert_eq!(fs::read_to_string(machine.file("plain")).expect("it"), "precious");
}

#[test]
fn the_socket_is_closed_to_others_and_only_a_loopback_port_is_opened() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("its address").to_string();
    drop(free);
    let host = Host::on(machine(), &[], &["--metrics", &address]);
    let mode = fs::metadata(host.socket()).expect("it").permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let tcp = |request: &str| {
        let mut stream = TcpStream::connect(&address).expect("connected");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    let metrics = tcp("GET /metrics HTTP/1.0\r\n\r\n");
    assert!(
        metrics.contains("tierline_uptime_seconds") && metrics.ends_with("# EOF\n"),
        "{metrics}"
    );
    for request in [
        "POST /v1/tenants HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}",
        "GET /v1/status HTTP/1.0\r\n\r\n",
    ] {
        assert!(tcp(request).starts_with("HTTP/1.0 404"), "{request}");
    }
    host.end();
    let refused = command(&machine(), &["--metrics", "0.0.0.0:0"]).output().expect("tierline runs");
    let message = text(&refused.stderr);
    assert!(message.contains("can be reached from other machines"), "{message}");
}

#[test]
fn the_document_names_every_path_and_wrong_requests_are_answered() {
    let host = Host::new(&[]);
    let document = host.get("/v1/openapi.json");
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().expect("paths");
    assert!(paths.len() >= 6);
    for (path, methods) in paths {
        let real = path.replace("{name}", "none");
        for method in ["GET", "POST", "PUT", "DELETE"] {
            let (status, _) = match (method, real.as_str()) {
                ("GET", "/v1/events") => continue,
                _ => host.ask(method, &real, "x"),
            };
            let known = &methods[method.to_lowercase()]["responses"];
            match known.as_object() {
                Some(known) => {
                    assert!(known.contains_key(&status.to_string()), "{method} {path}: {status}")
                }
                None => assert_eq!(status, 405, "{method} {path}"),
            }
        }
    }
    for (request, expected) in [
        ("GET /v2/status HTTP/1.0\r\n\r\n".to_string(), "404"),
        ("GET / HTTP/1.0\r\n\r\n".into(), "404"),
        ("POST /v1/tenants HTTP/1.0\r\nContent-Length: 9\r\n\r\n{\"x\":\"y\"}".into(), "400"),
        (
            format!(
                "POST /v1/tenants HTTP/1.0\r\nContent-Length: 99999\r\n\r\n{}",
                "x".repeat(99_999)
            ),
            "413",
        ),
        (format!("GET /{} HTTP/1.0\r\n\r\n", "x".repeat(99_999)), "4"),
        ("rubbish\r\n\r\n".into(), "400"),
        ("\0\u{1}\u{2}".repeat(9), "4"),
    ] {
        let answer = host.send(request.as_bytes());
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert!(status.starts_with(expected) || answer.is_empty(), "{request:.60}: {answer}");
    }
    assert!(host.tenants().is_empty());
    host.end();
}

/// A manager that is flooded answers some, refuses the others at once, and goes on as before.
#[test]
fn too_many_requests_and_connections_are_shed() {
    let host = Host::new(&[("redis.toml", "cgroup = \"redis\"\n")]);
    host.has(&["redis"]);
    let statuses: Vec<u16> = (0..400).map(|_| host.once("GET", "/v1/status", "").0).collect();
    let count = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    assert!(count(200) >= 1 && count(429) >= 50, "{} and {}", count(200), count(429));
    assert_eq!(count(200) + count(429), 400);
    // Callers that say nothing take all connections of their class.
    let silent: Vec<UnixStream> =
        (0..60).map(|_| UnixStream::connect(host.socket()).expect("connected")).collect();
    let refused = until("one is refused", || {
        let answer = host.send(b"GET /v1/status HTTP/1.0\r\n\r\n");
        answer.contains(" 503 ").then_some(answer)
    });
    assert!(refused.contains("too many connections"), "{refused}");
    drop(silent);
    until("there is room again", || (host.ask("GET", "/v1/status", "").0 == 200).then_some(()));
    let metrics = until("the metrics", || {
        let (status, body) = host.ask("GET", "/v1/metrics", "");
        (status == 200).then_some(body)
    });
    assert!(metrics.contains("tierline_api_requests_total{outcome=\"shed\"}"), "{metrics}");
    host.end();
}

/// What the other side has closed is hung up, also if nobody reads what it sent before.
fn is_closed(stream: &UnixStream) -> Option<()> {
    let mut fds = [PollFd::new(stream, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&at_once)).expect("it is open");
    fds[0].revents().contains(PollFlags::HUP).then_some(())
}

#[test]
fn callers_that_send_nothing_or_never_read_are_closed() {
    let host = Host::new(&[("redis.toml", "cgroup = \"redis\"\n")]);
    host.has(&["redis"]);
    let caller = |text: &[u8]| {
        let mut stream = UnixStream::connect(host.socket()).expect("connected");
        stream.write_all(text).expect("sent");
        stream
    };
    let head = "GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n";
    let silent = [
        ("nothing", caller(b"")),
        ("half a head", caller(head.as_bytes())),
        ("nothing after an answer", caller(format!("{head}\r\n").as_bytes())),
        ("no body", caller(b"POST /v1/tenants HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")),
    ];
    // More than the socket's buffer of 208 KiB; the kernel takes in the rest of an answer only if it is read.
    let deaf = caller(format!("{head}\r\n").repeat(60).as_bytes());
    for (what, stream) in &silent {
        until(&format!("closed: {what}"), || is_closed(stream));
    }
    until("closed: it never reads", || is_closed(&deaf));
    assert_eq!(host.ask("GET", "/v1/status", "").0, 200);
    host.end();
}

/// Runs a script of Perl as a user without rights, with these groups.
fn as_nobody(groups: &str, script: &str) -> Option<String> {
    let mut shell = Command::new("setpriv");
    shell.args(["--reuid=65534", "--regid=65534", &format!("--groups={groups}")]);
    let output = shell.args(["/usr/bin/perl", "-MIO::Socket::UNIX", "-e", script]).output().ok()?;
    Some(text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn only_root_and_the_admin_group_may_change_something() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // Group 50 may read, group 60 may change.
    let host = Host::on(machine(), &[], &["--group", "50", "--admin-group", "60"]);
    let folder = fs::Permissions::from_mode(0o755);
    let top = host.machine.file("x").parent().expect("a folder").to_path_buf();
    fs::set_permissions(&top, folder).expect("ours");
    let script = |method: &str, path: &str, body: &str| {
        format!(
            "my $s = IO::Socket::UNIX->new('{}') or die \"refused: $!\\n\";\n\
             print $s '{method} {path} HTTP/1.0', \"\\r\\nContent-Length: {}\\r\\n\\r\\n\", '{body}';\n\
             $s->flush; print <$s>;",
            host.socket().display(),
            body.len(),
        )
    };
    let add = script("POST", "/v1/tenants", r#"{"name":"hog","cgroup":"hog"}"#);
    for (groups, script, expected) in [
        ("70", &script("GET", "/v1/status", ""), "Permission denied"),
        ("50", &script("GET", "/v1/status", ""), "HTTP/1.0 200"),
        ("50", &add, "HTTP/1.0 403"),
        ("50", &script("DELETE", "/v1/tenants/hog", ""), "HTTP/1.0 403"),
        ("50,60", &add, "HTTP/1.0 201"),
        ("50,60", &script("DELETE", "/v1/tenants/hog", ""), "HTTP/1.0 200"),
    ] {
        let answer = as_nobody(groups, script).expect("setpriv and perl run");
        assert!(answer.contains(expected), "{groups} {script}: {answer}");
    }
    host.end();
}

#[test]
fn events_are_streamed_while_somebody_listens() {
    let host = Host::new(&[]);
    let mut stream = UnixStream::connect(host.socket()).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("ours");
    stream.write_all(b"GET /v1/events HTTP/1.0\r\n\r\n").expect("sent");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.find(String::is_empty).expect("the end of the head");
    assert_eq!(host.ask("POST", "/v1/tenants", r#"{"name":"hog","cgroup":"hog"}"#).0, 201);
    let line = lines.find(|line| line.contains("tenant")).expect("an event");
    let event: Value = serde_json::from_str(&line).expect("JSON");
    let app = json!({ "name": "hog", "cgroup": "hog" });
    assert_eq!(event["tenant"], json!({ "verb": "submit", "app": app }));
    // Readers that go make room for others, also while nothing happens.
    let open = || {
        let mut stream = UnixStream::connect(host.socket()).expect("connected");
        stream.write_all(b"GET /v1/events HTTP/1.0\r\n\r\n").expect("sent");
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).expect("an answer");
        line.contains("200").then_some(stream)
    };
    let streams: Vec<UnixStream> = std::iter::from_fn(open).take(20).collect();
    assert_eq!(streams.len(), 7, "and the first one");
    drop(streams);
    until("there is room", open);
    host.end();
}

#[test]
fn status_and_qos_are_clients_of_the_daemon() {
    let host = Host::new(&[("redis.toml", "priority = 3\ncgroup = \"redis\"\n")]);
    host.has(&["redis"]);
    let status = host.machine.status();
    assert_eq!(status["managers"].as_array().map(Vec::len), Some(1), "once: {status}");
    assert_eq!(status["managers"][0]["applications"][0]["name"], "redis");
    let state = host.machine.file("state").display().to_string();
    let submitted =
        output(&format!("qos submit hog --priority 1 --cgroup hog --state-dir {state}"));
    assert_eq!(submitted.status.code(), Some(0), "{}", text(&submitted.stderr));
    host.has(&["hog", "redis"]);
    let changed = output(&format!("qos set hog --priority 7 --state-dir {state}"));
    assert_eq!(changed.status.code(), Some(0), "{}", text(&changed.stderr));
    assert_eq!(host.get("/v1/tenants/hog")["app"]["priority"], 7);
    // A file that changes a target alone lets the application go on.
    put_app(
        &host.machine,
        "redis.toml",
        "priority = 9
cgroup = \"redis\"
",
    );
    host.signal(Signal::HUP);
    until("its priority", || {
        let first = host.get("/v1/status")["applications"][0].clone();
        (first["name"] == "redis" && first["priority"] == 9).then_some(())
    });
    let explained = output(&format!("qos explain redis --state-dir {state}"));
    assert!(!text(&explained.stdout).contains("removed"), "{}", text(&explained.stdout));
    host.end();
}

#[test]
fn the_service_manager_is_told() {
    let machine = machine();
    let notify = machine.file("notify");
    let receiver = UnixDatagram::bind(&notify).expect("a socket");
    receiver.set_read_timeout(Some(PATIENCE)).expect("ours");
    let mut command = command(&machine, &[]);
    command.env("NOTIFY_SOCKET", &notify).env("WATCHDOG_USEC", "200000").stderr(Stdio::null());
    let mut daemon = Guard(command.spawn().expect("tierline runs"));
    let next = || {
        let mut buffer = [0; 64];
        let count = receiver.recv(&mut buffer).expect("it tells something");
        text(&buffer[..count])
    };
    let until_told = |wanted: &str| while next() != wanted {};
    until_told("READY=1");
    until_told("WATCHDOG=1");
    until_told("WATCHDOG=1");
    signal(&daemon.0, Signal::HUP);
    until_told("RELOADING=1");
    until_told("READY=1");
    signal(&daemon.0, Signal::TERM);
    until_told("STOPPING=1");
    assert_eq!(ended(&mut daemon.0).code(), Some(0));
}

/// The lines of a thread's status, by name.
fn thread_status(pid: u32, thread: &str) -> Option<impl Fn(&str) -> String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.map_while(Result::ok);
    let statuses = tasks.map(|task| fs::read_to_string(task.path().join("status")));
    let status = statuses.map_while(Result::ok).find(|status| {
        status.lines().next().and_then(|line| line.strip_prefix("Name:\t")) == Some(thread)
    })?;
    Some(move |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.expect("a line").trim().to_string()
    })
}

/// Bits as in capability(7): DAC_OVERRIDE, DAC_READ_SEARCH, SYS_PTRACE, SYS_ADMIN and SYS_NICE.
const SOFT_DIRTY: u64 = 1 << 1 | 1 << 2 | 1 << 19 | 1 << 21 | 1 << 23;

#[test]
fn a_daemon_that_runs_keeps_only_what_its_tracker_needs_and_its_api_nothing() {
    let own = fs::read_to_string("/proc/thread-self/status").expect("ours");
    let own = own.lines().find_map(|line| line.strip_prefix("CapEff:")).expect("a line").trim();
    let own = u64::from_str_radix(own, 16).expect("a number");
    let host = Host::new(&[]);
    let pid = host.daemon.borrow().0.id();
    for (thread, kept) in [("tierline", own & SOFT_DIRTY), ("api", 0)] {
        // 2: a filter.
        until("a filter", || (thread_status(pid, thread)?("Seccomp") == "2").then_some(()));
        let status = thread_status(pid, thread).expect("it runs");
        assert_eq!(status("NoNewPrivs"), "1", "{thread}");
        for set in ["CapEff", "CapPrm"] {
            assert_eq!(status(set), format!("{kept:016x}"), "{thread}: {set}");
        }
        for set in ["CapInh", "CapAmb"] {
            assert_eq!(status(set), format!("{:016x}", 0), "{thread}: {set}");
        }
        if rustix::process::geteuid().is_root() {
            let bound = u64::from_str_radix(&status("CapBnd"), 16).expect("a number");
            assert_eq!(bound & !SOFT_DIRTY, 0, "{thread}");
        }
    }
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").count();
    assert_eq!(threads, 2, "there is no other thread");
    // It works as before.
    assert_eq!(host.ask("POST", "/v1/tenants", r#"{"name":"hog","cgroup":"hog"}"#).0, 201);
    put_app(&host.machine, "redis.toml", "cgroup = \"redis\"\n");
    host.signal(Signal::HUP);
    host.has(&["hog", "redis"]);
    assert!(!host.log().contains("not permitted"), "{}", host.log());
    let machine = host.end();
    assert_eq!(balancing(&machine), "1", "restored");
}

/// A command line on the machine of a daemon.
fn beside(host: &Host, line: &str) -> Command {
    let (verb, rest) = line.split_once(' ').expect("a verb and more");
    let path = |path: PathBuf| path.display().to_string();
    let (root, state) = (path(host.machine.root()), path(host.machine.file("state")));
    let own = [verb, "--root", &root, "--state-dir", &state].map(String::from);
    let mut command = tierline(own.into_iter().chain(rest.split(' ').map(String::from)));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The only tenant, once it is managed.
fn only_tenant(host: &Host) -> String {
    until("a tenant", || match host.tenants().as_slice() {
        [(name, None)] => Some(name.clone()),
        _ => None,
    })
}

/// The only child of a process.
fn child_of(pid: u32) -> u64 {
    until("a child", || {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    })
}

#[test]
fn a_command_of_run_is_a_tenant_of_the_daemon_until_it_ends() {
    let host = Host::new(&[]);
    host.machine.has_the_next();
    let mut run = Guard(beside(&host, "run --limit t0=50% -- sleep 300").spawn().expect("runs"));
    let name = only_tenant(&host);
    assert_eq!(name, format!("sleep-{}-0", run.0.id()));
    let tenant = host.get(&format!("/v1/tenants/{name}"));
    assert_eq!(tenant["app"]["limit"], "t0=50%");
    let command = child_of(run.0.id());
    assert_eq!(tenant["app"]["match"]["processes"][0]["pid"], command);
    until("it is managed", || managed(&host).contains(&command).then_some(()));
    assert_eq!(host.machine.status()["managers"].as_array().map(Vec::len), Some(1));
    signal(&run.0, Signal::TERM);
    assert_eq!(ended(&mut run.0).code(), Some(143), "as the command ends");
    host.has(&[]);
    // One that is killed removes nothing: the tenant ends with the command.
    let mut run = Guard(beside(&host, "run -- sleep 300").spawn().expect("runs"));
    only_tenant(&host);
    let command = child_of(run.0.id());
    signal(&run.0, Signal::KILL);
    ended(&mut run.0);
    assert_eq!(host.tenants().len(), 1, "the command runs");
    let command = i32::try_from(command).ok().and_then(Pid::from_raw).expect("a number");
    kill_process(command, Signal::KILL).expect("it runs");
    host.has(&[]);
    host.end();
}

#[test]
fn a_tenant_that_has_ended_is_gone_at_once_for_whoever_removes_it() {
    let (machine, program) = (machine(), sleeper());
    machine.has(program.0.id());
    let host = Host::on(machine, &[], &[]);
    let line = format!("attach -p {} --cgroup hog", program.0.id());
    let mut attach = Guard(beside(&host, &line).spawn().expect("tierline runs"));
    until("two tenants", || (host.tenants().len() == 2).then_some(()));
    let name = format!("pid{}-{}-0", program.0.id(), attach.0.id());
    let kept = || fs::read_to_string(host.machine.file("state/tenants.json")).expect("requests");
    assert!(kept().contains(&name), "{name} in {}", kept());
    drop(program);
    until("the daemon drops it", || {
        // What was asked a moment ago must not be answered from memory.
        host.tenants();
        (!kept().contains(&name)).then_some(())
    });
    let (status, body) = host.ask("DELETE", &format!("/v1/tenants/{name}"), "");
    assert_eq!(status, 404, "{body}");
    assert_eq!(host.tenants().len(), 1);
    signal(&attach.0, Signal::INT);
    assert_eq!(ended(&mut attach.0).code(), Some(0));
    let mut said = String::new();
    attach.0.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert!(said.contains("managed by the daemon") && !said.contains("stays"), "{said}");
    host.end();
}

#[test]
fn what_a_daemon_refuses_is_said_and_a_strict_run_fails() {
    let host = Host::new(&[]);
    host.machine.has_the_next();
    for (line, code, part) in [
        (
            "run --dry-run -- echo ran",
            2,
            "a daemon manages this machine, and has its own options: --dry-run",
        ),
        ("run --policy hold -- echo ran", 2, "has its own options: how to manage"),
        ("attach --events events.json --cgroup hog", 2, "has its own options: --events"),
        (
            "run --limit nosuch=1G -- sleep 2",
            0,
            "running unmanaged: the daemon refuses: limit nosuch=…: this machine has no tier",
        ),
        ("run --strict --limit nosuch=1G -- sleep 300", 2, "the daemon refuses: limit nosuch=…"),
        ("attach --cgroup hog --limit nosuch=1G", 2, "the daemon refuses: limit nosuch=…"),
    ] {
        let output = beside(&host, line).output().expect("tierline runs");
        let message = text(&output.stderr);
        assert!(message.contains(part), "{line}: {message}");
        assert_eq!(output.status.code(), Some(code), "{line}: {message}");
        assert_eq!(text(&output.stdout), "", "{line}");
    }
    // A command that ends before the daemon has seen it is no failure.
    let output = beside(&host, "run --strict -- echo ran").output().expect("tierline runs");
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("ran\n", Some(0)));
    assert!(!text(&output.stderr).contains("unmanaged"), "{}", text(&output.stderr));
    host.has(&[]);
    host.end();
}

#[test]
fn programs_of_attach_are_tenants_of_the_daemon_until_it_ends() {
    let (machine, first, second) = (machine(), sleeper(), sleeper());
    let pids = [first.0.id(), second.0.id()];
    pids.iter().for_each(|pid| machine.has(*pid));
    let host = Host::on(machine, &[], &[]);
    let line = format!("attach -p {},{} --limit t0=1GiB --cgroup hog", pids[0], pids[1]);
    let mut attach = Guard(beside(&host, &line).spawn().expect("tierline runs"));
    until("two tenants", || (host.tenants().len() == 2).then_some(()));
    until("both are managed", || {
        let managed = managed(&host);
        pids.iter().all(|pid| managed.contains(&u64::from(*pid))).then_some(())
    });
    signal(&attach.0, Signal::INT);
    assert_eq!(ended(&mut attach.0).code(), Some(0));
    host.has(&[]);
    // With programs alone it ends with them.
    let line = format!("attach -p {}", pids[0]);
    let mut attach = Guard(beside(&host, &line).spawn().expect("tierline runs"));
    only_tenant(&host);
    drop(first);
    assert_eq!(ended(&mut attach.0).code(), Some(0));
    host.has(&[]);
    host.end();
}

/// Passes bytes on from a loopback port to the socket: fuzzers know no unix sockets. Returns the address.
fn proxy(socket: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = UnixStream::connect(&socket) else { return };
            let (mut up, mut down) = (client.try_clone().expect("ours"), client);
            let (mut to, mut from) = (server.try_clone().expect("ours"), server);
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut up, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Write);
            });
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut down);
                let _ = down.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    address
}

/// `SCHEMATHESIS` names the program.
#[test]
#[ignore = "needs schemathesis, and minutes: ./test --long"]
fn a_fuzzer_of_the_document_finds_no_wrong_answer() {
    let host = Host::new(&[("redis.toml", "cgroup = \"redis\"\n")]);
    let address = proxy(host.socket());
    let program = std::env::var("SCHEMATHESIS").unwrap_or_else(|_| "schemathesis".into());
    // A stream of events has no end, and so no answer that could be checked. That a regular expression, a size or a
    // tier is wrong, no schema can tell. More requests a second would be shed.
    let words = "--exclude-path /v1/events --exclude-checks positive_data_acceptance --rate-limit 40/s --seed 1 \
                 --max-examples 200 --request-timeout 20 --no-color --phases examples,coverage,fuzzing";
    let url = format!("http://{address}");
    let found = Command::new(&program)
        .args(["run", &format!("{url}/v1/openapi.json"), "--url", &url])
        .args(words.split_whitespace())
        .current_dir(host.machine.file(""))
        .output()
        .expect("schemathesis runs");
    assert!(found.status.success(), "{}{}", text(&found.stdout), text(&found.stderr));
    host.has(&["redis"]);
    host.end();
}
