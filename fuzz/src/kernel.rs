// SPDX-License-Identifier: Apache-2.0
//! What the kernel shows, and programs have a say in: `/proc`, `/sys`, control groups, kernel memory, page tables, rings of perf.

use std::fs;
use std::path::Path;

use regex_lite::Regex;
use tierline_core::page::PageTable;
use tierline_core::port::{SpaceId, Vpn};
use tierline_core::tier::NodeId;
use tierline_core::unit::{BASE_PER_HUGE, Bytes};
use tierline_linux::btf::Btf;
use tierline_linux::cgroup::{self, Cgroup};
use tierline_linux::conflicts::{self, OwnUse};
use tierline_linux::kcore::{Kcore, notes::Notes, tasks::TaskList};
use tierline_linux::nodes::Nodes;
use tierline_linux::pagemap::{self, Pagemap};
use tierline_linux::pagetable::{MappedPage, PageTableFormat, PhysicalMemory, Visit, Walker};
use tierline_linux::perf::{
    self, records::Record, records::Records, sample::Fields, sample::Sample,
};
use tierline_linux::perf::{data_src::Access, tracefs::TraceEvent};
use tierline_linux::process::{Maps, NamedRule, Rule, Selection, Stat, Targets, stat};
use tierline_linux::root::Root;
use tierline_linux::telemetry::{self, KernelCounters, Pressure, Resource};
use tierline_linux::topology::Topology;
use tierline_linux::user::User;

/// Separates the files of an input: no byte of UTF-8 text.
const NEXT_FILE: u8 = 0xff;

/// The files of one process, with those of the machine that say which groups and memory there are.
const OF_PROCESS: [&str; 12] = [
    "proc/7/stat",
    "proc/7/maps",
    "proc/7/status",
    "proc/7/cgroup",
    "proc/7/task/7/children",
    "proc/7/numa_maps",
    "proc/7/pagemap",
    "proc/8/stat",
    "proc/8/maps",
    "proc/self/mountinfo",
    "proc/meminfo",
    "sys/fs/cgroup/a/cgroup.procs",
];

/// Files that describe the machine, and a control group.
const OF_MACHINE: [&str; 30] = [
    "sys/devices/system/node/online",
    "sys/devices/system/node/has_memory",
    "sys/devices/system/node/node0/meminfo",
    "sys/devices/system/node/node0/cpulist",
    "sys/devices/system/node/node0/distance",
    "sys/devices/system/node/node1/meminfo",
    "sys/devices/system/node/node1/cpulist",
    "sys/devices/system/node/node1/distance",
    "sys/devices/system/node/node1/vmstat",
    "sys/devices/system/node/node1/access0/initiators/read_latency",
    "sys/devices/system/node/node1/access0/initiators/read_bandwidth",
    "sys/devices/virtual/memory_tiering/memory_tier4/nodelist",
    "sys/devices/system/memory/block_size_bytes",
    "sys/devices/system/cpu/online",
    "sys/bus/cxl/devices/region0/size",
    "sys/bus/dax/devices/dax0.0/target_node",
    "proc/zoneinfo",
    "proc/vmstat",
    "proc/iomem",
    "proc/swaps",
    "proc/pressure/memory",
    "proc/self/mountinfo",
    "etc/passwd",
    "etc/group",
    "sys/fs/cgroup/a/cgroup.procs",
    "sys/fs/cgroup/a/memory.numa_stat",
    "sys/fs/cgroup/a/memory.stat",
    "sys/fs/cgroup/a/cpu.max",
    "sys/fs/cgroup/a/cpu.stat",
    "sys/kernel/tracing/events/damon/damon_aggregated/format",
];

/// A folder with these files, of which an input gives the content in this order; those that it does not give are missing.
fn machine(bytes: &[u8], files: &[&str]) -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().expect("a folder");
    for (path, content) in files.iter().zip(bytes.split(|byte| *byte == NEXT_FILE)) {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, content).expect("written");
    }
    let root = Root::at(folder.path());
    (folder, root)
}

/// The files of a process: it is found by rules and in groups, and its mappings become regions.
pub fn process(bytes: &[u8]) {
    let (_folder, root) = machine(bytes, &OF_PROCESS);
    let _ = (root.hold(7), Stat::read(&root, 7));
    if let Some(held) = root.process(7) {
        let _ = stat::children(&held);
    }
    let mut pages = PageTable::default();
    let (mut maps, mut events) = (Maps::new(SpaceId(7)), Vec::new());
    // The second time, nothing has changed.
    for _ in 0..2 {
        let _ = maps.refresh(&root, &mut events);
        if maps.pages() < 1 << 20 {
            events.drain(..).for_each(|event| pages.apply(event));
            pages.check();
        }
        events.clear();
    }
    let _ = (pagemap::mapped_ranges(&root, 7), cgroup::group_of(&root, 7));
    if let Ok(mut pagemap) = Pagemap::open(&root, 7) {
        let _ =
            pagemap.read(0..64, |_, entry| assert!(entry.pfn().is_none() || entry.is_present()));
    }
    let _ = conflicts::examine(&root, Path::new("/run/none"), &[7], OwnUse::default());
    let rules = [
        Rule::Comm(Regex::new("^a").expect("a pattern")),
        Rule::User(0),
        Rule::Cgroup("a".into()),
        Rule::Unit("a.service".into()),
        Rule::MinResident(Bytes(4096)),
    ];
    let rules = rules.map(|rule| NamedRule { name: "a".into(), rule }).to_vec();
    let cgroups = if Cgroup::open(&root, "a").is_ok() { vec!["a".into()] } else { Vec::new() };
    if let Ok(mut targets) =
        Targets::new(Selection { cgroups, rules, ..Selection::default() }, &root)
    {
        let changes = targets.refresh(&root);
        assert_eq!(targets.pids().collect::<Vec<_>>(), changes.appeared);
        targets.refresh(&root);
    }
}

/// The files of the machine and of a control group.
pub fn machine_files(bytes: &[u8]) {
    let (_folder, root) = machine(bytes, &OF_MACHINE);
    if let Ok(topology) = Topology::read(&root)
        && let Ok(tiers) = topology.tiers(None)
    {
        let memory = telemetry::nodes(&root, &tiers).unwrap_or_default();
        assert_eq!(telemetry::tiers(&tiers, &memory, |node| node.cold_files).len(), tiers.len());
        if let Ok(nodes) = Nodes::read(&root) {
            let by_tier = nodes.by_tier(&tiers);
            assert!(nodes.node_of(1).is_some() || by_tier.tier_of(1).is_none());
        }
    }
    let _ = (
        KernelCounters::vmstat(&root),
        KernelCounters::of_node(&root, NodeId(1)),
        perf::online_cpus(&root),
    );
    let _ = Pressure::of_machine(&root, Resource::Memory);
    for name in ["a", "0", "root"] {
        let _ = User::find(&root, name);
    }
    if let Ok(event) = TraceEvent::find(&root, "damon/damon_aggregated") {
        let _ = event.field("start").map(|field| field.read(bytes));
    }
    if let Ok(group) = Cgroup::open(&root, "a") {
        let _ = (
            group.pids(),
            group.usage_by_node(),
            group.refaults(),
            group.cpu_max(),
            group.cpu_use(),
            group.may_swap(),
        );
    }
    let _ = conflicts::examine(&root, Path::new("/run/none"), &[], OwnUse::default());
}

/// The kernel's types.
pub fn btf(bytes: &[u8]) {
    if let Ok(btf) = Btf::parse(Path::new("vmlinux"), bytes.to_vec()) {
        let _ = btf.offsets("task_struct", ["pid", "mm"]);
        let _ = btf.offsets("mm_struct", ["pgd"]);
    }
}

/// Kernel memory: the head of the file, its notes, and the list of processes in it. Two bytes of the input are the length of what
/// follows them, the kernel's types.
pub fn kcore(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first_chunk::<2>() else { return };
    let (types, memory) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
    let (_folder, root) = machine(&[], &["proc/kcore"]);
    fs::create_dir_all(root.path("/sys/kernel/btf")).expect("a folder");
    fs::write(root.path("/proc/kcore"), memory).expect("written");
    fs::write(root.path("/sys/kernel/btf/vmlinux"), types).expect("written");
    let Ok(kcore) = Kcore::open(&root) else { return };
    let _ = Notes::read(&kcore).vmcoreinfo_number("NUMBER(phys_base)");
    for address in [0, 4096, u64::MAX - 3, 1 << 47] {
        let _ = (
            kcore.virt_word(address),
            kcore.phys_of(address),
            kcore.read_phys(address, &mut [0; 64]),
        );
    }
    if let Ok(tasks) = TaskList::open(&root, &kcore)
        && let Some(process) = tasks.find(&kcore, 1)
    {
        assert_eq!(process.pid, 1);
    }
}

/// Memory that holds page tables, at address 0.
struct Ram<'a>(&'a [u8]);

impl PhysicalMemory for Ram<'_> {
    fn read_phys(&self, address: u64, buf: &mut [u8]) -> bool {
        let at = usize::try_from(address).unwrap_or(usize::MAX);
        let Some(part) = self.0.get(at..).and_then(|rest| rest.get(..buf.len())) else {
            return false;
        };
        buf.copy_from_slice(part);
        true
    }
    fn ram_base_pages(&self) -> u64 {
        self.0.len() as u64 / 4096
    }
}

/// Counts pages, which must come by ascending address.
#[derive(Default)]
struct Pages(u64, Option<Vpn>);

impl Visit for Pages {
    fn page(&mut self, leaf: MappedPage) {
        assert!(self.1.is_none_or(|last| last < leaf.vpn), "{leaf:?} after {:?}", self.1);
        (self.0, self.1) = (self.0 + 1, Some(leaf.vpn));
    }
}

/// Page tables that change while they are read may show anything, also tables that refer to themselves. The input is 64 KiB that repeat
/// it, with the address of the top in its first byte.
pub fn page_tables(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        return;
    };
    let ram: Vec<u8> = rest.iter().copied().cycle().take(16 << 12).collect();
    let (ram, top) = (Ram(&ram), u64::from(first % 16) << 12);
    let mut walker =
        Walker::new(PageTableFormat { levels: 4 + u32::from(first >> 7), encrypted: 0 });
    let mut pages = Pages::default();
    let is_whole = walker.walk(&ram, top, &mut pages);
    assert!(!is_whole || pages.0 < 1 << 36);
    let _ = walker.find(&ram, top, Vpn(512 * u64::from(*first)));
    let _: Option<[_; 16]> = walker.find_run(&ram, top, Vpn(u64::from(*first) * BASE_PER_HUGE));
}

/// A ring of perf that wraps around anywhere.
pub fn ring(bytes: &[u8]) {
    let Some((at, bytes)) = bytes.split_first() else { return };
    let (first, second) = bytes.split_at(usize::from(*at).min(bytes.len()));
    let mut scratch = Vec::new();
    let mut records = Records::new(first, second, &mut scratch);
    let mut left = bytes.len() / 8 + 2;
    while let Some(record) = records.next_record() {
        left = left.checked_sub(1).expect("every record takes eight bytes");
        if let Record::Sample(body) = record {
            let fields = Fields::IP
                | Fields::TID
                | Fields::TIME
                | Fields::ADDR
                | Fields::CPU
                | Fields::RAW
                | Fields::WEIGHT
                | Fields::DATA_SRC;
            for (fields, registers) in
                [(fields, 0), (fields | Fields::REGS_INTR, 3), (Fields::RAW, 0)]
            {
                if let Some(sample) = Sample::parse(body, fields, registers) {
                    let _ = (sample.register(0), Access::decode(sample.data_src));
                }
            }
        }
    }
}
