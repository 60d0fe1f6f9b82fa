// SPDX-License-Identifier: Apache-2.0
//! Rights that a manager needs of the kernel, and giving up all others. A capability belongs to a thread, not to a
//! process: a thread that is started later inherits what its parent has then.

use std::io;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// A right, and what does not work without it.
#[derive(Clone, Copy, Debug)]
pub struct Right {
    /// The kernel's name.
    pub name: &'static str,
    /// The capability.
    pub capability: CapabilitySet,
    /// What needs it.
    pub needed_for: &'static str,
}

/// All rights of which managers need some.
pub const RIGHTS: [Right; 6] = [
    Right {
        name: "CAP_SYS_PTRACE",
        capability: CapabilitySet::SYS_PTRACE,
        needed_for: "programs of other users: their mappings and their pages",
    },
    Right {
        name: "CAP_SYS_NICE",
        capability: CapabilitySet::SYS_NICE,
        needed_for: "moving and splitting pages of other users' programs, moving pages that several processes share, \
                     and a high priority meanwhile",
    },
    Right {
        name: "CAP_DAC_READ_SEARCH",
        capability: CapabilitySet::DAC_READ_SEARCH,
        needed_for: "page sizes of other users' programs (/proc/PID/pagemap)",
    },
    Right {
        name: "CAP_DAC_OVERRIDE",
        capability: CapabilitySet::DAC_OVERRIDE,
        needed_for: "trackers accessed and soft_dirty on other users' programs (/proc/PID/clear_refs)",
    },
    Right {
        name: "CAP_SYS_RAWIO",
        capability: CapabilitySet::SYS_RAWIO,
        needed_for: "tracker accessed (/proc/kcore), and neoprof and chmu by address (/dev/mem)",
    },
    Right {
        name: "CAP_SYS_ADMIN",
        capability: CapabilitySet::SYS_ADMIN,
        needed_for: "restoring settings of the kernel; perf for the whole machine, and frame numbers",
    },
];

/// The kernel takes a new value of `numa_balancing` from this capability alone, and the old one is put back at the end.
const RESTORES: CapabilitySet = CapabilitySet::SYS_ADMIN;

/// What every manager needs while it runs.
const MOVES: CapabilitySet =
    CapabilitySet::SYS_PTRACE.union(CapabilitySet::SYS_NICE).union(CapabilitySet::DAC_READ_SEARCH);

/// The capabilities that a manager with this tracker needs while it runs. Without a tracker of the list, what it
/// needs to move pages.
pub fn needed(tracker: &str) -> CapabilitySet {
    MOVES
        | RESTORES
        | match tracker {
            "accessed" => CapabilitySet::SYS_RAWIO | CapabilitySet::DAC_OVERRIDE,
            "soft_dirty" => CapabilitySet::SYS_ADMIN | CapabilitySet::DAC_OVERRIDE,
            "pebs" | "ibs" | "page_idle" | "hint_faults" | "damon" => CapabilitySet::SYS_ADMIN,
            "neoprof" | "chmu" => CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_RAWIO,
            _ => CapabilitySet::empty(),
        }
}

/// The capabilities of this thread.
///
/// # Errors
/// The kernel's error.
pub fn held() -> io::Result<CapabilitySet> {
    Ok(capabilities(None)?.effective)
}

/// Gives up all capabilities of this thread except `kept`, for good. Nothing that it starts has more.
///
/// # Errors
/// The kernel's error; rights may have been given up partly.
pub fn keep_only(kept: CapabilitySet) -> io::Result<()> {
    set_no_new_privs(true)?;
    // A kernel before 4.3 has no ambient set.
    unless(clear_ambient_capability_set(), Errno::INVAL)?;
    for number in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if kept.contains(one) {
            continue;
        }
        match remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // The kernel's last capability was the one before.
            Err(Errno::INVAL) => break,
            // Only with CAP_SETPCAP. Without it, what a service manager left of the set stays; as no program gains a
            // capability any more (`no_new_privs`), nothing depends on it.
            Err(Errno::PERM) => break,
            Err(other) => return Err(other.into()),
        }
    }
    let CapabilitySets { effective, permitted, .. } = capabilities(None)?;
    let (effective, permitted) = (effective & kept, permitted & kept);
    let inheritable = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective, permitted, inheritable })?)
}

fn unless(result: Result<(), Errno>, expected: Errno) -> io::Result<()> {
    match result {
        Err(errno) if errno != expected => Err(errno.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracker::TRACKERS;

    /// The sets of this thread, as the kernel shows them, by the name of their line.
    fn shown(name: &str) -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("our status");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        u64::from_str_radix(line.trim_start_matches(':').trim(), 16).expect("a number")
    }

    #[test]
    fn every_tracker_needs_a_right_beyond_those_of_moves() {
        for entry in TRACKERS {
            assert!(needed(entry.name) != MOVES, "{}", entry.name);
        }
        let known = RIGHTS.iter().fold(CapabilitySet::empty(), |all, one| all | one.capability);
        for entry in TRACKERS {
            assert!(known.contains(needed(entry.name)), "{}: doctor knows it", entry.name);
        }
        assert!(needed("accessed").contains(RESTORES));
        assert!(!needed("damon").contains(CapabilitySet::DAC_OVERRIDE));
    }

    #[test]
    fn a_thread_keeps_what_it_needs_and_gets_nothing_back() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let before = shown("CapEff");
        let kept = needed("accessed");
        std::thread::spawn(move || {
            keep_only(kept).expect("rights are given up");
            let expected = kept.bits() & before;
            for set in ["CapEff", "CapPrm"] {
                assert_eq!(shown(set), expected, "{set}");
            }
            assert_eq!((shown("CapInh"), shown("CapAmb"), shown("NoNewPrivs")), (0, 0, 1));
            assert_eq!(shown("CapBnd") & !kept.bits(), 0);
            keep_only(CapabilitySet::empty()).expect("all of them");
            assert_eq!((shown("CapEff"), shown("CapPrm")), (0, 0));
            let again = CapabilitySets {
                effective: CapabilitySet::SYS_NICE,
                permitted: CapabilitySet::SYS_NICE,
                inheritable: CapabilitySet::empty(),
            };
            assert_eq!(set_capabilities(None, again), Err(Errno::PERM));
        })
        .join()
        .expect("it holds");
        assert_eq!(shown("CapEff"), before, "other threads have their own");
    }
}
