// SPDX-License-Identifier: Apache-2.0
//! The settings that Tierline changes, each with its legal values. A journal is a file: whatever it says, nothing else
//! is written.

use crate::cgroup::{Cgroup, CpuMax, NamedCpuMax, group_path};
use crate::error::{Error, Result};
use crate::root::Root;
use crate::systemd::Unit;

/// The values that a setting may be given.
#[derive(Clone, Copy)]
enum Legal {
    /// On or off, in any of the kernel's spellings.
    Switch,
    /// A whole number up to this.
    UpTo(u64),
    /// One of these words.
    Word(&'static [&'static str]),
}

use Legal::{Switch, UpTo, Word};

/// What the kernel accepts where it has no bound of its own (`unsigned int`).
const ANY: Legal = UpTo(u32::MAX as u64);

/// Every setting at a fixed path.
const SETTINGS: [(&str, Legal); 16] = [
    ("/proc/sys/kernel/numa_balancing", UpTo(4)),
    ("/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps", ANY),
    ("/proc/sys/vm/watermark_scale_factor", UpTo(3000)),
    ("/proc/sys/vm/watermark_boost_factor", ANY),
    ("/proc/sys/vm/percpu_pagelist_high_fraction", ANY),
    ("/sys/kernel/mm/numa/demotion_enabled", Switch),
    ("/sys/kernel/debug/sched/numa_balancing/hot_threshold_ms", ANY),
    ("/sys/kernel/debug/sched/numa_balancing/scan_delay_ms", ANY),
    ("/sys/kernel/debug/sched/numa_balancing/scan_period_min_ms", ANY),
    ("/sys/kernel/debug/sched/numa_balancing/scan_period_max_ms", ANY),
    ("/sys/kernel/debug/sched/numa_balancing/scan_size_mb", ANY),
    ("/sys/module/damon_stat/parameters/enabled", Switch),
    ("/sys/module/damon_reclaim/parameters/enabled", Switch),
    ("/sys/module/damon_lru_sort/parameters/enabled", Switch),
    ("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", UpTo(1024)),
    ("/sys/kernel/mm/damon/admin/kdamonds/0/state", Word(&["on", "off"])),
];

/// Where PCI devices are enabled, one folder each.
const PCI_DEVICES: &str = "/sys/bus/pci/devices/";

impl Legal {
    /// The values of a setting; `None` if it is none of ours.
    fn of(path: &str) -> Option<Self> {
        let device = path.strip_prefix(PCI_DEVICES).and_then(|rest| rest.strip_suffix("/enable"));
        match device {
            Some(device) => is_pci_address(device).then_some(Switch),
            None => SETTINGS.iter().find(|(known, _)| *known == path).map(|(_, legal)| *legal),
        }
    }

    fn permits(self, value: &str) -> bool {
        match self {
            Switch => switch(value).is_some(),
            UpTo(most) => value.parse::<u64>().is_ok_and(|number| number <= most),
            Word(words) => words.contains(&value),
        }
    }
}

/// `0000:3a:00.0`, as the kernel names devices.
fn is_pci_address(name: &str) -> bool {
    let hex = |text: &str, least: usize| {
        text.len() >= least && text.len() <= 8 && text.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let mut parts = name.split([':', '.']);
    let [domain, bus, device, function] = [(); 4].map(|()| parts.next().unwrap_or_default());
    let separators = name.bytes().filter(|byte| !byte.is_ascii_hexdigit()).collect::<Vec<_>>();
    separators == b"::." && hex(domain, 4) && hex(bus, 2) && hex(device, 2) && hex(function, 1)
}

/// Checks that `value` may be written to the setting `path`.
///
/// # Errors
/// `Error::Refused` if it is none of the settings above, or not a legal value of it.
pub(super) fn check(root: &Root, path: &str, value: &str) -> Result<()> {
    let value = value.trim();
    let permitted = match NamedCpuMax::is_one(root, path) {
        true => value.parse::<CpuMax>().is_ok(),
        false => Legal::of(path)
            .ok_or_else(|| refused(path, "it is no setting of Tierline's"))?
            .permits(value),
    };
    match permitted {
        true => Ok(()),
        false => Err(refused(path, &format!("{value:?} is not a legal value of it"))),
    }
}

fn refused(path: &str, why: &str) -> Error {
    Error::Refused {
        what: format!("the setting {path}"),
        why: format!("it is not written: {why}"),
        hint: "look at the journals in the state folder: if one is not Tierline's, delete it"
            .into(),
    }
}

/// How a setting is read and written.
pub(super) trait Access {
    fn read(&self) -> Result<String>;
    fn write(&self, value: &str) -> Result<()>;
}

/// A setting at a path.
pub(super) struct FileAt<'a> {
    pub root: &'a Root,
    pub path: &'a str,
}

impl Access for FileAt<'_> {
    fn read(&self) -> Result<String> {
        self.root.read(self.path).map(|text| text.trim().into())
    }

    fn write(&self, value: &str) -> Result<()> {
        self.root.write(self.path, value)
    }
}

/// The `cpu.max` of a group that is held by descriptor.
pub(super) struct OfGroup<'a> {
    pub group: &'a Cgroup,
    pub unit: Option<Unit>,
}

impl Access for OfGroup<'_> {
    fn read(&self) -> Result<String> {
        let max = self.group.cpu_max()?;
        max.map(|max| max.to_string()).ok_or_else(|| gone(&self.group.cpu_max_path()))
    }

    fn write(&self, value: &str) -> Result<()> {
        match (&self.unit, value.parse()) {
            (Some(unit), Ok(max)) => unit.set_cpu(max),
            _ => {
                let written = self.group.set_cpu_max(value)?;
                written.ok_or_else(|| gone(&self.group.cpu_max_path()))
            }
        }
    }
}

/// The `cpu.max` of a group that is known by its path.
pub(super) struct OfPath<'a> {
    pub root: &'a Root,
    pub path: &'a str,
}

impl OfPath<'_> {
    fn error(&self, action: &'static str, source: std::io::Error) -> Error {
        Error::File { action, path: self.root.path(self.path), source }
    }
}

impl Access for OfPath<'_> {
    fn read(&self) -> Result<String> {
        let opened = NamedCpuMax::open(self.root, self.path);
        opened.and_then(|mut max| max.read()).map_err(|source| self.error("read", source))
    }

    fn write(&self, value: &str) -> Result<()> {
        let max: CpuMax = value.parse().map_err(|()| Error::Format {
            path: self.root.path(self.path),
            found: value.into(),
            expected: "QUOTA PERIOD in microseconds, as in cpu.max",
        })?;
        let group = group_path(self.root, self.path.trim_end_matches("/cpu.max"));
        match group.and_then(|group| Unit::of(self.root, &group)) {
            Some(unit) => unit.set_cpu(max),
            None => {
                let opened = NamedCpuMax::open(self.root, self.path);
                opened
                    .and_then(|mut file| file.write(max))
                    .map_err(|source| self.error("write", source))
            }
        }
    }
}

fn gone(path: &str) -> Error {
    Error::Missing {
        what: path.into(),
        why: "the cgroup was removed".into(),
        hint: "a new group of this name is managed again".into(),
    }
}

/// On or off, as the kernel shows and accepts it: some files in words, some in letters, some in digits.
fn switch(text: &str) -> Option<bool> {
    match text.trim() {
        "1" | "Y" | "y" | "true" => Some(true),
        "0" | "N" | "n" | "false" => Some(false),
        _ => None,
    }
}

/// True if two texts are the same value for the kernel.
pub(super) fn same(a: &str, b: &str) -> bool {
    let switches = switch(a).zip(switch(b));
    switches.map_or_else(|| a.split_whitespace().eq(b.split_whitespace()), |(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_compare_as_the_kernel_means_them() {
        assert!(same("N", "0") && same("1\n", "Y") && same("a  b", "a b") && !same("1", "2"));
        assert!(same("false", "0") && same("true\n", "1") && !same("true", "0"));
    }

    #[test]
    fn only_listed_settings_and_their_legal_values_are_written() {
        let fake = crate::cgroup::tests::Fake::new();
        fake.group("a.service", &[]);
        let may = |path: &str, value: &str| check(&fake.root, path, value).is_ok();
        for (path, value) in [
            ("/proc/sys/kernel/numa_balancing", "2"),
            ("/sys/kernel/mm/numa/demotion_enabled", "false"),
            ("/sys/kernel/mm/damon/admin/kdamonds/0/state", "off"),
            ("/sys/bus/pci/devices/0000:3a:00.0/enable", "0"),
            ("/sys/fs/cgroup/a.service/cpu.max", "max 100000"),
        ] {
            assert!(may(path, value), "{path} {value}");
        }
        for (path, value) in [
            ("/proc/sys/kernel/numa_balancing", "5"),
            ("/proc/sys/kernel/numa_balancing", "0\n2"),
            ("/proc/sys/kernel/numa_balancing", ""),
            ("/proc/sys/kernel/core_pattern", "|/tmp/x"),
            ("/proc/sys/kernel/../kernel/numa_balancing", "0"),
            ("/proc/self/root/etc/passwd", "0"),
            ("/proc/1/root/etc/passwd", "0"),
            ("/sys/kernel/mm/numa/demotion_enabled", "maybe"),
            ("/sys/kernel/mm/damon/admin/kdamonds/0/state", "commit"),
            ("/sys/bus/pci/devices/../drivers/x/enable", "0"),
            ("/sys/bus/pci/devices/0000:3a:00.0/remove", "1"),
            ("/sys/fs/cgroup/a.service/cgroup.procs", "1"),
            ("/sys/fs/cgroup/a.service/cpu.max", "max 5"),
            ("/etc/shadow", "0"),
        ] {
            assert!(!may(path, value), "{path} {value:?}");
        }
    }
}
