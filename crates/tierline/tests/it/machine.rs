// SPDX-License-Identifier: Apache-2.0
//! A machine of two nodes, as a folder. Its processes are links to real ones; its settings are files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const FILES: &[(&str, &str)] = &[
    ("sys/devices/system/node/online", "0-1\n"),
    ("sys/devices/system/node/has_memory", "0-1\n"),
    ("sys/devices/system/memory/block_size_bytes", "8000000\n"),
    (
        "sys/devices/system/node/node0/meminfo",
        "Node 0 MemTotal: 1048576 kB\nNode 0 MemFree: 524288 kB\n",
    ),
    ("sys/devices/system/node/node0/cpulist", "0-1\n"),
    ("sys/devices/system/node/node0/distance", "10 20\n"),
    (
        "sys/devices/system/node/node1/meminfo",
        "Node 1 MemTotal: 2097152 kB\nNode 1 MemFree: 1048576 kB\n",
    ),
    ("sys/devices/system/node/node1/cpulist", "\n"),
    ("sys/devices/system/node/node1/distance", "20 10\n"),
    // A kernel with soft-dirty bits, independent of this machine's.
    ("proc/self/smaps", "VmFlags: rd wr mr mw me ac sd\n"),
    ("proc/self/statm", "1000 500 100 1 0 300 0\n"),
    (
        "proc/zoneinfo",
        "Node 0, zone   Normal\n  pages free     131072\n        min 0\n        low 0\n        high 0\n        managed  262144\n",
    ),
];

/// The folder, and a state folder beside it.
pub struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let machine = Self { dir };
        for (path, text) in FILES {
            let path = machine.root().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        machine.has(std::process::id());
        machine
    }

    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes the real process `pid` run on this machine.
    pub fn has(&self, pid: u32) {
        let link = self.root().join(format!("proc/{pid}"));
        symlink(Path::new("/proc").join(pid.to_string()), link).expect("a link");
    }

    /// Makes the processes run on this machine that are started next, by anybody.
    pub fn has_the_next(&self) {
        let load = fs::read_to_string("/proc/loadavg").expect("the last number");
        let last: u32 =
            load.split_whitespace().last().and_then(|pid| pid.parse().ok()).expect("it");
        (last + 1..last + 3_000).for_each(|pid| self.has(pid));
    }

    /// The options that make the binary use this machine, with the tracker that requires least of the kernel.
    /// Nothing is moved.
    pub fn options(&self) -> Vec<String> {
        let path = |path: PathBuf| path.display().to_string();
        let options =
            ["--policy", "hold", "--tracker", "soft_dirty", "--dry-run", "--interval", "5ms"];
        let mut options: Vec<String> = options.map(String::from).to_vec();
        options.extend([
            "--root".into(),
            path(self.root()),
            "--state-dir".into(),
            path(self.file("state")),
        ]);
        options
    }

    /// The status of the managers.
    pub fn status(&self) -> serde_json::Value {
        crate::json(&format!("status --json --state-dir {}", self.file("state").display()))
    }
}
