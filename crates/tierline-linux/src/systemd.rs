// SPDX-License-Identifier: Apache-2.0
//! Units of systemd. It owns the settings of their groups: a reload of its configuration overwrites what others
//! write there. So the CPU time of a unit is set as its property, until the next boot.

use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::CapabilitySet;

use crate::cgroup::CpuMax;
use crate::error::{Error, Result};
use crate::privilege;
use crate::root::Root;

/// Present while systemd is the service manager, as sd_booted(3) checks it.
const BOOTED: &str = "/run/systemd/system";
const TOOLS: [&str; 2] = ["/usr/bin/systemctl", "/bin/systemctl"];
/// A property is set within some milliseconds; the manager does not wait longer than this. Ours.
const PATIENCE: Duration = Duration::from_secs(2);

/// A property to set, and where the result goes.
type Job = (Unit, CpuMax, Sender<Result<()>>);
/// The thread that runs systemctl, once there is one.
static RUNNER: OnceLock<Sender<Job>> = OnceLock::new();

/// Starts a thread that runs systemctl from now on, without any capability. Call it before this thread gives up the
/// right to start programs. Without systemd it starts none.
///
/// # Errors
/// If there are too many threads.
pub fn start_runner(root: &Root) -> io::Result<()> {
    if !root.exists(BOOTED) || RUNNER.get().is_some() {
        return Ok(());
    }
    let (send, jobs) = channel::<Job>();
    thread::Builder::new().name("systemctl".into()).spawn(move || {
        if privilege::keep_only(CapabilitySet::empty()).is_err() {
            return;
        }
        for (unit, max, done) in jobs {
            let _ = done.send(unit.set_property(max));
        }
    })?;
    let _ = RUNNER.set(send);
    Ok(())
}

/// A unit with its own control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    name: String,
    tool: PathBuf,
}

impl Unit {
    /// The unit of a group, by its path as in `/proc/PID/cgroup`. `None` if systemd does not run here, if the group is
    /// no unit, or if it belongs to a user's own instance of systemd.
    pub fn of(root: &Root, group: &str) -> Option<Self> {
        let (above, name) = group.rsplit_once('/')?;
        let is_unit = [".service", ".scope", ".slice"]
            .iter()
            .any(|kind| name.len() > kind.len() && name.ends_with(kind));
        let of_user =
            above.split('/').any(|part| part.starts_with("user@") && part.ends_with(".service"));
        if !is_unit || of_user || !root.exists(BOOTED) {
            return None;
        }
        let tool = TOOLS.iter().map(|tool| root.path(tool)).find(|tool| tool.exists())?;
        Some(Self { name: name.into(), tool })
    }

    /// Sets its share of CPU time.
    ///
    /// # Errors
    /// `Error::Call` if systemctl fails or does not end.
    pub fn set_cpu(&self, max: CpuMax) -> Result<()> {
        let Some(runner) = RUNNER.get() else { return self.set_property(max) };
        let (done, result) = channel();
        // Without an answer the thread has ended.
        let sent = runner.send((self.clone(), max, done));
        let result = sent.ok().and_then(|()| result.recv().ok());
        result.unwrap_or_else(|| {
            let source = io::Error::other("the thread that runs it has ended");
            Err(Error::Call { call: format!("systemctl set-property {}", self.name), source })
        })
    }

    fn set_property(&self, max: CpuMax) -> Result<()> {
        // systemd's unit is a percent of one CPU; it is rounded down.
        let percent = max.quota_us.map(|quota| (quota * 100 / max.period_us).max(1));
        let quota = percent.map_or(String::new(), |percent| format!("{percent}%"));
        let words = ["set-property", "--runtime", "--no-ask-password", "--", &self.name];
        let property = format!("CPUQuota={quota}");
        let call = || format!("systemctl {} {property}", words.join(" "));
        let failed = |source| Error::Call { call: call(), source };
        let mut child = Command::new(&self.tool)
            .args(words)
            .arg(&property)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let until = Instant::now() + PATIENCE;
        loop {
            match child.try_wait().map_err(failed)? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(failed(io::Error::other(status.to_string()))),
                None if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
                None => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(failed(io::ErrorKind::TimedOut.into()));
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::cgroup::tests::Fake;

    /// A systemctl that writes its words to `/words`, and the property to a unit's `cpu.max`.
    pub fn install(fake: &Fake, group: &str) {
        fake.put("/run/systemd/system/x", "");
        let (words, max) = (fake.root.path("/words"), format!("/sys/fs/cgroup{group}/cpu.max"));
        let script = format!(
            "#!/bin/sh\necho \"$@\" >>{}\nfor last; do :; done\nquota=${{last#CPUQuota=}}\nquota=${{quota%\\%}}\n\
             [ -n \"$quota\" ] && quota=$((quota * 1000)) || quota=max\necho $quota 100000 >{}\n",
            words.display(),
            fake.root.path(max).display()
        );
        fake.put(TOOLS[0], &script);
        let runnable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(fake.root.path(TOOLS[0]), runnable).expect("permissions");
    }

    #[test]
    fn units_are_recognised_by_their_group() {
        let fake = Fake::new();
        let name = |group: &str| Unit::of(&fake.root, group).map(|unit| unit.name);
        assert_eq!(name("/system.slice/redis.service"), None, "systemd does not run");
        install(&fake, "/system.slice/redis.service");
        assert_eq!(name("/system.slice/redis.service").as_deref(), Some("redis.service"));
        assert_eq!(name("/batch.slice").as_deref(), Some("batch.slice"));
        for group in
            ["/tierline/redis", "/user.slice/user@1000.service/app.slice/x.scope", "/", "/.slice"]
        {
            assert_eq!(name(group), None, "{group}");
        }
    }

    #[test]
    fn the_property_is_set_until_the_next_boot_and_a_failure_is_reported() {
        let fake = Fake::new();
        fake.group("system.slice/redis.service", &[]);
        install(&fake, "/system.slice/redis.service");
        let unit = Unit::of(&fake.root, "/system.slice/redis.service").expect("a unit");
        unit.set_cpu("25500 100000".parse().expect("legal")).expect("set");
        unit.set_cpu("max 100000".parse().expect("legal")).expect("lifted");
        let words = fake.root.read("/words").expect("called");
        let call = "set-property --runtime --no-ask-password -- redis.service CPUQuota=";
        assert_eq!(words, format!("{call}25%\n{call}"));
        fake.put(TOOLS[0], "#!/bin/sh\nexit 3\n");
        let error = unit.set_cpu("max 100000".parse().expect("legal")).expect_err("it fails");
        assert!(error.to_string().contains("redis.service CPUQuota="), "{error}");
    }
    #[test]
    fn a_confined_manager_sets_properties_by_a_thread_without_capabilities() {
        let fake = Fake::new();
        fake.group("b.service", &[]);
        install(&fake, "/b.service");
        // A systemctl that writes its capabilities down.
        let status = fake.root.path("/status");
        fake.put(TOOLS[0], &format!("#!/bin/sh\ncat /proc/self/status >{}\n", status.display()));
        let root = fake.root.clone();
        let confined = thread::spawn(move || {
            start_runner(&root).expect("a thread");
            crate::seccomp::confine(crate::seccomp::Role::Manager).expect("a filter");
            let unit = Unit::of(&root, "/b.service").expect("a unit");
            let direct = unit.set_property("max 100000".parse().expect("legal"));
            assert!(direct.is_err(), "this thread starts no program");
            unit.set_cpu("max 100000".parse().expect("legal")).expect("set");
        });
        confined.join().expect("it holds");
        let shown = fake.root.read("/status").expect("written");
        for set in ["CapEff", "CapPrm", "CapBnd", "CapAmb"] {
            let line = format!("{set}:\t{:016x}", 0);
            let is_root = rustix::process::geteuid().is_root();
            assert!(shown.contains(&line) || (set == "CapBnd" && !is_root), "{set}: {shown}");
        }
    }
}
