// SPDX-License-Identifier: Apache-2.0
//! A scenario: a machine, what runs on it and when, a policy and its tracker, and a seed.
//!
//! ```toml
//! machine = "colloid-icx"
//! policy = "tierline"
//! tracker = "pebs"
//! seconds = 100
//!
//! [[workload]]
//! kind = "gups"
//! jump = "50s"
//!
//! [[workload]]
//! kind = "antagonist"
//! intensity = 3
//! start = "20s"
//!
//! [[workload]]
//! trace = "redis.trace"
//! in_flight = 2
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use tierline_core::policy::list::{POLICIES, PolicyEntry};
use tierline_core::policy::{Policy, Wants};
use tierline_core::port::{Allocation, PageSize, Watch};
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};
use toml::{Table, Value};

use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::machine::file::MachineFile;
use crate::machine::list::Entry as MachineEntry;
use crate::text;
use crate::tracker::Tracker;
use crate::tracker::list::{Entry as TrackerEntry, Knobs, TRACKERS, serve};
use crate::workload::list::Entry as WorkloadEntry;
use crate::workload::program::Placement;
use crate::workload::replay::{Recording, Replay};
use crate::world::transfer::{Entry as Transfer, TRANSFERS};
use crate::world::{Arrival, ModelWorld, Settings};

/// The shortest step of anything.
const SHORTEST: Nanos = Nanos(10_000);
/// The longest run: the core's watch clock wraps after ten hours of watching.
const LONGEST_SECONDS: f64 = 36_000.0;
/// Time between two ticks for a policy to which it is all one, and the longest there is for others.
const INTERVAL: Nanos = Nanos::from_millis(50);
/// A slowest tier that is grown has one part in so many free: where no page is, none can be exchanged. Ours.
const ROOM_TO_MOVE: u64 = 16;

/// A scenario as it is written. Unknown keys are errors.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// A machine of the list.
    pub machine: String,
    /// The text of a machine file to take instead; `machine` is its path.
    #[serde(skip)]
    pub machine_text: Option<String>,
    /// A policy of the core's list.
    pub policy: String,
    /// The policy's knobs, in base units, a switch 0 or 1; what is left out has its default.
    pub policy_knobs: BTreeMap<String, f64>,
    /// A tracker of the list; left out, what the policy wants to be served with.
    pub tracker: Option<String>,
    /// What the tracker is told.
    pub tracker_knobs: Knobs,
    /// Simulated time.
    pub seconds: f64,
    /// The seed of all chance.
    pub seed: u64,
    /// Time between two ticks of the engine, if moving took no longer; left out, as the policy wants.
    #[serde(deserialize_with = "text::maybe")]
    pub interval: Option<Nanos>,
    /// The model's longest step.
    #[serde(deserialize_with = "text::quantity")]
    pub quantum: Nanos,
    /// Time between two rows of the report.
    #[serde(deserialize_with = "text::quantity")]
    pub report_every: Nanos,
    /// The most that the migrator moves.
    #[serde(deserialize_with = "text::quantity")]
    pub max_rate: BytesPerSec,
    /// Whether the touching thread pays for a promotion.
    pub synchronous: bool,
    /// How pages are moved, by the names of `world::transfer`.
    pub migrator: String,
    /// Size of the fastest tier, where it is not the machine's own.
    #[serde(deserialize_with = "text::maybe")]
    pub fast_capacity: Option<Bytes>,
    /// Whether the slowest tier is made as large as it takes to hold what runs, and to move it.
    pub grow: bool,
    /// What runs.
    pub workload: Vec<Table>,
    /// The recordings that workloads name as `trace`, read by whoever runs the scenario.
    #[serde(skip)]
    pub traces: Traces,
}

/// Recordings by the name of their file.
#[derive(Clone, Default)]
pub struct Traces(pub BTreeMap<String, Arc<dyn Recording>>);

impl PartialEq for Traces {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).all(|(a, b)| a.0 == b.0 && Arc::ptr_eq(a.1, b.1))
    }
}

impl std::fmt::Debug for Traces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            machine: "colloid-icx".into(),
            machine_text: None,
            policy: POLICIES[0].name.into(),
            policy_knobs: BTreeMap::new(),
            tracker: None,
            tracker_knobs: Knobs::default(),
            seconds: 100.0,
            seed: 1,
            interval: None,
            quantum: Nanos::from_millis(10),
            report_every: Nanos::from_secs(1),
            max_rate: BytesPerSec(1 << 30),
            synchronous: false,
            migrator: TRANSFERS[0].name.into(),
            fast_capacity: None,
            grow: false,
            workload: Vec::new(),
            traces: Traces::default(),
        }
    }
}

/// The keys that every workload of a scenario takes besides its own.
#[derive(Deserialize)]
#[serde(default)]
struct Common {
    kind: String,
    trace: Option<String>,
    name: Option<String>,
    #[serde(deserialize_with = "text::quantity")]
    start: Nanos,
    #[serde(deserialize_with = "text::maybe")]
    stop: Option<Nanos>,
    pages: Option<PageSize>,
    hot_share_fast: Option<f64>,
}

impl Default for Common {
    fn default() -> Self {
        Self {
            kind: String::new(),
            trace: None,
            name: None,
            start: Nanos::ZERO,
            stop: None,
            pages: None,
            hot_share_fast: None,
        }
    }
}

const COMMON_KEYS: [&str; 7] =
    ["kind", "trace", "name", "start", "stop", "pages", "hot_share_fast"];

impl Scenario {
    /// Reads a scenario; `place` is its file.
    ///
    /// # Errors
    /// `Error::File` with the line and key.
    pub fn parse(place: &str, text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| Error::file(place, &error))
    }

    /// The machine.
    ///
    /// # Errors
    /// `Error::Unknown` where there is none of that name.
    pub fn machine(&self) -> Result<Machine> {
        let mut machine = match &self.machine_text {
            Some(text) => {
                MachineFile::parse(&self.machine, text)?.machine(&self.machine, &self.machine)?
            }
            None => MachineEntry::find(&self.machine)?.machine()?,
        };
        if let Some(capacity) = self.fast_capacity {
            machine.tiers[0].capacity = capacity;
        }
        if self.grow
            && let Some((slowest, faster)) = machine.tiers.split_last_mut()
        {
            let all: Bytes = self.arrivals()?.iter().map(|arrival| arrival.program.bytes).sum();
            let above: Bytes = faster.iter().map(|tier| tier.capacity).sum();
            let needed = Bytes(all.0 + all.0 / ROOM_TO_MOVE).saturating_sub(above);
            slowest.capacity = slowest.capacity.max(needed);
        }
        Ok(machine)
    }

    /// The policy's entry in the core's list.
    ///
    /// # Errors
    /// `Error::Unknown` with the names there are; `Error::Figure` where the policy is the Linux kernel.
    pub fn policy(&self) -> Result<&'static PolicyEntry> {
        let entry = PolicyEntry::find(&self.policy).ok_or_else(|| {
            let known = POLICIES.iter().map(|entry| entry.name);
            Error::unknown("policy", &self.policy, known)
        })?;
        if (entry.make)().kernel().is_some() {
            return Err(Error::Figure {
                place: format!("policy {}", entry.name),
                why:
                    "it is the Linux kernel at work, and there is none in the model; policy linux \
                      stands for it"
                        .into(),
            });
        }
        Ok(entry)
    }

    /// The policy, with its knobs set.
    ///
    /// # Errors
    /// `Error::Unknown` where there is no such policy, or it has no such knob.
    pub fn policy_set(&self) -> Result<Box<dyn Policy>> {
        let mut policy = (self.policy()?.make)();
        for (knob, &value) in &self.policy_knobs {
            if !policy.set(knob, value) {
                let known = policy.knobs();
                return Err(Error::unknown("knob", knob, known.iter().map(|knob| knob.name)));
            }
        }
        Ok(policy)
    }

    /// The programs and their times.
    ///
    /// # Errors
    /// As [`WorkloadEntry::program`], and for a key that neither the workload nor the scenario knows.
    pub fn arrivals(&self) -> Result<Vec<Arrival>> {
        self.workload.iter().map(|table| arrival(table, &self.traces)).collect()
    }

    /// The files that its workloads replay.
    pub fn trace_files(&self) -> impl Iterator<Item = &str> {
        self.workload.iter().filter_map(|table| table.get("trace")?.as_str())
    }

    /// Steps of no length would never end.
    fn check(&self) -> Result<()> {
        let wrong = |why: String| Err(Error::Figure { place: "scenario".into(), why });
        for (what, time) in [
            ("interval", self.interval.unwrap_or(INTERVAL)),
            ("quantum", self.quantum),
            ("report_every", self.report_every),
        ] {
            if time < SHORTEST {
                return wrong(format!("{what} is {time}, the shortest is {SHORTEST}"));
            }
        }
        if !(self.seconds > 0.0 && self.seconds < LONGEST_SECONDS) {
            let seconds = self.seconds;
            return wrong(format!("seconds is {seconds}, expected up to {LONGEST_SECONDS}"));
        }
        Ok(())
    }

    /// The time between two ticks for a policy that wants to be served so: what the scenario says, else
    /// often enough for the policy's quantum.
    pub fn interval(&self, wants: &Wants) -> Nanos {
        let often = wants.quantum.map_or(INTERVAL, |quantum| quantum.min(INTERVAL));
        self.interval.unwrap_or(often)
    }

    /// The tracker of a policy that wants to be served so: what the scenario says, else what it wants and the
    /// machine has.
    fn tracker(&self, wants: &Wants, machine: &Machine) -> Result<Box<dyn Tracker>> {
        let wish =
            wants.watch.filter(|watch| machine.neoprof || !matches!(watch, Watch::Counters { .. }));
        match (&self.tracker, wish) {
            (Some(name), _) => Ok(TrackerEntry::find(name)?.open(&self.tracker_knobs)),
            (None, Some(watch)) => Ok(serve(watch, &self.tracker_knobs)),
            (None, None) => Ok(TRACKERS[0].open(&self.tracker_knobs)),
        }
    }

    /// The world of this scenario at its start, for the policy that it names.
    ///
    /// # Errors
    /// Where something of it cannot be made.
    pub fn world(&self) -> Result<ModelWorld> {
        self.world_for(&self.policy_set()?.wants())
    }

    /// The world of this scenario at its start, for a policy that wants to be served so.
    ///
    /// # Errors
    /// Where something of it cannot be made.
    pub fn world_for(&self, wants: &Wants) -> Result<ModelWorld> {
        self.check()?;
        let mut machine = self.machine()?;
        if let Some(threads) = wants.copy_threads {
            machine.costs.copy_threads = threads.into();
        }
        let tracker = self.tracker(wants, &machine)?;
        let settings = Settings {
            quantum: self.quantum,
            synchronous: self.synchronous,
            allocation: wants.allocation.unwrap_or(Allocation::FirstTouch),
            transfer: Transfer::find(&self.migrator)?.transfer,
            seed: self.seed,
        };
        Ok(ModelWorld::new(machine, self.arrivals()?, tracker, settings))
    }
}

fn arrival(table: &Table, traces: &Traces) -> Result<Arrival> {
    let (common, own): (Table, Table) =
        table.clone().into_iter().partition(|(key, _)| COMMON_KEYS.contains(&key.as_str()));
    let kind = common.get("kind").and_then(Value::as_str).unwrap_or_default().to_string();
    let wrong = |why: String| Error::Figure { place: format!("workload {kind}"), why };
    let common = Common::deserialize(common).map_err(|error| wrong(error.to_string()))?;
    let (mut program, size, trace) = match &common.trace {
        Some(file) => {
            let known = traces.0.keys().map(String::as_str);
            let recording =
                traces.0.get(file).ok_or_else(|| Error::unknown("trace", file, known))?;
            let size = common.pages.unwrap_or(recording.size());
            let wrong = |why| Error::Figure { place: format!("trace {file}"), why };
            let knobs = Replay::deserialize(own).map_err(|error| wrong(error.to_string()))?;
            let replay = knobs.program(file, Arc::clone(recording), size).map_err(wrong)?;
            (replay.0, size, Some(replay.1))
        }
        None => {
            let program = WorkloadEntry::find(&common.kind)?.program(own)?;
            (program, common.pages.unwrap_or(PageSize::Huge), None)
        }
    };
    program.name = common.name.unwrap_or(program.name);
    if let Some(share) = common.hot_share_fast {
        program.placement = Placement::HotShare(share);
    }
    Ok(Arrival { program, size, start: common.start, stop: common.stop, trace })
}
