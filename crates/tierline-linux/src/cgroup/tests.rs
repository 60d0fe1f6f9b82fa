// SPDX-License-Identifier: Apache-2.0

use std::fs;
use std::path::Path;

use tierline_core::tier::NodeId;
use tierline_core::unit::Bytes;

use super::*;
use crate::telemetry::Resource;

const MOUNT: &str = "/sys/fs/cgroup";

/// A root with a mounted hierarchy that has only its root group.
pub struct Fake {
    _folder: tempfile::TempDir,
    pub root: Root,
}

impl Fake {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let fake = Self { root: Root::at(folder.path()), _folder: folder };
        let mounts = "22 1 0:21 / /proc rw - proc proc rw\n\
                      31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
        fake.put("/proc/self/mountinfo", mounts);
        fake.group("", &[]);
        fake
    }

    pub fn put(&self, path: &str, text: &str) {
        let path = self.root.path(path);
        fs::create_dir_all(path.parent().expect("in a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// A group that lists these processes.
    pub fn group(&self, path: &str, pids: &[u32]) {
        let text: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
        self.put(&format!("{MOUNT}/{path}/cgroup.procs"), &text);
    }

    fn has(&self, group: &str, file: &str, text: &str) {
        self.put(&format!("{MOUNT}/{group}/{file}"), text);
    }

    fn text(&self, group: &str, file: &str) -> String {
        self.root.read(format!("{MOUNT}/{group}/{file}")).expect("readable")
    }

    fn remove(&self, group: &str) {
        fs::remove_dir_all(self.root.path(format!("{MOUNT}/{group}"))).expect("a group");
    }

    fn open(&self, named: &str) -> Cgroup {
        Cgroup::open(&self.root, named).expect("a group")
    }

    fn refused(&self, named: &str) -> String {
        Cgroup::open(&self.root, named).expect_err("no group").to_string()
    }
}

#[test]
fn the_mount_is_found_wherever_it_is() {
    let find = |text: &str| {
        let fake = Fake::new();
        fake.put("/proc/self/mountinfo", text);
        Hierarchy::find(&fake.root)
    };
    let hierarchy = |mount: &str, top: &str| Hierarchy { mount: mount.into(), top: top.into() };
    let hybrid = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                  41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    assert_eq!(find(hybrid).expect("found"), hierarchy("/sys/fs/cgroup/unified", "/"));
    let in_part = "41 31 0:38 /docker/ab /mnt/part ro - cgroup2 cgroup2 rw\n\
                   42 31 0:38 / /mnt/a\\040b rw shared:3 master:1 - cgroup2 cgroup2 rw\n";
    assert_eq!(
        find(in_part).expect("found"),
        hierarchy("/mnt/a b", "/"),
        "the whole hierarchy is preferred"
    );
    let part = in_part.lines().next().expect("a line");
    assert_eq!(find(part).expect("found").group("/mnt/part/x"), "/docker/ab/x");
    let error = find("35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\n-\n");
    let error = error.expect_err("version 1 only");
    assert!(error.hint().is_some_and(|hint| hint.contains("mount -t cgroup2")), "{error}");
}

#[test]
fn a_group_is_named_by_its_path_absolute_or_relative() {
    let fake = Fake::new();
    fake.group("a/b", &[]);
    for named in ["a/b", "/a/b", "a//b/", "./a/b", "/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a/b/"] {
        assert_eq!(fake.open(named).path(), "/a/b", "{named}");
    }
    for named in ["/", "/sys/fs/cgroup", "/sys/fs/cgroup/"] {
        assert_eq!(fake.open(named).path(), "/", "{named}");
    }
    assert!(fake.refused("../x").contains(".."));
    assert!(fake.refused("a/none").contains("there is no cgroup v2 folder /sys/fs/cgroup/a/none"));
    // Not below the mount point, although its name starts with it.
    assert!(fake.refused("/sys/fs/cgroups/a").contains("/sys/fs/cgroup/sys/fs/cgroups/a"));
    fs::create_dir(fake.root.path(format!("{MOUNT}/plain"))).expect("a folder");
    assert!(fake.refused("plain").contains("no cgroup v2 folder"), "it lists no processes");
    fake.has("a/b", "cgroup.type", "threaded\n");
    assert!(fake.refused("a/b").contains("threaded"));
    fake.has("a/b", "cgroup.type", "domain threaded\n");
    assert_eq!(fake.open("a/b").typed_name(), "a/b");
}

#[test]
fn a_group_lists_the_processes_of_its_whole_subtree() {
    let fake = Fake::new();
    fake.group("a", &[7, 3]);
    fake.group("a/b", &[5]);
    fake.group("a/b/c", &[12]);
    fake.group("d", &[9]);
    // A threaded group refuses to list processes as well.
    fs::create_dir_all(fake.root.path(format!("{MOUNT}/a/threaded/cgroup.procs"))).expect("odd");
    assert_eq!(fake.open("a").pids(), [3, 5, 7, 12]);
    assert_eq!(fake.open("/").pids(), [3, 5, 7, 9, 12]);
}

#[test]
fn the_group_of_a_process_is_the_line_of_version_two() {
    let fake = Fake::new();
    let of = |text: &str| {
        fake.put("/proc/7/cgroup", text);
        group_of(&fake.root, 7)
    };
    assert_eq!(of("4:memory:/old\n0::/a/b c\n").as_deref(), Some("/a/b c"));
    assert_eq!(of("0::/\n").as_deref(), Some("/"));
    assert_eq!(of("4:memory:/old\n"), None);
    assert_eq!(of("0::/a (deleted)\n"), None);
    assert_eq!(group_of(&fake.root, 8), None);
}

#[test]
fn a_process_belongs_to_the_innermost_submitted_group() {
    let fake = Fake::new();
    fake.group("a", &[1]);
    fake.group("a/b", &[2]);
    fake.group("a/b/c", &[3]);
    fake.group("ab", &[4]);
    let open = |named: &[&str]| {
        let named: Vec<String> = named.iter().map(|name| (*name).into()).collect();
        Cgroups::open(&fake.root, &named)
    };
    let groups = open(&["a/b", "/a"]).expect("two groups");
    assert_eq!(groups.processes(), BTreeMap::from([(1, 1), (2, 0), (3, 0)]));
    let of = |path: &str| groups.innermost(path);
    assert_eq!(
        [of("/a/b/c"), of("/a/b"), of("/a"), of("/a/x")],
        [Some(0), Some(0), Some(1), Some(1)]
    );
    assert_eq!([of("/ab"), of("/"), of("/a/bc")], [None, None, Some(1)]);
    fake.put("/proc/3/cgroup", "0::/a/b/c\n");
    assert_eq!((groups.group_of(&fake.root, 3), groups.group_of(&fake.root, 4)), (Some(0), None));
    let whole = open(&["/", "ab"]).expect("two groups");
    assert_eq!([whole.innermost("/ab"), whole.innermost("/x")], [Some(1), Some(0)]);
    assert_eq!(whole.processes(), BTreeMap::from([(1, 0), (2, 0), (3, 0), (4, 1)]));
    let error = open(&["a", "ab", "/sys/fs/cgroup/a/"]).expect_err("twice").to_string();
    assert!(
        error.contains("/sys/fs/cgroup/a/") && error.contains("same group as \"a\""),
        "{error}"
    );
}

#[test]
fn a_removed_group_is_no_error_and_a_new_one_of_its_name_is_held() {
    let fake = Fake::new();
    fake.group("a", &[1]);
    fake.has("a", "memory.stat", "workingset_refault_anon 2\nworkingset_refault_file 3\n");
    let mut groups = Cgroups::open(&fake.root, &["a".into()]).expect("a group");
    let a = |groups: &Cgroups| groups.get(0).expect("it").refaults();
    assert_eq!(groups.check_names(), []);
    assert_eq!(a(&groups).expect("there"), Some(Refaults { anon: 2, file: 3 }));
    fake.remove("a");
    assert_eq!(a(&groups).expect("no error"), None);
    assert_eq!(groups.get(0).expect("it").usage_by_node().expect("no error"), None);
    assert_eq!(groups.get(0).expect("it").pressure(Resource::Io).expect("no error"), None);
    assert_eq!(groups.get(0).expect("it").reclaim(Bytes(1), None).expect("no error"), None);
    assert_eq!(groups.get(0).expect("it").may_swap().expect("no error"), None);
    assert!(groups.processes().is_empty());
    assert_eq!(
        [groups.check_names(), groups.check_names()],
        [vec![(0, NameState::Gone)], vec![(0, NameState::Gone)]]
    );
    fake.group("a", &[2]);
    assert_eq!(groups.processes(), BTreeMap::new(), "the old group is held until the next check");
    assert_eq!(groups.check_names(), [(0, NameState::Replaced)]);
    assert_eq!(groups.processes(), BTreeMap::from([(2, 0)]));
    assert_eq!(groups.check_names(), []);
    // Renamed: the same group stays held, and no group has the name.
    let place = |name: &str| fake.root.path(format!("{MOUNT}/{name}"));
    fs::rename(place("a"), place("b")).expect("renamed");
    assert_eq!(groups.check_names(), [(0, NameState::Gone)]);
    fake.group("a", &[3]);
    assert_eq!(
        (groups.check_names(), groups.processes()),
        (vec![(0, NameState::Replaced)], BTreeMap::from([(3, 0)]))
    );
}

/// Lines as Linux 6.18 writes them.
const NUMA_STAT: &str = "anon N0=4096 N1=8192\nfile N0=100 N1=0\nkernel_stack N0=10 N1=0\n\
    pagetables N0=20 N1=0\nsec_pagetables N0=0 N1=0\nshmem N0=64 N1=0\nfile_mapped N0=50 N1=0\n\
    anon_thp N0=4096 N1=0\ninactive_anon N0=4160 N1=0\nslab_reclaimable N0=3 N1=4\n\
    slab_unreclaimable N0=5 N1=0\nworkingset_refault_anon N0=7 N1=0\n";

#[test]
fn memory_is_summed_by_node_without_counting_twice() {
    let fake = Fake::new();
    fake.group("a", &[]);
    let a = fake.open("a");
    let error = a.usage_by_node().expect_err("no controller");
    assert!(error.to_string().contains("memory.numa_stat of cgroup \"a\""), "{error}");
    assert!(
        error.hint().is_some_and(|hint| hint.contains("echo +memory > ")
            && hint.ends_with("/sys/fs/cgroup/cgroup.subtree_control")),
        "{error}"
    );
    fake.has("a", "memory.numa_stat", NUMA_STAT);
    let charged = |node, user, files, kernel| NodeUsage {
        node: NodeId(node),
        user: Bytes(user),
        files: Bytes(files),
        kernel: Bytes(kernel),
    };
    assert_eq!(
        a.usage_by_node().expect("readable").expect("there"),
        [charged(0, 4196, 100, 38), charged(1, 8192, 0, 4)]
    );
    let files = "inactive_file N0=90 N1=7\nfile_dirty N0=5 N1=0\nfile_writeback N0=1 N1=0\n";
    fake.has("a", "memory.numa_stat", &(NUMA_STAT.to_owned() + files));
    // Of 90, none is mapped, as all that is mapped may be shared memory; 6 are to be written.
    assert_eq!(
        a.usage_by_node().expect("readable").expect("there"),
        [charged(0, 4196 - 84, 100 - 84, 38), charged(1, 8192 - 7, 0, 4)]
    );
    for odd in ["", "anon N0=1\n", "anon N0=1\nfile N0=x\n", "anon 12\nfile 0\n"] {
        fake.has("a", "memory.numa_stat", odd);
        assert!(a.usage_by_node().is_err(), "{odd:?}");
    }
}

#[test]
fn pressure_and_refaults_are_read() {
    let fake = Fake::new();
    fake.group("a", &[]);
    let a = fake.open("a");
    let error = a.pressure(Resource::Memory).expect_err("no PSI");
    assert!(error.to_string().contains("memory.pressure") && error.hint().is_some(), "{error}");
    fake.has(
        "a",
        "memory.pressure",
        "some avg10=1.50 avg60=0 avg300=0 total=120\nfull avg10=0 avg60=0 avg300=0 total=7\n",
    );
    fake.has("a", "io.pressure", "some avg10=0 avg60=0 avg300=0 total=9\n");
    let pressure = |of| a.pressure(of).expect("readable").expect("there");
    assert_eq!(
        (pressure(Resource::Memory).some.avg10, pressure(Resource::Memory).some.total_us),
        (1.5, 120)
    );
    assert_eq!(pressure(Resource::Io).some.total_us, 9);
    fake.has("a", "memory.stat", "anon 5\nworkingset_refault_anon 4\nworkingset_refault_file 9\n");
    let refaults = a.refaults().expect("readable").expect("there");
    assert_eq!(refaults.since(Refaults { anon: 1, file: 9 }), 3);
    for (rest, anon) in [
        ("pswpin 1102\npgmajfault 5000\n", 1102),
        ("pswpin 1102\nzswpin 8\n", 1110),
        ("pgmajfault 1109\n", 1109),
        ("pswpin 3\n", 4),
    ] {
        let text = format!("workingset_refault_anon 4\nworkingset_refault_file 9\n{rest}");
        fake.has("a", "memory.stat", &text);
        let refaults = a.refaults().expect("readable").expect("there");
        assert_eq!(refaults, Refaults { anon, file: 9 }, "{rest:?}");
    }
    fake.has("a", "memory.stat", "workingset_refault 13\n");
    assert!(a.refaults().is_err(), "before Linux 5.9");
}

#[test]
fn a_request_to_reclaim_is_one_write() {
    let fake = Fake::new();
    fake.group("a", &[]);
    let a = fake.open("a");
    assert!(a.reclaim(Bytes(1), None).expect_err("no such file").hint().is_some());
    fake.has("a", "memory.reclaim", "");
    assert_eq!(a.reclaim(Bytes(1 << 20), None).expect("written"), Some(Reclaimed::All));
    assert_eq!(fake.text("a", "memory.reclaim"), "1048576");
    assert_eq!(a.reclaim(Bytes(1 << 20), Some(200)).expect("written"), Some(Reclaimed::All));
    assert_eq!(fake.text("a", "memory.reclaim"), "1048576 swappiness=200");
}

#[test]
fn a_swap_limit_of_zero_anywhere_above_forbids_swap() {
    let fake = Fake::new();
    fake.group("a/b/c", &[]);
    fake.group("a/b", &[]);
    fake.group("a", &[]);
    let c = fake.open("a/b/c");
    let may = || c.may_swap().expect("readable");
    assert_eq!(may(), Some(true));
    fake.has("a/b/c", "memory.swap.max", "max\n");
    fake.has("a", "memory.swap.max", "4096\n");
    assert_eq!(may(), Some(true));
    fake.has("a", "memory.swap.max", "0\n");
    assert_eq!(may(), Some(false));
    // Files above the mount point belong to no group.
    fake.has("a", "memory.swap.max", "max\n");
    fake.put("/sys/fs/memory.swap.max", "0\n");
    fake.has("", "memory.swap.max", "0\n");
    assert_eq!(may(), Some(true));
}

#[test]
fn this_machine_is_read_without_error() {
    let root = Root::default();
    // If there are groups of version 2, this process is in one, which lists it.
    if let (Ok(_), Some(path)) = (Hierarchy::find(&root), group_of(&root, std::process::id()))
        && let Ok(group) = Cgroup::open(&root, &path)
    {
        assert!(Path::new(group.path()).starts_with("/"));
        assert!(group.pids().contains(&std::process::id()), "{group:?}");
    }
}
