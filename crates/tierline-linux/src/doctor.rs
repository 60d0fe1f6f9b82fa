// SPDX-License-Identifier: Apache-2.0
//! Examines a machine: reports what prevents tiering, why it matters, and what to do.
//!
//! Needs no privilege. What cannot be read is not reported as a finding.

use tierline_core::tier::Tiers;
use tierline_core::unit::Bytes;

use crate::conflicts::{self, Finding, OwnUse, Severity};
use crate::error::Error;
use crate::journal::Journal;
use crate::privilege::RIGHTS;
use crate::resctrl;
use crate::root::Root;
use crate::state_dir::STATE_DIR;
use crate::topology::Topology;
use crate::tracker::TRACKERS;

const CGROUPS: &str = "/sys/fs/cgroup";
/// The most control groups that are examined.
const GROUP_LIMIT: usize = 512;

/// Examines a machine; the most severe findings come first.
pub fn examine(root: &Root) -> Vec<Finding> {
    let mut findings = Vec::new();
    match Topology::read(root) {
        Ok(topology) => {
            let tiers = topology.tiers(None);
            findings.extend(one_tier(&topology, tiers.as_ref()));
            findings.extend(cxl(&topology));
            if let Ok(tiers) = &tiers {
                findings.extend(zone_normal(&topology, tiers));
            }
            findings.extend(demotion_off(&topology));
        }
        Err(error) => findings.push(no_topology(&error)),
    }
    let plan = OwnUse::default();
    findings.extend(conflicts::numa_balancing(root, plan));
    findings.extend(conflicts::demotion(root));
    findings.extend(conflicts::damon_modules(root, plan));
    findings.extend(trackers(root));
    findings.extend(perf(root));
    findings.extend(mounts(root));
    findings.extend(rights(root));
    findings.extend(lockdown(root));
    findings.extend(huge_pages(root));
    findings.extend(tight_groups(root));
    findings.extend(stale_journals(root));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

fn no_topology(error: &Error) -> Finding {
    Finding::new(
        "no-topology",
        Severity::Problem,
        error.to_string(),
        "without nodes there are no tiers to place memory in",
        error.hint().unwrap_or_else(|| "check that /sys is mounted".into()),
    )
}

fn one_tier(topology: &Topology, tiers: Result<&Tiers, &Error>) -> Option<Finding> {
    let nodes: Vec<_> = topology.with_memory().collect();
    if let Err(error) = tiers {
        return Some(Finding::new(
            "one-tier",
            Severity::Problem,
            error.to_string(),
            "there is no second tier to move pages to",
            "add slow memory: online a CXL region (cxl create-region), give a DAX device to kmem \
             (daxctl reconfigure-device --mode=system-ram), or name the tiers with --tiers",
        ));
    }
    let mut kernel: Vec<u32> = nodes.iter().filter_map(|node| node.memory_tier).collect();
    kernel.dedup();
    (nodes.len() > 1 && kernel.len() == 1).then(|| {
        Finding::new(
            "one-memory-tier",
            Severity::Note,
            format!("the kernel puts all nodes into memory_tier{}", kernel[0]),
            "the kernel's own promotion and demotion do nothing; Tierline uses HMAT and CPUs instead",
            "nothing; firmware with HMAT or CDAT would inform the kernel",
        )
    })
}

fn cxl(topology: &Topology) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !topology.cxl_memdevs.is_empty() && topology.cxl_regions.is_empty() {
        findings.push(Finding::new(
            "cxl-no-region",
            Severity::Problem,
            format!("CXL device {} has no region", topology.cxl_memdevs.join(", ")),
            "no program can use its memory",
            "cxl create-region -t ram -d decoder0.0 -m mem0",
        ));
    }
    for region in topology.cxl_regions.iter().filter(|region| !region.committed || !region.bound) {
        findings.push(Finding::new(
            "cxl-region-idle",
            Severity::Problem,
            format!("CXL {} ({}) is not in use", region.name, region.size),
            "no program can use its memory",
            format!("cxl enable-region {0}; then daxctl list -r {0}", region.name),
        ));
    }
    for dax in topology.dax.iter().filter(|dax| dax.driver.as_deref() != Some("kmem")) {
        findings.push(Finding::new(
            "dax-not-kmem",
            Severity::Warning,
            format!("{} ({}) does not serve as system memory", dax.name, dax.size),
            "its memory belongs to no node, so no page can be moved to it",
            format!("daxctl reconfigure-device --mode=system-ram {}", dax.name),
        ));
    }
    findings
}

/// Slow memory with zones that the kernel may use for itself.
fn zone_normal(topology: &Topology, tiers: &Tiers) -> Vec<Finding> {
    let slow = tiers.0.iter().skip(1).flat_map(|tier| &tier.nodes);
    let nodes = slow.filter_map(|id| topology.node(*id)).filter(|node| node.cpus.is_empty());
    let normal = nodes.filter(|node| {
        !node.zones.is_empty()
            && node.zones.iter().any(|zone| !matches!(zone.name.as_str(), "Movable" | "Device"))
    });
    normal
        .map(|node| {
            Finding::new(
                "slow-zone-normal",
                Severity::Note,
                format!("node {} is online as ZONE_NORMAL", node.id.0),
                "the kernel may put its own data there, which never moves and keeps the memory from \
                 being taken offline",
                "echo online_movable > /sys/devices/system/memory/auto_online_blocks before the memory comes online",
            )
        })
        .collect()
}

fn demotion_off(topology: &Topology) -> Option<Finding> {
    let tiered = topology.with_memory().count() > 1;
    (tiered && topology.demotion_enabled == Some(false)).then(|| {
        Finding::new(
            "demotion-off",
            Severity::Note,
            "the kernel does not demote under pressure (demotion_enabled = false)",
            "a full fast node makes new pages go to slow memory, or reclaims, until Tierline has made \
             headroom; moves into a full node fail cleanly",
            "nothing: this is what Tierline expects",
        )
    })
}

fn trackers(root: &Root) -> Vec<Finding> {
    let found: Vec<_> = TRACKERS.iter().map(|entry| (entry.name, entry.probe(root))).collect();
    if found.iter().any(|(_, found)| found.available) {
        return Vec::new();
    }
    let why: Vec<String> =
        found.iter().map(|(name, found)| format!("{name}: {}", found.why)).collect();
    vec![Finding::new(
        "no-tracker",
        Severity::Problem,
        "no tracker can be used",
        "without one, hot and cold pages cannot be distinguished",
        format!("run as root, or provide one of these: {}", why.join("; ")),
    )]
}

fn perf(root: &Root) -> Option<Finding> {
    let text = root.read("/proc/sys/kernel/perf_event_paranoid").ok()?;
    let level: i32 = text.trim().parse().ok()?;
    (level > 0 && !is_root()).then(|| {
        Finding::new(
            "perf-paranoid",
            Severity::Note,
            format!("kernel.perf_event_paranoid = {level}"),
            "machine-wide sampling and the counters for loaded latency need root or CAP_PERFMON",
            "sysctl kernel.perf_event_paranoid=0, or run as root",
        )
    })
}

fn mounts(root: &Root) -> Vec<Finding> {
    let mounts = root.read("/proc/mounts").unwrap_or_default();
    let missing = |kind: &str, place: &str, id: &'static str, why: &str| {
        let mounted = mounts.lines().any(|line| line.split(' ').nth(2) == Some(kind));
        let next = format!("mount -t {kind} {kind} {place}");
        let what = format!("{kind} is not mounted");
        (!mounts.is_empty() && !mounted).then(|| Finding::new(id, Severity::Note, what, why, next))
    };
    let debugfs = missing(
        "debugfs",
        "/sys/kernel/debug",
        "no-debugfs",
        "the hint-fault tracker sets its scan rate there",
    );
    let tracefs = missing(
        "tracefs",
        "/sys/kernel/tracing",
        "no-tracefs",
        "without it, hint faults cannot be distinguished from ordinary page faults",
    );
    let bandwidth = resctrl::is_unmounted(root).then(|| {
        Finding::new(
            "no-resctrl",
            Severity::Note,
            "resctrl is not mounted",
            "the processor could measure the bandwidth of each application for its target",
            format!("mount -t resctrl resctrl {}", resctrl::MOUNT),
        )
    });
    debugfs.into_iter().chain(tracefs).chain(bandwidth).collect()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn rights(root: &Root) -> Option<Finding> {
    let status = root.read("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let held = u64::from_str_radix(line.trim(), 16).ok()?;
    let lacking = RIGHTS.iter().filter(|right| held & right.capability.bits() == 0);
    let (names, uses): (Vec<&str>, Vec<String>) =
        lacking.map(|one| (one.name, format!("{}: {}", one.name, one.needed_for))).unzip();
    (!names.is_empty()).then(|| {
        Finding::new(
            "no-rights",
            Severity::Warning,
            format!("missing capabilities: {}", names.join(", ")),
            format!("what needs them does not work: {}", uses.join("; ")),
            "run as root, or as a service with these capabilities",
        )
    })
}

fn lockdown(root: &Root) -> Option<Finding> {
    let text = root.read("/sys/kernel/security/lockdown").ok()?;
    let mode = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'))?.0;
    (mode != "none").then(|| {
        Finding::new(
            "lockdown",
            Severity::Warning,
            format!("the kernel is locked down ({mode})"),
            "debugfs cannot be used, and in mode confidentiality neither can /proc/kcore and tracing: the \
             accessed and hint-fault trackers are not available",
            "use a tracker that needs neither (damon), or boot without secure boot",
        )
    })
}

fn huge_pages(root: &Root) -> Option<Finding> {
    let text = root.read("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    let mode = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'))?.0;
    let (severity, why, next) = match mode {
        "never" => (
            Severity::Note,
            "moving costs more per byte (about 300 MB/s against 1.1 GB/s in the lab VM)",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        "always" => (
            Severity::Note,
            "2 MiB pages move as a whole: one hot 4 KiB page keeps 511 cold ones in fast memory",
            "nothing; use madvise if hot data is scattered",
        ),
        _ => return None,
    };
    let what = format!("transparent huge pages: {mode}");
    Some(Finding::new("huge-pages", severity, what, why, next))
}

/// Groups near their limit, where demotion frees no charged memory.
fn tight_groups(root: &Root) -> Vec<Finding> {
    let demotes = root
        .read("/sys/kernel/mm/numa/demotion_enabled")
        .is_ok_and(|text| matches!(text.trim(), "true" | "1"));
    if !demotes {
        return Vec::new();
    }
    let tight = groups(root).into_iter().filter_map(|group| {
        let max = root.read_number(format!("{group}/memory.max")).ok()?;
        let now = root.read_number(format!("{group}/memory.current")).ok()?;
        (now > max / 10 * 9).then_some((group, Bytes(now), Bytes(max)))
    });
    let tight = tight.map(|(group, now, max)| {
        Finding::new(
            "memory-max-near",
            Severity::Warning,
            format!("{group} uses {now} of memory.max {max}"),
            "demoted pages stay charged: at the limit the kernel demotes everything to slow memory and \
             still kills the program",
            "raise memory.max, or switch demotion_enabled off",
        )
    });
    tight.collect()
}

/// The control groups with a memory limit file, breadth first, at most [`GROUP_LIMIT`].
fn groups(root: &Root) -> Vec<String> {
    let mut groups = vec![CGROUPS.to_string()];
    let mut next = 0;
    while next < groups.len() && groups.len() < GROUP_LIMIT {
        let folder = groups[next].clone();
        next += 1;
        let below = root.list(&folder).into_iter().map(|name| format!("{folder}/{name}"));
        groups.extend(below.filter(|path| root.path(path).is_dir()));
    }
    groups.retain(|group| root.exists(format!("{group}/memory.max")));
    groups
}

fn stale_journals(root: &Root) -> Vec<Finding> {
    let stale = Journal::stale(root.path(STATE_DIR), root).into_iter();
    let stale = stale.map(|(file, count)| {
        Finding::new(
            "stale-journal",
            Severity::Warning,
            format!("a killed manager left {count} changed settings ({})", file.display()),
            "the kernel still runs with that manager's values",
            "start tierline as root: it restores them first",
        )
    });
    stale.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::{TWO_NODES, fake};

    fn ids(root: &Root) -> Vec<&'static str> {
        examine(root).iter().map(|finding| finding.id).collect()
    }

    #[test]
    fn an_empty_machine_is_examined_without_panic() {
        let (_dir, root) = fake(&[]);
        let ids = ids(&root);
        assert!(ids.contains(&"no-topology") && ids.contains(&"no-tracker"), "{ids:?}");
    }

    #[test]
    fn the_running_machine_is_examined_without_panic() {
        for finding in examine(&Root::default()) {
            assert!(!finding.next_step.is_empty() && !finding.why_it_matters.is_empty());
        }
    }

    #[test]
    fn a_missing_right_is_reported_with_what_needs_it() {
        let found = |held: u64| {
            let status = format!("CapEff:\t{held:016x}\n");
            let (_dir, root) = fake(&[("/proc/self/status", status.as_str())]);
            rights(&root).map(|finding| (finding.what, finding.why_it_matters))
        };
        // CAP_SYS_RAWIO is 17, as in capability(7).
        let (what, why) = found(!(1 << 17)).expect("one is missing");
        assert_eq!(what, "missing capabilities: CAP_SYS_RAWIO");
        assert!(why.contains("tracker accessed (/proc/kcore)"), "{why}");
        assert_eq!(found(!0), None);
    }

    #[test]
    fn every_problem_of_a_machine_is_found() {
        let mut files = TWO_NODES.to_vec();
        files.retain(|(path, _)| !path.contains("memory_tier") && !path.contains("demotion"));
        files.extend([
            ("/sys/kernel/mm/numa/demotion_enabled", "true\n"),
            ("/sys/devices/virtual/memory_tiering/memory_tier4/nodelist", "0-1\n"),
            ("/sys/bus/cxl/devices/mem0/serial", "1\n"),
            ("/sys/bus/dax/devices/dax0.0/size", "4096\n"),
            ("/proc/zoneinfo", "Node 1, zone Normal\n  pages free 5\n managed 9\n"),
            ("/proc/self/status", "CapEff:\t0000000000000000\n"),
            ("/proc/mounts", "proc /proc proc rw 0 0\n"),
            ("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n"),
            ("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n"),
            ("/sys/fs/cgroup/a/memory.max", "1000\n"),
            ("/sys/fs/cgroup/a/memory.current", "950\n"),
            ("/sys/fs/cgroup/b/memory.max", "max\n"),
            ("/sys/module/damon_stat/parameters/enabled", "Y\n"),
            (
                "/run/tierline/journal-4000000.json",
                r#"{"pid":4000000,"start":1,"boot":"","namespace":"","changes":[]}"#,
            ),
        ]);
        let (_dir, root) = fake(&files);
        let found = ids(&root);
        for id in [
            "one-memory-tier",
            "cxl-no-region",
            "dax-not-kmem",
            "slow-zone-normal",
            "demotion-on",
            "no-rights",
            "no-debugfs",
            "no-tracefs",
            "lockdown",
            "huge-pages",
            "memory-max-near",
            "damon-module",
            "stale-journal",
        ] {
            assert!(found.contains(&id), "{id} in {found:?}");
        }
        assert_eq!(found.iter().filter(|id| **id == "memory-max-near").count(), 1);
        assert!(examine(&root).is_sorted_by_key(|finding| std::cmp::Reverse(finding.severity)));
    }
}
