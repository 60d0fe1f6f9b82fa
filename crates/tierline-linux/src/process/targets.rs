// SPDX-License-Identifier: Apache-2.0
//! The set of managed processes; it follows forks, execs and exits.

use std::collections::{BTreeMap, BTreeSet};

use regex_lite::Regex;
use tierline_core::unit::Bytes;

use super::limits::{MOST_TARGETS, too_many};
use super::stat::{Stat, children, pids};
use crate::cgroup::{Cgroups, NameState};
use crate::error::{Error, Result};
use crate::root::Root;

/// The most unknown processes examined in one refresh; the rest follows in the next ones.
const SCAN_LIMIT: usize = 2048;

/// What the user wants managed: processes that match any of these fields.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Processes by pid, including that of a launched command.
    pub pids: Vec<u32>,
    /// Control groups, absolute or relative to their mount point (`/sys/fs/cgroup`), with those below them.
    pub cgroups: Vec<String>,
    /// Processes whose name (at most 15 bytes) matches.
    pub comm: Option<Regex>,
    /// True if their children are managed too.
    pub children: bool,
    /// A process is managed once it has this much resident memory; it stays managed when it shrinks.
    pub min_rss: Bytes,
}

impl Default for Selection {
    /// Selects nothing; children are followed.
    fn default() -> Self {
        Self {
            pids: Vec::new(),
            cgroups: Vec::new(),
            comm: None,
            children: true,
            min_rss: Bytes::ZERO,
        }
    }
}

/// The changes found by a refresh. An exec shows as gone and appeared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetChanges {
    /// Managed from now on.
    pub appeared: Vec<u32>,
    /// No longer there, or no longer selected.
    pub gone: Vec<u32>,
    /// Submitted control groups that were removed, by index.
    pub removed_groups: Vec<usize>,
    /// Submitted control groups that were removed and made anew, by index.
    pub replaced: Vec<usize>,
}

/// A known process, managed or still too small.
#[derive(Clone, Debug)]
struct Known {
    stat: Stat,
    managed: bool,
}

/// The managed processes.
#[derive(Debug)]
pub struct Targets {
    selection: Selection,
    /// Our own children that are not held yet. Until we wait for them, nobody else gets their numbers.
    launched: Vec<u32>,
    groups: Cgroups,
    known: BTreeMap<u32, Known>,
    /// Processes selected only through a control group: they are dropped when they leave it.
    by_cgroup: BTreeSet<u32>,
    /// The innermost submitted control group of each process that is in one.
    in_groups: BTreeMap<u32, usize>,
    /// Submitted control groups that do not exist at present.
    missing: BTreeSet<usize>,
    /// Where the bounded scan of `/proc` continues.
    cursor: u32,
    /// Processes that are not managed, until it is reported; once.
    left_out: Option<Error>,
    has_told: bool,
}

impl Targets {
    /// Checks that the selection exists and may be managed. Call [`Targets::refresh`] next.
    ///
    /// # Errors
    /// `Error::Input` names the pid or control group and what is wrong with it; `Error::Missing` if `/proc`
    /// cannot be read.
    pub fn new(selection: Selection, root: &Root) -> Result<Self> {
        if pids(root).is_empty() {
            return Err(Error::Missing {
                what: "/proc".into(),
                why: "it lists no process".into(),
                hint: "mount it: mount -t proc proc /proc".into(),
            });
        }
        selection.pids.iter().try_for_each(|&pid| check_pid(root, pid))?;
        let groups = Cgroups::open(root, &selection.cgroups)?;
        Ok(Self {
            selection,
            launched: Vec::new(),
            groups,
            known: BTreeMap::new(),
            by_cgroup: BTreeSet::new(),
            in_groups: BTreeMap::new(),
            missing: BTreeSet::new(),
            cursor: 0,
            left_out: None,
            has_told: false,
        })
    }

    /// Adds a process that we launched.
    pub fn add(&mut self, pid: u32) {
        self.launched.push(pid);
    }

    /// Adds a control group, with those below it; returns its index.
    ///
    /// # Errors
    /// Those of [`Cgroups::add`].
    pub fn add_group(&mut self, root: &Root, named: &str) -> Result<usize> {
        self.groups.add(root, named)
    }

    /// The submitted control groups.
    pub fn groups(&self) -> &Cgroups {
        &self.groups
    }

    /// The index of the innermost submitted control group of a process.
    pub fn group_of(&self, pid: u32) -> Option<usize> {
        self.in_groups.get(&pid).copied()
    }

    /// The last known state of a selected process, whether managed or still too small.
    pub fn stat(&self, pid: u32) -> Option<&Stat> {
        self.known.get(&pid).map(|known| &known.stat)
    }

    /// The managed processes, ascending.
    pub fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.known.iter().filter(|(_, known)| known.managed).map(|(pid, _)| *pid)
    }

    /// Updates the set. Reads one file per known process, and at most 2048 more if all of `/proc` must be
    /// searched (a name is selected, or the kernel does not list children), so the cost stays bounded on a
    /// machine with many processes.
    pub fn refresh(&mut self, root: &Root) -> TargetChanges {
        let mut changes = TargetChanges::default();
        self.drop_the_gone(root, &mut changes);
        self.follow_cgroups(root, &mut changes);
        let is_held = |pid: &mut u32| root.hold(*pid).is_ok();
        self.selection.pids.extend(self.launched.extract_if(.., is_held));
        // A number that was chosen stands for one process, and for none after its end.
        self.selection.pids.retain(|&pid| {
            let runs = root.process(pid).is_some();
            if !runs {
                root.release(pid);
            }
            runs
        });
        for pid in self.selection.pids.clone() {
            self.consider(root, pid);
        }
        let listed = self.follow_children(root);
        if self.selection.comm.is_some() || !listed {
            self.scan(root, listed);
        }
        self.take_up(&mut changes);
        changes
    }

    fn drop_the_gone(&mut self, root: &Root, changes: &mut TargetChanges) {
        for pid in self.known.keys().copied().collect::<Vec<_>>() {
            let now = root.process(pid).and_then(|held| Stat::of(&held));
            let Some(known) = self.known.get_mut(&pid) else { continue };
            match now {
                Some(stat) if stat.same_run(&known.stat) => known.stat = stat,
                // The old program's pages are gone, but the process is still selected.
                Some(stat) if stat.start == known.stat.start => {
                    if known.managed {
                        changes.gone.push(pid);
                    }
                    *known = Known { stat, managed: false };
                }
                _ => self.forget(root, pid, changes),
            }
        }
    }

    fn forget(&mut self, root: &Root, pid: u32, changes: &mut TargetChanges) {
        if !self.selection.pids.contains(&pid) {
            root.release(pid);
        }
        self.by_cgroup.remove(&pid);
        if self.known.remove(&pid).is_some_and(|known| known.managed) {
            changes.gone.push(pid);
        }
    }

    fn follow_cgroups(&mut self, root: &Root, changes: &mut TargetChanges) {
        if self.groups.is_empty() {
            return;
        }
        // A service that stops and starts again is followed into its new group.
        let looks = self.groups.check_names();
        let are = |wanted: NameState| {
            looks.iter().filter(move |(_, standing)| *standing == wanted).map(|(at, _)| *at)
        };
        changes.replaced.extend(are(NameState::Replaced));
        let gone: BTreeSet<usize> = are(NameState::Gone).collect();
        changes.removed_groups.extend(gone.difference(&self.missing));
        self.missing = gone;
        self.in_groups = self.groups.processes();
        let left: Vec<u32> = self
            .by_cgroup
            .iter()
            .copied()
            .filter(|pid| !self.in_groups.contains_key(pid))
            .collect();
        for pid in left {
            self.forget(root, pid, changes);
        }
        for pid in self.in_groups.keys().copied().collect::<Vec<_>>() {
            if !self.known.contains_key(&pid) && self.consider(root, pid) {
                self.by_cgroup.insert(pid);
            }
        }
    }

    /// Adds a process to the known ones; false if it cannot be managed.
    fn consider(&mut self, root: &Root, pid: u32) -> bool {
        if self.known.contains_key(&pid) {
            return true;
        }
        self.consider_if(root, pid, |_| true)
    }

    /// The same, if the process that is held then `fits`: the number may have passed on since it was found.
    fn consider_if(&mut self, root: &Root, pid: u32, fits: impl FnOnce(&Stat) -> bool) -> bool {
        if self.known.len() >= MOST_TARGETS {
            self.leave_out(None);
            return false;
        }
        let held = match root.hold(pid) {
            Ok(held) => held,
            Err(error) => {
                let is_full = matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
                self.leave_out(is_full.then_some(error));
                return false;
            }
        };
        let stat = Stat::of(&held).filter(|stat| {
            !stat.is_kernel_thread && stat.pid == pid && pid != std::process::id() && fits(stat)
        });
        match stat {
            Some(stat) => drop(self.known.insert(pid, Known { stat, managed: false })),
            None => root.release(pid),
        }
        self.known.contains_key(&pid)
    }

    fn leave_out(&mut self, error: Option<std::io::Error>) {
        let bites = error.is_some() || self.known.len() >= MOST_TARGETS;
        if bites && !std::mem::replace(&mut self.has_told, true) {
            self.left_out = Some(too_many(error.as_ref()));
        }
    }

    /// Takes the report of processes that are not managed, once.
    pub fn take_left_out(&mut self) -> Option<Error> {
        self.left_out.take()
    }

    /// Adds the descendants of the known processes. False if the kernel does not list children.
    fn follow_children(&mut self, root: &Root) -> bool {
        let mut waiting: Vec<u32> = match self.selection.children {
            true => {
                self.known.keys().copied().filter(|pid| !self.by_cgroup.contains(pid)).collect()
            }
            false => Vec::new(),
        };
        while let Some(pid) = waiting.pop() {
            let Some(held) = root.process(pid) else { continue };
            let Some(children) = children(&held) else { return false };
            for child in children {
                let is_child = |stat: &Stat| stat.parent == pid;
                if !self.known.contains_key(&child) && self.consider_if(root, child, is_child) {
                    waiting.push(child);
                }
            }
        }
        true
    }

    /// Searches a part of `/proc` for selected names and, if `listed` is false, for children.
    fn scan(&mut self, root: &Root, listed: bool) {
        let all = pids(root);
        let from = all.partition_point(|pid| *pid < self.cursor);
        let part: Vec<u32> = all[from..].iter().take(SCAN_LIMIT).copied().collect();
        self.cursor =
            if from + part.len() == all.len() { 0 } else { part.last().map_or(0, |p| p + 1) };
        for pid in part {
            if self.known.contains_key(&pid) {
                continue;
            }
            let Ok(stat) = Stat::read(root, pid) else { continue };
            let named = self.selection.comm.as_ref().is_some_and(|comm| comm.is_match(&stat.comm));
            let child = !listed && self.selection.children && self.known.contains_key(&stat.parent);
            if named || child {
                self.consider_if(root, pid, |now| now.same_run(&stat));
            }
        }
    }

    fn take_up(&mut self, changes: &mut TargetChanges) {
        for (pid, known) in &mut self.known {
            if !known.managed && known.stat.rss >= self.selection.min_rss {
                known.managed = true;
                changes.appeared.push(*pid);
            }
        }
    }
}

fn wrong(what: &'static str, found: impl ToString, why: impl Into<String>) -> Error {
    Error::Input { what, found: found.to_string(), why: why.into() }
}

fn check_pid(root: &Root, pid: u32) -> Result<()> {
    let held = root.hold(pid).ok();
    let Some((held, stat)) = held.and_then(|held| Some((held.clone(), Stat::of(&held)?))) else {
        return Err(wrong("pid", pid, "there is no such process"));
    };
    if stat.is_kernel_thread {
        return Err(wrong("pid", pid, format!("{} is a kernel thread", stat.comm)));
    }
    if pid == std::process::id() {
        return Err(wrong("pid", pid, "this is Tierline itself"));
    }
    match held.open_read("maps") {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Err(wrong(
            "pid",
            pid,
            "it belongs to another user: run as its user or as root (CAP_SYS_PTRACE)",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::stat::tests::text;
    use super::*;
    use std::fs;

    struct Fake {
        _dir: tempfile::TempDir,
        root: Root,
    }

    impl Fake {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a temporary folder");
            let fake = Self { root: Root::at(dir.path()), _dir: dir };
            let mount = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
            fake.put("/proc/self/mountinfo", mount);
            fake
        }

        fn put(&self, path: &str, text: &str) {
            let real = self.root.path(path);
            fs::create_dir_all(real.parent().expect("a parent")).expect("a folder");
            fs::write(real, text).expect("a file");
        }

        fn process(&self, pid: u32, comm: &str, parent: u32, rss: u64, image: u64) {
            self.put(
                &format!("/proc/{pid}/stat"),
                &text(pid, comm, parent, u64::from(pid), rss, image),
            );
            self.put(&format!("/proc/{pid}/maps"), "");
        }

        fn end(&self, pid: u32) {
            fs::remove_dir_all(self.root.path(format!("/proc/{pid}"))).expect("an end");
        }
    }

    fn refresh(targets: &mut Targets, fake: &Fake) -> (Vec<u32>, Vec<u32>) {
        let changes = targets.refresh(&fake.root);
        (changes.appeared, changes.gone)
    }

    #[test]
    fn children_execs_and_exits_are_followed() {
        let fake = Fake::new();
        fake.process(10, "app", 1, 5, 1);
        fake.put("/proc/10/task/10/children", "11 ");
        fake.process(11, "worker", 10, 5, 1);
        fake.put("/proc/11/task/11/children", "");
        let selection = Selection { pids: vec![10], ..Selection::default() };
        let mut targets = Targets::new(selection, &fake.root).expect("targets");
        assert_eq!(refresh(&mut targets, &fake), (vec![10, 11], vec![]));
        assert_eq!(refresh(&mut targets, &fake), (vec![], vec![]));
        fake.process(11, "other", 10, 5, 2);
        assert_eq!(
            refresh(&mut targets, &fake),
            (vec![11], vec![11]),
            "an exec: gone and appeared"
        );
        fake.end(10);
        fake.process(11, "other", 1, 5, 2);
        assert_eq!(refresh(&mut targets, &fake), (vec![], vec![10]), "the orphan stays");
        assert_eq!(targets.pids().collect::<Vec<_>>(), [11]);
    }

    #[test]
    fn a_recycled_number_is_never_managed() {
        let fake = Fake::new();
        for pid in [10, 20] {
            fake.process(pid, "app", 1, 5, 1);
        }
        let selection = Selection { pids: vec![10, 20], ..Selection::default() };
        let mut targets = Targets::new(selection.clone(), &fake.root).expect("targets");
        assert_eq!(refresh(&mut targets, &fake), (vec![10, 20], vec![]));
        fake.end(10);
        fake.process(10, "stranger", 1, 5, 1);
        assert_eq!(refresh(&mut targets, &fake), (vec![], vec![10]));
        assert_eq!(refresh(&mut targets, &fake), (vec![], vec![]));
        assert_eq!(targets.pids().collect::<Vec<_>>(), [20]);
        assert!(fake.root.process(10).is_none(), "nothing is done to it");
        // It dies between the check of the command line and the start of the manager.
        fake.end(20);
        fake.process(20, "stranger", 1, 5, 1);
        let error = Targets::new(selection, &fake.root).map(|_| ()).expect_err("gone");
        assert!(error.to_string().contains("no such process"), "{error}");
    }

    #[test]
    fn the_number_of_processes_is_bounded_and_that_is_said_once() {
        let fake = Fake::new();
        let count = u32::try_from(MOST_TARGETS).expect("few") + 2;
        fake.put("/sys/fs/cgroup/a/cgroup.procs", "");
        let selection = Selection { cgroups: vec!["a".into()], ..Selection::default() };
        fake.process(1, "init", 0, 5, 1);
        let mut targets = Targets::new(selection, &fake.root).expect("targets");
        let known = |pid| Known {
            stat: Stat::parse(&text(pid, "x", 1, 1, 1, 1)).expect("it"),
            managed: true,
        };
        targets.known = (2..count).map(|pid| (pid, known(pid))).collect();
        assert!(!targets.consider(&fake.root, 1));
        let told = targets.take_left_out().expect("told").to_string();
        assert!(told.contains("4096 are managed already"), "{told}");
        assert!(!targets.consider(&fake.root, 1) && targets.take_left_out().is_none());
    }

    #[test]
    fn a_process_that_leaves_its_group_stays_managed_by_its_number() {
        let fake = Fake::new();
        fake.process(22, "sh", 1, 5, 1);
        fake.put("/sys/fs/cgroup/a/cgroup.procs", "22\n");
        let selection =
            Selection { pids: vec![22], cgroups: vec!["a".into()], ..Selection::default() };
        let mut targets = Targets::new(selection, &fake.root).expect("targets");
        assert_eq!(refresh(&mut targets, &fake), (vec![22], vec![]));
        fake.put("/sys/fs/cgroup/a/cgroup.procs", "");
        refresh(&mut targets, &fake);
        assert_eq!(targets.pids().collect::<Vec<_>>(), [22]);
    }

    #[test]
    fn without_a_children_file_parents_are_used() {
        let fake = Fake::new();
        fake.process(10, "app", 1, 5, 1);
        fs::create_dir_all(fake.root.path("/proc/10/task/10")).expect("a thread");
        fake.process(12, "worker", 10, 5, 1);
        fake.process(13, "stranger", 1, 5, 1);
        let selection = Selection { pids: vec![10], ..Selection::default() };
        let mut targets = Targets::new(selection, &fake.root).expect("targets");
        assert_eq!(refresh(&mut targets, &fake), (vec![10, 12], vec![]));
    }

    #[test]
    fn names_control_groups_and_sizes_select() {
        let fake = Fake::new();
        fake.process(20, "redis-server", 1, 100, 1);
        fake.process(21, "redis-cli", 1, 1, 1);
        fake.process(22, "sh", 1, 100, 1);
        fake.put("/sys/fs/cgroup/a/cgroup.procs", "");
        fake.put("/sys/fs/cgroup/a/b/cgroup.procs", "22\n");
        let selection = Selection {
            cgroups: vec!["a".into()],
            comm: Some(Regex::new("^redis").expect("a regex")),
            min_rss: Bytes::from_base_pages(50),
            ..Selection::default()
        };
        let mut targets = Targets::new(selection, &fake.root).expect("targets");
        assert_eq!(refresh(&mut targets, &fake), (vec![20, 22], vec![]));
        fake.put("/sys/fs/cgroup/a/b/cgroup.procs", "");
        fake.process(21, "redis-cli", 1, 60, 1);
        assert_eq!(refresh(&mut targets, &fake), (vec![21], vec![22]));
    }

    #[test]
    fn an_invalid_selection_is_explained() {
        let fake = Fake::new();
        let try_pid = |pid| {
            let selection = Selection { pids: vec![pid], ..Selection::default() };
            Targets::new(selection, &fake.root).map(|_| ()).expect_err("bad").to_string()
        };
        assert!(try_pid(9).contains("/proc"));
        fake.process(std::process::id(), "tierline", 1, 5, 1);
        assert!(try_pid(999_999).contains("no such process"));
        assert!(try_pid(std::process::id()).contains("itself"));
        let kthread =
            text(2, "kthreadd", 0, 1, 0, 0).replacen("S 0 0 0 0 0 0 ", "S 0 0 0 0 0 2129984 ", 1);
        fake.put("/proc/2/stat", &kthread);
        assert!(try_pid(2).contains("kernel"), "{}", try_pid(2));
        let selection = Selection { cgroups: vec!["none".into()], ..Selection::default() };
        let error = Targets::new(selection, &fake.root).map(|_| ()).expect_err("bad").to_string();
        assert!(error.contains("/sys/fs/cgroup/none"), "{error}");
    }
}
