// SPDX-License-Identifier: Apache-2.0
//! The ladder: the best tracker that this kernel offers, and why not a better one.

use tierline_core::port::Watch;

use super::entry::{Setup, TrackerEntry};
use super::{TRACKERS, Tracker};
use crate::error::{Error, Result};

/// What the ladder came to.
pub struct Choice {
    /// The tracker, ready to watch.
    pub tracker: Box<dyn Tracker>,
    /// The better ones that this machine does not offer, each with the reason.
    pub passed_over: Vec<(&'static str, Error)>,
}

/// Takes the tracker of this name; where none is named, the one that was made for the policy's wish, else the first of
/// the list that can be opened.
///
/// # Errors
/// That of the named tracker; where none is named and none can be had, `Error::Missing` with the
/// reasons of all.
pub fn choose(setup: &Setup<'_>, named: Option<&str>, wish: Option<Watch>) -> Result<Choice> {
    if let Some(name) = named {
        let tracker = TrackerEntry::find(name)?.open(setup)?;
        return Ok(Choice { tracker, passed_over: Vec::new() });
    }
    let mut passed_over = Vec::new();
    for entry in in_order(wish) {
        match entry.open(setup) {
            Ok(tracker) => return Ok(Choice { tracker, passed_over }),
            Err(error) => passed_over.push((entry.name, error)),
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

/// All trackers, best first; the first that was made for a policy's wish before them.
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
    fn what_a_policy_was_made_for_comes_first() {
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
