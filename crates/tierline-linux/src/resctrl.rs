// SPDX-License-Identifier: Apache-2.0
//! The bandwidth of applications, from the kernel's resource control (Intel RDT, AMD QoS): memory bandwidth monitoring.
//!
//! Each application gets a monitoring group, into which its threads are moved; threads and processes that they start
//! later are in it, too. A thread that is in a group of the operator's stays there, and is not measured. Groups limit
//! nothing. They are removed at the end, and those of a killed manager by [`sweep`]. The kernel's documentation:
//! `filesystems/resctrl.rst`.

use std::collections::BTreeMap;

use tierline_core::unit::{BytesPerSec, Nanos};

use crate::error::{Error, Result};
use crate::root::Root;

/// Where it is mounted.
pub const MOUNT: &str = "/sys/fs/resctrl";
const GROUPS: &str = "/sys/fs/resctrl/mon_groups";
/// Begins the names of our groups; our pid and a number follow.
const NAME: &str = "tierline-";
/// Time between readings: the period of the controller.
const READ_EVERY: Nanos = Nanos::from_millis(200);
/// Time between searches for threads that are not in their group: those of processes that became managed. Ours.
const SEARCH_EVERY: Nanos = Nanos::from_secs(2);

/// The monitoring groups of all applications, by the index of their tenants.
#[derive(Debug)]
pub struct BandwidthMonitor {
    root: Root,
    own: BTreeMap<usize, Monitored>,
    read: Option<Nanos>,
    searched: Option<Nanos>,
}

#[derive(Debug, Default)]
struct Monitored {
    /// Its group; `None` before its first thread was found.
    group: Option<String>,
    last: Option<(Nanos, u64)>,
    rate: Option<BytesPerSec>,
    /// Its problem was reported: it is not tried again.
    failed: bool,
}

/// Whether this kernel measures bandwidth, and the file system is mounted.
pub fn is_available(root: &Root) -> bool {
    let features = root.read(format!("{MOUNT}/info/L3_MON/mon_features")).unwrap_or_default();
    features.lines().any(|feature| feature == "mbm_total_bytes")
}

/// Whether the processor could measure bandwidth, but the file system is not mounted.
pub fn is_unmounted(root: &Root) -> bool {
    let cpu = root.read("/proc/cpuinfo").unwrap_or_default();
    let flags = cpu.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    flags.split(' ').any(|flag| flag == "cqm_mbm_total")
        && !root.exists(format!("{MOUNT}/schemata"))
}

/// Removes the groups of managers that were killed.
pub fn sweep(root: &Root) {
    for name in root.list(GROUPS) {
        let manager = name.strip_prefix(NAME).and_then(|rest| rest.split('-').next());
        let pid = manager.and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| root.is_missing(format!("/proc/{pid}"))) {
            let _ = std::fs::remove_dir(root.path(format!("{GROUPS}/{name}")));
        }
    }
}

impl BandwidthMonitor {
    /// Of no application yet; `None` if the machine cannot measure it.
    pub fn open(root: &Root) -> Option<Self> {
        let new = || Self { root: root.clone(), own: BTreeMap::new(), read: None, searched: None };
        is_available(root).then(new)
    }

    /// Measures one more application.
    pub fn watch(&mut self, tenant: usize) {
        self.own.entry(tenant).or_default();
        self.searched = None;
    }

    /// Forgets a tenant that was removed.
    pub fn forget(&mut self, tenant: usize) {
        if let Some(group) = self.own.remove(&tenant).and_then(|own| own.group) {
            self.remove(&group);
        }
    }

    /// Bytes that a tenant read and wrote per second, of all tiers; `None` if that was not measured.
    pub fn of(&self, tenant: usize) -> Option<BytesPerSec> {
        self.own.get(&tenant)?.rate
    }

    /// Reads what all applications moved, if due. `processes` are those of a tenant.
    pub fn refresh(
        &mut self,
        now: Nanos,
        processes: impl Fn(usize) -> Vec<u32>,
        problems: &mut Vec<Error>,
    ) {
        if self.searched.is_none_or(|at| now >= at + SEARCH_EVERY) {
            self.searched = Some(now);
            for (&tenant, own) in &mut self.own {
                if !own.failed
                    && let Err(problem) = own.take_threads(&self.root, tenant, &processes(tenant))
                {
                    own.failed = true;
                    problems.push(problem);
                }
            }
        }
        if self.read.is_none_or(|at| now >= at + READ_EVERY) {
            self.read = Some(now);
            self.own.values_mut().for_each(|own| own.read(now, &self.root));
        }
    }

    fn remove(&self, group: &str) {
        // Its threads return to the default group. If it is gone already, that is well.
        let _ = std::fs::remove_dir(self.root.path(group));
    }
}

impl Drop for BandwidthMonitor {
    fn drop(&mut self) {
        self.own.values().filter_map(|own| own.group.as_ref()).for_each(|group| self.remove(group));
    }
}

impl Monitored {
    /// Moves the threads of these processes that are in no group of their own into the application's.
    fn take_threads(&mut self, root: &Root, tenant: usize, processes: &[u32]) -> Result<()> {
        for &pid in processes {
            let Some(threads) = free_threads(root, pid) else { continue };
            let group = match &self.group {
                Some(group) => group.clone(),
                None => create(root, tenant)?,
            };
            self.group = Some(group.clone());
            for thread in threads {
                // A thread that has ended, or is in another control group meanwhile, is not measured.
                let _ = root.write(format!("{group}/tasks"), &format!("{thread}\n"));
            }
        }
        Ok(())
    }

    fn read(&mut self, now: Nanos, root: &Root) {
        let total = self.group.as_ref().and_then(|group| total(root, group));
        self.rate = match (self.last, total) {
            (Some((at, before)), Some(total)) if at < now => {
                let seconds = now.saturating_sub(at).as_secs_f64();
                #[expect(clippy::cast_precision_loss, reason = "the bytes of one period")]
                let rate = total.saturating_sub(before) as f64 / seconds;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a bandwidth"
                )]
                Some(BytesPerSec(rate as u64))
            }
            _ => None,
        };
        self.last = total.map(|total| (now, total));
    }
}

/// The threads of a process; `None` if it is in a group already, ours or the operator's.
fn free_threads(root: &Root, pid: u32) -> Option<Vec<u32>> {
    // Kernels before 5.6 do not say; there, a thread of a control group cannot be moved anyway.
    if let Ok(groups) = root.read(format!("/proc/{pid}/cpu_resctrl_groups"))
        && groups.lines().any(|line| !["res:/", "mon:"].contains(&line.trim()))
    {
        return None;
    }
    let threads = root.list(format!("/proc/{pid}/task"));
    Some(threads.iter().filter_map(|thread| thread.parse().ok()).collect())
}

fn create(root: &Root, tenant: usize) -> Result<String> {
    let group = format!("{GROUPS}/{NAME}{}-{tenant}", std::process::id());
    match std::fs::create_dir(root.path(&group)) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(Error::Missing {
            what: "measuring the bandwidth of an application".into(),
            why: format!("{GROUPS}: {error}"),
            hint: "there is a limited number of groups: remove those that nobody needs".into(),
        }),
        _ => Ok(group),
    }
}

/// Bytes since the group was created, of all last-level caches; `None` if one of them is not counted at present.
fn total(root: &Root, group: &str) -> Option<u64> {
    let caches = root.list(format!("{group}/mon_data"));
    let caches: Vec<&String> = caches.iter().filter(|name| name.starts_with("mon_L3_")).collect();
    let bytes = caches.iter().map(|cache| {
        let counter = format!("{group}/mon_data/{cache}/mbm_total_bytes");
        root.read(counter).ok()?.trim().parse::<u64>().ok()
    });
    if caches.is_empty() { None } else { bytes.sum() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::tests::Fake;

    /// A machine with two last-level caches, and one process of two threads.
    fn machine() -> (Fake, String) {
        let fake = Fake::new();
        fake.put(&format!("{MOUNT}/info/L3_MON/mon_features"), "llc_occupancy\nmbm_total_bytes\n");
        fake.put("/proc/70/cpu_resctrl_groups", "res:/\nmon:\n");
        fake.put("/proc/70/task/70/stat", "");
        fake.put("/proc/70/task/71/stat", "");
        let group = format!("{GROUPS}/{NAME}{}-3", std::process::id());
        fake.put(&format!("{group}/tasks"), "");
        moved(&fake, &group, ["0", "0"]);
        (fake, group)
    }

    fn moved(fake: &Fake, group: &str, bytes: [&str; 2]) {
        for (cache, bytes) in bytes.into_iter().enumerate() {
            fake.put(&format!("{group}/mon_data/mon_L3_0{cache}/mbm_total_bytes"), bytes);
        }
    }

    fn read(monitor: &mut BandwidthMonitor, millis: u64) -> Option<u64> {
        let mut problems = Vec::new();
        monitor.refresh(Nanos::from_millis(millis), |_| vec![70], &mut problems);
        assert!(problems.is_empty(), "{problems:?}");
        monitor.of(3).map(|rate| rate.0)
    }

    #[test]
    fn the_bytes_of_all_caches_are_counted() {
        let (fake, group) = machine();
        let mut monitor = BandwidthMonitor::open(&fake.root).expect("it can be measured");
        monitor.watch(3);
        assert_eq!(read(&mut monitor, 1_000), None);
        assert_eq!(fake.root.read(format!("{group}/tasks")).expect("its threads"), "71");
        moved(&fake, &group, ["600000", "400000"]);
        assert_eq!(read(&mut monitor, 1_100), None, "not due");
        assert_eq!(read(&mut monitor, 1_500), Some(2_000_000));
        moved(&fake, &group, ["Unavailable", "400000"]);
        assert_eq!(read(&mut monitor, 2_000), None, "a counter without a value");
        assert_eq!(monitor.of(4), None);
    }

    #[test]
    fn threads_in_a_group_of_the_operator_stay_there() {
        let (fake, group) = machine();
        for other in ["res:/\nmon:backup\n", "res:batch\nmon:\n"] {
            fake.put("/proc/70/cpu_resctrl_groups", other);
            let mut monitor = BandwidthMonitor::open(&fake.root).expect("it can be measured");
            monitor.watch(3);
            assert_eq!(read(&mut monitor, 1_000), None);
            assert_eq!(fake.root.read(format!("{group}/tasks")).expect("a file"), "");
        }
    }

    #[test]
    fn groups_end_with_their_tenant_and_with_their_manager() {
        let fake = Fake::new();
        fake.put(&format!("{MOUNT}/info/L3_MON/mon_features"), "mbm_total_bytes\n");
        fake.put("/proc/70/task/70/stat", "");
        fake.put(&format!("{GROUPS}/other/tasks"), "");
        let group =
            |tenant| fake.root.path(format!("{GROUPS}/{NAME}{}-{tenant}", std::process::id()));
        let mut monitor = BandwidthMonitor::open(&fake.root).expect("it can be measured");
        [3, 4].into_iter().for_each(|tenant| monitor.watch(tenant));
        read(&mut monitor, 1_000);
        let empty = |tenant| drop(std::fs::remove_file(group(tenant).join("tasks")));
        [3, 4].into_iter().for_each(empty); // what only the kernel removes with the folder
        monitor.forget(3);
        assert!(!group(3).exists() && group(4).exists());
        drop(monitor);
        assert!(!group(4).exists());
        // 4000000 is above the highest pid.
        let dead = fake.root.path(format!("{GROUPS}/{NAME}4000000-1"));
        std::fs::create_dir(&dead).expect("a folder");
        sweep(&fake.root);
        assert!(!dead.exists() && fake.root.exists(format!("{GROUPS}/other")));
    }

    #[test]
    fn machines_without_it_are_recognised() {
        let fake = Fake::new();
        assert!(!is_available(&fake.root) && !is_unmounted(&fake.root));
        fake.put("/proc/cpuinfo", "processor : 0\nflags : fpu cqm_mbm_total avx\n");
        assert!(is_unmounted(&fake.root), "the processor has it");
        fake.put(&format!("{MOUNT}/schemata"), "L3:0=fff\n");
        assert!(!is_unmounted(&fake.root));
        assert!(BandwidthMonitor::open(&fake.root).is_none(), "no bandwidth monitoring");
    }
}
