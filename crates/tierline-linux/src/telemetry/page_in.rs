// SPDX-License-Identifier: Apache-2.0
//! What paging in costs programs: the time they wait for it, and the number of pages paged in.
//!
//! Two sources; the greater value counts. Pressure stall information (PSI), `some` of memory: at least one task waited
//! for reclaim, or for a page that the kernel had counted in the working set. And [`Refaults`], at [`PAGE_IN`]
//! each, since the kernel often does not count a page that we page out in the working set: in a guest of Linux 7.2,
//! 12,288 pages were paged in from compressed swap without any pressure (`examples/page_out.rs`).

use std::collections::BTreeMap;

use tierline_core::unit::Nanos;

use crate::cgroup::{Cgroup, Cgroups, Refaults};
use crate::error::{Error, Result};
use crate::root::Root;
use crate::telemetry::{Pressure, Resource};

/// The time that a thread waits for one page in. Ours, the same as in the model's machines: a flash device.
const PAGE_IN: Nanos = Nanos(100_000);

/// Measures the stall between two calls.
#[derive(Debug, Default)]
pub struct PageIn {
    /// The last reading of each group; of the machine if there is no group.
    before: BTreeMap<Option<usize>, Total>,
}

/// Counts since boot, or since the group was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Total {
    at: Nanos,
    waited_us: u64,
    refaults: u64,
}

impl PageIn {
    /// Share of the time since the last call, 0 to 1, in which tasks waited for memory: of the group that waited most,
    /// or of the whole machine if there is no group. `None` at the first call, and if all groups are gone.
    ///
    /// # Errors
    /// `Error::Missing` if the kernel does not measure pressure.
    pub fn stall_share(
        &mut self,
        now: Nanos,
        root: &Root,
        groups: &Cgroups,
    ) -> Result<Option<f64>> {
        let read: Vec<(Option<usize>, Option<Total>)> = match groups.is_empty() {
            true => {
                let pressure = Pressure::of_machine(root, Resource::Memory)?;
                vec![(None, Some(Total::new(now, pressure, refaults(root, groups).ok())))]
            }
            false => {
                let each = groups.indexed();
                each.map(|(at, group)| Ok((Some(at), of_group(now, group)?)))
                    .collect::<Result<_>>()?
            }
        };
        let last = std::mem::take(&mut self.before);
        let mut most: Option<f64> = None;
        for (at, total) in read {
            let Some(total) = total else { continue };
            if let Some(share) = last.get(&at).and_then(|before| total.share_since(*before)) {
                most = Some(most.map_or(share, |most| most.max(share)));
            }
            self.before.insert(at, total);
        }
        Ok(most)
    }
}

/// `None` if the group is gone.
fn of_group(now: Nanos, group: &Cgroup) -> Result<Option<Total>> {
    let pressure = group.pressure(Resource::Memory)?;
    // A group without a memory controller counts no refaults.
    let refaults = group.refaults().ok().flatten();
    Ok(pressure.map(|pressure| Total::new(now, pressure, refaults)))
}

impl Total {
    fn new(at: Nanos, pressure: Pressure, refaults: Option<Refaults>) -> Self {
        let refaults = refaults.unwrap_or_default().since(Refaults::default());
        Self { at, waited_us: pressure.some.total_us, refaults }
    }

    /// `None` if no time has passed, or if the group was replaced since the last reading.
    fn share_since(self, before: Self) -> Option<f64> {
        let passed = self.at.saturating_sub(before.at).as_secs_f64();
        let waited = Nanos(self.waited_us.checked_sub(before.waited_us)? * 1000);
        let read = PAGE_IN * self.refaults.checked_sub(before.refaults)?;
        (passed > 0.0).then(|| (waited.max(read).as_secs_f64() / passed).min(1.0))
    }
}

/// Refaults: of the groups, each page once; of the machine if there is no group.
///
/// # Errors
/// Those of [`Cgroup::refaults`]; `Error::Format` if the kernel does not count them (before Linux 5.9).
pub fn refaults(root: &Root, groups: &Cgroups) -> Result<Refaults> {
    if groups.is_empty() {
        let text = root.read("/proc/vmstat")?;
        return Refaults::parse(&text).ok_or_else(|| Error::Format {
            path: root.path("/proc/vmstat"),
            found: text.lines().next().unwrap_or_default().into(),
            expected: "workingset_refault_anon and workingset_refault_file",
        });
    }
    let mut sum = Refaults::default();
    // A group's counters include the groups below it.
    let is_inner = |one: &Cgroup| {
        groups.iter().any(|other| other.path() != one.path() && other.contains(one.path()))
    };
    for group in groups.iter().filter(|group| !is_inner(group)) {
        let one = group.refaults()?.unwrap_or_default();
        sum = Refaults { anon: sum.anon + one.anon, file: sum.file + one.file };
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::tests::Fake;

    fn waited(fake: &Fake, path: &str, microseconds: u64) {
        let line =
            |kind, total| format!("{kind} avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n");
        fake.put(path, &(line("some", microseconds) + &line("full", 1)));
    }

    fn groups(fake: &Fake, named: &[&str]) -> Cgroups {
        named.iter().for_each(|name| fake.group(name, &[]));
        let named: Vec<String> = named.iter().map(|name| (*name).into()).collect();
        Cgroups::open(&fake.root, &named).expect("groups")
    }

    #[test]
    fn the_stall_is_the_share_of_the_time_since_the_last_reading() {
        let (fake, mut page_in) = (Fake::new(), PageIn::default());
        let none = Cgroups::default();
        let mut at = |secs: u64, total| {
            waited(&fake, "/proc/pressure/memory", total);
            page_in.stall_share(Nanos::from_secs(secs), &fake.root, &none).expect("readable")
        };
        assert_eq!(at(10, 500_000), None, "unknown before the first reading");
        assert_eq!(at(12, 1_000_000), Some(0.25));
        assert_eq!(at(12, 1_000_000), None);
        assert_eq!(at(13, 1_000_000), Some(0.0));
        assert_eq!(at(14, 9_000_000), Some(1.0), "never more than all of the time");
        let came_back = |pages: u64| {
            let text = format!("workingset_refault_anon {pages}\nworkingset_refault_file 0\n");
            fake.put("/proc/vmstat", &text);
        };
        came_back(0);
        assert_eq!(at(16, 9_000_000), Some(0.0));
        came_back(5_000);
        assert_eq!(at(18, 9_000_000), Some(0.25), "5000 pages at 100 us in 2 s");
        came_back(6_000);
        assert_eq!(at(20, 10_000_000), Some(0.5), "the pressure is higher than the refaults");
        let unread = PageIn::default().stall_share(Nanos::ZERO, &Root::at("/nonexistent"), &none);
        assert!(unread.expect_err("no PSI").hint().is_some_and(|hint| hint.contains("psi=1")));
    }

    #[test]
    fn of_several_groups_the_one_that_waits_most_counts() {
        let (fake, mut page_in) = (Fake::new(), PageIn::default());
        let groups = groups(&fake, &["a", "b"]);
        let mut at = |secs: u64, totals: [Option<u64>; 2]| {
            for (name, total) in ["a", "b"].iter().zip(totals) {
                let path = format!("/sys/fs/cgroup/{name}");
                match total {
                    Some(total) => waited(&fake, &format!("{path}/memory.pressure"), total),
                    None => std::fs::remove_dir_all(fake.root.path(path)).expect("a group"),
                }
            }
            page_in.stall_share(Nanos::from_secs(secs), &fake.root, &groups).expect("readable")
        };
        assert_eq!(at(0, [Some(0), Some(9_000_000)]), None);
        assert_eq!(at(10, [Some(1_000_000), Some(11_000_000)]), Some(0.2));
        assert_eq!(at(20, [Some(4_000_000), None]), Some(0.3), "one group is gone");
        assert_eq!(
            at(30, [Some(1_000_000), Some(0)]),
            None,
            "the group was replaced, so its counters start at zero"
        );
    }

    #[test]
    fn refaults_of_nested_groups_count_once() {
        let fake = Fake::new();
        let stat =
            |file: u64| format!("workingset_refault_anon 1\nworkingset_refault_file {file}\n");
        fake.put("/proc/vmstat", &stat(7));
        let refaults = |groups: &Cgroups| refaults(&fake.root, groups).expect("readable");
        assert_eq!(refaults(&Cgroups::default()), Refaults { anon: 1, file: 7 });
        let groups = groups(&fake, &["a", "a/b", "c"]);
        for (group, file) in [("a", 100), ("a/b", 60), ("c", 10)] {
            fake.put(&format!("/sys/fs/cgroup/{group}/memory.stat"), &stat(file));
        }
        assert_eq!(refaults(&groups), Refaults { anon: 2, file: 110 });
    }
}
