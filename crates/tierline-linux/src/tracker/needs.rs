// SPDX-License-Identifier: Apache-2.0
//! Requirements of trackers. They are checked without changing anything.

use std::fs::{File, OpenOptions};
use std::path::Path;

use crate::root::Root;
use crate::topology::nodelist::parse_ids;

/// One requirement: whether it is met, and its name for the user.
pub(crate) type Requirement = (bool, &'static str);

/// May sample the whole machine.
pub(crate) fn may_sample(root: &Root) -> Requirement {
    let level = root.read("/proc/sys/kernel/perf_event_paranoid").ok();
    let level: Option<i32> = level.and_then(|text| text.trim().parse().ok());
    let open = level.is_some_and(|level| level <= 0 || rustix::process::geteuid().is_root());
    (open, "perf for the whole machine (root, CAP_PERFMON or perf_event_paranoid <= 0)")
}

/// Can clear accessed or soft-dirty bits.
pub(crate) fn clear_refs(root: &Root) -> Requirement {
    (root.exists("/proc/self/clear_refs"), "/proc/PID/clear_refs (CONFIG_PROC_PAGE_MONITOR)")
}

/// The kernel's type information.
pub(crate) fn btf(root: &Root) -> Requirement {
    (readable(root, "/sys/kernel/btf/vmlinux"), "/sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)")
}

/// A second node with memory.
pub(crate) fn two_nodes(root: &Root) -> Requirement {
    let list = root.read("/sys/devices/system/node/has_memory").unwrap_or_default();
    (parse_ids(&list).is_some_and(|ids| ids.len() > 1), "a second node with memory")
}

/// True if a file exists and we may read it.
pub(crate) fn readable(root: &Root, path: impl AsRef<Path>) -> bool {
    File::open(root.path(path)).is_ok()
}

/// True if a file exists and we may write it.
pub(crate) fn writable(root: &Root, path: impl AsRef<Path>) -> bool {
    OpenOptions::new().write(true).open(root.path(path)).is_ok()
}
