// SPDX-License-Identifier: Apache-2.0
//! The Linux world: a tracker watches processes and `move_pages` moves pages.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;

use tierline_core::policy::{self, Policy, Wants};
use tierline_core::port::{
    Attention, Capabilities, Capability, Move, Observations, Order, Outcome, PageAddress, Question,
    SpaceEvent, SpaceId, Telemetry, TenantId, TenantTelemetry, Tracking, World,
};
use tierline_core::tier::{TierId, Tiers};
use tierline_core::unit::{Bytes, Nanos};

use crate::cgroup::Cgroup;
use crate::error::{Error, Result};
use crate::loaded_latency::LoadedLatency;
use crate::mover::page_out::Pager;
use crate::mover::{self, MovedPages, Mover};
use crate::nodes::{FrameTiers, Nodes};
use crate::page_cache::{self, PageCache};
use crate::pagemap::residence;
use crate::perf;
use crate::process::limits::look_pause;
use crate::process::{Maps, NamedRule, Targets};
use crate::resctrl::BandwidthMonitor;
use crate::root::Root;
use crate::telemetry::allocations::Allocations;
use crate::telemetry::page_in::PageIn;
use crate::telemetry::{self, NodeMemory};
use crate::tenant::cpu::CpuTimes;
use crate::tenant::reports::{Report, Reports};
use crate::tenant::usage::Usage;
use crate::tenant::{self, Tenant, Tenants};
use crate::tracker::Tracker;
use crate::tracker::cost::{CostMeter, RaisedPriority, thread_cpu};
use crate::tracker::inspect::{CENSUS_EVERY, Inspector};
use crate::tracker::units::Units;

/// Time between two readings of the processes and their mappings.
const LOOK_AROUND: Nanos = Nanos::from_secs(1);
/// Time between two readings of page sizes, if the tracker does not report them.
const SIZES_EVERY: Nanos = Nanos::from_secs(5);
/// Time for which measured telemetry is valid while nothing is moved.
const MEASURE_EVERY: Nanos = Nanos::from_secs(2);
/// The same for a policy that reclaims, and for limits: a burst of new pages must be noticed in time.
const MEASURE_OFTEN: Nanos = Nanos::from_millis(100);
/// The longest in calm.
const MEASURE_CALM: Nanos = Nanos::from_secs(5);
/// The same in times of its cost, which grows with the number of tenants: 10 % of a CPU, and in calm 0.2 %.
const MEASURE_PAUSE: [u64; 2] = [10, MEASURE_PAUSE_WAITING];
/// The same while nothing is moved: 0.2 %.
const MEASURE_PAUSE_WAITING: u64 = 512;
/// The same after moves, if that is shorter: 2 % of a CPU. What they free and use is known, what programs do meanwhile is not.
const MEASURE_PAUSE_MOVING: u64 = 50;

/// A running Linux as the engine's world.
pub struct LinuxWorld {
    root: Root,
    tiers: Tiers,
    targets: Targets,
    tenants: Tenants,
    usage: Usage,
    /// CPU time of applications; without a journal there are none.
    cpu: Option<CpuTimes>,
    /// Bandwidth of applications, where the machine measures it.
    bandwidth: Option<BandwidthMonitor>,
    reports: Reports,
    maps: BTreeMap<u32, Maps>,
    tracker: Box<dyn Tracker>,
    /// Converts scans for a policy that keeps its own heat.
    units: Option<Units>,
    /// Observes pages that the tracker does not, if the policy needs that.
    inspector: Option<Inspector>,
    /// The time of the last census; `None`: a process appeared since.
    counted: Option<Nanos>,
    mover: Mover,
    /// The huge pages that were split since the last `observe`.
    just_split: Vec<PageAddress>,
    /// Pages out, if the policy needs that.
    paging: Option<Paging>,
    /// Cold pages of files that give way, if the kernel can move them.
    page_cache: Option<PageCache>,
    latency: LoadedLatency,
    dry_run: bool,
    memory: Vec<NodeMemory>,
    /// The time of that measurement, unless another is due at once.
    measured: Option<Nanos>,
    allocations: Allocations,
    /// Whether pages were moved since.
    has_moved: bool,
    /// What it cost.
    measuring: Nanos,
    /// Whether placement is settled.
    calm: bool,
    /// The tiers of frames; `None` if the machine does not describe them.
    frames: Option<FrameTiers>,
    looked_around: Option<Nanos>,
    /// Time until the next reading: longer if it costs much.
    look_pause: Nanos,
    /// True once it was reported that more memory is mapped than can be managed.
    is_full: bool,
    /// The time of the tracker's last sample.
    last_sample: Option<Nanos>,
    /// CPU time of this thread when the last scan was reported, and what it spent on orders since.
    reported: Option<Nanos>,
    acted: Nanos,
    /// The time of the last reading of page sizes; `None`: a process appeared since.
    sized: Option<Nanos>,
    problems: Vec<Error>,
}

/// Paging out, and what it costs the programs.
struct Paging {
    pager: Pager,
    page_in: PageIn,
    /// Share of their time, as last measured.
    stall: Option<f64>,
}

impl LinuxWorld {
    /// A world of these processes; it changes nothing before the first `observe`.
    pub fn new(
        root: &Root,
        tiers: Tiers,
        targets: Targets,
        tracker: Box<dyn Tracker>,
        latency: LoadedLatency,
        dry_run: bool,
    ) -> Result<Self> {
        let memory = telemetry::nodes(root, &tiers)?;
        let frames = Nodes::read(root).ok().map(|nodes| nodes.by_tier(&tiers));
        Ok(Self {
            frames,
            root: root.clone(),
            tiers,
            targets,
            tenants: Tenants::default(),
            usage: Usage::new(perf::online_cpus(root).map_or(1, |cpus| cpus.len())),
            cpu: None,
            bandwidth: None,
            reports: Reports::default(),
            maps: BTreeMap::new(),
            tracker,
            units: None,
            inspector: None,
            counted: None,
            mover: Mover::new(root, mover::MoverSettings::default()),
            just_split: Vec::new(),
            paging: None,
            page_cache: None,
            latency,
            dry_run,
            memory,
            measured: None,
            allocations: Allocations::default(),
            has_moved: false,
            measuring: Nanos::ZERO,
            calm: false,
            looked_around: None,
            look_pause: LOOK_AROUND,
            is_full: false,
            last_sample: None,
            reported: None,
            acted: Nanos::ZERO,
            sized: None,
            problems: Vec::new(),
        })
    }

    /// Observes as a policy with these wants expects: one that keeps its own heat gets its own units, at a constant rate.
    pub fn prepare_for(&mut self, wants: Wants) {
        self.units = Units::of(wants.tracking.filter(|_| wants.own_heat));
    }

    /// Enables queries for pages that the tracker does not observe.
    pub fn inspect_with(&mut self, inspector: Inspector) {
        self.inspector = Some(inspector);
    }

    /// Enables paging out.
    pub fn page_out_with(&mut self, pager: Pager) {
        self.paging = Some(Paging { pager, page_in: PageIn::default(), stall: None });
    }

    /// Lets cold pages of files give way.
    pub fn use_page_cache(&mut self, page_cache: PageCache) {
        self.page_cache = Some(page_cache);
    }

    /// Assigns processes to these tenants.
    pub fn set_tenants(&mut self, tenants: Tenants) {
        self.tenants = tenants;
    }

    /// Enables limits on the CPU time of applications.
    pub fn limit_cpu_with(&mut self, cpu: CpuTimes) {
        self.cpu = Some(cpu);
    }

    /// Enables measuring the bandwidth of applications.
    pub fn measure_bandwidth_with(&mut self, monitor: BandwidthMonitor) {
        self.bandwidth = Some(monitor);
    }

    /// The tenant of a control group; it is added if it is not managed yet. `bandwidth` requires its cpu controller.
    ///
    /// # Errors
    /// Those of opening the group; nothing has changed then.
    pub fn host_group(&mut self, name: &str, cgroup: &str, bandwidth: bool) -> Result<usize> {
        let group = Cgroup::open(&self.root, cgroup)?;
        if bandwidth {
            group.cpu_max()?;
        }
        if let Some(at) = self.targets.groups().find(&self.root, cgroup)?
            && let Some(tenant) = self.tenants.tenant_of_group(at)
        {
            return Ok(tenant);
        }
        let target = tenant::Target::Cgroup(cgroup.into());
        self.host(Tenant { name: name.into(), target, limits: Vec::new() })
    }

    /// Adds the tenant of a control group or a rule; returns its index.
    ///
    /// # Errors
    /// Those of opening the group, and `Error::Input` if it is a tenant already; nothing has changed then.
    pub fn host(&mut self, tenant: Tenant) -> Result<usize> {
        let at = match &tenant.target {
            tenant::Target::Cgroup(path) => {
                let group = self.targets.add_group(&self.root, path)?;
                self.tenants.add_group(group, tenant)
            }
            tenant::Target::Rule(rule) => {
                let rule = NamedRule { name: tenant.name.clone(), rule: rule.clone() };
                let rule = self.targets.add_rule(rule);
                self.tenants.add_rule(rule, tenant)
            }
            tenant::Target::Command(_) | tenant::Target::Pids(_) => {
                let why = "only control groups and rules can be added to a running manager".into();
                return Err(Error::Input { what: "tenant", found: tenant.name, why });
            }
        };
        self.looked_around = None;
        Ok(at)
    }

    /// Removes a tenant: its processes are no longer managed, and stay as they are. False if it cannot be removed.
    pub fn release(&mut self, at: usize) -> bool {
        match (self.tenants.group_of(at), self.tenants.rule_of(at)) {
            (Some(group), _) => self.targets.remove_group(group),
            (None, Some(rule)) => self.targets.remove_rule(rule),
            (None, None) => return false,
        }
        self.tenants.remove(at);
        self.forget_measurements(at);
        self.cpu.iter_mut().for_each(|cpu| cpu.forget(at));
        (self.looked_around, self.measured) = (None, None);
        true
    }

    /// The tenant at an index is an application from now on.
    pub fn host_application(&mut self, tenant: usize, name: &str, cores: Option<f64>) {
        self.tenants.rename(tenant, name);
        if let Some(cpu) = &mut self.cpu {
            cpu.watch(tenant, cores);
        }
        self.bandwidth.iter_mut().for_each(|bandwidth| bandwidth.watch(tenant));
    }

    /// Memory that the group of a tenant uses; `None` if it is not known.
    pub fn charged(&self, tenant: usize) -> Option<Bytes> {
        let charged = self.group_of(tenant)?.usage_by_node().ok()??;
        Some(charged.iter().map(|one| one.user).sum())
    }

    /// Memory that a control group uses, managed or not; zero if that is not known.
    ///
    /// # Errors
    /// Those of opening the group.
    pub fn charged_to(&self, cgroup: &str) -> Result<Bytes> {
        let charged = Cgroup::open(&self.root, cgroup)?.usage_by_node();
        let charged = charged.ok().flatten().unwrap_or_default();
        Ok(charged.iter().map(|one| one.user).sum())
    }

    /// Takes in what an application reports about itself.
    pub fn report(&mut self, now: Nanos, tenant: usize, report: Report) {
        self.reports.put(now, tenant, report);
    }

    /// Forgets what an application reported, and stops measuring its bandwidth.
    pub fn forget_measurements(&mut self, tenant: usize) {
        self.reports.forget(tenant);
        self.bandwidth.iter_mut().for_each(|bandwidth| bandwidth.forget(tenant));
    }

    fn group_of(&self, tenant: usize) -> Option<&Cgroup> {
        self.targets.groups().get(self.tenants.group_of(tenant)?)
    }

    /// Lets the pages of these tenants decide how long the tracker watches; none: those of all.
    pub fn focus(&mut self, tenants: &BTreeSet<TenantId>) {
        let is_theirs = |pid: &u32| {
            let owner = self.tenants.tenant_of(*pid).map(tenant::id);
            owner.is_some_and(|owner| tenants.contains(&owner))
        };
        self.tracker.focus(&self.targets.pids().filter(is_theirs).map(SpaceId).collect());
    }

    /// The tenants, with the owners of processes.
    pub fn tenants(&self) -> &Tenants {
        &self.tenants
    }

    /// Checks whether this kernel can serve a policy.
    ///
    /// # Errors
    /// `Error::Missing`, with what is missing and the next step.
    pub fn check_policy(&self, policy: &dyn Policy) -> Result<()> {
        policy::check_capabilities(policy, self.capabilities()).map_err(|unfit| Error::Missing {
            what: format!("policy {}", unfit.policy),
            why: format!("it needs {}", unfit.missing),
            hint: match unfit.missing {
                Capability::TrueRates => format!(
                    "only a modelled machine provides them: tierline sim --policy {}",
                    unfit.policy
                ),
                Capability::PageOut => "choose a policy without +tmo: tierline policies".into(),
                Capability::Answers => "reading them needs root and /proc/kcore: tierline doctor \
                                        lists what is missing"
                    .into(),
                Capability::Split | Capability::KernelTiering | Capability::CpuShares => {
                    "tierline policies lists the others".into()
                }
            },
        })
    }

    /// Manages one more process, from the next `observe` on.
    pub fn add(&mut self, pid: u32) {
        self.targets.add(pid);
        self.looked_around = None;
    }

    /// The managed processes.
    pub fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.targets.pids()
    }

    /// What moves pages.
    pub fn mover(&self) -> &Mover {
        &self.mover
    }

    /// The tracker in use.
    pub fn tracker(&self) -> &dyn Tracker {
        self.tracker.as_ref()
    }

    /// The time of the tracker's last sample; `None` before the first.
    pub fn last_sample(&self) -> Option<Nanos> {
        self.last_sample
    }

    /// When to call `observe` next.
    pub fn next_due(&self) -> Nanos {
        if self.units.as_ref().is_some_and(Units::is_pending) {
            return Nanos::ZERO;
        }
        let look = self.looked_around.map_or(Nanos::ZERO, |at| at + self.look_pause);
        // Without a process there is nothing to track, and a manager may wait for the first one for days.
        match self.targets.pids().next() {
            Some(_) => self.tracker.next_due().min(look),
            None => look,
        }
    }

    /// Takes the errors since the last call that did not stop anything.
    pub fn take_errors(&mut self) -> Vec<Error> {
        self.problems.extend(self.mover.take_errors());
        self.problems.extend(self.paging.iter_mut().flat_map(|paging| paging.pager.take_errors()));
        std::mem::take(&mut self.problems)
    }

    /// Looks up the tiers of pages in samples without a tier.
    fn locate(&self, out: &mut Observations) {
        let Some(frames) = &self.frames else { return };
        for sample in out.samples.iter().filter(|sample| sample.tier.is_none()) {
            let pages = sample.vpn.0..sample.vpn.0 + u64::from(sample.base_pages);
            // The pages of a process that has ended, or hides its frames, keep their last known tiers.
            let _ = residence(&self.root, sample.space.0, pages, frames, &mut out.residence);
        }
    }

    /// Whether single pages are checked for accesses.
    pub(crate) fn checks_single_pages(&self) -> bool {
        self.inspector.is_some()
    }

    /// Whether bursts of new pages, or limits, need recent measurements.
    fn measures_closely(&self) -> bool {
        self.inspector.is_some() || !self.targets.groups().is_empty()
    }

    /// The time for which measured telemetry is valid.
    fn measure_pause(&self) -> Nanos {
        let most = if self.calm { MEASURE_CALM } else { MEASURE_EVERY };
        let often = self.measuring * MEASURE_PAUSE[usize::from(self.calm)];
        let pause = if self.measures_closely() {
            often.clamp(MEASURE_OFTEN, most)
        } else {
            // Pages may wait for room, in calm, too.
            (self.measuring * MEASURE_PAUSE_WAITING).clamp(MEASURE_OFTEN, MEASURE_EVERY)
        };
        match self.has_moved {
            true => pause.min(self.measuring * MEASURE_PAUSE_MOVING),
            false => pause,
        }
    }

    fn read_memory(&mut self) {
        if let Err(problem) = telemetry::read_again(&self.root, &mut self.memory) {
            // Unknown free memory counts as none: nothing is moved until it can be read again.
            self.memory.iter_mut().for_each(|node| node.free = Bytes::ZERO);
            self.problems.push(problem);
        }
    }

    /// Reads what the kernel reserves, too.
    fn read_reserves(&mut self) {
        match telemetry::nodes(&self.root, &self.tiers) {
            Ok(memory) => self.memory = memory,
            Err(problem) => self.problems.push(problem),
        }
    }

    fn refresh_targets(&mut self, now: Nanos, out: &mut Observations) {
        if self.looked_around.is_some_and(|at| now < at + self.look_pause) {
            return;
        }
        let meter = CostMeter::start();
        let own_budget = self.look_around(now, out);
        self.looked_around = Some(now);
        let cost = meter.cost().cpu.saturating_sub(own_budget);
        self.look_pause = look_pause(LOOK_AROUND, cost, self.calm);
    }

    /// Returns the cost of programs whose mappings are so many that they are read in their own time: they delay no others.
    fn look_around(&mut self, now: Nanos, out: &mut Observations) -> Nanos {
        let mut own_budget = Nanos::ZERO;
        self.read_reserves();
        let changes = self.targets.refresh(&self.root);
        for pid in &changes.gone {
            self.maps.remove(pid);
            out.space_events.push(SpaceEvent::Gone(SpaceId(*pid)));
        }
        self.tenants.forget(&changes.gone);
        self.tenants.assign(&self.targets, &mut out.space_events);
        self.report_vanished(&changes.removed_groups);
        self.limit_again(&changes.replaced);
        for pid in &changes.appeared {
            self.maps.insert(*pid, Maps::new(SpaceId(*pid)));
        }
        for (pid, maps) in &mut self.maps {
            if now < maps.due || self.targets.stat(*pid).is_some_and(|stat| maps.is_idle(stat)) {
                continue;
            }
            let begun = thread_cpu();
            if let Err(problem) = maps.refresh(&self.root, &mut out.space_events) {
                self.problems.push(problem);
            }
            self.problems.extend(maps.take_left_out());
            let cost = thread_cpu().saturating_sub(begun);
            let pause = look_pause(LOOK_AROUND, cost, false);
            if pause > LOOK_AROUND {
                maps.due = now + pause;
                own_budget += cost;
            }
        }
        for event in &out.space_events {
            if let SpaceEvent::Mapped(mapping) = event {
                self.tracker.report_again(mapping);
            }
        }
        self.problems.extend(self.targets.take_left_out());
        self.problems.extend(self.targets.take_doubts());
        self.report_if_full();
        if !changes.appeared.is_empty() {
            (self.sized, self.counted) = (None, None);
        }
        self.refresh_sizes(now, out);
        if !changes.gone.is_empty() || !changes.appeared.is_empty() {
            let spaces: Vec<SpaceId> = self.targets.pids().map(SpaceId).collect();
            if let Err(problem) = self.tracker.watch(&spaces) {
                self.problems.push(problem);
            }
        }
        own_budget
    }

    /// The core has an index for each managed page; without one, a mapping is not managed.
    fn report_if_full(&mut self) {
        let pages: u64 = self.maps.values().map(Maps::pages).sum();
        if pages > u64::from(u32::MAX) && !std::mem::replace(&mut self.is_full, true) {
            self.problems.push(Error::Missing {
                what: "managing all chosen programs".into(),
                why: format!(
                    "they map {}, and 16 TiB can be managed: the mappings found last are left out",
                    Bytes::from_base_pages(pages)
                ),
                hint: "choose fewer programs, or leave out those that reserve address space".into(),
            });
        }
    }

    fn report_vanished(&mut self, groups: &[usize]) {
        let names = groups.iter().filter_map(|&at| self.targets.groups().get(at));
        self.problems.extend(names.map(|group| Error::Missing {
            what: format!("cgroup {:?}", group.typed_name()),
            why: "it was removed; its tenant has ended, the other tenants stay managed".into(),
            hint: "a new group of this name is managed again".into(),
        }));
    }

    /// Limits the CPU time of groups that took the place of removed ones.
    fn limit_again(&mut self, groups: &[usize]) {
        let Some(cpu) = &mut self.cpu else { return };
        for &at in groups {
            if let (Some(tenant), Some(group)) =
                (self.tenants.tenant_of_group(at), self.targets.groups().get(at))
            {
                self.problems.extend(cpu.limit_again(tenant, group).err());
            }
        }
    }

    /// Measurements of tenants: memory, demand, and what they report.
    fn tenant_telemetry(&self, now: Nanos) -> Vec<TenantTelemetry> {
        let mut telemetry = self.usage.telemetry();
        for one in &mut telemetry {
            let Some(at) = tenant::index(one.tenant) else { continue };
            one.demand = self.cpu.as_ref().and_then(|cpu| cpu.demand(at));
            let measured = self.bandwidth.as_ref().and_then(|bandwidth| bandwidth.of(at));
            one.bandwidth.extend(measured);
            self.reports.fill(now, at, one);
        }
        telemetry
    }

    /// Adjusts usage for the moves that were carried out, until usage is read again.
    fn adjust_usage(&mut self, orders: &[Order], outcomes: &[Outcome]) {
        let done = orders.iter().zip(outcomes).filter(|(_, outcome)| **outcome == Outcome::Done);
        let mut promoted = 0;
        for moved in done.filter_map(|(order, _)| order.as_move()) {
            promoted += if moved.to < moved.from { moved.size.base_pages() } else { 0 };
            if let Some(tenant) = self.tenants.tenant_of(moved.space.0) {
                self.usage.record_move(tenant, &moved);
            }
        }
        self.tracker.record_promotions(promoted);
    }

    fn measure_page_in(&mut self, now: Nanos) {
        let Some(paging) = &mut self.paging else { return };
        match paging.page_in.stall_share(now, &self.root, self.targets.groups()) {
            Ok(stall) => paging.stall = stall.or(paging.stall),
            Err(problem) => {
                paging.stall = None;
                self.problems.push(problem);
            }
        }
    }

    /// Tells the tracker what the manager spent on its last report, without moves.
    fn record_processing(&mut self) {
        let acted = std::mem::take(&mut self.acted);
        if let Some(reported) = self.reported.take() {
            let spent = thread_cpu().saturating_sub(reported).saturating_sub(acted);
            self.tracker.record_processing(spent);
        }
    }

    fn count_pages(&mut self, now: Nanos, out: &mut Observations) {
        let Some(inspector) = &mut self.inspector else { return };
        if self.counted.is_none_or(|at| now >= at + CENSUS_EVERY) {
            self.counted = Some(now);
            let spaces: Vec<SpaceId> = self.targets.pids().map(SpaceId).collect();
            inspector.census(&spaces, out);
        }
    }

    fn refresh_sizes(&mut self, now: Nanos, out: &mut Observations) {
        let due = self.sized.is_none_or(|at| now >= at + SIZES_EVERY);
        if !due || self.tracker.reports_page_sizes() {
            return;
        }
        self.sized = Some(now);
        for maps in self.maps.values() {
            if let Err(problem) = maps.sizes(&self.root, &mut out.space_events) {
                self.problems.push(problem);
            }
        }
    }
}

impl LinuxWorld {
    fn move_pages(
        &mut self,
        now: Nanos,
        orders: &[Order],
        which: MovedPages,
        out: &mut Vec<Outcome>,
    ) {
        let moves: Vec<Move> = orders.iter().filter_map(Order::as_move).collect();
        for alike in moves.chunk_by(|a, b| a.to == b.to) {
            let (to, tiers) = (alike[0].to, &self.tiers);
            let targets = self.memory.iter_mut().filter(|one| tiers.of_node(one.node) == Some(to));
            self.problems.extend(telemetry::subtract_allocated(&self.root, targets).err());
            let wanted = alike.iter().map(|one| one.size.bytes()).sum();
            self.make_room(to, wanted, now);
            self.mover.migrate(alike, which, &self.tiers, &mut self.memory, out);
        }
    }

    /// The memory of a tier's nodes.
    fn nodes_of(&self, tier: TierId) -> impl Iterator<Item = &NodeMemory> {
        self.memory.iter().filter(move |node| self.tiers.of_node(node.node) == Some(tier))
    }

    /// What cold pages of files can make free in a node.
    fn may_free(&self, node: &NodeMemory, now: Nanos) -> Bytes {
        let Some((cache, tier)) = self.page_cache.as_ref().zip(self.tiers.of_node(node.node))
        else {
            return Bytes::ZERO;
        };
        let below = self.nodes_of(TierId(tier.0 + 1));
        let below = below.map(|node| node.usable() + self.may_free(node, now)).sum();
        cache.may_free(node.node, node.cold_files, below, now)
    }

    /// Lets cold pages of files give way to what programs will allocate in fast memory.
    fn keep_headroom(&mut self, now: Nanos) {
        let capacity = self.tiers[TierId::FAST].capacity;
        if let Some(cache) = &mut self.page_cache {
            let wanted = cache.headroom(self.allocations.counted(), capacity);
            self.has_moved = self.make_room(TierId::FAST, wanted, now);
        }
    }

    /// Lets cold pages of files give way to `wanted` bytes for a tier, if these find no room otherwise. True if some did.
    fn make_room(&mut self, to: TierId, wanted: Bytes, now: Nanos) -> bool {
        let [usable, lacking]: [Bytes; 2] =
            [NodeMemory::usable, NodeMemory::lacking].map(|part| self.nodes_of(to).map(part).sum());
        let wanted = if usable == Bytes::ZERO { wanted + lacking } else { wanted };
        let short = wanted.saturating_sub(usable);
        let nodes = self.nodes_of(to).map(|node| (self.may_free(node, now), *node));
        let Some((available, before)) = nodes.max_by_key(|(available, _)| *available) else {
            return false;
        };
        if short.0 == 0 || available.0 == 0 {
            return false;
        }
        if to < self.tiers.slowest() {
            self.make_room(TierId(to.0 + 1), page_cache::lot(short, available), now);
        }
        let Some(cache) = &mut self.page_cache else { return false };
        let asked = cache.make_room(before.node, short, available, now).unwrap_or_else(|problem| {
            self.problems.push(problem);
            Bytes::ZERO
        });
        self.read_memory();
        let Some(after) = self.memory.iter_mut().find(|one| one.node == before.node) else {
            return false;
        };
        // The kernel keeps some of what was freed in lists of this CPU, and counts it as free later.
        let freed = before.files.saturating_sub(after.files);
        after.free = after.free.max(before.free + freed);
        if let Some(cache) = &mut self.page_cache
            && freed.0 < asked.0 / 2
        {
            cache.leave_alone(before.node, now);
        }
        freed > Bytes::ZERO
    }

    fn page_out(&mut self, orders: &[Order], out: &mut Vec<Outcome>) {
        let pages: Vec<PageAddress> = orders.iter().map(Order::page).collect();
        match &mut self.paging {
            Some(paging) => paging.pager.page_out(&pages, out),
            None => out.extend(pages.iter().map(|_| Outcome::Refused)),
        }
    }

    fn split_pages(&mut self, orders: &[Order], out: &mut Vec<Outcome>) {
        let pages: Vec<PageAddress> = orders.iter().map(Order::page).collect();
        match mover::split::split(&self.root, &pages) {
            Ok(done) => {
                let split = pages.into_iter().zip(&done).filter(|(_, done)| **done);
                self.just_split.extend(split.map(|(page, _)| page));
                out.extend(done.iter().map(|&done| match done {
                    true => Outcome::Done,
                    false => Outcome::Busy,
                }));
            }
            Err(problem) => {
                self.problems.push(problem);
                out.extend(pages.iter().map(|_| Outcome::Refused)); // it is unknown which pages are split
            }
        }
    }
}

impl World for LinuxWorld {
    fn observe(&mut self, now: Nanos, out: &mut Observations) {
        self.record_processing();
        out.fast_untracked = !self.tracker.observes_fast_memory();
        out.looks_into_splits = self.tracker.looks_into_splits();
        // Here and not in `act`: a look takes longer than a split, and would count as its cost.
        if !self.just_split.is_empty() {
            self.tracker.look_into(&std::mem::take(&mut self.just_split), &mut out.spreads);
        }
        self.refresh_targets(now, out);
        self.count_pages(now, out);
        if now >= self.tracker.next_due()
            && let Err(problem) = self.tracker.poll(now, out)
        {
            self.problems.push(problem);
        }
        if !out.samples.is_empty() {
            self.last_sample = Some(now);
        }
        // What a scan has found is placed now, in the room that there is now.
        if out.window.is_some() {
            self.read_memory();
        }
        self.locate(out);
        if let Some(units) = &mut self.units {
            units.convert(now, out);
        } else if out.window.is_some() {
            self.reported = Some(thread_cpu());
        }
    }

    fn measure(&mut self, now: Nanos) -> Telemetry {
        if self.measured.is_none_or(|at| now >= at + self.measure_pause()) {
            let meter = CostMeter::start();
            (self.measured, self.has_moved) = (Some(now), false);
            self.read_memory();
            let free = self.memory.iter().map(|node| node.free + node.cold_files).sum();
            self.allocations.update(now, &self.root, self.targets.pids(), free);
            self.measure_page_in(now);
            let (groups, problems) = (self.targets.groups(), &mut self.problems);
            self.usage.refresh(now, groups, &self.tenants, &self.tiers, problems);
            if let Some(cpu) = &mut self.cpu {
                let group = |tenant| groups.get(self.tenants.group_of(tenant)?);
                cpu.refresh(now, group, problems);
            }
            if let Some(bandwidth) = &mut self.bandwidth {
                bandwidth.refresh(now, |tenant| self.tenants.processes_of(tenant), problems);
            }
            self.measuring = meter.cost().cpu;
            self.keep_headroom(now);
        }
        let page_in_stall = self.paging.as_ref().and_then(|paging| paging.stall);
        let mut tiers =
            telemetry::tiers(&self.tiers, &self.memory, |node| self.may_free(node, now));
        self.latency.update(now, &mut tiers);
        let counted = self.tracker.take_device_counts();
        let tenants = self.tenant_telemetry(now);
        let allocated = Some(self.allocations.counted());
        Telemetry { tiers, allocated, counted, page_in_stall, tenants, ..Telemetry::default() }
    }

    fn capabilities(&self) -> Capabilities {
        use Capability::{Answers, CpuShares, KernelTiering, PageOut, Split};
        Capabilities::of([KernelTiering, Split])
            .with(Answers, self.inspector.is_some())
            .with(PageOut, self.paging.is_some())
            .with(CpuShares, self.cpu.is_some())
    }

    fn act(&mut self, now: Nanos, orders: &[Order], out: &mut Vec<Outcome>) -> Nanos {
        if self.dry_run {
            out.extend(orders.iter().map(|_| Outcome::Skipped));
            return Nanos::ZERO;
        }
        self.has_moved = true;
        let (meter, first) = (CostMeter::start(), out.len());
        // Moves take the same time whenever they are made, and those made early repay early.
        let _urgent = RaisedPriority::begin();
        for alike in orders.chunk_by(|a, b| discriminant(a) == discriminant(b)) {
            match alike[0] {
                Order::Move(_) => self.move_pages(now, alike, MovedPages::Own, out),
                Order::MoveShared(_) => self.move_pages(now, alike, MovedPages::All, out),
                Order::Split(_) => self.split_pages(alike, out),
                Order::PageOut(_) => self.page_out(alike, out),
            }
        }
        self.adjust_usage(orders, &out[first..]);
        let cost = meter.cost();
        self.acted += cost.cpu;
        cost.wall
    }

    fn set_attention(&mut self, attention: Attention) {
        // Published systems observe at a constant rate; their thresholds and periods are set for it.
        if self.units.is_none() {
            self.calm = attention == Attention::Calm;
            self.tracker.set_attention(attention);
        }
    }

    fn configure_tracking(&mut self, watch: Tracking) -> bool {
        self.tracker.reconfigure(watch).unwrap_or_else(|problem| {
            self.problems.push(problem);
            false
        })
    }

    fn limit_cpu(&mut self, tenant: TenantId, share: f64) {
        let groups = self.targets.groups();
        let found = tenant::index(tenant).and_then(|at| Some((at, self.tenants.group_of(at)?)));
        let group = found.and_then(|(at, group)| Some((at, groups.get(group)?)));
        if let (Some(cpu), Some((at, group)), false) = (&mut self.cpu, group, self.dry_run) {
            self.problems.extend(cpu.limit(at, group, share).err());
        }
    }

    fn check_accessed(&mut self, _now: Nanos, questions: &[Question], out: &mut Vec<bool>) {
        if let Some(inspector) = &mut self.inspector {
            inspector.check_accessed(questions, out);
        }
    }
}
