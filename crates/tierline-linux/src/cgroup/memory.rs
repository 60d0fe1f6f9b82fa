// SPDX-License-Identifier: Apache-2.0
//! What the kernel reports of a group's memory, and proactive reclaim.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use tierline_core::tier::NodeId;
use tierline_core::unit::Bytes;

use super::{Cgroup, read_at};
use crate::error::{Error, Result};
use crate::telemetry::{Pressure, Resource};

/// Memory of user space: every page of it is of one of these types. `file` holds tmpfs and shared memory, which `shmem`
/// counts again, as `file_mapped`, `anon_thp` and the LRU lists (`inactive_anon`, …) count again what is here.
/// Huge pages of hugetlbfs are in neither; they do not move.
const USER: [&str; 2] = ["anon", "file"];
/// Memory that the kernel allocated for the group; it does not move.
const KERNEL: [&str; 5] =
    ["kernel_stack", "pagetables", "sec_pagetables", "slab_reclaimable", "slab_unreclaimable"];

/// Memory of one node that is charged to a group or to one below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charged {
    /// The node.
    pub node: NodeId,
    /// Pages of programs and of files.
    pub user: Bytes,
    /// The kernel's own, for them.
    pub kernel: Bytes,
}

/// Pages that came back after they had been reclaimed, since the group was made.
///
/// The kernel counts a refault only where a page comes back on the node that it was reclaimed from (`workingset_refault`
/// in its mm/workingset.c, `lru_gen_refault`). What we page out of slow memory comes back on the fast node: in a guest of
/// Linux 7.2, 7 of 1,102 pages were counted. Pages read from swap are therefore taken from `pswpin` and `zswpin` where
/// those are higher; in groups of kernels without these counters (6.12) from `pgmajfault`, which includes first reads of
/// mapped files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refaults {
    /// From swap.
    pub anon: u64,
    /// From files, on the node that they were reclaimed from.
    pub file: u64,
}

/// What a request to reclaim came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaimed {
    /// As much as was asked for, or a little more.
    All,
    /// Less: there is not so much that can be reclaimed.
    Less,
}

impl Cgroup {
    /// What this group and those below it use of each node, from `memory.numa_stat`; `None` where the group is gone.
    ///
    /// # Errors
    /// `Error::Missing` where the group has no memory controller; `Error::Format` for an odd text.
    pub fn charged(&self) -> Result<Option<Vec<Charged>>> {
        const FILE: &str = "memory.numa_stat";
        let Some(text) = self.controlled(FILE)? else { return Ok(None) };
        let charged = charged(&text).ok_or_else(|| self.odd(FILE, &text, "anon N0=BYTES …"))?;
        Ok(Some(charged))
    }

    /// Refaults of this group and those below it, from `memory.stat`; `None` where the group is gone.
    ///
    /// # Errors
    /// `Error::Missing` where the group has no memory controller; `Error::Format` where its kernel (before Linux 5.9)
    /// does not count anonymous memory and files apart.
    pub fn refaults(&self) -> Result<Option<Refaults>> {
        const FILE: &str = "memory.stat";
        let Some(text) = self.controlled(FILE)? else { return Ok(None) };
        let expected = "workingset_refault_anon and workingset_refault_file";
        let refaults = Refaults::parse(&text).ok_or_else(|| self.odd(FILE, &text, expected))?;
        Ok(Some(refaults))
    }

    /// For how long this group's tasks waited for something; `None` where the group is gone.
    ///
    /// # Errors
    /// `Error::Missing` where the kernel measures no pressure.
    pub fn pressure(&self, of: Resource) -> Result<Option<Pressure>> {
        let file = format!("{}.pressure", of.name());
        match self.read(&file) {
            Ok(text) => Ok(text.map(|text| Pressure::parse(&text))),
            Err(Error::File { path, source, .. }) => {
                Err(Pressure::missing(&path.display().to_string(), &source))
            }
            Err(error) => Err(error),
        }
    }

    /// Has the kernel reclaim memory of this group and those below it, and waits for it, for seconds where that takes
    /// long. `swappiness` (0 to 200) says how much of it is to be anonymous memory; `None`: as the kernel would.
    /// What is asked for without a node in mind is taken from all of them. `None` where the group is gone.
    ///
    /// # Errors
    /// `Error::Missing` where this kernel has no `memory.reclaim` (before Linux 5.19), or knows no swappiness there.
    pub fn reclaim(&self, bytes: Bytes, swappiness: Option<u8>) -> Result<Option<Reclaimed>> {
        const FILE: &str = "memory.reclaim";
        let how = swappiness.map(|value| format!(" swappiness={value}")).unwrap_or_default();
        let error = match self.write(FILE, &format!("{}{how}", bytes.0)) {
            Ok(()) => return Ok(Some(Reclaimed::All)),
            Err(error) => error,
        };
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::AGAIN) => Ok(Some(Reclaimed::Less)),
            Some(Errno::INVAL) if swappiness.is_some() => Err(Error::Missing {
                what: format!("swappiness in {}", self.place.join(FILE).display()),
                why: "this kernel does not know it".into(),
                hint: "use a newer kernel, or leave the choice to vm.swappiness".into(),
            }),
            Some(Errno::NOENT) if !self.is_gone(&error) => Err(self.lacks(FILE)),
            _ => self.answer("write", FILE, Err(error)),
        }
    }

    /// False where this group, or one above it, may have no page in swap (`memory.swap.max` is 0); `None` where the
    /// group is gone.
    ///
    /// # Errors
    /// `Error::File` where it cannot be known.
    pub fn may_swap(&self) -> Result<Option<bool>> {
        const FILE: &str = "memory.swap.max";
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let up = |folder: &OwnedFd| openat(folder, "..", flags, Mode::empty());
        if !self.is_there() {
            return Ok(None);
        }
        let mut folder = match self.folder.try_clone() {
            Ok(folder) => folder,
            Err(error) => return self.answer("open", FILE, Err(error)),
        };
        for _ in 0..self.depth {
            // Missing where the memory controller ends above: the groups above have it.
            if read_at(folder.as_fd(), FILE).is_ok_and(|limit| limit.trim() == "0") {
                return Ok(Some(false));
            }
            folder = match up(&folder) {
                Ok(above) => above,
                Err(errno) => return self.answer("open", FILE, Err(errno.into())),
            };
        }
        Ok(Some(true))
    }

    /// A file of the memory controller.
    fn controlled(&self, file: &str) -> Result<Option<String>> {
        match self.read(file) {
            Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Err(self.lacks(file))
            }
            result => result,
        }
    }

    fn lacks(&self, file: &str) -> Error {
        let above = self.place.parent().unwrap_or(&self.place).join("cgroup.subtree_control");
        Error::Missing {
            what: format!("{file} of cgroup {:?}", self.named),
            why:
                "there is no such file: the group has no memory controller, or the kernel is older"
                    .into(),
            hint: format!("hand the controller down: echo +memory > {}", above.display()),
        }
    }

    fn odd(&self, file: &str, text: &str, expected: &'static str) -> Error {
        let found = text.lines().next().unwrap_or_default().into();
        Error::Format { path: self.place.join(file), found, expected }
    }
}

/// Sums the types of [`USER`] and [`KERNEL`] for each node; the many other lines are not looked into.
fn charged(text: &str) -> Option<Vec<Charged>> {
    let mut nodes: Vec<Charged> = Vec::new();
    let mut found = 0;
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(' ') else { continue };
        let is_user = USER.contains(&name);
        if !is_user && !KERNEL.contains(&name) {
            continue;
        }
        found += usize::from(is_user);
        for word in rest.split_ascii_whitespace() {
            let (node, bytes) = word.strip_prefix('N')?.split_once('=')?;
            let (node, bytes) = (NodeId(node.parse().ok()?), Bytes(bytes.parse().ok()?));
            let at = nodes.iter().position(|one| one.node == node).unwrap_or_else(|| {
                nodes.push(Charged { node, user: Bytes::ZERO, kernel: Bytes::ZERO });
                nodes.len() - 1
            });
            let one = &mut nodes[at];
            *(if is_user { &mut one.user } else { &mut one.kernel }) += bytes;
        }
    }
    (found == USER.len()).then_some(nodes)
}

impl Refaults {
    /// From the lines of a group's `memory.stat` or of `/proc/vmstat`, which have the same names.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let counter = |name: &str| {
            let value =
                |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
            text.lines().find_map(value)
        };
        let [anon, file] = ["workingset_refault_anon", "workingset_refault_file"].map(counter);
        let swapped_in = match counter("pswpin") {
            Some(pages) => pages + counter("zswpin").unwrap_or(0),
            None => counter("pgmajfault").unwrap_or(0),
        };
        Some(Self { anon: anon?.max(swapped_in), file: file? })
    }

    /// Pages that came back since `before`.
    pub fn since(self, before: Self) -> u64 {
        self.anon.saturating_sub(before.anon) + self.file.saturating_sub(before.file)
    }
}
