// SPDX-License-Identifier: Apache-2.0
//! CPU time of applications: whether they have work, and limits on it.
//!
//! A share of an application's CPU time is a share of the cores that it was submitted with; without them, of the
//! cores that it used before it was limited. The limit is the least of ours and the one that was there, which
//! the journal restores.

use std::collections::BTreeMap;

use tierline_core::unit::Nanos;

use crate::cgroup::{Cgroup, CpuMax, CpuUse};
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::root::Root;

/// Time between readings. Ours: with this, 50 groups at 15 us each take below 0.4 % of a processor.
const READ_EVERY: Nanos = Nanos::from_millis(200);
/// An application that uses less of one core has no work. Ours.
const IDLE_CORES: f64 = 0.01;
/// Weight of the past in the cores that an application uses: a peak is halved in some three seconds. Ours.
const FADES: f64 = 0.95;

/// CPU time of all applications, by index of their tenants.
pub struct CpuTimes {
    root: Root,
    journal: Journal,
    own: BTreeMap<usize, CpuTime>,
    read: Option<Nanos>,
}

/// CPU time of one application.
#[derive(Clone, Debug)]
struct CpuTime {
    /// As submitted.
    submitted: Option<f64>,
    /// A fading peak of the cores that it used while it was not limited.
    used: f64,
    last: Option<(Nanos, CpuUse)>,
    demand: Option<bool>,
    /// Its share at present.
    share: f64,
}

impl CpuTimes {
    /// Of no application yet; limits are recorded in `journal`.
    pub fn new(root: &Root, journal: &Journal) -> Self {
        let (root, journal) = (root.clone(), journal.clone());
        Self { root, journal, own: BTreeMap::new(), read: None }
    }

    /// Measures one more application, or one that has other cores now.
    pub fn watch(&mut self, tenant: usize, cores: Option<f64>) {
        let new = CpuTime { submitted: cores, used: 0.0, last: None, demand: None, share: 1.0 };
        self.own.entry(tenant).or_insert(new).submitted = cores;
    }

    /// Forgets a tenant that was removed.
    pub fn forget(&mut self, tenant: usize) {
        self.own.remove(&tenant);
    }

    /// Whether a tenant had work in the last period, throttled or not.
    pub fn demand(&self, tenant: usize) -> Option<bool> {
        self.own.get(&tenant)?.demand
    }

    /// Reads what all applications used, if due. `group` finds the group of a tenant.
    pub fn refresh<'a>(
        &mut self,
        now: Nanos,
        group: impl Fn(usize) -> Option<&'a Cgroup>,
        problems: &mut Vec<Error>,
    ) {
        if self.read.is_some_and(|at| now < at + READ_EVERY) {
            return;
        }
        self.read = Some(now);
        for (&tenant, own) in &mut self.own {
            match group(tenant).map(Cgroup::cpu_use) {
                Some(Ok(Some(cpu))) => own.take_in(now, cpu),
                Some(Err(problem)) => problems.push(problem),
                Some(Ok(None)) | None => (own.last, own.demand) = (None, Some(false)),
            }
        }
    }

    /// Limits an application to this share of its CPU time; 1 lifts the limit.
    ///
    /// # Errors
    /// Those of [`Journal::set_cpu_max`]. A group that is gone is none.
    pub fn limit(&mut self, tenant: usize, group: &Cgroup, share: f64) -> Result<()> {
        let path = group.cpu_max_path();
        let Some(own) = self.own.get_mut(&tenant) else { return Ok(()) };
        own.share = share;
        if share >= 1.0 {
            return self.journal.put_back(&self.root, &path);
        }
        let there = match self.journal.original(&self.root, &path) {
            Some(original) => original.parse::<CpuMax>().ok(),
            None => group.cpu_max()?,
        };
        let Some(there) = there else { return Ok(()) };
        let max = there.at_most(own.cores(there) * share);
        self.journal.set_cpu_max(&self.root, group, max).map(drop)
    }

    /// Limits a group again that took the place of a removed one: it has no limit of ours.
    ///
    /// # Errors
    /// As [`CpuTimes::limit`].
    pub fn limit_again(&mut self, tenant: usize, group: &Cgroup) -> Result<()> {
        let Some(own) = self.own.get_mut(&tenant) else { return Ok(()) };
        (own.last, own.used) = (None, 0.0);
        let share = own.share;
        if share < 1.0 { self.limit(tenant, group, share) } else { Ok(()) }
    }
}

impl CpuTime {
    fn take_in(&mut self, now: Nanos, cpu: CpuUse) {
        if let Some((at, before)) = self.last.filter(|(at, _)| *at < now) {
            #[expect(clippy::cast_precision_loss, reason = "microseconds of one period")]
            let used = cpu.used_us.saturating_sub(before.used_us) as f64 * 1e-6;
            let cores = used / now.saturating_sub(at).as_secs_f64();
            self.demand = Some(cores > IDLE_CORES || cpu.throttled > before.throttled);
            if self.share >= 1.0 {
                self.used = cores.max(self.used * FADES);
            }
        }
        self.last = Some((now, cpu));
    }

    /// The cores that are all of its CPU time, within the limit that was there.
    fn cores(&self, there: CpuMax) -> f64 {
        let online = std::thread::available_parallelism().map_or(1, usize::from);
        #[expect(clippy::cast_precision_loss, reason = "a number of processors")]
        let online = online as f64;
        let used = Some(self.used).filter(|&used| used > IDLE_CORES);
        let own = self.submitted.or(used).unwrap_or(online);
        there.cores().map_or(own, |there| own.min(there))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::tests::Fake;

    const MAX: &str = "/sys/fs/cgroup/hog/cpu.max";

    fn use_cpu(fake: &Fake, used_us: u64, throttled: u64) {
        let text = format!("usage_usec {used_us}\nnr_throttled {throttled}\n");
        fake.put("/sys/fs/cgroup/hog/cpu.stat", &text);
    }

    fn hog(limit: &str) -> (Fake, tempfile::TempDir, Journal, Cgroup) {
        let fake = Fake::new();
        fake.group("hog", &[]);
        fake.put(MAX, limit);
        use_cpu(&fake, 0, 0);
        let run = tempfile::tempdir().expect("a folder");
        let journal = Journal::open(run.path()).expect("a journal");
        let group = Cgroup::open(&fake.root, "hog").expect("a group");
        (fake, run, journal, group)
    }

    #[test]
    fn a_share_is_of_the_cores_that_were_used_and_a_lower_limit_stays() {
        let (fake, _run, journal, group) = hog("300000 100000");
        let mut times = CpuTimes::new(&fake.root, &journal);
        times.watch(0, None);
        let read = |times: &mut CpuTimes, millis, used_us, throttled| {
            use_cpu(&fake, used_us, throttled);
            let mut problems = Vec::new();
            times.refresh(Nanos::from_millis(millis), |_| Some(&group), &mut problems);
            assert!(problems.is_empty(), "{problems:?}");
            times.demand(0)
        };
        assert_eq!(read(&mut times, 0, 0, 0), None);
        assert_eq!(read(&mut times, 1_000, 2_000_000, 0), Some(true), "two cores");
        let max = || fake.root.read(MAX).expect("readable");
        times.limit(0, &group, 0.5).expect("limited");
        assert_eq!(max(), "100000 100000");
        assert_eq!(read(&mut times, 2_000, 2_000_000, 3), Some(true), "throttled is work");
        times.limit(0, &group, 0.25).expect("limited");
        assert_eq!(max().lines().next(), Some("50000 100000"), "of two cores still");
    }

    #[test]
    fn submitted_cores_count_and_a_lifted_limit_is_the_one_that_was_there() {
        let (fake, _run, journal, group) = hog("150000 100000");
        let mut times = CpuTimes::new(&fake.root, &journal);
        times.watch(0, Some(4.0));
        let max = || fake.root.read(MAX).expect("readable");
        times.limit(0, &group, 0.9).expect("limited");
        assert_eq!(max(), "135000 100000", "0.9 of the 1.5 cores that it may use");
        times.limit_again(0, &group).expect("the same");
        assert_eq!(max(), "135000 100000");
        times.limit(0, &group, 1.0).expect("lifted");
        assert_eq!(max(), "150000 100000");
        assert!(journal.changes().is_empty());
    }

    #[test]
    fn a_group_that_vanishes_while_throttled_is_no_error_and_the_next_of_its_name_is_limited() {
        let (fake, _run, journal, group) = hog("300000 100000");
        let mut times = CpuTimes::new(&fake.root, &journal);
        times.watch(0, Some(2.0));
        times.limit(0, &group, 0.5).expect("limited");
        std::fs::remove_dir_all(fake.root.path("/sys/fs/cgroup/hog")).expect("a group");
        let mut problems = Vec::new();
        times.refresh(Nanos::from_secs(1), |_| Some(&group), &mut problems);
        assert_eq!((problems.len(), times.demand(0)), (0, Some(false)), "no work, no error");
        fake.group("hog", &[]);
        fake.put(MAX, "max 100000");
        let next = Cgroup::open(&fake.root, "hog").expect("a group");
        times.limit_again(0, &next).expect("limited");
        assert_eq!(fake.root.read(MAX).expect("readable"), "100000 100000");
        times.limit(0, &next, 1.0).expect("lifted");
        assert_ne!(fake.root.read(MAX).expect("readable"), "100000 100000", "not left throttled");
    }

    #[test]
    fn what_cannot_be_recorded_is_not_limited() {
        let (fake, run, journal, group) = hog("300000 100000");
        let mut times = CpuTimes::new(&fake.root, &journal);
        times.watch(0, Some(2.0));
        // As on a full disk, no file can be written there.
        std::fs::remove_dir_all(run.path()).expect("a folder");
        times.limit(0, &group, 0.5).expect_err("no record");
        assert_eq!(fake.root.read(MAX).expect("readable"), "300000 100000");
        assert!(journal.changes().is_empty(), "{:?}", journal.changes());
    }
}
