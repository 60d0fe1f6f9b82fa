// SPDX-License-Identifier: Apache-2.0
//! Memory usage of a group as the kernel reports it, and proactive reclaim.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use tierline_core::tier::NodeId;
use tierline_core::unit::Bytes;

use super::{Cgroup, read_at};
use crate::error::{Error, Result};
use crate::telemetry::{Pressure, Resource, cold_files};

/// Memory of user space: each page is of one of these types. `file` includes tmpfs and shared memory, so `shmem`,
/// `file_mapped`, `anon_thp` and the LRU lists (`inactive_anon`, …) would count pages twice.
/// Huge pages of hugetlbfs are in neither; they cannot be moved.
const USER: [&str; 2] = ["anon", IN_FILES];
const IN_FILES: &str = "file";
/// Memory that the kernel allocated for the group; it cannot be moved.
const KERNEL: [&str; 5] =
    ["kernel_stack", "pagetables", "sec_pagetables", "slab_reclaimable", "slab_unreclaimable"];

/// The types that [`cold_files`] takes, in its order; a type that the kernel does not report counts as zero.
const FILES: [&str; 5] = ["inactive_file", "file_mapped", "shmem", "file_dirty", "file_writeback"];
type Files = [Bytes; FILES.len()];

/// Memory of one node that is charged to a group or to groups below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeUsage {
    /// The node.
    pub node: NodeId,
    /// Pages of programs and of files, without cold pages of files: these give way when room is needed.
    pub user: Bytes,
    /// Of these, files and shared memory.
    pub files: Bytes,
    /// Memory that the kernel allocated for them.
    pub kernel: Bytes,
}

/// Pages that were reclaimed and then paged back in, since the group was created.
///
/// The kernel counts a refault only if the page returns to the node from which it was reclaimed (`lru_gen_refault` in its
/// mm/workingset.c). Pages that we page out of slow memory return to the fast node: in a guest of Linux 7.2, 7 of 1,102
/// pages were counted. So `pswpin` and `zswpin` are used for swap if they are higher, and `pgmajfault` in groups of
/// kernels without these counters (6.12); it includes first reads of mapped files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refaults {
    /// From swap.
    pub anon: u64,
    /// From files, on the node that they were reclaimed from.
    pub file: u64,
}

/// The result of a request to reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaimed {
    /// As much as requested, or a little more.
    All,
    /// Less: no more could be reclaimed.
    Less,
}

impl Cgroup {
    /// Usage of each node by this group and those below it, from `memory.numa_stat`; `None` if the group is gone.
    ///
    /// # Errors
    /// `Error::Missing` if the group has no memory controller; `Error::Format` if the text cannot be parsed.
    pub fn usage_by_node(&self) -> Result<Option<Vec<NodeUsage>>> {
        const FILE: &str = "memory.numa_stat";
        let Some(text) = self.controlled(FILE, "memory")? else { return Ok(None) };
        let charged = charged(&text).ok_or_else(|| self.odd(FILE, &text, "anon N0=BYTES …"))?;
        Ok(Some(charged))
    }

    /// Memory of all kinds and nodes that is charged to this group and those below it, which costs a tenth of
    /// [`Cgroup::usage_by_node`]; `None` if it is not known.
    pub fn charged(&self) -> Option<Bytes> {
        Some(Bytes(self.read("memory.current").ok()??.trim().parse().ok()?))
    }

    /// Refaults of this group and those below it, from `memory.stat`; `None` if the group is gone.
    ///
    /// # Errors
    /// `Error::Missing` if the group has no memory controller; `Error::Format` if the kernel (before Linux 5.9)
    /// does not count anonymous memory and files separately.
    pub fn refaults(&self) -> Result<Option<Refaults>> {
        const FILE: &str = "memory.stat";
        let Some(text) = self.controlled(FILE, "memory")? else { return Ok(None) };
        let expected = "workingset_refault_anon and workingset_refault_file";
        let refaults = Refaults::parse(&text).ok_or_else(|| self.odd(FILE, &text, expected))?;
        Ok(Some(refaults))
    }

    /// How long this group's tasks waited for a resource; `None` if the group is gone.
    ///
    /// # Errors
    /// `Error::Missing` if the kernel does not measure pressure.
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

    /// Requests the kernel to reclaim memory of this group and those below it, and waits for the end, which may take
    /// seconds. `swappiness` (0 to 200) is the preference for anonymous memory; `None` leaves it to the kernel.
    /// Memory is reclaimed from all nodes. `None` is returned if the group is gone.
    ///
    /// # Errors
    /// `Error::Missing` if this kernel has no `memory.reclaim` (before Linux 5.19), or no swappiness there.
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
                why: "this kernel does not support it".into(),
                hint: "use a newer kernel, or leave the choice to vm.swappiness".into(),
            }),
            Some(Errno::NOENT) if !self.is_gone(&error) => Err(self.lacks(FILE, "memory")),
            _ => self.answer("write", FILE, Err(error)),
        }
    }

    /// False if this group, or one above it, may have no page in swap (`memory.swap.max` is 0); `None` if the
    /// group is gone.
    ///
    /// # Errors
    /// `Error::File` if the limit cannot be read.
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
            // The file is missing if the memory controller is enabled only further up; those groups have it.
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

    /// The text of a file of a controller.
    pub(super) fn controlled(&self, file: &str, controller: &str) -> Result<Option<String>> {
        match self.read(file) {
            Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Err(self.lacks(file, controller))
            }
            result => result,
        }
    }

    fn lacks(&self, file: &str, controller: &str) -> Error {
        let above = self.place.parent().unwrap_or(&self.place).join("cgroup.subtree_control");
        Error::Missing {
            what: format!("{file} of cgroup {:?}", self.named),
            why: format!(
                "there is no such file: the group has no {controller} controller, or the kernel is older"
            ),
            hint: format!("enable the controller: echo +{controller} > {}", above.display()),
        }
    }

    pub(super) fn odd(&self, file: &str, text: &str, expected: &'static str) -> Error {
        let found = text.lines().next().unwrap_or_default().into();
        Error::Format { path: self.place.join(file), found, expected }
    }
}

/// Sums the types of [`USER`] and [`KERNEL`] for each node, less cold pages of files; other lines are skipped.
fn charged(text: &str) -> Option<Vec<NodeUsage>> {
    let mut nodes: Vec<(NodeUsage, Files)> = Vec::new();
    let mut found = 0;
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(' ') else { continue };
        let is_user = USER.contains(&name);
        let of_files = FILES.iter().position(|known| *known == name);
        if !is_user && of_files.is_none() && !KERNEL.contains(&name) {
            continue;
        }
        found += usize::from(is_user);
        for word in rest.split_ascii_whitespace() {
            let (node, bytes) = word.strip_prefix('N')?.split_once('=')?;
            let (node, bytes) = (NodeId(node.parse().ok()?), Bytes(bytes.parse().ok()?));
            let at = nodes.iter().position(|(one, _)| one.node == node).unwrap_or_else(|| {
                let [user, files, kernel] = [Bytes::ZERO; 3];
                nodes.push((NodeUsage { node, user, files, kernel }, Files::default()));
                nodes.len() - 1
            });
            let (one, files) = &mut nodes[at];
            match of_files {
                Some(at) => files[at] = bytes,
                None if is_user => {
                    one.user += bytes;
                    one.files += if name == IN_FILES { bytes } else { Bytes::ZERO };
                }
                None => one.kernel += bytes,
            }
        }
    }
    let less_cold = |(one, files): (NodeUsage, Files)| {
        let cold = cold_files(files);
        let less = |bytes: Bytes| bytes.saturating_sub(cold);
        NodeUsage { user: less(one.user), files: less(one.files), ..one }
    };
    (found == USER.len()).then(|| nodes.into_iter().map(less_cold).collect())
}

impl Refaults {
    /// Parses a group's `memory.stat` or `/proc/vmstat`, which use the same names.
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

    /// Pages that were paged back in since `before`.
    pub fn since(self, before: Self) -> u64 {
        self.anon.saturating_sub(before.anon) + self.file.saturating_sub(before.file)
    }
}
