// SPDX-License-Identifier: Apache-2.0
//! The set of managed processes; it follows forks, execs and exits.

use std::collections::{BTreeMap, BTreeSet};

use tierline_core::unit::Bytes;

use super::Held;
use super::limits::{MOST_TARGETS, too_many};
use super::rule::{Candidate, NamedRule};
use super::stat::{Stat, children, pids};
use crate::cgroup::{Cgroups, NameState};
use crate::error::{Error, Result};
use crate::root::Root;

/// The most unknown processes examined in one refresh; the rest follows in the next ones.
const SCAN_LIMIT: usize = 2048;
/// A process that no rule matches is examined in this many refreshes after it was found, as it may still start its
/// program, and later in one of `LATER` refreshes.
const AT_FIRST: u8 = 2;
const LATER: usize = 10;

/// What the user wants managed: processes that match any of these fields.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Processes by pid, including that of a launched command.
    pub pids: Vec<u32>,
    /// Control groups, absolute or relative to their mount point (`/sys/fs/cgroup`), with those below them.
    pub cgroups: Vec<String>,
    /// Processes that match a rule.
    pub rules: Vec<NamedRule>,
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
            rules: Vec::new(),
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
    source: Source,
}

/// Why a process is managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// Its number was chosen.
    Number,
    /// It is in a submitted control group, and is dropped when it leaves it.
    Group,
    /// It matches a rule, until it starts another program.
    Rule(usize),
    /// Its parent is managed, because of a rule or not.
    Child(Option<usize>),
}

impl Source {
    fn rule(self) -> Option<usize> {
        match self {
            Self::Rule(at) | Self::Child(Some(at)) => Some(at),
            Self::Number | Self::Group | Self::Child(None) => None,
        }
    }
}

/// The managed processes.
#[derive(Debug)]
pub struct Targets {
    selection: Selection,
    /// Our own children that are not held yet. Until we wait for them, nobody else gets their numbers.
    launched: Vec<u32>,
    groups: Cgroups,
    /// Rules by index, which no other rule gets.
    rules: BTreeMap<usize, NamedRule>,
    next_rule: usize,
    /// True once rules were added or removed: all known processes are asked again.
    rules_changed: bool,
    known: BTreeMap<u32, Known>,
    /// The innermost submitted control group of each process that is in one.
    in_groups: BTreeMap<u32, usize>,
    /// Submitted control groups that do not exist at present.
    missing: BTreeSet<usize>,
    /// How often each process was examined that is not known.
    examined: BTreeMap<u32, u8>,
    /// Where the bounded scan of `/proc` continues.
    cursor: u32,
    /// Processes that are not managed, until it is reported; once.
    left_out: Option<Error>,
    has_told: bool,
    /// Pairs of rules that match one process, until it is reported; each pair once.
    doubts: Vec<Error>,
    doubted: BTreeSet<(usize, usize)>,
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
        let rules: BTreeMap<_, _> = selection.rules.iter().cloned().enumerate().collect();
        Ok(Self {
            next_rule: rules.len(),
            rules_changed: false,
            rules,
            selection,
            launched: Vec::new(),
            groups,
            known: BTreeMap::new(),
            in_groups: BTreeMap::new(),
            missing: BTreeSet::new(),
            examined: BTreeMap::new(),
            cursor: 0,
            left_out: None,
            has_told: false,
            doubts: Vec::new(),
            doubted: BTreeSet::new(),
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

    /// Removes a control group: its processes are no longer managed from the next refresh on.
    pub fn remove_group(&mut self, at: usize) {
        self.groups.remove(at);
        self.missing.remove(&at);
        self.examined.clear(); // a rule may match them
    }

    /// Adds a rule; returns its index.
    pub fn add_rule(&mut self, rule: NamedRule) -> usize {
        let at = self.next_rule;
        self.rules.insert(at, rule);
        self.next_rule += 1;
        self.rules_changed = true;
        self.examined.clear();
        at
    }

    /// Removes a rule: its processes are no longer managed from the next refresh on.
    pub fn remove_rule(&mut self, at: usize) {
        self.rules.remove(&at);
        self.doubted.retain(|(one, other)| *one != at && *other != at);
        self.rules_changed = true;
        self.examined.clear();
    }

    /// The index of the rule because of which a process is managed.
    pub fn rule_of(&self, pid: u32) -> Option<usize> {
        self.known.get(&pid)?.source.rule()
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
        self.rules_changed = false;
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
            self.consider(root, pid, Source::Number);
        }
        let listed = self.follow_children(root);
        if !self.rules.is_empty() || !listed {
            self.scan(root, listed);
        }
        self.take_up(&mut changes);
        changes
    }

    fn drop_the_gone(&mut self, root: &Root, changes: &mut TargetChanges) {
        for pid in self.known.keys().copied().collect::<Vec<_>>() {
            let held = root.process(pid);
            let now = held.as_ref().map(|held| Stat::try_of(held)).transpose();
            // A process that cannot be read now is still there.
            let Ok(now) = now.map(Option::flatten) else { continue };
            let source = self.source_of(pid, held.as_deref(), now.as_ref());
            let Some(known) = self.known.get_mut(&pid) else { continue };
            let Some(source) = source else {
                self.forget(root, pid, changes);
                continue;
            };
            match now {
                Some(stat) if stat.same_run(&known.stat) => {
                    (known.stat, known.source) = (stat, source)
                }
                // The old program's pages are gone, but the process is still selected.
                Some(stat) if stat.start == known.stat.start => {
                    if known.managed {
                        changes.gone.push(pid);
                    }
                    *known = Known { stat, managed: false, source };
                }
                _ => self.forget(root, pid, changes),
            }
        }
    }

    /// Why a known process is managed from now on: it may run another program, or the rules may be others. `None`: no
    /// longer.
    fn source_of(&mut self, pid: u32, held: Option<&Held>, now: Option<&Stat>) -> Option<Source> {
        let known = self.known.get(&pid)?;
        let (source, is_new) = (known.source, now.is_some_and(|now| !now.same_run(&known.stat)));
        let (Some(held), Some(now)) = (held, now) else { return Some(source) };
        let by_rules = !matches!(source, Source::Number | Source::Group);
        if !by_rules || !(is_new || self.rules_changed) {
            return Some(source);
        }
        if let Some(at) = self.rule_for(now, &|file| held.read_text(file).ok()) {
            return Some(Source::Rule(at));
        }
        let is_gone = source.rule().is_some_and(|at| !self.rules.contains_key(&at));
        let is_another = is_new && matches!(source, Source::Rule(_));
        (!is_gone && !is_another).then_some(source)
    }

    /// The rule that matches a process: one that names it, or of several the first by name, which is reported.
    fn rule_for(&mut self, stat: &Stat, file: &dyn Fn(&str) -> Option<String>) -> Option<usize> {
        let process = Candidate::new(stat, file);
        let matching = self.rules.iter().filter(|(_, named)| named.rule.matches(&process));
        let order =
            |(at, named): (&usize, &'_ NamedRule)| (!named.is_exact(), named.name.clone(), *at);
        let mut matching: Vec<_> = matching.map(order).collect();
        matching.sort_unstable();
        if let [(described, name, at), (also_described, other, second), ..] = &matching[..]
            && described == also_described
            && self.doubted.insert((*at, *second))
        {
            self.doubts.push(Error::Refused {
                what: format!("process {} ({})", stat.pid, stat.comm),
                why: format!("the rules of {name} and {other} match it: it belongs to {name}"),
                hint: "let only one of them match, as in not = { comm = \"NAME\" }".into(),
            });
        }
        matching.first().map(|(_, _, at)| *at)
    }

    /// Takes the reports of processes that several rules match.
    pub fn take_doubts(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.doubts)
    }

    fn forget(&mut self, root: &Root, pid: u32, changes: &mut TargetChanges) {
        if !self.selection.pids.contains(&pid) {
            root.release(pid);
        }
        if self.known.remove(&pid).is_some_and(|known| known.managed) {
            changes.gone.push(pid);
        }
    }

    fn follow_cgroups(&mut self, root: &Root, changes: &mut TargetChanges) {
        let is_member = |known: &Known| known.source == Source::Group;
        if self.groups.is_empty() && !self.known.values().any(is_member) {
            self.in_groups.clear();
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
        let members = self.known.iter().filter(|(_, known)| is_member(known));
        let left: Vec<u32> =
            members.map(|(pid, _)| *pid).filter(|pid| !self.in_groups.contains_key(pid)).collect();
        for pid in left {
            self.forget(root, pid, changes);
        }
        for pid in self.in_groups.keys().copied().collect::<Vec<_>>() {
            self.consider(root, pid, Source::Group);
        }
    }

    /// Adds a process to the known ones; false if it cannot be managed.
    fn consider(&mut self, root: &Root, pid: u32, source: Source) -> bool {
        if self.known.contains_key(&pid) {
            return true;
        }
        self.consider_if(root, pid, |_, _, _| Some(source))
    }

    /// The same, if the process that is held then has a `source`: the number may have passed on since it was found.
    fn consider_if(
        &mut self,
        root: &Root,
        pid: u32,
        source: impl FnOnce(&mut Self, &Held, &Stat) -> Option<Source>,
    ) -> bool {
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
        let stat = Stat::of(&held)
            .filter(|stat| !stat.is_kernel_thread && stat.pid == pid && pid != std::process::id());
        let found = stat.and_then(|stat| Some((source(self, &held, &stat)?, stat)));
        match found {
            Some((source, stat)) => {
                self.known.insert(pid, Known { stat, managed: false, source });
            }
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
                let own = self.known.iter().filter(|(_, known)| known.source != Source::Group);
                own.map(|(pid, _)| *pid).collect()
            }
            false => Vec::new(),
        };
        while let Some(pid) = waiting.pop() {
            let Some(held) = root.process(pid) else { continue };
            let Some(children) = children(&held) else { return false };
            for child in children {
                let of_parent = Source::Child(self.rule_of(pid));
                let source = |own: &mut Self, held: &Held, stat: &Stat| {
                    let rule = own.rule_for(stat, &|file| held.read_text(file).ok());
                    (stat.parent == pid).then(|| rule.map_or(of_parent, Source::Rule))
                };
                if !self.known.contains_key(&child) && self.consider_if(root, child, source) {
                    waiting.push(child);
                }
            }
        }
        true
    }

    /// Searches a part of `/proc` for processes that match a rule and, if `listed` is false, for children.
    fn scan(&mut self, root: &Root, listed: bool) {
        for pid in self.next_part(pids(root)) {
            let Ok(stat) = Stat::read(root, pid) else { continue };
            let file = |name: &str| root.read(format!("/proc/{pid}/{name}")).ok();
            let rule = if stat.is_kernel_thread { None } else { self.rule_for(&stat, &file) };
            let parent =
                self.known.get(&stat.parent).filter(|_| !listed && self.selection.children);
            let child = parent.map(|parent| Source::Child(parent.source.rule()));
            if rule.is_some() || child.is_some() {
                // The number may be another one's by now, so the process that is held is asked again.
                self.consider_if(root, pid, |own, held, now| {
                    let rule = own.rule_for(now, &|file| held.read_text(file).ok());
                    rule.map(Source::Rule).or(child).filter(|_| now.same_run(&stat))
                });
            }
        }
    }

    /// The processes to examine now: those that are new, and a part of the others, at most `SCAN_LIMIT`.
    fn next_part(&mut self, all: Vec<u32>) -> Vec<u32> {
        let unknown: Vec<u32> =
            all.into_iter().filter(|pid| !self.known.contains_key(pid)).collect();
        self.examined.retain(|pid, _| unknown.binary_search(pid).is_ok());
        let count = |pid: &u32| self.examined.get(pid).copied().unwrap_or(0);
        let (mut part, old): (Vec<u32>, Vec<u32>) =
            unknown.into_iter().partition(|pid| count(pid) < AT_FIRST);
        part.truncate(SCAN_LIMIT);
        let from = old.partition_point(|pid| *pid < self.cursor);
        let room = old.len().div_ceil(LATER).min(SCAN_LIMIT - part.len());
        let rest = &old[from..(from + room).min(old.len())];
        let is_end = from + rest.len() == old.len();
        self.cursor = if is_end { 0 } else { rest.last().map_or(self.cursor, |pid| pid + 1) };
        part.extend(rest);
        for pid in &part {
            let count = self.examined.entry(*pid).or_default();
            *count = count.saturating_add(1);
        }
        part
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
    use super::super::rule::Rule;
    use super::super::stat::tests::text;
    use super::*;
    use regex_lite::Regex;
    use std::fs;

    fn comm(name: &str, pattern: &str) -> NamedRule {
        let rule = Rule::Comm(Regex::new(pattern).expect("a pattern"));
        NamedRule { name: name.into(), rule }
    }

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

    /// A folder in the place of a file cannot be read.
    #[test]
    fn a_process_that_cannot_be_read_stays() {
        let fake = Fake::new();
        fake.process(10, "app", 1, 5, 1);
        let selection = Selection { pids: vec![10], ..Selection::default() };
        let mut targets = Targets::new(selection, &fake.root).expect("targets");
        assert_eq!(refresh(&mut targets, &fake), (vec![10], vec![]));
        let stat = fake.root.path("/proc/10/stat");
        fs::remove_file(&stat).expect("removed");
        fs::create_dir(&stat).expect("a folder");
        assert_eq!(refresh(&mut targets, &fake), (vec![], vec![]));
        fs::remove_dir(&stat).expect("removed");
        fake.process(10, "app", 1, 5, 1);
        assert_eq!(refresh(&mut targets, &fake), (vec![], vec![]), "it was managed all the time");
        fake.end(10);
        assert_eq!(refresh(&mut targets, &fake), (vec![], vec![10]));
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
            source: Source::Group,
        };
        targets.known = (2..count).map(|pid| (pid, known(pid))).collect();
        assert!(!targets.consider(&fake.root, 1, Source::Number));
        let told = targets.take_left_out().expect("told").to_string();
        assert!(told.contains("4096 are managed already"), "{told}");
        assert!(
            !targets.consider(&fake.root, 1, Source::Number) && targets.take_left_out().is_none()
        );
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
            rules: vec![comm("redis", "^redis")],
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
    fn rules_come_and_go_and_so_do_their_processes() {
        let fake = Fake::new();
        fake.process(20, "redis-server", 1, 5, 1);
        fake.put("/proc/20/task/20/children", "21 ");
        fake.process(21, "helper", 20, 5, 1);
        fake.put("/proc/21/task/21/children", "");
        fake.process(22, "sh", 1, 5, 1);
        let mut targets = Targets::new(Selection::default(), &fake.root).expect("targets");
        let twice =
            |targets: &mut Targets| [refresh(targets, &fake).0, refresh(targets, &fake).0].concat();
        assert_eq!(refresh(&mut targets, &fake), (vec![], vec![]));
        let redis = targets.add_rule(comm("redis", "^redis"));
        assert_eq!(twice(&mut targets), [20, 21], "then its child");
        assert_eq!([20, 21].map(|pid| targets.rule_of(pid)), [Some(redis); 2]);
        let helper = targets.add_rule(comm("helper", "^helper"));
        refresh(&mut targets, &fake);
        assert_eq!([20, 21].map(|pid| targets.rule_of(pid)), [Some(redis), Some(helper)]);
        targets.remove_rule(redis);
        assert_eq!(refresh(&mut targets, &fake), (vec![], vec![20]));
        assert_eq!(targets.rule_of(21), Some(helper));
        fake.process(21, "other", 20, 5, 2);
        assert_eq!(refresh(&mut targets, &fake), (vec![], vec![21]), "another program");
        assert_ne!(targets.add_rule(comm("redis", "^redis")), redis, "indices are not reused");
        assert_eq!(twice(&mut targets), [20, 21]);
        targets.selection.cgroups.clear();
        fake.put("/sys/fs/cgroup/a/cgroup.procs", "22\n");
        let group = targets.add_group(&fake.root, "a").expect("a group");
        assert_eq!(refresh(&mut targets, &fake), (vec![22], vec![]));
        targets.remove_group(group);
        assert_eq!(refresh(&mut targets, &fake), (vec![], vec![22]));
    }

    #[test]
    fn of_two_rules_the_first_by_name_has_the_process_and_that_is_said_once() {
        let fake = Fake::new();
        for pid in [20, 21] {
            fake.process(pid, "redis", 1, 5, 1);
        }
        let rules = vec![comm("second", "^red"), comm("first", "redis")];
        let selection = Selection { rules, ..Selection::default() };
        let mut targets = Targets::new(selection, &fake.root).expect("targets");
        assert_eq!(refresh(&mut targets, &fake).0, [20, 21]);
        assert_eq!([20, 21].map(|pid| targets.rule_of(pid)), [Some(1); 2]);
        let told: Vec<String> = targets.take_doubts().iter().map(ToString::to_string).collect();
        let expected =
            "process 20 (redis): the rules of first and second match it: it belongs to first";
        assert_eq!(told, [expected]);
    }

    #[test]
    fn a_rule_that_names_a_process_goes_before_others_and_ends_with_it() {
        let fake = Fake::new();
        for pid in [20, 21] {
            fake.process(pid, "redis", 1, 5, 1);
        }
        let rules = vec![comm("first", "redis")];
        let selection = Selection { rules, ..Selection::default() };
        let mut targets = Targets::new(selection, &fake.root).expect("targets");
        assert_eq!(refresh(&mut targets, &fake).0, [20, 21]);
        let one = Rule::Process { pid: 20, start: 20 };
        let rule = Rule::All(vec![Rule::Any(vec![one])]);
        let at = targets.add_rule(NamedRule { name: "zz".into(), rule });
        refresh(&mut targets, &fake);
        assert_eq!([20, 21].map(|pid| targets.rule_of(pid)), [Some(at), Some(0)]);
        assert!(targets.take_doubts().is_empty(), "it is meant so");
        // Another process has its number later, and no rule but the other one matches it.
        fake.put("/proc/20/stat", &text(20, "redis", 1, 99, 5, 1));
        refresh(&mut targets, &fake);
        refresh(&mut targets, &fake);
        assert_eq!(targets.rule_of(20), Some(0));
    }

    #[test]
    fn a_process_is_examined_when_it_is_new_and_then_rarely() {
        let fake = Fake::new();
        for pid in 100..200 {
            fake.process(pid, "sh", 1, 5, 1);
        }
        let selection = Selection { rules: vec![comm("redis", "^redis")], ..Selection::default() };
        let mut targets = Targets::new(selection, &fake.root).expect("targets");
        let all = || pids(&fake.root);
        assert_eq!([(); 3].map(|()| targets.next_part(all()).len()), [100, 100, 10]);
        fake.process(300, "sh", 1, 5, 1);
        assert_eq!(targets.next_part(all()).iter().filter(|pid| **pid == 300).count(), 1);
        let mut later: Vec<u32> = (0..11).flat_map(|_| targets.next_part(all())).collect();
        later.sort_unstable();
        later.dedup();
        assert_eq!(later.len(), 101, "all of them, in turn");
        fake.process(150, "redis", 1, 5, 1);
        for _ in 0..12 {
            targets.refresh(&fake.root);
        }
        assert_eq!(targets.pids().collect::<Vec<_>>(), [150]);
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
