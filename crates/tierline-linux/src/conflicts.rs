// SPDX-License-Identifier: Apache-2.0
//! Finds what else moves pages on this machine. What is done about each finding is announced first,
//! done through the journal, and undone at the end.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::Serialize;

use crate::balancing::{self, MODE};
use crate::error::{Error, Result};
use crate::journal::{Journal, Owner};
use crate::process::stat::{Stat, pids};
use crate::root::Root;
use crate::topology::nodelist::parse_ids;
use crate::topology::{Topology, zones};
use tierline_core::tier::Tiers;
use tierline_core::unit::Bytes;

/// Reading a process's numa_maps walks its page tables, 0.03 to 0.7 s for a million pages; processes
/// above this size are skipped.
const POLICY_LOOK_LIMIT: Bytes = Bytes(4 << 30);
/// Whether the kernel demotes under pressure.
pub(crate) const DEMOTION: &str = "/sys/kernel/mm/numa/demotion_enabled";
/// The least `percpu_pagelist_high_fraction`: the lists of all CPUs together hold 0.4 % of a zone at most. Ours.
const LEAST_FRACTION: u64 = 256;
/// Programs that move pages or processes themselves.
const RIVALS: [&str; 2] = ["memtierd", "numad"];

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// For information.
    Note,
    /// Something works less well.
    Warning,
    /// Something does not work.
    Problem,
}

/// What we do about a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Nothing.
    Leave,
    /// Write `value` to the setting `path` while Tierline runs.
    SwitchOff {
        /// The setting, from `/`.
        path: String,
        /// The value to write.
        value: String,
    },
    /// Do not start.
    Refuse,
}

/// One finding, described for the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A stable name for scripts.
    pub id: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What was found.
    pub what: String,
    /// Its consequence.
    pub why_it_matters: String,
    /// What the user can do.
    pub next_step: String,
    /// What Tierline does.
    pub action: Action,
}

impl Finding {
    /// A finding without an action.
    pub(crate) fn new(
        id: &'static str,
        severity: Severity,
        what: impl Into<String>,
        why: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        let (what, why_it_matters, next_step) = (what.into(), why.into(), next.into());
        Self { id, severity, what, why_it_matters, next_step, action: Action::Leave }
    }

    fn refuse(self) -> Self {
        Self { action: Action::Refuse, ..self }
    }

    fn switch_off(self, path: &str, value: &str) -> Self {
        Self { action: Action::SwitchOff { path: path.into(), value: value.into() }, ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}. Next: {}", self.what, self.why_it_matters, self.next_step)
    }
}

/// What Tierline itself will use: this decides which findings are conflicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnUse {
    /// The hint-fault tracker runs: it sets `numa_balancing` itself.
    pub hint_faults: bool,
    /// The DAMON tracker runs.
    pub damon: bool,
    /// Tiering is left to the kernel, so the kernel's balancing stays on.
    pub kernel: bool,
}

/// Finds everything else that moves pages, and everything that binds the `targets` to nodes. `state_dir`
/// is the folder of the managers' journals.
pub fn examine(root: &Root, state_dir: &Path, targets: &[u32], plan: OwnUse) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(numa_balancing(root, plan));
    findings.extend(zone_reclaim(root));
    findings.extend(damon_modules(root, plan));
    findings.extend(kdamonds(root, plan));
    findings.extend(managers(root, state_dir));
    findings.extend(rivals(root));
    findings.extend(targets.iter().flat_map(|&pid| bound(root, pid)));
    findings
}

/// Performs the actions that the findings announced.
///
/// # Errors
/// `Error::Missing` for the first finding with [`Action::Refuse`]; nothing is changed then.
/// `Error::File` if a setting cannot be written; those before it are in the journal.
pub fn apply(journal: &Journal, root: &Root, findings: &[Finding]) -> Result<()> {
    if let Some(finding) = findings.iter().find(|finding| finding.action == Action::Refuse) {
        return Err(Error::Missing {
            what: "this machine".into(),
            why: format!("{}: {}", finding.what, finding.why_it_matters),
            hint: finding.next_step.clone(),
        });
    }
    for finding in findings {
        if let Action::SwitchOff { path, value } = &finding.action {
            journal.set(root, path, value)?;
        }
    }
    Ok(())
}

/// `kernel.numa_balancing`.
pub(crate) fn numa_balancing(root: &Root, plan: OwnUse) -> Option<Finding> {
    if plan.kernel {
        return None;
    }
    let mode = root.read_number(MODE).ok().filter(|mode| *mode != 0)?;
    let kind = if mode & 2 != 0 { "tiering" } else { "balancing between sockets" };
    let finding = Finding::new(
        "numa-balancing",
        Severity::Warning,
        format!("the kernel moves pages itself: kernel.numa_balancing = {mode} ({kind})"),
        "two movers undo each other's work, and the kernel's page scans add tails of 8 to 31 ms",
        "sysctl kernel.numa_balancing=0, or let Tierline do it while it runs",
    );
    if plan.hint_faults {
        return Some(finding);
    }
    Some(match balancing::may_pause(root) {
        Ok(()) => finding.switch_off(MODE, "0"),
        Err(error) => Finding {
            severity: Severity::Problem,
            why_it_matters: error.to_string(),
            next_step: error.hint().unwrap_or_default(),
            ..finding.refuse()
        },
    })
}

/// `demotion_enabled`. It is switched off before anything else is done, unless tiering is left to the
/// kernel: while it is on, an allocation on a full fast node demotes the pages that the kernel considers
/// oldest, of any program. Tierline makes room by moving pages of the managed programs, and by asking for cold pages of
/// files ([`crate::page_cache`]).
pub(crate) fn demotion(root: &Root) -> Option<Finding> {
    let text = root.read(DEMOTION).ok()?;
    matches!(text.trim(), "true" | "1").then(|| {
        Finding::new(
            "demotion-on",
            Severity::Note,
            "the kernel demotes under pressure (demotion_enabled = true)",
            "a full fast node then demotes pages of other programs unnoticed, and demoted pages stay \
             charged to their group; Tierline makes room by moving pages of the managed programs and cold pages of files",
            "nothing: Tierline switches it off while it runs. To leave tiering to the kernel: --policy kernel",
        )
        .switch_off(DEMOTION, "0")
    })
}

/// `watermark_boost_factor`. When the kernel's own memory has to take a block of programs' memory in a node, kswapd
/// reclaims a few MiB of that node. Without swap these are pages of files: the text of running programs, the
/// manager's own among them, which is read again and taken again. It happens under Tierline, as demotions leave free
/// memory in nodes that would otherwise be full, and so not used by the kernel.
pub(crate) fn boosting(root: &Root) -> Option<Finding> {
    const PATH: &str = "/proc/sys/vm/watermark_boost_factor";
    let factor = root.read_number(PATH).ok().filter(|factor| *factor != 0)?;
    let finding = Finding::new(
        "watermark-boost",
        Severity::Note,
        format!(
            "the kernel reclaims memory against fragmentation (vm.watermark_boost_factor = {factor})"
        ),
        "in a full fast node that takes the text of running programs again and again, and they stand still",
        "nothing: Tierline switches it off while it runs",
    );
    Some(finding.switch_off(PATH, "0"))
}

/// `percpu_pagelist_high_fraction`. Since Linux 6.7 the list of free pages that a CPU keeps for itself may hold an eighth of a
/// node (shared by all CPUs). What a demotion frees goes to such a list: the kernel does not count it as free, programs on
/// other CPUs cannot use it, and kswapd reclaims pages of files though memory is free. While this runs, the lists of all CPUs hold
/// what they held before 6.7, the low watermark, but not more than a small part of the node: with huge pages enabled, the
/// kernel raises that watermark to 4.5 % of a small node.
pub(crate) fn page_lists(root: &Root, tiers: &Tiers) -> Option<Finding> {
    const PATH: &str = "/proc/sys/vm/percpu_pagelist_high_fraction";
    root.read_number(PATH).ok().filter(|fraction| *fraction == 0)?;
    let zones = zones::read(root).ok()?;
    let fast = tiers.0.first()?;
    let zones = zones.iter().filter(|zone| fast.nodes.contains(&zone.node) && zone.low > 0);
    let fraction = zones.map(|zone| zone.managed / zone.low).max()?.max(LEAST_FRACTION);
    let finding = Finding::new(
        "page-lists",
        Severity::Note,
        "each CPU may keep much of a node's free memory for itself (vm.percpu_pagelist_high_fraction = 0)",
        "what a demotion frees is in such a list and does not count as free: the kernel reclaims the text of programs instead",
        "nothing: Tierline keeps the lists short while it runs",
    );
    Some(finding.switch_off(PATH, &fraction.to_string()))
}

fn zone_reclaim(root: &Root) -> Option<Finding> {
    let mode = root.read_number("/proc/sys/vm/zone_reclaim_mode").ok().filter(|mode| *mode != 0)?;
    Some(Finding::new(
        "zone-reclaim",
        Severity::Warning,
        format!("vm.zone_reclaim_mode = {mode}"),
        "a full fast node reclaims its own page cache before a new page may go to slow memory",
        "sysctl vm.zone_reclaim_mode=0",
    ))
}

/// Kernel modules that use DAMON.
pub(crate) fn damon_modules(root: &Root, plan: OwnUse) -> Vec<Finding> {
    let module = |name: &str| {
        let path = format!("/sys/module/{name}/parameters/enabled");
        let on = root.read(&path).is_ok_and(|text| matches!(text.trim(), "Y" | "1"));
        on.then(|| {
            let severity = if plan.damon { Severity::Problem } else { Severity::Note };
            let finding = Finding::new(
                "damon-module",
                severity,
                format!("{name} keeps DAMON busy"),
                "no other DAMON user can start (EBUSY), and its thread takes CPU time",
                format!("echo N > {path}"),
            );
            if plan.damon { finding.switch_off(&path, "N") } else { finding }
        })
    };
    ["damon_stat", "damon_reclaim", "damon_lru_sort"]
        .iter()
        .filter_map(|name| module(name))
        .collect()
}

fn kdamonds(root: &Root, plan: OwnUse) -> Vec<Finding> {
    const FOLDER: &str = "/sys/kernel/mm/damon/admin/kdamonds";
    let running = |name: String| {
        let path = format!("{FOLDER}/{name}/state");
        let on = root.read(&path).is_ok_and(|text| text.trim() == "on");
        on.then(|| {
            let finding = Finding::new(
                "kdamond-running",
                if plan.damon { Severity::Problem } else { Severity::Warning },
                format!("another user's kdamond {name} is on"),
                "it may migrate pages too, and the DAMON folder cannot be shared",
                format!("damo stop, or echo off > {path}"),
            );
            if plan.damon { finding.refuse() } else { finding }
        })
    };
    root.list(FOLDER).into_iter().filter_map(running).collect()
}

fn managers(root: &Root, state_dir: &Path) -> Vec<Finding> {
    let finding = |owner: Owner| {
        let Owner { pid, file, elsewhere } = owner;
        let (place, next) = match elsewhere {
            false => (String::new(), format!("use `tierline status`, or stop it: kill {pid}")),
            true => (
                " of another PID namespace".into(),
                format!("stop it there, or delete {} if it has ended", file.display()),
            ),
        };
        Finding::new(
            "second-manager",
            Severity::Problem,
            format!("another tierline manages this machine (process {pid}{place})"),
            "two managers would fill the same memory and overwrite each other's settings",
            next,
        )
        .refuse()
    };
    Journal::others(state_dir, root).into_iter().map(finding).collect()
}

fn rivals(root: &Root) -> Vec<Finding> {
    let all = pids(root).into_iter().filter_map(|pid| Stat::read(root, pid).ok());
    let rivals = all.filter(|stat| RIVALS.contains(&stat.comm.as_str()));
    let finding = |stat: Stat| {
        // A name is no proof: any user can start a program of that name.
        Finding::new(
            "rival-mover",
            Severity::Warning,
            format!("{} runs (process {})", stat.comm, stat.pid),
            "it moves pages as well, and undoes Tierline's moves",
            format!("stop it: kill {}", stat.pid),
        )
    };
    rivals.map(finding).collect()
}

/// What binds a process's memory to nodes: its cpuset, and memory policies of its mappings.
fn bound(root: &Root, pid: u32) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(cpuset(root, pid));
    findings.extend(policies(root, pid));
    findings
}

fn cpuset(root: &Root, pid: u32) -> Option<Finding> {
    let status = root.read(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:"))?;
    let allowed = parse_ids(line)?;
    let topology = Topology::read(root).ok()?;
    let barred: Vec<String> = topology
        .with_memory()
        .filter(|node| !allowed.contains(&node.id.0.into()))
        .map(|node| node.id.0.to_string())
        .collect();
    (!barred.is_empty()).then(|| {
        Finding::new(
            "cpuset",
            Severity::Warning,
            format!("process {pid} may not use node {} (cpuset.mems)", barred.join(",")),
            "its pages cannot be moved there: the kernel refuses",
            "widen cpuset.mems of its group, or leave the process out",
        )
    })
}

fn policies(root: &Root, pid: u32) -> Option<Finding> {
    if Stat::read(root, pid).ok()?.rss > POLICY_LOOK_LIMIT {
        return None;
    }
    let file = std::fs::File::open(root.path(format!("/proc/{pid}/numa_maps"))).ok()?;
    let (mut areas, mut pages, mut example) = (0_u64, 0_u64, String::new());
    for line in BufReader::new(file).lines().map_while(std::result::Result::ok) {
        let Some((policy, held)) = policy_of(&line) else { continue };
        (areas, pages) = (areas + 1, pages + held);
        if example.is_empty() {
            example = policy.to_string();
        }
    }
    (areas > 0).then(|| {
        Finding::new(
            "mempolicy",
            Severity::Warning,
            format!("process {pid} set a memory policy for {areas} mappings ({pages} pages), for example {example}"),
            "moves override that policy, but new pages still follow it",
            "start it without numactl --membind/--interleave, or leave the process out",
        )
    })
}

/// The policy of a numa_maps line and its number of pages; `None` for the default policy, also called
/// `local`.
fn policy_of(line: &str) -> Option<(&str, u64)> {
    let mut words = line.split_ascii_whitespace();
    let policy = words.nth(1)?;
    if matches!(policy, "default" | "local") {
        return None;
    }
    let node = |word: &str| -> Option<u64> {
        let (node, pages) = word.strip_prefix('N')?.split_once('=')?;
        node.parse::<u16>().ok()?;
        pages.parse().ok()
    };
    Some((policy, words.filter_map(node).sum()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::stat::tests::text;
    use crate::topology::tests::{TWO_NODES, fake};

    fn ids(findings: &[Finding]) -> Vec<&'static str> {
        findings.iter().map(|finding| finding.id).collect()
    }

    #[test]
    fn a_quiet_machine_has_no_findings() {
        let (dir, root) = fake(TWO_NODES);
        assert!(examine(&root, &dir.path().join("run"), &[5], OwnUse::default()).is_empty());
    }

    #[test]
    fn every_mover_is_found_and_switched_off_as_announced() {
        let stat = text(9, "numad", 1, 1, 1, 1);
        let mut files = TWO_NODES.to_vec();
        files.extend([
            ("/proc/sys/kernel/numa_balancing", "1\n"),
            ("/proc/sys/vm/zone_reclaim_mode", "1\n"),
            ("/sys/module/damon_stat/parameters/enabled", "Y\n"),
            ("/proc/9/stat", stat.as_str()),
            ("/proc/9/status", "Mems_allowed_list:\t0\n"),
            ("/proc/9/numa_maps", "1000 bind:1 anon=3 N0=1 N1=2\n2000 default N0=5\n"),
        ]);
        let (dir, root) = fake(&files);
        let run = dir.path().join("run");
        let plan = OwnUse { damon: true, ..OwnUse::default() };
        let findings = examine(&root, &run, &[9], plan);
        assert_eq!(
            ids(&findings),
            [
                "numa-balancing",
                "zone-reclaim",
                "damon-module",
                "rival-mover",
                "cpuset",
                "mempolicy"
            ]
        );
        assert!(findings[5].what.contains("1 mappings (3 pages)"), "{}", findings[5].what);
        let journal = Journal::open(&run).expect("a journal");
        apply(&journal, &root, &findings).expect("applied");
        assert_eq!(root.read("/proc/sys/kernel/numa_balancing").expect("read"), "0");
        assert_eq!(root.read("/sys/module/damon_stat/parameters/enabled").expect("read"), "N");
        assert!(journal.restore().is_empty());
        assert_eq!(root.read("/proc/sys/kernel/numa_balancing").expect("read"), "1");
    }

    #[test]
    fn beside_a_second_manager_we_refuse_and_change_nothing() {
        let stat = text(9, "memtierd", 1, 1, 1, 1);
        let (dir, root) = fake(&[
            ("/proc/sys/kernel/numa_balancing", "1\n"),
            ("/proc/9/stat", stat.as_str()),
            ("/sys/kernel/mm/damon/admin/kdamonds/0/state", "on\n"),
        ]);
        let run = dir.path().join("run");
        let findings = examine(&root, &run, &[], OwnUse { hint_faults: true, ..OwnUse::default() });
        assert_eq!(ids(&findings), ["numa-balancing", "kdamond-running", "rival-mover"]);
        assert_eq!(findings[0].action, Action::Leave, "the tracker needs it");
        assert_eq!(findings[2].action, Action::Leave, "anybody can have that name");
        let findings = examine(&root, &run, &[], OwnUse { damon: true, ..OwnUse::default() });
        let journal = Journal::open(&run).expect("a journal");
        assert!(apply(&journal, &root, &findings).expect_err("refused").hint().is_some());
        assert!(journal.changes().is_empty());
    }

    #[test]
    fn boosting_is_switched_off_and_restored() {
        const PATH: &str = "/proc/sys/vm/watermark_boost_factor";
        let (dir, root) = fake(&[(PATH, "15000\n")]);
        let journal = Journal::open(dir.path().join("run")).expect("a journal");
        let finding = boosting(&root).expect("it is on");
        apply(&journal, &root, &[finding]).expect("applied");
        assert_eq!(root.read(PATH).expect("read"), "0");
        assert!(boosting(&root).is_none() && journal.restore().is_empty());
        assert_eq!(root.read(PATH).expect("read"), "15000");
    }

    /// 85,762 pages with a low watermark of 326, and with one that huge pages have raised.
    #[test]
    fn lists_of_free_pages_are_kept_short_and_restored() {
        const PATH: &str = "/proc/sys/vm/percpu_pagelist_high_fraction";
        for (low, fraction) in [("326", "263"), ("3898", "256")] {
            let zone =
                format!("Node 0, zone DMA32\n  pages free 9\n  low {low}\n  managed 85762\n");
            let mut files = TWO_NODES.to_vec();
            files.extend([(PATH, "0\n"), ("/proc/zoneinfo", zone.as_str())]);
            let (dir, root) = fake(&files);
            let tiers = Topology::read(&root).expect("topology").tiers(None).expect("tiers");
            let journal = Journal::open(dir.path().join("run")).expect("a journal");
            let finding = page_lists(&root, &tiers).expect("long lists");
            apply(&journal, &root, &[finding]).expect("applied");
            assert_eq!(root.read(PATH).expect("read"), fraction);
            assert!(page_lists(&root, &tiers).is_none(), "somebody has set it");
            assert!(journal.restore().is_empty());
            assert_eq!(root.read(PATH).expect("read"), "0");
        }
    }

    #[test]
    fn policies_are_read_from_any_line() {
        assert_eq!(
            policy_of("7f00 prefer:1 anon=2 N1=2 kernelpagesize_kB=4"),
            Some(("prefer:1", 2))
        );
        assert_eq!(policy_of("7f00 default file=/x"), None);
        assert_eq!(policy_of(""), None);
    }
}
