// SPDX-License-Identifier: Apache-2.0
//! Tenants on a command line: targets, and their limits in every tier.
//!
//! ```text
//! limits = limit { "," limit }            --limit fast=4GiB,slow=20GiB
//! limit  = tier "=" ( size | percent )    fast=30%: of the tier's capacity
//! tier   = a name, or tN, the Nth fastest
//! ```
//! A `--limit` belongs to the target before it; before the first target, to every target without its own limit
//! for that tier.

use std::fmt;
use std::str::FromStr;

use anyhow::Result;
use tierline_core::tier::{Tier, TierId, Tiers};
use tierline_core::unit::Bytes;
use tierline_linux::process::{NamedRule, Rule, Selection};
pub use tierline_linux::tenant::Target;
use tierline_linux::tenant::Tenant;

use crate::config::value::TextForm;
use crate::nearest::suggest;
use crate::report_error::ErrorWithHint;
use crate::rules::below_mount;

/// Programs that share limits, as requested.
#[derive(Clone, Debug)]
pub struct TenantSpec {
    /// Its name in reports: its command, cgroup, pids or pattern.
    pub name: String,
    /// Its processes.
    pub target: Target,
    /// Its own limits, those for every target, the configuration's. The first one for a tier applies.
    pub limits: Vec<TierLimits>,
}

/// A tier as typed by the user: its name, or `t0` for the fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierName(pub String);

/// A limit in a tier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// A number of bytes.
    Size(Bytes),
    /// A share of the tier's capacity, in percent.
    Percent(f64),
}

/// The content of one `--limit`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TierLimits(pub Vec<(TierName, Limit)>);

/// A target or a limit, in the order of the command line.
#[derive(Clone, Debug)]
pub enum TargetOrLimit {
    /// `-p`, `--cgroup`, `--comm`, or the command.
    Target(Target),
    /// `--limit`.
    Limits(TierLimits),
}

/// The name of a target in reports.
fn name(target: &Target) -> String {
    match target {
        Target::Command(name) => name.clone(),
        Target::Pids(pids) => {
            let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
            format!("pid {}", pids.join(","))
        }
        Target::Cgroup(path) => match below_mount(path) {
            "" => "/".into(),
            path => path.into(),
        },
        Target::Rule(Rule::Comm(pattern)) => pattern.as_str().into(),
        Target::Rule(_) => "a rule".into(),
    }
}

/// The tenants of a command line. `default` applies to tiers without a limit on it.
///
/// # Errors
/// If a target is named twice, or a tier twice for one target.
pub fn tenants(words: &[TargetOrLimit], default: &TierLimits) -> Result<Vec<TenantSpec>> {
    let mut tenants: Vec<TenantSpec> = Vec::new();
    let mut common = TierLimits::default();
    for word in words {
        match word {
            TargetOrLimit::Target(target) => {
                let limits = vec![TierLimits::default()];
                let spec = TenantSpec { name: name(target), target: target.clone(), limits };
                check_new(&tenants, &spec)?;
                tenants.push(spec);
            }
            TargetOrLimit::Limits(more) => match tenants.last_mut() {
                Some(tenant) => tenant.limits[0].extend(more, &tenant.name)?,
                None => common.extend(more, "every target")?,
            },
        }
    }
    for tenant in &mut tenants {
        tenant.limits.extend([common.clone(), default.clone()]);
        tenant.limits.retain(|limits| !limits.0.is_empty());
    }
    Ok(tenants)
}

impl TierLimits {
    fn extend(&mut self, more: &Self, whose: &str) -> Result<()> {
        for (tier, limit) in &more.0 {
            if let Some((_, before)) = self.0.iter().find(|(known, _)| known == tier) {
                return Err(ErrorWithHint::error(
                    format!(
                        "tier {tier} is limited twice for {whose}: {tier}={before} and {tier}={limit}"
                    ),
                    "keep one; a --limit belongs to the target before it, and before the first target to all",
                ));
            }
            self.0.push((tier.clone(), *limit));
        }
        Ok(())
    }
}

fn check_new(tenants: &[TenantSpec], new: &TenantSpec) -> Result<()> {
    let hint = "name each target once, with its limits after it";
    for old in tenants {
        match (&old.target, &new.target) {
            (Target::Cgroup(one), Target::Cgroup(other))
                if below_mount(one) == below_mount(other) =>
            {
                return Err(ErrorWithHint::error(format!("cgroup {other} is named twice"), hint));
            }
            (Target::Pids(some), Target::Pids(more)) => {
                if let Some(pid) = more.iter().find(|pid| some.contains(pid)) {
                    return Err(ErrorWithHint::error(
                        format!("process {pid} is named twice"),
                        hint,
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The processes that the manager should manage.
pub fn selection(tenants: &[TenantSpec], children: bool, min_rss: Bytes) -> Selection {
    let mut selection = Selection { children, min_rss, ..Selection::default() };
    for tenant in tenants {
        match &tenant.target {
            Target::Command(_) => {}
            Target::Pids(pids) => selection.pids.extend(pids),
            Target::Cgroup(path) => selection.cgroups.push(path.clone()),
            Target::Rule(rule) => {
                let (name, rule) = (tenant.name.clone(), rule.clone());
                selection.rules.push(NamedRule { name, rule });
            }
        }
    }
    selection
}

impl TenantSpec {
    /// The tenant on a machine with these tiers.
    ///
    /// # Errors
    /// Those of [`TenantSpec::per_tier`].
    pub fn resolve(&self, tiers: &Tiers) -> Result<Tenant> {
        let limits = self.per_tier(tiers)?;
        Ok(Tenant { name: self.name.clone(), target: self.target.clone(), limits })
    }

    /// The limit in each tier of a machine, fastest first; `None`: no limit.
    ///
    /// # Errors
    /// If there is no such tier, if one is limited twice by different names, or if a limit is above the tier's
    /// capacity.
    pub fn per_tier(&self, tiers: &Tiers) -> Result<Vec<Option<Bytes>>> {
        let mut settled = vec![None; tiers.len()];
        for layer in &self.limits {
            let mut named = vec![None; tiers.len()];
            for (name, limit) in &layer.0 {
                let id = name.find(tiers)?;
                let slot = &mut named[id.index()];
                if slot.is_some() {
                    return Err(ErrorWithHint::error(
                        format!("tier {} is limited twice for {}", tiers[id].name, self.name),
                        format!("{id} and {} are the same tier: keep one limit", tiers[id].name),
                    ));
                }
                *slot = Some(self.bytes(name, *limit, &tiers[id])?);
            }
            settled =
                settled.into_iter().zip(named).map(|(upper, lower)| upper.or(lower)).collect();
        }
        Ok(settled)
    }

    fn bytes(&self, name: &TierName, limit: Limit, tier: &Tier) -> Result<Bytes> {
        let letter = |why: &str, hint: String| {
            ErrorWithHint::error(format!("limit {name}={limit} of {}: {why}", self.name), hint)
        };
        match limit {
            Limit::Percent(percent) if percent > 100.0 => Err(letter(
                "a tier has 100 %",
                format!("write a share of at most 100%, or a size, as in {name}=4GiB"),
            )),
            Limit::Percent(percent) => Ok(tier.capacity.part(percent / 100.0)),
            Limit::Size(size) if size > tier.capacity => Err(letter(
                &format!("the tier has {}", tier.capacity),
                format!(
                    "write at most {name}={}, or a share, as in {name}=50%",
                    tier.capacity.to_text()
                ),
            )),
            Limit::Size(size) => Ok(size),
        }
    }
}

impl TierName {
    fn find(&self, tiers: &Tiers) -> Result<TierId> {
        let is = |(id, tier): &(TierId, &Tier)| tier.name == self.0 || id.to_string() == self.0;
        let by_name = tiers.iter().find(|(_, tier)| tier.name == self.0);
        if let Some((id, _)) = by_name.or_else(|| tiers.iter().find(is)) {
            return Ok(id);
        }
        let names = tiers.iter().map(|(_, tier)| tier.name.as_str());
        Err(ErrorWithHint::error(
            format!("limit {self}=…: this machine has no tier {self}"),
            format!("{}; `tierline topology` shows them", suggest(&self.0, names)),
        ))
    }
}

impl fmt::Display for TierName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(size) => f.write_str(&size.to_text()),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(percent) = text.strip_suffix('%') else {
            return text.parse().map(Self::Size).map_err(|_| {
                format!("{text:?} is neither a size, as in 4GiB, nor a share, as in 30%")
            });
        };
        let percent = percent.trim().parse::<f64>().ok();
        let percent = percent.filter(|percent| percent.is_finite() && *percent >= 0.0);
        percent.map(Self::Percent).ok_or_else(|| format!("{text:?} is not a share, as in 30%"))
    }
}

impl FromStr for TierLimits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let limit = |part: &str| {
            let (tier, limit) =
                part.split_once('=').filter(|(tier, _)| !tier.trim().is_empty()).ok_or_else(
                    || format!("{part:?}: expected TIER=SIZE or TIER=PERCENT%, as in fast=4GiB"),
                )?;
            Ok((TierName(tier.trim().into()), limit.trim().parse()?))
        };
        text.split(',').map(str::trim).map(limit).collect::<Result<_, _>>().map(Self)
    }
}

impl TextForm for TierLimits {
    const NONE: &'static str = "none";

    fn to_text(&self) -> String {
        let parts = self.0.iter().map(|(tier, limit)| format!("{tier}={limit}"));
        parts.collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report_error;
    use regex_lite::Regex;

    const GIB: u64 = 1 << 30;

    fn limits(text: &str) -> TierLimits {
        text.parse().expect(text)
    }

    fn limit(text: &str) -> TargetOrLimit {
        TargetOrLimit::Limits(limits(text))
    }

    fn group(path: &str) -> TargetOrLimit {
        TargetOrLimit::Target(Target::Cgroup(path.into()))
    }

    fn machine() -> Tiers {
        let tier = |name: &str, gib: u64| Tier {
            name: name.into(),
            nodes: Vec::new(),
            capacity: Bytes(gib * GIB),
            latency: None,
            bandwidth: None,
        };
        Tiers(vec![tier("fast", 10), tier("cxl", 40)])
    }

    /// The limits of each tenant in GiB, by tier.
    fn settled(words: &[TargetOrLimit], default: &str) -> Vec<Vec<Option<u64>>> {
        let default = if default.is_empty() { TierLimits::default() } else { limits(default) };
        let tenants = tenants(words, &default).expect("tenants");
        let settled = tenants.iter().map(|tenant| tenant.per_tier(&machine()).expect("limits"));
        settled.map(|tiers| tiers.iter().map(|l| l.map(|bytes| bytes.0 / GIB)).collect()).collect()
    }

    #[test]
    fn limits_are_read_and_written_the_same() {
        for text in
            ["fast=4GiB", "fast=4GiB,slow=20GiB", "t0=30%", "hbm=12.5%,t1=1536MiB", "fast=0B"]
        {
            assert_eq!(limits(text).to_text(), text);
        }
        assert_eq!(limits(" fast = 512M , slow=1G "), limits("fast=512MiB,slow=1GiB"));
        assert_eq!(limits("fast=200%").0[0].1, Limit::Percent(200.0), "its error comes later");
    }

    #[test]
    fn a_malformed_limit_is_named_with_an_example() {
        for (text, part) in [
            ("fast", "\"fast\": expected TIER=SIZE"),
            ("=4G", "expected TIER=SIZE"),
            ("", "expected TIER=SIZE"),
            ("fast=4Q", "\"4Q\" is neither a size"),
            ("fast=", "neither a size"),
            ("fast=x%", "\"x%\" is not a share"),
            ("fast=-5%", "is not a share"),
            ("fast=inf%", "is not a share"),
            ("fast=4G,,slow=1G", "expected TIER=SIZE"),
        ] {
            let error = text.parse::<TierLimits>().expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_limit_belongs_to_the_target_before_it() {
        let words = [group("a"), limit("fast=4GiB"), group("b"), group("c"), limit("cxl=50%")];
        let expected = vec![vec![Some(4), None], vec![None, None], vec![None, Some(20)]];
        assert_eq!(settled(&words, ""), expected);
    }

    #[test]
    fn a_limit_before_the_first_target_applies_to_targets_without_one() {
        let words =
            [limit("fast=1GiB"), group("a"), limit("fast=2GiB"), limit("t1=3GiB"), group("b")];
        assert_eq!(settled(&words, ""), [[Some(2), Some(3)], [Some(1), None]]);
        assert_eq!(settled(&words, "fast=9GiB,cxl=8GiB")[1], [Some(1), Some(8)]);
        assert_eq!(settled(&[group("a")], "t0=10%"), [[Some(1), None]]);
    }

    #[test]
    fn a_tenant_is_named_after_its_target() {
        let words = [
            TargetOrLimit::Target(Target::Pids(vec![7, 8])),
            group("/sys/fs/cgroup/system.slice/db.service/"),
            TargetOrLimit::Target(Target::Rule(Rule::Comm(Regex::new("^redis").expect("it")))),
        ];
        let tenants = tenants(&words, &TierLimits::default()).expect("tenants");
        let names: Vec<&str> = tenants.iter().map(|tenant| tenant.name.as_str()).collect();
        assert_eq!(names, ["pid 7,8", "system.slice/db.service", "^redis"]);
        let all = selection(&tenants, true, Bytes(5));
        assert_eq!((all.pids, all.cgroups.len(), all.min_rss), (vec![7, 8], 1, Bytes(5)));
        assert!(all.rules.len() == 1 && all.children);
    }

    /// The error message for these words on a machine with 10 GiB `fast` and 40 GiB `cxl`.
    fn letter_about(words: &[TargetOrLimit]) -> String {
        let error = tenants(words, &TierLimits::default())
            .and_then(|tenants| tenants.iter().try_for_each(|t| t.per_tier(&machine()).map(|_| ())))
            .expect_err("an error");
        format!("{error}\n{}", report_error::hint(&error).expect("a hint"))
    }

    #[test]
    fn every_wrong_limit_gives_an_error_with_a_next_step() {
        for (words, text, hint) in [
            (
                vec![group("a"), limit("fast=11GiB")],
                "limit fast=11GiB of a: the tier has 10.0 GiB",
                "at most fast=10GiB",
            ),
            (
                vec![group("a"), limit("t1=101%")],
                "limit t1=101% of a: a tier has 100 %",
                "at most 100%",
            ),
            (vec![group("a"), limit("slow=1G")], "has no tier slow", "there are fast, cxl"),
            (vec![group("a"), limit("fats=1G")], "has no tier fats", "did you mean fast?"),
            (vec![group("a"), limit("t2=1G")], "has no tier t2", "tierline topology"),
            (
                vec![group("a"), limit("fast=1G"), limit("fast=20%")],
                "tier fast is limited twice for a: fast=1GiB and fast=20%",
                "keep one",
            ),
            (vec![limit("fast=1G,fast=2G"), group("a")], "twice for every target", "keep one"),
            (
                vec![group("a"), limit("fast=1G,t0=2G")],
                "tier fast is limited twice for a",
                "t0 and fast are the same tier",
            ),
            (
                vec![group("a/b"), group("/sys/fs/cgroup/a/b/")],
                "cgroup /sys/fs/cgroup/a/b/ is named twice",
                "once",
            ),
            (
                vec![
                    TargetOrLimit::Target(Target::Pids(vec![1, 2])),
                    TargetOrLimit::Target(Target::Pids(vec![2])),
                ],
                "process 2 is named twice",
                "once",
            ),
        ] {
            let message = letter_about(&words);
            let (first, second) = message.split_once('\n').expect("two lines");
            assert!(first.contains(text) && second.contains(hint), "{message}");
        }
    }

    #[test]
    fn a_limit_may_be_a_whole_tier() {
        assert_eq!(
            settled(&[group("a"), limit("fast=100%,cxl=40GiB")], ""),
            [[Some(10), Some(40)]]
        );
    }
}
