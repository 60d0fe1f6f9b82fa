// SPDX-License-Identifier: Apache-2.0
//! PID namespaces: a process has another number in each namespace that it is seen from.

use std::io;

use super::stat::pids;
use crate::error::{Error, Result};
use crate::root::Root;

/// The first one, whose processes are all processes (`PROC_PID_INIT_INO` of the kernel's `proc_ns.h`).
const FIRST: &str = "pid:[4026531836]";

/// The namespace of this process, as the kernel writes it; empty if it is not known.
pub(crate) fn own(root: &Root) -> String {
    read_own(root).unwrap_or_default()
}

/// The same; empty only if the kernel has no namespaces.
pub(crate) fn read_own(root: &Root) -> Result<String> {
    match of(root, "self") {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(Error::File { action: "read", path: root.path("/proc/self/ns/pid"), source })
        }
        found => Ok(found.unwrap_or_default()),
    }
}

/// True if numbers here are those that the kernel itself uses, as far as is known.
pub(crate) fn is_first(root: &Root) -> bool {
    let own = own(root);
    own.is_empty() || own == FIRST
}

/// True if no process is in a namespace. Only from the first one all processes are seen.
pub(crate) fn has_ended(root: &Root, wanted: &str) -> bool {
    let is_elsewhere = |pid: u32| match of(root, &pid.to_string()) {
        Ok(found) => found != wanted,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    own(root) == FIRST && pids(root).into_iter().all(is_elsewhere)
}

fn of(root: &Root, process: &str) -> io::Result<String> {
    let target = std::fs::read_link(root.path(format!("/proc/{process}/ns/pid")))?;
    Ok(target.to_string_lossy().into_owned())
}
