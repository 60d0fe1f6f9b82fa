// SPDX-License-Identifier: Apache-2.0

use std::fs;

use regex_lite::Regex;
use tierline_core::port::{Move, PageSize, Reason, Vpn};
use tierline_core::tier::{NodeId, Tier, Tiers};
use tierline_core::unit::Nanos;

use super::usage::Usage;
use super::*;
use crate::cgroup::Cgroups;
use crate::cgroup::tests::Fake;
use crate::process::stat::tests::text;
use crate::process::{NamedRule, Selection};

/// A process with its parent; process N runs the program `progN`.
fn process(fake: &Fake, pid: u32, parent: u32) {
    let stat = text(pid, &format!("prog{pid}"), parent, u64::from(pid), 9, 1);
    fake.put(&format!("/proc/{pid}/stat"), &stat);
    fake.put(&format!("/proc/{pid}/maps"), "");
    fake.put(&format!("/proc/{pid}/task/{pid}/children"), "");
}

fn tenant(target: Target) -> Tenant {
    Tenant { name: format!("{target:?}"), target, limits: Vec::new() }
}

fn group(path: &str) -> Tenant {
    tenant(Target::Cgroup(path.into()))
}

/// Refreshes the targets as the world does; returns the reported processes with their tenants.
fn assigned(tenants: &mut Tenants, targets: &mut Targets, fake: &Fake) -> Vec<(u32, u16)> {
    let changes = targets.refresh(&fake.root);
    tenants.forget(&changes.gone);
    let mut events = Vec::new();
    tenants.assign(targets, &mut events);
    let owned = |event: SpaceEvent| match event {
        SpaceEvent::Owned(space, tenant) => (space.0, tenant.0),
        other => panic!("{other:?}"),
    };
    events.into_iter().map(owned).collect()
}

#[test]
fn the_innermost_group_owns_a_process_also_after_it_has_moved() {
    let fake = Fake::new();
    for pid in [10, 11, 12] {
        process(&fake, pid, 1);
    }
    fake.group("a", &[10]);
    fake.group("a/b", &[11]);
    fake.group("a/b/c", &[12]);
    let cgroups = vec!["a".into(), "a/b".into()];
    let selection = Selection { cgroups, ..Selection::default() };
    let mut targets = Targets::new(selection, &fake.root).expect("targets");
    let mut tenants = Tenants::new(vec![group("a"), group("a/b")]);
    let mut refresh = |tenants: &mut Tenants| assigned(tenants, &mut targets, &fake);
    assert_eq!(refresh(&mut tenants), [(10, 1), (11, 2), (12, 2)]);
    assert_eq!(refresh(&mut tenants), [], "reported once");
    fake.group("a/b", &[10]);
    fake.group("a", &[11]);
    assert_eq!(refresh(&mut tenants), [(10, 2), (11, 1)]);
    assert_eq!([0, 1].map(|at| tenants.processes(at)), [1, 2]);
    let image = text(12, "other", 1, 12, 9, 2);
    fake.put("/proc/12/stat", &image);
    assert_eq!(refresh(&mut tenants), [(12, 2)], "an exec creates a new address space");
}

#[test]
fn a_group_that_vanishes_is_reported_once_and_the_others_go_on() {
    let fake = Fake::new();
    process(&fake, 10, 1);
    process(&fake, 11, 1);
    fake.group("a", &[10]);
    fake.group("b", &[11]);
    let cgroups = vec!["a".into(), "b".into()];
    let selection = Selection { cgroups, ..Selection::default() };
    let mut targets = Targets::new(selection, &fake.root).expect("targets");
    assert_eq!(targets.refresh(&fake.root).removed_groups, [0_usize; 0]);
    fs::remove_dir_all(fake.root.path("/sys/fs/cgroup/a")).expect("a group");
    let changes = targets.refresh(&fake.root);
    assert_eq!((changes.removed_groups, changes.gone), (vec![0], vec![10]));
    assert_eq!(targets.refresh(&fake.root).removed_groups, [0_usize; 0], "once");
    assert_eq!(targets.pids().collect::<Vec<_>>(), [11]);
    fake.group("a", &[10]);
    assert_eq!(targets.refresh(&fake.root).appeared, [10], "a group of that name is back");
}

#[test]
fn a_process_that_leaves_its_group_is_managed_no_more_and_one_that_it_forked_stays() {
    let fake = Fake::new();
    process(&fake, 10, 1);
    fake.group("a", &[10]);
    fake.group("elsewhere", &[]);
    let selection = Selection { cgroups: vec!["a".into()], ..Selection::default() };
    let mut targets = Targets::new(selection, &fake.root).expect("targets");
    let mut tenants = Tenants::new(vec![group("a")]);
    assert_eq!(assigned(&mut tenants, &mut targets, &fake), [(10, 1)]);
    // A child starts in the group of its parent, which then leaves it.
    process(&fake, 11, 10);
    fake.group("a", &[11]);
    fake.group("elsewhere", &[10]);
    assert_eq!(assigned(&mut tenants, &mut targets, &fake), [(11, 1)]);
    assert_eq!((targets.pids().collect::<Vec<_>>(), tenants.processes(0)), (vec![11], 1));
}

#[test]
fn without_a_group_the_number_then_the_name_then_the_parent_decides() {
    let fake = Fake::new();
    for (pid, parent) in [(10, 1), (11, 10), (12, 11), (13, 10), (20, 1)] {
        process(&fake, pid, parent);
    }
    fake.put("/proc/10/task/10/children", "11 13");
    fake.put("/proc/11/task/11/children", "12");
    fake.group("g", &[12]);
    let rule = Rule::Comm(Regex::new("^prog(13|20)$").expect("a pattern"));
    let selection = Selection {
        pids: vec![10],
        cgroups: vec!["g".into()],
        rules: vec![NamedRule { name: "x".into(), rule: rule.clone() }],
        ..Selection::default()
    };
    let mut targets = Targets::new(selection, &fake.root).expect("targets");
    let pids = tenant(Target::Pids(vec![10]));
    let mut tenants = Tenants::new(vec![tenant(Target::Rule(rule)), pids, group("g")]);
    let owners = assigned(&mut tenants, &mut targets, &fake);
    assert_eq!(owners, [(10, 2), (11, 2), (12, 3), (13, 1), (20, 1)]);
    // Its parent ends, and it leaves the group: its tenant does not change.
    fs::remove_dir_all(fake.root.path("/proc/10")).expect("an end");
    fake.put("/proc/11/stat", &text(11, "prog11", 1, 11, 9, 1));
    assert_eq!(assigned(&mut tenants, &mut targets, &fake), []);
    assert_eq!(tenants.tenant_of(11), Some(1), "an orphan keeps its tenant");
}

#[test]
fn a_launched_process_belongs_to_the_command() {
    let fake = Fake::new();
    process(&fake, 30, 1);
    let mut targets = Targets::new(Selection::default(), &fake.root).expect("targets");
    let mut tenants = Tenants::new(vec![tenant(Target::Command("app".into()))]);
    targets.add(30);
    assert_eq!(assigned(&mut tenants, &mut targets, &fake), [(30, 1)]);
}

#[test]
fn limits_are_those_of_each_tenant_by_tier() {
    let limited = |limits| Tenant { limits, ..group("x") };
    let tenants =
        Tenants::new(vec![limited(vec![Some(Bytes(5))]), limited(vec![None, Some(Bytes(7))])]);
    let limits = tenants.limits();
    let get = |tenant, tier| limits.get(TenantId(tenant), TierId(tier));
    assert_eq!(
        [get(1, 0), get(1, 1), get(2, 0), get(2, 1)],
        [Some(Bytes(5)), None, None, Some(Bytes(7))]
    );
}

fn tiers() -> Tiers {
    let tier = |name: &str, nodes: &[u16]| Tier {
        name: name.into(),
        nodes: nodes.iter().map(|&node| NodeId(node)).collect(),
        capacity: Bytes(1 << 30),
        latency: None,
        bandwidth: None,
    };
    Tiers(vec![tier("fast", &[0, 2]), tier("slow", &[1])])
}

#[test]
fn usage_is_the_kernels_charge_less_inner_tenants_adjusted_by_own_moves() {
    let fake = Fake::new();
    let stat = |path: &str, anon: [u64; 3], file: [u64; 3]| {
        let line = |name: &str, nodes: [u64; 3]| {
            format!("{name} N0={} N1={} N2={}\n", nodes[0], nodes[1], nodes[2])
        };
        let text = line("anon", anon) + &line("file", file) + "kernel_stack N0=4096 N1=0 N2=0\n";
        fake.put(&format!("/sys/fs/cgroup/{path}/memory.numa_stat"), &text);
    };
    for path in ["a", "a/b", "a/b/c", "d"] {
        fake.group(path, &[]);
    }
    const PAGE: u64 = 4096;
    stat("a", [100 * PAGE, 50 * PAGE, 10 * PAGE], [5 * PAGE, 0, 0]);
    stat("a/b", [40 * PAGE, 20 * PAGE, 0], [0, 0, 0]);
    stat("a/b/c", [10 * PAGE, 5 * PAGE, 0], [0, 0, 0]);
    let named: Vec<String> = ["a", "a/b/c", "a/b", "d"].map(String::from).into();
    let groups = Cgroups::open(&fake.root, &named).expect("groups");
    // A tenant of a pid is between them, so groups and tenants have different indices.
    let mut all = vec![group("a"), tenant(Target::Pids(vec![7]))];
    all.extend(["a/b/c", "a/b", "d"].map(group));
    let (tenants, mut usage, mut problems) = (Tenants::new(all), Usage::new(1), Vec::new());
    let at = Nanos::from_secs(1);
    usage.refresh(at, &groups, &tenants, &tiers(), &mut problems);
    let pages = |usage: &Usage| -> Vec<(u16, Vec<u64>)> {
        let measured = usage.telemetry().into_iter();
        let pages =
            |used: Vec<Option<Bytes>>| used.iter().flatten().map(|b| b.base_pages()).collect();
        measured.map(|one| (one.tenant.0, pages(one.used))).collect()
    };
    let before = [(1, vec![75, 30]), (3, vec![10, 5]), (4, vec![30, 15])];
    assert_eq!(pages(&usage), before);
    let files: Vec<_> = usage.telemetry().into_iter().map(|one| one.used_files).collect();
    assert_eq!(files[0], [Bytes::from_base_pages(5), Bytes::ZERO]);
    assert_eq!(files[1], [Bytes::ZERO; 2]);
    assert_eq!(problems.len(), 1, "d has no memory controller: {problems:?}");

    let reason = Reason::Hot { rate_per_sec: 1.0 };
    let (from, to, size) = (TierId(1), TierId(0), PageSize::Base);
    usage.record_move(3, &Move { space: SpaceId(9), vpn: Vpn(0), size, from, to, reason });
    usage.record_move(1, &Move { space: SpaceId(7), vpn: Vpn(0), size, from, to, reason });
    let after = [(1, vec![75, 30]), (3, vec![10, 5]), (4, vec![31, 14])];
    assert_eq!(pages(&usage), after);
    usage.refresh(at + Nanos::from_millis(99), &groups, &tenants, &tiers(), &mut problems);
    assert_eq!(pages(&usage), after, "not read again before the interval ends");
    fs::remove_dir_all(fake.root.path("/sys/fs/cgroup/a/b")).expect("a group");
    stat("a", [PAGE, PAGE, 0], [0, 0, 0]);
    usage.refresh(at + Nanos::from_millis(100), &groups, &tenants, &tiers(), &mut problems);
    assert_eq!(pages(&usage), [(1, vec![1, 1])], "groups that are gone are not measured");
    assert_eq!(problems.len(), 1, "{problems:?}");
}

#[test]
fn readings_that_miss_our_latest_moves_do_not_undo_them() {
    let fake = Fake::new();
    fake.group("a", &[]);
    let stat = |fast: u64, slow: u64| {
        let text = format!("anon N0={} N1={}\nfile N0=0 N1=0\n", fast * 4096, slow * 4096);
        fake.put("/sys/fs/cgroup/a/memory.numa_stat", &text);
    };
    stat(1000, 5000);
    let groups = Cgroups::open(&fake.root, &["a".into()]).expect("groups");
    let (tenants, mut usage) = (Tenants::new(vec![group("a")]), Usage::new(1));
    let read = |usage: &mut Usage, tenths: u64| {
        usage.refresh(
            Nanos::from_millis(100 * tenths),
            &groups,
            &tenants,
            &tiers(),
            &mut Vec::new(),
        );
        let used = &usage.telemetry()[0].used;
        [used[0], used[1]].map(|used| used.map_or(0, Bytes::base_pages))
    };
    assert_eq!(read(&mut usage, 100), [1000, 5000]);
    let (reason, size) = (Reason::Hot { rate_per_sec: 1.0 }, PageSize::Base);
    for vpn in (0..50).map(Vpn) {
        let (space, from, to) = (SpaceId(7), TierId(1), TierId(0));
        usage.record_move(0, &Move { space, vpn, size, from, to, reason });
    }
    assert_eq!(read(&mut usage, 101), [1050, 5000], "the kernel has not counted them yet");
    // The program allocates 30 pages: more than the missed moves explain.
    stat(1080, 4950);
    assert_eq!(read(&mut usage, 102), [1080, 4950]);
    // It frees 20; they could be moves that are not counted yet, but not for long.
    stat(1060, 4950);
    assert_eq!(read(&mut usage, 103), [1080, 4950]);
    for tenths in [125, 151] {
        read(&mut usage, tenths);
    }
    assert_eq!(read(&mut usage, 152), [1060, 4950]);
    // No batch explains 65 pages.
    stat(900, 4950);
    assert_eq!(read(&mut usage, 153), [900, 4950]);
}

/// What is charged in all is a tenth of the work. In ten seconds another program may have moved pages.
#[test]
fn usage_is_not_read_again_while_nothing_was_charged_or_moved() {
    let fake = Fake::new();
    fake.group("a", &[]);
    let put = |charged: u64, fast: u64| {
        fake.put("/sys/fs/cgroup/a/memory.current", &format!("{charged}\n"));
        let stat = format!("anon N0={} N1=4096\nfile N0=0 N1=0\n", fast * 4096);
        fake.put("/sys/fs/cgroup/a/memory.numa_stat", &stat);
    };
    let groups = Cgroups::open(&fake.root, &["a".into()]).expect("a group");
    let (tenants, mut usage) = (Tenants::new(vec![group("a")]), Usage::new(1));
    let mut read = |millis, from_us: bool| {
        if from_us {
            let (space, vpn, size) = (SpaceId(9), Vpn(0), PageSize::Base);
            let (from, to) = (TierId(1), TierId(0));
            let reason = Reason::Hot { rate_per_sec: 1.0 };
            usage.record_move(0, &Move { space, vpn, size, from, to, reason });
        }
        usage.refresh(Nanos::from_millis(millis), &groups, &tenants, &tiers(), &mut Vec::new());
        usage.telemetry()[0].used[0].map_or(0, Bytes::base_pages)
    };
    put(5, 1);
    assert_eq!(read(1_000, false), 1);
    put(5, 2);
    assert_eq!(read(2_000, false), 1, "the same charge");
    put(6, 3);
    assert_eq!(read(3_000, false), 3, "another charge");
    put(6, 4);
    assert_eq!(read(12_900, false), 3);
    assert_eq!(read(13_000, false), 4, "ten seconds later");
    put(6, 7);
    assert_eq!(read(14_000, true), 7, "after a move of ours");
}
