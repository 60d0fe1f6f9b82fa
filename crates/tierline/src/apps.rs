// SPDX-License-Identifier: Apache-2.0
//! Tenants as operators write them: in files, on the command line, and in requests. One with a target or a priority
//! is an application.
//!
//! ```toml
//! # /etc/tierline/apps.d/redis.toml
//! type = "ls"
//! slo = "200ns"
//! priority = 3
//! unit = "redis.service"
//! ```
//!
//! ```toml
//! # /etc/tierline/apps.d/batch.toml
//! match = { comm = "^spark", user = "batch" }
//! limit = "fast=4GiB"
//! ```

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use tierline_core::qos::application::Slo;
use tierline_core::unit::{Bytes, Nanos};
use tierline_linux::cgroup;
use tierline_linux::manager::{ApplicationStatus, Manager, Submission};
use tierline_linux::root::Root;

use crate::nearest::suggest;
use crate::print::Messages;
use crate::report_error::{self, ErrorWithHint};
use crate::rules::Match;
use crate::tenants::{Target, TenantSpec, TierLimits};

/// The default folder.
pub const FOLDER: &str = "/etc/tierline/apps.d";
/// The largest file.
const MOST_BYTES: u64 = 64 << 10;
/// The longest name.
const MOST_NAME: usize = 64;
const KEYS: [&str; 12] = [
    "name",
    "type",
    "slo",
    "preference",
    "priority",
    "weight",
    "memory",
    "cores",
    "cgroup",
    "unit",
    "match",
    "limit",
];
/// Priorities between two preferences.
const BAND: u32 = 1_000;

/// What kind of target an application has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Latency-sensitive: a latency, or a share of slow accesses.
    Ls,
    /// Bandwidth-intensive: a bandwidth. Only such applications may be throttled.
    Bi,
}

/// A target for those who know no numbers. The shares are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Preference {
    /// At most 2 % slow accesses.
    Latency,
    /// At most 10 %.
    MostlyLatency,
    /// At most 25 %.
    Balanced,
    /// At most 50 %.
    MostlyBandwidth,
    /// No target: what is left.
    Bandwidth,
}

/// A tenant; every key is optional, so that a part can be changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields)]
pub struct App {
    /// Its name; of a file: the file's name.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The kind of its target
    #[arg(long = "type", value_name = "TYPE")]
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Its target: a latency (200ns), a bandwidth (70GB/s), or a share of slow accesses (slow-share=5%); none: no target
    #[arg(long, value_name = "TARGET")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slo: Option<String>,
    /// A target without numbers
    #[arg(long, value_name = "STEP", conflicts_with = "slo")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preference: Option<Preference>,
    /// Larger is more important; each application has its own
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Its part of what is left, if it has no target [default: 1]
    #[arg(long, value_name = "NUMBER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Memory that it will use [default: what it uses]
    #[arg(long, value_name = "SIZE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Cores that it uses [default: measured]
    #[arg(long, value_name = "NUMBER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<f64>,
    /// Its control group.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Its unit of systemd.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Which processes belong to it.
    #[arg(skip)]
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub matches: Option<Match>,
    /// Its limits, as in `fast=4GiB`.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
}

/// What is wrong with a tenant, under which key, and what to do.
#[derive(Debug)]
struct Problem {
    key: &'static str,
    why: String,
    hint: String,
}

impl Problem {
    fn new(key: &'static str, why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { key, why: why.into(), hint: hint.into() }
    }

    fn about(self, name: &str) -> anyhow::Error {
        ErrorWithHint::error(format!("application {name:?}: {}", self.why), self.hint)
    }

    /// The same of a file, with the line of the key.
    fn in_file(self, source: &str, text: &str) -> anyhow::Error {
        let is_key = |line: &str| {
            let rest = line.trim_start().strip_prefix(self.key);
            rest.is_some_and(|rest| rest.trim_start().starts_with('='))
        };
        let line = text.lines().position(is_key).map_or(1, |at| at + 1);
        ErrorWithHint::error(format!("{source}:{line}: {}", self.why), self.hint)
    }
}

impl Preference {
    fn slo(self) -> Option<Slo> {
        Some(Slo::SlowShare(match self {
            Self::Latency => 0.02,
            Self::MostlyLatency => 0.10,
            Self::Balanced => 0.25,
            Self::MostlyBandwidth => 0.50,
            Self::Bandwidth => return None,
        }))
    }

    /// The highest priority of those without their own.
    fn priority(self) -> u32 {
        BAND * match self {
            Self::Latency => 5,
            Self::MostlyLatency => 4,
            Self::Balanced => 3,
            Self::MostlyBandwidth => 2,
            Self::Bandwidth => 1,
        }
    }
}

impl App {
    /// Reads a file's text; `name` is the application's name if the file has none.
    ///
    /// # Errors
    /// If it is no application, with the nearest key for an unknown one.
    pub fn read(source: &str, text: &str, name: &str) -> Result<Self> {
        let app: Self = toml::from_str(text).map_err(|error| {
            let message = format!("{source}: {}", error.to_string().trim_end());
            match unknown_key(text) {
                Some(hint) => ErrorWithHint::error(message, hint),
                None => anyhow::Error::msg(message),
            }
        })?;
        let app = Self { name: Some(app.name.clone().unwrap_or_else(|| name.into())), ..app };
        app.check().map_err(|problem| problem.in_file(source, text))?;
        Ok(app)
    }

    /// Whether it has a target or a priority; otherwise it is managed without.
    pub fn is_application(&self) -> bool {
        let Self { kind, slo, preference, priority, weight, memory, cores, .. } = self;
        kind.is_some()
            || slo.is_some()
            || preference.is_some()
            || priority.is_some()
            || weight.is_some()
            || memory.is_some()
            || cores.is_some()
    }

    /// Checks everything that does not depend on the machine.
    fn check(&self) -> Result<(), Problem> {
        self.checked_name()?;
        let places = [self.cgroup.is_some(), self.unit.is_some(), self.matches.is_some()];
        let keys = "one of cgroup, unit and match says which processes it has";
        match places.iter().filter(|is_given| **is_given).count() {
            1 => {}
            0 => return Err(Problem::new("name", "it has no processes", keys)),
            _ => return Err(Problem::new("match", "it says twice which processes it has", keys)),
        }
        self.limits()?;
        if !self.is_application() {
            return Ok(());
        }
        if self.matches.is_some() {
            return Err(Problem::new(
                "match",
                "a target needs a control group, which measures its memory",
                "write cgroup or unit instead of match, or remove target and priority",
            ));
        }
        if self.limit.is_some() {
            let why = "it has a limit and a target, which sets its limits";
            return Err(Problem::new("limit", why, "keep one of them"));
        }
        self.change_to(&mut self.blank("")?).map(drop)
    }

    /// Its limits.
    fn limits(&self) -> Result<TierLimits, Problem> {
        let limits = self.limit.as_deref().map_or(Ok(TierLimits::default()), str::parse);
        limits.map_err(|why| Problem::new("limit", why, "write limits as in fast=4GiB,slow=30%"))
    }

    /// Its control group, as it is now; `None`: its unit does not run.
    ///
    /// # Errors
    /// Those of finding the unit.
    fn group(&self, root: &Root) -> Result<Option<String>> {
        match (&self.cgroup, &self.unit) {
            (Some(cgroup), _) => Ok(Some(cgroup.clone())),
            (None, Some(unit)) => Ok(cgroup::of_unit(root, unit)?),
            (None, None) => Ok(None),
        }
    }

    /// Hosts it: as an application if it has a target or a priority.
    ///
    /// # Errors
    /// If it cannot be managed at present, or at all. Nothing has changed then.
    pub fn host(&self, manager: &mut Manager, root: &Root, now: Nanos) -> Result<()> {
        let name = self.name.clone().unwrap_or_default();
        self.check().map_err(|problem| problem.about(&name))?;
        if self.matches.as_ref().is_some_and(|matches| matches.has_ended(root)) {
            return Err(ErrorWithHint::error(
                format!("application {name:?}: its processes do not run, as the daemon sees it"),
                "ask from the daemon's own PID namespace, while they run",
            ));
        }
        let group = self.group(root)?;
        if self.is_application() {
            let app = Self { cgroup: Some(group.ok_or_else(|| self.stopped())?), ..self.clone() };
            let submission = app.submission(&manager.applications())?;
            return Ok(manager.submit(now, submission)?);
        }
        let target = match &self.matches {
            Some(matches) => Target::Rule(matches.rule()),
            None => Target::Cgroup(group.ok_or_else(|| self.stopped())?),
        };
        let limits = self.limits().map_err(|problem| problem.about(&name))?;
        let limits = vec![limits].into_iter().filter(|limits| !limits.0.is_empty()).collect();
        let spec = TenantSpec { name, target, limits };
        Ok(manager.host(spec.resolve(manager.engine().tiers())?)?)
    }

    /// Whether both are applications of the same processes.
    pub fn has_same_place(&self, other: &Self) -> bool {
        let places = |app: &Self| (app.cgroup.clone(), app.unit.clone());
        self.is_application() && other.is_application() && places(self) == places(other)
    }

    /// Replaces what was submitted, except for its place.
    ///
    /// # Errors
    /// If a value cannot be used; the submission is as it was then.
    pub fn replace(&self, submission: &mut Submission) -> Result<()> {
        if self.priority.is_none() {
            return Err(anyhow::Error::msg("it has no priority of its own"));
        }
        let app = Self { cgroup: Some(submission.cgroup.clone()), ..self.clone() };
        *submission = app.submission(&[])?;
        Ok(())
    }

    /// Takes over what is given of its target.
    pub fn change_by(&mut self, new: &Self) {
        fn take<T: Clone>(old: &mut Option<T>, new: &Option<T>) {
            *old = new.clone().or(old.take());
        }
        if new.slo.is_some() || new.preference.is_some() {
            (self.slo, self.preference, self.kind) = (None, None, None);
        }
        take(&mut self.kind, &new.kind);
        take(&mut self.slo, &new.slo);
        take(&mut self.preference, &new.preference);
        take(&mut self.priority, &new.priority);
        take(&mut self.weight, &new.weight);
        take(&mut self.memory, &new.memory);
        take(&mut self.cores, &new.cores);
    }

    fn stopped(&self) -> anyhow::Error {
        let unit = self.unit.as_deref().unwrap_or_default();
        ErrorWithHint::error(
            format!("unit {unit} does not run"),
            format!("start it: systemctl start {unit}"),
        )
    }

    /// The application beside those that a manager has.
    ///
    /// # Errors
    /// If a key is missing or has a value that cannot be used.
    pub fn submission(&self, others: &[ApplicationStatus]) -> Result<Submission> {
        let name = self.name.clone().unwrap_or_default();
        let submission = || -> Result<Submission, Problem> {
            self.checked_name()?;
            let cgroup = self.cgroup.clone().ok_or_else(|| {
                let hint = "give it one: --cgroup PATH, or -- COMMAND";
                Problem::new("cgroup", "it has no cgroup", hint)
            })?;
            let mut submission = self.blank(&cgroup)?;
            self.change_to(&mut submission)?;
            Ok(submission)
        };
        let submission = submission().map_err(|problem| problem.about(&name))?;
        let priority = match (self.priority, self.preference) {
            (None, Some(preference)) => free_priority(preference.priority(), others),
            _ => submission.priority,
        };
        Ok(Submission { priority, ..submission })
    }

    /// An application without a target, in a control group.
    fn blank(&self, cgroup: &str) -> Result<Submission, Problem> {
        if self.priority.is_none() && self.preference.is_none() {
            let hint = "give it one: --priority N, larger is more important";
            return Err(Problem::new("slo", "it has no priority", hint));
        }
        Ok(Submission {
            name: self.name.clone().unwrap_or_default(),
            cgroup: cgroup.into(),
            slo: None,
            priority: self.priority.unwrap_or(0),
            weight: 1.0,
            memory: None,
            cores: None,
        })
    }

    /// Changes what is given.
    ///
    /// # Errors
    /// If a value cannot be used; the submission may be changed in part then.
    pub fn change(&self, submission: &mut Submission) -> Result<()> {
        let name = self.name.as_deref().unwrap_or_default();
        self.checked_name().and_then(|_| self.change_to(submission)).map_err(|p| p.about(name))
    }

    fn change_to(&self, submission: &mut Submission) -> Result<(), Problem> {
        let wrong = |key, why: String, hint: &str| Problem::new(key, why, hint);
        let forms = "write a latency (200ns), a bandwidth (70GB/s), a share of slow accesses (slow-share=5%), or none";
        match (&self.slo, self.preference) {
            (Some(_), Some(_)) => {
                return Err(wrong(
                    "slo",
                    "it has a target and a preference".into(),
                    "keep one of slo and preference",
                ));
            }
            (Some(text), None) if text == "none" => submission.slo = None,
            (Some(text), None) => {
                let parsed = text.parse();
                submission.slo =
                    Some(parsed.map_err(|why: String| wrong("slo", format!("slo {why}"), forms))?);
            }
            (None, Some(preference)) => submission.slo = preference.slo(),
            (None, None) => {}
        }
        match (self.kind, submission.slo) {
            (Some(Kind::Ls), Some(Slo::Bandwidth(_))) => {
                return Err(wrong(
                    "type",
                    "its type is ls, and its target a bandwidth".into(),
                    "a bandwidth is a target of type bi",
                ));
            }
            (Some(Kind::Bi), Some(Slo::Latency(_) | Slo::SlowShare(_))) => {
                return Err(wrong(
                    "type",
                    "its type is bi, and its target no bandwidth".into(),
                    "write a bandwidth, as in 70GB/s, or type ls",
                ));
            }
            (Some(_), None) if self.preference.is_none() => {
                return Err(wrong("type", "it has a type and no target".into(), forms));
            }
            _ => {}
        }
        let positive = |what: &'static str, value: f64| match value > 0.0 && value.is_finite() {
            true => Ok(value),
            false => Err(wrong(what, format!("{what} is {value}"), "give a number above 0")),
        };
        if let Some(memory) = &self.memory {
            let bytes = memory.parse::<Bytes>().ok().filter(|bytes| *bytes > Bytes::ZERO);
            let why = format!("memory {memory:?} is no size");
            let size = || wrong("memory", why, "write a size, as in 20GiB");
            submission.memory = Some(bytes.ok_or_else(size)?);
        }
        if let Some(weight) = self.weight {
            submission.weight = positive("weight", weight)?;
        }
        if let Some(cores) = self.cores {
            submission.cores = Some(positive("cores", cores)?);
        }
        submission.priority = self.priority.unwrap_or(submission.priority);
        Ok(())
    }

    fn checked_name(&self) -> Result<String, Problem> {
        let name = self.name.clone().unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || "_.@-".contains(c);
        let good = !name.is_empty()
            && name.len() <= MOST_NAME
            && name.chars().all(plain)
            && !name.starts_with(['.', '-']);
        match good {
            true => Ok(name),
            false => Err(Problem::new(
                "name",
                format!("{name:?} is no name of an application"),
                format!("use letters, digits, '_', '.', '@' and '-', {MOST_NAME} at most"),
            )),
        }
    }
}

/// The highest priority from `top` down that is free.
fn free_priority(top: u32, others: &[ApplicationStatus]) -> u32 {
    let is_free = |priority: &u32| others.iter().all(|other| other.priority != *priority);
    (0..=top).rev().find(is_free).unwrap_or(top)
}

fn unknown_key(text: &str) -> Option<String> {
    let table: toml::Table = text.parse().ok()?;
    let key = table.keys().find(|key| !KEYS.contains(&key.as_str()))?;
    Some(format!("unknown key {key}; {}", suggest(key, KEYS)))
}

/// The applications of a folder, in the order of their files.
///
/// # Errors
/// The first file that cannot be read, or that others can write.
pub fn folder(dir: &Path) -> Result<Vec<App>> {
    let entries = fs::read_dir(dir).map_err(|error| {
        ErrorWithHint::error(
            format!("cannot read {}: {error}", dir.display()),
            "create the folder, or name another one: --apps DIR",
        )
    })?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files.iter().map(|file| read(file)).collect()
}

fn read(file: &Path) -> Result<App> {
    let failed =
        |why: String, hint: &str| ErrorWithHint::error(format!("{}: {why}", file.display()), hint);
    let meta = fs::metadata(file).map_err(|error| failed(error.to_string(), "remove it"))?;
    if meta.mode() & 0o002 != 0 {
        return Err(failed(
            "everybody can write it".into(),
            "take that right away: chmod o-w FILE",
        ));
    }
    if meta.len() > MOST_BYTES {
        return Err(failed(
            format!("it has {} bytes", meta.len()),
            "a file is one application, of at most 64 KiB",
        ));
    }
    let text = fs::read_to_string(file);
    let text = text.map_err(|error| failed(error.to_string(), "write it as UTF-8 text"))?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    App::read(&file.display().to_string(), &text, &name)
}

/// Hosts tenants on a manager that starts. One that is refused is reported; the others are managed.
pub fn host_all(manager: &mut Manager, root: &Root, apps: &[App], messages: Messages) {
    let now = crate::clock::now();
    for app in apps {
        if let Err(error) = app.host(manager, root, now) {
            report_error::tell(&error, messages);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn app(text: &str) -> App {
        App::read("redis.toml", text, "redis").expect(text)
    }

    fn refused(text: &str) -> String {
        let error = App::read("redis.toml", text, "redis")
            .and_then(|app| app.submission(&[]))
            .expect_err(text);
        format!("{error}\n{}", report_error::hint(&error).unwrap_or_default())
    }

    #[test]
    fn a_file_is_an_application_named_after_it() {
        let text = "type = \"ls\"\nslo = \"200ns\"\npriority = 3\nmemory = \"20GiB\"\ncores = 4\ncgroup = \"a/b\"";
        let found = app(text).submission(&[]).expect("an application");
        assert_eq!(
            (found.name.as_str(), found.cgroup.as_str(), found.priority),
            ("redis", "a/b", 3)
        );
        assert_eq!(found.slo.map(|slo| slo.to_string()).as_deref(), Some("200 ns"));
        assert_eq!(
            (found.memory, found.cores, found.weight),
            (Some(Bytes(20 << 30)), Some(4.0), 1.0)
        );
        let json = serde_json::to_string(&app(text)).expect("as sent");
        assert_eq!(serde_json::from_str::<App>(&json).expect("as received"), app(text));
    }

    #[test]
    fn a_preference_needs_no_numbers_and_gets_a_free_priority() {
        let taken = |priority| ApplicationStatus { priority, ..ApplicationStatus::default() };
        let one = app("preference = \"latency\"\ncgroup = \"a\"");
        let found = one.submission(&[taken(5_000), taken(4_999)]).expect("an application");
        assert_eq!((found.slo, found.priority), (Some(Slo::SlowShare(0.02)), 4_998));
        let found = app("preference = \"bandwidth\"\ncgroup = \"a\"").submission(&[]).expect("one");
        assert_eq!((found.slo, found.priority), (None, 1_000));
        assert!(
            refused("preference = \"latency\"\nslo = \"5%\"\ncgroup = \"a\"").contains("keep one")
        );
    }

    #[test]
    fn every_wrong_key_is_named_with_a_next_step() {
        for (text, parts) in [
            ("prioritty = 3", ["prioritty", "did you mean priority"]),
            ("type = \"lss\"", ["lss", ""]),
            ("slo = \"200\"\npriority = 1\ncgroup = \"a\"", ["\"200\" is no target", "70GB/s"]),
            ("slo = \"200ns\"\ncgroup = \"a\"", ["no priority", "--priority"]),
            ("slo = \"200ns\"\npriority = 1", ["no processes", "cgroup, unit and match"]),
            ("cgroup = \"a\"\nunit = \"b.service\"", ["twice", "one of"]),
            ("match = { comm = \"x\" }\npriority = 1", ["redis.toml:1: a target needs", "unit"]),
            ("cgroup = \"a\"\n limit = \"fast\"", ["redis.toml:2: ", "fast=4GiB"]),
            ("cgroup = \"a\"\nlimit = \"fast=1G\"\npriority = 1", [":2: it has a limit", "one"]),
            (
                "type = \"bi\"\nslo = \"200ns\"\npriority = 1\ncgroup = \"a\"",
                ["no bandwidth", "type ls"],
            ),
            (
                "type = \"ls\"\nslo = \"2GB/s\"\npriority = 1\ncgroup = \"a\"",
                ["a bandwidth", "type bi"],
            ),
            ("type = \"ls\"\npriority = 1\ncgroup = \"a\"", ["no target", "200ns"]),
            ("memory = \"x\"\npriority = 1\ncgroup = \"a\"", ["memory \"x\"", "20GiB"]),
            ("weight = -1\npriority = 1\ncgroup = \"a\"", ["weight is -1", "above 0"]),
            ("cores = 0\npriority = 1\ncgroup = \"a\"", ["cores is 0", "above 0"]),
            ("name = \"../x\"\npriority = 1\ncgroup = \"a\"", ["no name", "letters"]),
        ] {
            let error = refused(text);
            assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
        }
    }

    #[test]
    fn a_folder_is_read_in_order_and_a_file_that_everybody_can_write_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        for (name, priority) in [("b.toml", 1), ("a.toml", 2), ("README", 3)] {
            let text = format!("priority = {priority}\ncgroup = \"x\"");
            fs::write(dir.path().join(name), text).expect("a file");
        }
        let found = folder(dir.path()).expect("applications");
        let names: Vec<_> = found.iter().filter_map(|app| app.name.as_deref()).collect();
        assert_eq!(names, ["a", "b"]);
        let open = fs::Permissions::from_mode(0o666);
        fs::set_permissions(dir.path().join("a.toml"), open).expect("permissions");
        let error = folder(dir.path()).expect_err("writable");
        assert!(error.to_string().contains("everybody can write"), "{error}");
        assert!(folder(&dir.path().join("none")).is_err());
    }
}
