// SPDX-License-Identifier: Apache-2.0
//! CPU time of a group: its limit and its use.
//!
//! `cpu.max` is `QUOTA PERIOD` in microseconds: the group runs at most QUOTA in each PERIOD; `max` is no limit.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::str::FromStr;

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};

use super::{Cgroup, Hierarchy};
use crate::error::Result;
use crate::root::Root;

/// The limit.
pub const CPU_MAX: &str = "cpu.max";
const CPU_STAT: &str = "cpu.stat";
/// Periods that the kernel accepts, and its least quota (`max_cfs_quota_period` and `min_cfs_quota_period` of
/// kernel/sched/core.c), in microseconds.
const PERIODS: [u64; 2] = [1_000, 1_000_000];
const LEAST_QUOTA: u64 = 1_000;

/// The content of `cpu.max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuMax {
    /// Microseconds of CPU time in a period; `None`: no limit.
    pub quota_us: Option<u64>,
    /// The period.
    pub period_us: u64,
}

/// CPU time that a group and those below it used, and how often it was throttled, since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuUse {
    /// Microseconds.
    pub used_us: u64,
    /// Periods in which its quota was used up.
    pub throttled: u64,
}

impl CpuMax {
    /// The cores that the quota is worth; `None`: no limit.
    #[expect(clippy::cast_precision_loss, reason = "microseconds of at most some seconds")]
    pub fn cores(&self) -> Option<f64> {
        self.quota_us.map(|quota| quota as f64 / self.period_us as f64)
    }

    /// The least of this limit and `cores`.
    #[must_use]
    pub fn at_most(&self, cores: f64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "at most a second")]
        let quota = cores.max(0.0) * self.period_us as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
        let quota = (quota as u64).max(LEAST_QUOTA);
        Self { quota_us: Some(self.quota_us.map_or(quota, |own| own.min(quota))), ..*self }
    }
}

impl FromStr for CpuMax {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        let mut words = text.split_ascii_whitespace();
        let quota_us = match words.next() {
            Some("max") => None,
            Some(quota) => Some(quota.parse().map_err(|_| ())?),
            None => return Err(()),
        };
        let period_us = words.next().map_or(Ok(100_000), str::parse).map_err(|_| ())?;
        let legal = (PERIODS[0]..=PERIODS[1]).contains(&period_us)
            && quota_us.is_none_or(|quota| quota >= LEAST_QUOTA)
            && words.next().is_none();
        legal.then_some(Self { quota_us, period_us }).ok_or(())
    }
}

impl fmt::Display for CpuMax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.quota_us {
            Some(quota) => write!(f, "{quota} {}", self.period_us),
            None => write!(f, "max {}", self.period_us),
        }
    }
}

impl Cgroup {
    /// Its limit of CPU time; `None` if the group is gone.
    ///
    /// # Errors
    /// `Error::Missing` if the group has no cpu controller.
    pub fn cpu_max(&self) -> Result<Option<CpuMax>> {
        let Some(text) = self.controlled(CPU_MAX, "cpu")? else { return Ok(None) };
        let line = text.lines().next().unwrap_or_default();
        let max = line.parse().map_err(|()| self.odd(CPU_MAX, &text, "QUOTA PERIOD"))?;
        Ok(Some(max))
    }

    /// Sets its limit of CPU time; `None` if the group is gone.
    ///
    /// # Errors
    /// `Error::File` if the kernel refuses it.
    pub fn set_cpu_max(&self, text: &str) -> Result<Option<()>> {
        self.answer("write", CPU_MAX, self.write(CPU_MAX, &format!("{text}\n")))
    }

    /// The path of its limit, from `/`.
    pub fn cpu_max_path(&self) -> String {
        format!("{}/{CPU_MAX}", self.folder_path)
    }

    /// The CPU time that it used; `None` if the group is gone.
    ///
    /// # Errors
    /// `Error::File` or `Error::Format` if `cpu.stat` cannot be read.
    pub fn cpu_use(&self) -> Result<Option<CpuUse>> {
        let Some(text) = self.read(CPU_STAT)? else { return Ok(None) };
        let counter = |name: &str| {
            let lines = text.lines().filter_map(|line| line.split_once(' '));
            lines.filter(|(key, _)| *key == name).find_map(|(_, value)| value.trim().parse().ok())
        };
        let used_us =
            counter("usage_usec").ok_or_else(|| self.odd(CPU_STAT, &text, "usage_usec"))?;
        Ok(Some(CpuUse { used_us, throttled: counter("nr_throttled").unwrap_or(0) }))
    }
}

/// The `cpu.max` of a group that is known by its path only, as in a journal. It is reached from the mount point
/// without following links, so that nothing else is read or written, whoever owns the folders below.
#[derive(Debug)]
pub struct NamedCpuMax(File);

impl NamedCpuMax {
    /// Whether a path, from `/`, is the `cpu.max` of a group below the mount point.
    pub fn is_one(root: &Root, path: &str) -> bool {
        Self::below(root, path).is_some()
    }

    fn below(root: &Root, path: &str) -> Option<(String, String)> {
        let Hierarchy { mount, .. } = Hierarchy::find(root).ok()?;
        let inner = path.strip_prefix(mount.as_str())?.strip_prefix('/')?;
        let group = inner.strip_suffix(CPU_MAX)?.strip_suffix('/')?;
        let plain = group.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
        plain.then(|| (mount, inner.to_string()))
    }

    /// Opens it.
    ///
    /// # Errors
    /// The kernel's error; `NotFound` if the group is gone or the path is none.
    pub fn open(root: &Root, path: &str) -> io::Result<Self> {
        let (mount, inner) = Self::below(root, path).ok_or(io::ErrorKind::NotFound)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mount = open(root.path(mount), flags, Mode::empty())?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let stay = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        let fd = openat2(mount, inner, flags, Mode::empty(), stay)?;
        Ok(Self(File::from(fd)))
    }

    /// Its text, without the final newline.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read(&mut self) -> io::Result<String> {
        let mut text = String::new();
        io::Seek::rewind(&mut self.0)?;
        (&self.0).take(256).read_to_string(&mut text)?;
        Ok(text.lines().next().unwrap_or_default().trim().into())
    }

    /// Sets it.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn write(&mut self, value: CpuMax) -> io::Result<()> {
        io::Seek::rewind(&mut self.0)?;
        self.0.write_all(format!("{value}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Fake;
    use super::*;

    #[test]
    fn limits_are_read_as_the_kernel_writes_them_and_only_legal_ones() {
        for text in ["max 100000", "25000 100000", "1000 1000000", "1000000 1000"] {
            assert_eq!(text.parse::<CpuMax>().map(|max| max.to_string()).as_deref(), Ok(text));
        }
        assert_eq!("50000".parse(), Ok(CpuMax { quota_us: Some(50_000), period_us: 100_000 }));
        for text in ["", "max max", "-1 100000", "999 100000", "5000 999", "5000 1000001", "1 2 3"]
        {
            assert!(text.parse::<CpuMax>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_least_of_two_limits_applies() {
        let max = |text: &str| text.parse::<CpuMax>().expect(text);
        assert_eq!(max("max 100000").at_most(1.5), max("150000 100000"));
        assert_eq!(max("50000 100000").at_most(1.5), max("50000 100000"));
        assert_eq!(max("50000 50000").at_most(0.5), max("25000 50000"));
        assert_eq!(max("max 100000").at_most(0.0), max("1000 100000"), "the kernel's least");
        assert_eq!(max("25000 50000").cores(), Some(0.5));
    }

    #[test]
    fn use_and_limit_are_read_and_a_missing_controller_is_explained() {
        let fake = Fake::new();
        fake.group("a", &[]);
        fake.put("/sys/fs/cgroup/a/cpu.stat", "usage_usec 1234\nuser_usec 1000\nnr_throttled 7\n");
        let group = Cgroup::open(&fake.root, "a").expect("a group");
        assert_eq!(group.cpu_use().ok(), Some(Some(CpuUse { used_us: 1234, throttled: 7 })));
        let error = group.cpu_max().expect_err("no controller");
        assert!(error.hint().is_some_and(|hint| hint.contains("echo +cpu > ")), "{error}");
        fake.put("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
        assert_eq!(group.cpu_max().ok(), Some("max 100000".parse().ok()));
    }

    #[test]
    fn only_a_groups_limit_is_opened_by_path_and_no_link_is_followed() {
        let fake = Fake::new();
        fake.group("a/b", &[]);
        fake.put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
        fake.put("/etc/shadow", "secret");
        std::os::unix::fs::symlink("/etc/shadow", fake.root.path("/sys/fs/cgroup/a/cpu.max"))
            .expect("a link");
        std::os::unix::fs::symlink("b", fake.root.path("/sys/fs/cgroup/a/c")).expect("a link");
        for path in [
            "/sys/fs/cgroup/cpu.max",
            "/sys/fs/cgroup/a/b/memory.max",
            "/sys/fs/cgroup/a/../a/b/cpu.max",
            "/sys/fs/cgroups/a/b/cpu.max",
            "/etc/cpu.max",
            "/sys/fs/cgroup/a/./b/cpu.max",
        ] {
            assert!(!NamedCpuMax::is_one(&fake.root, path), "{path}");
            assert!(NamedCpuMax::open(&fake.root, path).is_err(), "{path}");
        }
        for linked in ["/sys/fs/cgroup/a/cpu.max", "/sys/fs/cgroup/a/c/cpu.max"] {
            assert!(NamedCpuMax::open(&fake.root, linked).is_err(), "{linked} follows a link");
        }
        let mut named =
            NamedCpuMax::open(&fake.root, "/sys/fs/cgroup/a/b/cpu.max").expect("a limit");
        assert_eq!(named.read().ok().as_deref(), Some("max 100000"));
        named.write("25000 100000".parse().expect("legal")).expect("written");
        let text = fake.root.read("/sys/fs/cgroup/a/b/cpu.max").expect("readable");
        assert_eq!(text, "25000 100000");
    }
}
