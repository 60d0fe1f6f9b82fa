// SPDX-License-Identifier: Apache-2.0
//! Trackers: the ways in which a machine lets accesses be seen. The sources themselves live in the
//! worlds; what they have in common, and what users are told of them, is here.

pub mod questions;

/// What is to be known of a tracker before it is chosen.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name users type.
    pub name: &'static str,
    /// What it sees.
    pub sees: &'static str,
    /// What it costs.
    pub costs: &'static str,
}

/// Every tracker there is, best first: the ladder takes the first that the machine offers.
pub const TRACKERS: &[Entry] = &[
    Entry {
        name: "neoprof",
        sees: "every access that reaches slow memory, counted by its device (NeoMem's unit)",
        costs: "no faults; a register read for each hot page",
    },
    Entry {
        name: "chmu",
        sees: "the same, by the hotlist of a CXL hotness monitoring unit (after drafts of drivers)",
        costs: "no faults; a register read for each hot page",
    },
    Entry {
        name: "pebs",
        sees: "sampled loads that miss the cache, with address and tier (Intel)",
        costs: "well below 1 % of the program at the default period",
    },
    Entry {
        name: "ibs",
        sees: "sampled loads that miss the cache, with address and tier (AMD)",
        costs: "well below 1 % of the program at the default period",
    },
    Entry {
        name: "accessed",
        sees: "every page touched within a short window, loads and stores, in every tier",
        costs: "no faults in the program; clearing the accessed bits holds off its page faults for a moment",
    },
    Entry {
        name: "page_idle",
        sees: "every page touched within a window, in every tier",
        costs: "no faults in the program; a bitmap write and read a window",
    },
    Entry {
        name: "hint_faults",
        sees: "accesses to slow memory, page by page, with the time from arming to access",
        costs: "a page fault for every page seen; nothing in fast memory is seen",
    },
    Entry {
        name: "damon",
        sees: "regions, by one sampled page each, in every tier",
        costs: "a kernel thread, in proportion to regions and sampling rate",
    },
    Entry {
        name: "soft_dirty",
        sees: "stores only, page by page, in every tier",
        costs: "a page fault for every page written in a window",
    },
];

impl Entry {
    /// The tracker of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        TRACKERS.iter().find(|entry| entry.name == name)
    }
}
