// SPDX-License-Identifier: Apache-2.0
//! The recorder: a tracker over processes without an engine. It decides and moves nothing, and works on a
//! machine with one memory node.

use tierline_core::port::{Observations, World};
use tierline_core::tier::{Tier, Tiers};
use tierline_core::unit::Nanos;

use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::loaded_latency::LoadedLatency;
use crate::manager::{self, ManagerOptions};
use crate::process::{Selection, Targets};
use crate::root::Root;
use crate::topology::Topology;
use crate::tracker::ladder;
use crate::world::LinuxWorld;

/// Watches processes.
pub struct Recorder {
    world: LinuxWorld,
    journal: Journal,
    seen: Observations,
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
        Ok(Self { world, journal, seen: Observations::default(), notes })
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
        &self.seen
    }

    /// When to call `observe` next.
    pub fn next_due(&self) -> Nanos {
        self.world.next_due()
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
