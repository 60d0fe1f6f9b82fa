// SPDX-License-Identifier: Apache-2.0
//! The ladder: the best tracker that this kernel offers, and why not a better one.

use tierline_core::tier::{TierId, Tiers};
use tierline_core::tracker::TRACKERS;

use ::neoprof::driver::Source;

use super::{
    Tracker, accessed, damon, hint_faults, ibs, neoprof, page_idle, pebs, soft_dirty, window,
};
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::manager::Options;
use crate::root::Root;

/// What the ladder came to.
pub struct Choice {
    /// The tracker, ready to watch.
    pub tracker: Box<dyn Tracker>,
    /// The better ones that this machine does not offer, each with the reason.
    pub passed_over: Vec<(&'static str, Error)>,
}

/// Takes the tracker that the options name, or the one that the policy was made for, or the first of the list that can
/// be opened.
///
/// # Errors
/// That of the named tracker; where none is named and none can be had, `Error::Missing` with the
/// reasons of all.
pub fn choose(
    root: &Root,
    journal: &Journal,
    tiers: &Tiers,
    options: &Options,
    made_for: Option<&'static str>,
) -> Result<Choice> {
    if let Some(name) = options.tracker.as_deref() {
        return Ok(Choice {
            tracker: open(root, journal, tiers, options, name)?,
            passed_over: Vec::new(),
        });
    }
    let mut passed_over = Vec::new();
    let others = TRACKERS.iter().map(|entry| entry.name).filter(|name| Some(*name) != made_for);
    for name in made_for.into_iter().chain(others) {
        match open(root, journal, tiers, options, name) {
            Ok(tracker) => return Ok(Choice { tracker, passed_over }),
            Err(error) => passed_over.push((name, error)),
        }
    }
    let reasons: Vec<String> =
        passed_over.iter().map(|(name, error)| format!("\n  {name}: {error}")).collect();
    Err(Error::Missing {
        what: "a tracker".into(),
        why: format!("none can be used here:{}", reasons.concat()),
        hint: "`tierline doctor` says what each of them needs".into(),
    })
}

fn open(
    root: &Root,
    journal: &Journal,
    tiers: &Tiers,
    options: &Options,
    name: &str,
) -> Result<Box<dyn Tracker>> {
    let pace = window::Settings::default();
    // With two tiers a hint fault tells where the page was; with more it does not.
    let slow = (tiers.len() == 2).then_some(TierId(1));
    let device = |source| {
        let settings = neoprof::Settings { source, place: options.neoprof.clone() };
        neoprof::open(root, journal, tiers, &settings)
    };
    Ok(match name {
        "neoprof" => Box::new(device(Source::Fifo)?),
        "chmu" => Box::new(device(Source::Hotlist)?),
        "pebs" => Box::new(pebs::open(root, &pebs::Settings::default())?),
        "ibs" => Box::new(ibs::open(root, &ibs::Settings::default())?),
        "accessed" => Box::new(accessed::Accessed::new(root, tiers, pace)?),
        "page_idle" => Box::new(page_idle::PageIdle::new(root, tiers, pace)?),
        "hint_faults" => {
            let settings = hint_faults::Settings::default();
            Box::new(hint_faults::HintFaults::new(root, journal, slow, settings)?)
        }
        "damon" => Box::new(damon::Damon::new(root, journal, damon::Settings::default())?),
        "soft_dirty" => Box::new(soft_dirty::SoftDirty::new(root, tiers, pace)?),
        _ => {
            let known: Vec<&str> = TRACKERS.iter().map(|entry| entry.name).collect();
            return Err(Error::Missing {
                what: format!("tracker {name:?}"),
                why: "there is no tracker of that name".into(),
                hint: format!("choose one of {}", known.join(", ")),
            });
        }
    })
}
