// SPDX-License-Identifier: Apache-2.0
//! Control groups that Tierline makes for commands of its users: `tierline/NAME` below the mount point.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Hierarchy, PROCS};
use crate::error::{Error, Result};
use crate::root::Root;

/// The group of all groups that we make.
const PARENT: &str = "tierline";
/// What a group needs to be an application.
const CONTROLLERS: &str = "+cpu +memory";

/// A group that was made.
#[derive(Debug)]
pub struct Created {
    folder: PathBuf,
    path: String,
}

impl Created {
    /// Makes the group `tierline/NAME`, with the cpu and memory controllers.
    ///
    /// # Errors
    /// `Error::Missing` where systemd owns the hierarchy, or the controllers cannot be enabled; `Error::Refused` if there
    /// is such a group.
    pub fn new(root: &Root, name: &str) -> Result<Self> {
        let plain = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
        if !plain {
            return Err(super::wrong(name, "it is no name of a group".into()));
        }
        if root.exists("/run/systemd/system") {
            return Err(Error::Missing {
                what: "a new control group".into(),
                why: "systemd owns the control groups of this machine".into(),
                hint: format!(
                    "start it by systemd-run --scope --unit {name} -- COMMAND, then submit --cgroup system.slice/{name}.scope"
                ),
            });
        }
        let mount = root.path(Hierarchy::find(root)?.mount);
        let parent = mount.join(PARENT);
        make(&parent)?;
        for above in [&mount, &parent] {
            enable(above)?;
        }
        let folder = parent.join(name);
        match fs::create_dir(&folder) {
            Ok(()) => Ok(Self { folder, path: format!("{PARENT}/{name}") }),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                Err(Error::Refused {
                    what: format!("cgroup {PARENT}/{name}"),
                    why: "there is one already".into(),
                    hint: format!(
                        "submit it: --cgroup {PARENT}/{name}; or remove it: rmdir {}",
                        folder.display()
                    ),
                })
            }
            Err(source) => Err(Error::File { action: "create", path: folder, source }),
        }
    }

    /// Its path below the mount point.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Moves this process into it.
    ///
    /// # Errors
    /// `Error::File` if the kernel refuses it.
    pub fn join(&self) -> Result<()> {
        let path = self.folder.join(PROCS);
        fs::write(&path, std::process::id().to_string()).map_err(|source| Error::File {
            action: "write",
            path,
            source,
        })
    }

    /// Removes it, if it has no process.
    pub fn remove(self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

fn make(folder: &Path) -> Result<()> {
    match fs::create_dir(folder) {
        Err(source) if source.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(Error::File { action: "create", path: folder.into(), source })
        }
        _ => Ok(()),
    }
}

fn enable(folder: &Path) -> Result<()> {
    let path = folder.join("cgroup.subtree_control");
    fs::write(&path, CONTROLLERS).map_err(|source| Error::Missing {
        what: "the cpu and memory controllers".into(),
        why: format!("cannot write {}: {source}", path.display()),
        hint: format!(
            "enable them, or make a group yourself: cat {}",
            folder.join("cgroup.controllers").display()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::Fake;
    use super::*;

    #[test]
    fn a_group_is_made_once_and_not_where_systemd_owns_them() {
        let fake = Fake::new();
        let group = Created::new(&fake.root, "batch").expect("a group");
        assert_eq!(group.path(), "tierline/batch");
        let enabled = fake.root.read("/sys/fs/cgroup/tierline/cgroup.subtree_control");
        assert_eq!(enabled.ok().as_deref(), Some(CONTROLLERS));
        let error = Created::new(&fake.root, "batch").expect_err("there is one");
        assert!(error.hint().is_some_and(|hint| hint.contains("rmdir")), "{error}");
        group.remove();
        assert!(!fake.root.exists("/sys/fs/cgroup/tierline/batch"));
        assert!(Created::new(&fake.root, "../x").is_err() && Created::new(&fake.root, "").is_err());
        fake.put("/run/systemd/system/x", "");
        let error = Created::new(&fake.root, "batch").expect_err("systemd");
        assert!(error.hint().is_some_and(|hint| hint.contains("systemd-run --scope")), "{error}");
    }
}
