// SPDX-License-Identifier: Apache-2.0
//! DAMON's folder in sysfs: one kernel thread, one context.
//!
//! The changes that create the thread's folder and start the thread go through the journal, so both are
//! undone after a kill, in reverse order. The content of that folder vanishes with it.

use tierline_core::port::SpaceId;
use tierline_core::unit::Nanos;

use super::{Intervals, busy};
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::root::Root;

const COUNT: &str = "/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds";
const THREAD: &str = "/sys/kernel/mm/damon/admin/kdamonds/0";
const CONTEXT: &str = "/sys/kernel/mm/damon/admin/kdamonds/0/contexts/0";
const STAT: &str = "/sys/module/damon_stat/parameters/enabled";

/// What to watch.
#[derive(Clone, Copy)]
pub enum Targets<'a> {
    /// The virtual memory of processes.
    Processes(&'a [SpaceId]),
    /// All System RAM.
    Physical,
}

/// The claim on DAMON; dropping it restores DAMON's former state.
pub struct Admin {
    root: Root,
    journal: Journal,
}

impl Admin {
    /// Creates the folder of the one thread. Nothing runs yet.
    ///
    /// # Errors
    /// `Error::Missing` without DAMON's sysfs or if another user has DAMON.
    pub fn claim(root: &Root, journal: &Journal, take_over_stat: bool) -> Result<Self> {
        if !root.exists(COUNT) {
            return Err(Error::Missing {
                what: "DAMON".into(),
                why: format!("no {COUNT}"),
                hint: "a kernel with CONFIG_DAMON_SYSFS; try --tracker hint_faults".into(),
            });
        }
        if is_on(root, STAT) && take_over_stat {
            journal.set(root, STAT, "N")?;
        }
        refuse_other_users(root)?;
        journal.set(root, COUNT, "1")?;
        Ok(Self { root: root.clone(), journal: journal.clone() })
    }

    /// Sets what to watch, how often, and the number of regions (fewest, most).
    ///
    /// # Errors
    /// `Error::File` if the kernel refuses, `Error::Missing` if it cannot watch that.
    pub fn configure(
        &self,
        targets: Targets<'_>,
        pace: Intervals,
        regions: (u32, u32),
    ) -> Result<()> {
        self.root.write(format!("{THREAD}/contexts/nr_contexts"), "1")?;
        self.set_operations(targets)?;
        self.set_intervals(pace)?;
        self.put("monitoring_attrs/nr_regions/min", regions.0)?;
        self.put("monitoring_attrs/nr_regions/max", regions.1)?;
        match targets {
            Targets::Processes(spaces) => self.set_processes(spaces),
            Targets::Physical => self.set_ram(),
        }
    }

    /// Sets the intervals; [`Admin::commit`] applies them to a running thread.
    ///
    /// # Errors
    /// `Error::File` if the kernel refuses.
    pub fn set_intervals(&self, pace: Intervals) -> Result<()> {
        let micros = |time: Nanos| (time.0 / 1000).max(1);
        self.put("monitoring_attrs/intervals/sample_us", micros(pace.sample))?;
        self.put("monitoring_attrs/intervals/aggr_us", micros(pace.aggregation))?;
        // Mappings are read again at least as often as by default.
        let update = micros(pace.aggregation).max(1_000_000);
        self.put("monitoring_attrs/intervals/update_us", update)
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// `Error::Missing` if another user claimed DAMON meanwhile, otherwise `Error::File`.
    pub fn start(&self) -> Result<()> {
        let started = self.journal.set(&self.root, &format!("{THREAD}/state"), "on");
        started.map_err(|error| match error {
            Error::File { source, .. } if source.raw_os_error() == Some(libc::EBUSY) => busy(
                "another user".into(),
                "see which of /sys/module/damon_*/parameters/enabled says Y, or which program started a kdamond"
                    .into(),
            ),
            other => other,
        })
    }

    /// Applies the settings written since the start to the running thread.
    ///
    /// # Errors
    /// `Error::File` if the kernel refuses.
    pub fn commit(&self) -> Result<()> {
        // A command, not a value to restore: `state` reads `on` before and after.
        self.root.write(format!("{THREAD}/state"), "commit")
    }

    /// Stops the thread if it runs.
    pub fn stop(&self) {
        if self.root.read(format!("{THREAD}/state")).is_ok_and(|state| state == "on") {
            let _ = self.journal.set(&self.root, &format!("{THREAD}/state"), "off");
        }
    }

    /// CPU time of the thread, if one runs.
    pub fn thread_cpu(&self) -> Option<Nanos> {
        let pid = self.root.read(format!("{THREAD}/pid")).ok()?;
        let pid: u32 = pid.trim().parse().ok()?;
        let times = self.root.read(format!("/proc/{pid}/schedstat")).ok()?;
        times.split_whitespace().next()?.parse().ok().map(Nanos)
    }

    fn put(&self, file: &str, value: impl ToString) -> Result<()> {
        self.root.write(format!("{CONTEXT}/{file}"), &value.to_string())
    }

    fn set_operations(&self, targets: Targets<'_>) -> Result<()> {
        let wanted = match targets {
            Targets::Processes(_) => "vaddr",
            Targets::Physical => "paddr",
        };
        let offered = self.root.read(format!("{CONTEXT}/avail_operations"))?;
        if !offered.split_whitespace().any(|operations| operations == wanted) {
            return Err(Error::Missing {
                what: format!("DAMON for {wanted}"),
                why: format!("this kernel offers {}", offered.replace('\n', ", ")),
                hint:
                    "a kernel with CONFIG_DAMON_VADDR and CONFIG_DAMON_PADDR; try another --tracker"
                        .into(),
            });
        }
        self.put("operations", wanted)
    }

    fn set_processes(&self, spaces: &[SpaceId]) -> Result<()> {
        self.put("targets/nr_targets", spaces.len())?;
        let mut numbered = spaces.iter().enumerate();
        numbered.try_for_each(|(at, space)| self.put(&format!("targets/{at}/pid_target"), space.0))
    }

    fn set_ram(&self) -> Result<()> {
        let ranges = system_ram(&self.root.read("/proc/iomem")?);
        self.put("targets/nr_targets", 1)?;
        self.put("targets/0/regions/nr_regions", ranges.len())?;
        for (at, (start, end)) in ranges.iter().enumerate() {
            self.put(&format!("targets/0/regions/{at}/start"), start)?;
            self.put(&format!("targets/0/regions/{at}/end"), end)?;
        }
        Ok(())
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.stop();
        // Errors cannot be reported here; the journal tries again.
        let _ = self.journal.set(&self.root, COUNT, "0");
    }
}

fn is_on(root: &Root, parameter: &str) -> bool {
    root.read(parameter).is_ok_and(|value| value.trim() == "Y")
}

fn refuse_other_users(root: &Root) -> Result<()> {
    for module in ["damon_stat", "damon_reclaim", "damon_lru_sort"] {
        let parameter = format!("/sys/module/{module}/parameters/enabled");
        if is_on(root, &parameter) {
            return Err(busy(module.into(), format!("echo N > {parameter}")));
        }
    }
    match root.read_number(COUNT)? {
        0 => Ok(()),
        n => Err(busy(
            format!("another user with {n} kdamond(s) configured"),
            format!(
                "stop that program; if it is no longer running: echo off > {THREAD}/state; echo 0 > {COUNT}"
            ),
        )),
    }
}

/// First and past-the-last byte of each `System RAM` line at the top level of `/proc/iomem`.
fn system_ram(iomem: &str) -> Vec<(u64, u64)> {
    let lines = iomem.lines().filter(|line| line.ends_with(" : System RAM"));
    let range = |line: &str| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        let (start, end) =
            (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        (start < end).then_some((start, end + 1))
    };
    lines.filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel with DAMON. Sysfs would create the thread's files; here they exist from the start.
    fn fake(more: &[(&str, &str)]) -> (tempfile::TempDir, Root, Journal) {
        let dir = tempfile::tempdir().expect("a folder");
        let root = Root::at(dir.path());
        let inside = |file: &str| (format!("{CONTEXT}/{file}"), "");
        let files = [
            "operations",
            "monitoring_attrs/intervals/sample_us",
            "monitoring_attrs/intervals/aggr_us",
            "monitoring_attrs/intervals/update_us",
            "monitoring_attrs/nr_regions/min",
            "monitoring_attrs/nr_regions/max",
            "targets/nr_targets",
            "targets/0/pid_target",
            "targets/1/pid_target",
        ];
        let mut all: Vec<(String, &str)> = files.iter().map(|file| inside(file)).collect();
        all.push((COUNT.into(), "0"));
        all.push((format!("{THREAD}/state"), "off"));
        all.push((format!("{THREAD}/contexts/nr_contexts"), "0"));
        all.push((format!("{CONTEXT}/avail_operations"), "vaddr\nfvaddr\n"));
        all.extend(more.iter().map(|(path, text)| ((*path).to_string(), *text)));
        for (path, text) in all {
            let real = root.path(path);
            std::fs::create_dir_all(real.parent().expect("a parent")).expect("a folder");
            std::fs::write(real, text).expect("a file");
        }
        let journal = Journal::open(dir.path().join("run")).expect("a journal");
        (dir, root, journal)
    }

    const PACE: Intervals =
        Intervals { sample: Nanos::from_millis(5), aggregation: Nanos::from_millis(100) };

    #[test]
    fn a_claim_is_configured_started_and_undone() {
        let (_dir, root, journal) = fake(&[]);
        let admin = Admin::claim(&root, &journal, false).expect("a claim");
        let spaces = [SpaceId(11), SpaceId(12)];
        admin.configure(Targets::Processes(&spaces), PACE, (10, 500)).expect("configured");
        admin.start().expect("started");
        let read = |path: String| root.read(path).expect("a file");
        assert_eq!(read(format!("{CONTEXT}/targets/1/pid_target")), "12");
        assert_eq!(read(format!("{CONTEXT}/monitoring_attrs/intervals/sample_us")), "5000");
        assert_eq!(read(format!("{THREAD}/state")), "on");
        drop(admin);
        assert_eq!(read(format!("{THREAD}/state")), "off");
        assert_eq!(read(COUNT.into()), "0");
        assert_eq!(journal.restore().len(), 0);
    }

    #[test]
    fn the_present_user_of_damon_is_named() {
        let (_dir, root, journal) = fake(&[(STAT, "Y\n")]);
        let error = Admin::claim(&root, &journal, false).err().expect("busy");
        assert!(error.to_string().contains("damon_stat is using it"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("echo N >")));
        let (_dir, root, journal) = fake(&[(COUNT, "2\n")]);
        let error = Admin::claim(&root, &journal, false).err().expect("busy");
        assert!(error.to_string().contains("2 kdamond(s)"), "{error}");
    }

    #[test]
    fn damon_stat_is_switched_off_if_allowed_and_restored() {
        let (_dir, root, journal) = fake(&[(STAT, "Y\n")]);
        let admin = Admin::claim(&root, &journal, true).expect("a claim");
        assert!(root.read(STAT).expect("read").starts_with('N'));
        drop(admin);
        assert!(journal.restore().is_empty());
        assert!(root.read(STAT).expect("read").starts_with('Y'));
    }

    #[test]
    fn operations_that_the_kernel_lacks_are_named() {
        let (_dir, root, journal) = fake(&[]);
        let admin = Admin::claim(&root, &journal, false).expect("a claim");
        let error = admin.configure(Targets::Physical, PACE, (10, 500)).expect_err("no paddr");
        assert!(error.to_string().contains("offers vaddr, fvaddr"), "{error}");
    }

    #[test]
    fn ram_is_found_in_iomem() {
        let iomem = "00000000-00000fff : Reserved\n00001000-0009fbff : System RAM\n\
            100000000-13fffffff : System RAM\n  101000000-101ffffff : Kernel code\nx : System RAM\n";
        assert_eq!(system_ram(iomem), [(0x1000, 0x9fc00), (0x1_0000_0000, 0x1_4000_0000)]);
    }
}
