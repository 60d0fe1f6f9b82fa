// SPDX-License-Identifier: Apache-2.0
//! The ladder: the best tracker that this kernel supports, and why better ones are not used.

use super::entry::{Setup, TrackerEntry};
use super::{TRACKERS, Tracker};
use crate::error::{Error, Result};

/// The result of the ladder.
pub struct Choice {
    /// The tracker, ready to watch.
    pub tracker: Box<dyn Tracker>,
    /// The better trackers that this machine does not support, each with the reason.
    pub rejected: Vec<(&'static str, Error)>,
}

/// Opens the tracker of this name; without a name, the first of the list that can be opened.
///
/// # Errors
/// That of the named tracker; without a name, if no tracker can be opened, `Error::Missing` with all reasons.
pub fn choose(setup: &Setup<'_>, named: Option<&str>) -> Result<Choice> {
    if let Some(name) = named {
        let tracker = TrackerEntry::find(name)?.open(setup)?;
        return Ok(Choice { tracker, rejected: Vec::new() });
    }
    let mut rejected = Vec::new();
    for entry in TRACKERS {
        match entry.open(setup) {
            Ok(tracker) => return Ok(Choice { tracker, rejected }),
            Err(error) => rejected.push((entry.name, error)),
        }
    }
    let reasons: Vec<String> =
        rejected.iter().map(|(name, error)| format!("\n  {name}: {error}")).collect();
    Err(Error::Missing {
        what: "a tracker".into(),
        why: format!("none can be used here:{}", reasons.concat()),
        hint: "`tierline doctor` lists what each of them needs".into(),
    })
}
