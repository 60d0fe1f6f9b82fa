// SPDX-License-Identifier: Apache-2.0
//! The manager: the core's engine over the Linux world, with targets, settings and status.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tierline_core::engine::Engine;
use tierline_core::event::Event;
use tierline_core::knob::Knob;
use tierline_core::policy::Policy;
use tierline_core::policy::list::{POLICIES, PolicyEntry};
use tierline_core::port::Capability;
use tierline_core::qos::Limits;
use tierline_core::tier::{Tier, TierId, Tiers};
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};

use crate::citizen::{self, Action, Finding, Plan};
use crate::error::{Error, Result};
use crate::journal::{Change, Journal};
use crate::kernel_tiering::KernelTiering;
use crate::loaded_latency::LoadedLatency;
use crate::mover::page_out::{self, Ability, Pager};
use crate::orders::OrderTally;
use crate::process::{Selection, Targets};
use crate::root::Root;
use crate::telemetry::Counters;
use crate::topology::{TierSpec, Topology};
use crate::tracker::Tracker;
use crate::tracker::inspect::Inspector;
use crate::tracker::ladder;
use crate::tracker::list::Setup;
use crate::tracker::neoprof::Place;
use crate::world::LinuxWorld;

/// Time between ticks while nothing moves, unless the world has something to observe.
const IDLE_INTERVAL: Nanos = Nanos::from_secs(1);
/// No two ticks are closer, whatever is due.
const SHORTEST_INTERVAL: Nanos = Nanos::from_millis(1);

/// How to manage. The defaults need no change.
#[derive(Clone, Debug)]
pub struct Options {
    /// A name from the list of policies.
    pub policy: String,
    /// Knobs of the policy that are set, by name, in the knob's unit.
    pub knobs: Vec<(String, f64)>,
    /// A name from the list of trackers; `None`: the best that this kernel offers.
    pub tracker: Option<String>,
    /// Where NeoProf's registers are; `None`: in the first PCI device with its ids.
    pub neoprof: Option<Place>,
    /// Which node is in which tier; `None`: as the machine describes itself.
    pub tiers: Option<TierSpec>,
    /// Bytes moved per second, at most.
    pub max_rate: BytesPerSec,
    /// What the managed programs may hold together.
    pub limits: Limits,
    /// Look, believe and decide, but move nothing.
    pub dry_run: bool,
    /// Time between ticks while something happens.
    pub interval: Nanos,
    /// Measure the tiers' loaded latency by a probe where the CPU has no counters for it.
    pub latency_probe: bool,
    /// Where the journal of changed settings is kept.
    pub state_dir: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            policy: "tierline".into(),
            knobs: Vec::new(),
            tracker: None,
            neoprof: None,
            tiers: None,
            // NeoMem's quota.
            max_rate: BytesPerSec(256 << 20),
            limits: Limits::default(),
            dry_run: false,
            interval: Nanos::from_millis(10),
            latency_probe: false,
            state_dir: "/run/tierline".into(),
        }
    }
}

impl Options {
    /// The machine that a tracker is opened on.
    pub(crate) fn setup<'a>(
        &'a self,
        root: &'a Root,
        journal: &'a Journal,
        tiers: &'a Tiers,
    ) -> Setup<'a> {
        Setup { root, journal, tiers, neoprof: self.neoprof.as_ref() }
    }
}

/// A managed process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetStatus {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub comm: String,
}

/// A tenant: programs that share limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantStatus {
    /// Its name.
    pub name: String,
    /// How many of its processes are managed.
    pub processes: usize,
    /// What it holds of each tier, fastest first.
    pub used: Vec<Bytes>,
    /// What it may hold of each tier; `None`: no limit.
    pub limits: Vec<Option<Bytes>>,
}

/// Manages processes on this machine.
pub struct Manager {
    root: Root,
    engine: Engine,
    world: LinuxWorld,
    journal: Journal,
    options: Options,
    /// The kernel's counters before anything was done.
    before: Counters,
    notes: Vec<String>,
    started: Option<Nanos>,
    orders: OrderTally,
    problems: u64,
    due: Nanos,
}

impl Manager {
    /// Finds the tiers, chooses the tracker, and gets ready to watch.
    ///
    /// # Errors
    /// `Error::Missing` where there is nothing to tier, no such policy or no tracker; those of the
    /// targets that do not exist or are not ours.
    pub fn new(root: &Root, selection: Selection, options: Options) -> Result<Self> {
        let policy = policy(&options)?;
        let wants = policy.wants();
        let topology = Topology::read(root)?;
        let tiers = topology.tiers(options.tiers.as_ref())?;
        let pids = selection.pids.clone();
        let targets = Targets::new(selection, root)?;
        let mut notes = Journal::recover(&options.state_dir, root)?;
        let journal = Journal::open(&options.state_dir)?;
        let policy_moves = policy.kernel().is_none();
        if policy_moves {
            // First of all: nobody is to be pushed out by what we allocate from here on.
            let findings: Vec<Finding> = citizen::demotion(root).into_iter().collect();
            citizen::apply(&journal, root, &findings)?;
            notes.extend(findings.iter().map(told));
        }
        // A kernel without the counters is no worse managed.
        let before = Counters::vmstat(root).unwrap_or_default();
        notes.push(about_tiers(&tiers));
        let choice = match policy.kernel() {
            None => {
                let setup = options.setup(root, &journal, &tiers);
                let mut choice = ladder::choose(&setup, options.tracker.as_deref(), wants.watch)?;
                wants.watch.map_or(Ok(false), |watch| choice.tracker.rewatch(watch))?;
                choice
            }
            Some(knobs) => {
                let tracker =
                    Box::new(KernelTiering::start(root, &journal, knobs, options.max_rate)?);
                notes.push("the kernel tiers the whole machine, not only what is managed".into());
                ladder::Choice { tracker, passed_over: Vec::new() }
            }
        };
        notes.push(about_tracker(&choice));
        notes.extend(behave(root, &journal, &options, &pids, choice.tracker.uses())?);
        let pager = pager(root, policy.as_ref(), &options, &targets, &mut notes)?;
        let asks = policy.needs().contains(&Capability::Answers);
        let inspector = (policy_moves && (asks || !choice.tracker.sees_fast_memory()))
            .then(|| Inspector::new(root, &tiers))
            .transpose()
            .unwrap_or_else(|error| {
                notes.push(format!("what goes cold in fast memory is not seen: {error}"));
                None
            });
        let latency = LoadedLatency::open(root, &tiers, &topology, options.latency_probe);
        let engine = Engine::new(tiers.clone(), options.limits.clone(), policy, options.max_rate);
        let mut world =
            LinuxWorld::new(root, tiers, targets, choice.tracker, latency, options.dry_run)?;
        inspector.into_iter().for_each(|inspector| world.inspect_with(inspector));
        pager.into_iter().for_each(|pager| world.page_out_with(pager));
        world.fits(engine.policy())?;
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
        })
    }

    /// What it has to say before it starts: which tracker, which settings it changes, and why.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Manages one more process.
    pub fn add(&mut self, pid: u32) {
        self.world.add(pid);
        self.due = Nanos::ZERO;
    }

    /// Does what is due at `now` (nanoseconds of CLOCK_MONOTONIC). Returns what happened.
    pub fn step(&mut self, now: Nanos) -> &[Event] {
        self.started.get_or_insert(now);
        if now < self.due {
            return &[];
        }
        let events = self.engine.tick(now, &mut self.world);
        // One tenant holds all.
        self.orders.add(events, |_| 0);
        let moving = events.iter().any(|event| matches!(event, Event::Move { .. }));
        let next = if moving { self.options.interval } else { IDLE_INTERVAL };
        self.due = (now + next).min(self.world.next_due()).max(now + SHORTEST_INTERVAL);
        events
    }

    /// When to call `step` next.
    pub fn next_due(&self) -> Nanos {
        self.due
    }

    /// True where no managed process is left.
    pub fn is_alone(&self) -> bool {
        self.world.pids().next().is_none()
    }

    /// Takes what went wrong since the last call without stopping the manager.
    pub fn take_problems(&mut self) -> Vec<Error> {
        let problems = self.world.take_problems();
        self.problems += problems.len() as u64;
        problems
    }

    /// The pipeline.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The tracker in use.
    pub fn tracker(&self) -> &dyn Tracker {
        self.world.tracker()
    }

    /// How it manages.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Time since the first step.
    pub fn uptime(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.started.unwrap_or(now))
    }

    /// Time since the last sample; `None` before the first.
    pub fn silence(&self, now: Nanos) -> Option<Nanos> {
        self.world.last_sample().map(|at| now.saturating_sub(at))
    }

    /// Orders by what they were and how they ended.
    pub fn orders(&self) -> &OrderTally {
        &self.orders
    }

    /// Errors so far that did not stop it.
    pub fn problems(&self) -> u64 {
        self.problems
    }

    /// The managed processes.
    pub fn targets(&self) -> Vec<TargetStatus> {
        let comm = |pid| self.root.read(format!("/proc/{pid}/comm")).unwrap_or_default();
        self.world.pids().map(|pid| TargetStatus { pid, comm: comm(pid) }).collect()
    }

    /// The tenants: one, of all managed programs.
    pub fn tenants(&self) -> Vec<TenantStatus> {
        let tiers = || self.engine.tiers().iter().map(|(id, _)| id);
        let limit = |id: TierId| self.options.limits.per_tier.get(id.index()).copied().flatten();
        vec![TenantStatus {
            name: "all".into(),
            processes: self.world.pids().count(),
            used: tiers().map(|id| self.engine.pages().bytes_in(id)).collect(),
            limits: tiers().map(limit).collect(),
        }]
    }

    /// Settings of the machine that are changed while it runs.
    pub fn changes(&self) -> Vec<Change> {
        self.journal.changes()
    }

    /// Resident memory of this process, by the second field of `statm`, in pages.
    pub fn resident(&self) -> Bytes {
        let statm = self.root.read("/proc/self/statm").unwrap_or_default();
        let pages = statm.split(' ').nth(1).and_then(|field| field.parse().ok());
        Bytes::from_base_pages(pages.unwrap_or(0))
    }

    /// What the kernel counted of page moves on the whole machine since the start, by its names
    /// (`/proc/vmstat`).
    pub fn kernel_counts(&self) -> BTreeMap<String, u64> {
        let now = Counters::vmstat(&self.root).unwrap_or_default();
        let (of_moves, since) = (now.of_moves(), now.since(&self.before));
        let since = since.into_iter().filter(|(name, _)| of_moves.contains_key(name));
        since.map(|(name, count)| (name.to_string(), count)).collect()
    }

    /// Stops and puts every changed setting back; pages stay where they are.
    pub fn shutdown(self) -> Vec<Error> {
        let Self { world, journal, .. } = self;
        drop(world); // the tracker first: it undoes what the journal does not know
        journal.restore()
    }
}

/// Looks who else manages memory here, says what will be done about each, and does it.
pub(crate) fn behave(
    root: &Root,
    journal: &Journal,
    options: &Options,
    pids: &[u32],
    plan: Plan,
) -> Result<Vec<String>> {
    let findings = citizen::look(root, &options.state_dir, pids, plan);
    citizen::apply(journal, root, &findings)?;
    Ok(findings.iter().map(told).collect())
}

/// The knob of policies that may page out private and shared memory, too.
const SWAP: &str = "swap";

/// What pages out for a policy that needs it.
fn pager(
    root: &Root,
    policy: &dyn Policy,
    options: &Options,
    targets: &Targets,
    notes: &mut Vec<String>,
) -> Result<Option<Pager>> {
    if !policy.needs().contains(&Capability::PageOut) {
        return Ok(None);
    }
    let ability = page_out::probe(root, targets.groups())?;
    notes.extend(about_swap(ability, policy, options)?);
    Ok(Some(Pager::new(root)))
}

/// What a user may want to change about swap.
fn about_swap(ability: Ability, policy: &dyn Policy, options: &Options) -> Result<Option<String>> {
    let may_swap = policy.knobs().iter().any(|knob| knob.name == SWAP);
    let swaps = options.knobs.iter().any(|(name, value)| name == SWAP && *value > 0.0);
    match ability.no_swap {
        Some(error) if swaps => Err(error),
        None if may_swap && !swaps => Ok(Some(format!(
            "only pages of files are paged out; private memory too with --knobs {SWAP}=1"
        ))),
        _ => Ok(None),
    }
}

fn told(finding: &Finding) -> String {
    match &finding.action {
        Action::SwitchOff { path, value } => {
            format!("{}: {path} is {value} while this runs", finding.what)
        }
        _ => format!("{}: {}", finding.what, finding.next_step),
    }
}

/// The policy that was asked for, with its knobs set.
fn policy(options: &Options) -> Result<Box<dyn Policy>> {
    let entry = PolicyEntry::find(&options.policy).ok_or_else(|| no_policy(&options.policy))?;
    let mut policy = (entry.make)();
    for (name, value) in &options.knobs {
        let known = policy.knobs();
        let knob = known.iter().find(|knob| knob.name == name);
        let fits = knob.is_some_and(|k| (k.range[0]..=k.range[1]).contains(value));
        if !fits || !policy.set(name, *value) {
            return Err(wrong_knob(entry.name, name, *value, &known));
        }
    }
    if policy.kernel().is_some() && (options.dry_run || options.tracker.is_some()) {
        return Err(Error::Input {
            what: "policy",
            found: entry.name.into(),
            why:
                "the kernel sees and moves by itself: it takes no tracker, and cannot be rehearsed"
                    .into(),
        });
    }
    Ok(policy)
}

fn wrong_knob(policy: &str, name: &str, value: f64, known: &[Knob]) -> Error {
    let one = |knob: &Knob| {
        let Knob { name, unit, range: [least, most], .. } = knob;
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        format!("{name} ({least} to {most}{unit})")
    };
    let known: Vec<String> = known.iter().map(one).collect();
    let why = match known.is_empty() {
        true => format!("policy {policy} has no knobs"),
        false => format!("policy {policy} has {}", known.join(", ")),
    };
    Error::Input { what: "knob", found: format!("{name}={value}"), why }
}

fn no_policy(name: &str) -> Error {
    let known: Vec<&str> = POLICIES.iter().map(|entry| entry.name).collect();
    Error::Missing {
        what: format!("policy {name:?}"),
        why: "there is no policy of that name".into(),
        hint: format!("choose one of {}", known.join(", ")),
    }
}

fn about_tiers(tiers: &Tiers) -> String {
    let one = |(_, tier): (TierId, &Tier)| {
        let nodes: Vec<String> = tier.nodes.iter().map(|node| node.0.to_string()).collect();
        format!("{} = node {} ({})", tier.name, nodes.join(","), tier.capacity)
    };
    format!("tiers: {}", tiers.iter().map(one).collect::<Vec<_>>().join(", "))
}

pub(crate) fn about_tracker(choice: &ladder::Choice) -> String {
    let name = choice.tracker.name();
    if choice.passed_over.is_empty() {
        return format!("tracker: {name}");
    }
    let why = |(name, error): &(&str, Error)| format!("\n  {name}: {error}");
    let passed: String = choice.passed_over.iter().map(why).collect();
    format!("tracker: {name}; better ones cannot be used here:{passed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(policy_name: &str, knobs: &[(&str, f64)]) -> Options {
        let knobs = knobs.iter().map(|(name, value)| ((*name).into(), *value)).collect();
        Options { policy: policy_name.into(), knobs, ..Options::default() }
    }

    #[test]
    fn knobs_are_set_within_their_range_and_others_are_told() {
        let tpp = policy(&with("tpp", &[("demote_scale", 0.05)])).expect("a policy");
        assert_eq!(tpp.name(), "tpp");
        for wrong in [("no_such", 1.0), ("demote_scale", 5.0)] {
            let error = policy(&with("tpp", &[wrong])).err().expect("refused").to_string();
            assert!(
                error.contains(wrong.0) && error.contains("demote_scale (0.001 to 0.2)"),
                "{error}"
            );
        }
        assert!(policy(&with("hold", &[("x", 1.0)])).is_err());
    }

    #[test]
    fn what_is_left_to_the_kernel_takes_no_tracker_and_no_rehearsal() {
        let kernel = policy(&with("kernel", &[("watermark_scale", 100.0)])).expect("a policy");
        assert_eq!(kernel.kernel().map(|knobs| knobs.watermark_scale), Some(100));
        let dry_run = Options { dry_run: true, ..with("kernel", &[]) };
        let tracked = Options { tracker: Some("accessed".into()), ..with("kernel", &[]) };
        assert!(policy(&dry_run).is_err() && policy(&tracked).is_err());
    }

    #[test]
    fn swap_is_needed_only_where_it_is_asked_for() {
        let about = |swaps: f64, no_swap: bool| {
            let options = with("first-touch+tmo", &[(SWAP, swaps)]);
            let error = || Error::Missing { what: SWAP.into(), why: "".into(), hint: "".into() };
            let ability = Ability { no_swap: no_swap.then(error) };
            let policy = policy(&options).expect("a policy");
            about_swap(ability, policy.as_ref(), &options)
        };
        assert!(about(1.0, true).is_err());
        assert_eq!(about(1.0, false).expect("there is swap"), None);
        assert_eq!(about(0.0, true).expect("files alone"), None);
        let note = about(0.0, false).expect("files alone").expect("a note");
        assert!(note.contains("--knobs swap=1"), "{note}");
        let (plain, mut notes) = (policy(&with("hold", &[])).expect("a policy"), Vec::new());
        let fake = crate::cgroup::tests::Fake::new();
        fake.put("/proc/1/stat", "");
        let targets = Targets::new(Selection::default(), &fake.root).expect("no targets");
        let none = pager(&fake.root, plain.as_ref(), &Options::default(), &targets, &mut notes);
        assert!(none.expect("not asked for").is_none() && notes.is_empty());
    }
}
