// SPDX-License-Identifier: Apache-2.0
//! The recorder: a tracker over processes without an engine. Nothing is decided, nothing moves, and one memory
//! node is enough.

use tierline_core::port::{Observations, World};
use tierline_core::tier::{Tier, Tiers};
use tierline_core::unit::Nanos;

use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::loaded_latency::LoadedLatency;
use crate::manager::{self, Options};
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
    /// Chooses the tracker and gets ready to watch; of `options`, only tracker and state folder matter.
    ///
    /// # Errors
    /// `Error::Missing` if there is no such tracker, or none at all.
    pub fn new(root: &Root, selection: Selection, options: &Options) -> Result<Self> {
        let topology = Topology::read(root)?;
        let tiers = all_memory(&topology);
        let pids = selection.pids.clone();
        let targets = Targets::new(selection, root)?;
        let mut notes = Journal::recover(&options.state_dir, root)?;
        let journal = Journal::open(&options.state_dir)?;
        let choice = ladder::choose(
            &options.setup(root, &journal, &tiers),
            options.tracker.as_deref(),
            None,
        )?;
        notes.push(manager::about_tracker(&choice));
        let tracker = choice.tracker;
        notes.extend(manager::behave(root, &journal, options, &pids, tracker.uses())?);
        let latency = LoadedLatency::open(root, &tiers, &topology, false);
        let world = LinuxWorld::new(root, tiers, targets, tracker, latency, true)?;
        Ok(Self { world, journal, seen: Observations::default(), notes })
    }

    /// What it has to say before it starts.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The tracker in use.
    pub fn tracker(&self) -> &'static str {
        self.world.tracker().name()
    }

    /// What was seen since the last call, at `now` (nanoseconds of CLOCK_MONOTONIC).
    pub fn observe(&mut self, now: Nanos) -> &Observations {
        self.seen.clear();
        self.world.observe(now, &mut self.seen);
        &self.seen
    }

    /// When there is something to observe next.
    pub fn next_due(&self) -> Nanos {
        self.world.next_due()
    }

    /// Watches one more process.
    pub fn add(&mut self, pid: u32) {
        self.world.add(pid);
    }

    /// True if no watched process is left.
    pub fn is_alone(&self) -> bool {
        self.world.pids().next().is_none()
    }

    /// Takes what went wrong since the last call without stopping the recorder.
    pub fn take_problems(&mut self) -> Vec<Error> {
        self.world.take_problems()
    }

    /// Stops and puts every changed setting back.
    pub fn shutdown(self) -> Vec<Error> {
        let Self { world, journal, .. } = self;
        drop(world); // the tracker first: it undoes what the journal does not know
        journal.restore()
    }
}

/// All nodes with memory as one tier: a trace does not say where pages were.
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
