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
//! ```

use serde::Deserialize;
use tierline_core::policy::{self, Wants};
use tierline_core::port::PageSize;
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
use crate::world::transfer::{Entry as Transfer, TRANSFERS};
use crate::world::{Arrival, ModelWorld, Settings};

/// The shortest step of anything.
const SHORTEST: Nanos = Nanos(10_000);
/// The longest run: the core's watch clock wraps after ten hours of watching.
const LONGEST_SECONDS: f64 = 36_000.0;
/// Time between two ticks for a policy to which it is all one, and the longest there is for others.
const INTERVAL: Nanos = Nanos::from_millis(50);

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
    /// Whether the slowest tier is made as large as it takes to hold what runs.
    pub grow: bool,
    /// What runs.
    pub workload: Vec<Table>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            machine: "colloid-icx".into(),
            machine_text: None,
            policy: policy::POLICIES[0].name.into(),
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
        }
    }
}

/// The keys that every workload of a scenario takes besides its own.
#[derive(Deserialize)]
#[serde(default)]
struct Common {
    kind: String,
    name: Option<String>,
    #[serde(deserialize_with = "text::quantity")]
    start: Nanos,
    #[serde(deserialize_with = "text::maybe")]
    stop: Option<Nanos>,
    pages: PageSize,
    hot_share_fast: Option<f64>,
}

impl Default for Common {
    fn default() -> Self {
        Self {
            kind: String::new(),
            name: None,
            start: Nanos::ZERO,
            stop: None,
            pages: PageSize::Huge,
            hot_share_fast: None,
        }
    }
}

const COMMON_KEYS: [&str; 6] = ["kind", "name", "start", "stop", "pages", "hot_share_fast"];

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
            slowest.capacity = slowest.capacity.max(all.saturating_sub(above));
        }
        Ok(machine)
    }

    /// The policy's entry in the core's list.
    ///
    /// # Errors
    /// `Error::Unknown` with the names there are.
    pub fn policy(&self) -> Result<&'static policy::Entry> {
        policy::Entry::find(&self.policy).ok_or_else(|| {
            let known = policy::POLICIES.iter().map(|entry| entry.name);
            Error::unknown("policy", &self.policy, known)
        })
    }

    /// The programs and their times.
    ///
    /// # Errors
    /// As [`WorkloadEntry::program`], and for a key that neither the workload nor the scenario knows.
    pub fn arrivals(&self) -> Result<Vec<Arrival>> {
        self.workload.iter().map(arrival).collect()
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

    /// The tracker of a policy that wants to be served so: what the scenario says, else what it wants.
    ///
    /// # Errors
    /// `Error::Unknown` with the names there are.
    pub fn tracker(&self, wants: &Wants) -> Result<Box<dyn Tracker>> {
        match (&self.tracker, wants.watch) {
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
        self.world_for(&(self.policy()?.make)().wants())
    }

    /// The world of this scenario at its start, for a policy that wants to be served so.
    ///
    /// # Errors
    /// Where something of it cannot be made.
    pub fn world_for(&self, wants: &Wants) -> Result<ModelWorld> {
        self.check()?;
        let tracker = self.tracker(wants)?;
        let settings = Settings {
            quantum: self.quantum,
            synchronous: self.synchronous,
            transfer: Transfer::find(&self.migrator)?.transfer,
            seed: self.seed,
        };
        Ok(ModelWorld::new(self.machine()?, self.arrivals()?, tracker, settings))
    }
}

fn arrival(table: &Table) -> Result<Arrival> {
    let (common, own): (Table, Table) =
        table.clone().into_iter().partition(|(key, _)| COMMON_KEYS.contains(&key.as_str()));
    let kind = common.get("kind").and_then(Value::as_str).unwrap_or_default().to_string();
    let wrong = |why: String| Error::Figure { place: format!("workload {kind}"), why };
    let common = Common::deserialize(common).map_err(|error| wrong(error.to_string()))?;
    let mut program = WorkloadEntry::find(&common.kind)?.program(own)?;
    program.name = common.name.unwrap_or(program.name);
    if let Some(share) = common.hot_share_fast {
        program.placement = Placement::HotShare(share);
    }
    Ok(Arrival { program, size: common.pages, start: common.start, stop: common.stop })
}
