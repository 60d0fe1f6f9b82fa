// SPDX-License-Identifier: Apache-2.0
//! The groups that a user submitted. If groups are nested, a process belongs to the innermost.

use std::collections::BTreeMap;

use super::{Cgroup, Hierarchy, Id, NameState, group_of, wrong};
use crate::error::Result;
use crate::root::Root;

/// Groups in the order they were submitted; a group is identified by its index.
#[derive(Debug, Default)]
pub struct Cgroups(Vec<Cgroup>);

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
        if let Some(same) = self.0.iter().find(|other| other.id == group.id) {
            return Err(wrong(
                named,
                format!("it is the same group as {:?}; name it once", same.named),
            ));
        }
        self.0.push(group);
        Ok(self.0.len() - 1)
    }

    /// The index of a group that a user names, if it was submitted.
    ///
    /// # Errors
    /// Those of [`Cgroup::open`].
    pub fn find(&self, root: &Root, named: &str) -> Result<Option<usize>> {
        let group = Cgroup::open(root, named)?;
        Ok(self.0.iter().position(|other| other.id == group.id))
    }

    /// The groups.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Cgroup> {
        self.0.iter()
    }

    /// True if none was submitted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The group at an index.
    pub fn get(&self, at: usize) -> Option<&Cgroup> {
        self.0.get(at)
    }

    /// Checks every group's name again; returns those that are gone, and those that were replaced.
    pub fn check_names(&mut self) -> Vec<(usize, NameState)> {
        let looks = self.0.iter_mut().map(Cgroup::check_name).enumerate();
        looks.filter(|(_, standing)| *standing != NameState::Same).collect()
    }

    /// Every process in a submitted group or below it, with the innermost of those groups.
    pub fn processes(&self) -> BTreeMap<u32, usize> {
        let ids: Vec<Id> = self.0.iter().map(|group| group.id).collect();
        let mut processes = BTreeMap::new();
        for (at, group) in self.0.iter().enumerate() {
            group.processes(at, &ids, &mut processes);
        }
        processes
    }

    /// The innermost submitted group that contains the group `path`, as in `/proc/PID/cgroup`.
    pub fn innermost(&self, path: &str) -> Option<usize> {
        let holding = self.0.iter().enumerate().filter(|(_, group)| group.contains(path));
        holding.max_by_key(|(_, group)| group.depth).map(|(at, _)| at)
    }

    /// The innermost submitted group above the one at an index.
    pub fn parent_of(&self, at: usize) -> Option<usize> {
        let inner = self.get(at)?;
        let is_above =
            |(other, group): &(usize, &Cgroup)| *other != at && group.contains(inner.path());
        let above = self.0.iter().enumerate().filter(is_above);
        above.max_by_key(|(_, group)| group.depth).map(|(at, _)| at)
    }

    /// The innermost submitted group of the process `pid`.
    pub fn group_of(&self, root: &Root, pid: u32) -> Option<usize> {
        self.innermost(&group_of(root, pid)?)
    }
}
