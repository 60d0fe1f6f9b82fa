// SPDX-License-Identifier: Apache-2.0
//! A scenario: a machine, programs with their times, a policy and its tracker, and a seed.
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
//!
//! Programs can belong to tenants with limits, or with targets: see [`crate::tenant`] and [`crate::qos`].

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use tierline_core::policy::{POLICIES, entry::PolicyEntry};
use tierline_core::policy::{Policy, Wants, check_capabilities};
use tierline_core::port::{Allocation, PageSize, TenantId, Tracking};
use tierline_core::qos::controller::Controller;
use tierline_core::tier::TierId;
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};
use toml::{Table, Value};

use crate::cell::Ratio;
use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::machine::file::MachineFile;
use crate::machine::list::MachineEntry;
use crate::qos::{self, PlannedTenant};
use crate::tenant::{self, Schedule, Tenant};
use crate::text;
use crate::tracker::TRACKERS;
use crate::tracker::Tracker;
use crate::tracker::entry::{TrackerEntry, TrackerKnobs, serve};
use crate::workload::knob::ProgramKnobs;
use crate::workload::list::{COMMON, WorkloadEntry};
use crate::workload::program::{Placement, Reach};
use crate::workload::replay::{Recording, Replay};
use crate::world::transfer::{TRANSFERS, TransferEntry};
use crate::world::{Arrival, ModelSettings, ModelWorld};

/// The shortest permitted step.
const SHORTEST: Nanos = Nanos(10_000);
/// The longest run: the core's watch clock wraps after ten hours.
const LONGEST_SECONDS: f64 = 36_000.0;
/// Time between ticks for a policy without a quantum, and the maximum for others.
const INTERVAL: Nanos = Nanos::from_millis(50);
/// An enlarged slowest tier has this fraction free: without a free page, pages cannot be exchanged. Ours.
const ROOM_TO_MOVE: u64 = 16;

/// A parsed scenario file. Unknown keys are errors.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// Name of a machine in the list, or of a machine file, relative to the folder of the scenario file.
    pub machine: String,
    /// Text of a machine file to use instead; `machine` is then its path.
    #[serde(skip)]
    pub machine_text: Option<String>,
    /// Name of a policy in the core's list.
    pub policy: String,
    /// The policy's knobs, in base units; a switch is 0 or 1. Missing knobs have their defaults.
    pub policy_knobs: BTreeMap<String, f64>,
    /// Name of a tracker in the list. Default: the one requested by the policy.
    pub tracker: Option<String>,
    /// Settings of the tracker.
    pub tracker_knobs: TrackerKnobs,
    /// Simulated time.
    pub seconds: f64,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Time between ticks of the engine, if moving takes no longer. Default: as the policy requests.
    #[serde(deserialize_with = "text::maybe")]
    pub interval: Option<Nanos>,
    /// Maximum step of the model.
    #[serde(deserialize_with = "text::quantity")]
    pub quantum: Nanos,
    /// Time between entries of the report's series.
    #[serde(deserialize_with = "text::quantity")]
    pub report_every: Nanos,
    /// Maximum rate of the migrator. The default limits moves no further than policies and copying threads do.
    #[serde(deserialize_with = "text::quantity")]
    pub max_rate: BytesPerSec,
    /// Whether the faulting thread performs the promotion. Default: as the policy requests.
    pub synchronous: Option<bool>,
    /// Factor by which the counters of stalls are wrong, up for the first program, down for the next, and so on; 0: there
    /// are no such counters.
    pub stall_error: f64,
    /// How pages are moved: a name in `world::transfer`.
    pub migrator: String,
    /// Fast to slow memory, as parts of the first program's size; the slowest tier then grows as with `grow`.
    pub ratio: Option<Ratio>,
    /// Size of the fastest tier, if different from the machine's.
    #[serde(deserialize_with = "text::maybe")]
    pub fast_capacity: Option<Bytes>,
    /// Whether the slowest tier is enlarged to hold all programs, with room for moves.
    pub grow: bool,
    /// The tenants and their limits.
    pub tenant: Vec<Tenant>,
    /// Whether fast memory that no application needs is lent to the others.
    pub lend: bool,
    /// The programs.
    pub workload: Vec<Table>,
    /// The recordings that workloads name as `trace`, opened by the caller.
    #[serde(skip)]
    pub traces: Traces,
}

/// Recordings by file name.
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
            tracker_knobs: TrackerKnobs::default(),
            seconds: 60.0,
            seed: 1,
            interval: None,
            quantum: Nanos::from_millis(10),
            report_every: Nanos::from_secs(1),
            max_rate: BytesPerSec(10 << 30),
            synchronous: None,
            stall_error: 1.0,
            migrator: TRANSFERS[0].name.into(),
            ratio: None,
            fast_capacity: None,
            grow: false,
            tenant: Vec::new(),
            lend: true,
            workload: Vec::new(),
            traces: Traces::default(),
        }
    }
}

/// Keys that every workload of a scenario accepts in addition to its own.
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
    overlap: Option<f64>,
    #[serde(deserialize_with = "text::maybe")]
    think: Option<Nanos>,
    tenant: Option<String>,
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
            overlap: None,
            think: None,
            tenant: None,
        }
    }
}

impl Scenario {
    /// Parses a scenario; `place` is the name of its file.
    ///
    /// # Errors
    /// `Error::File` with the line and key.
    pub fn parse(place: &str, text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| Error::file(place, &error))
    }

    /// The machine.
    ///
    /// # Errors
    /// `Error::Unknown` if the name is unknown.
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
        if let Some(ratio) = self.ratio {
            machine.tiers[0].capacity = self.fast_memory(ratio)?;
        }
        if (self.grow || self.ratio.is_some())
            && let Some((slowest, faster)) = machine.tiers.split_last_mut()
        {
            let all: Bytes = self.arrivals()?.iter().map(|arrival| arrival.program.bytes).sum();
            let above: Bytes = faster.iter().map(|tier| tier.capacity).sum();
            let needed = Bytes(all.0 + all.0 / ROOM_TO_MOVE).saturating_sub(above);
            slowest.capacity = slowest.capacity.max(needed);
        }
        Ok(machine)
    }

    /// The size of the fastest tier at this ratio: a part of the first program's size, and the memory that other programs
    /// bind to it.
    fn fast_memory(&self, ratio: Ratio) -> Result<Bytes> {
        let arrivals = self.arrivals()?;
        let measured = arrivals.first().map_or(Bytes::ZERO, |arrival| arrival.program.bytes);
        let bound = Placement::Pinned(TierId::FAST);
        let others = arrivals.iter().map(|arrival| &arrival.program);
        let bound: Bytes = others.filter(|p| p.placement == bound).map(|p| p.bytes).sum();
        Ok(ratio.fast_of(measured) + bound)
    }

    /// The policy's entry in the core's list.
    ///
    /// # Errors
    /// `Error::Unknown` with the known names; `Error::MissingCapability` if the policy needs what the model lacks.
    pub fn policy(&self) -> Result<&'static PolicyEntry> {
        let entry = PolicyEntry::find(&self.policy).ok_or_else(|| {
            let known = POLICIES.iter().map(|entry| entry.name);
            Error::unknown("policy", &self.policy, known)
        })?;
        check_capabilities((entry.make)().as_ref(), ModelWorld::offers())
            .map_err(Error::MissingCapability)?;
        Ok(entry)
    }

    /// The policy, with its knobs set.
    ///
    /// # Errors
    /// `Error::Unknown` if the policy or the knob is unknown.
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
    /// As [`WorkloadEntry::program`], and for a tenant or a key unknown to both the workload and the scenario.
    pub fn arrivals(&self) -> Result<Vec<Arrival>> {
        self.workload.iter().map(|table| arrival(table, &self.traces, &self.tenant)).collect()
    }

    /// The schedule of limits.
    ///
    /// # Errors
    /// As [`Schedule::read`].
    pub fn limits(&self) -> Result<Schedule> {
        match self.tenant.is_empty() {
            true => Ok(Schedule::default()),
            false => Schedule::read(&self.tenant, &self.machine()?, &self.arrivals()?),
        }
    }

    /// The controller of its applications, which run under this policy.
    ///
    /// # Errors
    /// As [`qos::controller`].
    pub fn qos(&self, policy: &dyn Policy) -> Result<Controller> {
        let lend = qos::lends(&self.tenant, self.lend)?;
        match self.tenant.iter().any(|tenant| tenant.priority.is_some() || tenant.slo.is_some()) {
            true => {
                let (machine, arrivals) = (self.machine()?, self.arrivals()?);
                qos::controller(&self.tenant, &machine, &arrivals, policy, lend)
            }
            false => Ok(Controller::default()),
        }
    }

    /// Which applications would be admitted, and with what, without running anything.
    ///
    /// # Errors
    /// If a tenant, a workload or the machine is invalid.
    pub fn qos_plan(&self) -> Result<Vec<PlannedTenant>> {
        qos::plan(&self.tenant, &self.machine()?, &self.arrivals()?)
    }

    /// The trace files of its workloads.
    pub fn trace_files(&self) -> impl Iterator<Item = &str> {
        self.workload.iter().filter_map(|table| table.get("trace")?.as_str())
    }

    /// Steps of zero length would never end.
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
        if !(self.stall_error >= 0.0 && self.stall_error.is_finite()) {
            let wrong_by = self.stall_error;
            return wrong(format!("stall_error is {wrong_by}, expected 0 or more"));
        }
        if !(self.seconds > 0.0 && self.seconds < LONGEST_SECONDS) {
            let seconds = self.seconds;
            return wrong(format!("seconds is {seconds}, expected up to {LONGEST_SECONDS}"));
        }
        Ok(())
    }

    /// Time between ticks for a policy with these requirements: the scenario's, else short enough for the
    /// policy's quantum.
    pub fn interval(&self, wants: &Wants) -> Nanos {
        let often = wants.quantum.map_or(INTERVAL, |quantum| quantum.min(INTERVAL));
        self.interval.unwrap_or(often)
    }

    /// The tracker for a policy with these requirements: the scenario's, else the requested one if the machine
    /// has it.
    fn tracker(&self, wants: &Wants, machine: &Machine) -> Result<Box<dyn Tracker>> {
        let wish = wants
            .tracking
            .filter(|watch| machine.neoprof || !matches!(watch, Tracking::Counters { .. }));
        match (&self.tracker, wish) {
            (Some(name), _) => Ok(TrackerEntry::find(name)?.open(&self.tracker_knobs)),
            (None, Some(watch)) => Ok(serve(watch, &self.tracker_knobs)),
            (None, None) => Ok(TRACKERS[0].open(&self.tracker_knobs)),
        }
    }

    /// The world at the start of this scenario, for its policy.
    ///
    /// # Errors
    /// If a part of the scenario is invalid.
    pub fn world(&self) -> Result<ModelWorld> {
        self.world_for(&self.policy_set()?.wants())
    }

    /// The world at the start of this scenario, for a policy with these requirements.
    ///
    /// # Errors
    /// If a part of the scenario is invalid.
    pub fn world_for(&self, wants: &Wants) -> Result<ModelWorld> {
        self.check()?;
        let mut machine = self.machine()?;
        if let Some(threads) = wants.copy_threads {
            machine.costs.copy_threads = threads.into();
        }
        let tracker = self.tracker(wants, &machine)?;
        let settings = ModelSettings {
            quantum: self.quantum,
            synchronous: self.synchronous.unwrap_or(wants.promotes_in_fault),
            allocation: wants.allocation.unwrap_or(Allocation::FirstTouch),
            transfer: TransferEntry::find(&self.migrator)?.transfer,
            ideal: wants.ideal,
            stall_error: (self.stall_error > 0.0).then_some(self.stall_error),
            seed: self.seed,
        };
        Ok(ModelWorld::new(machine, self.arrivals()?, tracker, settings))
    }
}

/// Whether every workload accepts this key.
fn is_common(key: &str) -> bool {
    ["kind", "trace"].contains(&key) || COMMON.iter().any(|(name, _)| *name == key)
}

fn arrival(table: &Table, traces: &Traces, tenants: &[Tenant]) -> Result<Arrival> {
    let (common, own): (Table, Table) =
        table.clone().into_iter().partition(|(key, _)| is_common(key));
    let kind = common.get("kind").and_then(Value::as_str).unwrap_or_default().to_string();
    let wrong = |why: String| Error::Figure { place: format!("workload {kind}"), why };
    let common = Common::deserialize(common).map_err(|error| wrong(error.to_string()))?;
    let (mut program, size, trace) = match &common.trace {
        Some(file) => {
            let known = traces.0.keys().map(String::as_str);
            let recording =
                traces.0.get(file).ok_or_else(|| Error::unknown("trace", file, known))?;
            let size = common.pages.unwrap_or(recording.size());
            let place = format!("trace {file}");
            let replay = Replay::read(&place, &own)?.program(file, Arc::clone(recording), size);
            let replay = replay.map_err(|why| Error::Figure { place, why })?;
            (replay.0, size, Some(replay.1))
        }
        None => {
            let program = WorkloadEntry::find(&common.kind)?.program(&own)?;
            (program, common.pages.unwrap_or(PageSize::Huge), None)
        }
    };
    program.name = common.name.unwrap_or(program.name);
    if let Some(share) = common.hot_share_fast {
        program.placement = Placement::HotShare(share);
    }
    if common.overlap.is_some() || common.think.is_some() {
        let overlap = common.overlap.unwrap_or(1.0);
        if !(overlap > 0.0 && overlap.is_finite()) {
            return Err(wrong(format!("overlap is {overlap}, expected more than 0")));
        }
        let think_ns = common.think.unwrap_or_default().as_secs_f64() * 1e9;
        program.set_reach(Reach::Fixed(overlap, think_ns));
    }
    let tenant = common.tenant.map(|name| tenant::find(tenants, &name)).transpose()?;
    let tenant = tenant.unwrap_or(TenantId::NOBODY);
    Ok(Arrival { program, size, tenant, start: common.start, stop: common.stop, trace })
}
