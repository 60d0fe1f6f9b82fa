// SPDX-License-Identifier: Apache-2.0
//! The recorder: a tracker over processes without an engine. It decides and moves nothing, and works on a
//! machine with one memory node. Beside the accesses that its tracker observes it reports which pages are in memory:
//! a page that was filled and then left alone was accessed in no window.

use tierline_core::port::{Observations, PageSize, SpaceId, World};
use tierline_core::tier::{Tier, TierId, Tiers};
use tierline_core::unit::Nanos;

use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::loaded_latency::LoadedLatency;
use crate::manager::{self, ManagerOptions};
use crate::pagemap::{Pagemap, mapped_ranges};
use crate::process::limits::look_pause;
use crate::process::{Selection, Targets};
use crate::root::Root;
use crate::topology::Topology;
use crate::tracker::cost::CostMeter;
use crate::tracker::ladder;
use crate::tracker::tier_runs::{TierRun, TierRuns};
use crate::world::LinuxWorld;

/// Time between two readings of which pages are in memory; longer where they take more than 5 % of a CPU.
const CENSUS_EVERY: Nanos = Nanos::from_millis(500);

/// Watches processes.
pub struct Recorder {
    root: Root,
    world: LinuxWorld,
    journal: Journal,
    seen: Observations,
    next_census: Nanos,
    notes: Vec<String>,
}

impl Recorder {
    /// Chooses the tracker and prepares to watch; of `options`, only tracker and state folder are used.
    ///
    /// # Errors
    /// `Error::Missing` if there is no such tracker, or none at all.
    pub fn new(root: &Root, selection: Selection, options: &ManagerOptions) -> Result<Self> {
        let topology = Topology::read(root)?;
        let tiers = all_memory(&topology);
        let pids = selection.pids.clone();
        let targets = Targets::new(selection, root)?;
        let mut notes = Journal::recover(&options.state_dir, root)?.notes();
        let journal = Journal::open(&options.state_dir)?;
        let setup = options.tracker_setup(root, &journal, &tiers);
        let choice = ladder::choose(&setup, options.tracker.as_deref())?;
        notes.push(manager::about_tracker(&choice));
        let tracker = choice.tracker;
        notes.extend(manager::resolve_conflicts(root, &journal, options, &pids, tracker.uses())?);
        let latency = LoadedLatency::open(root, &tiers, &topology, false);
        let world = LinuxWorld::new(root, tiers, targets, tracker, latency, true)?;
        let (root, seen, next_census) = (root.clone(), Observations::default(), Nanos::ZERO);
        Ok(Self { root, world, journal, seen, next_census, notes })
    }

    /// Notes for the user before the start.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The tracker in use.
    pub fn tracker(&self) -> &'static str {
        self.world.tracker().name()
    }

    /// Observations since the last call, at `now` (nanoseconds of CLOCK_MONOTONIC).
    pub fn observe(&mut self, now: Nanos) -> &Observations {
        self.seen.clear();
        self.world.observe(now, &mut self.seen);
        if now >= self.next_census {
            let meter = CostMeter::start();
            for pid in self.world.pids() {
                // A process that has ended has no pages.
                let _ = add_present(&self.root, pid, &mut self.seen);
            }
            self.next_census = now + look_pause(CENSUS_EVERY, meter.cost().cpu, false);
        }
        &self.seen
    }

    /// When to call `observe` next.
    pub fn next_due(&self) -> Nanos {
        self.world.next_due().min(self.next_census)
    }

    /// Watches one more process.
    pub fn add(&mut self, pid: u32) {
        self.world.add(pid);
    }

    /// True if no watched process is left.
    pub fn has_no_targets(&self) -> bool {
        self.world.pids().next().is_none()
    }

    /// Takes the errors since the last call that did not stop the recorder.
    pub fn take_errors(&mut self) -> Vec<Error> {
        self.world.take_errors()
    }

    /// Stops and restores every changed setting.
    pub fn shutdown(self) -> Vec<Error> {
        let Self { world, journal, .. } = self;
        drop(world); // the tracker first: it restores what is not in the journal
        journal.restore()
    }
}

/// Appends the pages of a process that are in memory.
fn add_present(root: &Root, pid: u32, out: &mut Observations) -> Result<()> {
    let mut runs = TierRuns::new(SpaceId(pid), None);
    let mut pagemap = Pagemap::open(root, pid)?;
    for pages in mapped_ranges(root, pid)? {
        pagemap.read(pages, |start, entry| {
            if entry.is_present() {
                let (pages, size, tier) = (1, PageSize::Base, Some(TierId(0)));
                runs.add_present(TierRun { start, pages, size, tier }, out);
            }
        })?;
    }
    runs.finish(out);
    Ok(())
}

/// All nodes with memory as one tier: a trace does not contain the tiers of pages.
fn all_memory(topology: &Topology) -> Tiers {
    let nodes: Vec<_> = topology.with_memory().collect();
    Tiers(vec![Tier {
        name: "all".into(),
        nodes: nodes.iter().map(|node| node.id).collect(),
        capacity: nodes.iter().map(|node| node.capacity).sum(),
        latency: None,
        bandwidth: None,
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pagemap::tests::fake;

    #[test]
    fn pages_in_memory_are_reported_whatever_their_frames() {
        let present = 1 << 63;
        let (_folder, root) = fake(&[present | 1, present, 0, present | 0x8000]);
        let mut seen = Observations::default();
        add_present(&root, 7, &mut seen).expect("readable");
        let runs: Vec<_> = seen.residence.iter().map(|run| (run.vpn.0, run.base_pages)).collect();
        assert_eq!(runs, [(2, 2), (5, 1)]);
        assert!(add_present(&root, 8, &mut seen).is_err());
    }
}
