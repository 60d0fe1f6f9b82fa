// SPDX-License-Identifier: Apache-2.0
//! The requested policy, and its needs on this machine.

use tierline_core::knob::Knob;
use tierline_core::policy::Policy;
use tierline_core::policy::{POLICIES, entry::PolicyEntry};
use tierline_core::port::Capability;
use tierline_core::qos::Limits;

use super::ManagerOptions;
use crate::error::{Error, Result};
use crate::mover::page_out::{self, PageOutSupport, Pager};
use crate::process::Targets;
use crate::root::Root;

/// The knob of policies that can page out private and shared memory as well.
const SWAP: &str = "swap";

/// The pager for a policy that needs one.
pub(super) fn pager(
    root: &Root,
    policy: &dyn Policy,
    options: &ManagerOptions,
    targets: &Targets,
    notes: &mut Vec<String>,
) -> Result<Option<Pager>> {
    if !policy.needs().contains(&Capability::PageOut) {
        return Ok(None);
    }
    let ability = page_out::probe(root, targets.groups())?;
    notes.extend(about_swap(ability, policy, options)?);
    Ok(Some(Pager::new(root)))
}

/// A note about swap, if the user may want to change something.
fn about_swap(
    ability: PageOutSupport,
    policy: &dyn Policy,
    options: &ManagerOptions,
) -> Result<Option<String>> {
    let may_swap = policy.knobs().iter().any(|knob| knob.name == SWAP);
    let swaps = options.knobs.iter().any(|(name, value)| name == SWAP && *value > 0.0);
    match ability.no_swap {
        Some(error) if swaps => Err(error),
        None if may_swap && !swaps => Ok(Some(format!(
            "only pages of files are paged out; private memory too with --knobs {SWAP}=1"
        ))),
        _ => Ok(None),
    }
}

/// The requested policy with its knobs set.
///
/// # Errors
/// `Error::Missing` if there is none of that name; `Error::Input` if the knobs or limits do not fit it.
pub(super) fn policy(options: &ManagerOptions, limits: &Limits) -> Result<Box<dyn Policy>> {
    let entry = PolicyEntry::find(&options.policy).ok_or_else(|| no_policy(&options.policy))?;
    let mut policy = (entry.make)();
    for (name, value) in &options.knobs {
        let known = policy.knobs();
        let knob = known.iter().find(|knob| knob.name == name);
        let fits = knob.is_some_and(|k| (k.range[0]..=k.range[1]).contains(value));
        if !fits || !policy.set(name, *value) {
            return Err(wrong_knob(entry.name, name, *value, &known));
        }
    }
    if policy.kernel().is_some() && (options.dry_run || options.tracker.is_some()) {
        return Err(Error::Input {
            what: "policy",
            found: entry.name.into(),
            why:
                "the kernel observes and moves pages itself: it uses no tracker, and has no dry run"
                    .into(),
        });
    }
    if policy.kernel().is_some() && !limits.is_empty() {
        let why = "the kernel moves pages for all programs in the same way, so tenants cannot have limits; choose another policy";
        return Err(Error::Input { what: "policy", found: entry.name.into(), why: why.into() });
    }
    Ok(policy)
}

fn wrong_knob(policy: &str, name: &str, value: f64, known: &[Knob]) -> Error {
    let one = |knob: &Knob| {
        let Knob { name, unit, range: [least, most], .. } = knob;
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        format!("{name} ({least} to {most}{unit})")
    };
    let known: Vec<String> = known.iter().map(one).collect();
    let why = match known.is_empty() {
        true => format!("policy {policy} has no knobs"),
        false => format!("policy {policy} has {}", known.join(", ")),
    };
    Error::Input { what: "knob", found: format!("{name}={value}"), why }
}

fn no_policy(name: &str) -> Error {
    let known: Vec<&str> = POLICIES.iter().map(|entry| entry.name).collect();
    Error::Missing {
        what: format!("policy {name:?}"),
        why: "there is no policy of that name".into(),
        hint: format!("choose one of {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Selection;
    use tierline_core::port::TenantId;
    use tierline_core::tier::TierId;
    use tierline_core::unit::Bytes;

    fn chosen(options: &ManagerOptions) -> Result<Box<dyn Policy>> {
        policy(options, &Limits::default())
    }

    fn with(policy_name: &str, knobs: &[(&str, f64)]) -> ManagerOptions {
        let knobs = knobs.iter().map(|(name, value)| ((*name).into(), *value)).collect();
        ManagerOptions { policy: policy_name.into(), knobs, ..ManagerOptions::default() }
    }

    #[test]
    fn knobs_are_set_within_their_range_and_others_are_refused() {
        let tpp = chosen(&with("tpp", &[("demote_scale", 0.05)])).expect("a policy");
        assert_eq!(tpp.name(), "tpp");
        for wrong in [("no_such", 1.0), ("demote_scale", 5.0)] {
            let error = chosen(&with("tpp", &[wrong])).err().expect("refused").to_string();
            assert!(
                error.contains(wrong.0) && error.contains("demote_scale (0.001 to 0.2)"),
                "{error}"
            );
        }
        assert!(chosen(&with("hold", &[("x", 1.0)])).is_err());
    }

    #[test]
    fn the_kernel_policy_takes_no_tracker_and_no_dry_run() {
        let kernel = chosen(&with("kernel", &[("watermark_scale", 100.0)])).expect("a policy");
        assert_eq!(kernel.kernel().map(|knobs| knobs.watermark_scale), Some(100));
        let dry_run = ManagerOptions { dry_run: true, ..with("kernel", &[]) };
        let tracked = ManagerOptions { tracker: Some("accessed".into()), ..with("kernel", &[]) };
        assert!(chosen(&dry_run).is_err() && chosen(&tracked).is_err());
        let limits = Limits::of(TenantId(1), TierId::FAST, Bytes(1));
        assert!(policy(&with("kernel", &[]), &limits).is_err());
        assert!(policy(&with("hold", &[]), &limits).is_ok());
    }

    #[test]
    fn swap_is_needed_only_where_it_is_asked_for() {
        let about = |swaps: f64, no_swap: bool| {
            let options = with("first-touch+tmo", &[(SWAP, swaps)]);
            let error = || Error::Missing { what: SWAP.into(), why: "".into(), hint: "".into() };
            let ability = PageOutSupport { no_swap: no_swap.then(error) };
            let policy = chosen(&options).expect("a policy");
            about_swap(ability, policy.as_ref(), &options)
        };
        assert!(about(1.0, true).is_err());
        assert_eq!(about(1.0, false).expect("there is swap"), None);
        assert_eq!(about(0.0, true).expect("files alone"), None);
        let note = about(0.0, false).expect("files alone").expect("a note");
        assert!(note.contains("--knobs swap=1"), "{note}");
        let (plain, mut notes) = (chosen(&with("hold", &[])).expect("a policy"), Vec::new());
        let fake = crate::cgroup::tests::Fake::new();
        fake.put("/proc/1/stat", "");
        let targets = Targets::new(Selection::default(), &fake.root).expect("no targets");
        let none =
            pager(&fake.root, plain.as_ref(), &ManagerOptions::default(), &targets, &mut notes);
        assert!(none.expect("not asked for").is_none() && notes.is_empty());
    }
}
