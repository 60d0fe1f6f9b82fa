// SPDX-License-Identifier: Apache-2.0
//! The groups that a user submitted. If groups are nested, a process belongs to the innermost.

use std::collections::BTreeMap;

use super::{Cgroup, Hierarchy, Id, NameState, group_of, wrong};
use crate::error::Result;
use crate::root::Root;

/// Groups in the order they were submitted; a group is identified by its index, which no other group gets.
#[derive(Debug, Default)]
pub struct Cgroups {
    groups: BTreeMap<usize, Cgroup>,
    next: usize,
}

impl Cgroups {
    /// Opens the groups that a user names.
    ///
    /// # Errors
    /// Those of [`Cgroup::open`]; `Error::Input` if a group is named twice.
    pub fn open(root: &Root, named: &[String]) -> Result<Self> {
        let mut groups = Self::default();
        named.iter().try_for_each(|name| groups.add(root, name).map(drop))?;
        Ok(groups)
    }

    /// Opens one more and returns its index.
    ///
    /// # Errors
    /// As [`Cgroups::open`].
    pub fn add(&mut self, root: &Root, named: &str) -> Result<usize> {
        let group = Cgroup::open_in(&Hierarchy::find(root)?, root, named)?;
        if let Some(same) = self.iter().find(|other| other.id == group.id) {
            return Err(wrong(
                named,
                format!("it is the same group as {:?}; name it once", same.named),
            ));
        }
        let at = self.next;
        self.groups.insert(at, group);
        self.next += 1;
        Ok(at)
    }

    /// Removes a group.
    pub fn remove(&mut self, at: usize) {
        self.groups.remove(&at);
    }

    /// The index of a group that a user names, if it was submitted.
    ///
    /// # Errors
    /// Those of [`Cgroup::open`].
    pub fn find(&self, root: &Root, named: &str) -> Result<Option<usize>> {
        let group = Cgroup::open(root, named)?;
        let same = self.indexed().find(|(_, other)| other.id == group.id);
        Ok(same.map(|(at, _)| at))
    }

    /// The groups.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Cgroup> {
        self.groups.values()
    }

    /// The groups with their indices.
    pub fn indexed(&self) -> impl Iterator<Item = (usize, &Cgroup)> {
        self.groups.iter().map(|(at, group)| (*at, group))
    }

    /// True if none was submitted.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The group at an index.
    pub fn get(&self, at: usize) -> Option<&Cgroup> {
        self.groups.get(&at)
    }

    /// Checks every group's name again; returns those that are gone, and those that were replaced.
    pub fn check_names(&mut self) -> Vec<(usize, NameState)> {
        let looks = self.groups.iter_mut().map(|(at, group)| (*at, group.check_name()));
        looks.filter(|(_, standing)| *standing != NameState::Same).collect()
    }

    /// Every process in a submitted group or below it, with the innermost of those groups.
    pub fn processes(&self) -> BTreeMap<u32, usize> {
        let ids: Vec<Id> = self.iter().map(|group| group.id).collect();
        let mut processes = BTreeMap::new();
        for (at, group) in self.indexed() {
            group.processes(at, &ids, &mut processes);
        }
        processes
    }

    /// The innermost submitted group that contains the group `path`, as in `/proc/PID/cgroup`.
    pub fn innermost(&self, path: &str) -> Option<usize> {
        let holding = self.indexed().filter(|(_, group)| group.contains(path));
        holding.max_by_key(|(_, group)| group.depth).map(|(at, _)| at)
    }

    /// The innermost submitted group above the one at an index.
    pub fn parent_of(&self, at: usize) -> Option<usize> {
        let inner = self.get(at)?;
        let is_above =
            |(other, group): &(usize, &Cgroup)| *other != at && group.contains(inner.path());
        let above = self.indexed().filter(is_above);
        above.max_by_key(|(_, group)| group.depth).map(|(at, _)| at)
    }

    /// The innermost submitted group of the process `pid`.
    pub fn group_of(&self, root: &Root, pid: u32) -> Option<usize> {
        self.innermost(&group_of(root, pid)?)
    }
}
