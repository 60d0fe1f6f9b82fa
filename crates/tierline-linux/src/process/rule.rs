// SPDX-License-Identifier: Apache-2.0
//! Rules select processes by what the kernel says of them, combined with and, or, and not.
//!
//! A name is what the process calls itself, so any user can start a program of that name: combine it with a user.

use std::cell::OnceCell;

use regex_lite::Regex;
use tierline_core::unit::Bytes;

use super::Stat;

/// What a process must be.
#[derive(Clone, Debug)]
pub enum Rule {
    /// It is this process: its number, and its start time in clock ticks since boot.
    Process {
        /// Its number.
        pid: u32,
        /// When it started.
        start: u64,
    },
    /// Its name matches, at most 15 bytes.
    Comm(Regex),
    /// It runs as this user.
    User(u32),
    /// It is in this control group or below it; a path below the mount point.
    Cgroup(String),
    /// It belongs to this unit of systemd.
    Unit(String),
    /// It has this much resident memory.
    MinResident(Bytes),
    /// All of them hold; with none, it holds.
    All(Vec<Rule>),
    /// One of them holds.
    Any(Vec<Rule>),
    /// It does not hold.
    Not(Box<Rule>),
}

/// A rule with the name of its tenant.
#[derive(Clone, Debug)]
pub struct NamedRule {
    /// The tenant.
    pub name: String,
    /// Which processes belong to it.
    pub rule: Rule,
}

/// A process, as rules see it. Its files are read when a rule asks for them, once.
pub(super) struct Candidate<'a> {
    stat: &'a Stat,
    file: &'a dyn Fn(&str) -> Option<String>,
    status: OnceCell<Option<String>>,
    cgroup: OnceCell<Option<String>>,
}

impl<'a> Candidate<'a> {
    /// The process of a stat file; `file` reads another one of its folder.
    pub fn new(stat: &'a Stat, file: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { stat, file, status: OnceCell::new(), cgroup: OnceCell::new() }
    }

    /// The effective user.
    fn user(&self) -> Option<u32> {
        let status = self.status.get_or_init(|| (self.file)("status")).as_deref()?;
        let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        users.split_whitespace().nth(1)?.parse().ok()
    }

    /// The control group, without the first slash.
    fn group(&self) -> Option<&str> {
        let text = self.cgroup.get_or_init(|| (self.file)("cgroup")).as_deref()?;
        let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
        (!path.ends_with(" (deleted)")).then_some(path)
    }
}

impl Rule {
    /// Whether the process is what the rule says. What cannot be read is not so.
    pub(super) fn matches(&self, process: &Candidate<'_>) -> bool {
        match self {
            Self::Process { pid, start } => {
                (process.stat.pid, process.stat.start) == (*pid, *start)
            }
            Self::Comm(name) => name.is_match(&process.stat.comm),
            Self::User(user) => process.user() == Some(*user),
            Self::Cgroup(path) => process.group().is_some_and(|group| is_below(group, path)),
            Self::Unit(unit) => process.group().and_then(unit_of) == Some(unit),
            Self::MinResident(least) => process.stat.rss >= *least,
            Self::All(rules) => rules.iter().all(|rule| rule.matches(process)),
            Self::Any(rules) => rules.iter().any(|rule| rule.matches(process)),
            Self::Not(rule) => !rule.matches(process),
        }
    }
}

impl NamedRule {
    /// Whether it names processes one by one: then it goes before rules that describe them.
    pub(super) fn is_exact(&self) -> bool {
        fn is_exact(rule: &Rule) -> bool {
            match rule {
                Rule::Process { .. } => true,
                Rule::All(rules) => rules.iter().any(is_exact),
                Rule::Any(rules) => !rules.is_empty() && rules.iter().all(is_exact),
                _ => false,
            }
        }
        is_exact(&self.rule)
    }
}

fn is_below(group: &str, path: &str) -> bool {
    group
        .strip_prefix(path)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || path.is_empty())
}

/// The unit of a control group: its first service or scope. What is below it was named by the unit itself, and the
/// units of a user's own manager by that user.
pub(crate) fn unit_of(group: &str) -> Option<&str> {
    group.split('/').find(|part| part.ends_with(".service") || part.ends_with(".scope"))
}

#[cfg(test)]
mod tests {
    use super::super::stat::tests::text;
    use super::*;

    fn matches(rule: &Rule, user: u32, group: &str) -> bool {
        let stat = Stat::parse(&text(7, "redis-server", 1, 1, 100, 1)).expect("a stat");
        let file = |name: &str| match name {
            "status" => Some(format!("Name:\tx\nUid:\t0\t{user}\t0\t0\n")),
            "cgroup" => Some(format!("1:cpu:/x\n0::/{group}\n")),
            _ => None,
        };
        rule.matches(&Candidate::new(&stat, &file))
    }

    #[test]
    fn rules_are_combined() {
        let comm = |pattern: &str| Rule::Comm(Regex::new(pattern).expect("a pattern"));
        let not = |rule| Rule::Not(Box::new(rule));
        let pages = |count| Rule::MinResident(Bytes::from_base_pages(count));
        for (rule, holds) in [
            (comm("^redis"), true),
            (comm("^nginx"), false),
            (Rule::User(7), true),
            (Rule::User(0), false),
            (pages(100), true),
            (pages(101), false),
            (Rule::All(vec![comm("^redis"), Rule::User(7), not(pages(101))]), true),
            (Rule::All(vec![comm("^redis"), not(Rule::User(7))]), false),
            (Rule::Any(vec![comm("^nginx"), Rule::User(7)]), true),
            (Rule::All(vec![]), true),
            (Rule::Any(vec![]), false),
        ] {
            assert_eq!(matches(&rule, 7, "a"), holds, "{rule:?}");
        }
    }

    #[test]
    fn groups_and_units_are_whole_names() {
        let group = "system.slice/redis.service/own.service";
        for (path, holds) in [
            ("system.slice", true),
            (group, true),
            ("", true),
            ("system.slice/redis", false),
            ("redis.service", false),
        ] {
            assert_eq!(matches(&Rule::Cgroup(path.into()), 0, group), holds, "{path:?}");
        }
        for (unit, holds) in
            [("redis.service", true), ("own.service", false), ("system.slice", false)]
        {
            assert_eq!(matches(&Rule::Unit(unit.into()), 0, group), holds, "{unit}");
        }
        let user = "user.slice/user-1000.slice/user@1000.service/app.slice/redis.service";
        assert!(!matches(&Rule::Unit("redis.service".into()), 0, user), "a user's own unit");
        assert!(!matches(&Rule::Cgroup("a".into()), 0, "a (deleted)"));
    }

    #[test]
    fn what_cannot_be_read_does_not_match() {
        let stat = Stat::parse(&text(7, "x", 1, 1, 1, 1)).expect("a stat");
        let process = Candidate::new(&stat, &|_| None);
        assert!(!Rule::User(0).matches(&process) && !Rule::Cgroup(String::new()).matches(&process));
    }
}
