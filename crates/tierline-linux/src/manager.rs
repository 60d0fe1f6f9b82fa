// SPDX-License-Identifier: Apache-2.0
//! The manager: the core's engine over the Linux world, with targets, settings and status.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use tierline_core::engine::Engine;
use tierline_core::event::Event;
use tierline_core::knob::Knob;
use tierline_core::policy::Policy;
use tierline_core::policy::list::{POLICIES, PolicyEntry};
use tierline_core::port::{Attention, Capability};
use tierline_core::qos::Limits;
use tierline_core::tier::{Tier, TierId, Tiers};
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};

use crate::citizen::{self, Action, Finding, Plan};
use crate::error::{Error, Result};
use crate::journal::{Change, Journal};
use crate::kernel_tiering::KernelTiering;
use crate::loaded_latency::LoadedLatency;
use crate::mover::page_out::{self, Ability, Pager};
use crate::process::{Selection, Targets};
use crate::root::Root;
use crate::telemetry::Counters;
use crate::topology::{TierSpec, Topology};
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
    /// Bytes of fast memory that the managed programs may hold together.
    pub fast_limit: Option<Bytes>,
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
            fast_limit: None,
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

/// A manager at one moment. Sizes in bytes, times in seconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// Version of this layout.
    pub schema_version: u32,
    /// The manager's process.
    pub pid: u32,
    /// For how long it has been running.
    pub uptime_seconds: f64,
    /// The policy in use.
    pub policy: String,
    /// The tracker in use.
    pub tracker: String,
    /// `alert`, `moving` or `calm`.
    pub attention: String,
    /// True where nothing is moved.
    pub dry_run: bool,
    /// The managed processes.
    pub targets: Vec<TargetStatus>,
    /// The machine's tiers, fastest first.
    pub tiers: Vec<TierStatus>,
    /// Base pages promoted: by us, or by the kernel where tiering is left to it.
    pub promoted_pages: u64,
    /// Base pages demoted, likewise.
    pub demoted_pages: u64,
    /// Base pages that came back soon after a move.
    pub ping_pong_pages: u64,
    /// Moves that did not end as wanted, by outcome.
    pub failed_moves: BTreeMap<String, u64>,
    /// What the policy decided and what became of it, in base pages, as TPP counts it (5.5).
    pub tiering: tierline_core::counters::Counters,
    /// What the kernel counted meanwhile of its own tiering and of all page moves on the machine, by its names
    /// (`/proc/vmstat`); what stood still is left out.
    pub kernel: BTreeMap<String, u64>,
    /// Time spent inside `move_pages`.
    pub moving_seconds: f64,
    /// Samples taken in.
    pub samples: u64,
    /// Samples that the tracker lost.
    pub lost_samples: u64,
    /// CPU time of the manager itself.
    pub cpu_seconds: f64,
    /// CPU time of kernel threads that work for the tracker.
    pub kernel_cpu_seconds: f64,
    /// Resident memory of the manager.
    pub rss_bytes: u64,
    /// Of that, what is known of pages.
    pub metadata_bytes: u64,
    /// Memory managed.
    pub managed_bytes: u64,
    /// Settings of the machine that are changed while it runs: path, before, now.
    pub changes: Vec<(String, String, String)>,
    /// Hash of all events so far.
    pub fingerprint: String,
}

/// A managed process.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TargetStatus {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub comm: String,
}

/// A tier.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TierStatus {
    /// Its name.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<u16>,
    /// All of it.
    pub capacity_bytes: u64,
    /// Free, the kernel's reserves taken off.
    pub free_bytes: u64,
    /// Known to be held by the managed processes.
    pub managed_bytes: u64,
    /// Latency of a read, loaded where that is measured.
    pub latency_ns: Option<u64>,
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
        let mut limits = Limits::default();
        limits.set(tierline_core::port::TenantId::NOBODY, TierId::FAST, options.fast_limit);
        let latency = LoadedLatency::open(root, &tiers, &topology, options.latency_probe);
        let engine = Engine::new(tiers.clone(), limits, policy, options.max_rate);
        let mut world =
            LinuxWorld::new(root, tiers, targets, choice.tracker, latency, options.dry_run)?;
        inspector.into_iter().for_each(|inspector| world.inspect_with(inspector));
        pager.into_iter().for_each(|pager| world.page_out_with(pager));
        world.fits(engine.policy())?;
        let (root, started, due) = (root.clone(), None, Nanos::ZERO);
        Ok(Self { root, engine, world, journal, options, before, notes, started, due })
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
        self.world.take_problems()
    }

    /// How things stand.
    pub fn status(&self, now: Nanos) -> Status {
        let (engine, counts) = (&self.engine, &self.engine.migrator().counts);
        let (samples, lost_samples) = engine.samples();
        let (kernel, [kernel_promoted, kernel_demoted]) = self.kernel_moves();
        Status {
            schema_version: 1,
            pid: std::process::id(),
            uptime_seconds: now.saturating_sub(self.started.unwrap_or(now)).as_secs_f64(),
            policy: engine.policy().name().into(),
            tracker: self.world.tracker().name().into(),
            attention: match engine.attention() {
                Attention::Alert => "alert".into(),
                Attention::Moving => "moving".into(),
                Attention::Calm => "calm".into(),
            },
            dry_run: self.options.dry_run,
            targets: self.world.pids().map(|pid| self.target(pid)).collect(),
            tiers: engine.tiers().iter().map(|(id, tier)| self.tier(id, tier)).collect(),
            promoted_pages: counts.promoted_pages + kernel_promoted,
            demoted_pages: counts.demoted_pages + kernel_demoted,
            ping_pong_pages: counts.ping_pong_pages,
            failed_moves: counts.failed.iter().map(|(name, n)| ((*name).into(), *n)).collect(),
            tiering: counts.tiering,
            kernel,
            moving_seconds: counts.busy.as_secs_f64(),
            samples,
            lost_samples,
            cpu_seconds: own_cpu().as_secs_f64(),
            kernel_cpu_seconds: self.world.tracker().kernel_cpu().as_secs_f64(),
            rss_bytes: own_rss(&self.root),
            metadata_bytes: engine.pages().metadata_bytes() as u64,
            managed_bytes: Bytes::from_base_pages(engine.pages().base_pages()).0,
            changes: self.journal.changes().into_iter().map(change).collect(),
            fingerprint: format!("{:016x}", engine.fingerprint().0),
        }
    }

    /// What the kernel counted of moves since we began; and of that, where tiering is left to it, the pages
    /// that it promoted and demoted.
    fn kernel_moves(&self) -> (BTreeMap<String, u64>, [u64; 2]) {
        let now = Counters::vmstat(&self.root).unwrap_or_default();
        let told = now.of_moves();
        let since = now.since(&self.before).into_iter();
        let since: BTreeMap<String, u64> = since
            .filter(|(name, _)| told.contains_key(name))
            .map(|(name, count)| (name.to_string(), count))
            .collect();
        let sum = |prefix: &str| {
            since.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, count)| count).sum()
        };
        let own = self.engine.policy().kernel().is_some();
        let moved = if own { [sum("pgpromote_success"), sum("pgdemote_")] } else { [0, 0] };
        (since, moved)
    }

    fn target(&self, pid: u32) -> TargetStatus {
        let comm = self.root.read(format!("/proc/{pid}/comm")).unwrap_or_default();
        TargetStatus { pid, comm }
    }

    fn tier(&self, id: TierId, tier: &Tier) -> TierStatus {
        let measured = self.engine.telemetry().tiers.get(id.index()).copied().unwrap_or_default();
        TierStatus {
            name: tier.name.clone(),
            nodes: tier.nodes.iter().map(|node| node.0).collect(),
            capacity_bytes: tier.capacity.0,
            free_bytes: measured.free.0,
            managed_bytes: self.engine.pages().bytes_in(id).0,
            latency_ns: measured.latency.or(tier.latency).map(|latency| latency.0),
        }
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

fn change(change: Change) -> (String, String, String) {
    (change.path, change.original, change.current)
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
    let why = |(name, error): &(&str, Error)| format!("{name}: {error}");
    let passed: Vec<String> = choice.passed_over.iter().map(why).collect();
    format!("tracker: {name} (not {})", passed.join("; "))
}

fn own_cpu() -> Nanos {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanos) = (u64::try_from(t.tv_sec), u64::try_from(t.tv_nsec));
    Nanos::from_secs(seconds.unwrap_or(0)) + Nanos(nanos.unwrap_or(0))
}

/// Resident bytes by the second field of `statm`, in pages.
fn own_rss(root: &Root) -> u64 {
    let statm = root.read("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|field| field.parse().ok());
    Bytes::from_base_pages(pages.unwrap_or(0)).0
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
