// SPDX-License-Identifier: Apache-2.0
//! The ladder: the best tracker that this kernel supports, and why better ones are not used.

use tierline_core::port::Watch;

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

/// Opens the tracker of this name; without a name, the one made for the policy's request, otherwise the first
/// of the list that can be opened.
///
/// # Errors
/// That of the named tracker; without a name, if no tracker can be opened, `Error::Missing` with all reasons.
pub fn choose(setup: &Setup<'_>, named: Option<&str>, wish: Option<Watch>) -> Result<Choice> {
    if let Some(name) = named {
        let tracker = TrackerEntry::find(name)?.open(setup)?;
        return Ok(Choice { tracker, rejected: Vec::new() });
    }
    let mut rejected = Vec::new();
    for entry in in_order(wish) {
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

/// All trackers, best first; before them the first that was made for a policy's request.
fn in_order(wish: Option<Watch>) -> Vec<&'static TrackerEntry> {
    let mut all: Vec<&TrackerEntry> = TRACKERS.iter().collect();
    let made_for = |entry: &&TrackerEntry| wish.is_some_and(|wish| (entry.made_for)(wish));
    if let Some(first) = all.iter().position(made_for) {
        all[..=first].rotate_right(1);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierline_core::unit::{Bytes, Nanos};

    #[test]
    fn the_tracker_made_for_a_policys_request_comes_first() {
        let names = |wish| in_order(wish).iter().map(|entry| entry.name).collect::<Vec<_>>();
        let faults = |fast_too| Watch::HintFaults {
            pass: Nanos::from_secs(60),
            bytes: Bytes::from_mib(256),
            floor: Nanos::from_secs(1),
            fast_too,
        };
        let counters = Watch::Counters {
            threshold: 16,
            read: Nanos::from_millis(10),
            update: Nanos::from_secs(1),
            clear: Nanos::from_secs(5),
        };
        let ladder = names(None);
        assert_eq!(ladder[..2], ["neoprof", "chmu"]);
        assert_eq!(names(Some(counters)), ladder);
        assert_eq!(names(Some(faults(true))), ladder, "the kernel arms no page of fast memory");
        let moved = names(Some(faults(false)));
        assert_eq!(moved[0], "hint_faults");
        let others = |names: &[&'static str]| -> Vec<&'static str> {
            names.iter().copied().filter(|name| *name != "hint_faults").collect()
        };
        assert_eq!(others(&moved), others(&ladder));
    }
}
