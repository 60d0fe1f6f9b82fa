// SPDX-License-Identifier: Apache-2.0
//! The host: the core's engine over the Linux world, for all tenants of a manager.

mod applications;
mod lateness;
mod measurement;
mod policy;
mod status;
mod tenants;
mod urgency;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use applications::{ApplicationStatus, DecisionStatus, ProfilePoint, Submission};
pub use lateness::Lateness;
pub use measurement::{MeasurementStatus, TrialStatus};
pub use status::{TargetStatus, TenantStatus};
use tierline_core::engine::Engine;
use tierline_core::event::Event;
use tierline_core::port::{Attention, Capability};
use tierline_core::qos::controller::PERIOD;
use tierline_core::tier::{Tier, TierId, Tiers};
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};

use crate::conflicts::{self, Action, Finding, OwnUse};
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::kernel_tiering::KernelTiering;
use crate::loaded_latency::LoadedLatency;
use crate::orders::OrderTally;
use crate::page_cache::PageCache;
use crate::process::{Selection, Targets};
use crate::resctrl::{self, BandwidthMonitor};
use crate::root::Root;
use crate::telemetry::{self, KernelCounters, NodeMemory};
use crate::tenant::cpu::CpuTimes;
use crate::tenant::{Tenant, Tenants};
use crate::topology::{TierSpec, Topology};
use crate::tracker::cost::{CostMeter, RaisedPriority};
use crate::tracker::entry::Setup;
use crate::tracker::inspect::Inspector;
use crate::tracker::ladder;
use crate::tracker::neoprof::DeviceLocation;
use crate::world::LinuxWorld;
use urgency::Urgency;

/// Time between ticks while nothing is moved or paged out, and the tracker has nothing due.
const IDLE_INTERVAL: Nanos = Nanos::from_secs(1);
/// The shortest time between two ticks.
const SHORTEST_INTERVAL: Nanos = Nanos::from_millis(1);
/// Time for which those that missed their target still decide the tracker's windows. Ours: a program that got no processor for
/// a moment misses nothing in it.
const IN_FOCUS: Nanos = Nanos::from_secs(5);

/// Room in fast memory of less than one byte in this many is little. Ours.
const LITTLE_ROOM_OF: u64 = 16;

/// How to manage. The defaults suit most machines.
#[derive(Clone, Debug)]
pub struct ManagerOptions {
    /// A name from the list of policies.
    pub policy: String,
    /// Values for knobs of the policy, by name, in the knob's unit.
    pub knobs: Vec<(String, f64)>,
    /// A name from the list of trackers; `None`: the best that this kernel supports.
    pub tracker: Option<String>,
    /// The location of NeoProf's registers; `None`: the first PCI device with its ids.
    pub neoprof: Option<DeviceLocation>,
    /// The nodes of each tier; `None`: derived from the machine's own description.
    pub tiers: Option<TierSpec>,
    /// The most bytes moved per second.
    pub max_rate: BytesPerSec,
    /// Observe, estimate and decide, but move nothing.
    pub dry_run: bool,
    /// Time between ticks during activity.
    pub interval: Nanos,
    /// Measure the tiers' loaded latency by a probe if the CPU has no counters for it.
    pub latency_probe: bool,
    /// The folder of the journal of changed settings.
    pub state_dir: PathBuf,
}

impl Default for ManagerOptions {
    fn default() -> Self {
        Self {
            policy: "tierline".into(),
            knobs: Vec::new(),
            tracker: None,
            neoprof: None,
            tiers: None,
            // NeoMem's quota.
            max_rate: BytesPerSec(256 << 20),
            dry_run: false,
            interval: Nanos::from_millis(10),
            latency_probe: false,
            state_dir: "/run/tierline".into(),
        }
    }
}

impl ManagerOptions {
    /// The machine on which a tracker is opened.
    pub(crate) fn tracker_setup<'a>(
        &'a self,
        root: &'a Root,
        journal: &'a Journal,
        tiers: &'a Tiers,
    ) -> Setup<'a> {
        Setup { root, journal, tiers, neoprof: self.neoprof.as_ref() }
    }
}

/// Manages processes on this machine.
pub struct Manager {
    root: Root,
    engine: Engine,
    world: LinuxWorld,
    journal: Journal,
    options: ManagerOptions,
    /// The kernel's counters at the start.
    before: KernelCounters,
    notes: Vec<String>,
    started: Option<Nanos>,
    orders: OrderTally,
    problems: u64,
    due: Nanos,
    lateness: Lateness,
    urgency: Urgency,
    in_focus_until: Option<Nanos>,
    /// Applications by name: the index of their tenant, and what was submitted.
    applications: BTreeMap<String, (usize, Submission)>,
}

impl Manager {
    /// Finds the tiers, chooses the tracker, and prepares to watch the processes of these tenants, which
    /// `selection` finds.
    ///
    /// # Errors
    /// `Error::Missing` if there is only one tier, no such policy or no tracker; the errors of targets that do
    /// not exist or may not be managed.
    pub fn new(
        root: &Root,
        selection: Selection,
        tenants: Vec<Tenant>,
        options: ManagerOptions,
    ) -> Result<Self> {
        // As in `step`: the programs wait from the start.
        let _urgent = RaisedPriority::begin();
        let tenants = Tenants::new(tenants);
        let limits = tenants.limits();
        let policy = policy::policy(&options, &limits)?;
        let wants = policy.wants();
        let topology = Topology::read(root)?;
        let tiers = topology.tiers(options.tiers.as_ref())?;
        let pids = selection.pids.clone();
        let targets = Targets::new(selection, root)?;
        let mut notes = Journal::recover(&options.state_dir, root)?.notes();
        let journal = Journal::open(&options.state_dir)?;
        let policy_moves = policy.kernel().is_none();
        if policy_moves {
            // First of all: our own allocations from here on must not demote pages of other programs.
            let findings: Vec<Finding> = conflicts::demotion(root).into_iter().collect();
            conflicts::apply(&journal, root, &findings)?;
            notes.extend(findings.iter().map(announcement));
            let reclaim = [conflicts::boosting(root), conflicts::page_lists(root, &tiers)];
            for finding in reclaim.into_iter().flatten() {
                let note = announcement(&finding);
                // Where it cannot be changed, as in some containers, programs are managed all the same.
                let done = conflicts::apply(&journal, root, &[finding]);
                notes.push(done.map_or_else(|error| error.to_string(), |()| note));
            }
        }
        // Without these counters a kernel can be managed as well.
        let before = KernelCounters::vmstat(root).unwrap_or_default();
        notes.push(about_tiers(&tiers));
        if policy_moves {
            notes.extend(about_room(&tiers, &telemetry::nodes(root, &tiers).unwrap_or_default()));
        }
        let choice = match policy.kernel() {
            None => {
                let setup = options.tracker_setup(root, &journal, &tiers);
                let mut choice = ladder::choose(&setup, options.tracker.as_deref())?;
                wants.tracking.map_or(Ok(false), |watch| choice.tracker.reconfigure(watch))?;
                choice
            }
            Some(knobs) => {
                let tracker =
                    Box::new(KernelTiering::start(root, &journal, knobs, options.max_rate)?);
                notes.push(
                    "the kernel tiers the whole machine, not only the managed processes".into(),
                );
                ladder::Choice { tracker, rejected: Vec::new() }
            }
        };
        notes.push(about_tracker(&choice));
        notes.extend(resolve_conflicts(root, &journal, &options, &pids, choice.tracker.uses())?);
        let pager = policy::pager(root, policy.as_ref(), &options, &targets, &mut notes)?;
        // A reclaimer checks the pages that it is about to take; a tracker reports them too rarely.
        let asks = wants.pages_out || policy.needs().contains(&Capability::Answers);
        let inspector = (policy_moves && (asks || !choice.tracker.observes_fast_memory()))
            .then(|| Inspector::new(root, &tiers))
            .transpose()
            .unwrap_or_else(|error| {
                notes.push(format!("cold pages in fast memory cannot be found: {error}"));
                None
            });
        let latency = LoadedLatency::open(root, &tiers, &topology, options.latency_probe);
        let engine = Engine::new(tiers.clone(), limits, policy, options.max_rate);
        let mut world = LinuxWorld::new(
            root,
            tiers.clone(),
            targets,
            choice.tracker,
            latency,
            options.dry_run,
        )?;
        world.prepare_for(wants);
        inspector.into_iter().for_each(|inspector| world.inspect_with(inspector));
        pager.into_iter().for_each(|pager| world.page_out_with(pager));
        world.set_tenants(tenants);
        world.limit_cpu_with(CpuTimes::new(root, &journal));
        if policy_moves && !options.dry_run {
            match PageCache::open(root, &topology, &tiers, &journal) {
                Ok(cache) => world.use_page_cache(cache),
                Err(error) => notes.push(format!(
                    "cold pages of files stay in fast memory: {error}; {}",
                    error.hint().unwrap_or_default()
                )),
            }
        }
        if !options.dry_run {
            resctrl::sweep(root);
            BandwidthMonitor::open(root)
                .into_iter()
                .for_each(|it| world.measure_bandwidth_with(it));
        }
        world.check_policy(engine.policy())?;
        Ok(Self {
            root: root.clone(),
            engine,
            world,
            journal,
            options,
            before,
            notes,
            started: None,
            orders: OrderTally::default(),
            problems: 0,
            due: Nanos::ZERO,
            lateness: Lateness::default(),
            urgency: Urgency::default(),
            in_focus_until: None,
            applications: BTreeMap::new(),
        })
    }

    /// Notes for the user before the start: the tracker, the changed settings, and why.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Manages one more process.
    pub fn add(&mut self, pid: u32) {
        self.world.add(pid);
        self.due = Nanos::ZERO;
    }

    /// Does what is due at `now` (nanoseconds of CLOCK_MONOTONIC). Returns the events.
    pub fn step(&mut self, now: Nanos) -> &[Event] {
        self.started.get_or_insert(now);
        if now < self.due {
            return &[];
        }
        self.lateness.add(self.due, now);
        // On busy processors each step would wait for the very programs that wait for their pages. Not where single pages are
        // checked for accesses: a program that stands still looks idle.
        let pages_wait = self.engine.attention() != Attention::Calm;
        let is_urgent =
            self.urgency.is_left(now) && pages_wait && !self.world.checks_single_pages();
        let (_urgent, meter) = (is_urgent.then(RaisedPriority::begin), CostMeter::start());
        let idle = if self.engine.qos.is_empty() { IDLE_INTERVAL } else { PERIOD };
        self.focus(now);
        let events = self.engine.tick(now, &mut self.world);
        if is_urgent {
            self.urgency.spend(meter.cost().cpu);
        }
        let tenants = self.world.tenants();
        self.orders.add(events, |space| tenants.tenant_of(space.0).unwrap_or(0));
        // Other pages may wait that did not fit into this tick.
        let is_busy = |event: &Event| matches!(event, Event::Move { .. } | Event::PageOut { .. });
        let next = if events.iter().any(is_busy) { self.options.interval } else { idle };
        self.due = (now + next).min(self.world.next_due()).max(now + SHORTEST_INTERVAL);
        events
    }

    /// Lets those that miss their target and may have more fast memory decide how long the tracker watches: a window that a
    /// busier program fills finds few of their pages.
    fn focus(&mut self, now: Nanos) {
        let behind = self.engine.limits.behind();
        if !behind.is_empty() {
            self.in_focus_until = Some(now + IN_FOCUS);
        } else if self.in_focus_until.is_some_and(|until| now >= until) {
            self.in_focus_until = None;
        } else {
            return;
        }
        self.world.focus(behind);
    }

    /// When to call `step` next.
    pub fn next_due(&self) -> Nanos {
        self.due
    }

    /// True if no managed process is left.
    pub fn has_no_targets(&self) -> bool {
        self.world.pids().next().is_none()
    }

    /// Takes the errors since the last call that did not stop the manager.
    pub fn take_errors(&mut self) -> Vec<Error> {
        let problems = self.world.take_errors();
        self.problems += problems.len() as u64;
        problems
    }

    /// Stops and restores every changed setting; pages stay where they are.
    pub fn shutdown(self) -> Vec<Error> {
        let Self { world, journal, .. } = self;
        drop(world); // the tracker first: it restores what is not in the journal
        journal.restore()
    }
}

/// Finds other managers of memory, announces what is done about each, and does it.
pub(crate) fn resolve_conflicts(
    root: &Root,
    journal: &Journal,
    options: &ManagerOptions,
    pids: &[u32],
    plan: OwnUse,
) -> Result<Vec<String>> {
    let findings = conflicts::examine(root, &options.state_dir, pids, plan);
    conflicts::apply(journal, root, &findings)?;
    Ok(findings.iter().map(announcement).collect())
}

fn announcement(finding: &Finding) -> String {
    match &finding.action {
        Action::SwitchOff { path, value } => {
            format!("{}: {path} is {value} while this runs", finding.what)
        }
        _ => format!("{}: {}", finding.what, finding.next_step),
    }
}

fn about_tiers(tiers: &Tiers) -> String {
    let one = |(_, tier): (TierId, &Tier)| {
        let nodes: Vec<String> = tier.nodes.iter().map(|node| node.0.to_string()).collect();
        format!("{} = node {} ({})", tier.name, nodes.join(","), tier.capacity)
    };
    format!("tiers: {}", tiers.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// Tells that there is little room in the fastest tier, if so: what is not managed stays there.
fn about_room(tiers: &Tiers, nodes: &[NodeMemory]) -> Option<String> {
    let Tier { name, nodes: ids, capacity, .. } = tiers.0.first()?;
    let here = nodes.iter().filter(|memory| ids.contains(&memory.node));
    let room: Bytes = here.clone().map(|memory| memory.usable() + memory.cold_files).sum();
    let is_little = here.count() > 0 && room.0 < capacity.0 / LITTLE_ROOM_OF;
    is_little.then(|| {
        format!(
            "there is little room in {name} memory ({room} of {capacity}), and programs that are not managed keep what they have \
             there: to have it moved, manage them, too"
        )
    })
}

pub(crate) fn about_tracker(choice: &ladder::Choice) -> String {
    let name = choice.tracker.name();
    if choice.rejected.is_empty() {
        return format!("tracker: {name}");
    }
    let why = |(name, error): &(&str, Error)| format!("\n  {name}: {error}");
    let passed: String = choice.rejected.iter().map(why).collect();
    format!("tracker: {name}; better ones cannot be used here:{passed}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierline_core::tier::NodeId;

    #[test]
    fn little_room_in_fast_memory_is_told() {
        let mib = |count: u64| Bytes(count << 20);
        let tier = |name: &str, node| Tier {
            name: name.into(),
            nodes: vec![NodeId(node)],
            capacity: mib(320),
            latency: None,
            bandwidth: None,
        };
        let tiers = Tiers(vec![tier("near", 0), tier("far", 1)]);
        let about = |free, cold_files| {
            let (node, total, reserved, files) = (NodeId(0), mib(320), mib(0), mib(0));
            let memory = NodeMemory { node, total, free, reserved, cold_files, files };
            let other = NodeMemory { node: NodeId(1), ..memory };
            about_room(&tiers, &[memory, other])
        };
        let told = about(mib(9), mib(10)).expect("19 of 320 MiB");
        assert!(told.contains("near memory (19.0 MiB of 320 MiB)"), "{told}");
        assert_eq!(about(mib(0), mib(20)), None, "cold files give way");
        assert_eq!(about_room(&tiers, &[]), None, "it cannot be read");
    }
}
