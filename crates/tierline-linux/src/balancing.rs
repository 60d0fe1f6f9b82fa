// SPDX-License-Identifier: Apache-2.0
//! `kernel.numa_balancing`, and the changes of it that must not be made while programs run.
//!
//! In tiering mode the kernel keeps the time of the last access of a slow page in the field that otherwise tells which
//! processor used the page. A page that is moved to fast memory while tiering is off keeps that time. If balancing
//! between sockets is then switched on, the kernel takes the time for the number of a processor, reads beyond its
//! tables, and the program that touched the page hangs for good (`task_numa_fault`; seen on 6.12 and 7.2). So a machine
//! that balances between sockets is never taken through tiering mode and back, nor out of both and back.

use crate::error::{Error, Result};
use crate::root::Root;

/// The setting.
pub(crate) const MODE: &str = "/proc/sys/kernel/numa_balancing";
/// Its value for tiering alone: the kernel arms pages of slow memory, and keeps times in them.
pub(crate) const TIERING: &str = "2";
/// Its bit for balancing between sockets.
const BETWEEN_SOCKETS: u64 = 1;
/// Its bit for tiering.
const TIERS: u64 = 2;
/// Counters of the kernel that only tiering mode increases.
const TIERING_COUNTS: [&str; 2] = ["pgpromote_success", "pgpromote_candidate"];

/// Checks that a machine at `value` may later go back to `original`.
///
/// # Errors
/// `Error::Refused` if programs could hang afterwards.
pub(crate) fn may_return(original: &str, value: &str) -> Result<()> {
    let mode = |text: &str| text.trim().parse::<u64>().unwrap_or(0);
    let (original, value) = (mode(original), mode(value));
    let safe = original & BETWEEN_SOCKETS == 0 || (original ^ value) & TIERS == 0;
    if safe { Ok(()) } else { Err(refused(original, &format!("it would be {value} until then"))) }
}

/// Checks that tiering mode may be switched on and off in turn, before the present mode comes back.
///
/// # Errors
/// `Error::Refused` if programs could hang afterwards, `Error::File` if there is no mode.
pub(crate) fn may_tier(root: &Root) -> Result<()> {
    let mode = root.read(MODE)?;
    may_return(&mode, TIERING)?;
    may_return(&mode, "0")
}

/// Checks that Tierline may move pages with the mode at 0, and go back to the present one.
///
/// # Errors
/// `Error::Refused` if programs could hang afterwards.
pub(crate) fn may_pause(root: &Root) -> Result<()> {
    let mode = root.read_number(MODE).unwrap_or(0);
    let counts = root.read("/proc/vmstat").unwrap_or_default();
    let has_tiered = counts.lines().filter_map(|line| line.split_once(' ')).any(|(name, count)| {
        TIERING_COUNTS.contains(&name) && count.trim().parse::<u64>().is_ok_and(|count| count > 0)
    });
    if mode & BETWEEN_SOCKETS != 0 && has_tiered {
        return Err(refused(mode, "this kernel has tiered memory since it started"));
    }
    may_return(&mode.to_string(), "0")
}

fn refused(original: u64, cause: &str) -> Error {
    Error::Refused {
        what: format!("going back to kernel.numa_balancing = {original} at the end"),
        why: format!(
            "{cause}, and tiering leaves times of accesses in pages, which the kernel would then take for processors: \
             programs would hang"
        ),
        hint: "sysctl kernel.numa_balancing=0, and 1 or 3 again only after the programs have been restarted".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::fake;

    #[test]
    fn a_machine_that_balances_between_sockets_keeps_the_tiering_bit_that_it_has() {
        for (original, value) in [("0", "2"), ("2", "0"), ("1", "0"), ("3\n", "2"), ("1\n", "1")] {
            may_return(original, value).expect("no page keeps a time");
        }
        for (original, value) in [("1", "2"), ("3", "0"), ("1\n", "3")] {
            let error = may_return(original, value).expect_err("times are left in pages");
            assert!(
                error.hint().is_some() && error.to_string().contains("numa_balancing"),
                "{error}"
            );
        }
    }

    #[test]
    fn where_the_kernel_has_tiered_before_balancing_between_sockets_is_not_paused() {
        for (mode, counts, may) in [
            ("1\n", "pgpromote_success 0\npgpromote_candidate 0\n", true),
            ("1\n", "nr_free_pages 7\n", true),
            ("2\n", "pgpromote_success 9\n", true),
            ("1\n", "pgpromote_success 9\n", false),
            ("1\n", "pgpromote_success 0\npgpromote_candidate 1\n", false),
            ("3\n", "pgpromote_success 0\n", false),
        ] {
            let (_dir, root) = fake(&[(MODE, mode), ("/proc/vmstat", counts)]);
            assert_eq!(may_pause(&root).is_ok(), may, "{mode} {counts}");
        }
    }
}
