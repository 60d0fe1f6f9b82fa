// SPDX-License-Identifier: Apache-2.0
//! The tracker ladder: which ways of seeing accesses this machine has open, best first.
//!
//! Looks at preconditions only; it switches nothing on, and a tracker may still fail to start.

use serde::Serialize;

use crate::doctor::readable;
use crate::root::Root;

const PMUS: &str = "/sys/bus/event_source/devices";
const DAMON: &str = "/sys/kernel/mm/damon/admin/kdamonds";

/// What this machine can do with one tracker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// The tracker's name.
    pub tracker: &'static str,
    /// True where nothing that it needs is missing.
    pub available: bool,
    /// What it found, or everything that is missing.
    pub why: String,
    /// What it sees, how finely, and where.
    pub sees: &'static str,
}

/// One precondition: what is needed, and whether it is there.
type Need = (bool, &'static str);

/// Probes every tracker, in the order of the ladder.
pub fn probe(root: &Root) -> Vec<Capability> {
    vec![
        rung("neoprof", "reads and writes, page-exact, all that reach slow memory", neoprof(root)),
        rung("chmu", "reads and writes, page-exact, all that reach slow memory", neoprof(root)),
        rung("pebs", "reads and writes, exact byte, sampled, both tiers", pebs(root)),
        rung("ibs", "reads and writes, exact byte, sampled, both tiers", ibs(root)),
        rung("accessed", "reads or writes, page-exact, both tiers", accessed(root)),
        rung("page_idle", "reads or writes, page-exact, both tiers", page_idle(root)),
        rung("hint_faults", "reads and writes, page-exact, slow tiers only", hint_faults(root)),
        rung("damon", "reads or writes, regions of pages, both tiers", damon(root)),
        rung("soft_dirty", "writes only, page-exact, both tiers", soft_dirty(root)),
    ]
}

fn rung(tracker: &'static str, sees: &'static str, needs: Vec<Need>) -> Capability {
    let missing: Vec<&str> =
        needs.iter().filter(|(there, _)| !there).map(|(_, what)| *what).collect();
    let why = match missing.is_empty() {
        true => "all it needs is there".to_string(),
        false => format!("missing: {}", missing.join(", ")),
    };
    Capability { tracker, available: missing.is_empty(), why, sees }
}

/// Sampling the whole machine.
fn may_sample(root: &Root) -> Need {
    let level = root.read("/proc/sys/kernel/perf_event_paranoid").ok();
    let level: Option<i32> = level.and_then(|text| text.trim().parse().ok());
    let open = level.is_some_and(|level| level <= 0 || rustix::process::geteuid().is_root());
    (open, "perf for the whole machine (root, CAP_PERFMON or perf_event_paranoid <= 0)")
}

fn neoprof(root: &Root) -> Vec<Need> {
    let device = crate::tracker::neoprof::find(root);
    let window = device.as_ref().map(|place| format!("/sys/bus/pci/devices/{place}/resource0"));
    vec![
        (
            device.is_some(),
            "a memory device with NeoProf, PCI 1234:4e50 (--neoprof where its ids are others)",
        ),
        (
            window.is_none_or(|path| may_write(root, &path)),
            "the right to its registers (root, no lockdown)",
        ),
    ]
}

fn pebs(root: &Root) -> Vec<Need> {
    let loads =
        ["cpu", "cpu_core"].iter().any(|pmu| root.exists(format!("{PMUS}/{pmu}/events/mem-loads")));
    vec![
        (loads, "a CPU unit with the event mem-loads (Intel, not in a virtual machine)"),
        may_sample(root),
    ]
}

fn ibs(root: &Root) -> Vec<Need> {
    vec![
        (root.exists(format!("{PMUS}/ibs_op")), "the unit ibs_op (AMD, not in a virtual machine)"),
        may_sample(root),
    ]
}

fn accessed(root: &Root) -> Vec<Need> {
    vec![
        clear_refs(root),
        (readable(root, "/proc/kcore"), "a readable /proc/kcore (root, no lockdown)"),
        btf(root),
    ]
}

fn page_idle(root: &Root) -> Vec<Need> {
    let bitmap = readable(root, "/sys/kernel/mm/page_idle/bitmap");
    vec![
        (bitmap, "/sys/kernel/mm/page_idle/bitmap (CONFIG_IDLE_PAGE_TRACKING, root)"),
        (readable(root, "/proc/kpageflags"), "a readable /proc/kpageflags (root)"),
    ]
}

fn hint_faults(root: &Root) -> Vec<Need> {
    let knobs = root.exists("/sys/kernel/debug/sched/numa_balancing/hot_threshold_ms");
    vec![
        (
            root.exists("/proc/sys/kernel/numa_balancing"),
            "kernel.numa_balancing (CONFIG_NUMA_BALANCING)",
        ),
        (two_nodes(root), "a second node with memory"),
        (knobs, "debugfs with sched/numa_balancing (mounted, root, Linux 6.1)"),
        (
            root.exists("/sys/kernel/tracing/events"),
            "tracefs on /sys/kernel/tracing (mounted, root)",
        ),
        may_sample(root),
    ]
}

fn damon(root: &Root) -> Vec<Need> {
    let modules = ["damon_stat", "damon_reclaim", "damon_lru_sort"];
    let owned = modules.iter().any(|name| {
        let on = root.read(format!("/sys/module/{name}/parameters/enabled"));
        on.is_ok_and(|text| text.trim() == "Y")
    });
    let busy = root.list(DAMON).iter().any(|name| {
        root.read(format!("{DAMON}/{name}/state")).is_ok_and(|text| text.trim() == "on")
    });
    vec![
        (
            root.exists(format!("{DAMON}/nr_kdamonds")),
            "DAMON's folder in sysfs (CONFIG_DAMON_SYSFS)",
        ),
        (may_write(root, &format!("{DAMON}/nr_kdamonds")), "the right to set DAMON up (root)"),
        (
            !owned,
            "a free DAMON: a kernel module runs it (damon_stat: echo N to its parameter enabled)",
        ),
        (!busy, "a free DAMON: somebody's kdamond is on"),
    ]
}

fn soft_dirty(root: &Root) -> Vec<Need> {
    vec![
        clear_refs(root),
        (readable(root, "/proc/self/pagemap"), "/proc/PID/pagemap"),
        (soft_dirty_works(root), "CONFIG_MEM_SOFT_DIRTY"),
    ]
}

fn clear_refs(root: &Root) -> Need {
    (root.exists("/proc/self/clear_refs"), "/proc/PID/clear_refs (CONFIG_PROC_PAGE_MONITOR)")
}

fn btf(root: &Root) -> Need {
    (readable(root, "/sys/kernel/btf/vmlinux"), "/sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)")
}

fn two_nodes(root: &Root) -> bool {
    let list = root.read("/sys/devices/system/node/has_memory").unwrap_or_default();
    crate::topology::nodelist::parse_ids(&list).is_some_and(|ids| ids.len() > 1)
}

fn may_write(root: &Root, path: &str) -> bool {
    std::fs::OpenOptions::new().write(true).open(root.path(path)).is_ok()
}

/// A kernel with soft-dirty bits marks new pages: some writable mapping of ours has `sd` among its
/// flags. The kernel shows the flag only where it has the bits.
pub(crate) fn soft_dirty_works(root: &Root) -> bool {
    let smaps = root.read("/proc/self/smaps").unwrap_or_default();
    let mut flags = smaps.lines().filter_map(|line| line.strip_prefix("VmFlags:"));
    flags.any(|line| line.split_whitespace().any(|flag| flag == "sd"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::fake;

    fn of(ladder: &[Capability], tracker: &str) -> Capability {
        ladder.iter().find(|rung| rung.tracker == tracker).expect(tracker).clone()
    }

    #[test]
    fn the_ladder_keeps_its_order_and_says_what_is_missing() {
        let (_dir, root) = fake(&[]);
        let ladder = probe(&root);
        let names: Vec<&str> = ladder.iter().map(|rung| rung.tracker).collect();
        assert_eq!(
            names,
            [
                "neoprof",
                "chmu",
                "pebs",
                "ibs",
                "accessed",
                "page_idle",
                "hint_faults",
                "damon",
                "soft_dirty"
            ]
        );
        assert!(ladder.iter().all(|rung| !rung.available && rung.why.starts_with("missing")));
    }

    #[test]
    fn a_lab_guest_offers_what_it_has() {
        let (_dir, root) = fake(&[
            ("/proc/self/clear_refs", ""),
            ("/proc/kcore", ""),
            ("/sys/kernel/btf/vmlinux", ""),
            ("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "0\n"),
            ("/sys/module/damon_stat/parameters/enabled", "Y\n"),
        ]);
        let ladder = probe(&root);
        assert!(of(&ladder, "accessed").available, "{}", of(&ladder, "accessed").why);
        assert!(of(&ladder, "damon").why.contains("damon_stat"));
    }
}
