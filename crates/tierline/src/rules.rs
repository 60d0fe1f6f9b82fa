// SPDX-License-Identifier: Apache-2.0
//! Which processes belong to a tenant, as operators write it. Conditions of one table must all hold.
//!
//! ```toml
//! match = { comm = "^redis", user = "redis", not = { unit = "redis-test.service" } }
//! ```

use std::fs;

use regex_lite::Regex;
use serde::{Deserialize, Serialize};
use tierline_core::unit::Bytes;
use tierline_linux::error::Error;
use tierline_linux::process::{Rule, Stat};
use tierline_linux::root::Root;

/// The users of this machine; others are named by number.
const USERS: &str = "/etc/passwd";

/// Conditions; at least one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Conditions", into = "Conditions")]
pub struct Match(Conditions);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Conditions {
    /// It is one of these processes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    processes: Vec<Process>,
    /// A regular expression for its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    comm: Option<Pattern>,
    /// Its effective user, by name or number.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<User>,
    /// Its control group, or one above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<String>,
    /// Its unit of systemd.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    /// It has this much resident memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    min_resident: Option<Size>,
    /// All of these hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    all: Vec<Match>,
    /// One of these holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    any: Vec<Match>,
    /// This does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    not: Option<Box<Match>>,
}

/// A process that runs. Its number alone could be another one's later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its start time, in clock ticks since boot: field 22 of `/proc/PID/stat`.
    pub start: u64,
}

impl Process {
    /// The process that has this number now.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(root: &Root, pid: u32) -> Result<Self, Error> {
        Stat::read(root, pid).map(|stat| Self { pid, start: stat.start })
    }

    /// Whether it has not ended.
    pub fn runs(&self, root: &Root) -> bool {
        Stat::read(root, self.pid).is_ok_and(|stat| stat.start == self.start && !stat.zombie)
    }
}

impl Match {
    /// These processes, and their children.
    pub fn processes(processes: Vec<Process>) -> Self {
        Self(Conditions { processes, ..Conditions::default() })
    }

    /// Processes named by the name that they call themselves.
    ///
    /// # Errors
    /// If it is no regular expression.
    pub fn comm(pattern: &str) -> Result<Self, String> {
        let comm = Some(pattern.to_string().try_into()?);
        Ok(Self(Conditions { comm, ..Conditions::default() }))
    }

    /// Whether it names processes one by one, and all of them have ended.
    pub fn has_ended(&self, root: &Root) -> bool {
        let processes = &self.0.processes;
        !processes.is_empty() && !processes.iter().any(|process| process.runs(root))
    }

    /// The rule for the kernel's side.
    pub fn rule(&self) -> Rule {
        let all = |matches: &[Self]| matches.iter().map(Self::rule).collect::<Vec<_>>();
        let Conditions { processes, comm, user, cgroup, unit, min_resident, all: every, any, not } =
            &self.0;
        let mut rules: Vec<Rule> = Vec::new();
        let one = |process: &Process| Rule::Process { pid: process.pid, start: process.start };
        rules.extend(
            (!processes.is_empty()).then(|| Rule::Any(processes.iter().map(one).collect())),
        );
        // The cheapest first: what follows is not asked if one does not hold.
        rules.extend(min_resident.as_ref().map(|size| Rule::MinResident(size.bytes)));
        rules.extend(comm.as_ref().map(|pattern| Rule::Comm(pattern.regex.clone())));
        rules.extend(unit.clone().map(Rule::Unit));
        rules.extend(cgroup.as_deref().map(|path| Rule::Cgroup(below_mount(path).into())));
        rules.extend(user.as_ref().map(|user| Rule::User(user.number)));
        rules.extend(all(every));
        rules.extend((!any.is_empty()).then(|| Rule::Any(all(any))));
        rules.extend(not.as_ref().map(|one| Rule::Not(Box::new(one.rule()))));
        Rule::All(rules)
    }
}

impl TryFrom<Conditions> for Match {
    type Error = String;

    fn try_from(conditions: Conditions) -> Result<Self, String> {
        if conditions == Conditions::default() {
            return Err(
                "a match without conditions would select every process; write one, as in comm = \"^redis\"".into(),
            );
        }
        Ok(Self(conditions))
    }
}

impl From<Match> for Conditions {
    fn from(written: Match) -> Self {
        written.0
    }
}

/// A control group's path below `/sys/fs/cgroup`.
pub fn below_mount(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.strip_prefix("/sys/fs/cgroup").unwrap_or(path).trim_start_matches('/')
}

/// A regular expression.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Pattern {
    text: String,
    regex: Regex,
}

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let regex = Regex::new(&text).map_err(|error| format!("{text:?}: {error}"))?;
        Ok(Self { text, regex })
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.text
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// A user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct User {
    text: String,
    number: u32,
}

impl TryFrom<String> for User {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let known = || number_of(&fs::read_to_string(USERS).unwrap_or_default(), &text);
        match text.parse().ok().or_else(known) {
            Some(number) => Ok(Self { text, number }),
            None => {
                Err(format!("there is no user {text:?} in {USERS}; write a number: id -u NAME"))
            }
        }
    }
}

impl From<User> for String {
    fn from(user: User) -> Self {
        user.text
    }
}

/// The number of a user or group in the text of `/etc/passwd` or `/etc/group`.
pub fn number_of(text: &str, name: &str) -> Option<u32> {
    let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
    line.split(':').nth(2)?.parse().ok()
}

/// A number of bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Size {
    text: String,
    bytes: Bytes,
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bytes = text.parse().map_err(|_| format!("{text:?} is no size, as in 1GiB"))?;
        Ok(Self { text, bytes })
    }
}

impl From<Size> for String {
    fn from(size: Size) -> Self {
        size.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct File {
        r#match: Match,
    }

    fn read(text: &str) -> Result<Match, String> {
        toml::from_str::<File>(text).map(|file| file.r#match).map_err(|error| error.to_string())
    }

    #[test]
    fn conditions_of_a_table_are_combined_with_and() {
        let text = "match = { comm = \"^redis\", user = \"root\", min_resident = \"1GiB\", \
                    any = [{ unit = \"a.service\" }, { cgroup = \"/sys/fs/cgroup/b/\" }], not = { user = \"7\" } }";
        let found = read(text).expect("a match");
        let Rule::All(rules) = found.rule() else { panic!("not all") };
        let shown: Vec<String> = rules.iter().map(|rule| format!("{rule:?}")).collect();
        assert_eq!(shown[0], "MinResident(Bytes(1073741824))");
        assert!(shown[1].starts_with("Comm("), "{shown:?}");
        assert_eq!(shown[2], "User(0)");
        assert_eq!(shown[3], "Any([All([Unit(\"a.service\")]), All([Cgroup(\"b\")])])");
        assert_eq!(shown[4], "Not(All([User(7)]))");
        let json = serde_json::to_string(&found).expect("as sent");
        assert_eq!(serde_json::from_str::<Match>(&json).expect("as received"), found);
    }

    #[test]
    fn a_wrong_condition_is_named_with_its_line() {
        for (text, part) in [
            ("match = {}", "would select every process"),
            ("match = { not = {} }", "would select every process"),
            ("match = { comm = \"(\" }", "\"(\""),
            ("match = { user = \"no such user\" }", "id -u NAME"),
            ("match = { min_resident = \"big\" }", "no size"),
            ("match = { name = \"x\" }", "name"),
        ] {
            let error = read(&format!("\n{text}\n")).expect_err(text);
            assert!(error.contains(part) && error.contains("line 2"), "{text}: {error}");
        }
    }

    #[test]
    fn users_and_groups_are_read_from_their_files() {
        let text = "root:x:0:0::/:\ntierline:x:990:990::/:\nbad:x:y\n";
        assert_eq!(number_of(text, "tierline"), Some(990));
        assert_eq!([number_of(text, "tier"), number_of(text, "bad")], [None, None]);
    }
}
