// SPDX-License-Identifier: Apache-2.0
//! Users of this machine, and starting programs as one of them.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::error::{Error, Result};
use crate::root::Root;

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// A user of `/etc/passwd`, with its groups of `/etc/group`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: String,
    number: u32,
    /// Its first group, and all of them.
    group: u32,
    groups: Vec<u32>,
    home: String,
}

impl User {
    /// Finds a user by name or number.
    ///
    /// # Errors
    /// `Error::Missing` if there is none; those of reading the files.
    pub fn find(root: &Root, wanted: &str) -> Result<Self> {
        let users = root.read(USERS)?;
        let groups = root.read(GROUPS).unwrap_or_default();
        Self::parse(&users, &groups, wanted).ok_or_else(|| Error::Missing {
            what: format!("user {wanted:?}"),
            why: format!("{USERS} has no user of this name or number"),
            hint: "list users: cut -d: -f1 /etc/passwd; start as others: setpriv --reuid".into(),
        })
    }

    fn parse(users: &str, groups: &str, wanted: &str) -> Option<Self> {
        let lines = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let mut lines = lines.filter(|fields| fields.len() == 7);
        let fields = lines.find(|fields| fields[0] == wanted || fields[2] == wanted)?;
        let (number, group) = (fields[2].parse().ok()?, fields[3].parse().ok()?);
        let (name, home) = (fields[0].to_string(), fields[5].to_string());
        let member = |line: &str| {
            let fields: Vec<&str> = line.split(':').collect();
            let is_member = fields.get(3)?.split(',').any(|member| member == name);
            is_member.then(|| fields[2].parse().ok())?
        };
        let mut groups: Vec<u32> = groups.lines().filter_map(member).chain([group]).collect();
        groups.sort_unstable();
        groups.dedup();
        Some(Self { name, number, group, groups, home })
    }

    /// Lets a command run as this user: with its groups, its home, and without any capability.
    pub fn runs(&self, command: &mut Command) {
        command.env("HOME", &self.home).env("USER", &self.name).env("LOGNAME", &self.name);
        let groups: Vec<Gid> = self.groups.iter().map(|&group| Gid::from_raw(group)).collect();
        let (user, group) = (Uid::from_raw(self.number), Gid::from_raw(self.group));
        let change = move || {
            set_thread_groups(&groups)?;
            set_thread_res_gid(group, group, group)?;
            // From root to another user, the kernel clears all capabilities.
            Ok(set_thread_res_uid(user, user, user)?)
        };
        // SAFETY: the child has one thread, and the closure makes system calls alone: it neither allocates nor locks.
        unsafe { command.pre_exec(change) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_with_all_of_its_groups() {
        let users = "root:x:0:0::/root:/bin/sh\nbad\nredis:x:105:110::/var/lib/redis:/bin/false\n";
        let groups = "root:x:0:\nredis:x:110:\ndata:x:50:redis,other\nlog:x:60:other\nbad\n";
        let redis = User::parse(users, groups, "redis").expect("it is there");
        assert_eq!(
            (redis.number, redis.group, redis.groups.as_slice()),
            (105, 110, &[50, 110][..])
        );
        assert_eq!(redis.home, "/var/lib/redis");
        assert_eq!(User::parse(users, groups, "105"), Some(redis));
        assert_eq!(User::parse(users, groups, "red"), None);
    }
}
