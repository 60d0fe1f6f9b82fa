// SPDX-License-Identifier: Apache-2.0
//! Units of systemd. It owns the settings of their groups: a reload of its configuration overwrites what others
//! write there. So the CPU time of a unit is set as its property, until the next boot.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::cgroup::CpuMax;
use crate::error::{Error, Result};
use crate::root::Root;

/// Present while systemd is the service manager, as sd_booted(3) checks it.
const BOOTED: &str = "/run/systemd/system";
const TOOLS: [&str; 2] = ["/usr/bin/systemctl", "/bin/systemctl"];
/// A property is set within some milliseconds; the manager does not wait longer than this. Ours.
const PATIENCE: Duration = Duration::from_secs(2);

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
                Some(status) => return Err(failed(std::io::Error::other(status.to_string()))),
                None if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
                None => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(failed(std::io::ErrorKind::TimedOut.into()));
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
}
