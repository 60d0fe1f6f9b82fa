// SPDX-License-Identifier: Apache-2.0
//! Control groups (cgroup v2): their processes, and what the kernel reports of their memory.
//!
//! The files and their units are those of the kernel's admin-guide/cgroup-v2. A group is held by a descriptor of its
//! folder, so everything read belongs to one group, even if another group takes its name. A group can vanish at any
//! time: its readers then return `None`, which is not an error.

mod cpu;
mod create;
mod groups;
mod memory;
mod unit;

pub use cpu::{CpuMax, CpuUse, NamedCpuMax};
pub use create::Created;
pub use groups::Cgroups;
pub use memory::{NodeUsage, Reclaimed, Refaults};
pub use unit::of_unit;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, open, openat};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::process::held::read_all;
use crate::root::Root;

/// Lists the processes of a group; the only file that every group has.
const PROCS: &str = "cgroup.procs";

/// Where the hierarchy of groups is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// The mount point, from `/`.
    pub mount: String,
    /// The group that is mounted there: `/`, or a lower one if a container sees only part of the hierarchy.
    pub top: String,
}

impl Hierarchy {
    /// Finds the mount in `/proc/self/mountinfo`; a mount of the whole hierarchy is preferred.
    ///
    /// # Errors
    /// `Error::Missing` if no cgroup2 file system is mounted.
    pub fn find(root: &Root) -> Result<Self> {
        let text = root.read("/proc/self/mountinfo")?;
        let mounts = text.lines().filter_map(Self::parse);
        mounts.min_by_key(|mount| mount.top.len()).ok_or_else(|| Error::Missing {
            what: "cgroup v2".into(),
            why: "/proc/self/mountinfo has no file system of type cgroup2".into(),
            hint: "mount it: mount -t cgroup2 cgroup2 /sys/fs/cgroup".into(),
        })
    }

    /// A line of mountinfo, as proc_pid_mountinfo(5) describes it:
    /// `31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw`.
    fn parse(line: &str) -> Option<Self> {
        let (mount, source) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (top, mount) = (unescaped(fields.next()?), unescaped(fields.next()?));
        (source.split(' ').next() == Some("cgroup2")).then_some(Self { mount, top })
    }

    /// The folder of the group that a user names: absolute below the mount point, or relative to it.
    fn folder(&self, named: &str) -> Result<String> {
        if named.split('/').any(|part| part == "..") {
            return Err(wrong(named, "a path with .. is not accepted".into()));
        }
        let absolute = named.strip_prefix(&self.mount).filter(|rest| is_boundary(rest));
        let parts = absolute.unwrap_or(named).split('/').filter(|p| !p.is_empty() && *p != ".");
        Ok(parts.fold(self.mount.clone(), |folder, part| format!("{folder}/{part}")))
    }

    /// The group of a folder below the mount point, as `/proc/PID/cgroup` names it.
    fn group(&self, folder: &str) -> String {
        let below = folder.strip_prefix(&self.mount).unwrap_or(folder);
        match format!("{}{below}", self.top.trim_end_matches('/')) {
            path if path.is_empty() => "/".into(),
            path => path,
        }
    }
}

/// The group of `pid`, from the hierarchy's root: `/system.slice/redis.service`. `None` if the process or its
/// group is gone, or if it is in no group of version 2.
pub fn group_of(root: &Root, pid: u32) -> Option<String> {
    let text = root.read(format!("/proc/{pid}/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    (!path.ends_with(" (deleted)")).then(|| path.to_string())
}

/// The group of a folder below the mount point, as in `/proc/PID/cgroup`; `None` if the folder is elsewhere.
pub fn group_path(root: &Root, folder: &str) -> Option<String> {
    let hierarchy = Hierarchy::find(root).ok()?;
    let below = folder.strip_prefix(hierarchy.mount.as_str())?;
    is_boundary(below).then(|| hierarchy.group(folder))
}

/// The state of a group's name, compared with the group that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameState {
    /// The name is that of the same group.
    Same,
    /// No group has the name.
    Gone,
    /// The name is that of a new group: the old one was removed. The new one is held from now on.
    Replaced,
}

/// One control group, including the groups below it.
#[derive(Debug)]
pub struct Cgroup {
    /// The name that the user typed.
    named: String,
    /// The path as in `/proc/PID/cgroup`.
    path: String,
    /// The folder, from `/`.
    folder_path: String,
    /// The folder, for messages and for [`Cgroup::check_name`].
    place: PathBuf,
    /// The number of groups above it, including those above the mount point.
    depth: usize,
    folder: OwnedFd,
    id: Id,
}

/// A folder's device and inode: unique to one group while the machine runs.
type Id = (u64, u64);

impl Cgroup {
    /// Opens the group that a user names: absolute below the mount point, or relative to it.
    ///
    /// # Errors
    /// `Error::Input` if there is no such group, or if its memory is charged to another one; `Error::Missing`
    /// without a mounted hierarchy.
    pub fn open(root: &Root, named: &str) -> Result<Self> {
        Self::open_in(&Hierarchy::find(root)?, root, named)
    }

    fn open_in(hierarchy: &Hierarchy, root: &Root, named: &str) -> Result<Self> {
        let folder = hierarchy.folder(named)?;
        let depth = folder[hierarchy.mount.len()..].matches('/').count();
        let (place, path) = (root.path(&folder), hierarchy.group(&folder));
        let folder_path = folder.clone();
        let (folder, id) = match held(&place) {
            Ok(Some(held)) => held,
            Ok(None) => {
                return Err(wrong(named, format!("there is no cgroup v2 folder {folder}")));
            }
            Err(source) => return Err(Error::File { action: "open", path: place, source }),
        };
        let group = Self { named: named.into(), path, folder_path, place, depth, folder, id };
        // Only the root group lacks this file.
        if read_at(group.folder.as_fd(), "cgroup.type").is_ok_and(|kind| kind.trim() == "threaded")
        {
            let why = "it is a threaded group, whose memory is charged to the group above it; name that one";
            return Err(wrong(named, why.into()));
        }
        Ok(group)
    }

    /// The name that the user typed.
    pub fn typed_name(&self) -> &str {
        &self.named
    }

    /// The path of the group as in `/proc/PID/cgroup`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// True if the group `path`, as in `/proc/PID/cgroup`, is this one or below it.
    pub fn contains(&self, path: &str) -> bool {
        path.strip_prefix(self.path.trim_end_matches('/')).is_some_and(is_boundary)
    }

    /// Checks whether the name still belongs to the same group. When a service stops, a service manager removes its
    /// group; on restart it creates a new one of the same name, which is then held instead.
    pub fn check_name(&mut self) -> NameState {
        match held(&self.place) {
            Ok(Some((folder, id))) if id != self.id => {
                (self.folder, self.id) = (folder, id);
                NameState::Replaced
            }
            Ok(None) => NameState::Gone,
            // A failed check (no free descriptor) does not count as a change.
            Ok(Some(_)) | Err(_) => NameState::Same,
        }
    }

    /// The text of one of its files; `None` if the group is gone.
    ///
    /// # Errors
    /// `Error::File` if it cannot be read.
    pub fn read(&self, file: &str) -> Result<Option<String>> {
        self.answer("read", file, read_at(self.folder.as_fd(), file))
    }

    /// Writes one of its files, in one system call.
    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let fd = openat(&self.folder, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        File::from(fd).write_all(text.as_bytes())
    }

    /// Distinguishes a removed group from a file that cannot be used.
    fn answer<T>(
        &self,
        action: &'static str,
        file: &str,
        result: io::Result<T>,
    ) -> Result<Option<T>> {
        match result {
            Ok(done) => Ok(Some(done)),
            Err(error) if self.is_gone(&error) => Ok(None),
            Err(source) => Err(Error::File { action, path: self.place.join(file), source }),
        }
    }

    /// True if this error is due to the removal of the group: its open files return ENODEV, new opens ENOENT. A file
    /// that a group lacks (no memory controller) gives ENOENT as well, but then the group still lists processes.
    fn is_gone(&self, error: &io::Error) -> bool {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NODEV) => true,
            Some(Errno::NOENT) => !self.is_there(),
            _ => false,
        }
    }

    /// False once the group was removed.
    fn is_there(&self) -> bool {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        openat(&self.folder, PROCS, flags, Mode::empty()).err() != Some(Errno::NOENT)
    }

    /// Adds the processes in this group and those below it, under `key`. The groups in `others` and everything below
    /// them are left out. A group that is gone has none.
    fn processes<K: Copy>(&self, key: K, others: &[Id], out: &mut BTreeMap<u32, K>) {
        let inner: Vec<u64> = others.iter().filter(|id| **id != self.id).map(|id| id.1).collect();
        walk(self.folder.as_fd(), &inner, &mut |pid| {
            out.insert(pid, key);
        });
    }

    /// The processes in this group and those below it, ascending.
    pub fn pids(&self) -> Vec<u32> {
        let mut pids = BTreeMap::new();
        self.processes((), &[], &mut pids);
        pids.into_keys().collect()
    }
}

/// The folder at `place` and its identity, if it is a control group.
fn held(place: &PathBuf) -> io::Result<Option<(OwnedFd, Id)>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = match open(place, flags, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NODEV) => return Ok(None),
        result => result?,
    };
    if openat(&folder, PROCS, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).is_err() {
        return Ok(None);
    }
    let stat = fstat(&folder)?;
    Ok(Some((folder, (stat.st_dev, stat.st_ino))))
}

fn read_at(folder: BorrowedFd<'_>, file: &str) -> io::Result<String> {
    let fd = openat(folder, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(String::from_utf8_lossy(&read_all(File::from(fd))?).into_owned())
}

/// Calls `found` for each process in the group `folder` and those below it, except in the groups `others` (inodes).
fn walk(folder: BorrowedFd<'_>, others: &[u64], found: &mut dyn FnMut(u32)) {
    // A threaded group refuses to list processes (EOPNOTSUPP); the group above the threaded ones lists them.
    let text = read_at(folder, PROCS).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).for_each(&mut *found);
    // A folder without folders has two links, and to list its sixty files is costly.
    if fstat(folder).is_ok_and(|stat| stat.st_nlink == 2) {
        return;
    }
    // Groups that vanish meanwhile are skipped.
    let Ok(entries) = Dir::read_from(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_group = entry.file_type() == FileType::Directory;
        let above = matches!(name.to_bytes(), b"." | b"..");
        if !is_group || above || others.contains(&entry.ino()) {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if let Ok(below) = openat(folder, name, flags, Mode::empty()) {
            walk(below.as_fd(), others, found);
        }
    }
}

/// True if a path or a folder's name ends here.
fn is_boundary(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('/')
}

/// A field of mountinfo; the kernel writes blanks and backslashes as `\ooo`.
fn unescaped(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let code = part.get(..3).and_then(|octal| u8::from_str_radix(octal, 8).ok());
        match code {
            Some(code) => text.extend([char::from(code)].into_iter().chain(part[3..].chars())),
            None => text.extend(['\\'].into_iter().chain(part.chars())),
        }
    }
    text
}

fn wrong(found: &str, why: String) -> Error {
    Error::Input { what: "cgroup", found: found.into(), why }
}

#[cfg(test)]
pub(crate) mod tests;
